//! The location of a box's bytes: in global memory, row by row, and in shared memory.

use super::{OobFill, TensorElement, TensorMap};

/// Bytes that a store of a box writes at once. If a row ends within these bytes, the store writes all of them, past the
/// extent of the tensor. This was measured on an H200, without a swizzle and with one of 32 bytes, and is reported for
/// an H100 (triton-lang/triton, issue 11583).
const GRANULE: u64 = 16;

/// A box of a tensor at its coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) map: TensorMap,
    pub(crate) coordinates: [i32; 5],
}

/// Bytes that are contiguous both in global memory and in the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    /// Within the box, before a swizzle.
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

impl Tile {
    /// The parts of the box that are inside the tensor, one per row, in ascending order of their offset in the box. The
    /// box has to fit shared memory, which keeps their number small.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        self.rows(1)
    }

    /// The parts of the box that a store writes: [`Tile::pieces`], and the bytes after their rows up to a multiple of
    /// 16.
    pub(crate) fn stored(&self) -> Vec<Piece> {
        self.rows(GRANULE)
    }

    /// Bytes that a store writes after each row of the tensor.
    pub(crate) fn past_rows(&self) -> u32 {
        let bytes = |pieces: Vec<Piece>| pieces.first().map_or(0, |piece| piece.bytes);
        bytes(self.stored()) - bytes(self.pieces())
    }

    /// The parts of the box inside a tensor with rows extended to a multiple of `granule` bytes.
    fn rows(&self, granule: u64) -> Vec<Piece> {
        let map = &self.map;
        let size = map.element.bytes();
        let row_bytes = map.extent(0) * size;
        let rows = map.rows();
        let first = i64::from(self.coordinates[0]);
        let begin = (-first).clamp(0, map.extent(0) as i64);
        let row_end = (map.dims[0] * size).next_multiple_of(granule.max(size)) / size;
        let end = (row_end as i64 - first).clamp(begin, map.extent(0) as i64);
        let mut pieces = Vec::new();
        if begin == end {
            return pieces;
        }
        for row in 0..rows {
            let mut rest = row;
            let mut address = map.address.wrapping_add(((first + begin) as u64).wrapping_mul(size));
            let mut inside = true;
            for axis in 1..map.rank() {
                let (extent, step) = (map.extent(axis), i64::from(map.element_strides[axis]));
                let at = i64::from(self.coordinates[axis]) + (rest % extent) as i64 * step;
                rest /= extent;
                inside &= (0..map.dims[axis] as i64).contains(&at);
                address = address.wrapping_add((at as u64).wrapping_mul(map.strides[axis - 1]));
            }
            if inside {
                let offset = (row * row_bytes + begin as u64 * size) as u32;
                pieces.push(Piece { address, offset, bytes: ((end - begin) as u64 * size) as u32 });
            }
        }
        pieces
    }

    /// The whole box with the fill value for everything outside the tensor.
    pub(crate) fn filled(&self, bytes: usize) -> Vec<u8> {
        match self.map.oob_fill {
            OobFill::Zero => vec![0; bytes],
            // The same 16 bits for all types, as measured on an H200.
            OobFill::Nan => [0xf7, 0x7f].into_iter().cycle().take(bytes).collect(),
        }
    }

    /// Offset of a 16-byte chunk of the box in shared memory, relative to its start, before a swizzle.
    pub(crate) fn chunk(&self, chunk: usize) -> usize {
        let map = &self.map;
        let (row_bytes, pitch) = (map.extent(0) * map.element.bytes(), map.row_pitch());
        let at = 16 * chunk as u64;
        (at / row_bytes * pitch + at % row_bytes) as usize
    }

    /// Converts the bytes that a load has read from one row. Subnormals are kept even for the types that promise to
    /// flush them, as measured on an H200.
    pub(crate) fn convert(&self, data: &mut [u8]) {
        if matches!(self.map.element, TensorElement::Tf32 | TensorElement::Tf32Ftz) {
            for word in data.as_chunks_mut().0 {
                *word = round_to_tf32(u32::from_le_bytes(*word)).to_le_bytes();
            }
        }
    }
}

/// Rounds to 10 bits of fraction, to nearest even; a NaN becomes the canonical one (both measured on an H200).
fn round_to_tf32(bits: u32) -> u32 {
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return 0x7fff_e000;
    }
    if bits & 0x7f80_0000 == 0x7f80_0000 {
        return bits;
    }
    let half = 0xfff + (bits >> 13 & 1);
    (bits + half) & !0x1fff
}
