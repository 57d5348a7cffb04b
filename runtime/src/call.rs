//! One product on host matrices: its operands in addition to A and B, and the copies to the device and back.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{DType, Layout};

use crate::arguments::{Arguments, DeviceMatrix, DeviceVector};
use crate::backend::{Backend, Buffer, Lifetime, Output};
use crate::batch::MatrixBatch;
use crate::checks::{self, Extents, GivenVector};
use crate::compiled::{CompiledGemm, Run};
use crate::element::Element;
use crate::error::{ArgumentError, DeviceError, Error, OperandName};
use crate::matrix::Matrix;
use crate::shape::{Placement, Shape, Stack};
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut, Strides, TypedMatrix};
use std::sync::Arc;

/// A product under construction. Nothing is checked before [`Call::multiply`] or a similar method is called.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub(crate) gemm: CompiledGemm,
    pub(crate) c: Option<Result<AnyRef<'a>, Strides>>,
    pub(crate) scalars: Vec<(String, f64)>,
    pub(crate) vectors: Vec<AnyVector<'a>>,
    pub(crate) padding: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct AnyVector<'a> {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) bytes: &'a [u8],
}

impl AnyVector<'_> {
    fn len(&self) -> usize {
        self.bytes.len() / self.dtype.bytes() as usize
    }
}

impl CompiledGemm {
    /// D = epilogue(A B), in a new matrix without padding, with elements of A's type. If the schedule gives D another
    /// type, use [`CompiledGemm::multiply_as`].
    pub fn multiply<A: TypedMatrix>(&self, a: &A, b: &impl AsMatrix) -> Result<Matrix<A::Element>, Error> {
        self.call().multiply(a, b)
    }

    /// D = epilogue(A B), in a new matrix without padding, with elements of type `T`: `multiply_as::<f32>(&a, &b)`.
    pub fn multiply_as<T: Element>(&self, a: &impl AsMatrix, b: &impl AsMatrix) -> Result<Matrix<T>, Error> {
        self.call().multiply_as(a, b)
    }

    /// The products of `batch(strided)`: see [`Call::multiply_batch`].
    pub fn multiply_batch<A: TypedMatrix>(&self, a: &A, b: &impl AsMatrix) -> Result<MatrixBatch<A::Element>, Error> {
        self.call().multiply_batch(a, b)
    }

    /// D = epilogue(A B), in a matrix of the caller.
    pub fn multiply_into(&self, a: &impl AsMatrix, b: &impl AsMatrix, d: &mut impl AsMatrixMut) -> Result<Run, Error> {
        self.call().multiply_into(a, b, d)
    }

    /// A call without arguments of the epilogue so far.
    pub fn call(&self) -> Call<'_> {
        Call::new(self.clone())
    }

    /// A call that reads `c`.
    pub fn c<'a>(&'a self, c: &'a impl AsMatrix) -> Call<'a> {
        self.call().c(c)
    }

    /// A call with a value for a run-time scalar.
    pub fn set(&self, name: &str, value: impl Into<f64>) -> Call<'_> {
        self.call().set(name, value)
    }

    /// A call with a vector of the epilogue.
    pub fn vector<'a, T: Element>(&'a self, name: &str, elements: &'a [T]) -> Call<'a> {
        self.call().vector(name, elements)
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(gemm: CompiledGemm) -> Call<'a> {
        Call { gemm, c: None, scalars: Vec::new(), vectors: Vec::new(), padding: false }
    }

    /// The matrix that the epilogue calls `c`.
    pub fn c(self, c: &'a impl AsMatrix) -> Call<'a> {
        Call { c: Some(c.as_any()), ..self }
    }

    /// The same call on the interpreter, to be completed in the same way. After an error that ended a GPU's context it
    /// names the faulting instruction, its line in the PTX, and its clause.
    pub fn in_interpreter(self) -> Result<Call<'a>, Error> {
        Ok(Call { gemm: self.gemm.in_interpreter()?, ..self })
    }

    /// Copies the padding between the rows of D to the device and back, so that the host sees it if the kernel writes
    /// there. This is for tests; otherwise only elements are copied.
    pub fn with_padding(self) -> Call<'a> {
        Call { padding: true, ..self }
    }

    /// The value of a run-time scalar.
    pub fn set(mut self, name: &str, value: impl Into<f64>) -> Call<'a> {
        self.scalars.push((name.into(), value.into()));
        self
    }

    /// A vector of the epilogue, with one element for each row (`name[m]`) or column (`name[n]`) of D.
    pub fn vector<T: Element>(self, name: &str, elements: &'a [T]) -> Call<'a> {
        self.vector_bytes(name, T::DTYPE, bytemuck::cast_slice(elements))
    }

    /// The same for an element type known only at run time.
    pub fn vector_bytes(mut self, name: &str, dtype: DType, bytes: &'a [u8]) -> Call<'a> {
        self.vectors.push(AnyVector { name: name.into(), dtype, bytes });
        self
    }

    /// D = epilogue(A B), in a new matrix without padding, with elements of A's type. If the schedule gives D another
    /// type, use [`Call::multiply_as`].
    pub fn multiply<A: TypedMatrix>(&self, a: &A, b: &impl AsMatrix) -> Result<Matrix<A::Element>, Error> {
        self.multiply_as(a, b).map_err(|error| self.result_type::<A>("multiply", error))
    }

    /// D = epilogue(A B), in a new matrix without padding, with elements of type `T`: `multiply_as::<f32>(&a, &b)`.
    pub fn multiply_as<T: Element>(&self, a: &impl AsMatrix, b: &impl AsMatrix) -> Result<Matrix<T>, Error> {
        let (a, b) = operands(a, b)?;
        let shape = self.result::<T>(a, b, Stack::ONE)?;
        let mut d = Matrix::try_in_shape(shape, T::default()).ok_or_else(|| out_of_memory::<T>(shape.len()))?;
        self.multiply_into(&a, &b, &mut d)?;
        Ok(d)
    }

    /// The products of `batch(strided)`, one for each matrix of A, in new memory without padding, of A's type.
    pub fn multiply_batch<A: TypedMatrix>(&self, a: &A, b: &impl AsMatrix) -> Result<MatrixBatch<A::Element>, Error> {
        self.multiply_batch_as(a, b).map_err(|error| self.result_type::<A>("multiply_batch", error))
    }

    /// The same with elements of type `T`.
    pub fn multiply_batch_as<T: Element>(&self, a: &impl AsMatrix, b: &impl AsMatrix) -> Result<MatrixBatch<T>, Error> {
        let (a, b) = operands(a, b)?;
        let count = a.stack.count;
        let shape = self.result::<T>(a, b, Stack { count, stride: usize::MAX })?;
        let elements = shape.len().and_then(|len| len.checked_mul(count));
        let d = MatrixBatch::try_packed(shape, count, T::default());
        let mut d = d.ok_or_else(|| out_of_memory::<T>(elements))?;
        self.multiply_into(&a, &b, &mut d)?;
        Ok(d)
    }

    /// The shape of the result. It is checked before the allocation, which would fail for a nonsensical shape.
    pub(crate) fn result<T: Element>(
        &self,
        a: AnyRef<'_>,
        b: AnyRef<'_>,
        stack: Stack,
    ) -> Result<Shape, ArgumentError> {
        let shape = Shape::packed(a.shape.rows, b.shape.cols, self.gemm.problem().layouts.d);
        self.check_type(Operand::D, T::DTYPE)?;
        let d = Placement { shape, stack };
        checks::extents(self.gemm.interface(), a.placement(), b.placement(), self.addend()?.map(|c| c.placement()), d)?;
        Ok(shape)
    }

    /// D = epilogue(A B), in a matrix of the caller. Its padding stays as it is.
    pub fn multiply_into(&self, a: &impl AsMatrix, b: &impl AsMatrix, d: &mut impl AsMatrixMut) -> Result<Run, Error> {
        let (a, b) = operands(a, b)?;
        self.run(a, b, self.addend()?, result(d)?, Output::Fresh)
    }

    /// The same in place: `d` is also what the epilogue calls `c`.
    pub fn accumulate_into(
        &self,
        a: &impl AsMatrix,
        b: &impl AsMatrix,
        d: &mut impl AsMatrixMut,
    ) -> Result<Run, Error> {
        let ((a, b), d) = (operands(a, b)?, result(d)?);
        if !self.gemm.problem().epilogue.uses_c() {
            checks::check_c(self.gemm.problem(), true, &[])?;
        }
        if self.c.is_some() {
            return Err(ArgumentError::TwoCs.into());
        }
        self.run(a, b, None, d, Output::InPlace)
    }

    /// If A is right and D has another element type, the error says how to request it.
    pub(crate) fn result_type<A: TypedMatrix>(&self, method: &'static str, error: Error) -> Error {
        match error {
            Error::Argument(ArgumentError::Type { operand: OperandName(Operand::D), expected, .. }) => {
                let got = A::Element::DTYPE;
                match self.check_type(Operand::A, got) {
                    Ok(()) => ArgumentError::ResultType { method, got, expected }.into(),
                    Err(of_a) => of_a.into(),
                }
            }
            other => other,
        }
    }

    /// C, if there is one.
    pub(crate) fn addend(&self) -> Result<Option<AnyRef<'a>>, ArgumentError> {
        self.c.transpose().map_err(ArgumentError::strides(Operand::C))
    }

    fn run(
        &self,
        a: AnyRef<'_>,
        b: AnyRef<'_>,
        c: Option<AnyRef<'_>>,
        mut d: AnyMut<'_>,
        output: Output,
    ) -> Result<Run, Error> {
        let prepared = self.prepare(a, b, c, d.as_ref(), output)?;
        if d.shape.is_empty() || d.stack.count == 0 {
            return Ok(Run::nothing());
        }
        let backend = self.gemm.device().backend();
        let on_device = self.transfer(backend, a, b, c, d.as_ref(), &prepared, output)?;
        let run = self.gemm.execute(prepared.extents, on_device.arguments.clone())?;
        let entry = run.entry.as_deref().unwrap_or_default();
        self.download(backend, on_device.arguments.d.address, entry, d.reborrow())?;
        Ok(run)
    }

    /// Whether D's padding has to be copied as if it were elements.
    fn copies_padding(&self, backend: &Arc<dyn Backend>) -> bool {
        self.padding && !backend.copies_padding()
    }

    pub(crate) fn download(
        &self,
        backend: &Arc<dyn Backend>,
        address: u64,
        entry: &str,
        d: AnyMut<'_>,
    ) -> Result<(), Error> {
        backend.download(address, entry, if self.copies_padding(backend) { d.with_padding() } else { d })
    }

    /// All checks that host data allow.
    pub(crate) fn prepare(
        &self,
        a: AnyRef<'_>,
        b: AnyRef<'_>,
        c: Option<AnyRef<'_>>,
        d: AnyRef<'_>,
        output: Output,
    ) -> Result<Prepared, ArgumentError> {
        let problem = self.gemm.problem();
        let acc = problem.types.epilogue();
        for (operand, matrix) in [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))]
        {
            if let Some(matrix) = matrix {
                self.check_type(operand, matrix.dtype)?;
            }
        }
        let extents = checks::extents(
            self.gemm.interface(),
            a.placement(),
            b.placement(),
            c.map(|c| c.placement()),
            d.placement(),
        )?;
        for (operand, matrix) in [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))]
        {
            if let Some(matrix) = matrix {
                checks::slice(problem, operand, matrix.dtype, matrix.placement(), matrix.elements())?;
            }
        }
        let scalars = checks::resolve_scalars(&problem.epilogue, acc, &self.scalars)?;
        if output == Output::Fresh {
            checks::check_c(problem, c.is_some(), &scalars)?;
        }
        let given: Vec<GivenVector<'_>> = self
            .vectors
            .iter()
            .map(|vector| GivenVector { name: &vector.name, dtype: vector.dtype, len: vector.len() })
            .collect();
        let vectors = checks::resolve_vectors(&problem.epilogue, acc, extents, &given)?;
        Ok(Prepared { extents, scalars, vectors })
    }

    fn check_type(&self, operand: Operand, got: DType) -> Result<(), ArgumentError> {
        // Only the type matters; any slice satisfies this shape.
        let placement = Placement { shape: Shape::packed(0, 0, Layout::Row), stack: Stack::ONE };
        checks::slice(self.gemm.problem(), operand, got, placement, 0)
    }

    #[allow(clippy::too_many_arguments)] // The four matrices, by name.
    pub(crate) fn transfer(
        &self,
        backend: &Arc<dyn Backend>,
        a: AnyRef<'_>,
        b: AnyRef<'_>,
        c: Option<AnyRef<'_>>,
        d: AnyRef<'_>,
        prepared: &Prepared,
        output: Output,
    ) -> Result<OnDevice, Error> {
        let mut buffers = Vec::new();
        let mut input = |operand: Operand, matrix: AnyRef<'_>| -> Result<DeviceMatrix, Error> {
            let buffer = reserve(backend, OperandName(operand).upper(), matrix)?;
            backend.upload(buffer.address, matrix)?;
            let placed = DeviceMatrix { address: buffer.address, shape: matrix.shape, stack: matrix.stack };
            buffers.push(buffer);
            Ok(placed)
        };
        let (a, b) = (input(Operand::A, a)?, input(Operand::B, b)?);
        let c = c.map(|c| input(Operand::C, c)).transpose()?;
        let mut vectors = Vec::new();
        for &index in &prepared.vectors {
            let AnyVector { name, dtype, bytes } = &self.vectors[index];
            let len = self.vectors[index].len();
            let row = AnyRef {
                dtype: *dtype,
                shape: Shape::packed(1, len, Layout::Row),
                stack: Stack::ONE,
                bytes: (*bytes).into(),
            };
            let buffer = reserve(backend, name, row)?;
            backend.upload(buffer.address, row)?;
            vectors.push(DeviceVector { address: buffer.address, len });
            buffers.push(buffer);
        }
        let buffer = reserve(backend, "D", d)?;
        match self.copies_padding(backend) {
            true => backend.prepare(buffer.address, d.with_padding(), Output::InPlace)?,
            false => backend.prepare(buffer.address, d, output)?,
        }
        let d = DeviceMatrix { address: buffer.address, shape: d.shape, stack: d.stack };
        buffers.push(buffer);
        let c = if output == Output::InPlace { Some(d) } else { c };
        let arguments = Arguments { a, b, c, d, vectors, scalars: prepared.scalars.clone() };
        Ok(OnDevice { arguments, _buffers: buffers })
    }
}

/// A and B as bytes.
pub(crate) fn operands<'a>(
    a: &'a impl AsMatrix,
    b: &'a impl AsMatrix,
) -> Result<(AnyRef<'a>, AnyRef<'a>), ArgumentError> {
    let a = a.as_any().map_err(ArgumentError::strides(Operand::A))?;
    Ok((a, b.as_any().map_err(ArgumentError::strides(Operand::B))?))
}

/// D as bytes.
pub(crate) fn result(d: &mut impl AsMatrixMut) -> Result<AnyMut<'_>, ArgumentError> {
    d.as_any_mut().map_err(ArgumentError::strides(Operand::D))
}

/// The result of the checks of host data.
pub(crate) struct Prepared {
    pub(crate) extents: Extents,
    scalars: Vec<f64>,
    vectors: Vec<usize>,
}

/// Arguments in device memory, and the memory.
pub(crate) struct OnDevice {
    pub(crate) arguments: Arguments,
    _buffers: Vec<Buffer>,
}

fn reserve(backend: &Arc<dyn Backend>, label: &str, matrix: AnyRef<'_>) -> Result<Buffer, Error> {
    let elements = matrix.stack.len(matrix.shape).unwrap_or(usize::MAX) as u64;
    Buffer::new(backend, label, elements, matrix.dtype.bytes(), Lifetime::Call)
}

pub(crate) fn out_of_memory<T: Element>(elements: Option<usize>) -> DeviceError {
    let bytes = (elements.unwrap_or(usize::MAX) as u64).saturating_mul(T::DTYPE.bytes().into());
    DeviceError::OutOfMemory { device: "the host".into(), what: "D".into(), bytes }
}
