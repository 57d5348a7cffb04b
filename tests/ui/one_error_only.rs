// The stub has the right type, so that nothing else is reported.
use ptx_gemm::gemm;

fn main() {
    let kernel = gemm! { tile(128, 128, 8); thread(8, 8); stage(2); };
    let text: String = kernel.schedule().to_string();
    println!("{text}");
}
