// All errors are reported at once, each at its position.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tiles(128);
        tile(100, 128, 8);
        thread(8, 8);
        vector(d = 3);
        types(f99);
        double_buffer(2);
    };
}
