// Errors in a schedule of its own name its lines.
use ptx_gemm::gemm;

fn main() {
    let kernel = gemm!(file "schedules/wrong.gemm");
    println!("{}", kernel.plan(None).unwrap());
}
