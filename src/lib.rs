//! ptx-gemm.
