//! Devices, launches and caches for ptx-gemm.
