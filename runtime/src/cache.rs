//! A cache that creates each value once, even if several threads request it at the same time, and keeps a bounded
//! number of values.

use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;

use quick_cache::sync::Cache;

/// Values by key, made once per key. The cache crate decides what to evict when there are too many: values that were
/// used only once, long ago.
pub(crate) struct OncePerKey<K, V>(Cache<K, V>);

impl<K: Clone + Eq + Hash, V: Clone> OncePerKey<K, V> {
    /// An empty cache of at most `capacity` values.
    pub(crate) fn new(capacity: usize) -> OncePerKey<K, V> {
        OncePerKey(Cache::new(capacity))
    }

    /// The value of `key`, created by `make` if it does not exist yet. Concurrent requests for the same key wait for
    /// it; other keys are not blocked.
    pub(crate) fn get(&self, key: &K, make: impl FnOnce() -> V) -> V {
        let made = self.0.get_or_insert_with(key, || Ok::<V, Infallible>(make()));
        made.unwrap_or_else(|never| match never {})
    }

    /// Removes a value so that it is created again, for failures that may be temporary.
    pub(crate) fn forget(&self, key: &K) {
        self.0.remove(key);
    }
}

impl<K, V> fmt::Debug for OncePerKey<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OncePerKey")
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
    fn no_more_than_its_capacity_is_kept() {
        let cache = OncePerKey::new(2);
        for key in 0..100 {
            assert_eq!(cache.get(&key, || key * 10), key * 10);
        }
        let kept = (0..100).filter(|key| cache.get(key, || -1) != -1).count();
        assert!((1..=2).contains(&kept), "{kept} are kept");
        let cache = OncePerKey::new(2);
        cache.get(&1, || 10);
        cache.forget(&1);
        assert_eq!(cache.get(&1, || 11), 11);
    }
}
