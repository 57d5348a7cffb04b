//! The extents of a product.

use std::ops::RangeInclusive;

use ptx_gemm::MAX_EXTENT;

/// Reads an extent, which may be 0.
pub(super) fn size(text: &str) -> Result<usize, String> {
    within(text, 0..=MAX_EXTENT as usize)
}

/// Reads an extent of a product for a cost or a time; it must not be 0.
pub(super) fn extent(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a product with an extent of 0 costs nothing and takes no time".into()),
        _ => within(text, 1..=MAX_EXTENT as usize),
    }
}

fn within(text: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
}
