//! Devices: CUDA GPUs, and the interpreter that runs the same PTX on the CPU.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::backend::{Backend, Limits, Module};
use crate::cache::OncePerKey;
use crate::error::Error;
use crate::interpreter::{Interpreter, InterpreterOptions};
use crate::kernel::{Kernel, Key};

/// Loaded kernels that one device keeps.
const LOADED: usize = 128;

/// A device that runs kernels. It is cheap to clone, and can be shared freely between threads.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
    /// Why it is not a GPU, if a GPU was looked for.
    instead_of_cuda: Option<Arc<Error>>,
}

#[derive(Debug)]
struct Inner {
    kind: DeviceKind,
    backend: Arc<dyn Backend>,
    modules: OncePerKey<Key, Result<Arc<dyn Module>, Error>>,
}

/// The two kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
    /// The PTX interpreter of this project, on the CPU.
    Interpreter,
}

impl Device {
    /// The first CUDA GPU, or else the interpreter; [`Device::why_not_cuda`] and the device's `Display` say why.
    pub fn best() -> Result<Device, Error> {
        Ok(Device::cuda(0).unwrap_or_else(|why| Device { instead_of_cuda: Some(why.into()), ..Device::interpreter() }))
    }

    /// Why [`Device::best`] chose the interpreter; `None` on a GPU, and if the interpreter was requested.
    pub fn why_not_cuda(&self) -> Option<&Error> {
        self.instead_of_cuda.as_deref()
    }

    /// A CUDA GPU by its number. Returns an error without a driver or without the feature `cuda`.
    pub fn cuda(ordinal: usize) -> Result<Device, Error> {
        let backend = crate::cuda::open(ordinal)?;
        Ok(Device::with(DeviceKind::Cuda(ordinal), backend))
    }

    /// The interpreter with its default options. Every call returns the same device.
    pub fn interpreter() -> Device {
        static DEFAULT: OnceLock<Device> = OnceLock::new();
        DEFAULT.get_or_init(|| Device::interpreter_with(InterpreterOptions::default())).clone()
    }

    /// A separate interpreter.
    pub fn interpreter_with(options: InterpreterOptions) -> Device {
        Device::with(DeviceKind::Interpreter, Arc::new(Interpreter::new(options)))
    }

    /// A separate interpreter in which a wave of a persistent grid has `blocks` blocks instead of
    /// [`INTERPRETER_WAVE`](crate::INTERPRETER_WAVE): fewer are enough to count the work of one of them.
    pub fn interpreter_of_wave(options: InterpreterOptions, blocks: u32) -> Device {
        Device::with(DeviceKind::Interpreter, Arc::new(Interpreter::new(options).of_wave(blocks)))
    }

    pub(crate) fn with(kind: DeviceKind, backend: Arc<dyn Backend>) -> Device {
        Device { inner: Arc::new(Inner { kind, backend, modules: OncePerKey::new(LOADED) }), instead_of_cuda: None }
    }

    /// A GPU or the interpreter.
    pub fn kind(&self) -> DeviceKind {
        self.inner.kind
    }

    /// The name of the device: a GPU's model, or the interpreter and its threads.
    pub fn name(&self) -> &str {
        self.inner.backend.name()
    }

    /// The limits of a block.
    pub fn limits(&self) -> &Limits {
        self.inner.backend.limits()
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    /// Whether addresses of one are addresses of the other: two devices for one GPU have one context.
    pub(crate) fn shares_memory_with(&self, other: &Device) -> bool {
        let (one, two) = (self.backend(), other.backend());
        Arc::ptr_eq(one, two) || one.address_space().is_some_and(|space| two.address_space() == Some(space))
    }

    /// Whether both are the same GPU, or the same interpreter: kernels of one run on the other.
    pub fn is_same(&self, other: &Device) -> bool {
        self.kind() == other.kind() && self.shares_memory_with(other)
    }

    pub(crate) fn module(&self, kernel: &Arc<Kernel>) -> Result<Arc<dyn Module>, Error> {
        let module = self.inner.modules.get(kernel.key(), || self.inner.backend.load(kernel));
        if matches!(module, Err(Error::Device(_))) {
            // Memory may be available at the next attempt.
            self.inner.modules.forget(kernel.key());
        }
        module
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner.kind {
            DeviceKind::Cuda(ordinal) => write!(f, "CUDA device {ordinal}: {}", self.name()),
            DeviceKind::Interpreter => f.write_str(self.name()),
        }?;
        match &self.instead_of_cuda {
            // The interpreter is in use already, so this does not suggest it.
            Some(why) => write!(f, " ({})", why.to_string().split(';').next().unwrap_or_default()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}
