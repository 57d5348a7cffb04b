//! Kernels with one fault each, and whether the checks find it.
//!
//! A *mutant* is a kernel's PTX with one edit: a barrier deleted or moved, a count one off, a fence weakened, a bound, an
//! offset, a register, a guard or an operation changed. Each is run on the sizes and data of the suites under all checks. It is
//! *killed* by a broken rule, a wrong result, or bits that differ from those of the kernel that it was made from; any
//! other mutant has
//! *survived*: either it computes the same thing, for a reason that [`Judge::equivalent`] knows, or the checks have a hole.
//!
//! Edits of the text of a tile program are judged by the guarantees of tile IR: see [`TileJudge`].

mod edits;
mod equivalent;
mod judge;
mod make;
mod tile;

pub use edits::{Edit, EditKind, token_edits};
pub use judge::{Judge, Products, Verdict};
pub use make::{mutants, mutants_of};
use ptx_gemm_runtime::origin::Site;
use ptx_gemm_runtime::ptx::instruction::{Instruction, Note};
pub use ptx_gemm_runtime::ptx::module::Module;
use ptx_gemm_runtime::ptx::module::Statement;
use ptx_gemm_runtime::ptx::print::print;
pub use tile::{TileJudge, TileVerdict};

/// What an edit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MutantKind {
    /// A barrier, wait, arrival, commit or fence is deleted.
    DeletedSync,
    /// A barrier, wait or arrival is moved before or after its neighbours, up to the next label or branch.
    MovedSync,
    /// A barrier of another number, or of another count of threads.
    OtherBarrier,
    /// `wait_group` leaves one copy more, or one less, in flight.
    WaitGroup,
    /// An mbarrier counts one arrival more or less.
    ArriveCount,
    /// An mbarrier expects 16 bytes more or less.
    ExpectTx,
    /// A wait is for the other phase.
    Parity,
    /// An access has a weaker ordering, or a smaller scope.
    WeakerOrder,
    /// A loop that waits runs only once.
    WaitOnce,
    /// The operand of a comparison is one more or one less.
    Bound,
    /// A comparison is replaced by another one.
    Comparison,
    /// A guard is deleted.
    NoGuard,
    /// A guard, or the condition of a branch, is negated.
    OppositeGuard,
    /// A vector access touches half of its elements.
    NarrowVector,
    /// The parameter of another matrix or dimension is read.
    OtherParameter,
    /// A fused multiply-add rounds twice.
    RoundedTwice,
    /// The offset of an address is one element or one access further.
    Offset,
    /// An immediate operand is one more or one less, or twice as large.
    Constant,
    /// Two operands are swapped.
    SwappedOperands,
    /// A source is replaced by the next register.
    OtherRegister,
    /// An operation is replaced by another one.
    OtherOperation,
    /// A switch of a product of tensor cores is set the other way: the sum, a sign, a transposition, a swizzle.
    Switch,
    /// An instruction is deleted.
    Deleted,
    /// Two instructions that access memory are swapped.
    SwappedAccesses,
}

impl MutantKind {
    /// Every kind.
    pub const ALL: [MutantKind; 24] = [
        MutantKind::DeletedSync,
        MutantKind::MovedSync,
        MutantKind::OtherBarrier,
        MutantKind::WaitGroup,
        MutantKind::ArriveCount,
        MutantKind::ExpectTx,
        MutantKind::Parity,
        MutantKind::WeakerOrder,
        MutantKind::WaitOnce,
        MutantKind::Bound,
        MutantKind::Comparison,
        MutantKind::NoGuard,
        MutantKind::OppositeGuard,
        MutantKind::NarrowVector,
        MutantKind::OtherParameter,
        MutantKind::RoundedTwice,
        MutantKind::Offset,
        MutantKind::Constant,
        MutantKind::SwappedOperands,
        MutantKind::OtherRegister,
        MutantKind::OtherOperation,
        MutantKind::Switch,
        MutantKind::Deleted,
        MutantKind::SwappedAccesses,
    ];

    /// Its name for tools.
    pub fn name(self) -> &'static str {
        match self {
            MutantKind::DeletedSync => "deleted-sync",
            MutantKind::MovedSync => "moved-sync",
            MutantKind::OtherBarrier => "other-barrier",
            MutantKind::WaitGroup => "wait-group",
            MutantKind::ArriveCount => "arrive-count",
            MutantKind::ExpectTx => "expect-tx",
            MutantKind::Parity => "parity",
            MutantKind::WeakerOrder => "weaker-order",
            MutantKind::WaitOnce => "wait-once",
            MutantKind::Bound => "bound",
            MutantKind::Comparison => "comparison",
            MutantKind::NoGuard => "no-guard",
            MutantKind::OppositeGuard => "opposite-guard",
            MutantKind::NarrowVector => "narrow-vector",
            MutantKind::OtherParameter => "other-parameter",
            MutantKind::RoundedTwice => "rounded-twice",
            MutantKind::Offset => "offset",
            MutantKind::Constant => "constant",
            MutantKind::SwappedOperands => "swapped-operands",
            MutantKind::OtherRegister => "other-register",
            MutantKind::OtherOperation => "other-operation",
            MutantKind::Switch => "switch",
            MutantKind::Deleted => "deleted",
            MutantKind::SwappedAccesses => "swapped-accesses",
        }
    }

    /// Whether it concerns synchronisation: the result may still be right, and often is.
    pub fn is_synchronisation(self) -> bool {
        matches!(
            self,
            MutantKind::DeletedSync
                | MutantKind::MovedSync
                | MutantKind::OtherBarrier
                | MutantKind::WaitGroup
                | MutantKind::ArriveCount
                | MutantKind::ExpectTx
                | MutantKind::Parity
                | MutantKind::WeakerOrder
                | MutantKind::WaitOnce
        )
    }
}

/// A module with one fault.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What the edit does.
    pub kind: MutantKind,
    /// Index of the kernel that it is in, among those that a product launches.
    pub kernel: usize,
    /// Index of the entry that it is in.
    pub entry: usize,
    /// Index of the first statement that it changes.
    pub at: usize,
    /// Number of loops that this statement is in.
    pub loops: usize,
    /// The instruction as it was, or several.
    pub before: String,
    /// The instruction that replaces it.
    pub after: String,
    /// The clause and purpose of the instruction.
    pub note: String,
    /// The first instruction that is replaced.
    was: Instruction,
    /// Statements that are replaced, from `at`.
    replaced: usize,
    by: Vec<Statement>,
    /// Where the first of them with a note is from.
    origin: Option<Note>,
}

impl Mutant {
    /// The first instruction that replaces others.
    fn becomes(&self) -> Option<&Instruction> {
        self.by.iter().find_map(instruction)
    }

    /// Whether it is in what a clause of this name asked for.
    fn is_of(&self, clause: &str) -> bool {
        let text = self.origin.as_ref().map_or("", |origin| &*origin.clause);
        text.split('(').next() == Some(clause)
    }

    /// Whether one of these places wrote the instruction.
    fn is_at(&self, sites: &[Site]) -> bool {
        let site = self.origin.as_ref().and_then(|origin| origin.site);
        sites.iter().any(|known| site == Some(*known as u16))
    }

    /// The PTX text of the mutant of `module`.
    pub fn text(&self, module: &Module) -> String {
        let mut module = module.clone();
        if let Some(entry) = module.entries.get_mut(self.entry) {
            // Additional values that an edit computes use registers of their own.
            entry.registers.extend(make::scratch());
            entry.body.splice(self.at..self.at + self.replaced, self.by.iter().cloned());
        }
        print(&module)
    }

    /// The line of the original's text that it changes, counted from 1.
    pub fn line(&self, module: &Module) -> Option<usize> {
        const HERE: &str = "here is the mutant's place";
        let mut marked = module.clone();
        *marked.entries.get_mut(self.entry)?.body.get_mut(self.at)? = Statement::Comment(HERE.into());
        print(&marked).lines().position(|line| line.contains(HERE)).map(|line| line + 1)
    }
}

fn instruction(statement: &Statement) -> Option<&Instruction> {
    match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    }
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: `{}`", self.kind.name(), self.before)?;
        if self.after.is_empty() {
            write!(f, " deleted")?
        } else {
            write!(f, " -> `{}`", self.after)?
        }
        write!(f, " ({})", self.note)
    }
}
