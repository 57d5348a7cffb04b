// More shared memory than the target has.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 64);
        thread(8, 8);
        double_buffer;
        target(sm_75);
    };
}
