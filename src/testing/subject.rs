//! The values that can be tested.

use std::fmt::Display;

use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::clause::Clause;
use ptx_gemm_dsl::table::Key;
use ptx_gemm_runtime::{CompiledGemm, Contract, Device};

use crate::gemm::Gemm;
use crate::tile::TileProgram;

/// An argument of this module's assertions: a [`Gemm`], a [`TileProgram`], a [`CompiledGemm`], a reference to one, or
/// the `Result` of making one: its error becomes the message.
pub trait Subject {
    /// The kernel on a device.
    ///
    /// # Errors
    /// Returns a description of why it cannot be loaded there.
    fn compiled(&self, device: &Device) -> Result<CompiledGemm, String>;

    /// The device on which its results are checked: the interpreter, unless it is on a device already.
    fn device(&self) -> Device {
        Device::interpreter()
    }

    /// The schedule, if it has one.
    fn schedule(&self) -> Option<&Schedule> {
        None
    }

    /// Checks its contracts, and those in `more`, the inside of an `expect { … }`.
    ///
    /// # Errors
    /// Returns what is wrong with `more`, or the contracts that the plan breaks.
    fn contracts(&self, more: &str) -> Result<Vec<Contract>, String> {
        if more.is_empty() {
            return Ok(self.compiled(&self.device())?.contracts());
        }
        Err("contracts are part of a schedule, and this is a kernel without one: test the `Gemm`".into())
    }
}

impl Subject for Gemm {
    fn compiled(&self, device: &Device) -> Result<CompiledGemm, String> {
        words(self.on(device))
    }

    fn schedule(&self) -> Option<&Schedule> {
        Some(Gemm::schedule(self))
    }

    fn contracts(&self, more: &str) -> Result<Vec<Contract>, String> {
        if more.is_empty() {
            return Ok(words(self.on(&self.device()))?.contracts());
        }
        let own = Gemm::schedule(self);
        let bare = own.clone().without(Key::Expect);
        // This reports contracts that cannot be read and those that the plan breaks.
        let asked = bare.clone().text(&format!("expect {{ {more} }}"));
        words(asked.check())?;
        // Without spans: positions in the schedule mean nothing in the test.
        let contracts = own.clauses().chain(asked.clauses()).filter_map(|clause| match clause {
            Clause::Expect(list) => Some(list),
            _ => None,
        });
        let all = contracts.flatten().fold(bare, |all, one| all.expect(one.metric, one.relation, one.limit));
        Ok(words(CompiledGemm::new(&all, &self.device()))?.contracts())
    }
}

impl Subject for TileProgram {
    fn compiled(&self, device: &Device) -> Result<CompiledGemm, String> {
        words(self.on(device))
    }
}

impl Subject for CompiledGemm {
    fn compiled(&self, device: &Device) -> Result<CompiledGemm, String> {
        words(self.on(device))
    }

    fn device(&self) -> Device {
        CompiledGemm::device(self).clone()
    }
}

impl<S: Subject> Subject for &S {
    fn compiled(&self, device: &Device) -> Result<CompiledGemm, String> {
        (**self).compiled(device)
    }

    fn device(&self) -> Device {
        (**self).device()
    }

    fn schedule(&self) -> Option<&Schedule> {
        (**self).schedule()
    }

    fn contracts(&self, more: &str) -> Result<Vec<Contract>, String> {
        (**self).contracts(more)
    }
}

impl<S: Subject, E: Display> Subject for Result<S, E> {
    fn compiled(&self, device: &Device) -> Result<CompiledGemm, String> {
        self.as_ref().map_err(E::to_string)?.compiled(device)
    }

    fn device(&self) -> Device {
        self.as_ref().map_or_else(|_| Device::interpreter(), Subject::device)
    }

    fn schedule(&self) -> Option<&Schedule> {
        self.as_ref().ok()?.schedule()
    }

    fn contracts(&self, more: &str) -> Result<Vec<Contract>, String> {
        self.as_ref().map_err(E::to_string)?.contracts(more)
    }
}

/// An argument of [`assert_ptx_snapshot!`](crate::assert_ptx_snapshot): anything that has PTX, or is PTX.
pub trait HasPtx {
    /// The whole text; for a [`Gemm`], for the target that it names, or else for the lowest that suffices.
    ///
    /// # Errors
    /// Returns a description of why it has none.
    fn ptx_text(&self) -> Result<String, String>;
}

impl HasPtx for Gemm {
    fn ptx_text(&self) -> Result<String, String> {
        words(self.ptx(None))
    }
}

impl HasPtx for TileProgram {
    fn ptx_text(&self) -> Result<String, String> {
        Ok(self.ptx().into())
    }
}

impl HasPtx for CompiledGemm {
    fn ptx_text(&self) -> Result<String, String> {
        Ok(self.ptx().into())
    }
}

impl HasPtx for str {
    fn ptx_text(&self) -> Result<String, String> {
        Ok(self.into())
    }
}

impl HasPtx for String {
    fn ptx_text(&self) -> Result<String, String> {
        Ok(self.clone())
    }
}

impl<P: HasPtx + ?Sized> HasPtx for &P {
    fn ptx_text(&self) -> Result<String, String> {
        (**self).ptx_text()
    }
}

impl<P: HasPtx, E: Display> HasPtx for Result<P, E> {
    fn ptx_text(&self) -> Result<String, String> {
        self.as_ref().map_err(E::to_string)?.ptx_text()
    }
}

fn words<T, E: Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
