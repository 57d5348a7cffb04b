// A thread tile that does not divide the block tile.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(100, 128, 8);
        thread(8, 8);
    };
}
