//! Device memory that successive calls on host data reuse, without calling the driver each time.
//!
//! A block goes to the next call that needs exactly its size, usually the same product again. Everything that accesses
//! these blocks is on one stream, which orders a block's next use after its last.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Blocks and bytes that are kept while no call uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) blocks: usize,
    pub(crate) bytes: u64,
}

/// Memory that is not in use.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity: Capacity,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// Size and address, oldest first.
    blocks: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl Pool {
    pub(crate) fn new(capacity: Capacity) -> Pool {
        Pool { capacity, idle: Mutex::default() }
    }

    /// A block of this size, if one is idle: the most recently used.
    pub(crate) fn take(&self, bytes: u64) -> Option<u64> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.blocks.iter().rposition(|&(size, _)| size == bytes)?;
        let (size, address) = idle.blocks.remove(at)?;
        idle.bytes -= size;
        Some(address)
    }

    /// Keeps a block; returns those in excess of the limit, for the driver.
    pub(crate) fn put(&self, bytes: u64, address: u64) -> Vec<u64> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.blocks.push_back((bytes, address));
        idle.bytes += bytes;
        let mut surplus = Vec::new();
        while idle.blocks.len() > self.capacity.blocks || idle.bytes > self.capacity.bytes {
            let Some((size, address)) = idle.blocks.pop_front() else { break };
            idle.bytes -= size;
            surplus.push(address);
        }
        surplus
    }

    /// Every idle block, for the driver.
    pub(crate) fn drain(&self) -> Vec<u64> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.bytes = 0;
        idle.blocks.drain(..).map(|(_, address)| address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Capacity, Pool};

    #[test]
    fn a_block_goes_to_one_user_of_its_size() {
        let pool = Pool::new(Capacity { blocks: 8, bytes: 100 });
        assert_eq!(pool.take(10), None);
        assert!(pool.put(10, 1).is_empty() && pool.put(20, 2).is_empty() && pool.put(10, 3).is_empty());
        assert_eq!([pool.take(15), pool.take(10), pool.take(10), pool.take(10)], [None, Some(3), Some(1), None]);
        assert_eq!((pool.drain(), pool.take(20)), (vec![2], None));
    }

    #[test]
    fn idle_memory_is_bounded() {
        let pool = Pool::new(Capacity { blocks: 2, bytes: 100 });
        assert_eq!([pool.put(40, 1), pool.put(40, 2), pool.put(10, 3)], [vec![], vec![], vec![1]]);
        assert_eq!([pool.put(95, 4), pool.put(101, 5)], [vec![2, 3], vec![4, 5]]);
        assert!(pool.drain().is_empty());
    }
}
