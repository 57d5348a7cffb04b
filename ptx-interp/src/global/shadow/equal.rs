//! Stores of equal bits that nothing orders: as in shared memory ([`crate::shadow::Judge`]).

use super::{By, Chunk, Detail, IN_FLIGHT, JudgeLane, Judged, Kind, Listed, Row, WARPS};
use crate::clocks::Clocks;
use crate::shadow::{Access, Actor, Conflict, Did, Judge, after_all};

/// Most stores of equal bits to one word that are recorded. Beyond that, only the latest is.
const MOST: usize = 16 * WARPS;

impl Chunk {
    /// Records a weak write after the usual check has found a conflict. The judge decides about earlier weak writes.
    #[cold]
    pub(super) fn write_equal(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        by: By,
        judge: Judge<'_>,
    ) -> Result<(), Conflict> {
        let mut skip = 0;
        while skip < bytes {
            let (word, within) = ((offset + skip) / 4, (offset + skip) % 4);
            let bytes_of_word = if bytes < 4 { Some(self.bytes_of(word)) } else { self.split.get(&word).copied() };
            let (cell, len) = bytes_of_word.map_or((word, 4), |first| (first + within, 1));
            self.write_one_equal(clocks, cell, by, &mut |access| judge(skip, len, access))?;
            skip += len;
        }
        Ok(())
    }

    fn write_one_equal(
        &mut self,
        clocks: &Clocks,
        cell: usize,
        by: By,
        judge: &mut dyn FnMut(&Access) -> bool,
    ) -> Result<(), Conflict> {
        let writer = self.writers[cell];
        let mut left = writer.is_left_by(clocks, by.actor) && !self.observed(clocks, cell, by.actor);
        match self.after_writer(clocks, cell, by.actor) {
            Err(Conflict::Unordered(access)) if access.is_weak() && judge(&access) => left = self.stores(cell) < MOST,
            found => found?,
        }
        for access in self.listed(cell).filter(|access| access.did == Did::Write) {
            match after_all(clocks, std::iter::once(access), by.actor) {
                Err(_) if access.clock != IN_FLIGHT && access.is_weak() && judge(access) => {}
                found => found?,
            }
        }
        self.replace(clocks, cell, by, left, Judged::Writes)
    }

    fn listed(&self, cell: usize) -> impl Iterator<Item = &Access> {
        let readers = &self.readers[cell];
        let list = if readers.kind == Kind::List { &self.lists[readers.lanes as usize][..] } else { &[] };
        list.iter().filter_map(|listed| match listed {
            Listed::Access(access) => Some(access),
            Listed::Readers(_) => None,
        })
    }

    fn stores(&self, cell: usize) -> usize {
        self.listed(cell).count()
    }

    /// A conflict of a reading thread, unless it is one of several that stored the same bits there without an order.
    #[cold]
    #[inline(never)]
    pub(super) fn unless_stored_too(&self, conflict: Conflict, cell: usize, actor: Actor) -> Result<(), Conflict> {
        let own = |access: &Access| access.did == Did::Write && access.is_weak() && access.is_by(actor);
        let stored = self.writers.get(cell).is_some_and(own) || self.listed(cell).any(own);
        if stored && matches!(conflict, Conflict::Unordered(_)) { Ok(()) } else { Err(conflict) }
    }

    /// Records a read after the usual check has found a conflict, if the reader may read its own bits.
    fn read_equal(
        &mut self,
        (clocks, detail): (&Clocks, Detail),
        (offset, bytes): (usize, usize),
        by: By,
    ) -> Result<(), Conflict> {
        let mut skip = 0;
        while skip < bytes {
            let (word, within) = ((offset + skip) / 4, (offset + skip) % 4);
            let bytes_of_word = if bytes < 4 { Some(self.bytes_of(word)) } else { self.split.get(&word).copied() };
            let (cell, len) = bytes_of_word.map_or((word, 4), |first| (first + within, 1));
            if let Err(conflict) = self.after_writer(clocks, cell, by.actor) {
                self.unless_stored_too(conflict, cell, by.actor)?;
            }
            self.record_reader(clocks, detail, cell, by)?;
            skip += len;
        }
        Ok(())
    }

    /// What a row's judge says about a lane's conflict.
    #[cold]
    #[inline(never)]
    pub(super) fn judged(
        &mut self,
        (clocks, detail): (&Clocks, Detail),
        (offset, row): (usize, &Row<'_>),
        by: By,
        lane: usize,
        conflict: Conflict,
        judge: &mut Option<JudgeLane<'_>>,
    ) -> Result<(), (usize, Conflict)> {
        let bytes = row.bytes;
        if row.did != Did::Write {
            return self.read_equal((clocks, detail), (offset, bytes), by).map_err(|conflict| (lane, conflict));
        }
        let (Conflict::Unordered(_), Some(judge)) = (conflict, judge) else { return Err((lane, conflict)) };
        let judge = &mut |skip: usize, len: usize, other: &Access| judge(lane, skip, len, other);
        self.write_equal(clocks, offset, bytes, by, judge).map_err(|conflict| (lane, conflict))
    }
}
