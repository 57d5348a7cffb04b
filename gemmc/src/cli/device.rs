//! The values of `--device`.

use std::fmt;

use ptx_gemm::{Device, Error};

/// A device by name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceName {
    Best,
    Interpreter,
    Cuda(usize),
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Best => f.write_str("best"),
            DeviceName::Interpreter => f.write_str("interp"),
            DeviceName::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl DeviceName {
    pub(super) fn parse(text: &str) -> Result<DeviceName, String> {
        match (text, text.strip_prefix("cuda:").map(str::parse)) {
            ("best", _) => Ok(DeviceName::Best),
            ("interp" | "interpreter", _) => Ok(DeviceName::Interpreter),
            ("cuda", _) => Ok(DeviceName::Cuda(0)),
            (_, Some(Ok(ordinal))) => Ok(DeviceName::Cuda(ordinal)),
            _ => Err("one of best, interp, cuda:N".into()),
        }
    }

    pub(crate) fn open(self, misalign: u32) -> Result<Device, Error> {
        let interpreter = || match misalign {
            0 => Device::interpreter(),
            _ => Device::interpreter_with(ptx_gemm::InterpreterOptions { misalign, ..Default::default() }),
        };
        match self {
            // Only the interpreter supports unaligned pointers.
            DeviceName::Best if misalign > 0 => Ok(interpreter()),
            DeviceName::Best => Device::best(),
            DeviceName::Interpreter => Ok(interpreter()),
            DeviceName::Cuda(ordinal) => Device::cuda(ordinal),
        }
    }
}
