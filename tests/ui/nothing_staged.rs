// A pipeline with nothing in it.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(32, 32);
        thread(1, 1);
        shared(none);
        double_buffer;
    };
}
