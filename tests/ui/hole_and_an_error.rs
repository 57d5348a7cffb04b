// What does not depend on the hole is checked while the crate compiles.
use ptx_gemm::gemm;

fn main() {
    let size = 8;
    let _ = gemm! {
        tile(128, 128, 8);
        thread({size}, 8);
        unroll(3);
        stages(4);
        target(sm_75);
    };
}
