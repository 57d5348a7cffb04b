//! The extents of a product.

/// Reads an extent, which may be 0.
pub(super) fn size(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("a whole number from 0 to {}", usize::MAX))
}

/// Reads an extent of a product whose cost or time is asked for, which is not 0.
pub(super) fn extent(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a product with an extent of 0 costs nothing and takes no time".into()),
        Ok(extent) => Ok(extent),
        Err(_) => Err("a whole number".into()),
    }
}
