// A fragment that does not divide the thread tile.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        fragment(3, 4);
    };
}
