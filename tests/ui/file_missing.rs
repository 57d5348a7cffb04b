// A file that is not there.
use ptx_gemm::gemm;

fn main() {
    let kernel = gemm!(file "schedules/mising.gemm");
    println!("{}", kernel.plan(None).unwrap());
}
