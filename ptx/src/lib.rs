//! PTX as data: typed instructions, builder, printer, parser, verifier. Knows nothing of GEMM.

pub mod instruction;
pub mod module;
pub mod types;
