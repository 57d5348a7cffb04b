//! The libraries that schedules are compared with, on the same data in the same process: cuBLAS, and cuBLASLt with the
//! fastest of the algorithms that it proposes.
//!
//! cuBLAS has no call for 8-bit floats; for those it stands for the first proposal of cuBLASLt.

use ptx_gemm::cuda::{Accumulation, Algorithm, Cublas, CublasLt, CublasLtProduct, Enqueue, Queue};
use ptx_gemm::{DType, Device, Error, Resident};

use crate::agree::{Agreement, Reference};
use crate::library::Library;
use crate::measure::{Sides, fastest};
use crate::operands::Operands;

/// What a session compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// cuBLAS, as programs call it.
    Cublas,
    /// Also the fastest of cuBLASLt's proposals, which are all timed on each product.
    BestOfCublasLt,
}

/// The libraries that were found.
pub(crate) struct Rivals {
    pub(crate) cublas: Option<Cublas>,
    pub(crate) cublaslt: Option<CublasLt>,
    /// Whether the fastest proposal of cuBLASLt is a rival of its own.
    best: bool,
}

/// A product on all copies of its operands, by each library that computes it.
#[derive(Default)]
pub(crate) struct Theirs<'a> {
    cublas: Vec<Box<dyn Enqueue + 'a>>,
    /// The same with [`Accumulation::Fast`]; empty where there is one way to add.
    fast: Vec<Box<dyn Enqueue + 'a>>,
    cublaslt: Vec<CublasLtProduct<'a>>,
}

impl Rivals {
    /// Opens the libraries; also returns their versions, or why there is none. A library that is not wanted has no answer.
    pub(crate) fn open(queue: &Queue, against: Against) -> (Rivals, Versions) {
        let cublas = Cublas::new(queue);
        let cublaslt = CublasLt::new(queue);
        let best = against == Against::BestOfCublasLt;
        let versions = Versions {
            cublas: cublas.as_ref().map(Cublas::version).map_err(Error::to_string),
            cublaslt: best.then(|| cublaslt.as_ref().map(CublasLt::version).map_err(Error::to_string)),
        };
        (Rivals { cublas: cublas.ok(), cublaslt: cublaslt.ok(), best }, versions)
    }

    /// How cuBLAS computes this product, if it does. Some products, such as those of unaligned rows of bytes, it refuses only when
    /// it is called.
    pub(crate) fn library(
        &self,
        queue: &Queue,
        operands: &Operands,
        accumulation: Accumulation,
    ) -> Option<Library<'_>> {
        let runs = |cublas: &&Cublas| {
            let products = operands.cublas(cublas).unwrap_or_default();
            products.first().is_some_and(|first| queue.launch(first).is_ok())
        };
        let cublas = self.cublas.as_ref().filter(runs).map(Library::Cublas);
        let proposed = || {
            let lt = self.cublaslt.as_ref().filter(|_| narrow(operands))?;
            let algorithms = operands.cublaslt_algorithms(lt, accumulation).ok()?;
            Some(Library::Lt(lt, Box::new(*algorithms.first()?)))
        };
        cublas.or_else(proposed)
    }

    /// The product on all copies, by those libraries that compute it. The error is about a wrong result of cuBLASLt, which is
    /// then left out.
    pub(crate) fn on<'a>(
        &'a self,
        device: &Device,
        queue: &Queue,
        operands: &'a Operands,
        reference: &Reference,
    ) -> (Theirs<'a>, Result<(), String>) {
        let by = |accumulation| {
            let library = self.library(queue, operands, accumulation);
            library.and_then(|library| library.on_all(operands).ok()).unwrap_or_default()
        };
        let cublas = by(Accumulation::Exact);
        let fast = if narrow(operands) { by(Accumulation::Fast) } else { Vec::new() };
        let wanted = self.cublaslt.as_ref().filter(|_| self.best);
        let best = wanted.map(|lt| best(device, queue, lt, operands, reference));
        let (cublaslt, right) = match best {
            Some(Ok(products)) => (products, Ok(())),
            Some(Err(why)) => (Vec::new(), Err(why)),
            None => (Vec::new(), Ok(())),
        };
        (Theirs { cublas, fast, cublaslt }, right)
    }
}

/// The libraries' versions.
#[derive(Clone, Debug)]
pub struct Versions {
    /// The version of cuBLAS, or why there is none.
    pub cublas: Result<String, String>,
    /// The same of cuBLASLt; `None` if it was not wanted.
    pub cublaslt: Option<Result<String, String>>,
}

impl Theirs<'_> {
    /// Together with our own kernel, which adds in this way, for a measurement.
    pub(crate) fn next_to<'a>(&'a self, ours: Vec<&'a dyn Enqueue>, accumulation: Accumulation) -> Sides<'a> {
        let cublas = match accumulation {
            Accumulation::Fast if !self.fast.is_empty() => &self.fast,
            _ => &self.cublas,
        };
        Sides { ours, cublas: cublas.iter().map(|one| &**one).collect(), cublaslt: enqueued(&self.cublaslt) }
    }
}

/// The fastest of cuBLASLt's proposals on all copies; none where it has no proposal.
fn best<'a>(
    device: &Device,
    queue: &Queue,
    lt: &'a CublasLt,
    operands: &'a Operands,
    reference: &Reference,
) -> Result<Vec<CublasLtProduct<'a>>, String> {
    let Ok(algorithms) = operands.cublaslt_algorithms(lt, Accumulation::Exact) else { return Ok(Vec::new()) };
    let on_all = |algorithm: &Algorithm| operands.cublaslt(lt, algorithm);
    let mut ways: Vec<(Algorithm, Vec<CublasLtProduct<'a>>)> =
        algorithms.into_iter().filter_map(|algorithm| Some((algorithm, on_all(&algorithm).ok()?))).collect();
    let found = fastest(queue, ways.iter().map(|(_, products)| enqueued(products)).collect());
    let Some(index) = found else { return Ok(Vec::new()) };
    let (algorithm, products) = ways.swap_remove(index);
    let result = |d: &Resident| -> Result<(), Error> {
        queue.launch(&operands.cublaslt_into(lt, &algorithm, d)?)?;
        queue.wait()
    };
    match reference.of_library(device, operands, result) {
        Ok(Agreement::Right { .. }) => Ok(products),
        Ok(Agreement::Uncompared(what)) => {
            Err(format!("cuBLASLt's result is not compared, and it is left out: {what}"))
        }
        Ok(Agreement::Wrong(what)) => Err(format!("cuBLASLt's result is wrong, and it is left out: {what}")),
        Err(error) => Err(format!("cuBLASLt is left out: {error}")),
    }
}

/// Whether there are two ways to add these products.
fn narrow(operands: &Operands) -> bool {
    matches!(operands.problem.types.a, DType::E4m3 | DType::E5m2)
}

fn enqueued<T: Enqueue>(products: &[T]) -> Vec<&dyn Enqueue> {
    products.iter().map(|one| one as &dyn Enqueue).collect()
}
