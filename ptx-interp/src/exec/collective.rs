//! Shuffles, votes, reductions and elections. All participating lanes have converged when they run.

use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::warp::{Shuffle, Vote};

use crate::env::Env;
use crate::op::{Collective, CollectiveKind, Slot};
use crate::row::{LANES, lanes};
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

#[inline(never)]
pub(super) fn run<const WATCH: bool>(
    warp: &mut Warp,
    env: &Env,
    collective: &Collective,
    active: u32,
    named: u32,
) -> Checked {
    let here = active & named;
    let ballot =
        |warp: &Warp| lanes(here).fold(0, |word, lane| word | (warp.regs.get(collective.a, lane) as u32) << lane);
    match collective.kind {
        CollectiveKind::Shuffle(mode) => return shuffle::<WATCH>(warp, env, collective, mode, here),
        CollectiveKind::Vote(vote) => {
            let votes = if collective.inverted { here & !ballot(warp) } else { ballot(warp) };
            let value = match vote {
                Vote::Ballot => votes,
                Vote::All => u32::from(votes == here),
                Vote::Any => u32::from(votes != 0),
                Vote::Uni => u32::from(votes == 0 || votes == here),
            };
            give(warp, collective.d, here, value);
        }
        CollectiveKind::ActiveMask => give(warp, collective.d, active, active),
        CollectiveKind::Reduce { op, signed } => {
            let values = lanes(here).map(|lane| warp.regs.get(collective.a, lane) as u32);
            let value = values.reduce(|a, b| reduce(op, signed, a, b)).unwrap_or(0);
            give(warp, collective.d, here, value);
        }
        CollectiveKind::ReduceFloats { max, abs, nan } => {
            let value = |lane| f32::from_bits(warp.regs.get(collective.a, lane) as u32);
            let values = lanes(here).map(value).map(|value| if abs { value.abs() } else { value });
            let found = values.reduce(|a, b| match (a.is_nan(), b.is_nan()) {
                (true, true) => a,
                (true, false) => {
                    if nan {
                        a
                    } else {
                        b
                    }
                }
                (false, true) => {
                    if nan {
                        b
                    } else {
                        a
                    }
                }
                // -0 is below 0.
                _ if a.total_cmp(&b).is_lt() == max => b,
                _ => a,
            });
            let bits = found.map_or(0, |found| if found.is_nan() { 0x7fff_ffff } else { found.to_bits() });
            give(warp, collective.d, here, bits);
        }
        CollectiveKind::Match { all } => {
            let values: [u64; LANES] = std::array::from_fn(|lane| warp.regs.get(collective.a, lane));
            for lane in lanes(here) {
                let same = lanes(here)
                    .filter(|&other| values[other] == values[lane])
                    .fold(0u32, |same, other| same | 1 << other);
                let value = if all && same != here { 0 } else { same };
                warp.regs.set(collective.d, lane, value.into());
                warp.regs.set(Slot::P(collective.p), lane, u64::from(same == here));
            }
        }
        // A lane holds two 16-bit elements of a row, and gets two of a column.
        CollectiveKind::Transpose => {
            let words: [u64; LANES] = std::array::from_fn(|lane| warp.regs.get(collective.a, lane));
            for lane in lanes(here) {
                let (column, row) = (lane / 4, 2 * (lane % 4));
                let element = |row: usize| words[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
                warp.regs.set(collective.d, lane, element(row) | element(row + 1) << 16);
            }
        }
        // The ISA does not specify which lane is elected; here it is the lowest.
        CollectiveKind::Elect => {
            let leader = here.trailing_zeros();
            give(warp, collective.d, here, leader);
            for lane in lanes(here) {
                warp.regs.set(Slot::P(collective.p), lane, u64::from(lane as u32 == leader));
            }
        }
    }
    if WATCH {
        // Every result depends on every lane's value.
        let (a, d, p) = (warp.taint.at(collective.a), warp.taint.at(collective.d), warp.taint.at(collective.p.into()));
        let tainted = if warp.taint.mask(a) & here != 0 { u32::MAX } else { 0 };
        warp.taint.assign(d, tainted, a, active);
        warp.taint.assign(p, tainted, a, active);
    }
    Ok(())
}

fn give(warp: &mut Warp, d: Slot, to: u32, value: u32) {
    for lane in lanes(to) {
        warp.regs.set(d, lane, u64::from(value));
    }
}

fn reduce(op: Atomic, signed: bool, a: u32, b: u32) -> u32 {
    let less = if signed { (a as i32) < b as i32 } else { a < b };
    match op {
        Atomic::Min => {
            if less {
                a
            } else {
                b
            }
        }
        Atomic::Max => {
            if less {
                b
            } else {
                a
            }
        }
        Atomic::And => a & b,
        Atomic::Or => a | b,
        Atomic::Xor => a ^ b,
        _ => a.wrapping_add(b),
    }
}

fn shuffle<const WATCH: bool>(
    warp: &mut Warp,
    env: &Env,
    collective: &Collective,
    mode: Shuffle,
    here: u32,
) -> Checked {
    let values: [u64; LANES] = std::array::from_fn(|lane| warp.regs.get(collective.a, lane));
    let a = warp.taint.at(collective.a);
    let from = if WATCH { warp.taint.mask(a) } else { 0 };
    let mut tainted = 0;
    for lane in lanes(here) {
        let b = warp.regs.r32[collective.b.0 as usize].0[lane] & 31;
        let c = warp.regs.r32[collective.c.0 as usize].0[lane];
        let (source, inside) = source(mode, lane as u32, b, c);
        if env.watches(ViolationKind::Uninitialised) && here >> source & 1 == 0 {
            let message = format!("{{thread}} reads lane {source}, which does not take part in the shuffle");
            return Err(Fault::new(ViolationKind::Uninitialised, 1 << lane, message));
        }
        warp.regs.set(collective.d, lane, values[source as usize]);
        warp.regs.set(Slot::P(collective.p), lane, u64::from(inside));
        tainted |= (from >> source & 1) << lane;
    }
    if WATCH {
        let (d, p) = (warp.taint.at(collective.d), warp.taint.at(collective.p.into()));
        warp.taint.assign(d, tainted, a, here);
        warp.taint.clear(p, here);
    }
    Ok(())
}

/// The lane that a lane reads, and whether it is inside its segment; `c` holds the segment's mask and its clamp.
fn source(mode: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let last = lane & segment | clamp & !segment;
    let (source, inside) = match mode {
        Shuffle::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= last as i32),
        Shuffle::Down => (lane + b, lane + b <= last),
        Shuffle::Bfly => (lane ^ b, lane ^ b <= last),
        Shuffle::Idx => {
            let source = lane & segment | b & !segment;
            (source, source <= last)
        }
    };
    if inside { (source, true) } else { (lane, false) }
}
