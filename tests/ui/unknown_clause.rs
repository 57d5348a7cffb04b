// A clause that does not exist, one letter away from one that does.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        stage(2);
    };
}
