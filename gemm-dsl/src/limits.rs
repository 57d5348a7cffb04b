//! The ranges of the numbers in clauses, for the rules and the reference.

use std::ops::RangeInclusive;

/// Instructions of one thread's epilogue. A kernel contains it up to six times: in each entry, for interior and for
/// edge tiles. ptxas takes 5 s for 27,000 instructions, and the interpreter reads about 100,000.
pub const EPILOGUE: u32 = 16_384;
/// Extents of a tile along one dimension.
pub const EXTENT: RangeInclusive<u32> = 1..=32_768;
/// Elements of a pad: many times the longest row that a bank-conflict argument can need.
pub const PAD: RangeInclusive<u32> = 0..=1024;
/// Spans of a swizzle, in bytes.
pub const SWIZZLES: &[u32] = &[32, 64, 128];
/// Elements of an access, a power of two.
pub const WIDTH: RangeInclusive<u32> = 1..=1024;
/// Stages of the pipeline.
pub const STAGES: RangeInclusive<u32> = 1..=64;
/// Unrolled steps of k.
pub const UNROLL: RangeInclusive<u32> = 1..=1024;
/// Prefetch distance of fragments, in steps of k.
pub const PREFETCH: RangeInclusive<u32> = 0..=64;
/// Blocks per multiprocessor.
pub const BLOCKS: RangeInclusive<u32> = 1..=32;
/// Rows or columns of tiles in a band.
pub const GROUP: RangeInclusive<u32> = 1..=65_535;
/// Blocks of a persistent kernel.
pub const WAVE: RangeInclusive<u32> = 1..=65_535;
/// Parts of K.
pub const PARTS: RangeInclusive<u32> = 1..=1024;
/// Elements of k between two promotions.
pub const EVERY: &[u32] = &[16, 32, 64, 128, 256];
/// Levels of `strassen`.
pub const LEVELS: RangeInclusive<u32> = 1..=2;
/// Blocks of a cluster, along one dimension and in total.
pub const CLUSTER: RangeInclusive<u32> = 1..=8;
/// Warps per role.
pub const WARPS: RangeInclusive<u32> = 1..=31;
/// Warp groups per role.
pub const GROUPS: RangeInclusive<u32> = 1..=7;
/// Extents of a product, and products of a batch: what a launch takes.
pub const PRODUCT: RangeInclusive<u32> = 1..=MAX_EXTENT;
/// The largest m, n or k that a launch accepts. An extent plus a number below 2^16 then fits 32 bits, and no extent
/// equals `u32::MAX`, which means "more than any".
pub const MAX_EXTENT: u32 = u32::MAX - 65_535;
/// Registers per thread of a role, a multiple of 8 (PTX ISA, setmaxnreg).
pub const REGISTERS: RangeInclusive<u32> = 24..=256;
