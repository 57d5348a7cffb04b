//! Kinds of clauses, their groups, and sets of them.

use serde::Serialize;

/// The setting that a clause determines. A schedule determines each setting at most once; `double_buffer` and `stages`
/// determine the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[rustfmt::skip]
pub enum Key {
    Types, Layout, Epilogue, Batch, Target, Transposed, Tile, Warp, Thread, Fragment, Lanes, Atom, Vector, Shared, Operands, Load,
    Pack, Stages, Unroll, Order, Prefetch, Pace, BlocksPerSm, Spills, Raster, Persistent, SplitK, StreamK, Cluster, Multicast,
    Specialize, Registers, Store, Promote, Emulate, Strassen, Tail, Expect, Shape, Gpu,
}

/// The subject of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The product: `types`, `layout`, `epilogue`, `batch`.
    Problem,
    /// The GPU: `target`.
    Target,
    /// The requirements on the kernel: `expect`.
    Contracts,
    /// What open values are chosen for: `shape`, `gpu`. The kernel is right for every size and on every GPU that it runs on.
    Choice,
    /// How the product is computed: every other clause.
    Method,
}

impl Group {
    /// Whether its clauses state what the user asks for. No tool changes such a clause unasked; clauses about the
    /// method are only a means.
    pub const fn is_given(self) -> bool {
        match self {
            Group::Problem | Group::Target | Group::Contracts | Group::Choice => true,
            Group::Method => false,
        }
    }

    /// The subject of its clauses, for messages.
    pub const fn subject(self) -> &'static str {
        match self {
            Group::Problem => "what is computed",
            Group::Target => "the target",
            Group::Contracts => "the contracts",
            Group::Choice => "what values are chosen for",
            Group::Method => "the method",
        }
    }
}

impl Key {
    /// The group of the clause.
    pub const fn group(self) -> Group {
        match self {
            Key::Types | Key::Layout | Key::Epilogue | Key::Batch => Group::Problem,
            Key::Target => Group::Target,
            Key::Expect => Group::Contracts,
            Key::Shape | Key::Gpu => Group::Choice,
            Key::Transposed
            | Key::Tile
            | Key::Warp
            | Key::Thread
            | Key::Fragment
            | Key::Lanes
            | Key::Atom
            | Key::Vector
            | Key::Shared
            | Key::Operands
            | Key::Load
            | Key::Pack
            | Key::Stages
            | Key::Unroll
            | Key::Order
            | Key::Prefetch
            | Key::Pace
            | Key::BlocksPerSm
            | Key::Spills
            | Key::Raster
            | Key::Persistent
            | Key::SplitK
            | Key::StreamK
            | Key::Cluster
            | Key::Multicast
            | Key::Specialize
            | Key::Registers
            | Key::Store
            | Key::Promote
            | Key::Emulate
            | Key::Strassen
            | Key::Tail => Group::Method,
        }
    }
}

/// A set of [`Key`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeySet(u64);

impl KeySet {
    /// The set of these keys.
    pub const fn of(keys: &[Key]) -> KeySet {
        let mut bits = 0;
        let mut index = 0;
        while index < keys.len() {
            bits |= 1 << keys[index] as u32;
            index += 1;
        }
        KeySet(bits)
    }

    /// The set of all keys.
    pub const fn all() -> KeySet {
        KeySet(u64::MAX)
    }

    /// Adds a key.
    pub fn insert(&mut self, key: Key) {
        self.0 |= 1 << key as u32;
    }

    /// Removes a key.
    pub fn remove(&mut self, key: Key) {
        self.0 &= !(1 << key as u32);
    }

    /// True if the key is in the set.
    pub fn contains(self, key: Key) -> bool {
        self.0 & (1 << key as u32) != 0
    }

    /// True if the two sets have a key in common.
    pub fn meets(self, other: KeySet) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of the two sets.
    pub const fn union(self, other: KeySet) -> KeySet {
        KeySet(self.0 | other.0)
    }
}
