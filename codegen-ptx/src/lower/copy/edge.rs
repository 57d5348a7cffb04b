//! Copies of K-tiles that cross the edge of the matrix.
//!
//! They are the other branch of the copies in the mainloop and keep nothing in registers across it: each recomputes the
//! coordinates that it needs.

use ptx_gemm_dsl::terms::Fast;

use super::{Copies, Lowered, Lowering, WorkTile, letter};
use crate::kernel::{Dim, Expr, Guard, Locality, Math, Op, Reach, Value};
use crate::lower::extent::register;
use crate::origin::Site;
use crate::tile::Note;

impl Lowering<'_> {
    /// The coordinates of every pass's chunk. Only edges need them, and edges recompute them: kept across the
    /// mainloop, their four registers would make `vectorized` spill.
    fn all_coordinates(&mut self, copies: &Copies) -> Vec<(Expr, Expr)> {
        let mut first = None;
        let mut out = Vec::new();
        for (i, pass) in copies.passes.iter().enumerate() {
            let (rows, elements) = pass.delta;
            let (outer, inner) = match &first {
                Some((outer, inner)) if pass.delta != (0, 0) => {
                    (Expr::clone(outer) + rows, Expr::clone(inner) + elements)
                }
                _ => {
                    let (_, outer, inner) = self.coordinates(copies.chunks, i as u32);
                    (outer, inner)
                }
            };
            first.get_or_insert_with(|| (outer.clone(), inner.clone()));
            out.push((outer, inner));
        }
        out
    }

    /// The number of leading elements of the chunk at these coordinates that are inside the matrix.
    fn inside_count(&mut self, work_tile: &WorkTile, copies: &Copies, at: (Expr, Expr), rem_k: &Expr) -> Expr {
        let own = work_tile.own(copies.side).1.clone();
        let (rem_outer, rem_inner) = match copies.source.fast {
            Fast::K => (own, rem_k.clone()),
            Fast::Mn => (rem_k.clone(), own),
        };
        let (outer, inner) = at;
        let left = self.b.set(rem_inner.max(inner.clone()) - inner);
        self.b.set(outer.lt(rem_outer).select(left, 0u32))
    }

    /// Copies element by element, with zeros outside the matrix.
    pub(super) fn copy_edge(
        &mut self,
        work_tile: &WorkTile,
        copies: &Copies,
        rem_k: &Expr,
        note: &Note,
    ) -> Lowered<()> {
        let tail = self.program.tail_note.clone();
        let k = Reach::new(Dim::K, register(rem_k)?, copies.tile.depth);
        let access = self.operand_access(copies.side, self.own_reach(work_tile, copies.side)?, k)?;
        let bytes = copies.bytes;
        let pointers = self.chunk_pointers(copies);
        self.b.origin(&tail, &format!("copy {}: coordinates of this thread's elements", letter(copies.side)));
        let coordinates = self.all_coordinates(copies);
        for (i, ((pass, (pointer, offset)), at)) in copies.passes.iter().zip(pointers).zip(coordinates).enumerate() {
            self.b.origin_at(
                Site::ChunkInside,
                &tail,
                &format!("copy {}: elements of this chunk inside the matrix", letter(copies.side)),
            );
            let mut inside = self.inside_count(work_tile, copies, at, rem_k);
            if let Some(active) = pass.active {
                inside = self.b.set(Expr::Reg(active, 1).select(inside, 0u32));
            }
            self.b.origin_at(Site::ZeroElement, &tail, &format!("copy {}: zero outside", letter(copies.side)));
            let elements = if copies.staging.single.is_empty() { copies.chunk(i) } else { &copies.staging.single };
            self.b.push(Op::Clear { dst: elements.to_vec() });
            for (e, dst) in elements.iter().enumerate() {
                self.b.origin_at(
                    Site::ElementInside,
                    &tail,
                    &format!("copy {}: is this element inside?", letter(copies.side)),
                );
                let pred = self.b.set_reg(Expr::Const(e as u64).lt(inside.clone()));
                let guard = Some(Guard { pred, expect: true });
                self.b.origin_at(
                    Site::CopiedElement,
                    note,
                    &format!("copy {}: one element at an edge", letter(copies.side)),
                );
                let offset = offset + i64::from(e as u32 * bytes);
                self.b.load_global(vec![*dst], &pointer, offset, guard, (access, Locality::Unknown));
            }
            let together = if copies.staging.elements == 2 { Math::Pair } else { Math::Four };
            for (word, elements) in
                copies.chunk(i).iter().zip(copies.staging.single.chunks(copies.staging.elements as usize))
            {
                self.b.math(together, *word, elements.iter().map(|reg| Value::Reg(*reg)).collect());
            }
        }
        Ok(())
    }

    /// The same with asynchronous copies: each reads the part that is inside and fills the rest with zeros.
    pub(super) fn copy_edge_async(
        &mut self,
        work_tile: &WorkTile,
        copies: &Copies,
        rem_k: &Expr,
        slot: &Expr,
        note: &Note,
    ) -> Lowered<()> {
        self.b.origin_at(Site::ZeroChunk, note, &format!("copy {}: zeros outside the matrix", letter(copies.side)));
        let k = Reach::new(Dim::K, register(rem_k)?, copies.tile.depth);
        let access = self.operand_access(copies.side, self.own_reach(work_tile, copies.side)?, k)?;
        let pointers = self.chunk_pointers(copies);
        let coordinates = self.all_coordinates(copies);
        for ((pass, (pointer, offset)), at) in copies.passes.iter().zip(pointers).zip(coordinates) {
            let inside = self.inside_count(work_tile, copies, at, rem_k);
            // An empty copy still needs a valid address. That of the matrix is sufficiently aligned.
            let somewhere = inside.clone().ge(1u32).select(pointer, copies.source.base.clone());
            let pointer = self.b.set(somewhere);
            self.copy_async(copies, pass, slot, (&pointer, offset), Some(&inside), access)?;
        }
        Ok(())
    }

    /// Clears the staged elements past the end of k, for sizes that are multiples of the tile.
    pub(super) fn clear_staging(&mut self, copies: &Copies, note: &Note) {
        self.b.origin(note, &format!("copy {}: nothing is left", letter(copies.side)));
        self.b.push(Op::Clear { dst: copies.staging.registers.clone() });
    }
}
