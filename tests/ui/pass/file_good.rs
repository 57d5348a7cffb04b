// A schedule in a file.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let kernel: Gemm = gemm!(file "../schedules/good.gemm");
    assert_eq!(kernel, gemm! { tile(64, 64, 8); thread(4, 4); });
    assert_eq!(gemm!(< file "../schedules/good.gemm"; >), kernel);
    let deeper = gemm! { ..gemm!(file "../schedules/good.gemm"); double_buffer }.unwrap();
    assert_eq!(deeper, gemm! { tile(64, 64, 8); thread(4, 4); double_buffer });
}
