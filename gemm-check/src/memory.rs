//! Estimates the memory of a check, so that a large request is an error instead of an aborted process.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::error::CheckError;
use crate::request::Request;
use crate::size::Size;

/// Rejects a request if its matrices would not fit.
pub(crate) fn suffices(problem: &Problem, request: &Request) -> Result<(), CheckError> {
    let &Request { m, n, k, .. } = request;
    let needed = needed(problem, request);
    match available() {
        Some(available) if needed > u128::from(available) => {
            let mib = |bytes: u128| u64::try_from(bytes >> 20).unwrap_or(u64::MAX);
            Err(CheckError::TooLarge { m, n, k, needed: mib(needed), available: mib(available.into()) })
        }
        _ => Ok(()),
    }
}

/// Bytes for the values, both sums of the reference, the matrices in their own types, and their copies on the device.
fn needed(problem: &Problem, request: &Request) -> u128 {
    let different = if request.others.is_empty() { 1 } else { request.products() };
    (0..different).fold(0, |sum: u128, product| sum.saturating_add(needed_by(problem, request, product)))
}

/// The bytes for one product of a group, or for all of a batch.
fn needed_by(problem: &Problem, request: &Request, product: usize) -> u128 {
    let Size { m, n, k } = request.size(product);
    let [m, n, k] = [m, n, k].map(|extent| extent as u128);
    let values =
        m.saturating_mul(k).saturating_add(k.saturating_mul(n)).saturating_add(m.saturating_mul(n).saturating_mul(3));
    let types = problem.types;
    let operands = [(Operand::A, types.a), (Operand::B, types.b), (Operand::C, types.c), (Operand::D, types.d)];
    let typed = operands.into_iter().map(|(operand, dtype)| {
        let shape = request.shape_of(problem, product, operand);
        let ld = shape.ld.max(shape.min_ld()) as u128;
        let elements = if shape.is_empty() {
            0
        } else {
            (shape.runs() as u128 - 1).saturating_mul(ld).saturating_add(shape.run() as u128 + request.gap as u128)
        };
        elements.saturating_mul(u128::from(dtype.bytes()))
    });
    let typed = typed.fold(0u128, u128::saturating_add);
    let batch = request.batch as u128;
    // The interpreter keeps one additional bit per byte.
    values.saturating_mul(8).saturating_add(typed.saturating_mul(17) / 8).saturating_mul(batch)
}

/// Bytes that can be allocated without swapping, limited by the machine and by its container; `None` where the system
/// does not report them.
fn available() -> Option<u64> {
    let refreshed = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(refreshed);
    let of_container = system.cgroup_limits().map_or(u64::MAX, |limits| limits.free_memory);
    Some(system.available_memory().min(of_container)).filter(|&bytes| bytes > 0)
}
