//! Instructions that only some targets have.

use crate::atoms::{Multiply, Unit};
use crate::check::settings::Settings;
use crate::clause::Clause;
use crate::elements::ELEMENTS;
use crate::instead;
use crate::table::Key;
use crate::target::Target;
use crate::terms::{Load, Pace, Reduce, Side, SplitK, Store};

/// A clause that the oldest target does not support.
pub(super) struct Requirement<'s> {
    pub key: Key,
    /// The feature that needs it.
    pub what: String,
    /// The first target that has it.
    pub least: Target,
    /// Clauses that replace it on older targets, best first. A search asks for none of them.
    pub instead: Box<dyn Fn() -> Vec<String> + 's>,
}

impl Requirement<'_> {
    /// True if `target` has the feature. Features of an `a` target exist only on that target.
    pub fn holds(&self, target: Target) -> bool {
        match self.least.specific {
            true => target == self.least,
            false => target.capability >= self.least.capability,
        }
    }
}

/// Everything that the schedule needs from its target, in the order of the reference.
pub(super) fn all<'s>(settings: &'s Settings) -> Vec<Requirement<'s>> {
    fn these(texts: &'static [&'static str]) -> impl Fn() -> Vec<String> {
        || texts.iter().map(ToString::to_string).collect()
    }
    let mut list = Vec::new();
    let mut need = |key, what: &str, least, instead: Box<dyn Fn() -> Vec<String> + 's>| {
        list.push(Requirement { key, what: what.into(), least, instead });
    };
    let types = settings.problem.types;
    let used = [types.a, types.b, types.c, types.d];
    for element in ELEMENTS.iter().filter(|element| used.contains(&element.dtype)) {
        if let Some(since) = element.since {
            need(Key::Types, element.name, since, Box::new(these(&["types(f16)", "types(f32)"])));
        }
    }
    match settings.atom.tensor() {
        None => {}
        Some((Unit::Warp, (m, n, k))) => {
            let factor = settings.factor(Side::A);
            let own = settings.atom.row(factor).map_or(Target::SM_80, |row| row.least);
            let instead = move || {
                let older = Multiply::of(Unit::Warp, factor).filter(|row| row.least.capability < own.capability);
                let older = older.map(|row| Clause::Atom(row.atom()).to_string());
                older.chain(by_threads(settings)).collect()
            };
            need(Key::Atom, &format!("mma({m}, {n}, {k})"), own, Box::new(instead));
        }
        Some((Unit::WarpGroup, _)) => {
            let instead = || by_warps(settings).into_iter().chain(by_threads(settings)).collect();
            need(Key::Atom, "wgmma", Target::SM_90A, Box::new(instead));
        }
    }
    match settings.staged.load {
        Load::Registers => {}
        Load::CpAsync => need(Key::Load, "cp_async", Target::SM_80, Box::new(these(&["load(registers)"]))),
        Load::Tma => {
            let instead = || {
                // `wgmma` reads what TMA copies, so a target without TMA has no use for `wgmma`.
                let of_warps = if settings.atom.of_group().is_some() { by_warps(settings) } else { Vec::new() };
                these(&["load(cp_async)", "load(registers)"])().into_iter().chain(of_warps).collect()
            };
            need(Key::Load, "tma", Target::SM_90, Box::new(instead));
        }
    }
    if settings.staged.pace == Pace::Free {
        need(Key::Pace, "pace(free)", Target::SM_80, Box::new(these(&["pace(tile)"])));
    }
    if settings.get(Key::Cluster).is_some() {
        need(Key::Cluster, "a cluster", Target::SM_90, Box::new(Vec::new));
    }
    if let Some(SplitK { parts, reduce: Reduce::Cluster }) = settings.scheduler.split_k {
        let serial = move || vec![format!("split_k({parts}, reduce = serial)")];
        need(Key::SplitK, "a cluster", Target::SM_90, Box::new(serial));
    }
    if settings.get(Key::Registers).is_some() {
        need(Key::Registers, "setmaxnreg", Target::SM_90A, Box::new(Vec::new));
    }
    if settings.output.store == Store::Tma && settings.get(Key::Store).is_some() {
        need(Key::Store, "store(tma)", Target::SM_90, Box::new(these(&["store(staged)", "store(direct)"])));
    }
    list
}

/// Multiplication that every target supports. A schedule may use types that only tensor cores have.
fn by_threads(settings: &Settings) -> Vec<String> {
    let by_threads = instead::by_threads(settings.shape.warp);
    let other_types = by_threads.iter().map(|text| format!("types(f32); {text}"));
    by_threads.iter().cloned().chain(other_types).collect()
}

/// Replacements for `wgmma`: instructions of a warp, with a warp tile and a copy that every target with them supports.
fn by_warps(settings: &Settings) -> Vec<String> {
    const REGISTERS: [&str; 2] = ["; load(registers)", "; load(registers); stages(2)"];
    const COPIES: [&str; 5] = ["", "; load(cp_async)", "; load(cp_async); stages(2)", REGISTERS[0], REGISTERS[1]];
    let rows: Vec<&Multiply> = Multiply::of(Unit::Warp, settings.factor(Side::A)).collect();
    // The deepest instruction, and those of older targets, which copy through registers.
    let newest = rows.first().map(|row| row.least.capability);
    let loads = rows.iter().enumerate().flat_map(|(index, row)| {
        let loads = match index {
            0 => &COPIES[..],
            _ if Some(row.least.capability) < newest => &REGISTERS[..],
            _ => &[],
        };
        loads.iter().map(|load| (*row, *load))
    });
    let warps = ["", "; warp(64, 64)", "; warp(64, 32)", "; warp(32, 32)", "; warp(16, 8)"];
    loads.flat_map(|(row, load)| warps.map(|warp| format!("{}{warp}{load}", Clause::Atom(row.atom())))).collect()
}
