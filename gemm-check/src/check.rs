//! One product, run and compared with its reference.

use ptx_gemm_dsl::DType;
use ptx_gemm_runtime::CompiledGemm;

use crate::bound::{Estimate, Rounding};
use crate::compare::Outcome;
use crate::data::Results;
use crate::error::CheckError;
use crate::given::{Given, Sums};
use crate::request::Request;
use crate::{epilogue, integer};

/// Runs the product of `request` and compares the result with the reference.
pub fn check(gemm: &CompiledGemm, request: &Request) -> Result<Outcome, CheckError> {
    let given = Given::new(gemm, request)?;
    let (run, d) = given.multiply(gemm)?;
    let mut outcome = Outcome::new(run);
    outcome.padding_intact = d.padding_is_intact();
    for product in 0..request.products() {
        match given.problem.types.epilogue() {
            DType::I32 => given.compare_integers(product, &d, &mut outcome),
            _ => given.compare_floats(product, &d, &mut outcome)?,
        }
    }
    Ok(outcome)
}

impl Given<'_> {
    fn compare_floats(&self, product: usize, d: &Results, outcome: &mut Outcome) -> Result<(), CheckError> {
        let stored = Rounding::of(self.problem.types.d);
        // The kernel may sum in any order.
        let references = self.references(product, epilogue::APPROXIMATE, Sums::Free)?;
        for (index, reference) in references.into_iter().enumerate() {
            let columns = self.request.size(product).n;
            let (row, col) = (index / columns, index % columns);
            outcome.compare(row, col, d.get(product, row, col), reference, stored);
        }
        Ok(())
    }

    fn compare_integers(&self, product: usize, d: &Results, outcome: &mut Outcome) {
        let Given { problem, input, .. } = self;
        let (a, b) = (&input.a[product], &input.b[product]);
        let sums = integer::product(a, b);
        for (index, &acc) in sums.iter().enumerate() {
            let (row, col) = (index / b.cols, index % b.cols);
            let operands = integer::Operands {
                acc,
                c: input.c_at(product, row, col) as i32,
                row,
                col,
                scalars: &input.scalars,
                vectors: input.vectors_of(product),
            };
            let Some(reference) = integer::evaluate(&problem.epilogue, &operands) else {
                outcome.undefined += 1;
                continue;
            };
            let reference = Estimate::exact(f64::from(reference)).stored(Rounding::of(problem.types.d));
            outcome.compare(row, col, d.get(product, row, col), reference, Rounding::of(problem.types.d));
        }
    }
}
