//! The text of a `.tile` file.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    ptx_gemm_check::texts::tile(text);
});
