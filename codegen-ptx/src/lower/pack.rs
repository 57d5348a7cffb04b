//! `pack`: a kernel of its own copies an operand into the workspace, in the order and with the row pitch that the
//! product's copies need.
//!
//! A block copies one tile. If it transposes, the tile passes through shared memory: it is read along the dimension that is
//! contiguous in the matrix, and written along the one that is contiguous in the copy, so that both use whole lines. Rows in
//! shared memory are an odd number of elements apart, so that neither side has bank conflicts. Accesses are of single
//! elements: the matrix may be aligned to no more than that.

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::{Fast, Param, Reads};
use ptx_gemm_dsl::types::{Batch, DType};

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
use crate::tile::interface::SCALE_BYTES;
use crate::tile::{Pack, Planes, Program};

/// The largest number of bf16.
const LARGEST_BF16: f64 = 3.389_531_389_251_535_5e38;

/// Lowers the kernel that copies an operand for a program that was verified.
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
    let values = b.family("e", register_type(matrix)?, "elements of the operand");
    let planes = match pack.planes {
        None => None,
        Some(planes) => Some(b.family("h", register_type(planes.dtype)?, "elements of its planes")),
    };
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
    /// The matrix and its copy, at the tile's first element, and the byte distance of rows of each.
    from: (Expr, Expr),
    to: (Expr, Expr),
    /// Elements left from there along the operand's own dimension, and along k.
    own_left: Expr,
    k_left: Expr,
    /// Bytes from one plane of the copy to the next.
    plane: Expr,
    /// The scale of the tile's first row or column, if these are scaled.
    scales: Expr,
}

impl Packing<'_> {
    fn lower(mut self) -> Lowered<Kernel> {
        let tile = self.tile()?;
        let note = &self.pack.note;
        self.b.origin(note, "lane and warp");
        let lane = self.b.set(Expr::Tid(self.pack.threads) % WARP);
        let warp = self.b.set(Expr::Tid(self.pack.threads) / WARP);
        let matrix = self.program.problem.layouts.fast(self.pack.side);
        let operand = self.pack.side.operand();
        self.b.origin(note, &format!("read a tile of {}", letter(self.pack.side)));
        let read = self.elements(matrix, (&lane, &warp), &tile, (&tile.from, self.element), Param::Matrix(operand))?;
        let registers = self.b.fresh_many(self.values, read.len());
        if matrix != self.pack.fast {
            // What is outside the matrix passes through shared memory as zeros, so that only global accesses have guards.
            self.b.push(Op::Clear { dst: registers.clone() });
        }
        for (element, dst) in read.iter().zip(&registers) {
            let access = (element.access, Locality::Unknown);
            self.b.load_global(vec![*dst], &element.address, element.offset, Some(element.guard), access);
        }
        if matrix == self.pack.fast {
            self.b.origin(note, "write it with the pitch of the copy");
            let written =
                self.elements(matrix, (&lane, &warp), &tile, (&tile.to, self.copied), Param::Packed(operand))?;
            self.write(&written, &registers, &tile)?;
            return Ok(self.b.finish());
        }
        self.b.origin(note, "store it in shared memory");
        for (element, src) in read.iter().zip(&registers) {
            let address = self.staged(element)?;
            self.b.push(Op::Store { memory: Memory::Shared, src: vec![*src], address, guard: None });
        }
        self.b.origin(note, "all threads have stored their part");
        self.b.push(Op::Barrier);
        self.b.origin(note, "write it in the order of the copy");
        let written =
            self.elements(self.pack.fast, (&lane, &warp), &tile, (&tile.to, self.copied), Param::Packed(operand))?;
        let registers = self.b.fresh_many(self.values, written.len());
        for (element, dst) in written.iter().zip(&registers) {
            let address = self.staged(element)?;
            let (locality, reads) = (Locality::Unknown, Reads::Movable);
            self.b.push(Op::Load { memory: Memory::Shared, dst: vec![*dst], address, guard: None, locality, reads });
        }
        self.write(&written, &registers, &tile)?;
        Ok(self.b.finish())
    }

    fn write(&mut self, elements: &[Element], registers: &[Reg], tile: &Tile) -> Lowered<()> {
        if let (Some(family), Some(planes)) = (self.planes, self.pack.planes) {
            let scaled = self.scaled(elements, registers, tile);
            let split: Vec<Vec<Reg>> = scaled?.iter().map(|value| self.split(*value, family, planes)).collect();
            self.b.origin(&self.pack.note, "write the planes");
            for plane in 0..planes.count {
                for (element, of) in elements.iter().zip(&split) {
                    let base = self.b.set_reg(element.address.clone() + tile.plane.clone() * plane);
                    let address = kernel::Address { base, offset: element.offset };
                    let (memory, guard) = (Memory::Global(element.access), Some(element.guard));
                    self.b.push(Op::Store { memory, src: vec![of[plane as usize]], address, guard });
                }
            }
            return Ok(());
        }
        for (element, src) in elements.iter().zip(registers) {
            let address = kernel::Address { base: self.b.set_reg(element.address.clone()), offset: element.offset };
            let (memory, guard) = (Memory::Global(element.access), Some(element.guard));
            self.b.push(Op::Store { memory, src: vec![*src], address, guard });
        }
        Ok(())
    }

    /// The elements times the scales of their rows or columns, if these are scaled.
    fn scaled(&mut self, elements: &[Element], registers: &[Reg], tile: &Tile) -> Lowered<Vec<Reg>> {
        if !self.pack.scales() {
            return Ok(registers.to_vec());
        }
        let scales = Param::Scales(self.pack.side.operand());
        let param = self.params.iter().position(|param| *param == scales);
        let param = param.ok_or_else(|| broken("an access to something that is not a kernel parameter"))?;
        let Holds::Vector(dim) = extent::holds(self.program, &scales) else {
            return Err(broken("scales have one dimension"));
        };
        let reach = Reach::new(dim, register(&tile.own_left)?, self.pack.extent);
        let access = Access { param, reach: [Some(reach), None] };
        self.b.origin(&self.pack.note, "scales");
        let mut known: Vec<(Expr, Reg)> = Vec::new();
        for element in elements {
            if known.iter().any(|(own, _)| *own == element.own) {
                continue;
            }
            let dst = self.b.fresh(self.values);
            self.b.push(Op::Clear { dst: vec![dst] });
            let inside = self.b.set_reg(element.own.clone().lt(tile.own_left.clone()));
            let address = self.b.set(tile.scales.clone() + element.own.clone().wide() * SCALE_BYTES);
            let guard = Some(Guard { pred: inside, expect: true });
            self.b.load_global(vec![dst], &address, 0, guard, (access, Locality::Unknown));
            known.push((element.own.clone(), dst));
        }
        let mut scaled = Vec::new();
        for (element, value) in elements.iter().zip(registers) {
            let scale = known.iter().find(|(own, _)| *own == element.own).map(|(_, scale)| *scale);
            let scale = scale.ok_or_else(|| broken("an element without a scale"))?;
            let dst = self.b.fresh(self.values);
            self.b.math(Math::Mul, dst, vec![Value::Reg(*value), Value::Reg(scale)]);
            scaled.push(dst);
        }
        Ok(scaled)
    }

    /// The planes of one element, the largest first: each is what the ones before leave of it, rounded to nearest.
    ///
    /// A number that would round to infinity is cut to the largest of the planes' type instead, and the rest of it is in
    /// the next plane. Infinity is in the last plane, which is only multiplied by first planes, with 1 in the first: so
    /// infinity times a number is never infinity times the zeros of its other planes, and infinity times infinity is
    /// infinity. NaN is in the first and in the last plane. A fourth plane is the third with 0 in place of these.
    fn split(&mut self, value: Reg, family: kernel::Family, Planes { dtype, count }: Planes) -> Vec<Reg> {
        let most = if dtype == DType::F16 { 65504.0 } else { LARGEST_BF16 };
        self.b.origin(&self.pack.note, "planes of an element");
        let [difference, high, low, bounded] = [(); 4].map(|()| self.b.fresh(self.values));
        self.b.math(Math::Sub, difference, vec![Value::Reg(value), Value::Reg(value)]);
        let finite = self.b.fresh_pred();
        self.b.push(Op::IsZero { dst: finite, src: difference });
        let yes = Value::Const(most);
        self.b.push(Op::Select { dst: high, pred: finite, yes, no: Value::Const(1.0) });
        self.b.math(Math::Neg, low, vec![Value::Reg(high)]);
        self.b.math(Math::Min, bounded, vec![Value::Reg(value), Value::Reg(high)]);
        self.b.math(Math::Max, bounded, vec![Value::Reg(bounded), Value::Reg(low)]);
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
        let own_tiles = self.b.set((own.clone() + (pack.extent - 1)) / pack.extent);
        let block = self.b.set(Expr::Block);
        let own_tile = self.b.set(block.clone() % own_tiles.clone());
        let mut k_tile = self.b.set(block / own_tiles);
        let mut product = None;
        if program.problem.batch == Batch::Strided {
            let k_tiles = self.b.set((k.clone() + (pack.depth - 1)) / pack.depth);
            product = Some(self.b.set(k_tile.clone() / k_tiles.clone()));
            k_tile = self.b.set(k_tile % k_tiles);
        }
        let own0 = self.b.set(own_tile * pack.extent);
        let k0 = self.b.set((k_tile * pack.depth).min(k.clone()));
        let own_left = self.b.set(own.clone() - own0.clone());
        let k_left = self.b.set(k.clone() - k0.clone());
        let (bytes, copied) = (self.element, self.copied);
        self.b.origin(note, "its first element, and the distance of rows");
        let ld = self.argument(&Param::Ld(operand))?;
        let pitch = self.b.set(ld * bytes);
        let mut from = self.argument(&Param::Matrix(operand))?;
        if let Some(product) = &product {
            let stride = self.argument(&Param::BatchStride(operand))?;
            from = self.b.set(from + product.clone().wide() * (stride * bytes));
        }
        let from = self.first(from, program.problem.layouts.fast(pack.side), (&own0, &k0), (&pitch, bytes));
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
        Ok(Tile { from: (from, pitch), to: (to, packed_pitch), own_left, k_left, plane, scales })
    }

    /// The address of a tile's first element.
    fn first(&mut self, base: Expr, fast: Fast, (own, k): (&Expr, &Expr), (pitch, element): (&Expr, u32)) -> Expr {
        let (row, column) = if fast == Fast::K { (own, k) } else { (k, own) };
        self.b.set(base + row.clone().wide() * pitch.clone() + column.clone().wide() * element)
    }

    /// A thread's elements of a tile: its lane runs along the contiguous dimension, its warp along the rows.
    fn elements(
        &mut self,
        fast: Fast,
        (lane, warp): (&Expr, &Expr),
        tile: &Tile,
        ((first, pitch), bytes): (&(Expr, Expr), u32),
        matrix: Param,
    ) -> Lowered<Vec<Element>> {
        let pack = self.pack;
        let warps = pack.threads / WARP;
        let (rows, columns) = if fast == Fast::K { (pack.extent, pack.depth) } else { (pack.depth, pack.extent) };
        let (rows_left, columns_left) =
            if fast == Fast::K { (&tile.own_left, &tile.k_left) } else { (&tile.k_left, &tile.own_left) };
        let access = self.access(&matrix, tile)?;
        let mut all = Vec::new();
        for row in (0..rows).step_by(warps as usize) {
            let row = self.b.set(warp.clone() + row);
            let address = self.b.set(first.clone() + row.clone().wide() * pitch.clone() + lane.clone().wide() * bytes);
            for column in (0..columns).step_by(WARP as usize) {
                let offset = i64::from(column * bytes);
                let column = self.b.set(lane.clone() + column);
                let inside = row.clone().lt(rows_left.clone()).and(column.clone().lt(columns_left.clone()));
                let guard = Guard { pred: self.b.set_reg(inside), expect: true };
                let (own, k) = if fast == Fast::K { (row.clone(), column) } else { (column, row.clone()) };
                all.push(Element { own, k, address: address.clone(), offset, guard, access });
            }
        }
        Ok(all)
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

    /// Where an element is in shared memory.
    fn staged(&mut self, element: &Element) -> Lowered<kernel::Address> {
        let place = element.own.clone() * self.pack.pitch() + element.k.clone();
        let base: Reg = self.b.set_reg(Expr::SharedBase + place * self.element);
        Ok(kernel::Address { base, offset: 0 })
    }
}

/// One element of a thread.
struct Element {
    /// Its position in the tile.
    own: Expr,
    k: Expr,
    /// Its place in device memory.
    address: Expr,
    offset: i64,
    /// Whether it is inside the matrix.
    guard: Guard,
    access: Access,
}
