//! Reports of broken rules, with the line of PTX and the clause that it came from.

use std::fmt;

use ptx_gemm_ptx::instruction::Note;

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    /// The launch itself is impossible: an unknown entry, wrong arguments, a wrong block size.
    Launch,
    /// An access outside every allocation, or outside the block's shared memory.
    OutOfBounds,
    /// An address that is not a multiple of the access's size.
    Misaligned,
    /// A value that was never written is used as an address or a predicate, or is stored to global memory.
    Uninitialised,
    /// Threads disagree about a barrier: different barriers, different counts, or some have exited.
    BarrierMismatch,
    /// An mbarrier is used that was not initialised, with an impossible count, or as plain memory.
    BarrierMisuse,
    /// No thread can continue.
    Deadlock,
    /// Two accesses without an order between them, at least one of them a write; or an access to the shared memory of a
    /// block that may have exited.
    Race,
    /// A generic write, and an asynchronous access to the same bytes without `fence.proxy.async` between them; or a
    /// tensor map that was modified, and is used without the fences of the tensormap proxy.
    Proxy,
    /// A generic read and an asynchronous write without `fence.proxy.async` between them. Kernels that omit the fence
    /// work if a barrier comes between the two. If only an arrival at an mbarrier does, it may overtake the read, and
    /// they work as long as nothing delays their reads. So this is a warning unless [`crate::Options::proxy_war`] and
    /// [`crate::Options::overtaken`] say otherwise.
    ProxyWar,
    /// An mbarrier that counts asynchronous copies, without a fence after its initialisation.
    ProxyInit,
    /// A tensor store to rows with a length that is not a multiple of 16 bytes. The hardware also writes the bytes
    /// after each row up to the next multiple, which the PTX ISA does not mention. This is a warning unless
    /// [`crate::Options::past_rows`] says otherwise, since the bytes may be padding that nobody reads.
    PastRows,
    /// `setmaxnreg` with an impossible count for the warp, or by only a part of a warp group.
    Registers,
    /// An instruction uses something as a tensor map that is not a map, or a map that it does not support.
    TensorMap,
    /// A matrix descriptor that does not describe an operand, or one that is not supported.
    Descriptor,
    /// The asynchronous multiplications of a warp group: registers that are used without a wait or a fence, warps that
    /// disagree about a multiplication, a multiplication that no thread waits for.
    Wgmma,
    /// A byte of a write-once allocation was written a second time.
    WrittenTwice,
    /// Memory that has to be written by a launch is not.
    NotWritten,
    /// Memory that has to be zero after a launch is not zero.
    NotZero,
    /// An operand has a value that the instruction does not accept.
    InvalidOperand,
    /// An instruction that the interpreter does not support.
    UnknownInstruction,
    /// The kernel executed a trap.
    Trap,
    /// An assertion of the kernel does not hold.
    Assertion,
    /// Functions call each other so deeply that a thread's stack is full.
    StackOverflow,
    /// More instructions than [`crate::Options::max_instructions`] allows.
    InstructionLimit,
}

impl ViolationKind {
    /// All kinds.
    pub const ALL: [ViolationKind; 25] = [
        ViolationKind::Launch,
        ViolationKind::OutOfBounds,
        ViolationKind::Misaligned,
        ViolationKind::Uninitialised,
        ViolationKind::BarrierMismatch,
        ViolationKind::BarrierMisuse,
        ViolationKind::Deadlock,
        ViolationKind::Race,
        ViolationKind::Proxy,
        ViolationKind::ProxyWar,
        ViolationKind::ProxyInit,
        ViolationKind::PastRows,
        ViolationKind::Registers,
        ViolationKind::TensorMap,
        ViolationKind::Descriptor,
        ViolationKind::Wgmma,
        ViolationKind::WrittenTwice,
        ViolationKind::NotWritten,
        ViolationKind::NotZero,
        ViolationKind::InvalidOperand,
        ViolationKind::UnknownInstruction,
        ViolationKind::Trap,
        ViolationKind::Assertion,
        ViolationKind::StackOverflow,
        ViolationKind::InstructionLimit,
    ];

    /// Whether a launch can continue when the rule is broken, so that [`crate::Checks`] may leave it out.
    pub const fn is_optional(self) -> bool {
        match self {
            ViolationKind::Uninitialised
            | ViolationKind::BarrierMismatch
            | ViolationKind::BarrierMisuse
            | ViolationKind::Race
            | ViolationKind::Proxy
            | ViolationKind::ProxyWar
            | ViolationKind::ProxyInit
            | ViolationKind::PastRows
            | ViolationKind::Registers
            | ViolationKind::Wgmma
            | ViolationKind::WrittenTwice
            | ViolationKind::NotWritten
            | ViolationKind::NotZero
            | ViolationKind::InvalidOperand => true,
            ViolationKind::Launch
            | ViolationKind::OutOfBounds
            | ViolationKind::Misaligned
            | ViolationKind::Deadlock
            | ViolationKind::TensorMap
            | ViolationKind::Descriptor
            | ViolationKind::UnknownInstruction
            | ViolationKind::Trap
            | ViolationKind::Assertion
            | ViolationKind::StackOverflow
            | ViolationKind::InstructionLimit => false,
        }
    }

    /// The words that begin the report.
    pub fn title(self) -> &'static str {
        match self {
            ViolationKind::Launch => "launch refused",
            ViolationKind::OutOfBounds => "out of bounds",
            ViolationKind::Misaligned => "misaligned",
            ViolationKind::Uninitialised => "uninitialised",
            ViolationKind::BarrierMismatch => "barrier mismatch",
            ViolationKind::BarrierMisuse => "barrier misuse",
            ViolationKind::Deadlock => "deadlock",
            ViolationKind::Race => "race",
            ViolationKind::Proxy => "missing proxy fence",
            ViolationKind::ProxyWar => "proxy.war",
            ViolationKind::ProxyInit => "mbarrier not fenced",
            ViolationKind::PastRows => "past the rows",
            ViolationKind::Registers => "registers",
            ViolationKind::TensorMap => "tensor map",
            ViolationKind::Descriptor => "matrix descriptor",
            ViolationKind::Wgmma => "warp group",
            ViolationKind::WrittenTwice => "written twice",
            ViolationKind::NotWritten => "not written",
            ViolationKind::NotZero => "not zero",
            ViolationKind::InvalidOperand => "invalid operand",
            ViolationKind::UnknownInstruction => "unknown instruction",
            ViolationKind::Trap => "trap",
            ViolationKind::Assertion => "assertion",
            ViolationKind::StackOverflow => "stack overflow",
            ViolationKind::InstructionLimit => "instruction limit",
        }
    }

    /// The rule's name for tools: its title with hyphens.
    pub fn name(self) -> String {
        self.title().replace([' ', '.'], "-")
    }

    /// The rule with a name.
    pub fn from_name(name: &str) -> Option<ViolationKind> {
        ViolationKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A broken rule, and everything that is known about where it was broken and by which thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub kind: ViolationKind,
    /// What happened, as a sentence.
    pub message: String,
    /// Where it was broken.
    pub site: Box<Site>,
}

/// The place where a rule was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The entry that ran.
    pub entry: String,
    /// Line of the PTX text, counted from 1.
    pub line: Option<u32>,
    /// That line's instruction.
    pub instruction: String,
    /// The clause that the instruction came from, and what the instruction does for it.
    pub note: Option<Note>,
    /// Block (`%ctaid`).
    pub block: Option<[u32; 3]>,
    /// The threads (`%tid`) involved: those that broke the rule, then, for a race, the other one.
    pub threads: Vec<[u32; 3]>,
    /// The offending address, as the instruction uses it.
    pub address: Option<u64>,
    /// Label of the allocation that contains the address or is nearest to it.
    pub label: Option<String>,
    /// For a race, the shortest interleaving of its two threads that shows it: each thread's last synchronisation and
    /// the two accesses, in execution order.
    pub timeline: Vec<Moment>,
}

/// An event of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What it did.
    pub kind: MomentKind,
    /// Its block (`%ctaid`).
    pub block: [u32; 3],
    /// The thread (`%tid`).
    pub thread: [u32; 3],
    /// Line of the PTX text, counted from 1.
    pub line: u32,
    /// That line's instruction.
    pub instruction: String,
    /// The clause that the instruction came from, and what the instruction does for it.
    pub note: Option<Note>,
}

/// The kind of a [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MomentKind {
    /// A barrier, a fence, or a strong access, which might have ordered the accesses.
    Synchronise,
    /// The access that came first.
    FirstAccess,
    /// The access that nothing orders after the first.
    SecondAccess,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let did = match self.kind {
            MomentKind::Synchronise => "synchronises",
            MomentKind::FirstAccess => "first access",
            MomentKind::SecondAccess => "second access",
        };
        let (thread, block) = (triple(self.thread), triple(self.block));
        write!(f, "thread {thread} of block {block}, {did}: line {} `{}`", self.line, self.instruction)?;
        match &self.note {
            Some(note) => write!(f, " ({})", note.clause),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.title(), self.message)?;
        let site = &*self.site;
        if let Some(line) = site.line {
            write!(f, "\n  at line {line} of entry `{}`: {}", site.entry, site.instruction)?;
        }
        if let Some(note) = &site.note {
            write!(f, "\n  from the clause `{}`: {}", note.clause, note.what)?;
        }
        for (index, moment) in site.timeline.iter().enumerate() {
            write!(f, "\n  {}. {moment}", index + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}

/// A violation as the executing code knows it: with lanes instead of threads, and without a place.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ViolationKind,
    /// The sentence; `{thread}` is a placeholder for the first lane's thread and block.
    pub(crate) message: String,
    pub(crate) lanes: u32,
    /// Another thread that is involved.
    pub(crate) other: Option<u16>,
    pub(crate) address: Option<u64>,
    pub(crate) label: Option<String>,
    /// The thread and the instruction at fault, if they are not the ones that run now.
    pub(crate) at: Option<(u16, u32)>,
    /// The instruction of the running thread, if its warp is at a different one.
    pub(crate) pc: Option<u32>,
    /// The instruction of the other thread, for warnings.
    pub(crate) other_pc: u32,
    pub(crate) timeline: Vec<Step>,
}

/// A [`Moment`] before it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kind: MomentKind,
    pub(crate) block: u32,
    pub(crate) thread: u16,
    pub(crate) pc: u32,
}

/// The result of an operation that may break a rule.
pub(crate) type Checked<T = ()> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(crate) fn new(kind: ViolationKind, lanes: u32, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault {
            kind,
            message: message.into(),
            lanes,
            other: None,
            address: None,
            label: None,
            at: None,
            pc: None,
            other_pc: 0,
            timeline: Vec::new(),
        })
    }
}

/// A number of bytes in words.
pub(crate) fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

/// `(x,y,z)`, as `%tid` and `%ctaid` are written in reports.
pub(crate) fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x},{y},{z})")
}
