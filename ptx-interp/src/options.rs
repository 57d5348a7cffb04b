//! Options of a launch: what is checked and counted, the order in which warps run, and when copies complete.

use std::fmt;

use crate::violation::ViolationKind;

/// The set of rules that the interpreter checks. Rules that the hardware also enforces, and rules after which execution
/// cannot continue ([`ViolationKind::is_optional`] is false), are always checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checks(u32);

#[allow(non_upper_case_globals)] // two named values, like those of an enum
impl Checks {
    /// Bounds and alignment, which the hardware also traps on.
    pub const Off: Checks = Checks(0);
    /// Everything.
    pub const Full: Checks = {
        let (mut rules, mut index) = (0, 0);
        while index < ViolationKind::ALL.len() {
            if ViolationKind::ALL[index].is_optional() {
                rules |= 1 << ViolationKind::ALL[index] as u32;
            }
            index += 1;
        }
        Checks(rules)
    };

    /// Adds a rule.
    pub const fn with(self, rule: ViolationKind) -> Checks {
        Checks((self.0 | 1 << rule as u32) & Checks::Full.0)
    }

    /// Removes a rule. If it is broken, the launch neither ends nor warns, and continues as the hardware probably
    /// would.
    pub const fn without(self, rule: ViolationKind) -> Checks {
        Checks(self.0 & !(1 << rule as u32))
    }

    /// Whether a rule is checked.
    #[inline(always)]
    pub const fn has(self, rule: ViolationKind) -> bool {
        !rule.is_optional() || self.0 >> rule as u32 & 1 != 0
    }
}

impl Default for Checks {
    fn default() -> Checks {
        Checks::Full
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Checks::Off => f.write_str("Off"),
            Checks::Full => f.write_str("Full"),
            checks => {
                let on = |kind: &&ViolationKind| kind.is_optional() && checks.has(**kind);
                f.debug_set().entries(ViolationKind::ALL.iter().filter(on)).finish()
            }
        }
    }
}

/// The order in which the warps of a block, or of all blocks of a cluster, run. A correct kernel gives the same result
/// in every order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WarpOrder {
    /// In lockstep, one instruction each, first warp first.
    Forward,
    /// In lockstep, last warp first.
    Backward,
    /// Random turns of random length, reproducible from the seed. The order changes with every round of turns, and
    /// turns also end between barriers.
    Seeded(u64),
    /// As `RunToBarrier`, but one warp is held up for as long as the others can go on without it, and then another one.
    /// The choice is random, and reproducible from the seed. This exposes a thread that no thread waits for, and a
    /// thread that misses a phase of an mbarrier.
    Late(u64),
    /// Each warp runs as far as it can, first warp first; this is the fastest order.
    #[default]
    RunToBarrier,
}

impl WarpOrder {
    /// One of the orders, chosen by a random number; three of eight numbers choose a random order.
    pub fn drawn(number: u64) -> WarpOrder {
        match number % 8 {
            0 | 1 => WarpOrder::RunToBarrier,
            2 => WarpOrder::Forward,
            3 => WarpOrder::Backward,
            4 => WarpOrder::Late(number / 8),
            _ => WarpOrder::Seeded(number / 8),
        }
    }
}

/// The order in which the blocks of a grid run; those of a cluster run together. A correct kernel gives the same result
/// in every order. All orders except the default use a single host thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockOrder {
    /// First block first, each as far as it can. Blocks that do not communicate run in parallel.
    #[default]
    Forward,
    /// Last block first, each as far as it can.
    Backward,
    /// Several blocks at a time alternate in short turns.
    Interleaved,
    /// Several blocks at a time take short turns in random order, reproducible from the seed.
    Seeded(u64),
}

/// When asynchronous copies, and multiplications of warp groups, complete, among the times that the ISA allows. A
/// correct kernel gives the same result with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Landing {
    /// When a thread waits for them and could otherwise continue.
    #[default]
    Latest,
    /// When they are started.
    Earliest,
    /// At random times between the two, reproducible from the seed.
    Seeded(u64),
}

/// How to handle the violation of a rule that working kernels also violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// It is ignored.
    Allow,
    /// The launch continues, and the warning is in [`crate::Report::warnings`].
    Warn,
    /// The launch ends with a violation.
    Deny,
}

/// What a launch counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Counting {
    /// Only instructions and multiply-adds.
    #[default]
    Off,
    /// Everything in [`crate::Cost`].
    On,
}

/// The options of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The rules to check.
    pub checks: Checks,
    /// The order in which warps run.
    pub order: WarpOrder,
    /// The order in which blocks run.
    pub blocks: BlockOrder,
    /// When asynchronous copies complete. With both the checks and the counting off, `cp.async` always completes at
    /// once.
    pub landing: Landing,
    /// How to handle a generic read before an asynchronous write without a proxy fence between them
    /// ([`crate::ViolationKind::ProxyWar`]).
    pub proxy_war: Severity,
    /// The same for the case that the reading thread executes neither a barrier nor another fence between them, so that
    /// only an arrival at an mbarrier orders the two. On an H200, results were wrong in this case.
    pub overtaken: Severity,
    /// How to handle a generic write before an asynchronous access if the thread that starts the access executes the
    /// proxy fence, after it knew of the write, and the writing thread does not. The PTX ISA allows that, but asks
    /// everywhere for a fence by the writing thread.
    pub fenced_late: Severity,
    /// How to handle an mbarrier that counts an asynchronous copy without a fence after its initialisation
    /// ([`crate::ViolationKind::ProxyInit`]).
    pub proxy_init: Severity,
    /// The same for an mbarrier that the thread which starts the copy has initialised itself. Production kernels leave
    /// that fence out, and work.
    pub proxy_init_own: Severity,
    /// How to handle weak stores of equal bits that nothing orders, unless they are lanes of one instruction, which is
    /// never a violation: CUDA's guide guarantees that one of them takes place.
    pub equal_stores: Severity,
    /// How to handle a tensor store that also writes bytes after the rows of its tensor
    /// ([`crate::ViolationKind::PastRows`]).
    pub past_rows: Severity,
    /// How to handle a wait at an mbarrier for a parity other than 0 and 1, such as -1 for 1: the PTX ISA has no other, and the
    /// hardware reads the lowest bit ([`crate::ViolationKind::BarrierMisuse`]).
    pub wide_parity: Severity,
    /// Whether to count the cost of the launch.
    pub counting: Counting,
    /// Number of host threads; the whole current rayon pool if absent.
    pub threads: Option<usize>,
    /// Most instructions that one warp may execute before it counts as a runaway.
    pub max_instructions: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            checks: Checks::Full,
            order: WarpOrder::RunToBarrier,
            blocks: BlockOrder::Forward,
            landing: Landing::Latest,
            proxy_war: Severity::Warn,
            overtaken: Severity::Warn,
            fenced_late: Severity::Warn,
            proxy_init: Severity::Deny,
            proxy_init_own: Severity::Deny,
            equal_stores: Severity::Warn,
            past_rows: Severity::Warn,
            wide_parity: Severity::Warn,
            counting: Counting::Off,
            threads: None,
            max_instructions: Some(1 << 30),
        }
    }
}

/// Which variant of the warp loop runs: the one that tracks every value, or the bare one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Off,
    On,
}
