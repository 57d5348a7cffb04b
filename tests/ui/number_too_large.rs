// A number that is too large for an extent.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 99999999999);
        thread(8, 8);
    };
}
