//! Instructions of the tensor cores: matrices between registers and shared memory, and products of matrices. All 32
//! threads of a warp execute them together.

mod descriptor;
mod doubles;
mod fragments;
pub(super) mod group;
mod landing;
mod matrices;
mod others;
mod sums;
mod wmma;

use pulp::{Arch, Simd, WithSimd};

use self::fragments::Undefined;
use self::sums::{COLUMNS, DEPTH, Left, ROWS, Right};
use crate::env::{BlockMemory, Env};
use crate::op::{Factors, Multiply, Op};
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// Executes an instruction of one warp.
#[inline(never)]
pub(super) fn execute<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    op: &Op,
    pc: u32,
) -> Checked {
    whole(warp, env)?;
    match *op {
        Op::Matrices { index } => {
            matrices::execute::<WATCH>(warp, block, env, &env.code.matrices[index as usize], pc)?;
        }
        Op::Multiply { index } => {
            let multiply = &env.code.multiplies[index as usize];
            Arch::new().dispatch(Product { warp, multiply });
            if WATCH {
                taint(warp, multiply);
            }
        }
        Op::DoubleMultiply { index } => {
            let multiply = &env.code.double_multiplies[index as usize];
            doubles::product(warp, multiply);
            if WATCH {
                doubles::taint(warp, multiply);
            }
        }
        Op::Fragment { index } => wmma::execute::<WATCH>(warp, block, env, &env.code.fragments[index as usize], pc)?,
        Op::FragmentMultiply { index } => {
            let multiply = &env.code.fragment_multiplies[index as usize];
            // D may overlap the operands.
            let undefined = if WATCH { wmma::undefined(warp, multiply) } else { Default::default() };
            wmma::product(warp, multiply);
            if WATCH {
                wmma::taint(warp, multiply, &undefined);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks that all 32 threads of a warp execute an instruction.
fn whole(warp: &Warp, env: &Env) -> Checked {
    if warp.live == u32::MAX || !env.watches(ViolationKind::BarrierMismatch) {
        return Ok(());
    }
    let message = format!(
        "{} threads of a warp execute an instruction that needs all 32 of them: {} do not exist, {} have exited",
        warp.live.count_ones(),
        (!warp.exists).count_ones(),
        (warp.exists & !warp.live).count_ones()
    );
    Err(Fault::new(ViolationKind::BarrierMismatch, warp.live, message))
}

/// The product of one warp, dispatched to the widest instruction set of the host.
struct Product<'a> {
    warp: &'a mut Warp,
    multiply: &'a Multiply,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        product(self.warp, self.multiply);
    }
}

/// D = A B + C over the fragments of one warp.
#[inline(always)]
fn product(warp: &mut Warp, multiply: &Multiply) {
    let Multiply { factors, sum, depth, d, c, .. } = multiply;
    let depth = usize::from(*depth);
    let (mut left, mut right) = ([[0; DEPTH]; ROWS], [[0; COLUMNS]; DEPTH]);
    fragments::left(&warp.regs, multiply.left(), &mut left);
    fragments::right(&warp.regs, multiply.right(), &mut right);
    let factor = match factors {
        Factors::Half(factor) => factor,
        Factors::Other(other) => {
            let registers = sum_registers(multiply);
            let mut sums = [[0; COLUMNS]; ROWS];
            fragments::raw_sums(&warp.regs, *sum, &c[..registers], &mut sums);
            others::multiply((*other, *sum), depth, &left, &right, &mut sums);
            fragments::store_raw_sums(&mut warp.regs, *sum, &d[..registers], &sums);
            warp.fma += u64::from(multiply.rows) * (COLUMNS * depth) as u64 * factors.per_row() / 16;
            return;
        }
    };
    let mut sums = [[0.0; COLUMNS]; ROWS];
    fragments::sums(&warp.regs, *sum, c, &mut sums);
    let (left, right) = (Left::new(*factor, &left), Right::new(*factor, &right));
    sums::multiply((*factor, *sum), depth, &left, &right, &mut sums);
    fragments::store_sums(&mut warp.regs, *sum, d, &sums);
    warp.fma += (ROWS * COLUMNS * depth) as u64;
}

/// Registers of C or D.
fn sum_registers(multiply: &Multiply) -> usize {
    fragments::sum_registers(multiply.sum) * usize::from(multiply.rows) / ROWS
}

/// An element of D depends on a row of A, a column of B and an element of C.
fn taint(warp: &mut Warp, multiply: &Multiply) {
    let Multiply { sum, d, c, .. } = multiply;
    let mut undefined = Undefined::default();
    undefined.add_left(&warp.taint, multiply.left());
    undefined.add_right(&warp.taint, multiply.right());
    let count = sum_registers(multiply);
    let of_c = c.map(|slot| (warp.taint.mask(warp.taint.at32(slot)), warp.taint.origin(warp.taint.at32(slot))));
    for (index, slot) in d[..count].iter().enumerate() {
        let (mask, origin) = of_c[index];
        let of_products = undefined.lanes(*sum, index);
        let origin = if of_products != 0 { undefined.origin } else { origin };
        warp.taint.set(warp.taint.at32(*slot), of_products | mask, origin, u32::MAX);
    }
}
