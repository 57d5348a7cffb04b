//! A product as cuBLAS computes it: by its own call, or by a proposal of cuBLASLt.

use ptx_gemm::cuda::{Algorithm, Cublas, CublasLt, Enqueue, Queue};
use ptx_gemm::{Error, Resident};

use crate::operands::Operands;

/// How cuBLAS computes a product.
pub(crate) enum Library<'r> {
    /// As programs call it.
    Cublas(&'r Cublas),
    /// By a proposal of cuBLASLt.
    Lt(&'r CublasLt, Box<Algorithm>),
}

impl<'r> Library<'r> {
    /// The product on each copy.
    pub(crate) fn on_all<'a>(self, operands: &'a Operands) -> Result<Vec<Box<dyn Enqueue + 'a>>, Error>
    where
        'r: 'a,
    {
        fn boxed<'a>(products: Vec<impl Enqueue + 'a>) -> Vec<Box<dyn Enqueue + 'a>> {
            products.into_iter().map(|one| Box::new(one) as Box<dyn Enqueue>).collect()
        }
        Ok(match self {
            Library::Cublas(cublas) => boxed(operands.cublas(cublas)?),
            Library::Lt(lt, algorithm) => boxed(operands.cublaslt(lt, &algorithm)?),
        })
    }

    /// Computes the product on the first copy into another D.
    pub(crate) fn compute(self, queue: &Queue, operands: &Operands, d: &Resident) -> Result<(), Error> {
        match self {
            Library::Cublas(cublas) => queue.launch(&operands.cublas_into(cublas, d)?)?,
            Library::Lt(lt, algorithm) => queue.launch(&operands.cublaslt_into(lt, &algorithm, d)?)?,
        }
        queue.wait()
    }
}
