//! Instructions that only some targets have.

use crate::check::settings::Settings;
use crate::clause::Atom;
use crate::instead;
use crate::table::Key;
use crate::target::Target;
use crate::terms::{Load, Pace, Reduce, Side, SplitK, Store};
use crate::types::DType;

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
    for dtype in [DType::E4m3, DType::E5m2] {
        if used.contains(&dtype) {
            need(Key::Types, format!("{dtype}"), Target::SM_89, &["types(f16)", "types(f32)"]);
        }
    }
    // Multiplication that every target supports. A schedule may use types that only tensor cores have.
    let by_threads = instead::by_threads(settings.warp);
    let other_types = by_threads.iter().map(|text| format!("types(f32); {text}"));
    let plain: Vec<String> = by_threads.iter().cloned().chain(other_types).collect();
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    match settings.atom {
        Atom::Fma => {}
        Atom::Mma(_, _, 8) if settings.factor(Side::A) == DType::F16 => {
            need(Key::Atom, "mma".into(), Target::SM_75, &plain)
        }
        // Turing has a product of half the depth for f16.
        Atom::Mma(m, n, k) => {
            let shallow: &[&str] = if settings.factor(Side::A) == DType::F16 { &["atom(mma(16, 8, 8))"] } else { &[] };
            need(Key::Atom, format!("mma({m}, {n}, {k})"), Target::SM_80, &[shallow, &plain].concat());
        }
        Atom::Wgmma(..) => {
            let of_warps = by_warps(settings);
            let instead: Vec<&str> = of_warps.iter().map(String::as_str).chain(plain).collect();
            need(Key::Atom, "wgmma".into(), Target::SM_90A, &instead);
        }
    }
    match settings.load {
        Load::Registers => {}
        Load::CpAsync => need(Key::Load, "cp_async".into(), Target::SM_80, &["load(registers)"]),
        Load::Tma => {
            // `wgmma` reads what TMA copies, so a target without TMA has no use for `wgmma`.
            let of_warps = if let Atom::Wgmma(..) = settings.atom { by_warps(settings) } else { Vec::new() };
            let others = ["load(cp_async)", "load(registers)"].into_iter();
            let instead: Vec<&str> = others.chain(of_warps.iter().map(String::as_str)).collect();
            need(Key::Load, "tma".into(), Target::SM_90, &instead);
        }
    }
    if settings.pace == Pace::Free {
        need(Key::Pace, "pace(free)".into(), Target::SM_80, &["pace(tile)"]);
    }
    if settings.get(Key::Cluster).is_some() {
        need(Key::Cluster, "a cluster".into(), Target::SM_90, &[]);
    }
    if let Some(SplitK { parts, reduce: Reduce::Cluster }) = settings.split_k {
        let serial = format!("split_k({parts}, reduce = serial)");
        need(Key::SplitK, "a cluster".into(), Target::SM_90, &[&serial]);
    }
    if settings.get(Key::Registers).is_some() {
        need(Key::Registers, "setmaxnreg".into(), Target::SM_90A, &[]);
    }
    if settings.store == Store::Tma && settings.get(Key::Store).is_some() {
        need(Key::Store, "store(tma)".into(), Target::SM_90, &["store(staged)", "store(direct)"]);
    }
    list
}

/// Replacements for `wgmma`: instructions of a warp, with a warp tile and a copy that every target with them supports.
fn by_warps(settings: &Settings) -> Vec<String> {
    const REGISTERS: [&str; 2] = ["; load(registers)", "; load(registers); stages(2)"];
    let dtype = settings.factor(Side::A);
    let copies = ["", "; load(cp_async)", "; load(cp_async); stages(2)"].into_iter().chain(REGISTERS);
    let mut loads: Vec<(u32, &str)> = copies.map(|load| (dtype.mma_depth(), load)).collect();
    if dtype == DType::F16 {
        // Turing has products of half the depth.
        loads.extend(REGISTERS.map(|load| (8, load)));
    }
    let warps = ["", "; warp(64, 64)", "; warp(64, 32)", "; warp(32, 32)", "; warp(16, 8)"];
    let of_warp = |(depth, load)| warps.map(|warp| format!("atom(mma(16, 8, {depth})){warp}{load}"));
    loads.into_iter().flat_map(of_warp).collect()
}
