//! Runs hand-written PTX and compares with what it must give.

mod arithmetic;
mod cost;
mod gemm;
mod gemm_text;
mod hostile;
mod machine;
mod mbarrier;
mod memory;
mod run;
mod violations;
