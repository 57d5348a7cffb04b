//! Runs hand-written PTX and compares the results with the expected ones.

mod across;
mod arithmetic;
mod bulk;
mod checks;
mod copies;
mod cost;
mod extended;
mod flags;
mod gemm;
mod gemm_text;
mod hostile;
mod lanes;
mod machine;
mod mbarrier;
mod measured;
mod memory;
mod named_barriers;
mod orders;
mod proxies;
mod registers;
mod ring;
mod run;
mod tensor;
mod tma_gemm;
mod violations;
