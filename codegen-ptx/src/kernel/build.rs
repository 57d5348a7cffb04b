//! The builder with which passes write kernels: fresh registers by family, nested blocks, a current origin.

use super::{
    Access, Address, Expr, Family, FamilyInfo, Guard, Kernel, Locality, Math, Memory, Op, Origin, OriginId, Reg, Stmt,
    Type, Value,
};
use crate::origin::Site;
use ptx_gemm_dsl::terms::Reads;

/// Builds one [`Kernel`].
pub struct Builder {
    /// The kernel so far; its body is filled by [`Builder::finish`].
    kernel: Kernel,
    /// Open blocks, innermost last.
    blocks: Vec<Vec<Stmt>>,
    origin: OriginId,
    /// Families for index arithmetic.
    index: Family,
    wide: Family,
    pred: Family,
}

impl Builder {
    /// A builder for a kernel with an empty body.
    pub fn new(mut kernel: Kernel) -> Builder {
        let mut family = |name, ty, about| {
            kernel.families.push(FamilyInfo { name, ty, about, count: 0, bounds: Vec::new() });
            Family(kernel.families.len() as u16 - 1)
        };
        let pred = family("p", Type::Pred, "truth values");
        let index = family("r", Type::U32, "indices and shared addresses");
        let wide = family("rd", Type::U64, "global addresses and leading dimensions");
        let origin = OriginId(kernel.origins.len() as u32);
        kernel.origins.push(Origin::new("", ""));
        Builder { kernel, blocks: vec![Vec::new()], origin, index, wide, pred }
    }

    /// Declares a family of data registers.
    pub fn family(&mut self, name: &'static str, ty: Type, about: &'static str) -> Family {
        self.kernel.families.push(FamilyInfo { name, ty, about, count: 0, bounds: Vec::new() });
        Family(self.kernel.families.len() as u16 - 1)
    }

    /// A fresh register.
    pub fn fresh(&mut self, family: Family) -> Reg {
        self.bounded(family, super::expr::UNBOUNDED)
    }

    /// A fresh register that never holds more than `bound`.
    fn bounded(&mut self, family: Family, bound: u64) -> Reg {
        let info = &mut self.kernel.families[family.0 as usize];
        info.count += 1;
        if !info.ty.is_data() {
            info.bounds.push(bound);
        }
        Reg { family, index: info.count - 1 }
    }

    /// A fresh predicate.
    pub fn fresh_pred(&mut self) -> Reg {
        self.fresh(self.pred)
    }

    /// `n` fresh registers with consecutive numbers.
    pub fn fresh_many(&mut self, family: Family, n: usize) -> Vec<Reg> {
        (0..n).map(|_| self.fresh(family)).collect()
    }

    /// Sets the clause and purpose of the statements that follow.
    pub fn origin(&mut self, clause: &str, what: &str) {
        self.set_origin(None, clause, what);
    }

    /// The same for statements that tools recognise by the place that wrote them.
    pub fn origin_at(&mut self, site: Site, clause: &str, what: &str) {
        self.set_origin(Some(site as u16), clause, what);
    }

    fn set_origin(&mut self, site: Option<u16>, clause: &str, what: &str) {
        let origins = &mut self.kernel.origins;
        // Passes alternate between a few origins, mostly recent ones.
        let same = |origin: &Origin| &*origin.what == what && &*origin.clause == clause && origin.site == site;
        let known = origins.iter().rposition(same);
        let index = known.unwrap_or(origins.len());
        if known.is_none() {
            origins.push(match site {
                Some(site) => Origin::at(clause, what, site),
                None => Origin::new(clause, what),
            });
        }
        self.origin = OriginId(index as u32);
    }

    /// Appends a statement.
    pub fn push(&mut self, op: Op) {
        let origin = self.origin;
        if let Some(block) = self.blocks.last_mut() {
            block.push(Stmt { op, origin });
        }
    }

    fn family_of(&self, value: &Expr) -> Family {
        match self.type_of(value) {
            Type::Pred => self.pred,
            Type::U64 => self.wide,
            _ => self.index,
        }
    }

    /// Type of an index expression: u32 unless an operand is wider.
    pub fn type_of(&self, value: &Expr) -> Type {
        expr_type(value, &self.kernel)
    }

    /// Evaluates an expression into a fresh register (unless it is one already) and returns it with its bound.
    pub fn set(&mut self, value: Expr) -> Expr {
        if matches!(value, Expr::Reg(..)) {
            return value;
        }
        let (bound, family) = (value.bound(), self.family_of(&value));
        let dst = self.bounded(family, bound);
        self.push(Op::Set { dst, value });
        Expr::Reg(dst, bound)
    }

    /// The same, as a register.
    pub fn set_reg(&mut self, value: Expr) -> Reg {
        match self.set(value) {
            Expr::Reg(reg, _) => reg,
            other => {
                // `set` returns a constant unchanged; here the constant gets a register.
                let family = self.family_of(&other);
                let dst = self.fresh(family);
                self.push(Op::Set { dst, value: other });
                dst
            }
        }
    }

    /// A register that will be reassigned, declared with the bound of all values it will hold.
    pub fn variable(&mut self, value: Expr, bound: u64) -> Expr {
        let family = self.family_of(&value);
        let dst = self.bounded(family, bound);
        self.push(Op::Set { dst, value });
        Expr::Reg(dst, bound)
    }

    /// The same for a 64-bit value with a constant initial value.
    pub fn variable_wide(&mut self, value: Expr) -> Expr {
        let dst = self.fresh(self.wide);
        self.push(Op::Set { dst, value });
        Expr::Reg(dst, super::expr::UNBOUNDED)
    }

    /// Assigns a new value to a variable.
    pub fn assign(&mut self, variable: &Expr, value: Expr) {
        if let Expr::Reg(dst, _) = variable {
            self.push(Op::Set { dst: *dst, value });
        }
    }

    /// Reads a parameter.
    pub fn param(&mut self, index: usize, family: Option<Family>) -> Reg {
        let family = family.unwrap_or(match self.kernel.params[index].ty {
            Type::U32 => self.index,
            _ => self.wide,
        });
        let dst = self.fresh(family);
        self.push(Op::Param { dst, index });
        dst
    }

    /// Reads a field of the record at an address.
    pub fn field(&mut self, index: usize, record: &Expr) -> Reg {
        let family = match self.kernel.params[index].ty {
            Type::U32 => self.index,
            _ => self.wide,
        };
        let (record, dst) = (self.set_reg(record.clone()), self.fresh(family));
        self.push(Op::Field { dst, index, record });
        dst
    }

    /// An address in shared or global memory; the type of the expression says which.
    pub fn address(&mut self, base: &Expr, offset: i64) -> Address {
        Address { base: self.set_reg(base.clone()), offset }
    }

    /// Global load.
    pub fn load_global(
        &mut self,
        dst: Vec<Reg>,
        base: &Expr,
        offset: i64,
        guard: Option<Guard>,
        (access, locality): (Access, Locality),
    ) {
        let address = self.address(base, offset);
        self.push(Op::Load { memory: Memory::Global(access), dst, address, guard, locality, reads: Reads::Movable });
    }

    /// Shared load.
    pub fn load_shared(&mut self, dst: Vec<Reg>, base: &Expr, offset: i64, reads: Reads) {
        let address = self.address(base, offset);
        self.push(Op::Load { memory: Memory::Shared, dst, address, guard: None, locality: Locality::Unknown, reads });
    }

    /// Arithmetic on data.
    pub fn math(&mut self, op: Math, dst: Reg, args: Vec<Value>) {
        self.push(Op::Math { op, dst, args });
    }

    /// Sets a data register to a literal.
    pub fn constant(&mut self, dst: Reg, value: f64) {
        self.push(Op::Math { op: Math::Mov, dst, args: vec![Value::Const(value)] });
    }

    /// Appends statements built elsewhere.
    pub fn extend(&mut self, stmts: Vec<Stmt>) {
        if let Some(block) = self.blocks.last_mut() {
            block.extend(stmts);
        }
    }

    /// Opens a nested block: statements go there until [`Builder::close`].
    pub fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Closes the innermost nested block and returns it.
    pub fn close(&mut self) -> Vec<Stmt> {
        self.blocks.pop().unwrap_or_default()
    }

    /// Appends a branch.
    pub fn branch(&mut self, pred: Reg, then: Vec<Stmt>, other: Vec<Stmt>) {
        self.push(Op::If { cond: Guard { pred, expect: true }, then, other });
    }

    /// The finished kernel.
    pub fn finish(mut self) -> Kernel {
        self.kernel.body = self.blocks.pop().unwrap_or_default();
        self.kernel
    }
}

/// Type of an index expression over the registers of `kernel`.
pub fn expr_type(value: &Expr, kernel: &Kernel) -> Type {
    match value {
        Expr::Reg(reg, _) => kernel.ty(*reg),
        Expr::Wide(_) => Type::U64,
        Expr::Compare(..) | Expr::And(..) | Expr::Not(_) => Type::Pred,
        Expr::Add(x, y)
        | Expr::Sub(x, y)
        | Expr::Mul(x, y)
        | Expr::Div(x, y)
        | Expr::Mod(x, y)
        | Expr::Min(x, y)
        | Expr::Max(x, y)
        | Expr::Xor(x, y)
        | Expr::Select(_, x, y) => match (expr_type(x, kernel), expr_type(y, kernel)) {
            (Type::U64, _) | (_, Type::U64) => Type::U64,
            (Type::Pred, _) => Type::Pred,
            _ => Type::U32,
        },
        Expr::Swizzle(x, _) => expr_type(x, kernel),
        Expr::Const(_) | Expr::Tid(_) | Expr::Block | Expr::Blocks | Expr::SharedBase => Type::U32,
    }
}
