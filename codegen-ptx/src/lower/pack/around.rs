//! Copies of rows with any alignment, through the aligned vectors around them.
//!
//! ```text
//! bytes of the matrix   |0 . . . . . . . . . . . . . . .|0 . . . . . . . . . . . . . . .|
//! the thread's vector             [x x x x x x x x x x x x x x x x]
//!                        <-skip-->
//! ```
//!
//! A thread reads both aligned vectors, eight words, and shifts its bytes to the front: by two words if `skip` is at
//! least 8, by one word if at least 4 remain, and by half a word if 2 remain; if elements are bytes, by those that
//! remain. If two threads read the same vector, the
//! second read hits the L1 cache.

use ptx_gemm_dsl::terms::{Fast, Param};

use super::{Packing, Tile, Vectors};
use crate::kernel::{Access, Expr, Family, Locality, Math, Memory, Op, Reach, Reg, Type, Value};
use crate::lower::Lowered;
use crate::lower::extent::register;
use crate::origin::Site;
use crate::tile::VECTOR_BYTES;

const WORD_BYTES: u32 = 4;
/// Words of a vector.
const WORDS: usize = (VECTOR_BYTES / WORD_BYTES) as usize;

impl Packing<'_> {
    /// Copies a tile: through the aligned vectors if the tile and a vector on each side of its rows are inside the
    /// matrix, otherwise by elements.
    pub(super) fn copy_around(&mut self, vectors: &Vectors, tile: &Tile) -> Lowered<()> {
        let (pack, note) = (self.pack, &self.pack.note);
        let words = self.b.family("w", Type::Word, "pairs of elements");
        self.b.origin_at(
            Site::AroundPath,
            note,
            "the vectors around, if the tile and one on each side of its rows are inside",
        );
        let (extent, first) = &tile.run;
        let margin = vectors.length;
        let before = self.b.set(first.clone().max(Expr::Const(margin.into())) - margin);
        let around_left = self.b.set(extent.clone() - before);
        let (run, row) = if vectors.fast == Fast::K { (pack.depth, pack.extent) } else { (pack.extent, pack.depth) };
        let inside = around_left.clone().ge(run + 2 * margin).and(vectors.left[0].clone().ge(row));
        let inside = self.b.set_reg(inside.and(first.clone().ge(margin)));
        self.b.open();
        let matrix = self.around_access(Param::Matrix(pack.side.operand()), tile, (&around_left, run + 2 * margin))?;
        let copy = self.around_access(Param::Packed(pack.side.operand()), tile, (&around_left, run + 2 * margin))?;
        self.by_vectors(vectors, tile, words, (matrix, copy));
        let then = self.b.close();
        self.b.open();
        let values = self.registers(vectors);
        let access = (self.access(&Param::Matrix(pack.side.operand()), tile)?, Locality::Unknown);
        let addresses = self.addresses(vectors, &tile.from, self.element);
        self.read_elements(vectors, (&addresses, &values), access);
        self.write(vectors, &values, tile)?;
        let other = self.b.close();
        self.b.origin_at(
            Site::AroundPath,
            note,
            "the vectors around, if the tile and one on each side of its rows are inside",
        );
        self.b.branch(inside, then, other);
        Ok(())
    }

    fn by_vectors(&mut self, vectors: &Vectors, tile: &Tile, words: Family, (matrix, copy): (Access, Access)) {
        let note = &self.pack.note;
        self.b.origin_at(Site::ReadAround, note, "read the aligned vectors around this thread's");
        let addresses = self.addresses(vectors, &tile.from, self.element);
        let mut read = Vec::new();
        for address in addresses {
            let skip = self.b.set(address.clone() % VECTOR_BYTES);
            let base = self.b.set(address - skip.clone());
            let all = self.b.fresh_many(words, 2 * WORDS);
            for (half, offset) in all.chunks(WORDS).zip([0, i64::from(VECTOR_BYTES)]) {
                self.b.load_global(half.to_vec(), &base, offset, None, (matrix, Locality::Once));
            }
            read.push((skip, all));
        }
        self.b.origin_at(Site::CutAround, note, "cut this thread's vectors out of them");
        let cut: Vec<Vec<Reg>> = read.into_iter().map(|(skip, all)| self.cut(&skip, all, words)).collect();
        self.b.origin(note, "write the copy");
        let addresses = self.addresses(vectors, &tile.to, self.copied);
        for (address, src) in addresses.iter().zip(cut) {
            let address = self.b.address(address, 0);
            self.b.push(Op::Store { memory: Memory::Global(copy), src, address, guard: None });
        }
    }

    /// The words of a vector that begins `skip` bytes after the first of these.
    fn cut(&mut self, skip: &Expr, mut all: Vec<Reg>, words: Family) -> Vec<Reg> {
        for step in [WORDS / 2, WORDS / 4] {
            let bytes = step as u32 * WORD_BYTES;
            let pred = self.b.set_reg((skip.clone() % (2 * bytes)).ge(bytes));
            let moved = all.iter().zip(&all[step..]).map(|(no, yes)| (Value::Reg(*yes), Value::Reg(*no)));
            let moved: Vec<(Value, Value)> = moved.collect();
            all = moved.into_iter().map(|(yes, no)| self.select(pred, (yes, no), words)).collect();
        }
        if self.element == 1 {
            let bit = |bytes: u64| (skip.clone() % (2 * bytes)).ge(bytes).select(8 * bytes, 0u64);
            let bits = self.b.set_reg(bit(2) + bit(1));
            let shifted = |two: &[Reg]| {
                let dst = self.b.fresh(words);
                self.b.math(Math::Across, dst, [two[0], two[1], bits].map(Value::Reg).to_vec());
                dst
            };
            return all.windows(2).map(shifted).collect();
        }
        let half = WORD_BYTES / 2;
        let pred = self.b.set_reg((skip.clone() % WORD_BYTES).ge(half));
        let mut result = Vec::new();
        for two in all.windows(2) {
            let [second, first] = [(); 2].map(|()| self.b.fresh(self.values));
            self.b.math(Math::Second, second, vec![Value::Reg(two[0])]);
            self.b.math(Math::First, first, vec![Value::Reg(two[1])]);
            let across = self.b.fresh(words);
            self.b.math(Math::Pair, across, vec![Value::Reg(second), Value::Reg(first)]);
            result.push(self.select(pred, (Value::Reg(across), Value::Reg(two[0])), words));
        }
        result
    }

    fn select(&mut self, pred: Reg, (yes, no): (Value, Value), words: Family) -> Reg {
        let dst = self.b.fresh(words);
        self.b.push(Op::Select { dst, pred, yes, no });
        dst
    }

    /// An access to all rows of the tile. `end` is the part of each row that is read, counted from its start.
    fn around_access(&self, matrix: Param, tile: &Tile, (left, end): (&Expr, u32)) -> Lowered<Access> {
        let mut access = self.access(&matrix, tile)?;
        let fast = self.program.problem.layouts.fast(self.pack.side);
        let reach = &mut access.reach[usize::from(fast == Fast::K)];
        *reach = match reach {
            Some(Reach { dim, .. }) => Some(Reach::new(*dim, register(left)?, end)),
            None => None,
        };
        Ok(access)
    }
}
