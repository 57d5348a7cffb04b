//! Kernel IR: the program of one thread.
//!
//! Typed virtual registers in named families, quasi-affine index expressions with known bounds, structured loops and
//! branches, guarded memory accesses, and operations of the whole block. It knows neither PTX spelling nor labels. An
//! outer product is one statement here and becomes a block of multiply-adds only in PTX.
//!
//! ```text
//! r0 = tid / 16                            ; thread(8, 8): row of the thread
//! loop {                                   ; tile(128, 128, 8): over the K-tiles
//!   if p1 {                                ; tail(predicate): the tile lies inside
//!     ga0..3 = load global [rd4 + 0] in a within m 128 of r20, k 8 of r32
//!   } else { … }
//!   acc[8 x 8] += a[0..8] * b[0..8] row    ; thread(8, 8): step 0
//!   barrier
//! } while p2
//! ```

pub mod build;
pub mod dead;
pub mod expr;
pub mod extent;
pub mod print;
mod product;
pub mod uniform;
pub mod verify;

use std::fmt;

use ptx_gemm_dsl::terms::{FmaOrder, Reads};

pub use crate::origin::Origin;
pub use expr::{Compare, Expr};
pub use extent::{Access, Dim, Holds, MAX_EXTENT, Reach};
pub use product::{Factor, ProductShape};

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
    /// binary16: loaded, stored and converted. Arithmetic is in wider types.
    F16,
    /// bfloat16, likewise.
    Bf16,
    /// 8-bit integers: loaded, stored and converted. A register has zeros above the byte.
    S8,
    /// Unsigned ones, likewise.
    U8,
    /// 8-bit floats with 4 bits of exponent, likewise.
    E4m3,
    /// 8-bit floats with 5 bits of exponent, likewise.
    E5m2,
    /// 32 bits: two elements of 16 bits or four of 8, the first in the lowest bits, or one that tensor cores multiply. They
    /// are copied, or read as a part of a matrix.
    Word,
}

impl Type {
    /// True for the types of matrix elements. The other types are for indices and truth values.
    pub fn is_data(self) -> bool {
        matches!(self, Type::F32 | Type::F64 | Type::S32) || self.is_narrow()
    }

    /// True for the 8-bit and 16-bit types and words of them. They are loaded, stored and converted, but have no arithmetic.
    pub fn is_narrow(self) -> bool {
        self.is_byte() || matches!(self, Type::F16 | Type::Bf16 | Type::Word)
    }

    /// True for the 8-bit types.
    pub fn is_byte(self) -> bool {
        matches!(self, Type::S8 | Type::U8 | Type::E4m3 | Type::E5m2)
    }

    /// True for the integers of matrices.
    pub fn is_integer(self) -> bool {
        matches!(self, Type::S8 | Type::U8 | Type::S32)
    }

    /// Bytes in memory; 0 for a predicate.
    pub fn bytes(self) -> u32 {
        match self {
            Type::Pred => 0,
            Type::S8 | Type::U8 | Type::E4m3 | Type::E5m2 => 1,
            Type::F16 | Type::Bf16 => 2,
            Type::U32 | Type::S32 | Type::F32 | Type::Word => 4,
            Type::U64 | Type::F64 => 8,
        }
    }
}

/// Index of a register family in [`Kernel::families`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family(pub u16);

/// A virtual register: a family and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg {
    /// Its family.
    pub family: Family,
    /// Its index.
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
    /// The largest value that each register ever holds; empty for registers of data.
    pub bounds: Vec<u64>,
}

/// The memory that a load or store accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Device memory, with the extent of the access.
    Global(Access),
    /// The block's shared memory.
    Shared,
    /// The shared memory of the cluster's block with this rank, at the address that this block uses for its own.
    Cluster(Reg),
}

/// A base register and a byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// u64 for global, u32 for shared memory.
    pub base: Reg,
    /// Bytes.
    pub offset: i64,
}

/// Whether the kernel will read the memory of a global access, or the memory after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// Unknown.
    Unknown,
    /// The next K-tiles read it, so the access may prefetch it.
    NextTiles,
    /// The access is the only one. The L2 cache should keep other data instead.
    Once,
}

/// When an arrival at an mbarrier takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Now.
    Now,
    /// Once every asynchronous copy that this thread has issued is complete.
    WhenCopied,
    /// Immediately. The phase also waits until this many bytes have been copied.
    Expecting(u32),
    /// As `Expecting`, with the number of bytes in a register.
    ExpectingIn(Reg),
}

/// A predicate that guards a statement.
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
    /// |y| with the sign of x
    CopySign,
    /// smaller, NaN if either is NaN
    Min,
    /// larger, NaN if either is NaN
    Max,
    /// 2^x, f32, approximately; exactly for integers
    Exp2,
    /// 2^x, f32, approximately; 0 if the result is below 2^-126: avoids the instructions for subnormal numbers
    Exp2OrZero,
    /// 1 / x, f32, approximately; flushes an x or a result below 2^-126 to 0
    Reciprocal,
    /// conversion to the destination's type
    Convert,
    /// two f32, converted to a type of 16 bits, as a pair
    ConvertPair(Type),
    /// two elements of 16 bits as a word
    Pair,
    /// the first element of a pair
    First,
    /// its second element
    Second,
    /// four bytes as a word
    Four,
    /// a byte of a word, counted from the lowest
    Byte(u32),
    /// the word that begins a number of bits after the first of two words, modulo 32
    Across,
    /// an f32 of a word, rounded to tf32: to nearest, ties away from zero
    Tf32,
}

/// Index of an origin in [`Kernel::origins`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OriginId(pub u32);

/// A statement with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub op: Op,
    /// The clause that it comes from.
    pub origin: OriginId,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // each variant's sentence names its fields
pub enum Op {
    /// Reads kernel parameter number `index`.
    Param { dst: Reg, index: usize },
    /// Reads parameter number `index`, a field of a record, from the record at this address. For a tensor map, the
    /// result is the map's address, and copies that use it see what the host wrote.
    Field { dst: Reg, index: usize, record: Reg },
    /// Evaluates an index expression.
    Set { dst: Reg, value: Expr },
    /// Loads consecutive elements of the destinations' type.
    Load { memory: Memory, dst: Vec<Reg>, address: Address, guard: Option<Guard>, locality: Locality, reads: Reads },
    /// Stores consecutive elements.
    Store { memory: Memory, src: Vec<Reg>, address: Address, guard: Option<Guard> },
    /// Copies `bytes` from global to shared memory asynchronously; only the first `valid` bytes are read, and the rest
    /// become zero.
    CopyAsync { to: Address, from: Address, bytes: u32, valid: Option<Reg>, guard: Option<Guard>, access: Access },
    /// Copies a box of a matrix to shared memory and counts its bytes at an mbarrier. `map` is the address of the
    /// tensor map, `at` the coordinates of the box in the matrix, innermost first; zeros are written outside the
    /// matrix. With `blocks`, bit r says whether block r of the cluster gets the box: TMA writes it to the same place
    /// in that block's shared memory, and signals the same mbarrier there.
    CopyBox { to: Address, map: Reg, at: Vec<Reg>, barrier: Address, blocks: Option<Reg>, guard: Option<Guard> },
    /// Copies a box of a matrix from shared memory to global memory; elements outside the matrix are not written.
    StoreBox { from: Address, map: Reg, at: Vec<Reg>, guard: Option<Guard> },
    /// Ends a group of stores of boxes.
    CommitBoxes,
    /// Waits until the boxes of all groups have been read from shared memory.
    SettleBoxes,
    /// Orders this thread's accesses to shared memory before TMA copies by threads that synchronise with it after the
    /// fence (`fence.proxy.async`).
    FenceCopies,
    /// Ends a group of asynchronous copies.
    CommitCopies,
    /// Waits until at most this many groups are pending.
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
    /// Reads one matrix of 8 x 8 16-bit elements for each destination. Lanes `8 i` to `8 i + 7` provide the addresses
    /// of the rows of matrix `i`. Each lane gets two elements of a row of each matrix, or of a column if `transposed`.
    LoadMatrices { dst: Vec<Reg>, address: Address, transposed: bool, guard: Option<Guard> },
    /// Writes one matrix of 8 x 8 16-bit elements for each source, with the layout of [`Op::LoadMatrices`].
    StoreMatrices { src: Vec<Reg>, address: Address, transposed: bool },
    /// Tensor cores compute `acc += a * b`, where each thread holds its part of `acc` in the layout of the PTX ISA. A warp
    /// waits for its product, a warp group continues. `add`: without it, or if it is true, the product is added to what
    /// `acc` holds; else it replaces that.
    TensorProduct { acc: Vec<Reg>, a: Factor, b: Factor, add: Option<Reg>, shape: ProductShape },
    /// Makes the threads' writes to accumulators visible to the products that follow (`wgmma.fence`).
    FenceProducts,
    /// Ends a group of products.
    CommitProducts,
    /// Waits until at most this many groups of products are in flight.
    WaitProducts(u32),
    /// Arrives at the mbarrier at this address in another block of the cluster, or in this one.
    ArriveAt { block: Reg, address: Address, guard: Option<Guard> },
    /// Synchronises all threads of the block.
    Barrier,
    /// Synchronises all threads of all blocks of the cluster.
    ClusterBarrier,
    /// The first half of a cluster barrier: this thread's accesses to shared memory are complete for threads that wait.
    ClusterArrive,
    /// The second half: waits until all threads have arrived.
    ClusterWait,
    /// Synchronises the threads that take part in a named barrier.
    NamedBarrier { number: u32, threads: u32 },
    /// Sets the number of registers of each thread of a warp group: an increase waits for free registers, a decrease
    /// frees them.
    SetRegisters { count: u32, more: bool },
    /// Initialises 8 bytes of shared memory as an mbarrier that completes a phase after this many arrivals.
    InitBarrier { address: Address, arrivals: u32 },
    /// Makes the mbarriers that this thread has initialised visible to TMA.
    PublishBarriers,
    /// Arrives at an mbarrier, immediately or when this thread's asynchronous copies are complete.
    Arrive { address: Address, when: Arrival, guard: Option<Guard> },
    /// Tests whether the phase of the given parity of an mbarrier is complete. If so, writes before its arrivals are
    /// visible.
    TestBarrier { dst: Reg, address: Address, parity: Reg },
    /// Adds 1 to a flag in global memory and returns its old value. Orders this thread's accesses before and after it
    /// with those of other threads that do the same.
    CountUp { dst: Reg, address: Address },
    /// Reads a flag. If it is raised, the writes before that are visible afterwards.
    ReadFlag { dst: Reg, address: Address },
    /// Raises a flag: a thread that reads it sees this thread's earlier writes.
    RaiseFlag { address: Address, value: Reg },
    /// A branch.
    If { cond: Guard, then: Vec<Stmt>, other: Vec<Stmt> },
    /// Runs the body, and repeats it while `again` is true.
    Loop { body: Vec<Stmt>, again: Reg },
}

/// A kernel parameter, or a field of the records in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name in the ABI.
    pub name: String,
    /// Type.
    pub ty: Type,
    /// Its first byte in a record; `None`: a parameter of the kernel.
    pub field: Option<u32>,
    /// What the verifier needs to know about it.
    pub holds: Holds,
    /// Its meaning, with its unit.
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
    /// Blocks of a cluster, along the grid's only dimension; 1 without clusters.
    pub cluster: u32,
    /// Numbers that divide m, n and k at every launch, if the kernel has no code for edges (`tail(none)`).
    pub divides: Option<[u32; 3]>,
    /// Blocks per multiprocessor to compile for.
    pub blocks_per_sm: u32,
    /// Shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Its alignment: 16, that of a box, or the period of a swizzle.
    pub shared_align: u32,
    /// The clause that asked for the shared memory.
    pub shared_origin: Origin,
    /// Register families.
    pub families: Vec<FamilyInfo>,
    /// Origins of its statements.
    pub origins: Vec<Origin>,
    /// The body.
    pub body: Vec<Stmt>,
}

impl Kernel {
    /// Type of a register.
    pub fn ty(&self, reg: Reg) -> Type {
        self.families[reg.family.0 as usize].ty
    }

    /// The origin of a statement.
    pub fn origin(&self, stmt: &Stmt) -> &Origin {
        &self.origins[stmt.origin.0 as usize]
    }

    /// A dense numbering of the registers, for tables indexed by register.
    pub fn numbering(&self) -> Numbering {
        let mut first = vec![0];
        for family in &self.families {
            first.push(first[first.len() - 1] + family.count as usize);
        }
        Numbering { first }
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

/// Calls `f` for every register that the statements assign, including nested ones, once per assignment.
pub fn definitions(stmts: &[Stmt], f: &mut impl FnMut(Reg)) {
    for stmt in stmts {
        match &stmt.op {
            Op::Param { dst, .. }
            | Op::Field { dst, .. }
            | Op::Set { dst, .. }
            | Op::Math { dst, .. }
            | Op::IsZero { dst, .. }
            | Op::Select { dst, .. }
            | Op::TestBarrier { dst, .. }
            | Op::CountUp { dst, .. }
            | Op::ReadFlag { dst, .. } => f(*dst),
            Op::Load { dst, .. }
            | Op::Clear { dst }
            | Op::Outer { acc: dst, .. }
            | Op::LoadMatrices { dst, .. }
            | Op::TensorProduct { acc: dst, .. } => dst.iter().for_each(|reg| f(*reg)),
            Op::Store { .. }
            | Op::CopyAsync { .. }
            | Op::CopyBox { .. }
            | Op::StoreBox { .. }
            | Op::StoreMatrices { .. }
            | Op::CommitBoxes
            | Op::SettleBoxes
            | Op::FenceCopies
            | Op::PublishBarriers
            | Op::CommitCopies
            | Op::WaitCopies(_)
            | Op::FenceProducts
            | Op::CommitProducts
            | Op::WaitProducts(_)
            | Op::ArriveAt { .. }
            | Op::Barrier
            | Op::ClusterBarrier
            | Op::ClusterArrive
            | Op::ClusterWait
            | Op::NamedBarrier { .. }
            | Op::SetRegisters { .. }
            | Op::InitBarrier { .. }
            | Op::Arrive { .. }
            | Op::RaiseFlag { .. } => {}
            Op::If { then, other, .. } => {
                definitions(then, f);
                definitions(other, f);
            }
            Op::Loop { body, .. } => definitions(body, f),
        }
    }
}

/// Dense numbers for the registers of a kernel, family by family.
#[derive(Clone, Debug)]
pub struct Numbering {
    first: Vec<usize>,
}

impl Numbering {
    /// The number of registers.
    pub fn len(&self) -> usize {
        self.first.last().copied().unwrap_or(0)
    }

    /// Whether the kernel has no registers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of a register of the kernel.
    pub fn of(&self, reg: Reg) -> usize {
        self.first[reg.family.0 as usize] + reg.index as usize
    }
}

/// The order in which an outer product of `m` x `n` is written, as pairs (row, column).
///
/// ptxas keeps the order of independent multiply-adds, and the order decides register reuse: a snake keeps one operand
/// wherever it changes direction.
pub fn outer_order(m: usize, n: usize, order: FmaOrder) -> impl Iterator<Item = (usize, usize)> {
    // Block by block of `height` x `width`, and within a block along its rows or columns.
    let (height, width) = match order {
        FmaOrder::Blocks => (BLOCK, BLOCK),
        _ => (m, n),
    };
    let blocks = (0..m).step_by(height.max(1)).flat_map(move |i| (0..n).step_by(width.max(1)).map(move |j| (i, j)));
    blocks.flat_map(move |(i, j)| {
        let (rows, columns) = (height.min(m - i), width.min(n - j));
        (0..rows * columns).map(move |x| {
            let (row, column) = within(rows, columns, x, order);
            (i + row, j + column)
        })
    })
}

/// Rows and columns of a block of [`FmaOrder::Blocks`].
const BLOCK: usize = 4;

/// Row and column of multiply-add number `x` of a block.
fn within(rows: usize, columns: usize, x: usize, order: FmaOrder) -> (usize, usize) {
    let turned = |at: usize, count: usize, line: usize| if line.is_multiple_of(2) { at } else { count - 1 - at };
    match order {
        FmaOrder::Row => (x / columns, x % columns),
        FmaOrder::Column => (x % rows, x / rows),
        FmaOrder::Snake | FmaOrder::Blocks => (x / columns, turned(x % columns, columns, x / columns)),
        FmaOrder::ColumnSnake => (turned(x % rows, rows, x / rows), x / rows),
        FmaOrder::Diagonal => (x % rows, (x % rows + x / rows) % columns),
    }
}

#[cfg(test)]
mod tests {
    use super::{FmaOrder, outer_order};

    #[test]
    fn every_order_has_every_product_once() {
        use FmaOrder::{Blocks, Column, ColumnSnake, Diagonal, Row, Snake};
        for order in [Row, Snake, Column, ColumnSnake, Diagonal, Blocks] {
            for (m, n) in [(1, 1), (1, 7), (6, 1), (5, 6), (8, 8), (16, 8), (8, 16), (3, 10)] {
                let mut all: Vec<_> = outer_order(m, n, order).collect();
                assert_eq!(all.len(), m * n, "{order:?} {m} x {n}");
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), m * n, "{order:?} {m} x {n}");
            }
        }
    }

    /// Each order keeps one operand from one multiply-add to the next.
    #[test]
    fn orders_are_what_they_are_called() {
        let of = |order| outer_order(2, 3, order).collect::<Vec<_>>();
        assert_eq!(of(FmaOrder::Column), [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(of(FmaOrder::ColumnSnake), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
        assert_eq!(of(FmaOrder::Diagonal), [(0, 0), (1, 1), (0, 1), (1, 2), (0, 2), (1, 0)]);
        let blocks: Vec<_> = outer_order(8, 8, FmaOrder::Blocks).collect();
        assert_eq!(blocks[..6], [(0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 2)]);
        assert_eq!(blocks[16], (0, 4));
        for order in [FmaOrder::Snake, FmaOrder::ColumnSnake] {
            let all: Vec<_> = outer_order(8, 4, order).collect();
            assert!(all.windows(2).all(|pair| pair[0].0 == pair[1].0 || pair[0].1 == pair[1].1), "{order:?}");
        }
    }
}
