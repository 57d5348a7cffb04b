//! Kinds of clauses, and sets of them.

/// The setting that a clause determines. A schedule determines each at most once; `double_buffer` and `stages`
/// determine the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[rustfmt::skip]
pub enum Key {
    Types, Layout, Epilogue, Batch, Target, Transposed, Tile, Warp, Thread, Fragment, Lanes, Atom, Vector, Shared, Operands, Load,
    Pack, Stages, Unroll, Order, Prefetch, Pace, BlocksPerSm, Spills, Raster, Persistent, SplitK, StreamK, Cluster, Multicast,
    Specialize, Registers, Store, Promote, Emulate, Strassen, Tail, Expect,
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
