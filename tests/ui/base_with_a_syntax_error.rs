// The schedule that is extended is an expression of Rust.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let base: Gemm = gemm! { tile(128, 128, 8); thread(8, 8); };
    let _ = gemm! {
        ..base.;
        stages(0);
    };
    let _ = gemm! { ..base base; stages(2) };
    let _ = gemm! { ..base, base; stages(2) };
}
