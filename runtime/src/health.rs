//! Tracks whether a device still accepts work: a kernel that does something illegal ends its context permanently.

use std::sync::OnceLock;

use crate::error::DeviceError;

/// What is known about a device's death.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The driver's error code.
    died_of: OnceLock<String>,
}

impl Health {
    /// Returns an error if the device is dead, before the driver is called.
    pub(crate) fn check(&self, device: &str) -> Result<(), DeviceError> {
        match self.died_of.get() {
            None => Ok(()),
            Some(code) => Err(DeviceError::ContextLost { device: device.into(), code: code.clone() }),
        }
    }

    /// Records that the device has died. The first call that notices reports it in full, all others briefly.
    pub(crate) fn died(&self, device: &str, code: String) -> DeviceError {
        match self.died_of.set(code.clone()) {
            Ok(()) => DeviceError::ContextDead { device: device.into(), code },
            Err(_) => match self.check(device) {
                Err(lost) => lost,
                Ok(()) => DeviceError::ContextDead { device: device.into(), code },
            },
        }
    }
}
