//! Rings that TMA refills as soon as all threads have signalled that they have read a slot, where bank conflicts hold up these
//! reads. Without a fence before the signals, an H200 multiplied wrongly with each of these schedules, every time.

use ptx_gemm::Device;
use ptx_gemm_check::{Request, check};

use super::claims::{Answer, Trouble, expect};
use super::inputs::compiled;

const RING: &str = "load(tma); stages(2); specialize(producers = 1 warp);";

const SCHEDULES: [&str; 5] = [
    "tile(64, 64, 32); thread(4, 4); layout(b = col); shared(b = nk); pace(free);",
    "tile(64, 64, 32); thread(8, 1); layout(b = col); shared(b = nk); pace(free);",
    "tile(32, 64, 32); thread(2, 4); layout(b = col); shared(a = mk, b = nk); fragment(1, 1); pace(free);",
    "types(bf16); tile(128, 128, 32); warp(32, 64); atom(mma(16, 8, 16)); pace(free);",
    "types(f32); tile(16, 256, 16); warp(16, 64); atom(mma(16, 8, 16)); emulate(bf16x9);",
];

/// The first target with TMA.
const HOPPER: u32 = 90;

pub(crate) fn right(device: &Device) -> Answer {
    if device.limits().target.is_none_or(|target| target.capability < HOPPER) {
        return Err(Trouble::Skipped(format!("{device} has no TMA")));
    }
    const M: usize = 256;
    const K: usize = 1600;
    for schedule in SCHEDULES {
        let gemm = compiled(&format!("{schedule} {RING}"), device)?;
        let outcome = check(&gemm, &Request::exact(M, M, K)).map_err(|error| Trouble::Wrong(error.to_string()))?;
        expect(outcome.is_right(), || format!("{schedule} {RING} {M} x {M} x {K}: {outcome}"))?;
    }
    Ok(format!("{M} x {M} x {K} by {} schedules with bank conflicts: exact", SCHEDULES.len()))
}
