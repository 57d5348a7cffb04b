//! The verifier of kernel IR. It derives what it can and trusts no flag. A kernel passes if
//!
//! Structure ([`structure`]):
//! - every register is defined on every path before its use (a guarded definition counts: its uses carry the guard);
//! - operands have the types that their statement requires;
//! - a vector access has 1, 2 or 4 elements and at most 16 bytes; an asynchronous copy has 4, 8 or 16 bytes;
//! - an outer product has one accumulator per row and column, none of them twice.
//!
//! Control ([`control`]), by the analysis in [`super::uniform`]:
//! - all threads of the block reach a barrier of the block, together;
//! - exactly the threads that a named barrier counts reach it, in whole warps and together, and no other threads use
//!   its number;
//! - whole warp groups start products of tensor cores and wait for them, together and with the same operands.
//!
//! Products of warp groups ([`products`]):
//! - a fence separates the threads' accesses to accumulators from the products added to them, and a wait precedes the
//!   next access by threads; every product that is waited for is in a group.
//!
//! Values ([`memory`], [`value`]), by an analysis of intervals, divisors and conditions:
//! - no register exceeds its declared bound, and no use of a register claims a smaller bound than can be derived;
//! - the thread's index is below the number that an expression claims for it;
//! - a shared access, with its guard, lies inside the block's shared memory, and is aligned to its size;
//! - a global access names the parameter that its pointer derives from; only a workspace is accessed without extents;
//! - a field is read from a record, and the record's address derives from that of a list;
//! - the register that measures what is left of a dimension derives from that dimension's extent;
//! - along each dimension, an access is in bounds for one of three reasons: enough is left where it is made, including
//!   what its guard implies; or its guard (or count of valid bytes) is false (or zero) unless some coordinate is below
//!   what is left of that dimension; or its pointer was computed from a coordinate that is clamped to the last one;
//! - a flag is in a workspace.
//!
//! Some properties are assumed, since they depend on how tiles are assigned to blocks and on the values of 64-bit
//! pointers:
//! - a block's tile exists: at least 1 is left of m and n from its origin, and origins are multiples of the tile;
//! - a record that is read is in its list, and the fields that describe a tile are those of one record;
//! - the tile of a matrix descriptor is in shared memory (the interpreter checks each product);
//! - the pointer and the guard's coordinate of an access agree with the interval that it states. Running the kernel in
//!   the interpreter checks this: it rejects every access outside a matrix.

mod analysis;
mod control;
mod evaluate;
mod memory;
mod products;
mod structure;
mod value;

use super::uniform::{Agreement, Uniformity, analyse};
use super::{Kernel, Reg};
use crate::Violation;

type Check = Result<(), Violation>;

/// A kernel that passed, and how far its threads agree on each condition.
#[derive(Clone, Debug)]
pub struct Verified<'k> {
    kernel: &'k Kernel,
    uniformity: Uniformity<'k>,
}

impl<'k> Verified<'k> {
    /// The kernel.
    pub fn kernel(&self) -> &'k Kernel {
        self.kernel
    }

    /// How far the condition of each branch and loop is uniform, in the order of the text.
    pub fn conditions(&self) -> &[Agreement] {
        &self.uniformity.conditions
    }
}

/// Checks `kernel` against the rules above.
///
/// # Errors
/// The first rule that is broken, with the statement that breaks it.
pub fn verify(kernel: &Kernel) -> Result<Verified<'_>, Violation> {
    structure::check(kernel)?;
    let uniformity = analyse(kernel);
    control::check(kernel, &uniformity)?;
    products::check(kernel)?;
    memory::check(kernel)?;
    Ok(Verified { kernel, uniformity })
}

#[inline]
fn rule(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Violation::new("kernel IR", message())) }
}

fn name(kernel: &Kernel, reg: Reg) -> String {
    kernel.display(reg).to_string()
}
