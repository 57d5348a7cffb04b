// Two clauses that set the same property.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        double_buffer;
        stages(4);
    };
}
