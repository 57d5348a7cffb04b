//! The address spaces, and the window of each in the generic address space.
//!
//! Windows are far above every global allocation, so that the top bits of a generic address identify its space.

/// First address of shared memory in its own space. The hardware reserves the first kilobyte too (sm_90). Since the
/// address is not 0, a kernel that forgets to add a variable's address is detected.
pub(crate) const SHARED_START: u32 = 1024;

/// Distance between the shared memories of two blocks of a cluster: the upper byte of an address is the rank of its
/// block. The hardware does the same: for sm_90, ptxas computes the address of a shared variable as its offset plus
/// 0x400 plus the rank times 2^24. Code that puts addresses into a matrix descriptor has to mask out the rank.
pub(crate) const PEER: u32 = 1 << 24;

/// Generic address of shared address 0.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;
/// Generic address of local address 0.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 56;
/// Generic address of parameter address 0.
pub(crate) const PARAM_WINDOW: u64 = 3 << 56;
/// Generic address of constant address 0.
pub(crate) const CONST_WINDOW: u64 = 4 << 56;

/// The space that an access goes to, after resolving a generic address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateSpace {
    Global,
    /// In the block of the thread.
    Shared,
    /// In any block of the cluster.
    Cluster,
    Local,
    Param,
    Const,
}

impl StateSpace {
    /// Generic address of address 0 in the space.
    pub(crate) fn window(self) -> u64 {
        match self {
            StateSpace::Global => 0,
            StateSpace::Shared | StateSpace::Cluster => SHARED_WINDOW,
            StateSpace::Local => LOCAL_WINDOW,
            StateSpace::Param => PARAM_WINDOW,
            StateSpace::Const => CONST_WINDOW,
        }
    }

    /// Whether this is shared memory, of this block or another one.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, StateSpace::Shared | StateSpace::Cluster)
    }

    /// Resolves a generic address to a space and an address within it.
    pub(crate) fn of_generic(address: u64) -> (StateSpace, u64) {
        let space = match address >> 56 {
            1 => StateSpace::Cluster,
            2 => StateSpace::Local,
            3 => StateSpace::Param,
            4 => StateSpace::Const,
            _ => return (StateSpace::Global, address),
        };
        (space, address & ((1 << 56) - 1))
    }

    /// First valid address in the space.
    pub(crate) fn first(self) -> u64 {
        if self.is_shared() { u64::from(SHARED_START) } else { 0 }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            StateSpace::Global => "global",
            StateSpace::Shared | StateSpace::Cluster => "shared",
            StateSpace::Local => "local",
            StateSpace::Param => "param",
            StateSpace::Const => "const",
        }
    }
}
