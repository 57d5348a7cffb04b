//! The address spaces: where each space's window lies in the generic one.
//!
//! Windows lie far above every global allocation, so that a generic address tells its space by its top bits.

/// First address of shared memory in its own space. The hardware's first kilobyte is reserved too (sm_90), and a kernel
/// that forgets to add a variable's address is found out because this is not 0.
pub(crate) const SHARED_START: u32 = 1024;

/// Generic address of shared address 0.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;
/// Generic address of local address 0.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 56;
/// Generic address of parameter address 0.
pub(crate) const PARAM_WINDOW: u64 = 3 << 56;
/// Generic address of constant address 0.
pub(crate) const CONST_WINDOW: u64 = 4 << 56;

/// Where an access goes, after a generic address has been told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Global,
    Shared,
    Local,
    Param,
    Const,
}

impl Place {
    /// Generic address of the place's address 0.
    pub(crate) fn window(self) -> u64 {
        match self {
            Place::Global => 0,
            Place::Shared => SHARED_WINDOW,
            Place::Local => LOCAL_WINDOW,
            Place::Param => PARAM_WINDOW,
            Place::Const => CONST_WINDOW,
        }
    }

    /// Tells a generic address apart; the address within the place comes with it.
    pub(crate) fn of_generic(address: u64) -> (Place, u64) {
        let place = match address >> 56 {
            1 => Place::Shared,
            2 => Place::Local,
            3 => Place::Param,
            4 => Place::Const,
            _ => return (Place::Global, address),
        };
        (place, address & ((1 << 56) - 1))
    }

    /// First valid address of the place.
    pub(crate) fn first(self) -> u64 {
        if self == Place::Shared { u64::from(SHARED_START) } else { 0 }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Global => "global",
            Place::Shared => "shared",
            Place::Local => "local",
            Place::Param => "param",
            Place::Const => "const",
        }
    }
}
