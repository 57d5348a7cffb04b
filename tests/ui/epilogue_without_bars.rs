// An epilogue without its declarations.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        epilogue(alpha * acc);
    };
}
