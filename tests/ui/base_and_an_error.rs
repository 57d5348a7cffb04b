// What does not depend on the base is checked while the crate compiles.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let base: Gemm = gemm! { tile(128, 128, 8); thread(8, 8); };
    let _ = gemm! {
        ..base;
        unrol(2);
        stages(0);
    };
}
