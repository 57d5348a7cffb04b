//! The rules of types, and of what a target has.

use super::STAGED;

const OLD: &str = "tile(16, 16, 8); thread(2, 2); vector(2); double_buffer; target(sm_75)";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    (STAGED, "acc f32", "acc i32", "acc = i32 is an integer type and a = f32 is a floating-point type"),
    (STAGED, "acc f32", "acc f16", "acc = f16 is for tensor cores"),
    (STAGED, "acc f32", "acc bf16", "acc = bf16 is not an accumulator"),
    (STAGED, "a f32, b f32", "a e4m3, b e4m3", "e4m3 needs sm_89"),
    (STAGED, "a f32, b f32", "a tf32, b tf32", "tf32 is a type of the tensor cores, atom(fma) multiplies f32"),
    (STAGED, "b f32", "b i32", "a = f32 and b = i32 do not multiply"),
    (STAGED, "d f32", "d i32", "d = i32 cannot hold what acc = f32 computes"),
    (STAGED, "a f32, b f32, d f32, acc f32", "a f64, b f64, d f64, acc f32", "acc = f32 is narrower than a = f64"),
    (OLD, "by registers width 2 store 2", "by cp_async width 2 piece 2", "asynchronous copies need sm_80, not sm_75"),
    (OLD, "full barrier", "full copy_groups(0)", "groups of copies need sm_80, not sm_75"),
    (
        OLD,
        "        store acc",
        "        drain\n        store acc",
        "`drain` waits for asynchronous copies, which need sm_80, not sm_75",
    ),
];
