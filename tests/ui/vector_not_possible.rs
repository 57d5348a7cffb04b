// A requested width that is wider than an access.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        vector(d = 16);
    };
}
