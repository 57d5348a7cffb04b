//! Texts with open values: `?` in the place of a number or of a word, and `schedule(?)` in the place of every clause that is not
//! written.
//!
//! This crate knows which values are possible; an estimate decides which is best (`ptx_gemm_choose::fill`).

use std::ops::Range;
use std::sync::Arc;

use crate::atoms::{Multiply, Unit, WGMMA_COLUMNS, WGMMA_ROWS};
use crate::check;
use crate::clause::{Clause, ShapeClause};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::grammar::{self, Item, Origin, Parsed};
use crate::keys::{Group, Key};
use crate::lexer;
use crate::limits;
use crate::open::{Open, OpenValues};
use crate::schedule::Schedule;
use crate::span::Span;
use crate::types::DType;

/// A text with open values, taken apart.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The clauses; open values are stand-ins.
    pub schedule: Schedule,
    /// The open values, in the order of the text.
    pub open: Vec<Open>,
    /// `schedule(?)`, if it is there.
    pub rest: Option<Span>,
    /// The product to choose for.
    pub shape: Option<ShapeClause>,
    /// The name of the GPU to choose for.
    pub gpu: Option<String>,
}

impl Opened {
    /// Takes a text apart; `None` if nothing in it is open.
    ///
    /// # Errors
    ///
    /// Every mistake that can be found before anything is filled in.
    pub fn parse(text: &str) -> Result<Option<Opened>, Diagnostics> {
        let Ok((tokens, errors)) = lexer::tokens(text) else { return Ok(None) };
        let mut parsed = grammar::parse(&tokens, Origin::Text);
        // Text has no base: that is reported like any other mistake.
        if parsed.open.is_empty() && parsed.open_rest.is_none() || parsed.base.is_some() {
            return Ok(None);
        }
        let source: Arc<str> = text.into();
        parsed.errors.extend(errors);
        parsed.errors.extend(Opened::refused(&parsed));
        let unknown = parsed.unknown;
        let mut schedule = Schedule { items: parsed.items, source: Some(source), ..Schedule::default() };
        let told = check::report(&schedule, None, unknown, parsed.errors);
        if told.errors().next().is_some() {
            return Err(told);
        }
        let (mut shape, mut gpu) = (None, None);
        for clause in schedule.clauses() {
            match clause {
                Clause::Shape(clause) => shape = Some(*clause),
                Clause::Gpu(name) => gpu = Some(name.clone()),
                _ => {}
            }
        }
        let open_keys: Vec<Key> = parsed.open.iter().map(|open| open.key).collect();
        if parsed.open_rest.is_some() {
            schedule.items.retain(|item| !open_keys.contains(&item.clause.key()));
        }
        Ok(Some(Opened { schedule, open: parsed.open, rest: parsed.open_rest, shape, gpu }))
    }

    /// How many values each open one may have.
    pub fn counts(&self) -> Vec<usize> {
        let count = |(_, alternatives): (&Open, Alternatives)| match alternatives {
            Alternatives::Values(values) => values.len(),
            Alternatives::Columns(numbers) => numbers.len(),
            Alternatives::Same => 1,
        };
        self.alternatives().into_iter().map(count).collect()
    }

    /// Open values that cannot be filled in.
    pub(crate) fn refused(parsed: &Parsed) -> Vec<Diagnostic> {
        let schedule = Schedule { items: parsed.items.clone(), ..Schedule::default() };
        let (unit, factor) = (unit(&parsed.items), factor(&schedule));
        let of_one = parsed.open.iter().filter_map(|open| {
            let error = |message: String, help: &str| {
                Some(Diagnostic::error("open", open.clause, message).help(help).at(open.span))
            };
            let why = match open.key {
                Key::Emulate | Key::Strassen => "decides what is computed",
                key => match key.group() {
                    Group::Method => "",
                    Group::Choice => "says what to choose for",
                    Group::Problem | Group::Target | Group::Contracts => "decides what is computed",
                },
            };
            if !why.is_empty() {
                let message = format!("{}: {} cannot be left open, because it {why}", open.clause, open.name);
                return error(message, "write the value");
            }
            if parsed.open_rest.is_some() {
                let message = format!("{}: `schedule(?)` chooses this clause as well", open.clause);
                return error(message, "leave the clause out, or write its values");
            }
            if open.candidates(unit, factor).is_empty() {
                return error(
                    format!("{}: {} cannot be left open", open.clause, open.name),
                    "write a number, or leave it out",
                );
            }
            None
        });
        of_one.collect()
    }

    /// The open values with what each may be. Where the columns of a tile and those of its instruction are open, and nothing else
    /// divides the tile, they are the same number.
    pub(crate) fn alternatives(&self) -> Vec<(&Open, Alternatives)> {
        let unit = unit(&self.schedule.items);
        let factor = factor(&self.schedule);
        let columns = |open: &Open| matches!(open.key, Key::Tile | Key::Atom) && open.name == "n";
        let tied = self.open.iter().filter(|open| columns(open)).count() == 2
            && unit == Some(Unit::WarpGroup)
            && self.schedule.get(Key::Warp).is_none();
        let mut seen = false;
        let each = self.open.iter().map(|open| {
            let alternatives = match (tied && columns(open), seen) {
                (true, true) => Alternatives::Same,
                (true, false) => {
                    seen = true;
                    Alternatives::Columns(WGMMA_COLUMNS.step_by(8).collect())
                }
                (false, _) => Alternatives::Values(open.candidates(unit, factor)),
            };
            (open, alternatives)
        });
        each.collect()
    }
}

/// What an open value may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Alternatives {
    /// One of these.
    Values(Vec<Value>),
    /// The columns of a tile or of its instruction, whichever comes first.
    Columns(Vec<u32>),
    /// The other one.
    Same,
}

/// A value that an open one may have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(u32),
    Word(&'static str),
}

/// The type of A, or of its planes.
fn factor(schedule: &Schedule) -> DType {
    match (schedule.get(Key::Emulate), schedule.problem()) {
        (Some(_), _) | (_, Err(_)) => DType::F16,
        (None, Ok(problem)) => problem.types.a,
    }
}

/// Who multiplies, if that is known.
fn unit(items: &[Item]) -> Option<Unit> {
    items.iter().find_map(|item| match &item.clause {
        Clause::Atom(atom) => atom.tensor().map(|(unit, _)| unit),
        _ => None,
    })
}

impl Open {
    /// The values that are tried, for products of factors of this type.
    fn candidates(&self, unit: Option<Unit>, factor: DType) -> Vec<Value> {
        let numbers = |numbers: &[u32]| numbers.iter().copied().map(Value::Number).collect();
        let steps = |range: Range<u32>| range.step_by(8).map(Value::Number).collect::<Vec<_>>();
        if let OpenValues::Words(words) = &self.values {
            return words.iter().map(|word| Value::Word(word)).collect();
        }
        let bits = factor.element().bits;
        match (self.key, self.name.as_str(), unit) {
            (Key::Tile | Key::Warp, "m", Some(Unit::WarpGroup)) => {
                numbers(&[1, 2, 3, 4, 5].map(|count| count * WGMMA_ROWS))
            }
            (Key::Tile, "n", Some(Unit::WarpGroup)) => steps(8..328),
            (Key::Warp, "n", Some(Unit::WarpGroup)) => steps(8..264),
            (Key::Tile, "k", Some(_)) => numbers(&[32, 64, 128, 256].map(|bytes| bytes * 8 / bits)),
            (Key::Tile, "m" | "n", Some(Unit::Warp)) => numbers(&[16, 32, 64, 128, 256]),
            (Key::Warp, "m" | "n", Some(Unit::Warp)) => numbers(&[8, 16, 32, 64, 128]),
            (Key::Tile, "m" | "n", None) => numbers(&[2, 4, 8, 16, 32, 64, 128, 256]),
            (Key::Tile, "k", None) => numbers(&[4, 8, 16, 32, 64]),
            (Key::Warp, "m" | "n", None) => numbers(&[2, 4, 8, 16, 32, 64, 128]),
            (Key::Thread, "m" | "n", _) => numbers(&[1, 2, 4, 8, 16]),
            (Key::Fragment, "m" | "n", _) => numbers(&[1, 2, 4, 8]),
            (Key::Atom, name, Some(unit)) => {
                let rows = Multiply::of(unit, factor);
                let mut values: Vec<u32> = match (name, unit) {
                    ("n", Unit::WarpGroup) => WGMMA_COLUMNS.step_by(8).collect(),
                    ("m", _) => rows.map(|row| row.rows).collect(),
                    ("n", Unit::Warp) => vec![8],
                    _ => rows.map(|row| row.depth).collect(),
                };
                values.sort_unstable();
                values.dedup();
                numbers(&values)
            }
            (Key::Vector, ..) => numbers(&[1, 2, 4, 8, 16]),
            (Key::Shared, "pad", _) => numbers(&[2, 4, 8, 16]),
            (Key::Shared, "swizzle", _) => numbers(limits::SWIZZLES),
            (Key::Stages, ..) => (1..=10).map(Value::Number).collect(),
            (Key::Unroll, ..) => numbers(&[1, 2, 4, 8, 16, 32, 64]),
            (Key::Prefetch, ..) => numbers(&[0, 1, 2, 3, 4]),
            (Key::BlocksPerSm, ..) => numbers(&[1, 2, 3, 4, 6, 8]),
            (Key::Raster, "group", _) => numbers(&[1, 2, 4, 8, 16, 32]),
            (Key::SplitK, ..) => numbers(&[2, 3, 4, 6, 8, 16, 32]),
            (Key::Cluster, ..) => numbers(&[1, 2, 4, 8]),
            (Key::Specialize, "producers", _) => numbers(&[1, 2]),
            (Key::Specialize, "consumers", _) => numbers(&[1, 2, 3, 4]),
            (Key::Registers, "producer", _) => numbers(&[24, 32, 40]),
            (Key::Registers, "consumer", _) => numbers(&[128, 152, 160, 168, 184, 208, 216, 224, 232, 240]),
            (Key::Promote, "every", _) => numbers(limits::EVERY),
            _ => Vec::new(),
        }
    }
}
