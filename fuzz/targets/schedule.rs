//! The text of a schedule.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    ptx_gemm_check::texts::schedule(text);
});
