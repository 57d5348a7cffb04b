//! How many blocks per multiprocessor to demand of the assembler.
//!
//! What a schedule states is demanded. Otherwise nothing is, since ptxas mostly finds the better balance by itself: stating
//! one block makes it spend registers as if no second were wanted (`shared_32` on an H200 at 4096: 6.1 instead of 8.8
//! TFLOP/s), stating two makes it reorder what fits already (`vectorized`: 33.4 instead of 35.0). Two exceptions, measured
//! there as well:
//!
//! - accumulators that leave no room for a second block: ptxas may aim for one all the same, and spill them;
//! - a kernel that misses its second block by a few registers: `double_buffered` takes 167 if left alone and runs at 33.4;
//!   held to 128 it does not spill, and runs at 36.8. Before sm_90 it would spill, and is left alone.

use ptx_gemm_dsl::plan::{Fast, Load, OperandPlan, Operands, Plan, Variant};

/// Registers of a multiprocessor, and how finely they are given to a thread (CUDA C++ Programming Guide, technical
/// specifications per compute capability).
const REGISTERS: u32 = 65536;
const GRANULE: u32 = 8;

/// Registers for addresses, counters and predicates, as seen in SASS.
const ADDRESSES: u32 = 16;

/// The demand for one variant of a plan; absent: the assembler's choice.
pub(super) fn demand(plan: &Plan, variant: &Variant) -> Option<u32> {
    let for_two = REGISTERS / (2 * plan.geometry.threads) / GRANULE * GRANULE;
    if plan.blocks_per_sm > 1 || plan.accumulator_registers >= for_two {
        return Some(plan.blocks_per_sm);
    }
    if plan.target.capability < 90 {
        return None;
    }
    let live = live(plan, variant);
    // Within a tenth: what is squeezed out costs less than the block.
    (live > for_two && live * 10 <= for_two * 11).then_some(2)
}

/// Registers that hold data at once in the main loop.
fn live(plan: &Plan, variant: &Variant) -> u32 {
    let fragments = if plan.operands == Operands::Shared {
        2
    } else {
        fragment(plan, &plan.a, plan.geometry.thread.m) + fragment(plan, &plan.b, plan.geometry.thread.n)
    };
    // With more than one stage the next tile is on its way while this one is multiplied.
    let staged = plan.a.placement.is_some() && plan.stages > 1 && plan.load == Load::Registers;
    let words = |operand: &OperandPlan, n: u32| n * operand.dtype.bytes().div_ceil(4);
    let staging = if staged {
        words(&plan.a, variant.a.passes * variant.a.width) + words(&plan.b, variant.b.passes * variant.b.width)
    } else {
        0
    };
    plan.accumulator_registers + fragments + staging + ADDRESSES
}

/// Registers of one operand's fragments: groups of steps read at once, and as many again as are read ahead.
fn fragment(plan: &Plan, operand: &OperandPlan, count: u32) -> u32 {
    let group = match operand.placement {
        Some(placement) if placement.fast == Fast::K => operand.read_width,
        _ => 1,
    };
    count * group * (1 + plan.prefetch / group) * operand.dtype.bytes().div_ceil(4)
}
