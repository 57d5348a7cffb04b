// A tile with four extents.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8, 4);
        thread(8, 8);
    };
}
