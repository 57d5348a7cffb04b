//! A checked schedule, and everything that can be derived from it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ptx_gemm_codegen::{Compiled, Observer};
use ptx_gemm_dsl::{Diagnostics, Plan, Schedule, Target};
use ptx_gemm_runtime::{CompiledGemm, Device, Error, Kernel};

use crate::abi::Abi;

pub use ptx_gemm_codegen::Level;

/// A legal schedule: the value of `gemm!`, or text or a builder's [`Schedule`] after it has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    schedule: Schedule,
}

impl Gemm {
    /// Checks a schedule. The error lists everything that is wrong with it.
    pub fn new(schedule: Schedule) -> Result<Gemm, Diagnostics> {
        schedule.check()?;
        Ok(Gemm { schedule })
    }

    /// A schedule that has been checked elsewhere.
    pub(crate) fn unchecked(schedule: Schedule) -> Gemm {
        Gemm { schedule }
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Every number that follows from the schedule, for the given target; with `None`, for the one that the
    /// schedule names, or else for the lowest that suffices.
    pub fn plan(&self, target: impl Into<Option<Target>>) -> Result<Plan, Diagnostics> {
        self.schedule.plan(target.into())
    }

    /// The compiled kernel: its interface and its PTX.
    pub fn compile(&self, target: impl Into<Option<Target>>) -> Result<Arc<Kernel>, Error> {
        Kernel::compile(&self.schedule, target.into())
    }

    /// The PTX text. Equal schedules and targets always give equal bytes.
    pub fn ptx(&self, target: impl Into<Option<Target>>) -> Result<String, Error> {
        Ok(self.compile(target)?.ptx().into())
    }

    /// How the PTX is launched: entries, parameters, grid, block, shared memory.
    pub fn abi(&self, target: impl Into<Option<Target>>) -> Result<Abi, Error> {
        Ok(Abi::of(&*self.compile(target)?))
    }

    /// The text of one level, all entries one after another.
    pub fn ir(&self, level: Level, target: impl Into<Option<Target>>) -> Result<String, Error> {
        let plan = self.plan(target)?;
        text_of(level, |observer| Ok(ptx_gemm_codegen::compile_observed(&plan, Some(observer))?))
    }

    /// Compiles and loads it on a device.
    pub fn on(&self, device: &Device) -> Result<CompiledGemm, Error> {
        CompiledGemm::new(&self.schedule, device)
    }
}

/// The text of a level, as the compiler prints it.
pub(crate) fn text_of(
    level: Level,
    compile: impl FnOnce(Observer<'_>) -> Result<Compiled, Error>,
) -> Result<String, Error> {
    let mut text = String::new();
    let mut observer = |reached, entry: &str| {
        if reached == level {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(entry);
        }
    };
    compile(&mut observer)?;
    Ok(text)
}

impl FromStr for Gemm {
    type Err = Diagnostics;

    /// Reads and checks a text, and chooses values for what is open in it ([`choose::fill`](crate::choose::fill)).
    fn from_str(text: &str) -> Result<Gemm, Diagnostics> {
        Gemm::new(ptx_gemm_choose::fill(text)?.schedule)
    }
}

impl TryFrom<Schedule> for Gemm {
    type Error = Diagnostics;

    fn try_from(schedule: Schedule) -> Result<Gemm, Diagnostics> {
        Gemm::new(schedule)
    }
}

impl fmt::Display for Gemm {
    /// The schedule's canonical text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schedule.fmt(f)
    }
}
