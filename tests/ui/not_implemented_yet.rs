// Clauses of the language that do not work yet.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        cluster(2, 1);
        emulate(bf16x3);
    };
}
