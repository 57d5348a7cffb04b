// Two dots with nothing after them.
use ptx_gemm::gemm;

fn main() {
    let _ = gemm! {
        ..;
        thread(8, 8);
    };
}
