// An instruction that the target does not have.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        types(bf16);
        target(sm_89);
        atom(wgmma(64, 256, 16));
        tile(128, 256, 64);
    };
}
