//! Copies one buffer's K-tile from global to shared memory, through registers or asynchronously without them.
//!
//! The tile is divided into chunks along the operand's contiguous dimension in global memory. Chunk c begins at
//! coordinate `c / per_row` of the other dimension. Thread t of the role copies chunks t, t + threads, t + 2 threads
//! and so on, one in each *pass*. Passes that differ by constants share one pointer.

mod edge;

use std::ops::Range;

use ptx_gemm_dsl::terms::{Fast, Side, Tail};

use super::extent::register;
use super::shared::SharedAddress;
use super::source::Source;
use super::{Lowered, Lowering, WorkTile, broken, index, letter};
use crate::kernel::{Access, Address, Dim, Expr, Guard, Math, Memory, Op, Reach, Reg, Value};
use crate::origin::Site;
use crate::tile::{Buffer, Mover, Note};

/// Bytes of a register that holds several narrow elements.
const WORD_BYTES: u32 = 4;

/// How a tile is divided into chunks.
#[derive(Clone, Copy)]
struct Chunks {
    /// Elements of a chunk, and of one access to shared memory.
    width: u32,
    piece: u32,
    /// Chunks along the contiguous dimension, and in the whole tile.
    per_row: u32,
    count: u32,
    /// Number of passes.
    passes: u32,
}

impl Chunks {
    fn of(buffer: &Buffer, global_fast: Fast, (width, piece): (u32, u32), threads: u32) -> Chunks {
        let (row, rows) = match global_fast {
            Fast::K => (buffer.depth, buffer.extent),
            Fast::Mn => (buffer.extent, buffer.depth),
        };
        let per_row = row / width;
        let count = per_row * rows;
        Chunks { width, piece, per_row, count, passes: count.div_ceil(threads) }
    }
}

/// One chunk of a thread: its position in the tile and the threads that copy it.
struct Pass {
    /// Global address of the chunk for the next K-tile.
    pointer: usize,
    /// Constant distance from that pointer, as (rows, elements).
    delta: (u32, u32),
    /// Index of its shared address in slot 0 (regular passes share one and differ by a constant), and the distance from
    /// it.
    shared: usize,
    shared_delta: u32,
    /// Whether the thread has a chunk in this pass; absent if all threads do.
    active: Option<Reg>,
}

/// The matrix that a buffer's K-tiles are copied from.
struct GlobalSide {
    /// Its contiguous dimension.
    fast: Fast,
    /// Address of the matrix, or of its first plane.
    base: Expr,
    /// Bytes from one plane to the next, if there are several.
    plane_bytes: Option<Expr>,
    /// Addresses of the passes that start at them, advanced from K-tile to K-tile.
    pointers: Vec<Expr>,
    /// Bytes of one row of the outer dimension.
    row_bytes: Expr,
    /// Rows between consecutive passes, if constant, and the same in bytes.
    step_rows: u32,
    row_step: Expr,
    /// Bytes from one K-tile to the next.
    advance: Expr,
}

/// The registers between global and shared memory.
struct Staging {
    /// Those of all passes, in order.
    registers: Vec<Reg>,
    /// Elements per register: those of a word if narrow ones are loaded together. Words are stored without being split,
    /// so nothing waits for the load before the store.
    elements: u32,
    /// Registers for single elements, if the others hold words.
    single: Vec<Reg>,
}

/// The state of one buffer's copies.
pub(super) struct Copies {
    /// The buffer, and its index in the program.
    pub buffer: usize,
    side: Side,
    /// Whether the copies are asynchronous and bypass the registers.
    pub is_async: bool,
    chunks: Chunks,
    tile: Buffer,
    /// Bytes of an element.
    bytes: u32,
    source: GlobalSide,
    passes: Vec<Pass>,
    /// Addresses in slot 0, prepared for every access of the passes that start at them.
    shared: Vec<SharedAddress>,
    staging: Staging,
}

impl Lowering<'_> {
    /// Prepares the copies into a buffer.
    pub(super) fn copies(&mut self, work_tile: &WorkTile, buffer: usize, by: Mover) -> Lowered<Copies> {
        let widths = by.chunk().ok_or_else(|| broken("no thread copies elements by tma"))?;
        let tile = self.program.buffers[buffer].clone();
        let side = tile.side;
        let bytes = self.program.element(side).bytes();
        let note = self.program.block_note.clone();
        self.b.origin_at(Site::PartToCopy, &note, &format!("address of this thread's part of {}", letter(side)));
        let Source { base, row_bytes, fast: global_fast, plane_bytes } = self.source(work_tile, side)?;
        let chunks = Chunks::of(&tile, global_fast, widths, self.role.threads);
        let own = work_tile.own(side).0.clone();
        let own_bytes = match global_fast {
            Fast::K => own.wide() * row_bytes.clone(),
            Fast::Mn => own.wide() * bytes,
        };
        let tile_base = self.b.set(base.clone() + own_bytes);
        let first_k = match global_fast {
            Fast::K => work_tile.k0.clone().wide() * bytes,
            Fast::Mn => work_tile.k0.clone().wide() * row_bytes.clone(),
        };
        let mut tile_base = self.b.set(tile_base + first_k);
        if let Some(plane_bytes) = &plane_bytes {
            tile_base = self.b.set(tile_base + plane_bytes.clone() * self.first_plane(side));
        }
        let advance = match global_fast {
            Fast::K => Expr::Const(u64::from(tile.depth * bytes)),
            Fast::Mn => self.b.set(row_bytes.clone() * tile.depth),
        };
        let in_word = WORD_BYTES / bytes.min(WORD_BYTES);
        let whole = !by.is_async() && chunks.width.is_multiple_of(in_word);
        let per_register = if whole { in_word } else { 1 };
        let count = (chunks.passes * chunks.width / per_register) as usize;
        let (elements, words) = (self.families.staging[index(side)], self.families.words[index(side)]);
        let (staging, single) = match (by.is_async(), per_register) {
            (true, _) => (Vec::new(), Vec::new()),
            (false, 1) => (self.b.fresh_many(elements, count), Vec::new()),
            (false, _) => (self.b.fresh_many(words, count), self.b.fresh_many(elements, chunks.width as usize)),
        };
        let step_rows = (self.role.threads / chunks.per_row).max(1);
        let row_step = if chunks.passes > 1 { self.b.set(row_bytes.clone() * step_rows) } else { Expr::Const(0) };
        let mut copies = Copies {
            buffer,
            side,
            is_async: by.is_async(),
            chunks,
            tile,
            bytes,
            source: GlobalSide {
                fast: global_fast,
                base,
                plane_bytes,
                pointers: Vec::new(),
                row_bytes,
                step_rows,
                row_step,
                advance,
            },
            passes: Vec::new(),
            shared: Vec::new(),
            staging: Staging { registers: staging, elements: per_register, single },
        };
        for pass in 0..chunks.passes {
            self.add_pass(&mut copies, pass, &tile_base);
        }
        Ok(copies)
    }

    /// Adds pass number `pass`: its coordinates, its pointer and its shared address.
    fn add_pass(&mut self, copies: &mut Copies, pass: u32, tile_base: &Expr) {
        let Chunks { width, per_row, count, passes, .. } = copies.chunks;
        let (threads, bytes) = (self.role.threads, copies.bytes);
        let first = pass * threads;
        let active = (first + threads > count).then(|| {
            let has_chunk = self.role.tid.clone().lt(count - first);
            self.b.set_reg(has_chunk)
        });
        // (rows, elements) from the first pass to this one, if constant.
        let delta = if threads.is_multiple_of(per_row) {
            Some((first / per_row, 0))
        } else if per_row.is_multiple_of(threads) {
            Some((first / per_row, first % per_row * width))
        } else {
            (pass == 0).then_some((0, 0))
        };
        if let (Some((rows, elements)), Some(base)) = (delta, copies.passes.first()) {
            let shared_delta = copies.shared_offset(rows, elements);
            let (pointer, shared) = (base.pointer, base.shared);
            let delta = (rows, elements);
            copies.passes.push(Pass { pointer, delta, shared, shared_delta, active });
            return;
        }
        let (chunk, outer, inner) = self.coordinates(copies.chunks, pass);
        let address =
            tile_base.clone() + outer.clone().wide() * copies.source.row_bytes.clone() + (inner.clone() * bytes).wide();
        let pointer = self.b.variable_wide(address);
        copies.source.pointers.push(pointer);
        let in_slot = match copies.same_order() {
            // Adjacent chunks differ only in their index.
            true if per_row * width == copies.tile.pitch => chunk * width,
            true => outer.clone() * copies.tile.pitch + inner.clone(),
            false => inner.clone() * copies.tile.pitch + outer.clone(),
        };
        // In a regular copy, the first pass prepares the addresses of all passes.
        let regular = threads.is_multiple_of(per_row) || per_row.is_multiple_of(threads);
        let served = if regular { pass..passes } else { pass..pass + 1 };
        let mut distances = Vec::new();
        for served in served {
            let chunk = served * threads;
            let (rows, elements) = (chunk / per_row, chunk % per_row * width);
            let from = if regular { copies.shared_offset(rows, elements) } else { 0 };
            distances.extend((0..width).map(|e| from + copies.shared_offset(0, e)));
        }
        let Buffer { offset_bytes, swizzle, .. } = copies.tile;
        copies.shared.push(SharedAddress::new(&mut self.b, offset_bytes, in_slot * bytes, swizzle, distances));
        let shared = copies.shared.len() - 1;
        copies.passes.push(Pass {
            pointer: copies.source.pointers.len() - 1,
            delta: (0, 0),
            shared,
            shared_delta: 0,
            active,
        });
    }

    /// Copies the K-tiles that the pointers point at, `ahead` elements after the position where `rem` of k is left,
    /// into the slot at byte offset `slot`. Through registers, this is only the first half; [`Lowering::land`] is the
    /// second. Consecutive copies of operands share one branch, since each branch costs the mainloop one or two
    /// instructions that no multiply can hide.
    ///
    /// `full` says whether the whole K-tile is in bounds; absent if it always is.
    pub(super) fn copy(
        &mut self,
        work_tile: &WorkTile,
        operands: &[(&Copies, &Note)],
        full: Option<Reg>,
        (rem, ahead): (&Expr, u32),
        slot: &Expr,
    ) -> Lowered<()> {
        let k = Reach::new(Dim::K, register(rem)?, ahead + self.program.block.k);
        let Some(full) = full else {
            return operands.iter().try_for_each(|(copies, note)| self.copy_inside(work_tile, copies, k, slot, note));
        };
        let rem_k = match ahead {
            0 => rem.clone(),
            ahead => rem.clone().max(ahead.into()) - ahead,
        };
        self.b.open();
        operands.iter().try_for_each(|(copies, note)| self.copy_inside(work_tile, copies, k, slot, note))?;
        let then = self.b.close();
        self.b.open();
        let rem_k = match self.program.tail {
            Tail::Predicate => {
                let note = self.program.tail_note.clone();
                self.b.origin(&note, "K left from the tile being copied");
                self.b.set(rem_k)
            }
            Tail::None => Expr::Const(0),
        };
        for (copies, note) in operands {
            match (self.program.tail, copies.is_async) {
                (Tail::Predicate, true) => self.copy_edge_async(work_tile, copies, &rem_k, slot, note)?,
                (Tail::Predicate, false) => self.copy_edge(work_tile, copies, &rem_k, note)?,
                // The sizes are multiples of the tile. The only tile that is not full is the one past the end, and it
                // is never multiplied.
                (Tail::None, _) => self.clear_staging(copies, note),
            }
        }
        let other = self.b.close();
        let names = operands.iter().map(|(copies, _)| letter(copies.side)).collect::<Vec<_>>().join(" and ");
        if let Some((_, note)) = operands.first() {
            self.b.origin_at(Site::CopyPath, note, &format!("{names}: the widest accesses if the K-tile lies inside"));
        }
        self.b.branch(full, then, other);
        Ok(())
    }

    /// Advances an operand's pointers to the next K-tile.
    pub(super) fn advance(&mut self, copies: &Copies, note: &Note) {
        self.b.origin_at(Site::NextKTile, note, &format!("{}: advance to the next K-tile", letter(copies.side)));
        self.move_by(copies, &copies.source.advance);
    }

    /// Moves an operand's pointers.
    pub(super) fn move_by(&mut self, copies: &Copies, distance: &Expr) {
        for pointer in &copies.source.pointers {
            self.b.assign(pointer, pointer.clone() + distance.clone());
        }
    }

    /// The index of a pass's chunk, computed from the thread's index, and its position in the tile: the coordinate
    /// along the strided dimension of global memory, and that of its first element along the contiguous one.
    fn coordinates(&mut self, chunks: Chunks, pass: u32) -> (Expr, Expr, Expr) {
        let chunk = self.b.set(self.role.tid.clone() + pass * self.role.threads);
        let outer = self.b.set(chunk.clone() / chunks.per_row);
        let inner = self.b.set((chunk.clone() % chunks.per_row) * chunks.width);
        (chunk, outer, inner)
    }

    /// The global address of each pass's chunk, as a register and a constant offset; a single pointer steps through the
    /// rows.
    fn chunk_pointers(&mut self, copies: &Copies) -> Vec<(Expr, i64)> {
        let mut at = (Expr::Const(0), usize::MAX, 0);
        let mut out = Vec::new();
        for pass in &copies.passes {
            let (rows, elements) = pass.delta;
            if at.1 != pass.pointer || rows < at.2 {
                at = (copies.source.pointers[pass.pointer].clone(), pass.pointer, 0);
            }
            while at.2 < rows {
                at = (self.b.set(at.0 + copies.source.row_step.clone()), at.1, at.2 + copies.source.step_rows);
            }
            out.push((at.0.clone(), i64::from(elements * copies.bytes)));
        }
        out
    }

    fn copy_inside(
        &mut self,
        work_tile: &WorkTile,
        copies: &Copies,
        k: Reach,
        slot: &Expr,
        note: &Note,
    ) -> Lowered<()> {
        let access = self.operand_access(copies.side, self.own_reach(work_tile, copies.side)?, k)?;
        let locality = self.locality(copies.side);
        let width = copies.chunks.width;
        self.b.origin(note, &format!("copy {}: {width} elements per thread and pass", letter(copies.side)));
        let pointers = self.chunk_pointers(copies);
        for (i, (pass, (pointer, offset))) in copies.passes.iter().zip(pointers).enumerate() {
            let guard = pass.active.map(|pred| Guard { pred, expect: true });
            if copies.is_async {
                self.copy_async(copies, pass, slot, (&pointer, offset), None, access)?;
            } else {
                self.b.load_global(copies.chunk(i).to_vec(), &pointer, offset, guard, (access, locality));
            }
        }
        Ok(())
    }

    /// One asynchronous copy of a chunk. A transposing copy is one copy per element, each with its own `valid`.
    fn copy_async(
        &mut self,
        copies: &Copies,
        pass: &Pass,
        slot: &Expr,
        from: (&Expr, i64),
        limit: Option<&Expr>,
        access: Access,
    ) -> Lowered<()> {
        let (bytes, piece) = (copies.bytes, copies.chunks.piece);
        for e in (0..copies.chunks.width).step_by(piece as usize) {
            // The bytes of this piece that are inside the matrix; the rest become zero.
            let valid = limit.map(|limit| {
                let left = limit.clone().max(e.into()) - e;
                self.b.set_reg(left.min(piece.into()) * bytes)
            });
            let to = self.shared_address(copies, pass, slot, e)?;
            let from = Address { base: self.b.set_reg(from.0.clone()), offset: from.1 + i64::from(e * bytes) };
            let guard = pass.active.map(|pred| Guard { pred, expect: true });
            self.b.push(Op::CopyAsync { to, from, bytes: piece * bytes, valid, guard, access });
        }
        Ok(())
    }

    /// Address in shared memory of element `e` of a pass's chunk.
    fn shared_address(&mut self, copies: &Copies, pass: &Pass, slot: &Expr, e: u32) -> Lowered<Address> {
        let (base, offset) = copies.shared[pass.shared].at(pass.shared_delta + copies.shared_offset(0, e))?;
        let base = self.b.set_reg(base + slot.clone());
        Ok(Address { base, offset: i64::from(offset) })
    }

    /// The second half of a copy through registers: stores the staged elements into the slot at byte offset `slot`.
    pub(super) fn land(&mut self, copies: &Copies, slot: &Expr, note: &Note) -> Lowered<()> {
        self.b.origin(note, &format!("store {} to shared memory", letter(copies.side)));
        let piece = copies.chunks.piece;
        for (i, pass) in copies.passes.iter().enumerate() {
            for e in (0..copies.chunks.width).step_by(piece as usize) {
                let address = self.shared_address(copies, pass, slot, e)?;
                let src = self.staged_elements(copies, i, e..e + piece);
                let guard = pass.active.map(|pred| Guard { pred, expect: true });
                self.b.push(Op::Store { memory: Memory::Shared, src, address, guard });
            }
        }
        Ok(())
    }
}

impl Lowering<'_> {
    /// Registers of some staged elements of pass `pass`; an element of a word gets one of its own.
    fn staged_elements(&mut self, copies: &Copies, pass: usize, elements: Range<u32>) -> Vec<Reg> {
        let (chunk, per) = (copies.chunk(pass), copies.staging.elements);
        if elements.len() as u32 >= per {
            return chunk[(elements.start / per) as usize..(elements.end / per) as usize].to_vec();
        }
        let word = chunk[(elements.start / per) as usize];
        let of_word = |at: u32| match (per, at % per) {
            (2, 0) => Math::First,
            (2, _) => Math::Second,
            (_, byte) => Math::Byte(byte),
        };
        let registers: Vec<Reg> = elements.clone().map(|at| copies.staging.single[at as usize]).collect();
        for (at, element) in elements.zip(&registers) {
            self.b.math(of_word(at), *element, vec![Value::Reg(word)]);
        }
        registers
    }
}

impl Copies {
    /// Registers of pass `pass`.
    fn chunk(&self, pass: usize) -> &[Reg] {
        let width = (self.chunks.width / self.staging.elements) as usize;
        &self.staging.registers[pass * width..(pass + 1) * width]
    }

    /// The operand.
    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Bytes from one plane of the operand to the next, if there are several.
    pub(super) fn plane_bytes(&self) -> Option<&Expr> {
        self.source.plane_bytes.as_ref()
    }

    /// Bytes that an address advances by for this distance along k.
    pub(super) fn along_k(&self, k: Expr) -> Expr {
        match self.source.fast {
            Fast::K => k.wide() * self.bytes,
            Fast::Mn => k.wide() * self.source.row_bytes.clone(),
        }
    }

    /// True if the same dimension is contiguous in global and in shared memory.
    fn same_order(&self) -> bool {
        self.tile.fast == self.source.fast
    }

    /// Byte distance in shared memory of `rows` along the outer and `elements` along the inner dimension.
    fn shared_offset(&self, rows: u32, elements: u32) -> u32 {
        let (slow, fast) = if self.same_order() { (rows, elements) } else { (elements, rows) };
        (slow * self.tile.pitch + fast) * self.bytes
    }
}
