//! Types of drawn schedules, and what follows from them: epilogues, and depths of K-tiles.

/// Types that threads multiply.
pub(super) const TYPES: [&str; 17] = [
    "bf16",
    "f16",
    "a = bf16, b = bf16, d = f32",
    "a = f16, b = f16, c = f32, d = f16",
    "a = f16, b = f16, c = f16, d = f32",
    "a = bf16, b = f16, d = bf16",
    "a = bf16, b = f32, c = f16, d = f32",
    "a = f16, b = f16, acc = f64, c = f32, d = bf16",
    "f64",
    "i32",
    "a = f32, b = f32, acc = f64, d = f32",
    "a = f64, b = f32, acc = f64, d = f64",
    "a = f32, b = f32, acc = f64, c = f32, d = f64",
    "i8",
    "a = u8, b = i8, c = i32, d = u8",
    "e4m3",
    "a = e5m2, b = e4m3, c = f16, d = e5m2",
];

const INTEGER_EPILOGUES: [&str; 3] =
    ["|acc, c, alpha, beta| alpha * acc + beta * c", "|acc, bias| relu(acc - bias[n])", "|acc, c| max(acc, -c) + 3"];

pub(super) const EPILOGUES: [&str; 11] = [
    "|acc| acc",
    "|acc, alpha| alpha * acc",
    "|acc, c| acc - c",
    "|acc, c, beta| beta * c - acc",
    "|acc, c, alpha, beta| alpha * acc + beta * c",
    "|acc, bias| relu(acc + bias[n])",
    "|acc, c, alpha, beta, bias| relu(alpha * acc + beta * c + bias[n])",
    "|acc, scale| clamp(acc * scale[m], -3.0, 5.5)",
    "|acc, c, s| max(acc, s * c) - min(abs(c), 2)",
    "|acc, c, alpha, beta| -alpha * acc - (beta * c) / 2.0",
    "|acc, c, s, t| s * acc + t * acc * s - c * s",
];

/// Types that tensor cores multiply.
pub(super) const GROUP_TYPES: [&str; 17] = [
    "bf16",
    "f16",
    "bf16",
    "a = bf16, b = bf16, d = f32",
    "a = f16, b = f16, c = f32, d = f16",
    "bf16",
    "tf32",
    "a = tf32, b = tf32, c = f16, d = f32",
    "a = i8, b = i8, d = i32",
    "a = u8, b = u8, c = f32, d = bf16",
    "a = u8, b = i8, d = i32",
    "a = e4m3, b = e4m3, d = bf16",
    "a = e5m2, b = e4m3, d = f32",
    "a = e4m3, b = e4m3, c = f16, d = f16",
    "a = e5m2, b = e5m2, acc = f16, d = f16",
    SUMS_IN_F16,
    "a = f16, b = f16, acc = f16, c = bf16, d = f32",
];
const SUMS_IN_F16: &str = "a = f16, b = f16, acc = f16, d = f16";

/// Types that the tensor cores of a warp multiply.
pub(super) const WARP_TYPES: [&str; GROUP_TYPES.len() + 2] = {
    let mut all = ["f64"; GROUP_TYPES.len() + 2];
    let mut index = 0;
    while index < GROUP_TYPES.len() {
        all[index] = GROUP_TYPES[index];
        index += 1;
    }
    all[index] = "a = f64, b = f64, c = f32, d = f64";
    all
};

/// An extent along k of 16-bit elements, as one of as many bytes of these types.
pub(super) fn along_k(extent: u32, types: &str) -> u32 {
    match (types.contains("tf32") || types.contains("f64"), is_integer(types) || is_byte_float(types)) {
        // Of f64, twice as many bytes: as many would leave too few steps.
        (true, _) => extent / 2,
        (_, true) => extent * 2,
        _ => extent,
    }
}

/// Whether A and B are 8-bit floats.
pub(super) fn is_byte_float(types: &str) -> bool {
    ["e4m3", "e5m2"].iter().any(|name| types.contains(name))
}

/// A depth in elements of these types, or the next smaller one that divides the interval at which their sums are promoted.
pub(super) fn promotable(depth: u32, types: &str) -> u32 {
    if is_byte_float(types) { dividing(depth, "") } else { depth }
}

/// Whether types are those of integers.
pub(super) fn is_integer(types: &str) -> bool {
    ["i8", "i32"].iter().any(|name| types.contains(name))
}

/// An epilogue, in integers for integer sums.
pub(super) fn epilogue_of(index: usize, integer: bool) -> &'static str {
    if integer { INTEGER_EPILOGUES[index % INTEGER_EPILOGUES.len()] } else { EPILOGUES[index] }
}

/// The depth of K-tiles, or the next smaller one that divides the promotion interval.
pub(super) fn dividing(depth: u32, emulate: &str) -> u32 {
    let every = emulate.split("every = ").nth(1).and_then(|text| text.split([',', ')']).next()?.parse::<u32>().ok());
    (1..=depth).rev().find(|depth| every.unwrap_or(128).is_multiple_of(*depth)).unwrap_or(depth)
}
