// Values that nothing can be chosen for.
use ptx_gemm::gemm;

fn main() {
    let _ = gemm! { types(?); schedule(?); stages(?) };
    let _ = gemm! {
        types(bf16);
        tile(?, 60, 64);
        atom(wgmma(64, 64, 16));
        load(tma);
        stages(?);
    };
    let size = 64;
    let _ = gemm! { tile({size}, ?, 8); thread(8, 8); };
}
