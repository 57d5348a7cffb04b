//! A cache that makes each value once, however many threads ask at the same time, and keeps a bounded number of them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Values by key, made once per key.
#[derive(Debug)]
pub(crate) struct OncePerKey<K, V> {
    capacity: usize,
    state: Mutex<State<K, V>>,
}

#[derive(Debug)]
struct State<K, V> {
    cells: HashMap<K, Arc<OnceLock<V>>>,
    /// Oldest first.
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V: Clone> OncePerKey<K, V> {
    /// An empty cache of at most `capacity` values; the oldest one leaves when another comes.
    pub(crate) fn new(capacity: usize) -> OncePerKey<K, V> {
        OncePerKey { capacity, state: Mutex::new(State { cells: HashMap::new(), order: VecDeque::new() }) }
    }

    /// The value of `key`: made by `make` if nobody has made it yet. Others who ask for the same key meanwhile wait for
    /// it; other keys are not held up.
    pub(crate) fn get(&self, key: &K, make: impl FnOnce() -> V) -> V {
        let cell = self.cell(key);
        cell.get_or_init(make).clone()
    }

    /// Lets a value be made again: a failure that may pass.
    pub(crate) fn forget(&self, key: &K) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cells.remove(key);
        state.order.retain(|kept| kept != key);
    }

    fn cell(&self, key: &K) -> Arc<OnceLock<V>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = state.cells.get(key) {
            return cell.clone();
        }
        let cell = Arc::new(OnceLock::new());
        state.cells.insert(key.clone(), cell.clone());
        state.order.push_back(key.clone());
        if state.order.len() > self.capacity
            && let Some(oldest) = state.order.pop_front()
        {
            state.cells.remove(&oldest);
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::OncePerKey;

    #[test]
    fn sixteen_threads_make_a_value_once() {
        let cache = OncePerKey::new(4);
        let made = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let value = cache.get(&"key", || {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        made.fetch_add(1, Ordering::Relaxed)
                    });
                    assert_eq!(value, 0);
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_oldest_value_leaves() {
        let cache = OncePerKey::new(2);
        for key in [1, 2, 3] {
            cache.get(&key, || key * 10);
        }
        assert_eq!(cache.get(&3, || 0), 30);
        assert_eq!(cache.get(&1, || 11), 11);
    }
}
