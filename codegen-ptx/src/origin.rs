//! The origin of a statement: the clause that asked for it, and what it does for that clause.

/// A clause and a purpose. This is the type of the notes in PTX, so that an origin is passed on unchanged.
pub use ptx_gemm_ptx::instruction::Note as Origin;
