// With a hole the macro's value is a Result.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let size = 8;
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread({size}, 8);
    };
}
