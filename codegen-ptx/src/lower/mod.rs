//! From tile IR to kernel IR: tiles become threads, registers and addresses.
//!
//! Makes no assumption about the program: it rejects what the verifier of tile IR rejects. Ensures a kernel that the
//! verifier of kernel IR accepts.
//!
//! Every thread of the block prepares what all roles share; then the threads of each role run only its body. A role is
//! lowered statement by statement. [`pipeline`] holds its position within a tile of D; [`state`] holds what lasts from tile
//! to tile.
//!
//! Edges. A copy by threads has two paths, chosen by one predicate that is uniform in the role. Tiles inside the operand are
//! copied with the widest accesses and no guards. Other tiles are copied element by element, guarded, with zeros
//! outside. Zeros beyond k add nothing, and elements beyond m and n are never stored. So the mainloop needs one
//! comparison per K-tile to be correct at every size.

mod arguments;
mod arrival;
mod copy;
mod epilogue;
mod exchange;
mod expression;
mod extent;
mod functions;
mod global;
mod group;
mod grouped;
mod lent;
mod outer;
mod output;
pub(crate) mod pack;
mod pipeline;
mod planes;
mod reduce;
mod registers;
mod ring;
pub(crate) mod scale;
mod scheduler;
mod shared;
mod slot;
mod source;
mod stage;
mod state;
mod steps;
mod stream;
mod stream_k;
mod tma;
mod turns;
mod warp;

use ptx_gemm_dsl::atoms::{Multiply, Unit};
use ptx_gemm_dsl::target::{BOX_ALIGN, SWIZZLE_PERIOD, registers_per_thread};
use ptx_gemm_dsl::terms::{Fast, Operand, Param, Side, Swizzle, Tail};
use ptx_gemm_dsl::types::Batch;

use crate::Violation;
use crate::kernel::build::Builder;
use crate::kernel::{self, Expr, Kernel, Locality, Origin, Reg};
use crate::origin::Site;
use crate::tile::{Accumulator, Division, Note, Op, Program, ReadC, Role, Stager, Statement, verify};
use arguments::Args;
use expression::Dropping;
use registers::{Families, Types};
use scheduler::Units;
use state::{Position, Products, RoleState, Values};
use stream_k::Segment;

/// The result of a lowering step, or the statement that cannot be lowered.
type Lowered<T> = Result<T, Violation>;

/// Lowers a program.
///
/// # Errors
/// The rule that the program breaks, with the statement that breaks it.
pub fn lower(program: &Program) -> Lowered<Kernel> {
    verify::verify(program)?;
    let mut swizzles = program.buffers.iter().map(|buffer| buffer.swizzle);
    let swizzled = swizzles.any(|swizzle| swizzle != Swizzle::None)
        || program.stage.as_ref().is_some_and(|stage| stage.swizzle != Swizzle::None);
    let boxed = (0..program.rings.len()).any(|ring| program.by_tma(ring)) || program.writes_by_tma();
    let shared_bytes = u32::try_from(program.shared_bytes()).map_err(|_| broken("more than 4 GiB of shared memory"))?;
    let shared_note = program.buffers.first().map_or("", |buffer| &buffer.note);
    let kernel = Kernel {
        name: program.name.clone(),
        params: arguments::declarations(program)?,
        threads: program.threads(),
        divides: (program.tail == Tail::None).then_some([program.block.m, program.block.n, program.block.k]),
        blocks_per_sm: program.blocks_per_sm,
        cluster: program.scheduler.cluster_size(),
        shared_bytes,
        shared_align: if swizzled {
            SWIZZLE_PERIOD
        } else if boxed {
            BOX_ALIGN
        } else {
            16
        },
        shared_origin: Origin::new(shared_note, "staged tiles of A and B"),
        families: Vec::new(),
        origins: Vec::new(),
        body: Vec::new(),
    };
    let mut builder = Builder::new(kernel);
    let types = Types::of(program);
    let families = Families::declare(&mut builder, &types);
    let count = |set: &Accumulator| (set.map.elements() / types.per_register()) as usize;
    let acc = program.accumulators.iter().map(|set| builder.fresh_many(families.acc, count(set))).collect();
    let args = Args::read(&mut builder, program, families.scalar);
    let lowering = Lowering {
        b: builder,
        program,
        types,
        families,
        args,
        dropping: Dropping::of(&program.problem.epilogue),
        role: RoleState::of(program),
        position: Position::default(),
        products: Products::new(acc),
        values: Values::default(),
    };
    lowering.program()
}

fn broken(message: impl Into<String>) -> Violation {
    Violation::new("lowering", message.into())
}

/// The error for a statement that is not allowed in its position.
fn misplaced(statement: &Statement) -> Violation {
    broken("this statement is not allowed here").within(format_args!("{}", crate::tile::print::name(&statement.op)))
}

/// The state of lowering one program: what every statement may use, and what each part keeps from one to the next.
struct Lowering<'a> {
    b: Builder,
    program: &'a Program,
    types: Types,
    families: Families,
    args: Args,
    dropping: Dropping,
    role: RoleState<'a>,
    position: Position,
    products: Products,
    values: Values,
}

/// The work tile: its position in D, its range of k, and the thread's position in it, in elements.
struct WorkTile {
    /// Its rows and columns, including those beyond the edge of D.
    extents: (u32, u32),
    /// First row and column of the tile.
    m0: Expr,
    n0: Expr,
    /// Rows and columns of D left from the tile's first element on.
    rem_m: Expr,
    rem_n: Expr,
    /// Columns of the product's tiles, where tiles are only as wide as needed.
    width: Option<Expr>,
    /// Whether the tile is inside D (a predicate; absent with `tail none`).
    interior: Option<Reg>,
    /// The thread's first row and column in the tile, in a role with accumulators.
    thread: Option<(Expr, Expr)>,
    /// The k to sum over: 0 if the epilogue drops the product.
    k: Expr,
    /// First k to sum over, if k is split.
    k0: Expr,
    /// Index of the tile, counted over the products of a batch.
    tile: Expr,
    /// Index of the product in a batch, and of the part of k.
    product: Expr,
    part: Expr,
    /// With stream-K, the K-tiles that this block computes.
    segment: Option<Segment>,
}

impl WorkTile {
    /// The thread's first row and column in the tile.
    fn thread(&self) -> Lowered<(Expr, Expr)> {
        self.thread.clone().ok_or_else(|| broken("a role without accumulators has no part of the tile"))
    }

    /// First element of the tile along an operand's own dimension, and the elements left from there on.
    fn own(&self, side: Side) -> (&Expr, &Expr) {
        match side {
            Side::A => (&self.m0, &self.rem_m),
            Side::B => (&self.n0, &self.rem_n),
        }
    }
}

fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

fn letter(side: Side) -> &'static str {
    match side {
        Side::A => "A",
        Side::B => "B",
    }
}

impl<'a> Lowering<'a> {
    fn program(mut self) -> Lowered<Kernel> {
        let program = self.program;
        self.init_rings();
        match program.roles.as_slice() {
            [role] => self.role(role)?,
            roles => self.roles(roles)?,
        }
        if let Some(exchange) = &program.exchange {
            self.exchange(exchange)?;
        }
        self.leave_cluster();
        Ok(self.b.finish())
    }

    /// Runs each role's body in the role's threads: the first role, otherwise the second, and so on.
    fn roles(&mut self, roles: &'a [Role]) -> Lowered<()> {
        let Some((first, rest)) = roles.split_first() else { return Ok(()) };
        if rest.is_empty() {
            return self.role(first);
        }
        self.b.origin(&first.note, &format!("is this thread one of `{}`?", first.name));
        let own = self.b.set_reg(Expr::Tid(self.program.threads()).lt(first.threads.end));
        self.b.open();
        self.role(first)?;
        let then = self.b.close();
        self.b.open();
        self.roles(rest)?;
        let other = self.b.close();
        self.b.origin(&first.note, &format!("`{}` runs alone", first.name));
        self.b.branch(own, then, other);
        Ok(())
    }

    fn role(&mut self, role: &'a Role) -> Lowered<()> {
        self.role.threads = role.per_tile();
        self.role.tid = match role.threads.start {
            0 => Expr::Tid(role.threads.end),
            start => {
                self.b.origin_at(Site::ThreadOfRole, &role.note, "index of the thread in its role");
                self.b.variable(Expr::Tid(role.threads.end) - start, u64::from(role.len()) - 1)
            }
        };
        self.role.groups = (role.turns > 1).then(|| self.enter_groups(role));
        if let Some(count) = role.registers {
            self.b.origin(&role.registers_note, &format!("registers of a thread of `{}`", role.name));
            let launched = registers_per_thread(self.program.threads(), self.program.blocks_per_sm);
            self.b.push(kernel::Op::SetRegisters { count, more: count > launched });
        }
        self.role.map = verify::accumulators_of(role).first().map(|acc| &self.program.accumulators[*acc].map);
        self.role.notified = Vec::new();
        self.find_notified();
        for statement in &role.body {
            match &statement.op {
                Op::Tiles { body } => self.tiles(body)?,
                Op::Settle => self.settle(&statement.note),
                _ => return Err(misplaced(statement)),
            }
        }
        Ok(())
    }

    fn tiles(&mut self, body: &'a [Statement]) -> Lowered<()> {
        let scheduler = &self.program.scheduler;
        self.position.carried = (0..self.program.rings.len()).map(|ring| self.carry(ring, body)).collect();
        self.carry_c(body);
        self.start_after_first(body);
        if self.program.problem.batch == Batch::Grouped {
            return self.grouped_tiles(body);
        }
        if self.role.groups.is_some() {
            return self.tiles_in_turn(body);
        }
        let units = self.units();
        if scheduler.persistent.is_none() {
            let unit = self.b.set(Expr::Block);
            let work_tile = self.enter_tile(&units, unit, None)?;
            return self.tile(&work_tile, &units, body);
        }
        if scheduler.division == Division::Stream {
            return self.streamed_tiles(&units, body);
        }
        self.b.origin(&scheduler.persistent_note, "first tile of this block");
        let unit = self.b.variable(Expr::Block, u64::from(u32::MAX));
        self.b.open();
        let work_tile = self.enter_tile(&units, unit.clone(), None)?;
        self.tile(&work_tile, &units, body)?;
        self.b.origin(&scheduler.persistent_note, "advance to this block's next tile");
        self.b.assign(&unit, unit.clone() + Expr::Blocks);
        let again = self.b.set_reg(unit.lt(units.all));
        let body = self.b.close();
        self.b.push(kernel::Op::Loop { body, again });
        Ok(())
    }

    /// Lowers the statements of one tile of D.
    fn tile(&mut self, work_tile: &WorkTile, units: &Units, body: &'a [Statement]) -> Lowered<()> {
        self.statements(work_tile, units, body)?;
        self.end_of_tile(body);
        Ok(())
    }

    fn statements(&mut self, work_tile: &WorkTile, units: &Units, body: &'a [Statement]) -> Lowered<()> {
        for statement in body {
            let note = &statement.note;
            match &statement.op {
                Op::AfterFirst { body } => self.after_first(work_tile, units, body, note)?,
                Op::IfAnyK { body } => self.staged(work_tile, body, note)?,
                Op::Steps { .. } => self.direct(work_tile, statement)?,
                Op::Skip { ring } => self.skip(*ring, note)?,
                Op::Store { acc, width, c_width } => {
                    self.store(work_tile, (*acc, None), (*width, ReadC::Global { width: *c_width }), note)?;
                }
                Op::Read { acc, width } => self.read_sums(work_tile, *acc, *width, note)?,
                Op::Stage { acc, by, c } => {
                    // Matrices do not have a width of their own.
                    let width = if let Stager::Registers { width } = by { *width } else { 1 };
                    self.store(work_tile, (*acc, Some(*by)), (width, *c), note)?;
                    self.publish_stage(note);
                }
                Op::PrefetchC { rows } => self.prefetch_c(work_tile, *rows, note)?,
                Op::AwaitC => self.await_c(note)?,
                Op::Write { by } => self.write(work_tile, *by, note)?,
                Op::Lend { ring } => self.lend(*ring, note)?,
                Op::Borrow { ring } => self.borrow(*ring, note)?,
                Op::Return { ring } => self.give_back(*ring, note)?,
                Op::Share { acc, width } => self.write_partial_sums(work_tile, *acc, *width, note)?,
                Op::Reduce { acc, how, body } => self.reduce(work_tile, units, (*acc, *how), body, note)?,
                _ if self.unscoped(statement) => {}
                _ => return Err(misplaced(statement)),
            }
        }
        Ok(())
    }

    /// Lowers a statement with the same meaning everywhere in a tile; returns false for any other statement.
    fn unscoped(&mut self, statement: &Statement) -> bool {
        let note = &statement.note;
        match &statement.op {
            Op::Clear { acc } => {
                self.b.origin_at(Site::ClearAccumulators, note, "clear the accumulators");
                self.clear(*acc);
            }
            Op::Promote { from, into, rest } => self.promote(*from, *into, *rest, note),
            Op::AddRest { rest, into } => self.add_rest(*rest, *into, note),
            Op::Settle => self.settle(note),
            Op::Retire { steps } => {
                self.b.origin_at(Site::RetireProducts, note, "wait until the products are complete");
                self.b.push(kernel::Op::WaitProducts(*steps));
            }
            Op::Drain => {
                self.b.origin(note, "wait until no copy is in flight");
                let groups = |ring: &crate::tile::Ring| matches!(ring.full, crate::tile::Full::CopyGroups { .. });
                if !self.program.rings.iter().all(groups) {
                    // Copies that signal an mbarrier belong to no group yet.
                    self.b.push(kernel::Op::CommitCopies);
                }
                self.b.push(kernel::Op::WaitCopies(0));
            }
            Op::Sync => {
                self.b.origin(note, "synchronise all threads of the block");
                self.b.push(kernel::Op::Barrier);
            }
            Op::Meet { barrier } => self.meet(*barrier, note),
            Op::Take { turn } => self.take(*turn, note),
            Op::Pass { turn } => self.pass(*turn, note),
            _ => return false,
        }
        true
    }

    fn promote(&mut self, from: usize, into: usize, rest: Option<usize>, note: &Note) {
        self.b.origin(note, "add one set of accumulators to the other");
        let index = from;
        let started = self.products.started[index].clone();
        // Without products since the last promotion, sets that the next ones overwrite hold those of before.
        let unsure = started.clone().filter(|_| !self.products.has_products[index]);
        let some = unsure.map(|started| self.b.set_reg(started.ge(1u32)));
        if some.is_some() {
            self.b.open();
        }
        let rest = rest.map(|rest| self.products.acc[rest].clone());
        let (from, into) = (self.products.acc[from].clone(), self.products.acc[into].clone());
        match rest {
            None => {
                for (from, into) in from.iter().zip(&into) {
                    let args = vec![kernel::Value::Reg(*into), kernel::Value::Reg(*from)];
                    self.b.math(kernel::Math::Add, *into, args);
                }
            }
            Some(rest) => {
                for ((from, into), rest) in from.iter().zip(&into).zip(&rest) {
                    self.two_sum(*from, *into, *rest);
                }
            }
        }
        match started {
            // The next products overwrite them.
            Some(started) => self.b.assign(&started, Expr::Const(0)),
            None => self.b.push(kernel::Op::Clear { dst: from }),
        }
        self.products.has_products[index] = false;
        if let Some(some) = some {
            let then = self.b.close();
            self.b.branch(some, then, Vec::new());
        }
    }

    /// Adds `from` to `into`, and the rounding error to `rest` (D. E. Knuth, The Art of Computer Programming, volume 2,
    /// 4.2.2, theorem B).
    fn two_sum(&mut self, from: Reg, into: Reg, rest: Reg) {
        let [sum, virtual_from, virtual_into, error] = [(); 4].map(|()| self.b.fresh(self.families.acc));
        let mut op =
            |math, dst, a: Reg, b: Reg| self.b.math(math, dst, vec![kernel::Value::Reg(a), kernel::Value::Reg(b)]);
        op(kernel::Math::Add, sum, into, from);
        op(kernel::Math::Sub, virtual_from, sum, into);
        op(kernel::Math::Sub, virtual_into, sum, virtual_from);
        op(kernel::Math::Sub, virtual_into, into, virtual_into);
        op(kernel::Math::Sub, error, from, virtual_from);
        op(kernel::Math::Add, error, error, virtual_into);
        op(kernel::Math::Add, rest, rest, error);
        self.b.math(kernel::Math::Mov, into, vec![kernel::Value::Reg(sum)]);
    }

    /// Adds the rounding errors of finite sums. The rounding error of an infinite sum, or of NaN, is NaN.
    fn add_rest(&mut self, rest: usize, into: usize, note: &Note) {
        let (rest, into) = (self.products.acc[rest].clone(), self.products.acc[into].clone());
        self.b.origin(note, "add the rounding errors of finite sums");
        for (rest, into) in rest.iter().zip(&into) {
            let [difference, error] = [(); 2].map(|()| self.b.fresh(self.families.acc));
            self.b.math(kernel::Math::Sub, difference, vec![kernel::Value::Reg(*rest), kernel::Value::Reg(*rest)]);
            let finite = self.b.fresh_pred();
            self.b.push(kernel::Op::IsZero { dst: finite, src: difference });
            let (yes, no) = (kernel::Value::Reg(*rest), kernel::Value::Const(0.0));
            self.b.push(kernel::Op::Select { dst: error, pred: finite, yes, no });
            self.b.math(kernel::Math::Add, *into, vec![kernel::Value::Reg(*into), kernel::Value::Reg(error)]);
        }
    }

    /// Sets accumulators to zero. If warp groups multiply into them chunk by chunk, it resets `scale-d` instead, so
    /// that the accumulators need not be set to zero after each chunk.
    fn clear(&mut self, acc: usize) {
        let dst = self.products.acc[acc].clone();
        self.b.push(kernel::Op::Clear { dst });
        self.products.has_products[acc] = false;
        match self.products.started[acc].clone() {
            Some(started) => self.b.assign(&started, Expr::Const(0)),
            None if self.program.overwrites(acc) => {
                self.products.started[acc] = Some(self.b.variable(Expr::Const(0), 1))
            }
            None => {}
        }
    }

    fn meet(&mut self, barrier: usize, note: &Note) {
        let barrier = &self.program.barriers[barrier];
        self.b.origin_at(Site::Meet, note, &format!("synchronise the threads of `{}`", barrier.name));
        self.meet_in_group(barrier.number, barrier.threads, 0);
    }

    /// What follows the elements of a K-tile in memory: the next K-tiles, if the operand is contiguous along k.
    fn locality(&self, side: Side) -> Locality {
        match self.program.copied_fast(side) {
            Fast::K => Locality::NextTiles,
            Fast::Mn => Locality::Unknown,
        }
    }

    /// The instruction of a unit for the program's operands.
    fn product_shape(
        &self,
        unit: Unit,
        (rows, depth): (u32, u32),
        columns: u32,
        transposed: [bool; 2],
    ) -> Lowered<kernel::ProductShape> {
        let factors = [Side::A, Side::B].map(|side| self.program.element(side));
        let row = Multiply::find(unit, factors, (rows, depth));
        let row = row.ok_or_else(|| broken(format!("{} multiplies no {factors:?} over {depth} of k", unit.name())))?;
        Ok(kernel::ProductShape { row, columns, factors, transposed })
    }

    /// Bytes of an element of a matrix.
    fn bytes(&self, which: Operand) -> u32 {
        self.program.problem.types.of(which).bytes()
    }

    /// The address of a matrix, for the current product of a batch.
    fn matrix(&mut self, work_tile: &WorkTile, which: Operand) -> Lowered<Expr> {
        let base = self.wide_arg(&Param::Matrix(which))?;
        if self.program.problem.batch != Batch::Strided {
            return Ok(base);
        }
        let stride = self.wide_arg(&Param::BatchStride(which))?;
        let distance = self.b.set(stride * self.bytes(which));
        Ok(self.b.set(base + work_tile.product.clone().wide() * distance))
    }
}
