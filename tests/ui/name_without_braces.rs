// Constants of Rust without braces.
use ptx_gemm::{Gemm, gemm};

const BM: u32 = 128;

fn main() {
    let _: Gemm = gemm! {
        tile(BM, 2 * BM, 2 * 4);
        thread(8, 8);
    };
}
