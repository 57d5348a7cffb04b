// A value that cannot stand in a schedule.
use ptx_gemm::gemm;

fn main() {
    let _ = gemm! {
        tile({"wide"}, 128, 8);
        thread(8, 8);
    };
}
