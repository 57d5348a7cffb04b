//! Hints of a memory access to the caches. They change no result.

use crate::asynchronous::CacheHint;
use crate::names::words;

/// Eviction priority in the first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum L1Hint {
    Unstated,
    First,
    Last,
    Normal,
    Unchanged,
    NoAllocate,
}

words!(L1Hint {
    Unstated "", First "L1::evict_first", Last "L1::evict_last", Normal "L1::evict_normal",
    Unchanged "L1::evict_unchanged", NoAllocate "L1::no_allocate",
});

/// Eviction priority in the second-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum L2Hint {
    Unstated,
    First,
    Last,
    Normal,
}

words!(L2Hint { Unstated "", First "L2::evict_first", Last "L2::evict_last", Normal "L2::evict_normal" });

/// All hints of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hints {
    /// The first-level cache.
    pub l1: L1Hint,
    /// The second-level cache.
    pub l2: L2Hint,
    /// Whether the last operand is a cache policy.
    pub policy: CacheHint,
}

impl Hints {
    pub(crate) const NONE: Hints = Hints { l1: L1Hint::Unstated, l2: L2Hint::Unstated, policy: CacheHint::None };

    /// Adds a word if it is a hint of a kind that is not set yet. Returns whether it did.
    pub(crate) fn add(&mut self, word: &str) -> bool {
        if word.is_empty() {
            return false;
        }
        if let (Some(l1), L1Hint::Unstated) = (L1Hint::from_name(word), self.l1) {
            self.l1 = l1;
        } else if let (Some(l2), L2Hint::Unstated) = (L2Hint::from_name(word), self.l2) {
            self.l2 = l2;
        } else if let (Some(policy), CacheHint::None) = (CacheHint::from_name(word), self.policy) {
            self.policy = policy;
        } else {
            return false;
        }
        true
    }

    /// The words, in PTX's order.
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        [self.l1.name(), self.l2.name(), self.policy.name()].into_iter().filter(|word| !word.is_empty())
    }
}

/// Whether a mnemonic without an opcode of its own is only a hint, which changes no result.
pub fn is_hint(mnemonic: &str) -> bool {
    ["prefetch.", "prefetchu.", "applypriority.", "pmevent", "fence.proxy.alias"]
        .iter()
        .any(|stem| mnemonic.starts_with(stem))
}

/// Whether a mnemonic without an opcode of its own computes a cache policy.
pub fn is_policy(mnemonic: &str) -> bool {
    mnemonic.starts_with("createpolicy.")
}
