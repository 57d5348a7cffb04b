//! The extents of a product whose cost or time is asked for.

/// Reads `-m`, `-n` or `-k`, which is not 0 here.
pub(super) fn extent(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a product with an extent of 0 costs nothing and takes no time".into()),
        Ok(extent) => Ok(extent),
        Err(_) => Err("a whole number".into()),
    }
}
