//! PTX text, to the parser, the printer and the verifier.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    ptx_gemm_check::texts::ptx(text);
});
