//! The extents of a product.

use std::fmt;

use ptx_gemm_dsl::plan::MAX_EXTENT;
use ptx_gemm_dsl::types::{DType, Types};

/// Extents of a product, and the number of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Products in one launch.
    pub batch: usize,
}

impl Size {
    /// One product with three equal extents.
    pub fn cube(extent: usize) -> Size {
        Size::of([extent; 3])
    }

    /// One product of these extents.
    pub fn of([m, n, k]: [usize; 3]) -> Size {
        Size { m, n, k, batch: 1 }
    }

    /// One product with the rows of all of these.
    pub fn stacked(self) -> Size {
        Size { m: self.m * self.batch, batch: 1, ..self }
    }

    /// The product for which a schedule is chosen when this one comes up, so that rows that vary from call to call need few kernels:
    /// rows and products rounded up to one of eight steps an octave. A step is a multiple of 16 rows from 128 rows on, so tiles
    /// are hardly ever cut otherwise.
    #[must_use]
    pub fn bucket(self) -> Size {
        let up = |extent: usize| {
            let step = (extent.max(1).next_power_of_two() / 16).max(1);
            extent.max(1).next_multiple_of(step)
        };
        Size { m: up(self.m), n: self.n.max(1), k: self.k.max(1), batch: up(self.batch) }
    }

    /// `M`, `MxNxK` or `MxNxKxBATCH`.
    ///
    /// # Errors
    ///
    /// Returns what was expected for any other text, and if an extent is 0 or exceeds what a launch supports.
    pub fn parse(text: &str) -> Result<Size, String> {
        let numbers: Result<Vec<usize>, _> = text.split('x').map(|part| part.trim().parse()).collect();
        match numbers.as_deref() {
            Ok(numbers) if numbers.contains(&0) => Err("an extent of 0 takes no time".into()),
            Ok(numbers) if numbers.iter().any(|number| *number > MAX_EXTENT as usize) => {
                Err(format!("an extent is at most {MAX_EXTENT}"))
            }
            Ok(&[extent]) => Ok(Size::cube(extent)),
            Ok(&[m, n, k]) => Ok(Size::of([m, n, k])),
            Ok(&[m, n, k, batch]) => Ok(Size { m, n, k, batch }),
            _ => Err("one of M, MxNxK, MxNxKxBATCH, such as 4095x4097x4093".into()),
        }
    }

    /// Bytes of A, B and D, packed; extents need not fit into memory.
    pub fn bytes(self, types: Types) -> u128 {
        let [m, n, k, batch] = [self.m, self.n, self.k, self.batch].map(|extent| extent as u128);
        let matrices = [(m, k, types.a), (k, n, types.b), (m, n, types.d)];
        let bytes =
            |(rows, cols, dtype): (u128, u128, DType)| rows.saturating_mul(cols).saturating_mul(dtype.bytes().into());
        matrices.into_iter().map(bytes).fold(0u128, u128::saturating_add).saturating_mul(batch)
    }

    /// Multiplications and additions.
    pub fn operations(self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64 * self.batch as f64
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { m, n, k, batch } = self;
        let times = if *batch == 1 { String::new() } else { format!(" x{batch}") };
        f.pad(&format!("{m} x {n} x {k}{times}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn buckets_round_rows_up() {
        let of = |m: usize| Size::of([m, 300, 11]).bucket();
        assert_eq!([0, 1, 9, 17, 129, 1100, 4096].map(|m| of(m).m), [1, 1, 9, 18, 144, 1152, 4096]);
        assert_eq!((of(9).n, of(9).k), (300, 11));
        let buckets: std::collections::BTreeSet<usize> = (1..=8192).map(|m| of(m).m).collect();
        assert_eq!(buckets.len(), 88);
    }
}
