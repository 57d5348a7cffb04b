//! PTX text, to the interpreter.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    ptx_gemm_check::texts::interpreter(text);
});
