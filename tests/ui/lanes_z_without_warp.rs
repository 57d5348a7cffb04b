// The z order without a warp tile to spread it over.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        lanes(along = z);
    };
}
