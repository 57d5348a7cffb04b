//! Operands in planes: the position of a copying role in the order in which planes are multiplied.
//!
//! The loop over K-tiles does not know about planes; it only has more K-tiles. The next K-tile that a role copies
//! belongs to a pair of planes, in a chunk of k.

use ptx_gemm_dsl::terms::Side;

use super::copy::Copies;
use super::{Lowering, WorkTile, letter};
use crate::kernel::Expr;
use crate::origin::Site;
use crate::tile::Note;

/// The place of a K-tile in the order in which planes are multiplied, in addition to its first k.
pub(super) struct Place {
    /// First k of its chunk, and the end of the sum.
    chunk: Expr,
    end: Expr,
    /// The index of the pair of planes.
    pair: Expr,
}

/// The position of a role with threads that copy planes.
pub(super) struct Walked {
    /// First k of the next K-tile, counted from the first k of the sum, and its place.
    k: Expr,
    place: Place,
    /// Byte offset of the pair's plane from the first plane, for each operand.
    planes: Vec<(Side, Expr)>,
}

impl Lowering<'_> {
    /// The place of the K-tile at `first`; `None` without planes.
    pub(super) fn first_place(&mut self, first: &Expr, end: impl FnOnce(&mut Self) -> Expr) -> Option<Place> {
        let walk = self.program.planes_apart()?;
        self.b.origin(&walk.note, "first chunk of k, and first planes");
        let end = end(self);
        let chunk = self.b.variable(first.clone(), u64::from(u32::MAX));
        Some(Place { chunk, end, pair: self.b.variable(Expr::Const(0), walk.pairs.len() as u64 - 1) })
    }

    /// Advances to the next K-tile: of the same planes, else of the next pair of planes in the chunk, else of the next
    /// chunk. Returns whether its planes differ from those of the previous K-tile, and the next k in these planes.
    pub(super) fn advance_place(&mut self, k: &Expr, place: &Place) -> Option<(Expr, Expr)> {
        let walk = self.program.planes_apart()?;
        let Place { chunk, end, pair } = place;
        let next = self.b.set(k.clone() + self.program.block.k);
        let chunk_end = self.b.set((chunk.clone() + walk.chunk).min(end.clone()));
        let through = self.b.set(next.clone().ge(chunk_end));
        let last = self.b.set(through.clone().and(pair.clone().ge(walk.pairs.len() as u32 - 1)));
        self.b.assign(chunk, last.clone().select(chunk.clone() + walk.chunk, chunk.clone()));
        // The minimum changes nothing, and states the bound to the verifier.
        let turned = last.select(0u32, (pair.clone() + 1u32).min((walk.pairs.len() as u32 - 1).into()));
        self.b.assign(pair, through.clone().select(turned, pair.clone()));
        self.b.assign(k, through.clone().select(chunk.clone(), next.clone()));
        Some((through, next))
    }

    /// The plane of an operand in the pair.
    pub(super) fn plane_of(&mut self, side: Side, place: &Place) -> Expr {
        let Some(walk) = &self.program.walk else { return Expr::Const(0) };
        let plane = |index: usize| if side == Side::A { walk.pairs[index].0 } else { walk.pairs[index].1 };
        let last = walk.pairs.len() - 1;
        self.b.origin_at(Site::PlaneOfPair, &walk.note, &format!("plane of {}", letter(side)));
        // Consecutive pairs with the same plane of this operand need one comparison.
        let changes = (0..last).filter(|index| plane(*index) != plane(index + 1));
        changes.rev().fold(Expr::Const(plane(last).into()), |others, index| {
            place.pair.clone().lt(index as u32 + 1).select(Expr::Const(plane(index).into()), others)
        })
    }

    /// Starts to walk the planes that the role's threads copy into a ring; `None` if they copy no planes.
    pub(super) fn walk_planes(&mut self, work_tile: &WorkTile, copies: &[&Copies]) -> Option<Walked> {
        let copied = copies.iter().filter_map(|copies| Some((copies.side(), copies.plane_bytes()?.clone())));
        let copied: Vec<(Side, Expr)> = copied.collect();
        if copied.is_empty() {
            return None;
        }
        let place = self.first_place(&Expr::Const(0), |_| work_tile.k.clone())?;
        let k = self.b.variable(Expr::Const(0), u64::from(u32::MAX));
        let mut planes = Vec::new();
        for (side, bytes) in copied {
            let first = self.first_plane(side);
            planes.push((side, self.b.variable_wide(bytes * first)));
        }
        Some(Walked { k, place, planes })
    }

    /// The plane of an operand in the first pair.
    pub(super) fn first_plane(&self, side: Side) -> u32 {
        let first = self.program.walk.as_ref().and_then(|walk| walk.pairs.first());
        first.map_or(0, |(a, b)| if side == Side::A { *a } else { *b })
    }

    /// The k left from the K-tile that is copied next; 0 past the last one.
    pub(super) fn left_in_planes(&mut self, work_tile: &WorkTile, walked: &Walked) -> Expr {
        if let Some(walk) = &self.program.walk {
            self.b.origin(&walk.note, "K left from the tile being copied");
        }
        self.b.set(work_tile.k.clone().max(walked.k.clone()) - walked.k.clone())
    }

    /// Advances to the next K-tile that the role's threads copy. Its addresses follow the previous ones unless the
    /// planes change.
    pub(super) fn advance_planes(&mut self, walked: &Walked, copies: &[&Copies], note: &Note) {
        let Some(walk) = &self.program.walk else { return };
        self.b.origin_at(Site::NextKTile, note, "advance to the next K-tile");
        let Some((through, next)) = self.advance_place(&walked.k, &walked.place) else { return };
        copies.iter().for_each(|copies| self.advance(copies, note));
        let through = self.b.set_reg(through);
        self.b.open();
        for copies in copies {
            let Some((_, offset)) = walked.planes.iter().find(|(side, _)| *side == copies.side()) else { continue };
            let Some(bytes) = copies.plane_bytes() else { continue };
            let plane = self.plane_of(copies.side(), &walked.place);
            let plane = self.b.set(plane.wide() * bytes.clone());
            let what = format!("{}: first K-tile of the chunk, in other planes", letter(copies.side()));
            self.b.origin(&walk.note, &what);
            let to = self.b.set(plane.clone() + copies.along_k(walked.k.clone()));
            let distance = self.b.set(to - (offset.clone() + copies.along_k(next.clone())));
            self.move_by(copies, &distance);
            self.b.assign(offset, plane);
        }
        let then = self.b.close();
        self.b.origin(&walk.note, "was it the last K-tile of these planes in the chunk?");
        self.b.branch(through, then, Vec::new());
    }
}
