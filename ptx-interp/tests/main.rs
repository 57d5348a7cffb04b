//! Runs hand-written PTX and compares with what it must give.

mod arithmetic;
mod gemm;
mod gemm_text;
mod machine;
mod run;
