//! Mixtures of experts: ranges of the rows of one matrix, each with its own weights, as one group.

use ptx_gemm_dsl::types::Problem;

use crate::arguments::{DeviceMatrix, DeviceVector};
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
    /// The experts. The rows of the first one are the first rows of A and of D, and those of the others follow.
    pub experts: &'s [Expert<'a, 's>],
    /// The epilogue's scalars by name.
    pub scalars: &'s [(&'s str, f64)],
}

/// One expert of an [`ExpertsCall`].
#[derive(Clone, Copy, Debug)]
pub struct Expert<'a, 's> {
    /// The number of its rows, which may be 0.
    pub rows: usize,
    /// Its weights: B, K x N.
    pub b: &'a Resident,
    /// The epilogue's vectors by name: along n with N elements, along m with one for each of its rows.
    pub vectors: &'s [(&'s str, &'a Resident)],
}

impl CompiledGemm {
    /// Checks the products of a layer of experts once, for many launches without a wait, by a schedule with
    /// `batch(grouped)`.
    pub fn prepare_experts<'a>(&self, call: &ExpertsCall<'a, '_>) -> Result<Prepared<'a>, Error> {
        let ExpertsCall { a, d, experts, scalars } = *call;
        for Expert { b, vectors, .. } in experts {
            ResidentCall { a, b, c: None, d, vectors, scalars }.check(self.problem(), self.device())?;
        }
        let vectors: Vec<_> = experts.iter().map(Expert::vectors_on_device).collect();
        let products = products(self.problem(), call, &vectors)?;
        // SAFETY: the matrices are borrowed for as long as launches are possible, and freeing one waits for the device.
        #[allow(unsafe_code)]
        unsafe {
            self.prepare_group(&DeviceGroup { products: &products, scalars })
        }
    }
}

impl<'s> Expert<'_, 's> {
    fn vectors_on_device(&self) -> Vec<(&'s str, DeviceVector)> {
        self.vectors.iter().map(|(name, vector)| (*name, vector.vector())).collect()
    }
}

fn products<'v>(
    problem: &Problem,
    call: &ExpertsCall<'_, '_>,
    vectors: &'v [Vec<(&'v str, DeviceVector)>],
) -> Result<Vec<DeviceProduct<'v>>, ArgumentError> {
    let (a, d, types) = (call.a.matrix(), call.d.matrix(), problem.types);
    let mut first = 0;
    let mut products = Vec::new();
    for (Expert { rows, b, .. }, vectors) in call.experts.iter().zip(vectors) {
        let part = |of: DeviceMatrix, dtype| of.block(dtype, first, 0, *rows, of.shape.cols);
        let parts = part(a, types.a).zip(part(d, types.d));
        let (a, d) = parts.ok_or_else(|| ArgumentError::ExpertRows {
            needed: call.experts.iter().fold(0, |sum: usize, expert| sum.saturating_add(expert.rows)),
            a: a.shape.rows,
            d: d.shape.rows,
        })?;
        products.push(DeviceProduct { a, b: b.matrix(), c: None, d, vectors });
        first += rows;
    }
    Ok(products)
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Schedule;

    use super::{Expert, ExpertsCall};
    use crate::backend::StreamHandle;
    use crate::compiled::CompiledGemm;
    use crate::device::Device;
    use crate::matrix::Matrix;
    use crate::resident::Resident;

    /// Each expert adds its own bias to its own rows, and each row has its own shift.
    #[test]
    fn experts_have_vectors_of_their_own() {
        let schedule: Schedule =
            "tile(8, 8, 4); thread(2, 2); batch(grouped); epilogue(|acc, bias, shift| acc + bias[n] + shift[m]);"
                .parse()
                .unwrap();
        let device = Device::interpreter();
        let gemm = CompiledGemm::new(&schedule, &device).unwrap();
        let upload = |matrix: &Matrix<f32>| device.upload(matrix).unwrap();
        let x = upload(&Matrix::from_fn(12, 1, |i, _| i as f32));
        let ones = upload(&Matrix::from_fn(1, 3, |_, _| 1.0));
        let d = upload(&Matrix::zeros(12, 3));
        let rows = [5, 0, 7];
        let biases = rows.map(|rows| upload(&Matrix::from_fn(1, 3, |_, j| (100 * rows + j) as f32)));
        let shifts = rows.map(|rows| upload(&Matrix::from_fn(1, rows, |_, i| 1000.0 * (i + 1) as f32)));
        let named: Vec<[(&str, &Resident); 2]> =
            biases.iter().zip(&shifts).map(|(bias, shift)| [("bias", bias), ("shift", shift)]).collect();
        let experts: Vec<Expert<'_, '_>> =
            rows.iter().zip(&named).map(|(&rows, vectors)| Expert { rows, b: &ones, vectors }).collect();
        let call = ExpertsCall { a: &x, d: &d, experts: &experts, scalars: &[] };
        gemm.prepare_experts(&call).unwrap().enqueue(StreamHandle(0), false).unwrap();
        let mut result = Matrix::zeros(12, 3);
        d.download(&mut result).unwrap();
        let of = |i: usize, j: usize| {
            let (rows, first) = if i < 5 { (5, 0) } else { (7, 5) };
            i as f32 + (100 * rows + j) as f32 + 1000.0 * (i - first + 1) as f32
        };
        assert_eq!(result, Matrix::from_fn(12, 3, of));
        let short = Expert { vectors: &named[0], ..experts[2] };
        assert!(gemm.prepare_experts(&ExpertsCall { experts: &[short], ..call }).is_err(), "shift has 5 elements");
    }
}
