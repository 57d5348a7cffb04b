//! The tests of ptx-gemm live in the test target `all`.
