//! Runs hand-written PTX and compares with what it must give.

mod gemm;
mod gemm_text;
mod run;
