//! Runs hand-written PTX and compares with what it must give.

mod arithmetic;
mod cost;
mod extended;
mod gemm;
mod gemm_text;
mod hostile;
mod machine;
mod mbarrier;
mod memory;
mod named_barriers;
mod orders;
mod ring;
mod run;
mod violations;
