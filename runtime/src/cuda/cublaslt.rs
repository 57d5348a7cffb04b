//! cuBLASLt, for comparison: the same product by any of the algorithms that its heuristics propose.
//!
//! cuBLAS runs the first proposal. Only a measurement can tell which of several is the fastest, and programs that care
//! do measure, so a fair comparison has to do the same.
//!
//! Every call follows the cuBLAS documentation, "Using the cuBLASLt API". Four descriptors describe a product: one of
//! the operation, and one for each of the three matrices (C is D). A preference limits the workspace and states
//! alignments. An algorithm is an opaque value that is valid for products that agree in all of these.
#![allow(unsafe_code)] // Calls of the library.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::cublas::sys::cublasOperation_t as Transposition;
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreferenceAttributes_t as PrefAttribute, cublasLtMatrixLayoutAttribute_t as LayoutAttribute,
    cublasLtReductionScheme_t as Parts, cudaDataType as Type,
};
use cudarc::driver::{CudaStream, result};
use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::types::Types;

use super::column_major::{ColumnMajor, Operand, Scalars, Sums, refused};
use super::driver;
use super::queue::{Enqueue, Queue};
use crate::error::{DeviceError, Error};
use crate::resident::Resident;

/// As for cuBLAS: twice what the documentation recommends for the largest devices ("cublasSetWorkspace").
const WORKSPACE_BYTES: usize = 64 << 20;
/// The alignment in bytes that the library assumes of every matrix unless a preference says less.
const ALIGNMENT: u64 = 256;

/// cuBLASLt on one queue.
pub struct CublasLt {
    handle: sys::cublasLtHandle_t,
    workspace: u64,
    stream: Arc<CudaStream>,
}

/// How tensor cores add products of 8-bit floats; of other types there is one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulation {
    /// Sums are moved to registers of f32 every few terms.
    Exact,
    /// Sums stay in the tensor cores, which keep fewer bits (`CUBLASLT_MATMUL_DESC_FAST_ACCUM`).
    Fast,
}

/// How to compute a product: a proposal of the library's heuristics.
#[derive(Clone, Copy)]
pub struct Algorithm {
    accumulation: Accumulation,
    algorithm: sys::cublasLtMatmulAlgo_t,
    /// The product that it was proposed for.
    product: ColumnMajor,
}

/// One product (or a strided batch), ready to run: D = A B, with alpha = 1 and beta = 0.
pub struct CublasLtProduct<'a> {
    lt: &'a CublasLt,
    product: ColumnMajor,
    scalars: Scalars,
    described: Described,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

/// The library's descriptors of a product.
struct Described {
    operation: Operation,
    left: Layout,
    right: Layout,
    out: Layout,
}

struct Operation(sys::cublasLtMatmulDesc_t);
struct Layout(sys::cublasLtMatrixLayout_t);
struct Preference(sys::cublasLtMatmulPreference_t);

impl CublasLt {
    /// Number of proposals that are requested.
    pub const PROPOSALS: usize = 8;

    /// Opens the library. If it is missing, the error says which names were tried.
    pub fn new(queue: &Queue) -> Result<CublasLt, Error> {
        // SAFETY: it only tries to open the library.
        if !unsafe { sys::is_culib_present() } {
            let message = "libcublasLt.so was not found (libcublasLt.so.13 and older names were looked for); it is next to \
                           libcublas.so, and LD_LIBRARY_PATH can name its folder";
            return Err(refused(message).into());
        }
        let stream = queue.stream().clone();
        let failed = |call| move |error| failed(call, driver::code(error));
        stream.context().bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: a context is current, and the pointer is to a local variable.
        status("cublasLtCreate", unsafe { sys::cublasLtCreate(&mut handle) })?;
        // `lt` owns the handle from here on; an address of 0 is not freed.
        let mut lt = CublasLt { handle, workspace: 0, stream };
        // SAFETY: a context is current.
        lt.workspace = unsafe { result::malloc_sync(WORKSPACE_BYTES) }.map_err(failed("cuMemAlloc"))?;
        Ok(lt)
    }

    /// The library's version, such as 13.1.0.
    pub fn version(&self) -> String {
        // SAFETY: the library is there, since there is a handle.
        let version = unsafe { sys::cublasLtGetVersion() };
        // As for cuBLAS, 130100 is 13.1.0.
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Up to [`PROPOSALS`](CublasLt::PROPOSALS) ways to compute a product as a schedule with these types does, without
    /// TF32 unless the types are tf32. The first is the one that the library expects to be the fastest. An error if it
    /// has none.
    pub fn algorithms(
        &self,
        types: Types,
        accumulation: Accumulation,
        [a, b, d]: [&Resident; 3],
    ) -> Result<Vec<Algorithm>, Error> {
        let product = self.column_major(types, [a, b, d])?;
        let described = Described::new(&product, accumulation)?;
        let preference = Preference::new(&product)?;
        // SAFETY: plain data, of which every field may be zero; a status of zero is success.
        let mut found: [sys::cublasLtMatmulHeuristicResult_t; Self::PROPOSALS] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // SAFETY: all descriptors are alive, and the library writes as many results as the array has, and their number.
        let called = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                described.operation.0,
                described.left.0,
                described.right.0,
                described.out.0,
                described.out.0,
                preference.0,
                Self::PROPOSALS as i32,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        status("cublasLtMatmulAlgoGetHeuristic", called)?;
        let count = usize::try_from(count).unwrap_or(0).min(found.len());
        let usable = |one: &&sys::cublasLtMatmulHeuristicResult_t| {
            one.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS && one.workspaceSize <= WORKSPACE_BYTES
        };
        let algorithm =
            |one: &sys::cublasLtMatmulHeuristicResult_t| Algorithm { accumulation, algorithm: one.algo, product };
        let algorithms: Vec<Algorithm> = found[..count].iter().filter(usable).map(algorithm).collect();
        match algorithms.is_empty() {
            true => Err(refused("cuBLASLt proposes no algorithm for this product").into()),
            false => Ok(algorithms),
        }
    }

    /// A product by one of the algorithms that were proposed for it, or for the same product at other addresses.
    pub fn product<'a>(
        &'a self,
        types: Types,
        [a, b, d]: [&'a Resident; 3],
        algorithm: &Algorithm,
    ) -> Result<CublasLtProduct<'a>, Error> {
        let product = self.column_major(types, [a, b, d])?;
        if !same(&product, &algorithm.product) {
            return Err(refused("cuBLASLt proposed this algorithm for another product").into());
        }
        let (described, scalars) = (Described::new(&product, algorithm.accumulation)?, product.sums.scalars());
        Ok(CublasLtProduct { lt: self, product, scalars, described, algorithm: algorithm.algorithm })
    }

    /// The product, with a current context.
    fn column_major(&self, types: Types, matrices: [&Resident; 3]) -> Result<ColumnMajor, Error> {
        for resident in matrices {
            if resident.device().gpu()?.shared.context.cu_ctx() != self.stream.context().cu_ctx() {
                return Err(refused(&format!("a matrix is in the memory of {}", resident.device())).into());
            }
        }
        let bound = self.stream.context().bind_to_thread();
        bound.map_err(|error| failed("cuCtxSetCurrent", driver::code(error)))?;
        Ok(ColumnMajor::of(types, matrices.map(Resident::matrix))?)
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        if self.stream.context().bind_to_thread().is_ok() {
            // SAFETY: created once, destroyed once, after all work that uses the workspace. In a dead context errors
            // cannot be reported.
            unsafe {
                let _ = self.stream.synchronize();
                let _ = sys::cublasLtDestroy(self.handle);
                if self.workspace != 0 {
                    let _ = result::free_sync(self.workspace);
                }
            }
        }
    }
}

impl Enqueue for CublasLtProduct<'_> {
    fn enqueue(&self, queue: &Queue) -> Result<(), Error> {
        let CublasLtProduct { lt, product: ColumnMajor { left, right, out, .. }, scalars, described, algorithm } = self;
        if queue.stream().cu_stream() != lt.stream.cu_stream() {
            return Err(refused("it was opened for another queue").into());
        }
        let [alpha, beta] = scalars.pointers();
        let d = out.address as *mut c_void;
        // SAFETY: handle, descriptors and workspace are alive; the operands are borrowed and as described; alpha and beta
        // are of the type of the sums and are read before the call returns. C is D, which the documentation allows for
        // equal descriptors, and with beta = 0 it is not read.
        let called = unsafe {
            sys::cublasLtMatmul(
                lt.handle,
                described.operation.0,
                alpha,
                left.address as *const c_void,
                described.left.0,
                right.address as *const c_void,
                described.right.0,
                beta,
                d,
                described.out.0,
                d,
                described.out.0,
                algorithm,
                lt.workspace as *mut c_void,
                WORKSPACE_BYTES,
                lt.stream.cu_stream().cast(),
            )
        };
        Ok(status("cublasLtMatmul", called)?)
    }
}

impl Described {
    fn new(product: &ColumnMajor, accumulation: Accumulation) -> Result<Described, DeviceError> {
        Ok(Described {
            operation: Operation::new(product, accumulation)?,
            left: Layout::new(&product.left)?,
            right: Layout::new(&product.right)?,
            out: Layout::new(&product.out)?,
        })
    }
}

impl Operation {
    fn new(product: &ColumnMajor, accumulation: Accumulation) -> Result<Operation, DeviceError> {
        let (compute, scale) = compute(product.sums);
        let mut descriptor = ptr::null_mut();
        // SAFETY: the pointer is to a local variable.
        let created = unsafe { sys::cublasLtMatmulDescCreate(&mut descriptor, compute, scale) };
        status("cublasLtMatmulDescCreate", created)?;
        let operation = Operation(descriptor);
        operation.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, transposition(&product.left))?;
        operation.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, transposition(&product.right))?;
        if accumulation == Accumulation::Fast {
            operation.set(DescAttribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1_i8)?;
        }
        Ok(operation)
    }

    /// `T` is the type that the documentation states for the attribute.
    fn set<T>(&self, attribute: DescAttribute, value: T) -> Result<(), DeviceError> {
        // SAFETY: the descriptor is alive, and the library reads the bytes of the value.
        let set = unsafe {
            sys::cublasLtMatmulDescSetAttribute(self.0, attribute, ptr::from_ref(&value).cast(), size_of::<T>())
        };
        status("cublasLtMatmulDescSetAttribute", set)
    }
}

impl Layout {
    fn new(operand: &Operand) -> Result<Layout, DeviceError> {
        let (rows, cols) = (u64::from(operand.rows.unsigned_abs()), u64::from(operand.cols.unsigned_abs()));
        let mut descriptor = ptr::null_mut();
        // SAFETY: the pointer is to a local variable.
        let created = unsafe {
            sys::cublasLtMatrixLayoutCreate(
                &mut descriptor,
                data_type(operand.dtype),
                rows,
                cols,
                i64::from(operand.ld),
            )
        };
        status("cublasLtMatrixLayoutCreate", created)?;
        let layout = Layout(descriptor);
        if operand.count != 1 {
            layout.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &operand.count)?;
            layout.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &operand.stride)?;
        }
        Ok(layout)
    }

    /// `T` is the type that the documentation states for the attribute.
    fn set<T>(&self, attribute: LayoutAttribute, value: &T) -> Result<(), DeviceError> {
        // SAFETY: the descriptor is alive, and the library reads the bytes of the value.
        let set = unsafe {
            sys::cublasLtMatrixLayoutSetAttribute(self.0, attribute, ptr::from_ref(value).cast(), size_of::<T>())
        };
        status("cublasLtMatrixLayoutSetAttribute", set)
    }
}

impl Preference {
    fn new(product: &ColumnMajor) -> Result<Preference, DeviceError> {
        let mut descriptor = ptr::null_mut();
        // SAFETY: the pointer is to a local variable.
        let created = unsafe { sys::cublasLtMatmulPreferenceCreate(&mut descriptor) };
        status("cublasLtMatmulPreferenceCreate", created)?;
        let preference = Preference(descriptor);
        preference.set(PrefAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(WORKSPACE_BYTES as u64))?;
        let [left, right, out] = [product.left, product.right, product.out].map(alignment);
        preference.set(PrefAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &left)?;
        preference.set(PrefAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &right)?;
        preference.set(PrefAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &out)?;
        preference.set(PrefAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &out)?;
        // As for cuBLAS, parts of a sum are added in the type of the accumulator.
        let parts =
            Parts::CUBLASLT_REDUCTION_SCHEME_INPLACE as u32 | Parts::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        preference.set(PrefAttribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &parts)?;
        Ok(preference)
    }

    /// `T` is the type that the documentation states for the attribute.
    fn set<T>(&self, attribute: PrefAttribute, value: &T) -> Result<(), DeviceError> {
        // SAFETY: the descriptor is alive, and the library reads the bytes of the value.
        let set = unsafe {
            sys::cublasLtMatmulPreferenceSetAttribute(self.0, attribute, ptr::from_ref(value).cast(), size_of::<T>())
        };
        status("cublasLtMatmulPreferenceSetAttribute", set)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; it uses only memory of the host.
        let _ = unsafe { sys::cublasLtMatmulDescDestroy(self.0) };
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: as for `Operation`.
        let _ = unsafe { sys::cublasLtMatrixLayoutDestroy(self.0) };
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: as for `Operation`.
        let _ = unsafe { sys::cublasLtMatmulPreferenceDestroy(self.0) };
    }
}

/// Whether an algorithm for one product can compute the other: all that the library knows of them agrees.
fn same(one: &ColumnMajor, other: &ColumnMajor) -> bool {
    let sides = |product: &ColumnMajor| [product.left, product.right, product.out];
    let known = |operand: Operand| (Operand { address: 0, ..operand }, alignment(operand));
    (one.extents, one.sums) == (other.extents, other.sums) && sides(one).map(known) == sides(other).map(known)
}

/// The largest power of two that divides the address of every matrix of a stack, up to the alignment that the library
/// assumes.
fn alignment(operand: Operand) -> u32 {
    let stride = operand.stride.unsigned_abs() * u64::from(operand.dtype.bytes());
    let both = operand.address | if operand.count > 1 { stride } else { 0 };
    1 << both.trailing_zeros().min(ALIGNMENT.trailing_zeros())
}

fn transposition(operand: &Operand) -> i32 {
    if operand.transposed { Transposition::CUBLAS_OP_T as i32 } else { Transposition::CUBLAS_OP_N as i32 }
}

/// How cuBLASLt accumulates, and the type of alpha and beta (cuBLAS documentation, "cublasLtMatmul", the table of
/// compute types).
fn compute(sums: Sums) -> (Compute, Type) {
    match sums {
        Sums::F16 => (Compute::CUBLAS_COMPUTE_16F, Type::CUDA_R_16F),
        Sums::F32 | Sums::Fp8 => (Compute::CUBLAS_COMPUTE_32F, Type::CUDA_R_32F),
        Sums::Tf32 => (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, Type::CUDA_R_32F),
        Sums::F64 => (Compute::CUBLAS_COMPUTE_64F, Type::CUDA_R_64F),
        Sums::I32 => (Compute::CUBLAS_COMPUTE_32I, Type::CUDA_R_32I),
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
        code => Err(failed(call, format!("{code:?}"))),
    }
}

fn failed(call: &'static str, code: String) -> DeviceError {
    DeviceError::Driver { call, device: "cuBLASLt".into(), code }
}

impl fmt::Debug for CublasLt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CublasLt({})", self.version())
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Algorithm({:x?})", self.algorithm.data)
    }
}

impl fmt::Debug for CublasLtProduct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CublasLtProduct({:?})", self.product.extents)
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Layout;

    use super::*;
    use crate::arguments::DeviceMatrix;
    use crate::shape::{Shape, Stack};

    fn product(address: u64, ld: usize, stack: Stack) -> ColumnMajor {
        let types = Types { a: DType::Bf16, b: DType::Bf16, acc: DType::F32, c: DType::Bf16, d: DType::Bf16 };
        let shape = Shape { ld, ..Shape::packed(8, 8, Layout::Row) };
        let matrix = |address| DeviceMatrix { address, shape, stack };
        ColumnMajor::of(types, [matrix(address), matrix(0x2000), matrix(0x3000)]).expect("supported")
    }

    #[test]
    fn alignments_are_those_of_every_matrix() {
        let right = |address, stack| alignment(product(address, 8, stack).right);
        assert_eq!(right(0x1000, Stack::ONE), 256);
        assert_eq!(right(0x1010, Stack::ONE), 16);
        assert_eq!(right(0x1002, Stack::ONE), 2);
        assert_eq!(right(0, Stack::ONE), 256);
        // 20 elements of 2 bytes.
        assert_eq!(right(0x1000, Stack { count: 3, stride: 20 }), 8);
        assert_eq!(right(0x1000, Stack { count: 3, stride: 0 }), 256);
    }

    #[test]
    fn an_algorithm_is_for_all_copies_of_its_product() {
        let one = product(0x1000, 8, Stack::ONE);
        assert!(same(&one, &product(0x5000, 8, Stack::ONE)));
        assert!(!same(&one, &product(0x5010, 8, Stack::ONE)), "less aligned");
        assert!(!same(&one, &product(0x1000, 16, Stack::ONE)), "another leading dimension");
        assert!(!same(&one, &product(0x1000, 8, Stack { count: 2, stride: 64 })), "a batch");
    }
}
