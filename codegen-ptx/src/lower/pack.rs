//! `pack`: a separate kernel copies an operand into the workspace, in the order and with the row pitch that the
//! product's copies need.
//!
//! A block copies one tile, in vectors: [`VECTOR_BYTES`] adjacent bytes of the operand per thread. Rows of the copy
//! begin at multiples of that and are padded, so that its vectors are always written whole. Vectors of the matrix are
//! read whole if the tile is inside and they are aligned, otherwise element by element, with zeros outside.
//!
//! A matrix that is copied only for its alignment has vectors at any address. For 16-bit elements, the kernel extracts
//! each vector from the two aligned vectors around it, if the tile and a vector on each side of its rows are inside
//! (`lower/pack/around.rs`). Wider elements are read one by one.
//!
//! If the kernel transposes, the tile passes through shared memory: it is read along the matrix's contiguous dimension
//! and written along that of the copy, so that both use whole cache lines. The row pitch in shared memory is an odd
//! number of elements, and a warp accesses four rows, 128 bytes of each, so neither order has bank conflicts.

mod around;

use ptx_gemm_dsl::terms::{Fast, Param, Reads};
use ptx_gemm_dsl::types::Batch;

use super::arguments;
use super::extent::{self, register};
use super::registers::register_type;
use super::source::packed_pitch;
use super::{Lowered, broken, letter};
use crate::kernel::build::Builder;
use crate::kernel::expr::UNBOUNDED;
use crate::kernel::{
    self, Access, Expr, Guard, Holds, Kernel, Locality, MAX_EXTENT, Math, Memory, Op, Origin, Reach, Reg, Value,
};
use crate::origin::Site;
use crate::tile::interface::SCALE_BYTES;
use crate::tile::{Pack, Planes, Program, VECTOR_BYTES};

/// Vectors of a cache line: a warp's access to a tile that is transposed covers this many adjacent vectors.
const LINE_VECTORS: u32 = 128 / VECTOR_BYTES;

/// 2^127: multiplied by it, the smallest number of f32 exceeds those of f16 and of bf16.
const LARGEST_POWER: f64 = 1.701_411_834_604_692_3e38;

/// Lowers the kernel that copies an operand, for a verified program.
pub(crate) fn lower(program: &Program, pack: &Pack) -> Lowered<Kernel> {
    let matrix = program.problem.types.of(pack.side.operand());
    let params = pack.params(program.problem.batch);
    let kernel = Kernel {
        name: pack.kernel(&program.problem),
        params: params.iter().map(|param| arguments::declaration(program, param)).collect::<Lowered<_>>()?,
        threads: pack.threads,
        divides: None,
        blocks_per_sm: 1,
        cluster: 1,
        shared_bytes: pack.shared_bytes(program),
        shared_align: 16,
        shared_origin: Origin::new(pack.note.clone(), format!("a tile of {}", letter(pack.side))),
        families: Vec::new(),
        origins: Vec::new(),
        body: Vec::new(),
    };
    let mut b = Builder::new(kernel);
    let values = b.family("e", register_type(matrix), "elements of the operand");
    let planes = pack.planes.map(|planes| b.family("h", register_type(planes.dtype), "elements of its planes"));
    let copied = pack.planes.map_or(matrix, |planes| planes.dtype).bytes();
    Packing { b, program, pack, params, element: matrix.bytes(), copied, values, planes }.lower()
}

/// A kernel that is being lowered.
struct Packing<'a> {
    b: Builder,
    program: &'a Program,
    pack: &'a Pack,
    params: Vec<Param>,
    /// Bytes of an element, and of one of the copy.
    element: u32,
    copied: u32,
    values: kernel::Family,
    /// Registers of planes, where the operand is split.
    planes: Option<kernel::Family>,
}

/// The tile of a block.
struct Tile {
    /// The matrix and its copy at the tile's first element, and the byte pitch of each.
    from: (Expr, Expr),
    to: (Expr, Expr),
    /// Elements left from there along the operand's own dimension, and along k.
    own_left: Expr,
    k_left: Expr,
    /// The contiguous dimension of the matrix: its extent, and the tile's start.
    run: (Expr, Expr),
    /// Bytes from one plane of the copy to the next.
    plane: Expr,
    /// The scale of the tile's first row or column, if these are scaled.
    scales: Expr,
}

impl Packing<'_> {
    fn lower(mut self) -> Lowered<Kernel> {
        let tile = self.tile()?;
        let note = &self.pack.note;
        let matrix = self.program.problem.layouts.fast(self.pack.side);
        let read = self.vectors(matrix, &tile);
        if self.pack.around(self.program) {
            self.copy_around(&read, &tile)?;
            return Ok(self.b.finish());
        }
        let values = self.read(&read, &tile)?;
        if matrix == self.pack.fast {
            self.write(&read, &values, &tile)?;
            return Ok(self.b.finish());
        }
        self.b.origin(note, "store it in shared memory");
        for (vector, values) in read.all.iter().zip(&values) {
            for (src, address) in values.iter().zip(self.staged(vector, matrix)) {
                self.b.push(Op::Store { memory: Memory::Shared, src: vec![*src], address, guard: None });
            }
        }
        self.b.origin(note, "all threads have stored their part");
        self.b.push(Op::Barrier);
        self.b.origin(note, "read it in the order of the copy");
        let written = self.vectors(self.pack.fast, &tile);
        let values = self.registers(&written);
        for (vector, values) in written.all.iter().zip(&values) {
            for (dst, address) in values.iter().zip(self.staged(vector, self.pack.fast)) {
                let (locality, reads) = (Locality::Unknown, Reads::Movable);
                self.b.push(Op::Load {
                    memory: Memory::Shared,
                    dst: vec![*dst],
                    address,
                    guard: None,
                    locality,
                    reads,
                });
            }
        }
        self.write(&written, &values, &tile)?;
        Ok(self.b.finish())
    }

    /// A thread's vectors of a tile, along a dimension.
    fn vectors(&mut self, fast: Fast, tile: &Tile) -> Vectors {
        let pack = self.pack;
        let length = pack.vector(self.program);
        let (rows, row_elements, rows_left, columns_left) = match fast {
            Fast::K => (pack.extent, pack.depth, &tile.own_left, &tile.k_left),
            Fast::Mn => (pack.depth, pack.extent, &tile.k_left, &tile.own_left),
        };
        let threads_per_row = row_elements / length;
        let rows_at_once = pack.threads / threads_per_row;
        let turned = pack.transposes(self.program) && threads_per_row.is_multiple_of(LINE_VECTORS);
        let line = if turned { LINE_VECTORS } else { threads_per_row };
        self.b.origin(&pack.note, "this thread's first row and column");
        let tid = self.b.set(Expr::Tid(pack.threads));
        let lines = self.b.set(tid.clone() / line);
        let row = self.b.set(lines.clone() % rows_at_once);
        let column = self.b.set((lines / rows_at_once * line + tid % line) * length);
        let vector = |first| {
            let row = self.b.set(row.clone() + first);
            let (own, k) = if fast == Fast::K { (row.clone(), column.clone()) } else { (column.clone(), row.clone()) };
            Vector { own, k, row }
        };
        let all = (0..rows).step_by(rows_at_once as usize).map(vector).collect();
        Vectors { fast, length, rows_at_once, column, left: [rows_left.clone(), columns_left.clone()], all }
    }

    fn registers(&mut self, vectors: &Vectors) -> Vec<Vec<Reg>> {
        vectors.all.iter().map(|_| self.b.fresh_many(self.values, vectors.length as usize)).collect()
    }

    /// The addresses of vectors in a matrix with this first element, pitch and element size.
    fn addresses(&mut self, vectors: &Vectors, (first, pitch): &(Expr, Expr), element: u32) -> Vec<Expr> {
        let Some(row) = vectors.all.first().map(|vector| vector.row.clone()) else { return Vec::new() };
        let mut at = self.b.set(first.clone() + row.wide() * pitch.clone() + vectors.column.clone().wide() * element);
        let step = self.b.set(pitch.clone() * vectors.rows_at_once);
        let mut all = vec![at.clone()];
        for _ in 1..vectors.all.len() {
            at = self.b.set(at + step.clone());
            all.push(at.clone());
        }
        all
    }

    /// Reads the vectors of a tile of the matrix.
    fn read(&mut self, vectors: &Vectors, tile: &Tile) -> Lowered<Vec<Vec<Reg>>> {
        let (pack, note) = (self.pack, &self.pack.note);
        let values = self.registers(vectors);
        let access = (self.access(&Param::Matrix(pack.side.operand()), tile)?, Locality::Unknown);
        let addresses = self.addresses(vectors, &tile.from, self.element);
        if pack.planes.is_none() && !pack.transposes(self.program) {
            self.read_elements(vectors, (&addresses, &values), access);
            return Ok(values);
        }
        self.b.origin_at(Site::WholeVectors, note, "whole vectors, if the tile is inside and they are aligned");
        let (first, pitch) = &tile.from;
        let inside = tile.own_left.clone().ge(pack.extent).and(tile.k_left.clone().ge(pack.depth));
        let misaligned = first.clone() % VECTOR_BYTES + pitch.clone() % VECTOR_BYTES;
        let whole = self.b.set_reg(inside.and(misaligned.lt(1u32)));
        self.b.open();
        self.b.origin(note, &format!("read a tile of {}", letter(pack.side)));
        for (address, dst) in addresses.iter().zip(&values) {
            self.b.load_global(dst.clone(), address, 0, None, access);
        }
        let then = self.b.close();
        self.b.open();
        self.read_elements(vectors, (&addresses, &values), access);
        let other = self.b.close();
        self.b.origin_at(Site::WholeVectors, note, "whole vectors, if the tile is inside and they are aligned");
        self.b.branch(whole, then, other);
        Ok(values)
    }

    /// Reads the elements of vectors at these addresses, as zeros outside the matrix.
    fn read_elements(
        &mut self,
        vectors: &Vectors,
        (addresses, values): (&[Expr], &[Vec<Reg>]),
        access: (Access, Locality),
    ) {
        let (side, note) = (self.pack.side, &self.pack.note);
        self.b.origin_at(Site::PackedZeros, note, "zeros outside");
        self.b.push(Op::Clear { dst: values.concat() });
        self.b.origin_at(Site::PackElements, note, &format!("read elements of a tile of {}", letter(side)));
        let [rows_left, columns_left] = &vectors.left;
        let mut columns = Vec::new();
        for index in 0..vectors.length {
            columns.push(self.b.set((vectors.column.clone() + index).lt(columns_left.clone())));
        }
        for ((vector, address), values) in vectors.all.iter().zip(addresses).zip(values) {
            let row = self.b.set(vector.row.clone().lt(rows_left.clone()));
            for ((index, dst), column) in (0..).zip(values).zip(&columns) {
                let pred = self.b.set_reg(row.clone().and(column.clone()));
                let offset = i64::from(index * self.element);
                self.b.load_global(vec![*dst], address, offset, Some(Guard { pred, expect: true }), access);
            }
        }
    }

    /// Writes vectors to the copy, or to each of its planes. Vectors that begin inside are written whole, since rows
    /// are padded.
    fn write(&mut self, vectors: &Vectors, values: &[Vec<Reg>], tile: &Tile) -> Lowered<()> {
        let (pack, note) = (self.pack, &self.pack.note);
        let access = self.access(&Param::Packed(pack.side.operand()), tile)?;
        self.b.origin_at(Site::PackedVectors, note, "this thread's vectors of the copy");
        let addresses = self.addresses(vectors, &tile.to, self.copied);
        let scales = self.scales(vectors, tile)?;
        let [rows_left, columns_left] = &vectors.left;
        let column = self.b.set(vectors.column.clone().lt(columns_left.clone()));
        for (index, ((vector, address), values)) in vectors.all.iter().zip(&addresses).zip(values).enumerate() {
            self.b.origin_at(Site::VectorInside, note, "is the vector inside?");
            let inside = vector.row.clone().lt(rows_left.clone()).and(column.clone());
            let guard = Some(Guard { pred: self.b.set_reg(inside), expect: true });
            let mut planes = vec![values.clone()];
            if let (Some(family), Some(of)) = (self.planes, pack.planes) {
                let scales = scales.as_ref().map(|scales| &scales[index]);
                let scaled = scales.map_or_else(|| values.clone(), |scales| self.scaled(values, scales));
                let pairs = values.iter().zip(&scaled);
                let split: Vec<Vec<Reg>> =
                    pairs.map(|(value, scaled)| self.split(*value, *scaled, family, of)).collect();
                planes = (0..of.count as usize).map(|plane| split.iter().map(|parts| parts[plane]).collect()).collect();
            }
            self.b.origin(note, if self.planes.is_some() { "write the planes" } else { "write the copy" });
            for (plane, src) in (0u32..).zip(planes) {
                let base = self.b.set_reg(address.clone() + tile.plane.clone() * plane);
                let (memory, address) = (Memory::Global(access), kernel::Address { base, offset: 0 });
                self.b.push(Op::Store { memory, src, address, guard });
            }
        }
        Ok(())
    }

    /// The scales of each vector's elements, if rows or columns are scaled: one for all of a row, or one for each
    /// column, the same in all rows.
    fn scales(&mut self, vectors: &Vectors, tile: &Tile) -> Lowered<Option<Vec<Vec<Reg>>>> {
        if !self.pack.scales() {
            return Ok(None);
        }
        let scales = Param::Scales(self.pack.side.operand());
        let param = self.params.iter().position(|param| *param == scales);
        let param = param.ok_or_else(|| broken("an access to something that is not a kernel parameter"))?;
        let Holds::Vector(dim) = extent::holds(self.program, &scales) else {
            return Err(broken("scales have one dimension"));
        };
        let reach = Reach::new(dim, register(&tile.own_left)?, self.pack.extent);
        let access = (Access { param, reach: [Some(reach), None] }, Locality::Unknown);
        self.b.origin_at(Site::ScalesOfVectors, &self.pack.note, "scales");
        let mut scale = |own: Expr| {
            let dst = self.b.fresh(self.values);
            self.b.push(Op::Clear { dst: vec![dst] });
            let pred = self.b.set_reg(own.clone().lt(tile.own_left.clone()));
            let address = self.b.set(tile.scales.clone() + own.wide() * SCALE_BYTES);
            self.b.load_global(vec![dst], &address, 0, Some(Guard { pred, expect: true }), access);
            dst
        };
        let length = vectors.length as usize;
        Ok(Some(match vectors.fast {
            Fast::K => vectors.all.iter().map(|vector| vec![scale(vector.own.clone()); length]).collect(),
            Fast::Mn => {
                let columns = (0..vectors.length).map(|index| scale(vectors.column.clone() + index)).collect();
                vec![columns; vectors.all.len()]
            }
        }))
    }

    /// The elements of a vector times their scales.
    fn scaled(&mut self, values: &[Reg], scales: &[Reg]) -> Vec<Reg> {
        self.b.origin(&self.pack.note, "scale the elements");
        let times = |(value, scale): (&Reg, &Reg)| {
            let dst = self.b.fresh(self.values);
            self.b.math(Math::Mul, dst, vec![Value::Reg(*value), Value::Reg(*scale)]);
            dst
        };
        values.iter().zip(scales).map(times).collect()
    }

    /// The planes of one scaled element, the largest first: each is the remainder after the previous planes, rounded to
    /// nearest.
    ///
    /// A number that would round to infinity is clamped to the largest number of the planes' type, and the next plane
    /// holds the rest. Infinity is in the last plane, with 1 in the first; the last plane is only multiplied by first
    /// planes. So infinity times a number is never infinity times the zeros of the number's other planes, and infinity
    /// times infinity is infinity. NaN is in the first and in the last plane. A fourth plane is the third with 0 in
    /// place of infinity and NaN.
    ///
    /// A nonzero number that would round to 0 becomes the smallest number of the planes' type, and the next plane
    /// subtracts it again, so that infinity times the number is infinity. Scaling may have made the value 0, so the
    /// test for 0 uses the element itself.
    fn split(&mut self, element: Reg, value: Reg, family: kernel::Family, Planes { dtype, count }: Planes) -> Vec<Reg> {
        let (least, most) = (dtype.least(), dtype.most());
        self.b.origin(&self.pack.note, "planes of an element");
        let [difference, high, size, low, magnitude, bounded] = [(); 6].map(|()| self.b.fresh(self.values));
        self.b.math(Math::Sub, difference, vec![Value::Reg(value), Value::Reg(value)]);
        let finite = self.b.fresh_pred();
        self.b.push(Op::IsZero { dst: finite, src: difference });
        let yes = Value::Const(most);
        self.b.push(Op::Select { dst: high, pred: finite, yes, no: Value::Const(1.0) });
        self.b.math(Math::Abs, size, vec![Value::Reg(element)]);
        self.b.math(Math::Mul, low, vec![Value::Reg(size), Value::Const(LARGEST_POWER)]);
        self.b.math(Math::Min, low, vec![Value::Reg(low), Value::Const(least)]);
        self.b.math(Math::Abs, magnitude, vec![Value::Reg(value)]);
        self.b.math(Math::Max, magnitude, vec![Value::Reg(magnitude), Value::Reg(low)]);
        self.b.math(Math::Min, magnitude, vec![Value::Reg(magnitude), Value::Reg(high)]);
        self.b.math(Math::CopySign, bounded, vec![Value::Reg(element), Value::Reg(magnitude)]);
        let (mut planes, mut rest, mut rounded) = (Vec::new(), value, bounded);
        let distinct = count.min(3);
        for plane in 0..distinct {
            let own = self.b.fresh(family);
            self.b.math(Math::Convert, own, vec![Value::Reg(rounded)]);
            planes.push(own);
            if plane + 1 < distinct {
                let [back, left] = [(); 2].map(|()| self.b.fresh(self.values));
                self.b.math(Math::Convert, back, vec![Value::Reg(own)]);
                self.b.math(Math::Sub, left, vec![Value::Reg(rest), Value::Reg(back)]);
                (rest, rounded) = (left, left);
            }
            if plane + 2 < distinct {
                rounded = self.b.fresh(self.values);
                let yes = Value::Reg(rest);
                self.b.push(Op::Select { dst: rounded, pred: finite, yes, no: Value::Const(0.0) });
            }
        }
        if count > distinct {
            let [without, own] = [self.b.fresh(self.values), self.b.fresh(family)];
            let yes = Value::Reg(rest);
            self.b.push(Op::Select { dst: without, pred: finite, yes, no: Value::Const(0.0) });
            self.b.math(Math::Convert, own, vec![Value::Reg(without)]);
            planes.push(own);
        }
        planes
    }

    fn argument(&mut self, param: &Param) -> Lowered<Expr> {
        let index = self.params.iter().position(|given| given == param);
        let index = index.ok_or_else(|| broken("a kernel that packs lacks a parameter"))?;
        let bound = if matches!(param, Param::M | Param::N | Param::K) { u64::from(MAX_EXTENT) } else { UNBOUNDED };
        Ok(Expr::Reg(self.b.param(index, None), bound))
    }

    /// The block's tile: along the operand's own dimension first, then along k, then from product to product.
    fn tile(&mut self) -> Lowered<Tile> {
        let (pack, program) = (self.pack, self.program);
        let (note, operand) = (&pack.note, pack.side.operand());
        self.b.origin(note, "read the arguments");
        let own = self.argument(&pack.own_param())?;
        let k = self.argument(&Param::K)?;
        self.b.origin(note, "tile that this block copies");
        let fast = program.problem.layouts.fast(pack.side);
        let along_k = fast == Fast::K && !pack.scales();
        let own_tiles = (own.clone() + (pack.extent - 1)) / pack.extent;
        let k_tiles = (k.clone() + (pack.depth - 1)) / pack.depth;
        let (inner, outer) = if along_k { (k_tiles.clone(), own_tiles) } else { (own_tiles, k_tiles.clone()) };
        let inner = self.b.set(inner);
        let block = self.b.set(Expr::Block);
        let inner_tile = self.b.set(block.clone() % inner.clone());
        let mut outer_tile = self.b.set(block / inner);
        let mut product = None;
        if program.problem.batch == Batch::Strided {
            let outer = self.b.set(outer);
            product = Some(self.b.set(outer_tile.clone() / outer.clone()));
            outer_tile = self.b.set(outer_tile % outer);
        }
        let (mut k_tile, own_tile) = if along_k { (inner_tile, outer_tile) } else { (outer_tile, inner_tile) };
        if pack.scales() {
            // The previous kernel has read all of k in ascending order, so what it read last may still be in the L2
            // cache.
            let k_tiles = self.b.set(k_tiles);
            let next = self.b.set(k_tile + 1u32);
            k_tile = self.b.set(k_tiles.max(next.clone()) - next);
        }
        let own0 = self.b.set(own_tile * pack.extent);
        let k0 = self.b.set((k_tile * pack.depth).min(k.clone()));
        let own_left = self.b.set(own.clone() - own0.clone());
        let k_left = self.b.set(k.clone() - k0.clone());
        let run_from = if fast == Fast::K { (k.clone(), k0.clone()) } else { (own.clone(), own0.clone()) };
        let (bytes, copied) = (self.element, self.copied);
        self.b.origin(note, "its first element, and the distance of rows");
        let ld = self.argument(&Param::Ld(operand))?;
        let pitch = self.b.set(ld * bytes);
        let mut from = self.argument(&Param::Matrix(operand))?;
        if let Some(product) = &product {
            let stride = self.argument(&Param::BatchStride(operand))?;
            from = self.b.set(from + product.clone().wide() * (stride * bytes));
        }
        let from = self.first(from, fast, (&own0, &k0), (&pitch, bytes));
        self.b.origin(note, "the same of the copy");
        let mut scales = Expr::Const(0);
        if pack.scales() {
            scales = self.argument(&Param::Scales(operand))?;
            let first = product.clone().map_or(Expr::Const(0), |product| product.wide() * own.clone().wide());
            scales = self.b.set(scales + (first + own0.clone().wide()) * SCALE_BYTES);
        }
        let (run, rows) = if pack.fast == Fast::K { (k, own) } else { (own, k) };
        let align = pack.align(program);
        let packed_pitch = self.b.set(packed_pitch(run, align, copied));
        let mut to = self.argument(&Param::Packed(operand))?;
        let planes = pack.planes.map_or(1, |planes| planes.count);
        let mut matrix = rows.wide() * packed_pitch.clone();
        let mut plane = Expr::Const(0);
        if planes > 1 {
            plane = self.b.set(matrix);
            matrix = plane.clone() * planes;
        }
        if let Some(product) = product {
            to = self.b.set(to + product.wide() * matrix);
        }
        let to = self.first(to, pack.fast, (&own0, &k0), (&packed_pitch, copied));
        Ok(Tile { from: (from, pitch), to: (to, packed_pitch), own_left, k_left, run: run_from, plane, scales })
    }

    /// The address of a tile's first element.
    fn first(&mut self, base: Expr, fast: Fast, (own, k): (&Expr, &Expr), (pitch, element): (&Expr, u32)) -> Expr {
        let (row, column) = if fast == Fast::K { (own, k) } else { (k, own) };
        self.b.set(base + row.clone().wide() * pitch.clone() + column.clone().wide() * element)
    }

    fn access(&self, matrix: &Param, tile: &Tile) -> Lowered<Access> {
        let param = self.params.iter().position(|param| param == matrix);
        let param = param.ok_or_else(|| broken("an access to something that is not a kernel parameter"))?;
        let dims = extent::holds(self.program, matrix).dims();
        let [Some(own), Some(k)] = dims.unwrap_or_default() else {
            return Err(broken("an operand has two dimensions"));
        };
        let reach = |dim, left: &Expr, end| Ok(Reach::new(dim, register(left)?, end));
        let reach = [reach(own, &tile.own_left, self.pack.extent)?, reach(k, &tile.k_left, self.pack.depth)?];
        Ok(Access { param, reach: reach.map(Some) })
    }

    /// The shared memory addresses of a vector's elements.
    fn staged(&mut self, vector: &Vector, fast: Fast) -> Vec<kernel::Address> {
        let (pitch, bytes) = (self.pack.pitch(), self.element);
        let place = vector.own.clone() * pitch + vector.k.clone();
        let base: Reg = self.b.set_reg(Expr::SharedBase + place * bytes);
        let step = if fast == Fast::K { bytes } else { pitch * bytes };
        let address = |index| kernel::Address { base, offset: i64::from(index * step) };
        (0..self.pack.vector(self.program)).map(address).collect()
    }
}

/// A thread's vectors of a tile: all in the same columns, with a constant distance in rows.
struct Vectors {
    /// The dimension along which they are contiguous.
    fast: Fast,
    /// Elements of each.
    length: u32,
    rows_at_once: u32,
    /// The column of their first elements.
    column: Expr,
    /// Rows and columns left from the tile's first element.
    left: [Expr; 2],
    all: Vec<Vector>,
}

/// One vector of a thread.
struct Vector {
    /// The position of its first element in the tile.
    own: Expr,
    k: Expr,
    row: Expr,
}
