//! What the language has and the compiler does not, yet: the one place that says so.
//!
//! A line is deleted here when its lowering lands. Nothing else in this crate knows what is implemented: every other
//! rule checks the clause as the language defines it.

use crate::clause::{Atom, BatchKind, Clause, Roles, SpecializeClause, Store};
use crate::epilogue::{Expr, Function};
use crate::schedule::Schedule;
use crate::table::Key;
use crate::terms::{Load, Pace};
use crate::types::DType;
use crate::words::Word;

/// Something that a schedule asks for and that does not work yet.
pub(crate) struct Missing {
    /// The clause that asks for it.
    pub key: Key,
    /// What it is, as the subject of "is not implemented yet".
    pub what: String,
    /// What works in its place; `None`: leave the clause out.
    pub instead: Option<String>,
}

/// Everything in `schedule` that is not implemented yet.
pub(crate) fn missing(schedule: &Schedule) -> Vec<Missing> {
    let mut list = Vec::new();
    for clause in schedule.clauses() {
        let mut lacks = |what: String, instead: Option<&str>| {
            // A clause given twice lacks the same thing once.
            if !list.iter().any(|known: &Missing| known.what == what) {
                list.push(Missing { key: clause.key(), what, instead: instead.map(str::to_string) });
            }
        };
        let whole = clause.to_string();
        match clause {
            Clause::Types(t) => {
                let works = [DType::F64, DType::F32, DType::I32];
                let other = |dtype: &Option<DType>| dtype.is_some_and(|dtype| !works.contains(&dtype));
                if [t.all, t.a, t.b, t.acc, t.c, t.d].iter().any(other) {
                    lacks(whole, Some("types(f32)"));
                }
            }
            Clause::Epilogue(epilogue) => {
                for (name, function) in Function::TABLE.iter().filter(|(_, function)| function.is_transcendental()) {
                    if epilogue.expr.any(&|e| matches!(e, Expr::Call(called, _) if called == function)) {
                        lacks(format!("{name} in an epilogue"), None);
                    }
                }
            }
            Clause::Warp(warp) if warp.k.is_some() => {
                let flat = format!("warp({}, {})", warp.m, warp.n);
                lacks(format!("the depth of {whole}"), Some(&flat));
            }
            Clause::Atom(Atom::Mma(..) | Atom::Wgmma(..)) => lacks(whole, Some("atom(fma)")),
            Clause::Specialize(specialize) => {
                if !matches!(schedule.get(Key::Atom), None | Some(Clause::Atom(Atom::Fma))) {
                    lacks(whole, None);
                } else if specialize.roles == Some(Roles::Pingpong) {
                    let together = Clause::Specialize(SpecializeClause { roles: None, ..*specialize });
                    lacks("specialize with pingpong".into(), Some(&together.to_string()));
                }
                if schedule.get(Key::Persistent).is_some() {
                    lacks("specialize with persistent".into(), None);
                }
            }
            Clause::Load(Load::Tma) => lacks(whole, Some("load(cp_async)")),
            Clause::Pace(Pace::Free) if schedule.get(Key::Persistent).is_some() => {
                lacks("pace(free) with persistent".into(), Some("pace(tile)"));
            }
            Clause::Store(Store::Staged | Store::Tma) => lacks(whole, Some("store(direct)")),
            Clause::Batch(BatchKind::Grouped)
            | Clause::StreamK
            | Clause::Cluster(_)
            | Clause::Multicast(_)
            | Clause::Registers(_)
            | Clause::Promote(_)
            | Clause::Emulate(_) => lacks(whole, None),
            _ => {}
        }
    }
    list
}
