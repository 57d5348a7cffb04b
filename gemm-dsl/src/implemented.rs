//! What the language has but the compiler does not implement yet; this is the only place that says so.
//!
//! A line is deleted here when its lowering lands. Nothing else in this crate knows what is implemented: every other
//! rule checks the clause as the language defines it.

use std::any::Any;

use crate::clause::{Atom, Clause};
use crate::epilogue::{Expr, Function};
use crate::keys::Key;
use crate::types::DType;
use crate::words::Word;

/// Something that a schedule asks for and that does not work yet.
pub(crate) struct Missing {
    /// The clause that asks for it.
    pub key: Key,
    /// What it is, as the subject of "is not implemented yet".
    pub what: String,
    /// Clauses that work in its place, best first; none: leave the clause out.
    pub instead: Vec<String>,
}

/// Whether a word of the language works wherever it may be written. Words that do not are never suggested.
pub(crate) fn works(word: &dyn Any) -> bool {
    if let Some(dtype) = word.downcast_ref() {
        return matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16 | DType::I32);
    }
    true
}

/// Whether the compiler knows a clause at all.
pub(crate) fn has(key: Key) -> bool {
    !UNKNOWN.contains(&key)
}

/// The clauses that it does not know.
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
    let mut list = Vec::new();
    for &clause in clauses {
        let mut lacks = |what: String, instead: &[&str]| {
            // A clause given twice is reported once.
            if !list.iter().any(|known: &Missing| known.what == what) {
                let instead = instead.iter().map(ToString::to_string).collect();
                list.push(Missing { key: clause.key(), what, instead });
            }
        };
        let whole = clause.to_string();
        match clause {
            Clause::Types(t) if [t.all, t.a, t.b, t.acc, t.c, t.d].iter().flatten().any(|dtype| !works(dtype)) => {
                let integers = [t.all, t.a, t.b].iter().flatten().all(|dtype| dtype.is_integer());
                // With the depth that instructions of 16-bit types have.
                let as_deep = clauses.iter().find_map(|clause| match clause {
                    Clause::Atom(Atom::Mma(..)) => Some("types(bf16); atom(mma(16, 8, 16))".into()),
                    Clause::Atom(Atom::Wgmma(m, n, _)) => Some(format!("types(bf16); atom(wgmma({m}, {n}, 16))")),
                    _ => None,
                });
                let natural = if integers { "types(i32)" } else { "types(f32)" };
                let as_deep = as_deep.as_deref().unwrap_or("types(bf16)");
                lacks(whole, &[natural, "types(f32)", "types(bf16)", as_deep, "types(f32); atom(fma); thread(8, 8)"]);
            }
            // Their approximations are of f32.
            Clause::Epilogue(epilogue) if sums_in(DType::F64) => {
                for (name, function) in Function::TABLE.iter().filter(|(_, function)| function.is_transcendental()) {
                    if epilogue.expr.any(&|e| matches!(e, Expr::Call(called, _) if called == function)) {
                        lacks(format!("{name} in f64"), &[]);
                    }
                }
            }
            Clause::Warp(warp) if warp.k.is_some() => {
                let flat = format!("warp({}, {})", warp.m, warp.n);
                lacks(format!("the depth of {whole}"), &[&flat]);
            }
            // Of 16-bit types; other types are refused as types.
            Clause::Atom(Atom::Mma(16, 8, k)) if !matches!(k, 8 | 16) => {
                lacks(whole, &["atom(mma(16, 8, 16))", "atom(fma)", "atom(fma); thread(8, 8)"]);
            }
            clause if !has(clause.key()) => lacks(whole, &[]),
            _ => {}
        }
    }
    list
}
