//! Definitions before uses, types, and the shapes of statements.

use ptx_gemm_dsl::atoms::{Multiply, Unit};
use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::types::DType;

use super::{Check, name, rule};
use crate::Violation;
use crate::kernel::{
    Access, Address, Arrival, Expr, Factor, Guard, Kernel, Math, Memory, Numbering, Op, ProductShape, Reg, Stmt, Type,
    Value,
};

pub(super) fn check(kernel: &Kernel) -> Check {
    for family in &kernel.families {
        let bounds = if family.ty.is_data() { 0 } else { family.count as usize };
        rule(family.bounds.len() == bounds, || format!("the registers {} need one bound per register", family.name))?;
    }
    let numbering = kernel.numbering();
    let defined = vec![false; numbering.len()];
    Structure { kernel, numbering, defined }.block(&kernel.body)
}

struct Structure<'a> {
    kernel: &'a Kernel,
    numbering: Numbering,
    defined: Vec<bool>,
}

impl Structure<'_> {
    fn block(&mut self, stmts: &[Stmt]) -> Check {
        for stmt in stmts {
            let origin = self.kernel.origins.get(stmt.origin.0 as usize);
            let origin = origin.ok_or_else(|| broken(format!("the kernel has no origin {}", stmt.origin.0)))?;
            self.stmt(&stmt.op).map_err(|v| v.within(format_args!("{}: {}", origin.clause, origin.what)))?;
        }
        Ok(())
    }

    fn stmt(&mut self, op: &Op) -> Check {
        match op {
            Op::Param { dst, index } => {
                let param = self
                    .kernel
                    .params
                    .get(*index)
                    .ok_or_else(|| broken(format!("the kernel has no parameter {index}")))?;
                rule(param.field.is_none(), || format!("{} is a field of a record", param.name))?;
                self.define(*dst, param.ty)
            }
            Op::Field { dst, index, record } => {
                let param = self
                    .kernel
                    .params
                    .get(*index)
                    .ok_or_else(|| broken(format!("the kernel has no parameter {index}")))?;
                rule(param.field.is_some(), || format!("{} is not a field of a record", param.name))?;
                self.typed(*record, Type::U64)?;
                self.define(*dst, param.ty)
            }
            Op::Set { dst, value } => {
                let ty = self.expr(value)?;
                self.known(*dst)?;
                let own = self.kernel.ty(*dst);
                let constant = matches!(value, Expr::Const(_));
                let fits = ty == own || (constant && matches!(own, Type::U32 | Type::U64 | Type::Pred));
                rule(fits, || format!("{} cannot hold {ty:?}", name(self.kernel, *dst)))?;
                self.define(*dst, own)
            }
            Op::Load { memory, dst, address, guard, .. } => {
                self.access(memory, dst, address, guard)?;
                dst.iter().try_for_each(|reg| self.define(*reg, self.kernel.ty(*reg)))
            }
            Op::Store { memory, src, address, guard } => {
                src.iter().try_for_each(|reg| self.used(*reg).map(drop))?;
                self.access(memory, src, address, guard)
            }
            Op::CopyAsync { to, from, bytes, valid, guard, access } => {
                self.reach(access)?;
                valid.iter().try_for_each(|reg| self.typed(*reg, Type::U32))?;
                self.guard(guard)?;
                rule(matches!(bytes, 4 | 8 | 16), || {
                    format!("an asynchronous copy of {bytes} bytes instead of 4, 8 or 16")
                })?;
                self.typed(from.base, Type::U64)?;
                self.typed(to.base, Type::U32)
            }
            Op::CopyBox { to, map, at, barrier, blocks, guard } => {
                self.guard(guard)?;
                if let Some(blocks) = blocks {
                    self.in_cluster("a copy to several blocks")?;
                    self.typed(*blocks, Type::U32)?;
                }
                at.iter().try_for_each(|reg| self.typed(*reg, Type::U32))?;
                self.typed(*map, Type::U64)?;
                self.typed(to.base, Type::U32)?;
                self.typed(barrier.base, Type::U32)
            }
            Op::StoreBox { from, map, at, guard } => {
                self.guard(guard)?;
                at.iter().try_for_each(|reg| self.typed(*reg, Type::U32))?;
                self.typed(*map, Type::U64)?;
                self.typed(from.base, Type::U32)
            }
            Op::CommitBoxes | Op::SettleBoxes | Op::FenceCopies => Ok(()),
            Op::InitBarrier { address, .. } => self.typed(address.base, Type::U32),
            Op::ArriveAt { block, address, guard } => {
                self.in_cluster("an arrival in another block")?;
                self.guard(guard)?;
                self.typed(*block, Type::U32)?;
                self.typed(address.base, Type::U32)
            }
            Op::Arrive { address, when, guard } => {
                self.guard(guard)?;
                if let Arrival::ExpectingIn(bytes) = when {
                    self.typed(*bytes, Type::U32)?;
                }
                self.typed(address.base, Type::U32)
            }
            Op::TestBarrier { dst, address, parity } => {
                self.typed(*parity, Type::U32)?;
                self.typed(address.base, Type::U32)?;
                self.define(*dst, Type::Pred)
            }
            Op::CountUp { dst, address } | Op::ReadFlag { dst, address } => {
                self.typed(address.base, Type::U64)?;
                self.define(*dst, Type::U32)
            }
            Op::RaiseFlag { address, value } => {
                self.typed(address.base, Type::U64)?;
                self.typed(*value, Type::U32)
            }
            Op::SetRegisters { count, .. } => rule((24..=256).contains(count) && count.is_multiple_of(8), || {
                format!("{count} registers instead of a multiple of 8 from 24 to 256")
            }),
            Op::ClusterBarrier | Op::ClusterArrive | Op::ClusterWait => self.in_cluster("a barrier of the cluster"),
            Op::PublishBarriers | Op::CommitCopies | Op::WaitCopies(_) | Op::Barrier | Op::NamedBarrier { .. } => {
                Ok(())
            }
            Op::Clear { dst } => dst.iter().try_for_each(|reg| self.define_data(*reg).map(drop)),
            Op::Math { op, dst, args } => self.math(*op, *dst, args),
            Op::IsZero { dst, src } => {
                let ty = self.data(*src)?;
                rule(!ty.is_narrow(), || format!("a comparison of {ty:?}"))?;
                self.define(*dst, Type::Pred)
            }
            Op::Select { dst, pred, yes, no } => {
                self.typed(*pred, Type::Pred)?;
                self.known(*dst)?;
                let ty = self.kernel.ty(*dst);
                rule(!ty.is_narrow() || ty == Type::Word, || format!("a selection of {ty:?}"))?;
                [yes, no].into_iter().try_for_each(|value| self.value(value, ty))?;
                self.define_data(*dst).map(drop)
            }
            Op::Outer { acc, a, b, .. } => self.outer(acc, a, b),
            Op::LoadMatrices { dst, address, guard, .. } => {
                self.guard(guard)?;
                rule(matches!(dst.len(), 1 | 2 | 4), || format!("{} matrices at once", dst.len()))?;
                self.typed(address.base, Type::U32)?;
                dst.iter().try_for_each(|reg| self.define(*reg, Type::Word))
            }
            Op::StoreMatrices { src, address, .. } => {
                rule(matches!(src.len(), 1 | 2 | 4), || format!("{} matrices at once", src.len()))?;
                self.typed(address.base, Type::U32)?;
                src.iter().try_for_each(|reg| self.typed(*reg, Type::Word))
            }
            Op::TensorProduct { acc, a, b, add, shape } => self.product(acc, [a, b], *add, shape),
            Op::FenceProducts | Op::CommitProducts => Ok(()),
            // PTX ISA, "wgmma.wait_group".
            Op::WaitProducts(n) => rule(*n <= 7, || format!("a wait that leaves {n} groups of products in flight")),
            Op::If { cond, then, other } => {
                self.typed(cond.pred, Type::Pred)?;
                let before = self.defined.clone();
                self.block(then)?;
                let after = std::mem::replace(&mut self.defined, before);
                self.block(other)?;
                self.defined.iter_mut().zip(after).for_each(|(defined, then)| *defined &= then);
                Ok(())
            }
            Op::Loop { body, again } => {
                self.block(body)?;
                self.typed(*again, Type::Pred)
            }
        }
    }

    fn in_cluster(&self, what: &str) -> Check {
        rule(self.kernel.cluster > 1, || format!("{what}, and there are no clusters"))
    }

    fn math(&mut self, op: Math, dst: Reg, args: &[Value]) -> Check {
        let takes = match op {
            Math::Mov | Math::Neg | Math::Abs | Math::Convert | Math::First | Math::Second => 1,
            Math::Exp2 | Math::Exp2OrZero | Math::Reciprocal | Math::Byte(_) | Math::Tf32 => 1,
            Math::Add | Math::Sub | Math::Mul | Math::Div | Math::Min | Math::Max | Math::CopySign => 2,
            Math::Pair | Math::ConvertPair(_) => 2,
            Math::Fma | Math::Across => 3,
            Math::Four => 4,
        };
        rule(args.len() == takes, || format!("{op:?} with {} operands", args.len()))?;
        self.known(dst)?;
        let ty = self.kernel.ty(dst);
        let legal = match op {
            Math::Mov => true,
            Math::Convert => ty != Type::Word,
            Math::Pair | Math::Four | Math::Across | Math::Tf32 => ty == Type::Word,
            Math::Byte(index) => ty.is_byte() && index < 4,
            Math::ConvertPair(to) => ty == Type::Word && matches!(to, Type::F16 | Type::Bf16),
            Math::First | Math::Second => matches!(ty, Type::F16 | Type::Bf16),
            Math::Exp2 | Math::Exp2OrZero | Math::Reciprocal | Math::CopySign => ty == Type::F32,
            _ => !ty.is_narrow(),
        };
        rule(legal, || format!("{op:?} of {ty:?}"))?;
        for (index, arg) in args.iter().enumerate() {
            match (op, arg) {
                (
                    Math::Convert
                    | Math::ConvertPair(_)
                    | Math::Pair
                    | Math::First
                    | Math::Second
                    | Math::Four
                    | Math::Byte(_)
                    | Math::Across
                    | Math::Tf32,
                    Value::Const(_),
                ) => {
                    return Err(broken("a conversion of a constant".into()));
                }
                (Math::Convert, Value::Reg(reg)) => {
                    let from = self.data(*reg)?;
                    rule(from != Type::Word, || "a conversion of a word".into())?;
                    let scaled = (from, ty) == (Type::S32, Type::F32);
                    rule(scaled || from.is_integer() == ty.is_integer(), || {
                        format!("a conversion of {from:?} to {ty:?}")
                    })?;
                }
                (Math::Pair, Value::Reg(reg)) => {
                    let from = self.data(*reg)?;
                    rule(matches!(from, Type::F16 | Type::Bf16), || format!("a pair of {from:?}"))?;
                }
                (Math::ConvertPair(_), Value::Reg(reg)) => self.typed(*reg, Type::F32)?,
                (Math::Four, Value::Reg(reg)) => {
                    let from = self.data(*reg)?;
                    rule(from.is_byte(), || format!("four of {from:?}"))?;
                }
                (Math::Across, Value::Reg(reg)) => self.typed(*reg, if index == 2 { Type::U32 } else { Type::Word })?,
                (Math::First | Math::Second | Math::Byte(_) | Math::Tf32, Value::Reg(reg)) => {
                    self.typed(*reg, Type::Word)?
                }
                _ => self.value(arg, ty)?,
            }
        }
        self.define_data(dst).map(drop)
    }

    fn outer(&mut self, acc: &[Reg], a: &[Reg], b: &[Reg]) -> Check {
        let shape = !acc.is_empty() && acc.len() == a.len() * b.len();
        rule(shape, || "the accumulators of an outer product do not match its operands".into())?;
        let ty = self.data(acc[0])?;
        rule(!ty.is_narrow(), || format!("accumulators of {ty:?}"))?;
        a.iter().chain(b).chain(acc).try_for_each(|reg| self.typed(*reg, ty))?;
        let mut distinct = acc.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        rule(distinct.len() == acc.len(), || "an accumulator appears twice in one outer product".into())
    }

    fn access(&self, memory: &Memory, data: &[Reg], address: &Address, guard: &Option<Guard>) -> Check {
        data.iter().try_for_each(|reg| self.known(*reg))?;
        let ty = data.first().map(|reg| self.kernel.ty(*reg));
        rule(data.iter().all(|reg| Some(self.kernel.ty(*reg)) == ty), || {
            "an access with registers of different types".into()
        })?;
        let bytes = ty.map_or(0, Type::bytes) * data.len() as u32;
        let shape = data.len().is_power_of_two() && bytes > 0 && bytes <= 16;
        rule(shape, || format!("an access of {} elements and {bytes} bytes", data.len()))?;
        self.guard(guard)?;
        let base = match memory {
            Memory::Global(access) => {
                self.reach(access)?;
                Type::U64
            }
            Memory::Shared => Type::U32,
            Memory::Cluster(block) => {
                self.in_cluster("an access to shared memory of another block")?;
                self.typed(*block, Type::U32)?;
                Type::U32
            }
        };
        self.typed(address.base, base)
    }

    fn reach(&self, access: &Access) -> Check {
        access.reach.iter().flatten().try_for_each(|reach| self.typed(reach.left, Type::U32))
    }

    fn guard(&self, guard: &Option<Guard>) -> Check {
        guard.iter().try_for_each(|guard| self.typed(guard.pred, Type::Pred))
    }

    /// The type of an expression after checking its parts. A constant is as wide as the other operand.
    fn expr(&self, value: &Expr) -> Result<Type, Violation> {
        let both = |x: &Expr, y: &Expr| -> Result<Type, Violation> {
            match (self.expr(x)?, self.expr(y)?, x, y) {
                (Type::U32, ty @ (Type::U32 | Type::U64), Expr::Const(_), _)
                | (ty @ (Type::U32 | Type::U64), Type::U32, _, Expr::Const(_)) => Ok(ty),
                (x, y, ..) if x == y && matches!(x, Type::U32 | Type::U64) => Ok(x),
                (x, y, ..) => Err(broken(format!("an index expression that combines {x:?} and {y:?}"))),
            }
        };
        let truth = |x: &Expr| -> Check {
            let ty = self.expr(x)?;
            rule(ty == Type::Pred || matches!(x, Expr::Const(0 | 1)), || format!("{ty:?} instead of a truth value"))
        };
        match value {
            Expr::Reg(reg, _) => {
                let ty = self.used(*reg)?;
                rule(!ty.is_data(), || format!("data of type {ty:?} used as an index"))?;
                Ok(ty)
            }
            Expr::Const(_) | Expr::Tid(_) | Expr::Block | Expr::Blocks | Expr::SharedBase => Ok(Type::U32),
            Expr::Wide(x) => {
                let ty = self.expr(x)?;
                rule(ty == Type::U32, || format!("{ty:?} cannot be widened"))?;
                Ok(Type::U64)
            }
            Expr::Swizzle(x, _) => self.expr(x),
            Expr::Add(x, y)
            | Expr::Sub(x, y)
            | Expr::Mul(x, y)
            | Expr::Div(x, y)
            | Expr::Mod(x, y)
            | Expr::Min(x, y)
            | Expr::Max(x, y)
            | Expr::Xor(x, y) => both(x, y),
            Expr::Compare(_, x, y) => both(x, y).map(|_| Type::Pred),
            Expr::And(x, y) => truth(x).and_then(|()| truth(y)).map(|()| Type::Pred),
            Expr::Not(x) => truth(x).map(|()| Type::Pred),
            Expr::Select(c, x, y) => truth(c).and_then(|()| both(x, y)),
        }
    }

    fn value(&self, value: &Value, ty: Type) -> Check {
        match value {
            Value::Reg(reg) => self.typed(*reg, ty),
            Value::Const(value) => {
                rule(!ty.is_narrow() || *value == 0.0, || format!("{value} as a constant of {ty:?}, which only has 0"))
            }
        }
    }

    /// The type of a data register, after checking that it is defined.
    fn data(&self, reg: Reg) -> Result<Type, Violation> {
        let ty = self.used(reg)?;
        rule(ty.is_data(), || format!("{} is {ty:?}, not data", name(self.kernel, reg)))?;
        Ok(ty)
    }

    #[inline]
    fn typed(&self, reg: Reg, ty: Type) -> Check {
        // Nearly all registers are correct; the checks below diagnose the others.
        let family = self.kernel.families.get(reg.family.0 as usize);
        let right = family.is_some_and(|family| family.ty == ty && reg.index < family.count);
        if right && self.defined[self.numbering.of(reg)] { Ok(()) } else { self.not_as(reg, ty) }
    }

    /// Each of the threads holds its share of the sums, and of A and B in registers of 32 or 64 bits (PTX ISA, "Matrix
    /// multiply-accumulate operation using mma", "wgmma.mma_async").
    fn product(&mut self, acc: &[Reg], factors: [&Factor; 2], add: Option<Reg>, shape: &ProductShape) -> Check {
        let ProductShape { row, columns, factors: [of_a, of_b], transposed } = *shape;
        rule(row.takes(of_a, of_b), || format!("a product of {:?} over {} of k", shape.factors, row.depth))?;
        rule(!transposed.contains(&true) || row.reads_any_order(), || {
            format!("a product of {:?} reads tiles along k alone", shape.factors)
        })?;
        for (factor, (extent, dtype)) in factors.into_iter().zip([(row.rows, of_a), (columns, of_b)]) {
            match (factor, row.unit) {
                (Factor::Registers(regs), Unit::Warp) => {
                    let bits = dtype.element().bits;
                    let (held, ty) = match bits {
                        64 => (extent * row.depth / WARP, Type::F64),
                        _ => (extent * row.depth * bits / (32 * WARP), Type::Word),
                    };
                    rule(regs.len() as u32 == held, || {
                        format!("registers of another shape than {} x {columns} products have", row.rows)
                    })?;
                    regs.iter().try_for_each(|reg| self.typed(*reg, ty))?;
                }
                (Factor::Descriptor(reg), Unit::WarpGroup) => self.typed(*reg, Type::U64)?,
                _ => return rule(false, || format!("operands that {} does not read", row.unit.name())),
            }
        }
        rule(add.is_some() == (row.unit == Unit::WarpGroup), || {
            "only products of warp groups replace sums".to_string()
        })?;
        add.map_or(Ok(()), |add| self.typed(add, Type::Pred))?;
        let per_register = self.sums(acc, row)?;
        let held = row.rows * columns / row.unit.threads() / per_register;
        rule(acc.len() as u32 == held && row.columns.has(columns), || {
            format!("{} accumulators of a product with {columns} columns", acc.len())
        })?;
        acc.iter().try_for_each(|reg| self.define_data(*reg).map(drop))
    }

    /// The accumulators in each register of a product: one of 32 bits, or two of 16.
    fn sums(&self, acc: &[Reg], row: &Multiply) -> Result<u32, Violation> {
        let held = |sums: &DType| match sums.element() {
            narrow if narrow.bits < 32 => Type::Word,
            of if of.dtype.is_integer() => Type::S32,
            of if of.bits == 64 => Type::F64,
            _ => Type::F32,
        };
        let types: Vec<Type> = row.sums.iter().map(held).collect();
        let own = acc.first().map(|reg| self.kernel.ty(*reg)).filter(|own| types.contains(own));
        let ty = own.or(types.first().copied()).unwrap_or(Type::F32);
        acc.iter().try_for_each(|reg| self.typed(*reg, ty))?;
        Ok(if ty == Type::Word { 2 } else { 1 })
    }

    #[cold]
    fn not_as(&self, reg: Reg, ty: Type) -> Check {
        let own = self.used(reg)?;
        rule(own == ty, || format!("{} is {own:?}, not {ty:?}", name(self.kernel, reg)))
    }

    fn known(&self, reg: Reg) -> Check {
        let family = self.kernel.families.get(reg.family.0 as usize);
        rule(family.is_some_and(|family| reg.index < family.count), || format!("the kernel has no register {reg:?}"))
    }

    fn used(&self, reg: Reg) -> Result<Type, Violation> {
        self.known(reg)?;
        let defined = self.defined[self.numbering.of(reg)];
        rule(defined, || format!("{} is used before it is defined", name(self.kernel, reg)))?;
        Ok(self.kernel.ty(reg))
    }

    fn define(&mut self, reg: Reg, ty: Type) -> Check {
        self.known(reg)?;
        let own = self.kernel.ty(reg);
        rule(own == ty, || format!("{} is {own:?} and cannot hold {ty:?}", name(self.kernel, reg)))?;
        let number = self.numbering.of(reg);
        self.defined[number] = true;
        Ok(())
    }

    fn define_data(&mut self, reg: Reg) -> Result<Type, Violation> {
        self.known(reg)?;
        self.define(reg, self.kernel.ty(reg))?;
        self.data(reg)
    }
}

fn broken(message: String) -> Violation {
    Violation::new("kernel IR", message)
}
