//! How a launch is to be run: what is checked and counted, in which order warps take turns, and when copies land.

use std::fmt;

use crate::violation::ViolationKind;

/// What the interpreter watches for: a set of rules. Those that the hardware traps as well, and those after which there is
/// nothing to go on with ([`ViolationKind::is_optional`] says no), are watched for in any case.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checks(u32);

#[allow(non_upper_case_globals)] // two of its values, as those of an enum
impl Checks {
    /// Bounds and alignment, which the hardware traps too.
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

    /// These, and one more rule.
    pub const fn with(self, rule: ViolationKind) -> Checks {
        Checks((self.0 | 1 << rule as u32) & Checks::Full.0)
    }

    /// These without one rule. One that is broken then neither ends a launch nor is a warning: the launch goes on as the
    /// hardware is likely to.
    pub const fn without(self, rule: ViolationKind) -> Checks {
        Checks(self.0 & !(1 << rule as u32))
    }

    /// Whether a rule is watched for.
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

/// How warps of a block take turns. A right kernel gives the same result under all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WarpOrder {
    /// In step, one instruction each, first warp first.
    Forward,
    /// In step, last warp first.
    Backward,
    /// Random turns of random length, the same for the same seed. The order changes with every round of turns, and turns
    /// end between barriers too.
    Seeded(u64),
    /// Each runs as far as it can, first warp first: the fastest.
    #[default]
    RunToBarrier,
}

impl WarpOrder {
    /// One of the orders, by a random number: every second one is a random order.
    pub fn drawn(number: u64) -> WarpOrder {
        match number % 8 {
            0 | 1 => WarpOrder::RunToBarrier,
            2 => WarpOrder::Forward,
            3 => WarpOrder::Backward,
            _ => WarpOrder::Seeded(number / 8),
        }
    }
}

/// How the blocks of a grid take turns. A right kernel gives the same result under all of them. Those other than the default
/// run on one thread of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockOrder {
    /// First block first, each as far as it can. Blocks that do not communicate run at the same time.
    #[default]
    Forward,
    /// Last block first, each as far as it can.
    Backward,
    /// Some blocks at a time take short turns, one after the other.
    Interleaved,
    /// Some blocks at a time take short turns, in a random order that is the same for the same seed.
    Seeded(u64),
}

/// When asynchronous copies land, of all the moments at which the ISA lets them. A right kernel gives the same result under
/// all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Landing {
    /// When somebody waits for them and could go on.
    #[default]
    Latest,
    /// When they are started.
    Earliest,
    /// At random moments between the two, the same for the same seed.
    Seeded(u64),
}

/// What is done about a rule that working kernels break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Nothing.
    Allow,
    /// The launch goes on, and [`crate::Report::warnings`] has it.
    Warn,
    /// The launch ends with a violation.
    Deny,
}

/// Whether a launch counts what it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Counting {
    /// Only instructions and multiply-adds.
    #[default]
    Off,
    /// Everything in [`crate::Cost`].
    On,
}

/// How to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What to watch for.
    pub checks: Checks,
    /// How warps take turns.
    pub order: WarpOrder,
    /// How blocks take turns.
    pub blocks: BlockOrder,
    /// When asynchronous copies land. With the checks and the counting off, `cp.async` lands at once in any case.
    pub landing: Landing,
    /// A generic read before an asynchronous write without a proxy fence between them
    /// ([`crate::ViolationKind::ProxyWar`]).
    pub proxy_war: Severity,
    /// An mbarrier that counts an asynchronous copy without a fence after its initialisation
    /// ([`crate::ViolationKind::ProxyInit`]).
    pub proxy_init: Severity,
    /// Whether to count what the launch costs.
    pub counting: Counting,
    /// Host threads; all of the current rayon pool if absent.
    pub threads: Option<usize>,
    /// Most instructions that one warp may execute before it counts as run away.
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
            proxy_init: Severity::Deny,
            counting: Counting::Off,
            threads: None,
            max_instructions: Some(1 << 30),
        }
    }
}

/// Whether the loop that follows every value runs, or the bare one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Off,
    On,
}
