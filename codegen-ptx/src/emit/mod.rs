//! From kernel IR to a PTX entry, statement by statement. No other pass knows both levels.
//!
//! Requires a [`Verified`] kernel, which also says which branches a warp takes together. Ensures the same registers
//! with the same numbers, plus families for intermediate values of expressions. Additions and multiplications are
//! rounded explicitly (`.rn`), so that the assembler does not fuse any.

mod convert;
mod group;
mod index;
mod math;
mod mbarrier;
mod words;

use ptx_gemm_dsl::terms::Reads;
use ptx_gemm_ptx::asynchronous::{BulkDone, PrefetchSize};
use ptx_gemm_ptx::build::{EntryBuilder, FamilyId};
use ptx_gemm_ptx::instruction::{Atomic, Cache, Guard, Half, Opcode, Operand, Order, Reg, Rounding, Scope};
use ptx_gemm_ptx::module::{Directive, Entry, Variable};
use ptx_gemm_ptx::types::{Space, Type};
use ptx_gemm_ptx::warp::Resize;

use ptx_gemm_dsl::target::{MAP_BYTES, Target, dynamic_shared_bytes};

use crate::kernel::uniform::Agreement;
use crate::kernel::verify::Verified;
use crate::kernel::{self, Address, Kernel, Memory, Op, OriginId, Stmt, outer_order};

/// Names of the shared memory in the text: static memory belongs to one entry, dynamic memory is shared by the entries
/// of a module.
const SHARED: &str = "smem";
const DYNAMIC_SHARED: &str = "dynamic_smem";

/// Alignment of a tensor map, in bytes (CUDA driver API, `CUtensorMap`).
const MAP_ALIGN: u32 = 64;

/// Lowers a kernel to an entry for `target`.
pub fn emit(verified: &Verified<'_>, target: Target) -> Entry {
    let kernel = verified.kernel();
    let mut entry = EntryBuilder::new(kernel.name.clone());
    entry.reserve(instructions(&kernel.body));
    for param in kernel.params.iter().filter(|param| param.field.is_none()) {
        match param.holds {
            kernel::Holds::Map { .. } => {
                entry.param_bytes(MAP_ALIGN, MAP_BYTES.into(), param.name.clone(), param.about.clone())
            }
            _ => entry.param(scalar_type(param.ty), param.name.clone(), param.about.clone()),
        }
    }
    entry.directive(Directive::Reqntid(vec![kernel.threads, 1, 1]));
    entry.directive(Directive::MinNctaPerSm(kernel.blocks_per_sm));
    if kernel.cluster > 1 {
        entry.directive(Directive::ReqNctaPerCluster(vec![kernel.cluster, 1, 1]));
    }
    let families = kernel
        .families
        .iter()
        .map(|family| {
            let ty = scalar_type(family.ty);
            let id = (family.count > 0).then(|| entry.family(format!("%{}", family.name), ty, family.about));
            (0..family.count).flat_map(|_| id.map(|id| entry.reg(id))).collect()
        })
        .collect();
    if let Some(variable) = shared_variable(kernel).filter(|v| !v.is_extern) {
        entry.variable(variable);
    }
    let conditions = verified.conditions().iter();
    let mut emitter = Emitter { kernel, target, entry, families, scratch: Vec::new(), conditions, origin: None };
    emitter.block(&kernel.body);
    emitter.entry.note("kernel", "done");
    emitter.entry.emit(Opcode::Ret, []);
    emitter.entry.finish()
}

/// The approximate number of instructions that the statements expand to.
fn instructions(body: &[Stmt]) -> usize {
    let of = |stmt: &Stmt| match &stmt.op {
        Op::Outer { acc, .. } => acc.len(),
        Op::Clear { dst } => dst.len(),
        Op::If { then, other, .. } => 4 + instructions(then) + instructions(other),
        Op::Loop { body, .. } => 4 + instructions(body),
        _ => 2,
    };
    body.iter().map(of).sum()
}

/// The block's shared memory as a variable: it belongs to the entry if it is static, and to the module if it is
/// dynamic.
pub fn shared_variable(kernel: &Kernel) -> Option<Variable> {
    let dynamic = dynamic_shared_bytes(kernel.shared_bytes) > 0;
    (kernel.shared_bytes > 0).then(|| Variable {
        is_extern: dynamic,
        space: Space::Shared,
        align: Some(kernel.shared_align),
        ty: Type::B8,
        name: shared_name(kernel).to_string(),
        count: Some(if dynamic { 0 } else { u64::from(kernel.shared_bytes) }),
        init: Vec::new(),
        note: Some(kernel.shared_origin.clone()),
    })
}

/// The name of a kernel's shared memory. A module may have entries of both kinds.
fn shared_name(kernel: &Kernel) -> &'static str {
    if dynamic_shared_bytes(kernel.shared_bytes) > 0 { DYNAMIC_SHARED } else { SHARED }
}

fn scalar_type(ty: kernel::Type) -> Type {
    match ty {
        kernel::Type::Pred => Type::Pred,
        kernel::Type::U32 => Type::U32,
        kernel::Type::U64 => Type::U64,
        kernel::Type::S32 => Type::S32,
        kernel::Type::F32 => Type::F32,
        kernel::Type::F64 => Type::F64,
        // Only conversions and accesses distinguish them.
        kernel::Type::S8 | kernel::Type::U8 | kernel::Type::E4m3 | kernel::Type::E5m2 => Type::B16,
        kernel::Type::F16 | kernel::Type::Bf16 => Type::B16,
        kernel::Type::Word => Type::B32,
    }
}

struct Emitter<'a> {
    kernel: &'a Kernel,
    target: Target,
    entry: EntryBuilder,
    /// The PTX registers of each family.
    families: Vec<Vec<Reg>>,
    /// Families for intermediate values of expressions, by name: that of a size of registers and what they are for.
    scratch: Vec<(&'static str, FamilyId)>,
    /// How far the threads agree on the condition of each following branch and loop.
    conditions: std::slice::Iter<'a, Agreement>,
    /// The origin attached to the instructions that follow.
    origin: Option<OriginId>,
}

impl Emitter<'_> {
    fn block(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.origin(stmt.origin);
            self.stmt(stmt);
        }
    }

    /// Attaches `origin` to the instructions that follow.
    fn origin(&mut self, origin: OriginId) {
        if self.origin != Some(origin) {
            self.origin = Some(origin);
            self.entry.set_note(Some(self.kernel.origins[origin.0 as usize].clone()));
        }
    }

    fn reg(&self, reg: kernel::Reg) -> Reg {
        // The kernel's verifier has checked that every register exists.
        self.families[reg.family.0 as usize][reg.index as usize]
    }

    fn scratch(&mut self, ty: kernel::Type) -> Reg {
        let prefix = match ty {
            kernel::Type::Pred => "%tp",
            kernel::Type::U32 => "%t",
            kernel::Type::U64 => "%td",
            kernel::Type::S32 => "%ts",
            kernel::Type::F32 => "%tf",
            kernel::Type::F64 => "%tg",
            kernel::Type::S8 | kernel::Type::U8 | kernel::Type::E4m3 | kernel::Type::E5m2 => "%th",
            kernel::Type::F16 | kernel::Type::Bf16 => "%th",
            kernel::Type::Word => "%tb",
        };
        if let Some((_, id)) = self.scratch.iter().find(|(known, _)| *known == prefix) {
            return self.entry.reg(*id);
        }
        let id = self.entry.family(prefix, scalar_type(ty), "intermediate values of expressions");
        self.scratch.push((prefix, id));
        self.entry.reg(id)
    }

    fn guard(&self, guard: kernel::Guard) -> Guard {
        Guard { pred: self.reg(guard.pred), negated: !guard.expect }
    }

    fn emit(&mut self, guard: Option<kernel::Guard>, op: Opcode, operands: impl Into<Vec<Operand>>) {
        match guard {
            None => self.entry.emit(op, operands),
            Some(guard) => self.entry.emit_if(self.guard(guard), op, operands),
        }
    }

    fn address(&self, address: &Address) -> Operand {
        Operand::address(self.reg(address.base), address.offset)
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.op {
            Op::Param { dst, index } => {
                let param = &self.kernel.params[*index];
                if let kernel::Holds::Map { .. } = param.holds {
                    return self.map_address(*dst, &param.name);
                }
                let op = load(Space::Param, PrefetchSize::None, 1, scalar_type(param.ty));
                let operands = [self.reg(*dst).into(), Operand::address(param.name.as_str(), 0)];
                self.entry.emit(op, operands);
            }
            Op::Field { dst, index, record } => {
                let param = &self.kernel.params[*index];
                let offset = param.field.unwrap_or(0);
                if let kernel::Holds::Map { .. } = param.holds {
                    return self.map_of_record(*dst, *record, offset);
                }
                let op = load(Space::Global, PrefetchSize::None, 1, scalar_type(param.ty));
                let place = Operand::address(self.reg(*record), offset.into());
                self.entry.emit(op, [self.reg(*dst).into(), place]);
            }
            Op::Set { dst, value } => {
                let (ty, dst) = (self.kernel.ty(*dst), self.reg(*dst));
                self.set(dst, ty, value);
            }
            Op::Load { memory, dst, address, guard, locality, reads } => {
                let words = self.words(dst);
                let (ty, vector) = self.accessed(dst, &words);
                let ((space, address), (cache, prefetch)) = (self.place(memory, address), self.locality(*locality));
                let op = match reads {
                    Reads::Movable => Opcode::Ld { order: Order::Weak, space, cache, prefetch, vector, ty },
                    // A volatile load takes no other modifiers.
                    Reads::Volatile => {
                        let (order, cache, prefetch) = (Order::Volatile, Cache::None, PrefetchSize::None);
                        Opcode::Ld { order, space, cache, prefetch, vector, ty }
                    }
                };
                self.emit(*guard, op, [self.data(dst, &words), address]);
                self.unpack(&words, dst, *guard);
            }
            Op::Store { memory, src, address, guard } => {
                let words = self.words(src);
                self.pack(src, &words);
                let ((space, address), (ty, vector)) = (self.place(memory, address), self.accessed(src, &words));
                let op = Opcode::St { order: Order::Weak, space, cache: Cache::None, vector, ty };
                self.emit(*guard, op, [address, self.data(src, &words)]);
            }
            Op::CopyAsync { to, from, bytes, valid, guard, .. } => {
                // 16 bytes bypass L1 (`.cg`); smaller copies always go through it (PTX ISA, cp.async).
                let cache = if *bytes == 16 { Cache::Cg } else { Cache::Ca };
                let mut operands = vec![self.address(to), self.address(from), Operand::from(*bytes)];
                operands.extend(valid.map(|v| Operand::from(self.reg(v))));
                self.emit(*guard, Opcode::CpAsync { cache, prefetch: PrefetchSize::None }, operands);
            }
            Op::CopyBox { to, map, at, barrier, blocks, guard } => {
                self.copy_box(to, (*map, at), barrier, *blocks, *guard);
            }
            Op::StoreBox { from, map, at, guard } => self.store_box(from, *map, at, *guard),
            Op::CommitBoxes => self.entry.emit(Opcode::BulkCommit, []),
            Op::SettleBoxes => self.entry.emit(Opcode::BulkWait(BulkDone::Read), [Operand::Int(0)]),
            Op::FenceCopies => self.fence_copies(),
            Op::PublishBarriers => self.entry.emit(Opcode::FenceMbarrierInit, []),
            Op::CommitCopies => self.entry.emit(Opcode::CpAsyncCommit, []),
            Op::WaitCopies(n) => self.entry.emit(Opcode::CpAsyncWait, [Operand::from(*n)]),
            Op::Clear { dst } => {
                dst.iter().for_each(|reg| self.math(kernel::Math::Mov, *reg, &[kernel::Value::Const(0.0)]));
            }
            Op::Math { op, dst, args } => self.math(*op, *dst, args),
            Op::IsZero { dst, src } => self.is_zero(*dst, *src),
            Op::Select { dst, pred, yes, no } => self.select(*dst, *pred, yes, no),
            Op::Outer { acc, a, b, order } => self.outer(acc, a, b, *order),
            Op::LoadMatrices { dst, address, transposed, guard } => {
                self.load_matrices(dst, address, *transposed, *guard);
            }
            Op::StoreMatrices { src, address, transposed } => self.store_matrices(src, address, *transposed),
            Op::TensorProduct { acc, a, b, add, shape } => self.tensor_product(acc, [a, b], *add, shape),
            Op::FenceProducts => self.entry.emit(Opcode::WgmmaFence, []),
            Op::CommitProducts => self.entry.emit(Opcode::WgmmaCommit, []),
            Op::WaitProducts(n) => self.entry.emit(Opcode::WgmmaWait, [Operand::from(*n)]),
            Op::SetRegisters { count, more } => {
                let resize = if *more { Resize::Inc } else { Resize::Dec };
                self.entry.emit(Opcode::SetMaxNReg(resize), [Operand::from(*count)]);
            }
            Op::InitBarrier { address, arrivals } => self.init_barrier(address, *arrivals),
            Op::ArriveAt { block, address, guard } => self.arrive_at(*block, address, *guard),
            Op::Arrive { address, when, guard } => self.arrive(address, *when, *guard),
            Op::TestBarrier { dst, address, parity } => self.test_barrier(*dst, address, *parity),
            Op::CountUp { dst, address } => {
                let order = Order::AcqRel(Scope::Gpu);
                let op = Opcode::Atom { order, space: Space::Global, op: Atomic::Add, ty: Type::U32 };
                self.entry.emit(op, [self.reg(*dst).into(), self.address(address), Operand::Int(1)]);
            }
            Op::ReadFlag { dst, address } => {
                let order = Order::Acquire(Scope::Gpu);
                let (cache, prefetch) = (Cache::None, PrefetchSize::None);
                let op = Opcode::Ld { order, space: Space::Global, cache, prefetch, vector: 1, ty: Type::U32 };
                self.entry.emit(op, [self.reg(*dst).into(), self.address(address)]);
            }
            Op::RaiseFlag { address, value } => {
                let order = Order::Release(Scope::Gpu);
                let op = Opcode::St { order, space: Space::Global, cache: Cache::None, vector: 1, ty: Type::U32 };
                self.entry.emit(op, [self.address(address), self.reg(*value).into()]);
            }
            Op::ClusterBarrier => {
                self.cluster_arrive();
                self.cluster_wait();
            }
            Op::ClusterArrive => self.cluster_arrive(),
            Op::ClusterWait => self.cluster_wait(),
            Op::Barrier => self.entry.emit(Opcode::BarSync, [Operand::Int(0)]),
            Op::NamedBarrier { number, threads } => {
                self.entry.emit(Opcode::BarSync, [Operand::from(*number), Operand::from(*threads)]);
            }
            Op::If { cond, then, other } => self.branch(stmt.origin, *cond, then, other),
            Op::Loop { body, again } => self.repeat(stmt.origin, body, *again),
        }
    }

    /// What a load does in the L2 cache.
    ///
    /// `NextTiles` prefetches as much as the target can fetch beyond the requested sectors. All blocks of a row of
    /// tiles miss together when they reach a new K-tile: on an H200 at 4096, `lab3_4x4` reaches 21.2 instead of 20.1
    /// TFLOP/s.
    ///
    /// `Once` marks its lines to be evicted first (PTX ISA, "Cache Operators"), so that what a kernel writes stays in
    /// the L2 cache for the next kernel: on an H100, 4095 x 4097 x 4093 by `bf16_128x128` takes 0.258 instead of 0.265
    /// ms.
    fn locality(&self, locality: kernel::Locality) -> (Cache, PrefetchSize) {
        match locality {
            kernel::Locality::Unknown => (Cache::None, PrefetchSize::None),
            kernel::Locality::NextTiles if self.target.capability < 80 => (Cache::None, PrefetchSize::B128),
            kernel::Locality::NextTiles => (Cache::None, PrefetchSize::B256),
            kernel::Locality::Once => (Cache::Cs, PrefetchSize::None),
        }
    }

    /// Whether all threads of a warp that reach the next branch or loop take the same direction (PTX ISA, `bra.uni`).
    fn uniform(&mut self) -> bool {
        self.conditions.next().is_some_and(|agree| *agree >= Agreement::WARP)
    }

    fn outer(
        &mut self,
        acc: &[kernel::Reg],
        a: &[kernel::Reg],
        b: &[kernel::Reg],
        order: ptx_gemm_dsl::terms::FmaOrder,
    ) {
        let ty = scalar_type(self.kernel.ty(acc[0]));
        let op = match ty {
            Type::S32 => Opcode::MadInt { half: Half::Lo, ty },
            _ => Opcode::Fma { rnd: Rounding::Rn, ty },
        };
        for (i, j) in outer_order(a.len(), b.len(), order) {
            let sum = self.reg(acc[i * b.len() + j]);
            self.entry.emit(op.clone(), [sum, self.reg(a[i]), self.reg(b[j]), sum].map(Operand::Reg));
        }
    }

    /// The state space of an access, and its address there.
    fn place(&mut self, memory: &Memory, address: &Address) -> (Space, Operand) {
        match memory {
            Memory::Global(_) => (Space::Global, self.address(address)),
            Memory::Shared => (Space::Shared, self.address(address)),
            Memory::Cluster(block) => (Space::SharedCluster, self.address_at(*block, address, None)),
        }
    }

    fn branch(&mut self, origin: OriginId, cond: kernel::Guard, then: &[Stmt], other: &[Stmt]) {
        let uniform = self.uniform();
        let end = self.entry.label("end");
        let skip = Guard { pred: self.reg(cond.pred), negated: cond.expect };
        if other.is_empty() {
            self.entry.emit_if(skip, Opcode::Bra { uniform }, [Operand::from(&end)]);
            self.block(then);
        } else {
            let edge = self.entry.label("else");
            self.entry.emit_if(skip, Opcode::Bra { uniform }, [Operand::from(&edge)]);
            self.block(then);
            self.origin(origin);
            self.entry.emit(Opcode::Bra { uniform }, [Operand::from(&end)]);
            self.entry.bind(&edge);
            self.block(other);
        }
        self.entry.bind(&end);
    }

    fn repeat(&mut self, origin: OriginId, body: &[Stmt], again: kernel::Reg) {
        let uniform = self.uniform();
        let top = self.entry.label("loop");
        self.entry.bind(&top);
        // An earlier pass has unrolled the loops that should be unrolled.
        self.entry.pragma("nounroll");
        self.block(body);
        self.origin(origin);
        let guard = Guard::when(self.reg(again));
        self.entry.emit_if(guard, Opcode::Bra { uniform }, [Operand::from(&top)]);
    }
}

fn load(space: Space, prefetch: PrefetchSize, vector: u8, ty: Type) -> Opcode {
    Opcode::Ld { order: Order::Weak, space, cache: Cache::None, prefetch, vector, ty }
}
