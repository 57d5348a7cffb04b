//! The placement of the staged tiles in the banks of shared memory, and the cost of the warps' accesses.
//!
//! The addresses and costs of accesses come from a run of the interpreter.

use ptx_gemm_dsl::terms::{Fast, Side, Swizzle};
use ptx_gemm_runtime::interp::{Direction, SharedAccess, SharedCost, WarpAccess};
use ptx_gemm_runtime::tile::{Buffer, Program};

use crate::canvas::{Anchor, Canvas, Size};
use crate::error::DrawError;
use crate::frame::Panel;
use crate::palette::{self, ALARM, BANKS, FAINT, GROUND, INK, MUTED, on_bank};
use crate::subject::{Subject, is_transposed};

/// Bytes of a word, and banks of one word each.
const WORD: u32 = 4;
const WAYS: u32 = 32;

/// Elements of a tile that are shown: in a line along the operand's own dimension, lines, and along k.
const LINE: u32 = 64;
const LINES: u32 = 2;
const DEPTH: u32 = 16;
/// Passes over the banks that are shown of one access.
const PASSES: usize = 12;

/// The cost of the accesses to one buffer in the counted product.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflicts {
    /// The buffer's name.
    pub buffer: String,
    /// Copies to it, and writes of a tile of D in its memory.
    pub stores: SharedCost,
    /// Fragments read from it, and a tile of D in its memory.
    pub loads: SharedCost,
    worst_store: Option<Worst>,
    worst_load: Option<Worst>,
}

/// The access with the most conflicts, and the bytes of each of its lanes.
#[derive(Clone, Debug, PartialEq)]
struct Worst {
    bytes: u32,
    warp: WarpAccess,
}

/// The cost of the accesses to each buffer, as counted by the interpreter.
///
/// # Errors
/// Returns the interpreter's error.
pub fn conflicts(subject: &Subject) -> Result<Vec<Conflicts>, DrawError> {
    let program = subject.program()?;
    let empty = |buffer: &Buffer| Conflicts {
        buffer: buffer.name.clone(),
        stores: SharedCost::default(),
        loads: SharedCost::default(),
        worst_store: None,
        worst_load: None,
    };
    let mut all: Vec<Conflicts> = program.buffers.iter().map(empty).collect();
    if all.is_empty() {
        return Ok(all);
    }
    // Kernels that pack operands come first in the text, and have shared memory of their own.
    let begins = |line: &str| line.contains(&format!(" {}(", program.name));
    let first_line = subject.kernel.ptx().lines().position(begins).map_or(0, |line| line as u32);
    for (_, access) in subject.profile()?.cost.shared_by_line.range(first_line..) {
        let first = access.worst.lanes.first().map_or(0, |(_, offset)| *offset);
        if let Some((index, _)) = buffer_at(program, first) {
            all[index].add(access);
        }
    }
    Ok(all)
}

impl Conflicts {
    fn add(&mut self, access: &SharedAccess) {
        let (sum, worst) = match access.way {
            Direction::Store => (&mut self.stores, &mut self.worst_store),
            Direction::Load => (&mut self.loads, &mut self.worst_load),
        };
        *sum += access.cost;
        if worst.as_ref().is_none_or(|worst| worst.warp.conflicts() < access.worst.conflicts()) {
            *worst = Some(Worst { bytes: access.bytes, warp: access.worst.clone() });
        }
    }
}

/// The buffer and the slot that a byte of shared memory belongs to.
fn buffer_at(program: &Program, offset: u32) -> Option<(usize, u32)> {
    program.buffers.iter().enumerate().find_map(|(index, buffer)| {
        let ring = &program.rings[program.ring_of(index)?];
        let from = offset.checked_sub(buffer.offset_bytes)?;
        let (slot, within) = (from / ring.slot_bytes.max(1), from % ring.slot_bytes.max(1));
        // A swizzle stays within its row of 128 bytes.
        let span = buffer.span_bytes(program.element(buffer.side)).next_multiple_of(128);
        let next = program.buffers.iter().map(|other| other.offset_bytes).filter(|at| *at > buffer.offset_bytes).min();
        let room = next.map_or(u64::MAX, |next| u64::from(next - buffer.offset_bytes));
        (slot < ring.depth && u64::from(within) < span.min(room.max(1))).then_some((index, slot))
    })
}

pub(crate) fn panel(subject: &Subject, canvas: &mut Canvas, top: f64) -> Result<f64, DrawError> {
    let program = subject.program()?;
    if program.buffers.is_empty() {
        let why = "nothing is staged in shared memory: each thread reads A and B from global memory as it multiplies";
        return Err(DrawError::Nothing(why.into()));
    }
    let profile = subject.profile()?;
    let mut y = scale(canvas, top);
    for (index, (buffer, cost)) in program.buffers.iter().zip(conflicts(subject)?).enumerate() {
        y = tile(canvas, program, buffer, cost.worst_load.as_ref(), y);
        let half = Panel::WIDTH / 2.0 + 12.0;
        let of_d = program.ring_of(index).is_some_and(|ring| program.is_staged_in(ring));
        let (stored, read) = match (of_d, program.exchange.is_some()) {
            (false, _) => ("The copies' stores", "The fragments' loads"),
            (true, true) => ("Stores, also of sums", "Loads, also of sums"),
            (true, false) if program.writes_by_tma() => ("Stores of copies and D", "The fragments' loads"),
            (true, false) => ("Stores of copies and D", "Loads of fragments, D"),
        };
        let stores = (stored, &cost.stores, cost.worst_store.as_ref());
        let loads = (read, &cost.loads, cost.worst_load.as_ref());
        let left = access(canvas, Panel::LEFT, y, stores, "TMA writes the tile");
        let right = access(canvas, Panel::LEFT + half, y, loads, "tensor cores read it by descriptor");
        y = left.max(right) + 20.0;
    }
    let text = format!(
        "Shared memory has 32 banks of one 4-byte word; in one pass each bank gives one word, to all lanes that ask for it. An \
         access needs a second pass where its lanes want different words of one bank: a conflict. 8-byte accesses go by \
         half-warps, 16-byte accesses by quarter-warps. Counted by the interpreter on a product of {} × {} × {}.",
        profile.size.m, profile.size.n, profile.size.k
    );
    Ok(canvas.paragraph(Panel::LEFT, y, Panel::WIDTH, MUTED, &text))
}

/// Draws the colours of the banks; returns the next free y.
fn scale(canvas: &mut Canvas, y: f64) -> f64 {
    canvas.text(Panel::LEFT, y + 6.0, Anchor::Start, Size::Label, MUTED, "bank");
    for (bank, color) in BANKS.into_iter().enumerate() {
        let x = Panel::LEFT + 48.0 + 17.0 * bank as f64;
        let at = [x, y - 7.0, 17.0, 17.0];
        canvas.rects(&[at], color);
        canvas.within(at, Size::Cell, on_bank(bank), bank.to_string());
    }
    y + 44.0
}

/// Draws the bank of every element of the tile, with the words that a warp reads at once; returns the next free y.
fn tile(canvas: &mut Canvas, program: &Program, buffer: &Buffer, read: Option<&Worst>, y: f64) -> f64 {
    let element = program.element(buffer.side);
    // What a caller calls it.
    let (letter, own) = if (buffer.side == Side::A) != is_transposed(program) { ("A", "m") } else { ("B", "n") };
    let order = match buffer.fast {
        Fast::K => format!("k contiguous, one {own} every {} elements", buffer.pitch),
        Fast::Mn => format!("{own} contiguous, one k every {} elements", buffer.pitch),
    };
    let swizzle = match buffer.swizzle {
        Swizzle::None => String::new(),
        Swizzle::Bytes(span) => format!(", swizzled over {span} bytes"),
    };
    let text = format!(
        "{}: a K-tile of {letter}, {} {own} × {} k of {element}; {order}{swizzle}",
        buffer.name, buffer.extent, buffer.depth
    );
    canvas.text(Panel::LEFT, y, Anchor::Start, Size::Body, INK, text);
    let (depth, lines) = (buffer.depth.min(DEPTH), buffer.extent.div_ceil(LINE).min(LINES));
    let across = buffer.extent.min(LINE);
    let names = 40.0;
    let cell = ((Panel::WIDTH - names) / f64::from(across.max(LINE))).min(17.0);
    let words = read.map(|read| words_of(program, buffer, read)).unwrap_or_default();
    let mut top = y + 26.0;
    for line in 0..lines {
        let first = line * LINE;
        let last = (first + LINE).min(buffer.extent);
        let x0 = Panel::LEFT + names;
        for own_at in (first..last).step_by(8) {
            let x = x0 + cell * (f64::from(own_at - first) + 0.5);
            canvas.text(x, top - 3.0, Anchor::Middle, Size::Tiny, MUTED, format!("{own} {own_at}"));
        }
        let mut cells: Vec<Vec<[f64; 4]>> = vec![Vec::new(); BANKS.len()];
        let mut marked = Vec::new();
        let mut numbers = Vec::new();
        for k in 0..depth {
            for own_at in first..last {
                let address = buffer.address(own_at, k, element);
                let bank = (address / WORD % WAYS) as usize;
                let at = [x0 + cell * f64::from(own_at - first), top + cell * f64::from(k), cell, cell];
                cells[bank].push(at);
                numbers.push((at, bank));
                if words.contains(&(address / WORD)) {
                    marked.push([at[0] + 1.0, at[1] + 1.0, cell - 2.0, cell - 2.0]);
                }
            }
        }
        cells.iter().zip(BANKS).for_each(|(cells, color)| canvas.rects(cells, color));
        for (at, bank) in numbers {
            canvas.within(at, Size::Tiny, on_bank(bank), bank.to_string());
        }
        canvas.frames(&marked, palette::MARK, 2.0);
        for k in (0..depth).step_by(if depth > 8 { 4 } else { 1 }) {
            let y = top + cell * (f64::from(k) + 0.5) + 3.4;
            canvas.text(x0 - 5.0, y, Anchor::End, Size::Tiny, MUTED, format!("k {k}"));
        }
        top += cell * f64::from(depth) + 22.0;
    }
    let mut text = String::from("In the cells: bank of the element.");
    if read.is_some() {
        text.push_str(" Outlined: what a warp reads at once, in the load below.");
    }
    if depth < buffer.depth || lines * LINE < buffer.extent {
        let shown = (lines * LINE).min(buffer.extent);
        text.push_str(&format!(" Shown: {own} 0 to {}, k 0 to {}.", shown - 1, depth - 1));
    }
    canvas.text(Panel::LEFT + names, top - 4.0, Anchor::Start, Size::Label, MUTED, text);
    top + 26.0
}

/// The words of an access, as those of slot 0.
fn words_of(program: &Program, buffer: &Buffer, access: &Worst) -> Vec<u32> {
    let slot_bytes =
        program.rings.iter().find(|ring| ring.buffers.iter().any(|index| program.buffers[*index].name == buffer.name));
    let slot_bytes = slot_bytes.map_or(u32::MAX, |ring| ring.slot_bytes.max(1));
    let base = |offset: u32| buffer.offset_bytes + (offset - buffer.offset_bytes) % slot_bytes;
    let lanes = access.warp.lanes.iter();
    lanes.flat_map(|(_, offset)| base(*offset) / WORD..(base(*offset) + access.bytes).div_ceil(WORD)).collect()
}

/// One pass of a part of a warp over the banks: for each bank, the lane that gets a word, and whether others share it.
type Pass = [Option<(usize, bool)>; WAYS as usize];

/// Draws one access of a warp, bank by bank and pass by pass, with the totals; `instead` says what happens where no thread
/// accesses the buffer. Returns the next free y.
fn access(
    canvas: &mut Canvas,
    x: f64,
    y: f64,
    (name, cost, worst): (&str, &SharedCost, Option<&Worst>),
    instead: &str,
) -> f64 {
    let lost = cost.conflicts();
    let share = 100.0 * lost as f64 / (cost.wavefronts.max(1)) as f64;
    let text = match lost {
        0 if cost.accesses == 0 => format!("{name}: none of any thread; {instead}"),
        0 => format!("{name}: no conflicts in {} passes", cost.wavefronts),
        _ => format!("{name}: {lost} of {} passes are conflicts ({share:.0} %)", cost.wavefronts),
    };
    canvas.text(x, y, Anchor::Start, Size::Body, if lost == 0 { INK } else { ALARM }, text);
    let Some(worst) = worst else {
        return y + 20.0;
    };
    let parts = passes(worst);
    let taken: usize = parts.iter().map(|(_, passes)| passes.len()).sum();
    let (cell, names) = (14.6, 82.0);
    let x0 = x + names;
    let mut top = y + 26.0;
    for bank in (0..WAYS).step_by(4) {
        let x = x0 + cell * (f64::from(bank) + 0.5);
        canvas.text(x, top - 3.0, Anchor::Middle, Size::Tiny, MUTED, bank.to_string());
    }
    let (mut shown, mut several) = (0, false);
    for (lanes, passes) in parts {
        for (index, pass) in passes.iter().enumerate() {
            if shown == PASSES {
                break;
            }
            shown += 1;
            if index == 0 {
                canvas.text(
                    x0 - 6.0,
                    top + 10.5,
                    Anchor::End,
                    Size::Cell,
                    MUTED,
                    format!("lanes {}–{}", lanes.0, lanes.1),
                );
            } else {
                canvas.text(x0 - 6.0, top + 10.5, Anchor::End, Size::Cell, ALARM, "again");
            }
            canvas.rect(x0, top, cell * f64::from(WAYS), cell - 1.0, GROUND);
            for (bank, got) in pass.iter().enumerate() {
                let Some((lane, shared)) = got else { continue };
                let at = [x0 + cell * bank as f64 + 0.4, top, cell - 0.8, cell - 1.0];
                canvas.rects(&[at], BANKS[bank]);
                canvas.within(at, Size::Tiny, on_bank(bank), lane.to_string());
                several |= *shared;
            }
            top += cell;
        }
        top += 3.0;
    }
    canvas.line((x0, top), (x0 + cell * f64::from(WAYS), top), FAINT, 1.0, None);
    let more = if taken > shown { format!("; {} more passes not shown", taken - shown) } else { String::new() };
    let (bytes, conflicts) = (worst.bytes, worst.warp.conflicts());
    let which = if conflicts == 0 { "one access" } else { "the worst access" };
    let shared = if several { "; of lanes that want the same word the first" } else { "" };
    let text = format!("{which}, {bytes} bytes a lane: numbers of lanes by bank{shared}{more}");
    canvas.text(x, top + 16.0, Anchor::Start, Size::Cell, MUTED, text);
    top + 26.0
}

/// The parts of the warp that access memory together, first and last lane, and the passes of each.
fn passes(worst: &Worst) -> Vec<((usize, usize), Vec<Pass>)> {
    let at_once = (WAYS * WORD / worst.bytes.max(WORD)) as usize;
    let parts = worst.warp.lanes.chunk_by(|a, b| a.0 / at_once == b.0 / at_once);
    let part = |lanes: &[(usize, u32)]| {
        let mut passes: Vec<Pass> = Vec::new();
        let mut words: Vec<(u32, usize)> = lanes
            .iter()
            .flat_map(|&(lane, offset)| {
                (offset / WORD..(offset + worst.bytes).div_ceil(WORD)).map(move |word| (word, lane))
            })
            .collect();
        words.sort_unstable();
        for same in words.chunk_by(|a, b| a.0 == b.0) {
            let (word, lane) = same[0];
            let bank = (word % WAYS) as usize;
            let shared = same.iter().any(|(_, other)| *other != lane);
            match passes.iter_mut().find(|pass| pass[bank].is_none()) {
                Some(pass) => pass[bank] = Some((lane, shared)),
                None => {
                    let mut pass: Pass = [None; WAYS as usize];
                    pass[bank] = Some((lane, shared));
                    passes.push(pass);
                }
            }
        }
        let ends = (lanes.first().map_or(0, |(lane, _)| *lane), lanes.last().map_or(0, |(lane, _)| *lane));
        (ends, passes)
    };
    parts.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::{Worst, passes};
    use ptx_gemm_runtime::interp::WarpAccess;

    #[test]
    fn words_of_one_bank_take_one_pass_each() {
        let lanes = vec![(0, 0), (1, 128), (2, 0), (3, 4)];
        let worst = Worst { bytes: 4, warp: WarpAccess { wavefronts: 2, ideal: 1, lanes } };
        let all = passes(&worst);
        let [((0, 3), passes)] = &all[..] else { panic!("one part: {all:?}") };
        assert_eq!(passes.len() as u64, worst.warp.wavefronts);
        assert_eq!((passes[0][0], passes[1][0], passes[0][1]), (Some((0, true)), Some((1, false)), Some((3, false))));
    }

    #[test]
    fn wide_accesses_go_by_quarters_of_a_warp() {
        let lanes = (0..32).map(|lane| (lane, 16 * lane as u32)).collect();
        let worst = Worst { bytes: 16, warp: WarpAccess { wavefronts: 4, ideal: 4, lanes } };
        let all = passes(&worst);
        assert_eq!(
            all.iter().map(|(lanes, passes)| (*lanes, passes.len())).collect::<Vec<_>>(),
            [((0, 7), 1), ((8, 15), 1), ((16, 23), 1), ((24, 31), 1)]
        );
    }
}
