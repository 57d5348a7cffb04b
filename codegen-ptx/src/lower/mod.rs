//! From tile IR to kernel IR: tiles become threads, registers and addresses.
//!
//! Requires a tile program with one role of `atom(fma)` and the plan it was built from. Ensures a kernel that the
//! verifier of kernel IR accepts.
//!
//! Edges. A copy has two paths, chosen by one predicate that is the same for the whole block: tiles that lie inside
//! the operand are copied with the widest accesses and no guards; others element by element, guarded, zeros outside.
//! Zeros beyond k add nothing; what lies beyond m and n is never stored. So the main loop pays one comparison per K-tile
//! for being right at every size.

mod copy;
mod direct;
mod epilogue;
mod expression;
mod fragment;
mod reduce;
mod ring;
mod shared;
mod staged;
mod walk;

use ptx_gemm_dsl::plan::{OperandPlan, Plan, Variant};
use ptx_gemm_dsl::terms::{Fast, Operand, Param as AbiParam, Side, Swizzle};
use ptx_gemm_dsl::types::DType;

use crate::kernel::build::Builder;
use crate::kernel::{self, Bounds, Expr, Family, Kernel, Locality, Origin, Reg, Type};
use crate::tile::{Count, Op, Program, Statement, Walk};
use fragment::FragmentBase;
use walk::Units;

/// Lowers one variant's program.
pub fn lower(program: &Program, plan: &Plan, variant: &Variant) -> Kernel {
    let swizzled = [&plan.a, &plan.b].iter().any(|o| o.placement.is_some_and(|p| p.swizzle != Swizzle::None));
    let shared_align = if swizzled { shared::PERIOD } else { 16 };
    let kernel = Kernel {
        name: variant.entry.clone(),
        params: plan.params.iter().map(|p| abi_param(plan, p)).collect(),
        threads: plan.geometry.threads,
        blocks_per_sm: plan.resident_blocks(variant),
        shared_bytes: plan.shared_bytes,
        shared_align,
        shared_origin: Origin::new(&plan.clauses.shared, "staged tiles of A and B"),
        families: Vec::new(),
        body: Vec::new(),
    };
    let mut builder = Builder::new(kernel);
    let families = Families::declare(&mut builder, plan);
    let acc_count = (plan.geometry.thread.m * plan.geometry.thread.n) as usize;
    let acc = builder.fresh_many(families.acc, acc_count);
    let args = Args::read(&mut builder, plan, &families);
    let mut lowering = Lowering {
        b: builder,
        program,
        plan,
        variant,
        families,
        acc,
        args,
        fragment_bases: [FragmentBase::nowhere(), FragmentBase::nowhere()],
        fragment_pool: Default::default(),
        value_pool: Vec::new(),
        values_used: 0,
        c_pool: Vec::new(),
    };
    lowering.init_ring();
    for role in &program.roles {
        for statement in &role.body {
            if let Op::Tiles(body) = &statement.op {
                lowering.tiles(body);
            }
        }
    }
    lowering.b.finish()
}

/// What lies behind the elements of a K-tile in memory: in an operand that is contiguous along k, the next K-tiles'.
fn locality(operand: &OperandPlan) -> Locality {
    if operand.global_fast == Fast::K { Locality::NextTiles } else { Locality::Unknown }
}

/// The register type that holds elements of a matrix type.
pub fn register_type(dtype: DType) -> Type {
    match dtype {
        DType::F64 => Type::F64,
        DType::I32 => Type::S32,
        _ => Type::F32,
    }
}

fn operand_name(operand: Operand) -> &'static str {
    match operand {
        Operand::A => "a",
        Operand::B => "b",
        Operand::C => "c",
        Operand::D => "d",
    }
}

fn abi_param(plan: &Plan, param: &AbiParam) -> kernel::Param {
    let types = plan.problem.types;
    let (name, ty, about) = match param {
        AbiParam::Matrix(op) => {
            let dtype = match op {
                Operand::A => types.a,
                Operand::B => types.b,
                Operand::C => types.c,
                Operand::D => types.d,
            };
            (operand_name(*op).to_string(), Type::U64, format!("{dtype} matrix {op:?}, global address"))
        }
        AbiParam::Vector(i) => {
            let vector = &plan.problem.epilogue.vectors[*i];
            (format!("v_{}", vector.name), Type::U64, format!("vector {}, global address", vector.name))
        }
        AbiParam::M => ("m".into(), Type::U32, "rows of D".into()),
        AbiParam::N => ("n".into(), Type::U32, "columns of D".into()),
        AbiParam::K => ("k".into(), Type::U32, "depth of the sum".into()),
        AbiParam::Ld(op) => {
            let name = operand_name(*op);
            (format!("ld{name}"), Type::U64, format!("leading dimension of {op:?}, elements"))
        }
        AbiParam::BatchStride(op) => {
            let name = operand_name(*op);
            (format!("stride_{name}"), Type::U64, format!("from one {op:?} of the batch to the next, elements"))
        }
        AbiParam::Batch => ("batch".into(), Type::U32, "products of the batch".into()),
        AbiParam::Scalar(i) => {
            let name = &plan.problem.epilogue.scalars[*i];
            (format!("s_{name}"), register_type(types.acc), format!("scalar {name}"))
        }
        AbiParam::Workspace => ("workspace".into(), Type::U64, "partial sums, global address".into()),
    };
    kernel::Param { name, ty, about }
}

/// The families of data registers.
struct Families {
    acc: Family,
    /// Operand fragments of A and B as read.
    fragment: [Family; 2],
    /// The same in the accumulator's type, where that differs.
    converted: [Family; 2],
    /// Elements on their way from global to shared memory.
    staging: [Family; 2],
    scalar: Family,
    vector: Family,
    c: Family,
    value: Family,
    out: Family,
}

impl Families {
    fn declare(b: &mut Builder, plan: &Plan) -> Families {
        let types = plan.problem.types;
        let acc = register_type(types.acc);
        Families {
            acc: b.family("acc", acc, "accumulators, row by row of the thread tile"),
            fragment: [
                b.family("a", register_type(types.a), "fragment of A"),
                b.family("b", register_type(types.b), "fragment of B"),
            ],
            converted: [
                b.family("wa", acc, "fragment of A in the accumulator's type"),
                b.family("wb", acc, "fragment of B in the accumulator's type"),
            ],
            staging: [
                b.family("ga", register_type(types.a), "A on its way to shared memory"),
                b.family("gb", register_type(types.b), "B on its way to shared memory"),
            ],
            scalar: b.family("s", acc, "run-time scalars"),
            vector: b.family("v", acc, "elements of the epilogue's vectors"),
            c: b.family("c", register_type(types.c), "elements of C"),
            value: b.family("e", acc, "values of the epilogue"),
            out: b.family("d", register_type(types.d), "elements of D"),
        }
    }
}

/// The kernel's arguments, read once.
struct Args {
    /// Index in the kernel's parameters, by ABI parameter.
    params: Vec<AbiParam>,
    m: Expr,
    n: Expr,
    k: Expr,
    /// Products of the batch.
    batch: Expr,
    scalars: Vec<Reg>,
}

impl Args {
    fn read(b: &mut Builder, plan: &Plan, families: &Families) -> Args {
        b.origin("kernel", "read the arguments");
        let none = || Expr::Const(0);
        let mut args = Args {
            params: plan.params.clone(),
            m: none(),
            n: none(),
            k: none(),
            batch: 1u32.into(),
            scalars: Vec::new(),
        };
        for (index, param) in plan.params.iter().enumerate() {
            let bound = u64::from(u32::MAX);
            match param {
                AbiParam::M => args.m = Expr::Reg(b.param(index, None), bound),
                AbiParam::N => args.n = Expr::Reg(b.param(index, None), bound),
                AbiParam::K => args.k = Expr::Reg(b.param(index, None), bound),
                AbiParam::Scalar(_) => args.scalars.push(b.param(index, Some(families.scalar))),
                AbiParam::Batch => args.batch = Expr::Reg(b.param(index, None), bound),
                // Addresses and leading dimensions are read where they are used.
                _ => {}
            }
        }
        args
    }
}

/// Everything that lowering one program needs.
struct Lowering<'a> {
    b: Builder,
    program: &'a Program,
    plan: &'a Plan,
    variant: &'a Variant,
    families: Families,
    /// Accumulators, row-major over the thread tile.
    acc: Vec<Reg>,
    args: Args,
    /// Where the thread's parts of A and B begin in slot 0.
    fragment_bases: [FragmentBase; 2],
    /// Registers of the fragments of A and B, as read and converted.
    fragment_pool: [[Vec<Reg>; 2]; 2],
    /// Registers of intermediate values, and how many are in use.
    value_pool: Vec<Reg>,
    values_used: usize,
    /// Registers of the elements of C.
    c_pool: Vec<Reg>,
}

/// Where the block and the thread stand, in elements.
struct Place {
    /// First row and column of the block's tile.
    m0: Expr,
    n0: Expr,
    /// Rows and columns of D from there on.
    rem_m: Expr,
    rem_n: Expr,
    /// Whether the tile lies inside D (a predicate; absent with `tail(none)`).
    interior: Option<Reg>,
    /// The thread's first row and column in the tile.
    row: Expr,
    col: Expr,
    /// K to sum over: 0 if the epilogue drops the product.
    k: Expr,
    /// First k to sum over, where k is split.
    k0: Expr,
    /// Number of the tile, counted over the products of a batch.
    tile: Expr,
    /// Which product of a batch, and which part of k.
    product: Expr,
    part: Expr,
}

impl Lowering<'_> {
    fn side(&self, side: Side) -> (usize, &ptx_gemm_dsl::plan::OperandPlan) {
        match side {
            Side::A => (0, &self.plan.a),
            Side::B => (1, &self.plan.b),
        }
    }

    /// Reads an argument that is an address or a leading dimension.
    fn wide_arg(&mut self, which: &AbiParam) -> Expr {
        match self.args.params.iter().position(|p| p == which) {
            Some(index) => Expr::Reg(self.b.param(index, None), kernel::expr::UNBOUNDED),
            None => Expr::Const(0),
        }
    }

    /// Why an access in the unguarded path is in bounds.
    fn inside(&self) -> Bounds {
        match self.plan.tail {
            ptx_gemm_dsl::terms::Tail::Predicate => Bounds::Interior,
            ptx_gemm_dsl::terms::Tail::None => Bounds::Exact,
        }
    }

    /// The address of a matrix, of the place's product where there are many.
    fn matrix(&mut self, place: &Place, which: Operand, bytes: u32) -> Expr {
        let base = self.wide_arg(&AbiParam::Matrix(which));
        if self.plan.problem.batch == ptx_gemm_dsl::types::Batch::One {
            return base;
        }
        let stride = self.wide_arg(&AbiParam::BatchStride(which));
        let distance = self.b.set(stride * bytes);
        self.b.set(base + place.product.clone().wide() * distance)
    }

    fn tiles(&mut self, body: &[Statement]) {
        let units = self.units();
        if let Walk::OneTile(_) = self.program.walk {
            let unit = self.b.set(Expr::Block);
            let place = self.enter_tile(&units, unit);
            return self.tile(&place, &units, body);
        }
        let clause = self.plan.clauses.persistent.clone();
        self.b.origin(&clause, "first tile of this block");
        let unit = self.b.variable(Expr::Block, u64::from(u32::MAX));
        self.b.open();
        let place = self.enter_tile(&units, unit.clone());
        self.tile(&place, &units, body);
        self.b.origin(&clause, "on to this block's next tile");
        self.b.assign(&unit, unit.clone() + Expr::Blocks);
        let again = self.b.set_reg(unit.lt(units.all));
        let body = self.b.close();
        self.b.push(kernel::Op::Loop { body, again, uniform: true });
    }

    fn tile(&mut self, place: &Place, units: &Units, body: &[Statement]) {
        for statement in body {
            match &statement.op {
                Op::Clear { .. } => {
                    self.b.origin(&statement.clause, "clear the accumulators");
                    let dst = self.acc.clone();
                    self.b.push(kernel::Op::Clear { dst });
                }
                Op::Steps { count: Count::KSteps, body, .. } => self.direct(place, body, &statement.clause),
                Op::Store { width, .. } => self.store(place, *width),
                Op::Reduce { body, .. } => self.reduce(place, units, body, &statement.clause),
                Op::Drain { .. } => {
                    self.b.origin(&statement.clause, "no copy is in flight");
                    self.b.push(kernel::Op::WaitCopies(0));
                }
                Op::Sync => {
                    self.b.origin(&statement.clause, "all threads are done with this tile");
                    self.b.push(kernel::Op::Barrier);
                }
                // Acquire, copy and commit before the loop, and the loop: one pipeline.
                Op::Loop { .. } => self.pipeline(place, body),
                _ => {}
            }
        }
    }
}
