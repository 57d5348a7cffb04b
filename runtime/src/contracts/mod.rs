//! Checks the contracts of `expect` that need machine code or a run, and reports the results of all contracts.
//!
//! Contracts about figures of the plan are checked before anything is compiled. Spills, registers and the size of the
//! code are known to the tool that makes machine code: the driver, for a kernel that is loaded on a GPU, or else ptxas,
//! if it is found. With neither, the contract is reported as unchecked, and the kernel is still used. Errors of
//! products are measured on the device that a kernel is loaded on.

mod accuracy;
mod assembler;
mod cubin;

use std::collections::BTreeMap;
use std::fmt;

use ptx_gemm_dsl::clause::{Expectation, Metric};
use ptx_gemm_dsl::contract::{FigureSource, Measured};
use ptx_gemm_dsl::{Figure, Plan, Schedule};

use crate::error::Error;

pub(crate) use accuracy::{Accuracy, measure};
pub use assembler::{Assembler, Assembly};
#[cfg(feature = "cuda")]
pub(crate) use cubin::code_bytes;

/// The machine code of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCode {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of spilled registers that a thread stores. A driver reports the memory that a thread has for them.
    pub spill_stores: u32,
    /// The same, loaded.
    pub spill_loads: u32,
    /// Bytes of instructions.
    pub code_bytes: u64,
}

/// Machine code of a module's entries, and the tool that made it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) by: String,
    pub(crate) entries: BTreeMap<String, MachineCode>,
}

/// The result of a contract.
#[derive(Clone, Debug, PartialEq)]
pub enum Contract {
    /// It was checked against a figure.
    Measured(Measured),
    /// The figure is not known here.
    Unchecked {
        /// As the schedule states it.
        contract: Expectation,
        /// Why it is not known, and what would help.
        why: String,
    },
}

impl Contract {
    /// Whether the figure is known and breaks the contract.
    pub fn is_broken(&self) -> bool {
        matches!(self, Contract::Measured(measured) if !measured.holds())
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contract::Measured(measured) => measured.fmt(f),
            Contract::Unchecked { contract, why } => write!(f, "`{contract}` is not checked here: {why}"),
        }
    }
}

/// The error of a product, and the name of the device that computed it.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) by: String,
    pub(crate) accuracy: Accuracy,
}

/// Every contract of a plan: about figures that the plan knows, about machine code, and about results.
pub(crate) fn of_plan(
    plan: &Plan,
    made: impl FnOnce() -> Result<Made, String>,
    ran: &Result<Ran, String>,
) -> Vec<Contract> {
    let mut all: Vec<Contract> = plan.measured().into_iter().map(Contract::Measured).collect();
    all.extend(plan.unrun().map(|contract| match ran {
        Ok(Ran { by, accuracy: Accuracy { figure, extents } }) => Contract::Measured(Measured {
            contract: *contract,
            figure: *figure,
            entry: None,
            source: FigureSource::Run(*extents, by.clone()),
            look_at: plan.look_at(contract.metric),
        }),
        Err(why) => Contract::Unchecked { contract: *contract, why: why.clone() },
    }));
    let assembled: Vec<&Expectation> = plan.unmeasured().collect();
    if assembled.is_empty() {
        return all;
    }
    match made() {
        Ok(Made { by, entries }) => {
            for (contract, (entry, code)) in assembled.iter().flat_map(|c| entries.iter().map(move |e| (**c, e))) {
                all.push(Contract::Measured(Measured {
                    contract,
                    figure: figure(contract.metric, code),
                    entry: Some(entry.clone()),
                    source: FigureSource::Assembler(by.clone()),
                    look_at: plan.look_at(contract.metric),
                }));
            }
        }
        Err(why) => all.extend(assembled.iter().map(|c| Contract::Unchecked { contract: **c, why: why.clone() })),
    }
    all
}

fn figure(metric: Metric, code: &MachineCode) -> Figure {
    match metric {
        Metric::Registers => u64::from(code.registers).into(),
        Metric::CodeBytes => code.code_bytes.into(),
        _ => u64::from(code.spill_stores).into(),
    }
}

/// An error at the schedule's `expect` if a contract is broken; without a schedule, an error without a span.
pub(crate) fn hold(contracts: &[Contract], schedule: Option<&Schedule>) -> Result<(), Error> {
    let broken: Vec<Measured> = contracts
        .iter()
        .filter(|contract| contract.is_broken())
        .filter_map(|contract| match contract {
            Contract::Measured(measured) => Some(measured.clone()),
            Contract::Unchecked { .. } => None,
        })
        .collect();
    match broken.is_empty() {
        true => Ok(()),
        false => Err(schedule.unwrap_or(&Schedule::new()).broken(&broken).into()),
    }
}
