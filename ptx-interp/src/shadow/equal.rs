//! Stores of equal bits that nothing orders.
//!
//! If lanes of one instruction store to one word, CUDA's guide guarantees that one of the stores takes place; with equal
//! bits it does not matter which. The detector records each of them: what comes later has to be ordered after all.

use super::{APART, Access, Actor, Conflict, Did, Judged, Shadow, after_all};
use crate::clocks::Clocks;

/// Decides about an earlier store that is not ordered before the current one: true if both store the same bits. The
/// numbers are the position of some bytes in the current store, and their count.
pub(crate) type Judge<'a> = &'a mut dyn FnMut(usize, usize, &Access) -> bool;

impl Shadow {
    /// Records a weak write, like [`Shadow::write`], after that has found a conflict. The judge decides about earlier
    /// weak writes; a conflict with any other access remains one.
    #[cold]
    pub(crate) fn write_equal(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
        judge: Judge<'_>,
    ) -> Result<(), Conflict> {
        let mut skip = 0;
        while skip < bytes {
            let (word, within) = ((offset + skip) / 4, (offset + skip) % 4);
            if bytes < 4 && self.words[word].split == 0 {
                self.split(word);
            }
            let (index, len) = match self.words[word].split as usize {
                0 => (word, 4),
                first => (first - 1 + within, 1),
            };
            self.write_one_equal(clocks, index, actor, &mut |access| judge(skip, len, access))?;
            skip += len;
        }
        Ok(())
    }

    fn write_one_equal(
        &mut self,
        clocks: &Clocks,
        index: usize,
        actor: Actor,
        judge: &mut dyn FnMut(&Access) -> bool,
    ) -> Result<(), Conflict> {
        let writer = self.words[index].writer;
        let mut left = writer.is_left_by(clocks, actor) && !self.observed(clocks, &self.words[index], actor);
        match self.after_writer(clocks, index, actor) {
            Err(Conflict::Unordered(access)) if access.clock < APART && access.is_weak() && judge(&access) => {
                left = true
            }
            found => found?,
        }
        if let Some(listed) = self.words[index].further.checked_sub(1) {
            for access in &self.further[listed as usize] {
                let write = access.did == Did::Write;
                match after_all(clocks, std::iter::once(access).filter(|_| write), actor) {
                    Err(_) if access.clock < APART && access.is_weak() && judge(access) => {}
                    found => found?,
                }
            }
        }
        self.replace(clocks, index, actor, left, Judged::Writes)
    }

    /// A conflict of a thread that reads a word, unless it is one of several that stored the same bits there without an
    /// order. It may read them: no other bits can be there.
    #[cold]
    #[inline(never)]
    pub(super) fn unless_stored_too(&self, conflict: Conflict, index: usize, actor: Actor) -> Result<(), Conflict> {
        let listed = self.words[index].further.checked_sub(1).map_or(&[][..], |at| &self.further[at as usize]);
        let writer = &self.words[index].writer;
        let own = |access: &Access| access.did == Did::Write && access.is_weak() && access.is_by(actor);
        let stored = std::iter::once(writer).chain(listed).any(own);
        if stored && matches!(conflict, Conflict::Unordered(_)) { Ok(()) } else { Err(conflict) }
    }
}

impl Access {
    /// Whether the access is weak: neither volatile, relaxed, acquire, release nor atomic.
    pub(crate) fn is_weak(&self) -> bool {
        self.actor.strong.is_none()
    }
}
