//! Kernel IR: what one thread does.
//!
//! Typed virtual registers in named families, quasi-affine index expressions with known bounds, structured loops and
//! branches, guarded memory accesses, and operations of the whole block. It knows no PTX spelling and no labels; an
//! outer product is one statement here and a block of multiply-adds only in PTX.
//!
//! ```text
//! r0 = tid / 16                            ; thread(8, 8): row of the thread
//! loop {                                   ; tile(128, 128, 8): over the K-tiles
//!   if p1 uniform {                        ; tail(predicate): the tile lies inside
//!     la0..la3 = load global [rd4 + 0] interior
//!   } else { … }
//!   acc[8 x 8] += a[0..8] * b[0..8] row    ; thread(8, 8): step 0
//!   barrier
//! } while p2
//! ```

pub mod build;
pub mod expr;
pub mod print;
pub mod verify;

use std::fmt;

use ptx_gemm_dsl::terms::FmaOrder;

pub use crate::origin::Origin;
pub use expr::{Compare, Expr};

/// The type of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A truth value.
    Pred,
    /// 32-bit index arithmetic, unsigned.
    U32,
    /// 64-bit addresses and leading dimensions.
    U64,
    /// 32-bit integer data.
    S32,
    /// binary32.
    F32,
    /// binary64.
    F64,
}

impl Type {
    /// Bytes in memory; a predicate has none.
    pub fn bytes(self) -> u32 {
        match self {
            Type::Pred => 0,
            Type::U32 | Type::S32 | Type::F32 => 4,
            Type::U64 | Type::F64 => 8,
        }
    }
}

/// Index of a register family in [`Kernel::families`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family(pub u16);

/// A virtual register: a family and a number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg {
    /// Its family.
    pub family: Family,
    /// Its number.
    pub index: u32,
}

/// Registers of one type and purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyInfo {
    /// Prefix: `acc`, `rd`.
    pub name: &'static str,
    /// Type of each register.
    pub ty: Type,
    /// What they hold.
    pub about: &'static str,
    /// Registers in use.
    pub count: u32,
}

/// A memory space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory.
    Global,
    /// The block's shared memory.
    Shared,
}

/// A base register and a byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// u64 for global, u32 for shared memory.
    pub base: Reg,
    /// Bytes.
    pub offset: i64,
    /// Largest byte offset from the start of shared memory that `base` can hold; unused for global memory.
    pub bound: u64,
}

/// What lies behind a global access in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// Nothing that is known to be needed.
    Unknown,
    /// What the next K-tiles read: it may come closer already.
    NextTiles,
}

/// Why a global access stays inside its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// The statement's guard is false outside.
    Guarded,
    /// It stands in the branch taken only by tiles that lie inside.
    Interior,
    /// Its coordinates were clamped to the matrix.
    Clamped,
    /// Sizes are multiples of the tile (`tail(none)`), or the plan has sized the buffer (a workspace).
    Exact,
    /// Shared memory: the verifier computes it.
    Shared,
}

/// When an arrival at an mbarrier takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Now.
    Now,
    /// When every asynchronous copy that this thread has begun has landed.
    WhenCopied,
}

/// A predicate that a statement is subject to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register.
    pub pred: Reg,
    /// The value it must have.
    pub expect: bool,
}

/// A data operand of [`Op::Math`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A register.
    Reg(Reg),
    /// A literal, converted to the operation's type.
    Const(f64),
}

/// Arithmetic on data (accumulators, epilogue values).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Math {
    /// Copy.
    Mov,
    /// x + y
    Add,
    /// x - y
    Sub,
    /// x * y
    Mul,
    /// x / y, correctly rounded
    Div,
    /// x * y + z, one rounding
    Fma,
    /// -x
    Neg,
    /// |x|
    Abs,
    /// smaller, NaN if either is
    Min,
    /// larger, NaN if either is
    Max,
    /// conversion to the destination's type
    Convert,
}

/// A statement with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub op: Op,
    /// Why.
    pub origin: Origin,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum Op {
    /// Reads kernel parameter number `index`.
    Param { dst: Reg, index: usize },
    /// Evaluates an index expression.
    Set { dst: Reg, value: Expr },
    /// Loads consecutive elements of the destinations' type.
    Load { space: Space, dst: Vec<Reg>, address: Address, guard: Option<Guard>, bounds: Bounds, locality: Locality },
    /// Stores consecutive elements.
    Store { space: Space, src: Vec<Reg>, address: Address, guard: Option<Guard>, bounds: Bounds },
    /// Copies `bytes` from global to shared memory asynchronously; only the first `valid` are read, the rest are zero.
    CopyAsync { to: Address, from: Address, bytes: u32, valid: Option<Reg>, guard: Option<Guard>, bounds: Bounds },
    /// Ends a group of asynchronous copies.
    CommitCopies,
    /// Waits until at most this many groups are in flight.
    WaitCopies(u32),
    /// Sets data registers to zero.
    Clear { dst: Vec<Reg> },
    /// Arithmetic on data.
    Math { op: Math, dst: Reg, args: Vec<Value> },
    /// Compares data with zero.
    IsZero { dst: Reg, src: Reg },
    /// `dst = if pred { yes } else { no }`, on data.
    Select { dst: Reg, pred: Reg, yes: Value, no: Value },
    /// acc[i][j] += a[i] * b[j] for all i and j, in the given order; `acc` has `a.len()` rows of `b.len()`.
    Outer { acc: Vec<Reg>, a: Vec<Reg>, b: Vec<Reg>, order: FmaOrder },
    /// All threads of the block meet.
    Barrier,
    /// The threads that take part in a named barrier meet.
    NamedBarrier { number: u32, threads: u32 },
    /// Makes 8 bytes of shared memory an mbarrier whose phases so many arrivals complete.
    InitBarrier { address: Address, arrivals: u32 },
    /// Arrives at an mbarrier, at once or when this thread's asynchronous copies have landed.
    Arrive { address: Address, when: Arrival },
    /// Whether the mbarrier's phase of the given parity is complete; what was written before its arrivals is then seen.
    TestBarrier { dst: Reg, address: Address, parity: Reg },
    /// Adds 1 to a flag in global memory and returns what it held; orders this thread's accesses before and after it with
    /// those of other threads that do the same.
    CountUp { dst: Reg, address: Address },
    /// Reads a flag; what was written before it was raised is seen after.
    ReadFlag { dst: Reg, address: Address },
    /// Raises a flag: what this thread wrote before is seen by who reads it.
    RaiseFlag { address: Address, value: Reg },
    /// A branch; `uniform` if all threads of the block agree.
    If { cond: Guard, uniform: bool, then: Vec<Stmt>, other: Vec<Stmt> },
    /// Runs the body, and again while `again` holds; `uniform` if all threads of the block agree.
    Loop { body: Vec<Stmt>, again: Reg, uniform: bool },
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name in the ABI.
    pub name: String,
    /// Type.
    pub ty: Type,
    /// What it is, with its unit.
    pub about: String,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Entry name.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Threads per block.
    pub threads: u32,
    /// Blocks per multiprocessor to compile for.
    pub blocks_per_sm: u32,
    /// Shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Its alignment: 16, or the period of a swizzle.
    pub shared_align: u32,
    /// The clause that asked for the shared memory.
    pub shared_origin: Origin,
    /// Register families.
    pub families: Vec<FamilyInfo>,
    /// The body.
    pub body: Vec<Stmt>,
}

impl Kernel {
    /// Type of a register.
    pub fn ty(&self, reg: Reg) -> Type {
        self.families[reg.family.0 as usize].ty
    }

    /// A register's name in the text form.
    pub fn display(&self, reg: Reg) -> impl fmt::Display + '_ {
        struct Named<'a>(&'a str, u32);
        impl fmt::Display for Named<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", self.0, self.1)
            }
        }
        Named(self.families[reg.family.0 as usize].name, reg.index)
    }
}

/// The order in which an outer product of `m` x `n` is written: pairs (row, column).
///
/// ptxas keeps the order of independent multiply-adds, and with it decides register reuse: a snake keeps one operand at
/// each turn.
pub fn outer_order(m: usize, n: usize, order: FmaOrder) -> impl Iterator<Item = (usize, usize)> {
    (0..m * n).map(move |x| match order {
        FmaOrder::Row => (x / n, x % n),
        FmaOrder::Snake => {
            let (i, j) = (x / n, x % n);
            (i, if i % 2 == 0 { j } else { n - 1 - j })
        }
        FmaOrder::ColumnSnake => {
            let (j, i) = (x / m, x % m);
            (if j % 2 == 0 { i } else { m - 1 - i }, j)
        }
    })
}
