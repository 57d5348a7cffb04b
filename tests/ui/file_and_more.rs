// Nothing follows a file, and a file is a path.
use ptx_gemm::gemm;

fn main() {
    let _ = gemm!(file "schedules/good.gemm"; double_buffer);
    let _ = gemm!(file schedules);
}
