//! Where a statement comes from: the clause that asked for it and what it does for that clause.

/// A clause and a purpose; what PTX calls the note of a line, so that it is passed on as it is.
pub use ptx_gemm_ptx::instruction::Note as Origin;
