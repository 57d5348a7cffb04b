//! The contracts of `expect` whose figures the plan does not know: what ptxas allocates, what the interpreter counts.
//!
//! Threads and shared memory are the plan's own figures, and a schedule that breaks a contract about them is refused
//! before anything is compiled.

use std::fmt;
use std::sync::Arc;

use ptx_gemm_dsl::clause::{Expectation, Metric};
use ptx_gemm_dsl::words::Word;
use ptx_gemm_runtime::Kernel;

use crate::error::CheckError;
use crate::ladder::Assembler;
use crate::profile::Profile;

/// What became of one contract, for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// As the schedule states it.
    pub expectation: Expectation,
    /// The entry it was held to.
    pub entry: String,
    /// The figure and who knows it; absent where nobody here does.
    pub figure: Option<(u64, String)>,
}

impl Contract {
    /// Whether the figure is known and breaks the contract.
    pub fn is_broken(&self) -> bool {
        let Expectation { relation, limit, .. } = self.expectation;
        self.figure.as_ref().is_some_and(|(figure, _)| !relation.holds(*figure, limit))
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contract { expectation, entry, .. } = self;
        let state = if self.is_broken() { "is broken" } else { "holds" };
        match &self.figure {
            Some((figure, from)) => {
                let metric = expectation.metric.word();
                write!(f, "expect {expectation} {state}: {metric} is {figure} in {entry}, says {from}")
            }
            None => write!(f, "expect {expectation} is not checked: there is no ptxas (in $PTXAS or the path)"),
        }
    }
}

/// Holds every entry of a kernel to its schedule's contracts about spills, registers and bank conflicts. A kernel without a
/// schedule has none.
///
/// # Errors
/// As [`Profile::of`], where bank conflicts have to be counted.
pub fn contracts(kernel: &Arc<Kernel>) -> Result<Vec<Contract>, CheckError> {
    let Some(plan) = kernel.plan() else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    let assembler = Assembler::find();
    for expectation in &plan.expect {
        match expectation.metric {
            Metric::Threads | Metric::Shared => {}
            Metric::BankConflicts => {
                let profile = Profile::of(kernel)?;
                let figure = Some((profile.bank_conflicts(), "the interpreter".to_string()));
                out.push(Contract { expectation: *expectation, entry: profile.entry, figure });
            }
            Metric::Spills | Metric::Registers => {
                for launch in kernel.interface().launches() {
                    let (entry, acc) = (launch.kernel.clone(), kernel.problem().types.acc);
                    let assembled = assembler.as_ref().and_then(|assembler| {
                        let figures = assembler.assemble(kernel.ptx(), kernel.target(), &entry, acc)?;
                        Some((figures, format!("ptxas {}", assembler.version())))
                    });
                    let figure = assembled.map(|(figures, from)| match expectation.metric {
                        Metric::Spills => (u64::from(figures.spill_stores), from),
                        _ => (u64::from(figures.registers), from),
                    });
                    out.push(Contract { expectation: *expectation, entry, figure });
                }
            }
        }
    }
    Ok(out)
}
