// Rust in a hole is read by Rust's grammar: what is wrong with it is said at its own place, with everything else.
use ptx_gemm::gemm;

const BM: u32 = 128;

fn main() {
    let _ = gemm! {
        tile({BM +}, {BM BM}, 8);
        thread(8, { let half = ; half });
        vector(3);
    };
}
