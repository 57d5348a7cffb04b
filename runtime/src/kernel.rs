//! A schedule compiled for a target: its plan and its PTX, made once per process.

use std::sync::{Arc, LazyLock};

use ptx_gemm_codegen::Compiled;
use ptx_gemm_dsl::{Plan, Schedule, Target};
use ptx_gemm_ptx::module::Module;

use crate::cache::OncePerKey;
use crate::error::Error;

/// Kernels kept by the process; one is about 200 KB.
const KEPT: usize = 128;

/// A schedule's canonical text, and the target.
pub(crate) type Key = (String, Target);

static KERNELS: LazyLock<OncePerKey<Key, Result<Arc<Kernel>, Error>>> = LazyLock::new(|| OncePerKey::new(KEPT));

/// A compiled schedule.
#[derive(Debug)]
pub struct Kernel {
    key: Key,
    plan: Plan,
    compiled: Compiled,
}

impl Kernel {
    /// Compiles `schedule` for `target` (`None`: the target it names, else the lowest that suffices), or takes what this
    /// process has compiled before.
    pub fn compile(schedule: &Schedule, target: Option<Target>) -> Result<Arc<Kernel>, Error> {
        // Planned every time: what is wrong has places in this schedule's own source, which equal text need not share.
        let plan = schedule.plan(target)?;
        let key = (schedule.to_string(), plan.target);
        KERNELS.get(&key, || {
            let compiled = ptx_gemm_codegen::compile(&plan)?;
            Ok(Arc::new(Kernel { key: key.clone(), plan, compiled }))
        })
    }

    /// The same for a device: for the target that the schedule names, else for the newest that the device runs, whose
    /// limits decide how many blocks a multiprocessor is to hold. A device without a target runs any.
    pub fn compile_for(schedule: &Schedule, device: Option<Target>) -> Result<Arc<Kernel>, Error> {
        let newest = device.and_then(|device| Target::newest(device.capability));
        // A schedule that names another target, or needs one with more, says so when it is asked for its own.
        newest
            .and_then(|target| Kernel::compile(schedule, Some(target)).ok())
            .map_or_else(|| Kernel::compile(schedule, None), Ok)
    }

    /// Every number that follows from the schedule.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The PTX text.
    pub fn ptx(&self) -> &str {
        &self.compiled.ptx
    }

    /// The PTX as data.
    pub fn module(&self) -> &Module {
        &self.compiled.module
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}
