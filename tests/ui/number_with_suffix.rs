// A Rust literal with a type suffix.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8u32);
        thread(8, 8);
    };
}
