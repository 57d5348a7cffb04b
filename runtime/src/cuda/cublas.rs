//! cuBLAS, for comparison: the same product on the same memory, in the same process.
//!
//! The library is loaded on demand, like the driver.
#![allow(unsafe_code)] // Calls of the library.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::cublas::sys::{self, cublasComputeType_t as Compute, cublasOperation_t as Operation, cudaDataType as Type};
use cudarc::driver::{CudaStream, result};
use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::types::Types;

use super::column_major::{ColumnMajor, Operand, Scalars, Sums, refused};
use super::driver;
use super::queue::{Enqueue, Queue};
use crate::error::{DeviceError, Error};
use crate::resident::Resident;

/// The size of cuBLAS's workspace: twice what its documentation recommends for the largest devices
/// ("cublasSetWorkspace"). It is set explicitly, so that cuBLAS does not allocate while a graph is recorded.
const WORKSPACE_BYTES: usize = 64 << 20;

/// cuBLAS on one queue.
pub struct Cublas {
    handle: sys::cublasHandle_t,
    workspace: u64,
    stream: Arc<CudaStream>,
}

/// One product (or a strided batch), ready to run: D = A B, with alpha = 1 and beta = 0.
pub struct CublasProduct<'a> {
    cublas: &'a Cublas,
    product: ColumnMajor,
    scalars: Scalars,
}

impl Cublas {
    /// Opens the library. If it is missing, the error says which names were tried.
    pub fn new(queue: &Queue) -> Result<Cublas, Error> {
        // SAFETY: it only tries to open the library.
        if !unsafe { sys::is_culib_present() } {
            let message = "libcublas.so was not found (libcublas.so.13 and older names were looked for); it is part of \
                           the CUDA toolkit and of the Python package nvidia-cublas, and LD_LIBRARY_PATH can name its \
                           folder";
            return Err(refused(message).into());
        }
        let stream = queue.stream().clone();
        let failed =
            |call| move |error| DeviceError::Driver { call, device: "cuBLAS".into(), code: driver::code(error) };
        stream.context().bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: a context is current, and the pointer is to a local variable.
        status("cublasCreate", unsafe { sys::cublasCreate_v2(&mut handle) })?;
        // `cublas` owns the handle from here on; an address of 0 is not freed.
        let mut cublas = Cublas { handle, workspace: 0, stream };
        // SAFETY: a context is current.
        cublas.workspace = unsafe { result::malloc_sync(WORKSPACE_BYTES) }.map_err(failed("cuMemAlloc"))?;
        // SAFETY: handle, stream and workspace live as long as `cublas`; a change of stream resets the workspace, and so
        // comes before it.
        unsafe {
            status("cublasSetStream", sys::cublasSetStream_v2(handle, cublas.stream.cu_stream().cast()))?;
            let workspace = cublas.workspace as *mut c_void;
            status("cublasSetWorkspace", sys::cublasSetWorkspace_v2(handle, workspace, WORKSPACE_BYTES))?;
            // Without this, parts of a sum are rounded to the type of D before they are added. That is faster, and for
            // bf16 an error of several units in the last place.
            let mode = sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
            status("cublasSetMathMode", sys::cublasSetMathMode(handle, mode))?;
        }
        Ok(cublas)
    }

    /// The library's version, such as 13.1.0.
    pub fn version(&self) -> String {
        let mut version = 0;
        // SAFETY: the handle is alive, and the pointer is to a local variable.
        let known = unsafe { sys::cublasGetVersion_v2(self.handle, &mut version) };
        match status("cublasGetVersion", known) {
            // From 10.2 on, 130100 is 13.1.0.
            Ok(()) => format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100),
            Err(_) => "of an unknown version".into(),
        }
    }

    /// A product as computed by a schedule with these types, without TF32 unless the types are tf32. An error if cuBLAS
    /// has no such product.
    pub fn product<'a>(
        &'a self,
        types: Types,
        a: &'a Resident,
        b: &'a Resident,
        d: &'a Resident,
    ) -> Result<CublasProduct<'a>, Error> {
        for resident in [a, b, d] {
            if resident.device().gpu()?.shared.context.cu_ctx() != self.stream.context().cu_ctx() {
                return Err(refused(&format!("a matrix is in the memory of {}", resident.device())).into());
            }
        }
        let product = ColumnMajor::of(types, [a, b, d].map(Resident::matrix))?;
        if product.sums == Sums::Fp8 {
            return Err(refused("cublasGemmEx does not multiply 8-bit floats, cublasLtMatmul does").into());
        }
        Ok(CublasProduct { cublas: self, product, scalars: product.sums.scalars() })
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        if self.stream.context().bind_to_thread().is_ok() {
            // SAFETY: created once, destroyed once; both calls wait for running work. In a dead context errors cannot
            // be reported.
            unsafe {
                let _ = sys::cublasDestroy_v2(self.handle);
                if self.workspace != 0 {
                    let _ = result::free_sync(self.workspace);
                }
            }
        }
    }
}

impl Enqueue for CublasProduct<'_> {
    fn enqueue(&self, queue: &Queue) -> Result<(), Error> {
        if queue.stream().cu_stream() != self.cublas.stream.cu_stream() {
            return Err(refused("it was opened for another queue").into());
        }
        let CublasProduct { cublas: Cublas { handle, .. }, product, scalars } = self;
        let ColumnMajor { left, right, out, extents: [m, n, k], sums } = *product;
        let [alpha, beta] = scalars.pointers();
        let (a, b) = (left.address as *const c_void, right.address as *const c_void);
        let d = out.address as *mut c_void;
        let (op_a, op_b) = (operation(left), operation(right));
        let [type_a, type_b, type_d] = [left, right, out].map(|operand| data_type(operand.dtype));
        let (compute, algorithm) = (compute(sums), sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT);
        let handle = *handle;
        // A single product uses the function that programs call for it, which may choose different kernels.
        // SAFETY: the handle is alive; the operands are borrowed and have the extents given; alpha and beta are of the
        // computation's type and are read before the call returns.
        #[rustfmt::skip]
        let called = unsafe {
            if out.count == 1 {
                sys::cublasGemmEx(
                    handle, op_a, op_b, m, n, k, alpha, a, type_a, left.ld, b, type_b, right.ld, beta, d, type_d,
                    out.ld, compute, algorithm,
                )
            } else {
                sys::cublasGemmStridedBatchedEx(
                    handle, op_a, op_b, m, n, k, alpha, a, type_a, left.ld, left.stride, b, type_b, right.ld,
                    right.stride, beta, d, type_d, out.ld, out.stride, out.count, compute, algorithm,
                )
            }
        };
        Ok(status("cublasGemmEx", called)?)
    }
}

fn operation(operand: Operand) -> Operation {
    if operand.transposed { Operation::CUBLAS_OP_T } else { Operation::CUBLAS_OP_N }
}

/// How cuBLAS accumulates (cuBLAS documentation, "cublasGemmEx", the table of compute types).
fn compute(sums: Sums) -> Compute {
    match sums {
        Sums::F16 => Compute::CUBLAS_COMPUTE_16F,
        Sums::F32 | Sums::Fp8 => Compute::CUBLAS_COMPUTE_32F,
        Sums::Tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
        Sums::F64 => Compute::CUBLAS_COMPUTE_64F,
        Sums::I32 => Compute::CUBLAS_COMPUTE_32I,
    }
}

fn data_type(dtype: DType) -> Type {
    match dtype {
        DType::F64 => Type::CUDA_R_64F,
        DType::F32 | DType::Tf32 => Type::CUDA_R_32F,
        DType::F16 => Type::CUDA_R_16F,
        DType::Bf16 => Type::CUDA_R_16BF,
        DType::E4m3 => Type::CUDA_R_8F_E4M3,
        DType::E5m2 => Type::CUDA_R_8F_E5M2,
        DType::I8 => Type::CUDA_R_8I,
        DType::U8 => Type::CUDA_R_8U,
        DType::I32 => Type::CUDA_R_32I,
    }
}

fn status(call: &'static str, status: sys::cublasStatus_t) -> Result<(), DeviceError> {
    match status {
        sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        code => Err(DeviceError::Driver { call, device: "cuBLAS".into(), code: format!("{code:?}") }),
    }
}

impl fmt::Debug for Cublas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cublas({})", self.version())
    }
}

impl fmt::Debug for CublasProduct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CublasProduct({:?})", self.product.extents)
    }
}
