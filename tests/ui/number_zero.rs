// A tile without rows.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(0, 128, 8);
        thread(8, 8);
    };
}
