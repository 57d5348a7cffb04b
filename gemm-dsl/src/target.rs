//! GPU targets and their limits.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::diagnostic::Diagnostic;
use crate::suggest;
use crate::token::abridged;

/// A compilation target: a compute capability, with or without the architecture-specific `a` instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Major times ten plus minor: 75, 80, 90 ...
    pub capability: u32,
    /// `sm_90a`: instructions that run on exactly this capability.
    pub specific: bool,
}

impl Target {
    /// Turing.
    pub const SM_75: Target = Target { capability: 75, specific: false };
    /// Ampere, A100.
    pub const SM_80: Target = Target { capability: 80, specific: false };
    /// Ampere, consumer.
    pub const SM_86: Target = Target { capability: 86, specific: false };
    /// Ada.
    pub const SM_89: Target = Target { capability: 89, specific: false };
    /// Hopper.
    pub const SM_90: Target = Target { capability: 90, specific: false };
    /// Hopper with TMA multicast, wgmma, setmaxnreg.
    pub const SM_90A: Target = Target { capability: 90, specific: true };
    /// Blackwell, data centre.
    pub const SM_100: Target = Target { capability: 100, specific: false };
    /// Blackwell, consumer.
    pub const SM_120: Target = Target { capability: 120, specific: false };

    /// The targets that a schedule may name, in the order of preference for a default.
    pub const ALL: [Target; 8] = [
        Target::SM_75,
        Target::SM_80,
        Target::SM_86,
        Target::SM_89,
        Target::SM_90,
        Target::SM_90A,
        Target::SM_100,
        Target::SM_120,
    ];
}

impl Target {
    /// The newest target without architecture-specific instructions that a device of `capability` runs.
    pub fn newest(capability: u32) -> Option<Target> {
        Target::ALL.into_iter().filter(|target| !target.specific && target.runs_on(capability)).max()
    }
}

/// Threads of a warp, on every target.
pub const WARP: u32 = 32;
/// Threads of a warp group.
pub const WARP_GROUP: u32 = 4 * WARP;

/// Barriers of a block; barrier 0 is for all threads (PTX ISA, `bar`).
pub const BARRIERS: u32 = 16;

/// The maximum number of threads in a block, on every target.
pub const MAX_THREADS: u32 = 1024;

/// The maximum number of registers of a thread, on every target.
pub const MAX_REGISTERS: u32 = 255;

/// The widest access of a thread to memory, in bytes, on every target.
pub const MAX_ACCESS_BYTES: u32 = 16;

/// The narrowest asynchronous copy of a thread, in bytes (PTX ISA, "cp.async").
pub const LEAST_ASYNC_BYTES: u32 = 4;

/// Alignment in shared memory of a box that TMA copies, in bytes (PTX ISA, "cp.async.bulk.tensor").
pub const BOX_ALIGN: u32 = 128;

/// Bytes of a tensor map (CUDA driver API, `CUtensorMap`).
pub const MAP_BYTES: u32 = 128;

/// Bytes of an mbarrier (PTX ISA, "mbarrier").
pub const MBARRIER_BYTES: u32 = 8;

/// Bytes of two mbarriers, such as the full and empty barriers of a slot.
pub const MBARRIER_PAIR: u32 = 2 * MBARRIER_BYTES;

/// The maximum number of elements of a box along each dimension (CUDA driver API, `cuTensorMapEncodeTiled`).
pub const MAX_BOX: u32 = 256;
/// Granularity in columns of a group's narrower tiles. Instructions allow multiples of 8 (PTX ISA, "wgmma.mma_async"),
/// but twice as many loops left the time of two groups unchanged on an H200, within 1%.
pub const GRAIN: u32 = 16;
/// Rows after which a swizzle repeats; a swizzled tile begins at a multiple of it.
pub const SWIZZLED_ROWS: u32 = 8;
/// Bytes after which the widest swizzle repeats: its rows have 128 bytes.
pub const SWIZZLE_PERIOD: u32 = SWIZZLED_ROWS * 128;

/// Registers of one multiprocessor, and the maximum of one block, on every target.
pub const REGISTER_FILE: u32 = 65536;

/// Shared memory of a block without opting in, in bytes, on every target.
pub const STATIC_SHARED_BYTES: u32 = 48 * 1024;

/// The dynamic shared memory that a launch requests for each block, in bytes: all of it if it exceeds a module's static
/// limit.
pub fn dynamic_shared_bytes(bytes: u32) -> u32 {
    if bytes > STATIC_SHARED_BYTES { bytes } else { 0 }
}

/// The allocation unit of registers for a warp, in registers per lane. Warps are allocated in fours, one for each
/// scheduler (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; ptxas 13.0's response to
/// `.minnctapersm`).
const GRANULE: u64 = 8;
const SCHEDULERS: u64 = 4;

/// Registers per thread when `blocks` blocks share a multiprocessor.
pub fn registers_per_thread(threads: u32, blocks: u32) -> u32 {
    let warps = u64::from(threads.div_ceil(WARP)).saturating_mul(u64::from(blocks)).max(1);
    let lanes = warps.next_multiple_of(SCHEDULERS).saturating_mul(u64::from(WARP));
    let share = u64::from(REGISTER_FILE) / lanes / GRANULE * GRANULE;
    share.min(u64::from(MAX_REGISTERS)) as u32
}

/// Limits per compute capability: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
impl Target {
    /// The maximum shared memory of one block after opting in, in bytes.
    pub fn max_shared_bytes(self) -> u32 {
        match self.capability {
            75 => 64 * 1024,
            80 => 163 * 1024,
            90 | 100 => 227 * 1024,
            _ => 99 * 1024,
        }
    }

    /// Shared memory of one multiprocessor, in bytes.
    pub fn sm_shared_bytes(self) -> u32 {
        match self.capability {
            75 => 64 * 1024,
            80 => 164 * 1024,
            90 | 100 => 228 * 1024,
            _ => 100 * 1024,
        }
    }

    /// Shared memory that the system reserves in each block, in bytes.
    pub fn reserved_shared_bytes(self) -> u32 {
        if self.capability < 80 { 0 } else { 1024 }
    }

    /// The maximum number of threads that one multiprocessor holds.
    pub fn sm_threads(self) -> u32 {
        match self.capability {
            75 => 1024,
            80 | 90 | 100 => 2048,
            _ => 1536,
        }
    }

    /// The maximum number of blocks that one multiprocessor holds.
    pub fn sm_blocks(self) -> u32 {
        match self.capability {
            75 | 86 => 16,
            89 | 120 => 24,
            _ => 32,
        }
    }

    /// True if code for `self` runs on a device of `capability`.
    pub fn runs_on(self, capability: u32) -> bool {
        if self.specific { capability == self.capability } else { capability >= self.capability }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.capability, if self.specific { "a" } else { "" })
    }
}

impl FromStr for Target {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Target, Diagnostic> {
        if let Some(target) = Target::ALL.into_iter().find(|target| target.to_string() == text) {
            return Ok(target);
        }
        let names = Target::ALL.map(|target| target.to_string());
        let names = || names.iter().map(String::as_str);
        let diagnostic = Diagnostic::error("unknown-word", "target", format!("unknown target `{}`", abridged(text)));
        Err(match suggest::nearest(text, names()) {
            Some(near) => diagnostic.meant(near),
            None => diagnostic.help(format!("one of {}", suggest::list(names()))),
        })
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::registers_per_thread;

    #[test]
    fn registers_are_shared_by_warps_in_fours() {
        // The register limits of ptxas 13.0 for a number of threads and of blocks per multiprocessor.
        for (threads, blocks, registers) in
            [(256, 2, 128), (1024, 1, 64), (512, 4, 32), (64, 9, 96), (64, 8, 128), (320, 1, 168), (96, 6, 96)]
        {
            assert_eq!(registers_per_thread(threads, blocks), registers, "{threads} x {blocks}");
        }
        assert_eq!(registers_per_thread(1, 1), 255, "no thread can name more");
        assert_eq!(registers_per_thread(u32::MAX, u32::MAX), 0);
        assert_eq!(registers_per_thread(0, 0), 255);
    }
}
