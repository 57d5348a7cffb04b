//! The rules of products in flight: what they read, what they write, and who releases a slot.

use super::{GROUP, GROUPS, STAGED};

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    (GROUPS, "retire but 1", "; nothing", "ab: slot 0 is acquired while it may still be read"),
    (GROUPS, "retire but 1", "retire but 2", "ab: slot 0 is acquired while it may still be read"),
    (GROUPS, "retire but 1", "retire but 8", "at most 7 statements can be left in flight, not 8"),
    (GROUPS, "retire but 1", "retire", ""),
    (GROUPS, "release ab but 1", "release ab", "ab: it is released without a wait"),
    (GROUPS, "release ab but 1", "release ab but 2", "ab: two slots are released at once"),
    (
        GROUPS,
        "            release ab but 1",
        "            release ab but 1\n            release ab but 1",
        "ab: a slot is kept twice after one wait",
    ),
    (GROUPS, "release ab but 1", "; nothing", "a slot is waited for before the previous one is released"),
    (GROUPS, "\n          retire ", "\n          ; nothing", "acc is used while products are added to it"),
    (
        GROUPS,
        "\n          release ab ",
        "\n          ; nothing",
        "a slot of ab is waited for but not released when the tile ends",
    ),
    (GROUPS, "            wait ab", "            ; nothing", "ab is never waited for"),
    (GROUPS, "            acquire ab", "            retire\n            acquire ab", "starts no products"),
    (
        GROUPS,
        "            retire but 1",
        "            clear acc\n            retire but 1",
        "acc is used while products",
    ),
    (GROUP, "            retire ", "            ; nothing", "acc is used while products are added to it"),
    (GROUP, "            retire ", "            retire but 1 ", "acc is used while products"),
    (STAGED, "release ab", "release ab but 1", "ab has no mbarriers: `release ab but 1` needs them"),
    (GROUPS, "empty mbarrier(2)", "empty mbarrier(256)", "empty after 256 arrivals, but 2 warp groups read it"),
    (GROUPS, "empty mbarrier(2)", "empty mbarrier(1)", "empty after 1 arrivals, but 2 warp groups read it"),
    (GROUPS, "full mbarrier(1)", "full mbarrier(2)", "full after 2 arrivals, but 1 thread fills it"),
];
