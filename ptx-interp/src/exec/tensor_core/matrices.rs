//! 8 x 8 matrices of 16-bit elements between registers and shared memory. Lane 8 i + r provides the address of row r of
//! matrix i, 16 bytes long. Lane 4 r + t holds elements 2 t and 2 t + 1 of row r in register i, or of column r if the
//! matrix is transposed on the way.

use crate::env::{BlockMemory, Env};
use crate::exec::equal::{Stored, byte_of};
use crate::exec::locate::{AccessKind, LaneAccess, Location, addresses, defined_address, locate, out_of_shared};
use crate::exec::order::{How, RowAccess};
use crate::exec::watch;
use crate::op::{Matrices, Way};
use crate::row::LANES;
use crate::violation::Checked;
use crate::warp::Warp;

/// Bytes of a row.
const ROW: usize = 16;

pub(super) fn execute<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &Matrices,
    pc: u32,
) -> Checked {
    // The addresses of the other lanes are ignored.
    let active = ((1u64 << (8 * op.count)) - 1) as u32;
    if WATCH {
        defined_address(warp, env, op.address.base, active)?;
    }
    let kind = match op.way {
        Way::Load => AccessKind::Read,
        Way::Store => AccessKind::Write,
    };
    let offsets = rows(warp, block, env, op, kind)?;
    if WATCH && op.way == Way::Load {
        watch::shared(warp, block, env, &RowAccess { kind, active, bytes: ROW, how: How::weak(pc) }, &offsets)?;
    }
    if WATCH && op.way == Way::Store {
        let byte = &|lane: usize, position: usize| {
            let (matrix, row, element) = (lane / 8, lane % 8, position / 2);
            let (along, pair) = if op.transposed { (element, row) } else { (row, element) };
            byte_of(warp, op.values[matrix].into(), 4 * along + pair / 2, pair % 2 * 2 + position % 2)
        };
        let stored = Stored { warp, byte, span: ROW, active, place: &|lane| offsets[lane].into() };
        watch::shared(warp, block, env, &watch::row(&stored, pc), &offsets)?;
    }
    match op.way {
        Way::Load => load::<WATCH>(warp, block, op, &offsets, pc),
        Way::Store => store::<WATCH>(warp, block, op, &offsets),
    }
    Ok(())
}

/// Offsets of the rows in shared memory.
fn rows(warp: &Warp, block: &mut BlockMemory, env: &Env, op: &Matrices, kind: AccessKind) -> Checked<[u32; LANES]> {
    let addresses = addresses(&warp.regs, op.address.base, op.address.offset);
    let mut offsets = [0; LANES];
    for (lane, offset) in offsets[..8 * usize::from(op.count)].iter_mut().enumerate() {
        let space = op.address.space;
        let access = LaneAccess { space, address: addresses[lane], bytes: ROW as u64, lane, kind };
        *offset = match locate(block, env, &access)? {
            Location::Shared(offset) => offset as u32,
            _ => return Err(out_of_shared(block, &access)),
        };
    }
    Ok(offsets)
}

/// The row of a matrix that holds an element of a lane, and the element's index in that row.
#[inline(always)]
fn place(op: &Matrices, lane: usize, half: usize) -> (usize, usize) {
    let (along, pair) = (lane / 4, lane % 4 * 2 + half);
    if op.transposed { (pair, along) } else { (along, pair) }
}

fn load<const WATCH: bool>(warp: &mut Warp, block: &BlockMemory, op: &Matrices, offsets: &[u32; LANES], pc: u32) {
    for (matrix, slot) in op.values[..usize::from(op.count)].iter().enumerate() {
        let mut tainted = 0;
        for lane in 0..LANES {
            let mut value = 0;
            for half in 0..2 {
                let (row, element) = place(op, lane, half);
                let at = offsets[8 * matrix + row] as usize + 2 * element;
                value |= (block.shared.load(at, 2) as u32) << (16 * half);
                if WATCH {
                    tainted |= u32::from(!block.shared.is_written(at, 2)) << lane;
                }
            }
            warp.regs.r32[slot.0 as usize].0[lane] = value;
        }
        if WATCH {
            warp.taint.load(warp.taint.at32(*slot), tainted, u32::MAX, pc);
        }
    }
}

fn store<const WATCH: bool>(warp: &Warp, block: &mut BlockMemory, op: &Matrices, offsets: &[u32; LANES]) {
    for (matrix, slot) in op.values[..usize::from(op.count)].iter().enumerate() {
        let tainted = if WATCH { warp.taint.mask(warp.taint.at32(*slot)) } else { 0 };
        for lane in 0..LANES {
            let value = warp.regs.r32[slot.0 as usize].0[lane];
            for half in 0..2 {
                let (row, element) = place(op, lane, half);
                let at = offsets[8 * matrix + row] as usize + 2 * element;
                block.shared.store(at, 2, u64::from(value >> (16 * half) & 0xffff));
                if WATCH {
                    block.shared.mark(at, 2, tainted >> lane & 1 == 0);
                }
            }
        }
    }
    block.wrote_shared = true;
}
