//! GPU targets and their limits.

use std::fmt;

/// A compilation target: a compute capability, with or without the architecture-specific `a` instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Major times ten plus minor: 75, 80, 90 ...
    pub capability: u32,
    /// `sm_90a`: instructions that run on exactly this capability.
    pub specific: bool,
}

impl Target {
    /// Turing.
    pub const SM_75: Target = Target { capability: 75, specific: false };
    /// Ampere, A100.
    pub const SM_80: Target = Target { capability: 80, specific: false };
    /// Ampere, consumer.
    pub const SM_86: Target = Target { capability: 86, specific: false };
    /// Ada.
    pub const SM_89: Target = Target { capability: 89, specific: false };
    /// Hopper.
    pub const SM_90: Target = Target { capability: 90, specific: false };
    /// Hopper with TMA multicast, wgmma, setmaxnreg.
    pub const SM_90A: Target = Target { capability: 90, specific: true };
    /// Blackwell, data centre.
    pub const SM_100: Target = Target { capability: 100, specific: false };
    /// Blackwell, consumer.
    pub const SM_120: Target = Target { capability: 120, specific: false };

    /// The targets that a schedule may name, in the order in which a default is chosen.
    pub const ALL: [Target; 8] = [
        Target::SM_75,
        Target::SM_80,
        Target::SM_86,
        Target::SM_89,
        Target::SM_90,
        Target::SM_90A,
        Target::SM_100,
        Target::SM_120,
    ];
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.capability, if self.specific { "a" } else { "" })
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
