//! Sums of products as accurate as in twice the precision of f64: unevaluated pairs of f64 (Ogita, Rump and Oishi,
//! *Accurate sum and dot product*, algorithm 5.3).

/// `high + low += x * row`, element by element. `low` collects all rounding errors of `high`. The slices have equal
/// lengths.
pub fn add(high: &mut [f64], low: &mut [f64], x: f64, row: &[f64]) {
    let (x_high, x_low) = split(x);
    for ((high, low), &y) in high.iter_mut().zip(low).zip(row) {
        let (y_high, y_low) = split(y);
        let product = x * y;
        let product_low = x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low);
        let sum = *high + product;
        let back = sum - *high;
        let sum_low = (*high - (sum - back)) + (product - back);
        *high = sum;
        // With infinities and NaN the corrections are NaN although the sum itself is right.
        let correction = sum_low + product_low;
        *low += if correction.is_finite() { correction } else { 0.0 };
    }
}

/// A number as the sum of two of 26 bits each (Veltkamp), so that products of halves are exact.
fn split(x: f64) -> (f64, f64) {
    let scaled = x * 134_217_729.0;
    let high = scaled - (scaled - x);
    (high, x - high)
}
