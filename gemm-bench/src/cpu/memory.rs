//! Checks which sizes fit this machine's memory.

use std::fmt;
use std::fs;

use super::SIZES;

/// Matrices of a measurement: A, B and C.
const MATRICES: u128 = 3;
/// Tenths of the available memory that they may take: the libraries need some as well.
const TENTHS: u128 = 9;

/// A size that cannot be measured on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// Nothing to multiply.
    Zero,
    /// The matrices take more memory than there is.
    Memory {
        /// The extent of the matrices.
        n: usize,
        /// Bytes of the three of them.
        needed: u128,
        /// Bytes that are available, where that is known.
        available: Option<u64>,
    },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SizeError::Zero => f.write_str("a product of size 0 has nothing to measure: 1 is the smallest size"),
            SizeError::Memory { n, needed, available } => {
                write!(f, "three matrices of {n} x {n} f32 take {needed} bytes, ")?;
                match available {
                    Some(bytes) => write!(
                        f,
                        "of the {bytes} bytes that are available nine tenths may be used: {} is the largest size",
                        largest(bytes)
                    ),
                    None => f.write_str("more than this machine can allocate: take a smaller size"),
                }
            }
        }
    }
}

impl std::error::Error for SizeError {}

/// Bytes of memory that programs can still get, where the system says so.
pub fn available() -> Option<u64> {
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kib.trim().trim_end_matches(" kB").parse::<u64>().ok()?.checked_mul(1024)
}

fn needed(n: usize) -> u128 {
    MATRICES.saturating_mul((n as u128).pow(2)).saturating_mul(size_of::<f32>() as u128)
}

fn fits(n: usize, available: u64) -> bool {
    needed(n).saturating_mul(10) <= u128::from(available) * TENTHS
}

/// The largest size that fits.
fn largest(available: u64) -> usize {
    (u128::from(available) * TENTHS / 10 / needed(1)).isqrt() as usize
}

/// The sizes in the report at which three matrices take at most half of this machine's memory, if that is known.
pub fn fitting() -> Vec<usize> {
    let bytes = available().unwrap_or(4 << 30);
    SIZES.into_iter().filter(|n| needed(*n) <= u128::from(bytes / 2)).collect()
}

/// Rejects sizes that cannot be measured, before any measurement.
pub(super) fn check(sizes: &[usize]) -> Result<(), SizeError> {
    check_with(sizes, available())
}

fn check_with(sizes: &[usize], available: Option<u64>) -> Result<(), SizeError> {
    for &n in sizes {
        if n == 0 {
            return Err(SizeError::Zero);
        }
        if available.is_some_and(|available| !fits(n, available)) {
            return Err(SizeError::Memory { n, needed: needed(n), available });
        }
    }
    Ok(())
}

/// Allocates and fills an n x n matrix; fails if memory does not suffice.
pub(super) fn matrix(n: usize, element: impl FnMut() -> f32) -> Result<Vec<f32>, SizeError> {
    let failed = || SizeError::Memory { n, needed: needed(n), available: None };
    let len = n.checked_mul(n).ok_or_else(failed)?;
    let mut matrix = Vec::new();
    matrix.try_reserve_exact(len).map_err(|_| failed())?;
    matrix.extend(std::iter::repeat_with(element).take(len));
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use super::{SizeError, check_with, largest, matrix};

    #[test]
    fn what_does_not_fit_names_a_size_that_does() {
        let available = Some(16 << 30);
        let error = check_with(&[16, 200_000, 400_000], available).unwrap_err();
        assert_eq!(
            error.to_string(),
            "three matrices of 200000 x 200000 f32 take 480000000000 bytes, of the 17179869184 bytes that are available nine \
             tenths may be used: 35895 is the largest size"
        );
        assert_eq!(check_with(&[16, 35_895], available), Ok(()));
        assert!(check_with(&[35_896], available).is_err());
        for bytes in [14, 1 << 20, (5 << 30) + 12_345, u64::MAX] {
            assert_eq!(check_with(&[largest(bytes)], Some(bytes)), Ok(()), "{bytes}");
        }
        assert_eq!(check_with(&[0], None), Err(SizeError::Zero));
    }

    /// For systems that do not report available memory.
    #[test]
    fn memory_that_is_not_there_is_an_error() {
        for n in [1 << 31, 1 << 32, usize::MAX] {
            let error = matrix(n, || 0.0).unwrap_err();
            assert!(matches!(error, SizeError::Memory { available: None, .. }), "{error}");
            assert!(error.to_string().ends_with("more than this machine can allocate: take a smaller size"), "{error}");
        }
    }
}
