// More threads than a block can have.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(256, 128, 8);
        thread(4, 4);
    };
}
