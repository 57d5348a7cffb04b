//! Kernels that each show one mechanism: those whose checks are held to planted faults before a release.
//!
//! `gemmc mutants --mechanisms` judges them, in `.ci/full`. A schedule that combines mechanisms which are here needs no judging of
//! its own.

/// A way to compute a product, and the case that shows it with the least else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The name of the case.
    pub case: &'static str,
    /// What it shows, in a few words.
    pub shows: &'static str,
}

/// All of them, from threads that multiply by themselves to groups, planes and plans of launches.
pub const MECHANISMS: [Mechanism; 31] = [
    of("naive", "operands from global memory"),
    of("thread_2d", "fragments that each product reads again"),
    of("vectorized_bf16", "elements of 16 bits on FMA units"),
    of("double_buffered", "two stages, copied through registers"),
    of("warp_tiled", "tiles of warps, padded shared memory"),
    of("direct_16x16_i32", "integers, 256 results a thread"),
    of("nn_64x64_split4", "split K, sums in the workspace"),
    of("mma_turing", "tensor cores, copied through registers"),
    of("mma_stages", "tensor cores, a ring of asynchronous copies"),
    of("mma_f16", "accumulators of f16"),
    of("mma_tf32", "fragments that threads round"),
    of("mma_f64", "fragments that lanes load one by one"),
    of("producer_warps", "producer warps, swizzled shared memory"),
    of("tma_persistent", "TMA, persistent blocks"),
    of("tma_stream_k", "stream-K"),
    of("nn_64x128_tma", "operands packed for TMA, D stored by TMA"),
    of("wgmma_specialized", "products of a warp group, a producer warp"),
    of("wgmma_warp_groups", "a tile divided among warp groups along n"),
    of("wgmma_pingpong", "warp groups that take turns"),
    of("wgmma_cluster", "a cluster with multicast"),
    of("wgmma_lent", "the tile of D in stages of the pipeline"),
    of("wgmma_c", "C copied by TMA"),
    of("wgmma_e4m3", "sums of few bits, promoted"),
    of("wgmma_few_rows", "the transpose of a skinny product"),
    of("wgmma_exchange", "sums exchanged in a cluster"),
    of("bf16_even64x64", "rows divided evenly among tiles"),
    of("grouped_wgmma", "a group of products"),
    of("grouped_transposed", "a group with tiles of many widths"),
    of("emulate_f16x3", "f32 from planes of f16, with scales"),
    of("bf16x6_compensated", "promotion with compensated sums"),
    of("strassen", "a plan of launches"),
];

const fn of(case: &'static str, shows: &'static str) -> Mechanism {
    Mechanism { case, shows }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ptx_gemm_dsl::Schedule;

    use super::MECHANISMS;
    use crate::{case, cases};

    fn clauses(schedule: &Schedule) -> Vec<&'static str> {
        schedule.clauses().map(|clause| clause.name()).collect()
    }

    /// A clause that is new in a case is a mechanism that planted faults have to reach.
    #[test]
    fn they_have_every_clause_that_a_case_has() {
        let of = |name: &str| clauses(&case(name).unwrap_or_else(|| panic!("no case {name}")).schedule().unwrap());
        let shown: BTreeSet<&str> = MECHANISMS.iter().flat_map(|mechanism| of(mechanism.case)).collect();
        let all: BTreeSet<&str> = cases().flat_map(|case| clauses(&case.schedule().unwrap())).collect();
        assert!(all.len() > 30, "{all:?}");
        assert!(all.is_subset(&shown), "no mechanism has {:?}", all.difference(&shown));
        let names: BTreeSet<&str> = MECHANISMS.iter().map(|mechanism| mechanism.case).collect();
        assert_eq!(names.len(), MECHANISMS.len());
    }
}
