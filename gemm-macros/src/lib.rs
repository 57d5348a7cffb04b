//! `gemm!`.
