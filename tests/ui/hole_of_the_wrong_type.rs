// A value that a schedule cannot contain.
use ptx_gemm::gemm;

fn main() {
    let _ = gemm! {
        tile({"wide"}, 128, 8);
        thread(8, 8);
    };
}
