// A staged tile without a depth.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128);
        thread(8, 8);
    };
}
