//! Tests of the checks, in one binary.

mod bits;
mod cases;
mod tensor_core_mutants;
