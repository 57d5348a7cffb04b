// More stages than loads through registers allow.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        stages(4);
        target(sm_75);
    };
}
