//! Tests of the compiler's levels, in one binary.

mod all_kernels;
mod buffers;
mod dead;
mod kernel_verifier;
