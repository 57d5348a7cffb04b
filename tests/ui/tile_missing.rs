// No tile: an error about the whole schedule.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        thread(8, 8);
        vector(4);
    };
}
