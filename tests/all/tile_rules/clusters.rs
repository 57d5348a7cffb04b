//! The rules of clusters of blocks.

const CLUSTER: &str = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                       specialize(producers = 1); persistent; cluster(2, 1); multicast(b)";
const CLUSTER_STAGED: &str = "types(bf16, d = f32); tile(64, 16, 32); atom(wgmma(64, 16, 16)); load(tma); stages(1); \
                              persistent; store(staged); cluster(2, 1); multicast(b)";
const CLUSTER_PLAIN: &str =
    "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(1); pace(tile); cluster(2, 1)";
const CLUSTER_SPLIT: &str = "tile(16, 16, 8); thread(2, 2); split_k(2); target(sm_90)";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    (CLUSTER, "cluster m 2, n 1", "cluster m 0, n 1", "a cluster has 1 to 8 blocks, not 0 x 1"),
    (CLUSTER, "cluster m 2, n 1", "cluster m 3, n 3", "a cluster has 1 to 8 blocks, not 3 x 3"),
    (CLUSTER, "cluster m 2, n 1", "cluster m 1, n 2", "no block of the cluster shares Bs: it has one tile along m"),
    (CLUSTER, "cluster m 2, n 1", "cluster m 4, n 1", "4 blocks cannot share 2 boxes of Bs, 2 in each panel"),
    (CLUSTER, "cluster m 2, n 1", "cluster 2 x 1", "expected `m`"),
    (CLUSTER, "module sm_90a", "module sm_80", "sm_80 has no clusters"),
    (CLUSTER, "tail predicate", "tail none", "`tail none` has no guards for them"),
    (CLUSTER, "    persistent", "    persistent blocks 3", "a wave is made of whole clusters of 2 blocks"),
    (CLUSTER, "by tma rows 32 multicast", "by tma rows 64 multicast", "2 blocks cannot share 1 boxes of Bs"),
    (CLUSTER, "by tma rows 32 multicast", "by tma rows 32", ""),
    (
        CLUSTER_PLAIN,
        "-> Bs by tma rows 64",
        "-> Bs by tma rows 32 multicast",
        "needs mbarriers for full and empty ones",
    ),
    (
        CLUSTER_SPLIT,
        "    parts 2",
        "    cluster m 2, n 1\n    stream_k",
        "the blocks of a cluster sum the same part of k, and stream-K gives each a share of its own",
    ),
    (CLUSTER_SPLIT, "    parts 2", "    cluster m 2, n 1\n    ;", "in a cluster, tma copies the operands"),
    (
        CLUSTER_STAGED,
        "pitch 20 at 5120 B",
        "pitch 20 at 0 B",
        "in memory of ab, which other blocks of the cluster fill",
    ),
];
