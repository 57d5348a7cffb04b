// A warp tile for 64 lanes.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        warp(64, 64);
        thread(8, 8);
    };
}
