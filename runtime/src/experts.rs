//! Mixtures of experts: ranges of the rows of one matrix, each with weights of its own, as one group.

use ptx_gemm_dsl::types::Problem;

use crate::arguments::DeviceMatrix;
use crate::compiled::CompiledGemm;
use crate::error::{ArgumentError, Error};
use crate::group::{DeviceGroup, DeviceProduct};
use crate::prepared::{Prepared, ResidentCall};
use crate::resident::Resident;

/// The products of a layer of experts, on [`Resident`] matrices: tokens are rows of A, sorted by expert.
#[derive(Clone, Copy, Debug)]
pub struct ExpertsCall<'a, 's> {
    /// A, with K columns.
    pub a: &'a Resident,
    /// D, with N columns. Its elements in the experts' rows change with each launch.
    pub d: &'a Resident,
    /// Of each expert the number of its rows, which may be 0, and its B, K x N. The rows of the first one are the first rows of
    /// A and of D, and those of the others follow.
    pub experts: &'s [(usize, &'a Resident)],
    /// The epilogue's scalars by name.
    pub scalars: &'s [(&'s str, f64)],
}

impl CompiledGemm {
    /// Checks the products of a layer of experts once, for many launches that are not waited for, by a schedule with
    /// `batch(grouped)`.
    pub fn prepare_experts<'a>(&self, call: &ExpertsCall<'a, '_>) -> Result<Prepared<'a>, Error> {
        let ExpertsCall { a, d, experts, scalars } = *call;
        for (_, b) in experts {
            ResidentCall { a, b, c: None, d, vectors: &[], scalars }.check(self.problem(), self.device())?;
        }
        let products = products(self.problem(), call)?;
        // SAFETY: the matrices are borrowed for as long as launches are possible, and freeing one waits for the device.
        #[allow(unsafe_code)]
        unsafe {
            self.prepare_group(&DeviceGroup { products: &products, scalars })
        }
    }
}

fn products(problem: &Problem, call: &ExpertsCall<'_, '_>) -> Result<Vec<DeviceProduct<'static>>, ArgumentError> {
    let (a, d, types) = (call.a.matrix(), call.d.matrix(), problem.types);
    let mut first = 0;
    let mut products = Vec::new();
    for (rows, b) in call.experts {
        let part = |of: DeviceMatrix, dtype| of.block(dtype, first, 0, *rows, of.shape.cols);
        let parts = part(a, types.a).zip(part(d, types.d));
        let (a, d) = parts.ok_or_else(|| ArgumentError::ExpertRows {
            needed: call.experts.iter().fold(0, |sum, (rows, _)| sum.saturating_add(*rows)),
            a: a.shape.rows,
            d: d.shape.rows,
        })?;
        products.push(DeviceProduct { a, b: b.matrix(), c: None, d, vectors: &[] });
        first += rows;
    }
    Ok(products)
}
