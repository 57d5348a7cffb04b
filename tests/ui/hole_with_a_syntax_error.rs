// Rust in a hole is parsed as Rust: an error in it is reported at its position, along with all others.
use ptx_gemm::gemm;

const BM: u32 = 128;

fn main() {
    let _ = gemm! {
        tile({BM +}, {BM BM}, 8);
        thread(8, { let half = ; half });
        vector(3);
    };
}
