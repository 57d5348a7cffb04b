//! The parts of the language that the compiler does not implement yet; no other place lists them.
//!
//! Delete a line here when its lowering lands. Nothing else in this crate knows what is implemented: every other rule
//! checks the clause as the language defines it.

use std::any::Any;

use crate::clause::{Atom, Clause};
use crate::epilogue::{Expr, Function};
use crate::instead;
use crate::keys::Key;
use crate::types::DType;
use crate::words::Word;

/// A feature that a schedule asks for and that does not work yet.
pub(crate) struct Missing {
    /// The clause that asks for it.
    pub key: Key,
    /// What it is, as the subject of "is not implemented yet".
    pub what: String,
    /// Clauses that work in its place, best first; none: leave the clause out.
    pub instead: Vec<String>,
}

/// Whether a word of the language works in every position. Words that do not are never suggested.
pub(crate) fn works(word: &dyn Any) -> bool {
    if let Some(dtype) = word.downcast_ref::<DType>() {
        return dtype.element().works;
    }
    true
}

/// Whether the compiler knows a clause at all.
pub(crate) fn has(key: Key) -> bool {
    !UNKNOWN.contains(&key)
}

/// The clauses that the compiler does not know.
const UNKNOWN: &[Key] = &[];

/// The parts of a clause that do not work, apart from words of [`crate::words`].
pub(crate) fn lacking(key: Key) -> &'static [&'static str] {
    match key {
        Key::Warp => &["a depth"],
        _ => &[],
    }
}

/// Everything in the clauses of a schedule that is not implemented yet.
pub(crate) fn missing(clauses: &[&Clause]) -> Vec<Missing> {
    let sums_in = |dtype: DType| {
        let natural = |all: DType| all.natural_accumulator();
        clauses.iter().any(|clause| match clause {
            Clause::Types(types) => {
                let sides = [types.all, types.a, types.b];
                types.acc.map_or(sides.iter().flatten().any(|side| natural(*side) == dtype), |acc| acc == dtype)
            }
            _ => false,
        })
    };
    let (mut atom, mut tile, mut warp) = (Atom::default(), None, None);
    for &clause in clauses {
        match clause {
            Clause::Atom(clause) => atom = *clause,
            Clause::Tile(clause) => tile = Some(*clause),
            Clause::Warp(clause) => warp = Some(*clause),
            _ => {}
        }
    }
    let by_threads = || instead::by_threads(warp).into_iter();
    let mut list = Vec::new();
    for &clause in clauses {
        let mut lacks = |what: String, instead: Vec<String>| {
            // A clause given twice is reported once.
            if !list.iter().any(|known: &Missing| known.what == what) {
                list.push(Missing { key: clause.key(), what, instead });
            }
        };
        let whole = clause.to_string();
        match clause {
            Clause::Types(t) if [t.all, t.a, t.b, t.acc, t.c, t.d].iter().flatten().any(|dtype| !works(dtype)) => {
                // The natural accumulators of threads and the narrowest types of tensor cores; otherwise threads
                // multiply.
                let integers = [t.all, t.a, t.b].iter().flatten().all(|dtype| dtype.is_integer());
                let natural = integers.then(|| DType::I32.natural_accumulator());
                let types = natural.into_iter().chain([DType::F32, DType::Bf16, DType::F16]);
                let types = types.flat_map(|dtype| instead::with_type(dtype, atom, tile));
                let plain = by_threads().map(|text| format!("types(f32); {text}"));
                lacks(whole, types.chain(plain).collect());
            }
            // Their approximations are for f32.
            Clause::Epilogue(epilogue) if sums_in(DType::F64) => {
                for (name, function) in Function::TABLE.iter().filter(|(_, function)| function.is_transcendental()) {
                    if epilogue.expr.any(&|e| matches!(e, Expr::Call(called, _) if called == function)) {
                        lacks(format!("{name} in f64"), Vec::new());
                    }
                }
            }
            Clause::Warp(warp) if warp.k.is_some() => {
                let flat = format!("warp({}, {})", warp.m, warp.n);
                lacks(format!("the depth of {whole}"), vec![flat]);
            }
            clause if !has(clause.key()) => lacks(whole, Vec::new()),
            _ => {}
        }
    }
    list
}
