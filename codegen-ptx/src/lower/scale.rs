//! Scales: a separate kernel determines a power of two for each row of A, or column of B, before its planes are
//! written.
//!
//! A block handles [`SCALE_LINES`] rows (of A; columns of B) over all of k. Its lanes run along the contiguous
//! dimension, its warps along the other one. Each thread tracks the largest magnitude of its elements and writes it to
//! shared memory at the end; then one thread per row takes the maximum. Magnitudes of f32 are ordered like their bits,
//! and the upper bits are the exponent: the scale changes it to that of 2^14. Rows with all elements below 2^-112 get
//! the scale of 2^-112, and rows with an infinity or NaN that of the largest numbers, so that scales and their inverses
//! are normal numbers. The scale of such a row does not matter: all of its elements of D are infinite or NaN, and
//! packing writes an infinity as one, and zeros alone as zeros, whatever the scale is.

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::{Fast, Param, Reads};
use ptx_gemm_dsl::types::Batch;

use super::arguments;
use super::extent::{self, register};
use super::registers::register_type;
use super::{Lowered, broken, letter};
use crate::kernel::build::Builder;
use crate::kernel::expr::UNBOUNDED;
use crate::kernel::{
    self, Access, Address, Dim, Expr, Guard, Holds, Kernel, Locality, MAX_EXTENT, Math, Memory, Op, Origin, Reach,
    Value,
};
use crate::origin::Site;
use crate::tile::interface::SCALE_BYTES;
use crate::tile::{Pack, Program, SCALE_LINES, SCALE_SHARED_BYTES, SCALE_THREADS};

/// Elements that a thread has in flight.
const AT_ONCE: u32 = 16;

/// Threads for each row, and the pitch of their results in shared memory, without bank conflicts in either direction.
const SHARE: u32 = SCALE_THREADS / SCALE_LINES;
const PITCH: u32 = SHARE + 1;

/// The exponent field of f32: its unit, its bias, and its largest value of a finite number.
const EXPONENT: u32 = 1 << 23;
const BIAS: u32 = 127;
const LARGEST: u32 = 254;

/// The exponent that the largest element of a row gets, and the smallest exponent field for which a scale is computed.
const AIM: u32 = 14;
const LEAST: u32 = AIM + 1;

/// Lowers the kernel that determines the scales of an operand, for a verified program.
pub(crate) fn lower(program: &Program, pack: &Pack) -> Lowered<Kernel> {
    let params = pack.scale_params(program.problem.batch);
    let kernel = Kernel {
        name: pack.scale_kernel(&program.problem),
        params: params.iter().map(|param| arguments::declaration(program, param)).collect::<Lowered<_>>()?,
        threads: SCALE_THREADS,
        divides: None,
        blocks_per_sm: 1,
        cluster: 1,
        shared_bytes: SCALE_SHARED_BYTES,
        shared_align: 16,
        shared_origin: Origin::new(pack.note.clone(), format!("largest elements of {}", letter(pack.side))),
        families: Vec::new(),
        origins: Vec::new(),
        body: Vec::new(),
    };
    let mut b = Builder::new(kernel);
    let dtype = program.problem.types.of(pack.side.operand());
    let values = b.family("e", register_type(dtype), "elements of the operand");
    Scaling { b, program, pack, params, element: dtype.bytes(), values }.lower()
}

/// A kernel that is being lowered.
struct Scaling<'a> {
    b: Builder,
    program: &'a Program,
    pack: &'a Pack,
    params: Vec<Param>,
    element: u32,
    values: kernel::Family,
}

impl Scaling<'_> {
    fn index_of(&self, param: &Param) -> Lowered<usize> {
        let index = self.params.iter().position(|given| given == param);
        index.ok_or_else(|| broken("a kernel that scales lacks a parameter"))
    }

    fn argument(&mut self, param: &Param) -> Lowered<Expr> {
        let index = self.index_of(param)?;
        let bound = if matches!(param, Param::M | Param::N | Param::K) { u64::from(MAX_EXTENT) } else { UNBOUNDED };
        Ok(Expr::Reg(self.b.param(index, None), bound))
    }

    fn lower(mut self) -> Lowered<Kernel> {
        let (pack, program) = (self.pack, self.program);
        let (note, operand) = (&pack.note, pack.side.operand());
        let along_k = program.problem.layouts.fast(pack.side) == Fast::K;
        let line = if pack.side == ptx_gemm_dsl::terms::Side::A { "row" } else { "column" };
        self.b.origin(note, "read the arguments");
        let own = self.argument(&pack.own_param())?;
        let k = self.argument(&Param::K)?;
        let ld = self.argument(&Param::Ld(operand))?;
        let mut base = self.argument(&Param::Matrix(operand))?;
        let scales = self.argument(&Param::Scales(operand))?;
        self.b.origin(note, &format!("{line}s of this block"));
        let mut block = self.b.set(Expr::Block);
        let mut first_scale = Expr::Const(0);
        if program.problem.batch == Batch::Strided {
            let blocks = self.b.set((own.clone() + (SCALE_LINES - 1)) / SCALE_LINES);
            let product = self.b.set(block.clone() / blocks.clone());
            block = self.b.set(block % blocks);
            let stride = self.argument(&Param::BatchStride(operand))?;
            base = self.b.set(base + product.clone().wide() * (stride * self.element));
            first_scale = self.b.set(product.wide() * own.clone().wide());
        }
        let own0 = self.b.set(block * SCALE_LINES);
        let left = self.b.set(own - own0.clone());
        self.b.origin(note, &format!("this thread's {line}, and its first k"));
        let lane = self.b.set(Expr::Tid(SCALE_THREADS) % WARP);
        let warp = self.b.set(Expr::Tid(SCALE_THREADS) / WARP);
        let (mine, share) = if along_k { (warp, lane) } else { (lane, warp) };
        let inside = self.b.set(mine.clone().lt(left.clone()));
        let pitch = self.b.set(ld * self.element);
        let (own_step, k_step) =
            if along_k { (pitch, Expr::Const(self.element.into())) } else { (Expr::Const(self.element.into()), pitch) };
        let start = base + (own0.clone() + mine.clone()).wide() * own_step + share.clone().wide() * k_step.clone();
        let at = self.b.variable(start, UNBOUNDED);
        let k_left = self.b.variable(k.clone(), k.bound());
        let advance = k_step.clone() * (SHARE * AT_ONCE);
        let largest = self.b.fresh(self.values);
        self.b.push(Op::Clear { dst: vec![largest] });
        let access = self.access(&Param::Matrix(operand), (&left, &k_left))?;

        self.b.origin_at(Site::LargestMagnitude, note, "the largest magnitude");
        self.b.open();
        let elements = self.b.fresh_many(self.values, AT_ONCE as usize);
        self.b.push(Op::Clear { dst: elements.clone() });
        for (index, dst) in (0..AT_ONCE).zip(&elements) {
            let there = inside.clone().and((share.clone() + index * SHARE).lt(k_left.clone()));
            let guard = Guard { pred: self.b.set_reg(there), expect: true };
            let address = self.b.set(at.clone() + k_step.clone() * (index * SHARE));
            self.b.load_global(vec![*dst], &address, 0, Some(guard), (access, Locality::Unknown));
        }
        for element in elements {
            let magnitude = self.b.fresh(self.values);
            self.b.math(Math::Abs, magnitude, vec![Value::Reg(element)]);
            self.b.math(Math::Max, largest, vec![Value::Reg(largest), Value::Reg(magnitude)]);
        }
        self.b.origin(note, "advance along k");
        self.b.assign(&at, at.clone() + advance);
        let depth = SHARE * AT_ONCE;
        self.b.assign(&k_left, k_left.clone().max(depth.into()) - depth);
        let again = self.b.set_reg(k_left.ge(1u32));
        let body = self.b.close();
        self.b.push(Op::Loop { body, again });

        self.b.origin_at(Site::LeaveLargest, note, "leave it to the thread of the whole line");
        let place = self.b.set_reg(Expr::SharedBase + (mine * PITCH + share) * 4u32);
        let address = Address { base: place, offset: 0 };
        self.b.push(Op::Store { memory: Memory::Shared, src: vec![largest], address, guard: None });
        self.b.push(Op::Barrier);
        let tid = self.b.set(Expr::Tid(SCALE_THREADS));
        let reads = self.b.set_reg(tid.clone().lt(SCALE_LINES).and(tid.clone().lt(left.clone())));
        self.b.open();
        self.b.origin_at(Site::LargestOfLine, note, &format!("the largest of the {line}, as bits"));
        // The minimum changes nothing for threads that get here, but states the bound to the verifier.
        let mine = self.b.set(tid.min((SCALE_LINES - 1).into()));
        let base = self.b.set_reg(Expr::SharedBase + mine.clone() * (PITCH * 4));
        let mut most = Expr::Const(0);
        for index in 0..SHARE {
            let bits = self.b.variable(Expr::Block, u64::from(u32::MAX));
            let dst = vec![register(&bits)?];
            let address = Address { base, offset: i64::from(index * 4) };
            let (memory, locality, reads) = (Memory::Shared, Locality::Unknown, Reads::Movable);
            self.b.push(Op::Load { memory, dst, address, guard: None, locality, reads });
            most = self.b.set(bits.max(most));
        }
        self.b.origin_at(Site::Scale, note, "a scale that makes it 2^14 or more, and its inverse");
        let field = self.b.set((most / EXPONENT).max(LEAST.into()).min(LARGEST.into()));
        let scale = self.b.set_reg((Expr::from(2 * BIAS + AIM) - field.clone()) * EXPONENT);
        let inverse = self.b.set_reg((field - AIM) * EXPONENT);
        let to = scales + (first_scale + (own0 + mine).wide()) * SCALE_BYTES;
        let to = self.b.set_reg(to);
        let Holds::Vector(dim) = extent::holds(program, &Param::Scales(operand)) else {
            return Err(broken("scales have one dimension"));
        };
        let reach = Reach::new(dim, register(&left)?, SCALE_LINES);
        let access = Access { param: self.index_of(&Param::Scales(operand))?, reach: [Some(reach), None] };
        for (src, offset) in [(scale, 0), (inverse, i64::from(SCALE_BYTES / 2))] {
            let (memory, address) = (Memory::Global(access), Address { base: to, offset });
            self.b.push(Op::Store {
                memory,
                src: vec![src],
                address,
                guard: Some(Guard { pred: reads, expect: true }),
            });
        }
        let then = self.b.close();
        self.b.branch(reads, then, Vec::new());
        Ok(self.b.finish())
    }

    fn access(&self, matrix: &Param, (own, k): (&Expr, &Expr)) -> Lowered<Access> {
        let dims = extent::holds(self.program, matrix).dims();
        let [Some(own_dim), Some(k_dim)] = dims.unwrap_or_default() else {
            return Err(broken("an operand has two dimensions"));
        };
        let reach = |dim: Dim, left: &Expr, end| Ok(Reach::new(dim, register(left)?, end));
        let reach = [reach(own_dim, own, SCALE_LINES)?, reach(k_dim, k, SHARE * AT_ONCE)?];
        Ok(Access { param: self.index_of(matrix)?, reach: reach.map(Some) })
    }
}
