//! Whether a device still takes work: a kernel that does something illegal ends its context, for good.

use std::sync::OnceLock;

use crate::error::DeviceError;

/// What is remembered of a device's death.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The driver's error code.
    died_of: OnceLock<String>,
}

impl Health {
    /// An error once the device is dead, before the driver is asked for anything.
    pub(crate) fn check(&self, device: &str) -> Result<(), DeviceError> {
        match self.died_of.get() {
            None => Ok(()),
            Some(code) => Err(DeviceError::ContextLost { device: device.into(), code: code.clone() }),
        }
    }

    /// The device has died: told in full to the one who saw it first, in short to all others.
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
