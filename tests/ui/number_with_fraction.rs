// A fraction where a whole number belongs.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8.5);
        thread(8, 8);
    };
}
