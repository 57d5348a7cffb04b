//! Decides whether an edit of a tile program is a fault that the compiler lets through.
//!
//! Tile IR guarantees that a program its verifier accepts is right, and that nothing in its text is redundant. An edit
//! must therefore be rejected, or result in a different program that computes what its text says, under all checks; an
//! edit that leaves the kernel unchanged needs a reason.

use ptx_gemm_runtime::interface::Interface;
use ptx_gemm_runtime::interp::{Checks, Options};
use ptx_gemm_runtime::ptx::normal::instructions;
use ptx_gemm_runtime::{CompiledGemm, Device, Error, InterpreterOptions};

use super::edits::{Edit, EditKind, token_edits};
use crate::compare::Verdict;
use crate::error::CheckError;
use crate::size::Size;
use crate::{check, edge_requests, edge_sizes};

/// The result of an edit.
#[derive(Clone, Debug, PartialEq)]
pub enum TileVerdict {
    /// The parser, a rule of tile IR, or every launch rejects it.
    Refused(String),
    /// A different kernel, which computes what the text says.
    AnotherProgram,
    /// The same instructions, launched in the same way.
    SameKernel,
    /// It was accepted, but breaks a rule of the interpreter, computes something other than the text says, or nothing that could
    /// be compared with that.
    Wrong(String),
}

impl TileVerdict {
    /// Its name for tools.
    pub fn name(&self) -> &'static str {
        match self {
            TileVerdict::Refused(_) => "refused",
            TileVerdict::AnotherProgram => "another program",
            TileVerdict::SameKernel => "same kernel",
            TileVerdict::Wrong(_) => "accepted and wrong",
        }
    }
}

/// The text of tile programs, and the instructions that they are lowered to.
pub struct TileJudge {
    text: String,
    instructions: String,
    interface: Interface,
    device: Device,
}

/// Products that an accepted edit is run on, from the largest within [`MOST`] multiply-adds down.
const PRODUCTS: usize = 3;
const MOST: usize = 3_000_000;

impl TileJudge {
    /// The judge of the edits of a text.
    ///
    /// # Errors
    /// Returns what is wrong with the text itself.
    pub fn new(text: String) -> Result<TileJudge, Error> {
        let options = Options { checks: Checks::Full, max_instructions: Some(1 << 24), ..Options::default() };
        let device = Device::interpreter_with(InterpreterOptions { options, misalign: 0 });
        let gemm = CompiledGemm::from_tile(&text, &device)?;
        let interface = gemm.kernel().interface().clone();
        Ok(TileJudge { instructions: instructions(gemm.kernel().ptx()), interface, text, device })
    }

    /// Every edit of the text.
    pub fn edits(&self) -> Vec<Edit> {
        token_edits(&self.text)
    }

    /// The original line of the text that an edit changes.
    pub fn line(&self, edit: &Edit) -> &str {
        self.text.lines().nth(edit.line - 1).unwrap_or_default()
    }

    /// Compiles an edited text, and runs it.
    pub fn judge(&self, edit: &Edit) -> TileVerdict {
        let gemm = match CompiledGemm::from_tile(&edit.text, &self.device) {
            Ok(gemm) => gemm,
            Err(error) => return TileVerdict::Refused(error.to_string()),
        };
        // How many blocks there are is not in the instructions.
        if instructions(gemm.kernel().ptx()) == self.instructions && *gemm.kernel().interface() == self.interface {
            return TileVerdict::SameKernel;
        }
        let mut sizes = edge_sizes(gemm.kernel());
        let cost = |size: &Size| size.m * size.n * size.k;
        sizes.retain(|size| cost(size) <= MOST);
        sizes.sort_by_key(cost);
        let mut refused = None;
        let mut compared = false;
        for (turn, size) in sizes.into_iter().rev().take(PRODUCTS).enumerate() {
            for request in edge_requests(gemm.kernel(), size, turn) {
                match check(&gemm, &request) {
                    Ok(outcome) => match outcome.verdict() {
                        Verdict::Right => compared = true,
                        Verdict::Empty | Verdict::Uncompared => {}
                        Verdict::Wrong => return TileVerdict::Wrong(outcome.to_string()),
                    },
                    Err(CheckError::Runtime(Error::Interpreter(violation))) => {
                        return TileVerdict::Wrong(violation.to_string());
                    }
                    Err(error) => refused = Some(error.to_string()),
                }
            }
        }
        match (compared, refused) {
            (true, _) => TileVerdict::AnotherProgram,
            (false, Some(why)) => TileVerdict::Refused(why),
            (false, None) => TileVerdict::Wrong("nothing that it computes could be compared".into()),
        }
    }

    /// Why an edit may leave the instructions unchanged, if it may.
    pub fn equivalent(&self, edit: &Edit) -> Option<&'static str> {
        let declares = |line: &str| {
            let words = ["buffer", "ring", "mbarriers", "barrier", "turn", "accumulator", "stage of", "arrival of"];
            words.iter().any(|word| line.trim_start().starts_with(&format!("{word} ")))
        };
        let line = self.line(edit);
        match edit.kind {
            EditKind::Word if line.trim_start().starts_with("role ") => Some("the name of a role is free"),
            EditKind::SwapLines if declares(line) => {
                Some("declarations have no order of their own, but that a name is declared before it is used")
            }
            EditKind::SwapLines if edit.what.contains("acquire ") => {
                Some("where the next wait frees a slot, to acquire it takes no instruction")
            }
            EditKind::SwapLines if edit.what.matches("wait ").count() == 2 => {
                Some("two waits of one kind are the same instructions in either order")
            }
            _ => None,
        }
    }
}
