// Clauses of the language that do not work yet.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        types(bf16);
        tile(128, 128, 32);
        warp(64, 64);
        atom(mma(16, 8, 16));
        promote(every = 4);
    };
}
