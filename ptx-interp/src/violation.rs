//! What went wrong in a launch, told so that a reader finds the line of PTX and the clause it came from.

use std::fmt;

use ptx_gemm_ptx::instruction::Note;

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    /// The launch itself is impossible: no such entry, wrong arguments, wrong block size.
    Launch,
    /// An access outside every allocation, or outside the block's shared memory.
    OutOfBounds,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// A value that was never written decides something: an address, a predicate, or what is stored to global memory.
    Uninitialised,
    /// Threads disagree about a barrier: different barriers, different counts, or some have exited.
    BarrierMismatch,
    /// An mbarrier is used that is none, with a count that it cannot have, or as if it were plain memory.
    BarrierMisuse,
    /// Nobody can move.
    Deadlock,
    /// Two accesses without an order between them, at least one of them a write.
    Race,
    /// A generic write, and an asynchronous access to the same bytes without `fence.proxy.async` between them.
    Proxy,
    /// A generic read, and an asynchronous write without `fence.proxy.async` between them. Working kernels leave the fence
    /// out where an mbarrier orders the two, so that this is a warning unless [`crate::Options::proxy_war`] says otherwise.
    ProxyWar,
    /// An mbarrier that counts asynchronous copies, without a fence after its initialisation.
    ProxyInit,
    /// `setmaxnreg` with a count that the warp cannot have, or by a part of a warp group.
    Registers,
    /// What an instruction takes for a tensor map is not one, or not one that it can use.
    TensorMap,
    /// A byte of a write-once allocation was written a second time.
    WrittenTwice,
    /// What has to be zero after a launch is not.
    NotZero,
    /// An operand has a value that the instruction does not take.
    InvalidOperand,
    /// Nothing in the interpreter executes this instruction.
    UnknownInstruction,
    /// The kernel trapped.
    Trap,
    /// More instructions than [`crate::Options::max_instructions`] allows.
    InstructionLimit,
}

impl ViolationKind {
    /// All of them.
    pub const ALL: [ViolationKind; 19] = [
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
        ViolationKind::Registers,
        ViolationKind::TensorMap,
        ViolationKind::WrittenTwice,
        ViolationKind::NotZero,
        ViolationKind::InvalidOperand,
        ViolationKind::UnknownInstruction,
        ViolationKind::Trap,
        ViolationKind::InstructionLimit,
    ];

    /// Whether a launch can go on when the rule is broken, so that [`crate::Checks`] may leave it out.
    pub const fn is_optional(self) -> bool {
        match self {
            ViolationKind::Uninitialised
            | ViolationKind::BarrierMismatch
            | ViolationKind::BarrierMisuse
            | ViolationKind::Race
            | ViolationKind::Proxy
            | ViolationKind::ProxyWar
            | ViolationKind::ProxyInit
            | ViolationKind::Registers
            | ViolationKind::WrittenTwice
            | ViolationKind::NotZero
            | ViolationKind::InvalidOperand => true,
            ViolationKind::Launch
            | ViolationKind::OutOfBounds
            | ViolationKind::Misaligned
            | ViolationKind::Deadlock
            | ViolationKind::TensorMap
            | ViolationKind::UnknownInstruction
            | ViolationKind::Trap
            | ViolationKind::InstructionLimit => false,
        }
    }

    /// The words that open the report.
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
            ViolationKind::Registers => "registers",
            ViolationKind::TensorMap => "tensor map",
            ViolationKind::WrittenTwice => "written twice",
            ViolationKind::NotZero => "not zero",
            ViolationKind::InvalidOperand => "invalid operand",
            ViolationKind::UnknownInstruction => "unknown instruction",
            ViolationKind::Trap => "trap",
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

/// A broken rule, with everything that is known about where and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub kind: ViolationKind,
    /// What happened, as a sentence.
    pub message: String,
    /// Where.
    pub site: Box<Site>,
}

/// Where a rule was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The entry that ran.
    pub entry: String,
    /// Line of the PTX text, counted from 1.
    pub line: Option<u32>,
    /// That line's instruction.
    pub instruction: String,
    /// The clause that the instruction came from, and what it does for it.
    pub note: Option<Note>,
    /// Block (`%ctaid`).
    pub block: Option<[u32; 3]>,
    /// Threads (`%tid`) that are part of it: those that broke the rule, then, for a race, the other one.
    pub threads: Vec<[u32; 3]>,
    /// The offending address, as the instruction sees it.
    pub address: Option<u64>,
    /// Label of the allocation that the address belongs to or lies nearest to.
    pub label: Option<String>,
    /// For a race the shortest interleaving of its two threads that shows it: what each last synchronised at, and the two
    /// accesses, in the order in which they were executed.
    pub timeline: Vec<Moment>,
}

/// What a thread did at some moment.
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
    /// The clause that the instruction came from, and what it does for it.
    pub note: Option<Note>,
}

/// What happens at a [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MomentKind {
    /// A barrier, a fence, a strong access: what might have ordered the accesses.
    Synchronise,
    /// The access that came first.
    FirstAccess,
    /// The access that nothing orders behind it.
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

/// A violation as the executing code knows it: lanes instead of threads, no place yet.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ViolationKind,
    /// The sentence; `{thread}` stands for the first lane's thread and block.
    pub(crate) message: String,
    pub(crate) lanes: u32,
    /// Another thread that is part of it.
    pub(crate) other: Option<u16>,
    pub(crate) address: Option<u64>,
    pub(crate) label: Option<String>,
    /// The thread and the instruction at fault, where they are not those that run now.
    pub(crate) at: Option<(u16, u32)>,
    /// The instruction of the running thread, if that is not where its warp is.
    pub(crate) pc: Option<u32>,
    /// The instruction of the other thread, for warnings.
    pub(crate) other_pc: u32,
    pub(crate) timeline: Vec<Step>,
}

/// A [`Moment`] before it is put into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kind: MomentKind,
    pub(crate) block: u32,
    pub(crate) thread: u16,
    pub(crate) pc: u32,
}

/// Result of what may break a rule.
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
