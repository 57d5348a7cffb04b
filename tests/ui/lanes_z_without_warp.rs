// The z order without a warp tile.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        lanes(along = z);
    };
}
