// A tile with one extent.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128);
        thread(8, 8);
    };
}
