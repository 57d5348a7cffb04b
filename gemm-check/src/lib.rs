//! References, error bounds, edge sizes and the named cases of ptx-gemm.
