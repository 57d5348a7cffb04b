//! cuBLAS, for comparison: the same product on the same memory, in the same process.
//!
//! The library is loaded on demand, like the driver. cuBLAS stores its matrices column by column, and a row-major
//! matrix is the transpose of a column-major one: a row-major D is computed as D^T = B^T A^T.
#![allow(unsafe_code)] // Calls of the library.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::cublas::sys::{self, cublasComputeType_t as Compute, cublasOperation_t as Operation, cudaDataType as Type};
use cudarc::driver::{CudaStream, result};
use ptx_gemm_dsl::types::Types;
use ptx_gemm_dsl::{DType, Layout};

use super::driver;
use super::queue::{Enqueue, Queue};
use crate::arguments::DeviceMatrix;
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
    types: (Type, Type, Type),
    compute: Compute,
    /// cuBLAS's own A and B, which are ours or, for a row-major D, B and A.
    left: (Operation, DeviceMatrix),
    right: (Operation, DeviceMatrix),
    out: DeviceMatrix,
    extents: [i32; 3],
    scalars: Scalars,
}

/// alpha and beta, in the type of the computation.
#[derive(Clone, Copy)]
enum Scalars {
    Float([f32; 2]),
    Double([f64; 2]),
    Integer([i32; 2]),
}

impl Cublas {
    /// Opens the library. If there is none, the error says what was looked for.
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
        // It owns the handle from here on; an address of 0 is not freed.
        let mut cublas = Cublas { handle, workspace: 0, stream };
        // SAFETY: a context is current.
        cublas.workspace = unsafe { result::malloc_sync(WORKSPACE_BYTES) }.map_err(failed("cuMemAlloc"))?;
        // SAFETY: handle, stream and workspace live as long as `cublas`; a change of stream resets the workspace, and so
        // comes before it.
        unsafe {
            status("cublasSetStream", sys::cublasSetStream_v2(handle, cublas.stream.cu_stream().cast()))?;
            let workspace = cublas.workspace as *mut c_void;
            status("cublasSetWorkspace", sys::cublasSetWorkspace_v2(handle, workspace, WORKSPACE_BYTES))?;
            status("cublasSetMathMode", sys::cublasSetMathMode(handle, sys::cublasMath_t::CUBLAS_DEFAULT_MATH))?;
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
        let (a, b, d) = (a.matrix(), b.matrix(), d.matrix());
        let (compute, scalars) = compute(types).ok_or_else(|| {
            let Types { a, b, acc, d, .. } = types;
            refused(&format!("it has no product of {a} and {b} with sums in {acc} and results in {d}"))
        })?;
        // To a column-major reader this is the matrix itself, or its transpose.
        let wanted = d.shape.layout;
        let operation = |operand: DeviceMatrix| match operand.shape.layout == wanted {
            true => Operation::CUBLAS_OP_N,
            false => Operation::CUBLAS_OP_T,
        };
        let (m, n, k) = (d.shape.rows, d.shape.cols, a.shape.cols);
        let (left, right, extents, inputs) = match wanted {
            Layout::Col => (a, b, [m, n, k], (types.a, types.b)),
            Layout::Row => (b, a, [n, m, k], (types.b, types.a)),
        };
        let mut small = [0; 3];
        for (to, extent) in small.iter_mut().zip(extents) {
            *to = integer(extent)?;
        }
        Ok(CublasProduct {
            cublas: self,
            types: (data_type(inputs.0), data_type(inputs.1), data_type(types.d)),
            compute,
            left: (operation(left), left),
            right: (operation(right), right),
            out: d,
            extents: small,
            scalars,
        })
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
        let [m, n, k] = self.extents;
        let (left, right) = (self.left.1, self.right.1);
        let (alpha, beta) = self.scalars.pointers();
        let (lda, ldb, ldc) = (integer(left.shape.ld)?, integer(right.shape.ld)?, integer(self.out.shape.ld)?);
        let stride = |matrix: DeviceMatrix| matrix.stack.stride as i64;
        let handle = self.cublas.handle;
        let (a, b) = (left.address as *const c_void, right.address as *const c_void);
        let (d, batch) = (self.out.address as *mut c_void, integer(self.out.stack.count)?);
        let ((op_a, op_b), (type_a, type_b, type_d)) = ((self.left.0, self.right.0), self.types);
        let (strides, algorithm) = ([left, right, self.out].map(stride), sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT);
        // A single product uses the function that programs call for it, which may choose different kernels.
        // SAFETY: the handle is alive; the operands are borrowed and have the extents given; alpha and beta are of the
        // computation's type and are read before the call returns.
        #[rustfmt::skip]
        let called = unsafe {
            if batch == 1 {
                sys::cublasGemmEx(
                    handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, d, type_d, ldc,
                    self.compute, algorithm,
                )
            } else {
                sys::cublasGemmStridedBatchedEx(
                    handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, strides[0], b, type_b, ldb, strides[1], beta,
                    d, type_d, ldc, strides[2], batch, self.compute, algorithm,
                )
            }
        };
        Ok(status("cublasGemmEx", called)?)
    }
}

impl Scalars {
    fn pointers(&self) -> (*const c_void, *const c_void) {
        match self {
            Scalars::Float([alpha, beta]) => (ptr::from_ref(alpha).cast(), ptr::from_ref(beta).cast()),
            Scalars::Double([alpha, beta]) => (ptr::from_ref(alpha).cast(), ptr::from_ref(beta).cast()),
            Scalars::Integer([alpha, beta]) => (ptr::from_ref(alpha).cast(), ptr::from_ref(beta).cast()),
        }
    }
}

/// How cuBLAS sums (cuBLAS documentation, "cublasGemmEx", the table of compute types).
fn compute(types: Types) -> Option<(Compute, Scalars)> {
    use DType::*;
    let float = Scalars::Float([1.0, 0.0]);
    Some(match (types.a, types.b, types.acc, types.d) {
        (F64, F64, F64, F64) => (Compute::CUBLAS_COMPUTE_64F, Scalars::Double([1.0, 0.0])),
        (Tf32, Tf32, F32, F32) => (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, float),
        (F32, F32, F32, F32) | (F16, F16, F32, F16 | F32) | (Bf16, Bf16, F32, Bf16 | F32) | (I8, I8, F32, F32) => {
            (Compute::CUBLAS_COMPUTE_32F, float)
        }
        (I8, I8, I32, I32) => (Compute::CUBLAS_COMPUTE_32I, Scalars::Integer([1, 0])),
        _ => return None,
    })
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

fn integer(extent: usize) -> Result<i32, DeviceError> {
    i32::try_from(extent).map_err(|_| refused(&format!("an extent of {extent} is more than it takes")))
}

fn status(call: &'static str, status: sys::cublasStatus_t) -> Result<(), DeviceError> {
    match status {
        sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        code => Err(DeviceError::Driver { call, device: "cuBLAS".into(), code: format!("{code:?}") }),
    }
}

fn refused(message: &str) -> DeviceError {
    DeviceError::Cublas { message: message.into() }
}

impl fmt::Debug for Cublas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cublas({})", self.version())
    }
}

impl fmt::Debug for CublasProduct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CublasProduct({:?})", self.extents)
    }
}
