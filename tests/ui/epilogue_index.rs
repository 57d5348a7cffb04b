// A vector indexed by a dimension that D does not have.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        epilogue(|acc, bias| acc + bias[k]);
    };
}
