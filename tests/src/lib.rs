//! Snapshot, execution and round-trip tests of ptx-gemm.
