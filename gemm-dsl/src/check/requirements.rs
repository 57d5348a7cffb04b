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
pub(super) struct Requirement {
    pub key: Key,
    /// The feature that needs it.
    pub what: String,
    /// The first target that has it.
    pub least: Target,
    /// Clauses that replace it on older targets, best first.
    pub instead: Vec<String>,
}

impl Requirement {
    /// True if `target` has the feature. Features of an `a` target exist only on that target.
    pub fn holds(&self, target: Target) -> bool {
        match self.least.specific {
            true => target == self.least,
            false => target.capability >= self.least.capability,
        }
    }
}

/// Everything that the schedule needs from its target, in the order of the reference.
pub(super) fn all(settings: &Settings) -> Vec<Requirement> {
    let mut list = Vec::new();
    let mut need = |key, what: String, least, instead: &[&str]| {
        list.push(Requirement { key, what, least, instead: instead.iter().map(ToString::to_string).collect() });
    };
    let types = settings.problem.types;
    let used = [types.a, types.b, types.c, types.d];
    for element in ELEMENTS.iter().filter(|element| used.contains(&element.dtype)) {
        if let Some(since) = element.since {
            need(Key::Types, element.name.into(), since, &["types(f16)", "types(f32)"]);
        }
    }
    // Multiplication that every target supports. A schedule may use types that only tensor cores have.
    let by_threads = instead::by_threads(settings.shape.warp);
    let other_types = by_threads.iter().map(|text| format!("types(f32); {text}"));
    let plain: Vec<String> = by_threads.iter().cloned().chain(other_types).collect();
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    match settings.atom.tensor() {
        None => {}
        Some((Unit::Warp, (m, n, k))) => {
            let factor = settings.factor(Side::A);
            let own = settings.atom.row(factor).map_or(Target::SM_80, |row| row.least);
            let older = Multiply::of(Unit::Warp, factor).filter(|row| row.least.capability < own.capability);
            let older: Vec<String> = older.map(|row| Clause::Atom(row.atom()).to_string()).collect();
            let older: Vec<&str> = older.iter().map(String::as_str).collect();
            need(Key::Atom, format!("mma({m}, {n}, {k})"), own, &[&older[..], &plain].concat());
        }
        Some((Unit::WarpGroup, _)) => {
            let of_warps = by_warps(settings);
            let instead: Vec<&str> = of_warps.iter().map(String::as_str).chain(plain).collect();
            need(Key::Atom, "wgmma".into(), Target::SM_90A, &instead);
        }
    }
    match settings.staged.load {
        Load::Registers => {}
        Load::CpAsync => need(Key::Load, "cp_async".into(), Target::SM_80, &["load(registers)"]),
        Load::Tma => {
            // `wgmma` reads what TMA copies, so a target without TMA has no use for `wgmma`.
            let of_warps = if settings.atom.of_group().is_some() { by_warps(settings) } else { Vec::new() };
            let others = ["load(cp_async)", "load(registers)"].into_iter();
            let instead: Vec<&str> = others.chain(of_warps.iter().map(String::as_str)).collect();
            need(Key::Load, "tma".into(), Target::SM_90, &instead);
        }
    }
    if settings.staged.pace == Pace::Free {
        need(Key::Pace, "pace(free)".into(), Target::SM_80, &["pace(tile)"]);
    }
    if settings.get(Key::Cluster).is_some() {
        need(Key::Cluster, "a cluster".into(), Target::SM_90, &[]);
    }
    if let Some(SplitK { parts, reduce: Reduce::Cluster }) = settings.scheduler.split_k {
        let serial = format!("split_k({parts}, reduce = serial)");
        need(Key::SplitK, "a cluster".into(), Target::SM_90, &[&serial]);
    }
    if settings.get(Key::Registers).is_some() {
        need(Key::Registers, "setmaxnreg".into(), Target::SM_90A, &[]);
    }
    if settings.output.store == Store::Tma && settings.get(Key::Store).is_some() {
        need(Key::Store, "store(tma)".into(), Target::SM_90, &["store(staged)", "store(direct)"]);
    }
    list
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
