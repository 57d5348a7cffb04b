// Clauses of the language that do not work yet.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        types(f64);
        tile(64, 64, 8);
        thread(4, 4);
        epilogue(|acc| tanh(acc));
    };
}
