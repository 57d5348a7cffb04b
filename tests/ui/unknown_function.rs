// A function that the epilogue does not have.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        epilogue(|acc| rleu(acc));
    };
}
