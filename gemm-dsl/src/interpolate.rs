//! Schedules with values from the surrounding Rust code: the expansion of `gemm!` with holes.

use std::borrow::Cow;

use crate::clause::{Atom, Metric};
use crate::diagnostics::Diagnostics;
use crate::schedule::Schedule;
use crate::target::Target;
use crate::types::{DType, Layout};
use crate::words::Word;

/// A value that can be put into a schedule: integers, floats, types, layouts, targets, and the other words of the
/// language.
#[diagnostic::on_unimplemented(
    message = "a value of type `{Self}` cannot be used in a schedule",
    label = "an integer, a float, a `DType`, a `Layout`, a `Target` or a word's type can",
    note = "the words of the language have types in `ptx_gemm::builder`: `order({{FmaOrder::Snake}})`"
)]
pub trait Interpolate {
    /// The value as schedule text.
    fn text(&self) -> Cow<'static, str>;
}

macro_rules! integers {
    ($($type:ty)+) => {
        $(impl Interpolate for $type {
            fn text(&self) -> Cow<'static, str> {
                self.to_string().into()
            }
        })+
    };
}

macro_rules! floats {
    ($($type:ty)+) => {
        $(impl Interpolate for $type {
            fn text(&self) -> Cow<'static, str> {
                // The shortest text that reads back as this value; a sign binds like a unary minus.
                format!("{self:?}").into()
            }
        })+
    };
}

macro_rules! words {
    ($($type:ty)+) => {
        $(impl Interpolate for $type {
            fn text(&self) -> Cow<'static, str> {
                self.word().into()
            }
        })+
    };
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);
floats!(f32 f64);
words!(DType Layout);
words!(crate::terms::Along crate::terms::Operands crate::terms::Load crate::terms::FmaOrder crate::terms::Edges);
words!(crate::terms::Rounding crate::terms::Pace crate::terms::Reads crate::clause::Spills crate::terms::Reduce crate::terms::Store);
words!(crate::terms::StageMemory crate::terms::LoadC crate::clause::BatchKind crate::clause::Roles crate::clause::Emulation);

impl Interpolate for Metric {
    fn text(&self) -> Cow<'static, str> {
        self.name().into()
    }
}

impl Interpolate for Atom {
    fn text(&self) -> Cow<'static, str> {
        self.to_string().into()
    }
}

impl Interpolate for Target {
    fn text(&self) -> Cow<'static, str> {
        self.to_string().into()
    }
}

impl<T: Interpolate + ?Sized> Interpolate for &T {
    fn text(&self) -> Cow<'static, str> {
        (**self).text()
    }
}

/// A piece of a schedule with holes.
#[derive(Clone, Copy)]
pub enum Piece<'a> {
    /// Text, as written.
    Text(&'a str),
    /// A value to insert.
    Value(&'a dyn Interpolate),
}

/// A base that a schedule can extend: another schedule, or a value that contains one.
#[diagnostic::on_unimplemented(
    message = "a schedule cannot extend a value of type `{Self}`",
    label = "a `Gemm` or a `Schedule` can be extended; has `?` been forgotten?"
)]
pub trait AsSchedule {
    /// The schedule.
    fn as_schedule(&self) -> &Schedule;
}

impl AsSchedule for Schedule {
    fn as_schedule(&self) -> &Schedule {
        self
    }
}

impl<T: AsSchedule + ?Sized> AsSchedule for &T {
    fn as_schedule(&self) -> &Schedule {
        (**self).as_schedule()
    }
}

/// Joins the pieces, reads them as a schedule that extends `base`, and checks it.
///
/// The text has one clause per line, as written in the macro, with the values in place, so that errors show the text
/// that was read. `place` is its position in the program.
pub fn construct(pieces: &[Piece<'_>], base: &Schedule, place: &str) -> Result<Schedule, Diagnostics> {
    read(pieces, base).map_err(|diagnostics| diagnostics.written_at(place))
}

fn read(pieces: &[Piece<'_>], base: &Schedule) -> Result<Schedule, Diagnostics> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(stretch) => text.push_str(stretch),
            Piece::Value(value) => text.push_str(&value.text()),
        }
    }
    let schedule = Schedule::parse(&text)?.extend_from(base);
    schedule.check()?;
    Ok(schedule)
}
