// Something that is not a clause.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        42;
        thread(8, 8);
    };
}
