//! The limit on the code of one unrolled body.

use ptx_gemm_codegen::compile_text;

use super::printed;

/// Each scalar multiply-add is an instruction. A matrix instruction performs thousands of them, and a tile may have more than
/// the limit: f16 accumulators leave a warp group room for 192 x 256.
#[test]
fn multiply_adds_are_limited_and_matrix_instructions_are_not() {
    let unrolled = printed("tile(64, 64); thread(8, 8); shared(none); unroll(512); target(sm_80)");
    assert!(compile_text(&unrolled, None).is_ok());
    let longer = unrolled.replace("k 512", "k 1024").replace("unroll 512", "unroll 1024");
    let errors = compile_text(&longer, None).map(|_| "compiled").unwrap_err().to_string();
    assert!(errors.contains("one unrolled body has 65536 multiply-adds, and the limit is 32768"), "{errors}");
    let wide = printed(
        "types(f16, acc = f16); tile(192, 256, 128); atom(wgmma(64, 256, 16)); load(tma); stages(1); \
         specialize(producers = 1, consumers = 1)",
    );
    assert!(wide.contains("unroll 128"), "{wide}");
    assert!(compile_text(&wide, None).is_ok());
}
