// A name of the epilogue that is not declared.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        epilogue(|acc, c, alpha| alpha * acc + beta * c);
    };
}
