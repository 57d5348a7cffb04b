// No access moves three elements.
use ptx_gemm::gemm;

fn main() {
    let _ = gemm! { tile(128, 128, 8); thread(8, 8); vector(3); };
    let _ = gemm! { tile(128, 128, 8); thread(8, 8); vector(a = 3); };
}
