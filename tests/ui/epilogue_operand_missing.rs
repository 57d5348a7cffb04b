// An operator without its right side.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        epilogue(|acc| 2 * acc +);
    };
}
