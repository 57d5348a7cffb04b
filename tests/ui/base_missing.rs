// Two dots with nothing behind them.
use ptx_gemm::gemm;

fn main() {
    let _ = gemm! {
        ..;
        thread(8, 8);
    };
}
