//! What the expansion of `gemm!` calls. Hidden from the documentation, and free to change with the macro.

use std::fmt::Display;

use ptx_gemm_dsl::{Diagnostics, Schedule};

use crate::gemm::Gemm;

/// A piece of a schedule that is put together when the program runs.
pub enum Piece<'a> {
    /// Schedule text as the macro wrote it.
    Text(&'static str),
    /// A value of the code around the macro.
    Value(&'a dyn Display),
}

/// What a schedule can extend.
pub trait Base {
    /// Its clauses.
    fn schedule(&self) -> &Schedule;
}

impl Base for Schedule {
    fn schedule(&self) -> &Schedule {
        self
    }
}

impl Base for Gemm {
    fn schedule(&self) -> &Schedule {
        self.schedule()
    }
}

impl<B: Base + ?Sized> Base for &B {
    fn schedule(&self) -> &Schedule {
        (**self).schedule()
    }
}

/// A schedule that the macro has checked, from its canonical text.
pub fn checked(text: &str) -> Gemm {
    // The text has been parsed and checked before, by the same library; an empty schedule is refused wherever it is used.
    Gemm::unchecked(text.parse().unwrap_or_default())
}

/// A schedule that only the running program knows whole.
pub fn constructed(pieces: &[Piece<'_>], base: &impl Base) -> Result<Gemm, Diagnostics> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Value(value) => text.push_str(&value.to_string()),
        }
    }
    Gemm::new(text.parse::<Schedule>()?.extend_from(base.schedule()))
}
