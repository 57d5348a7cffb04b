// A requested width for a matrix that is not read.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        vector(4, c = 4);
    };
}
