//! The operands of one product, in several copies.
//!
//! Operands that fit the second-level cache would still be there at the second launch, unlike in a program that
//! computes them in between. Launches therefore cycle through enough copies to exceed the cache.

use ptx_gemm::builder::{Axis, Epilogue};
use ptx_gemm::cuda::{Accumulation, Algorithm, Cublas, CublasLt, CublasLtProduct, CublasProduct, Properties};
use ptx_gemm::{
    Batch, CompiledGemm, DType, Device, DeviceError, Error, Expert, ExpertsCall, Prepared, Problem, Resident,
    ResidentCall, Shape, Stack,
};
use ptx_gemm_check::bound::{Estimate, Rounding};
use ptx_gemm_check::epilogue::{self, APPROXIMATE, reads};

use crate::cpu::available;
use crate::host::Host;
use crate::suites::Size;

/// The total size of the copies relative to the cache.
const CACHES: u64 = 3;
/// The maximum number of copies.
const COPIES: u64 = 256;

/// One product's data on the host, and copies of it on the device.
#[derive(Debug)]
pub(crate) struct Operands {
    pub(crate) problem: Problem,
    pub(crate) size: Size,
    /// As the suite lists it: in a group, the rows of an expert on average, and the experts.
    pub(crate) listed: Size,
    pub(crate) a: Host,
    pub(crate) b: Host,
    copies: Vec<Copy>,
}

/// A, B, and storage for D.
#[derive(Debug)]
struct Copy {
    a: Resident,
    b: Resident,
    d: Resident,
    /// In a group, the weights of every expert except the first, which are `b`. All have the same elements, so that the
    /// rows of all experts together are one product.
    experts: Vec<Resident>,
}

impl Operands {
    /// Random data in the layouts and types of `problem`.
    pub(crate) fn new(
        device: &Device,
        properties: Properties,
        problem: &Problem,
        size: Size,
        seed: u64,
    ) -> Result<Operands, Error> {
        let (types, layouts) = (problem.types, problem.layouts);
        let listed = size;
        let experts = if problem.batch == Batch::Grouped { size.batch } else { 1 };
        let size = if problem.batch == Batch::Grouped { size.stacked() } else { size };
        let Size { m, n, k, batch } = size;
        fits(size, problem)?;
        let random = |dtype, rows, cols, layout, seed| {
            let (shape, stack) = packed(rows, cols, layout, batch);
            Host::random(dtype, shape, stack, seed)
        };
        let a = random(types.a, m, k, layouts.a, 2 * seed);
        let b = random(types.b, k, n, layouts.b, 2 * seed + 1);
        let mut operands = Operands { problem: problem.clone(), size, listed, a, b, copies: Vec::new() };
        let d = operands.poisoned(types.d);
        let bytes = operands.a.bytes() + operands.b.bytes() * experts as u64 + d.bytes();
        for _ in 0..(CACHES * properties.l2_bytes).div_ceil(bytes.max(1)).clamp(1, COPIES) {
            let (a, b, d) = (device.upload(&operands.a)?, device.upload(&operands.b)?, device.upload(&d)?);
            let others = (1..experts).map(|_| device.upload(&operands.b)).collect::<Result<_, Error>>()?;
            let copy = Copy { a, b, d, experts: others };
            operands.copies.push(copy);
        }
        Ok(operands)
    }

    /// A matrix like D in which every byte is `0xff`, so that an element that was not written is noticed.
    pub(crate) fn poisoned(&self, dtype: DType) -> Host {
        let (shape, stack) = packed(self.size.m, self.size.n, self.problem.layouts.d, self.size.batch);
        Host::poisoned(dtype, shape, stack)
    }

    /// The epilogue's other operands: random data; scalars are 1, except `beta`.
    pub(crate) fn extras(&self, device: &Device, problem: &Problem, beta: f64) -> Result<Extras, Error> {
        let Size { m, n, batch, .. } = self.size;
        let epilogue = &problem.epilogue;
        let scalars: Vec<f64> = epilogue.scalars.iter().map(|name| if name == "beta" { beta } else { 1.0 }).collect();
        let acc = problem.types.epilogue();
        let vector = |(index, vector): (usize, &ptx_gemm::builder::Vector)| {
            let len = if vector.axis == Axis::M { m } else { n };
            let (shape, stack) = packed(1, len, ptx_gemm::Layout::Row, 1);
            let host = Host::random(acc, shape, stack, 1000 + index as u64);
            Ok((vector.name.clone(), device.upload(&host)?, host))
        };
        let vectors = epilogue.vectors.iter().enumerate().map(vector).collect::<Result<Vec<_>, Error>>()?;
        let c = if reads(epilogue, &scalars).1 {
            let (shape, stack) = packed(m, n, problem.layouts.c, batch);
            let host = Host::random(problem.types.c, shape, stack, 999);
            let copies = self.copies.iter().map(|_| device.upload(&host)).collect::<Result<Vec<_>, Error>>()?;
            Some((host, copies))
        } else {
            None
        };
        Ok(Extras { epilogue: epilogue.clone(), scalars, vectors, c })
    }

    /// The product on each copy by a schedule.
    pub(crate) fn prepared<'a>(&'a self, gemm: &CompiledGemm, extras: &'a Extras) -> Result<Vec<Prepared<'a>>, Error> {
        self.copies.iter().enumerate().map(|(index, copy)| extras.prepare(gemm, copy, &copy.d, index)).collect()
    }

    /// The product on the first copy, with another D.
    pub(crate) fn prepared_into<'a>(
        &'a self,
        gemm: &CompiledGemm,
        extras: &'a Extras,
        d: &'a Resident,
    ) -> Result<Prepared<'a>, Error> {
        extras.prepare(gemm, &self.copies[0], d, 0)
    }

    /// The product on each copy by cuBLAS.
    pub(crate) fn cublas<'a>(&'a self, cublas: &'a Cublas) -> Result<Vec<CublasProduct<'a>>, Error> {
        let product = |copy: &'a Copy| cublas.product(self.problem.types, &copy.a, &copy.b, &copy.d);
        self.copies.iter().map(product).collect()
    }

    /// The product on the first copy by cuBLAS, with another D.
    pub(crate) fn cublas_into<'a>(&'a self, cublas: &'a Cublas, d: &'a Resident) -> Result<CublasProduct<'a>, Error> {
        let Copy { a, b, .. } = &self.copies[0];
        cublas.product(self.problem.types, a, b, d)
    }
}

impl Operands {
    /// How cuBLASLt would compute the product.
    pub(crate) fn cublaslt_algorithms(
        &self,
        lt: &CublasLt,
        accumulation: Accumulation,
    ) -> Result<Vec<Algorithm>, Error> {
        let Copy { a, b, d, .. } = &self.copies[0];
        lt.algorithms(self.problem.types, accumulation, [a, b, d])
    }

    /// The product on each copy by cuBLASLt.
    pub(crate) fn cublaslt<'a>(
        &'a self,
        lt: &'a CublasLt,
        algorithm: &Algorithm,
    ) -> Result<Vec<CublasLtProduct<'a>>, Error> {
        let product = |Copy { a, b, d, .. }: &'a Copy| lt.product(self.problem.types, [a, b, d], algorithm);
        self.copies.iter().map(product).collect()
    }

    /// The product on the first copy by cuBLASLt, with another D.
    pub(crate) fn cublaslt_into<'a>(
        &'a self,
        lt: &'a CublasLt,
        algorithm: &Algorithm,
        d: &'a Resident,
    ) -> Result<CublasLtProduct<'a>, Error> {
        let Copy { a, b, .. } = &self.copies[0];
        lt.product(self.problem.types, [a, b, d], algorithm)
    }
}

/// The operands of an epilogue other than the accumulator.
#[derive(Debug)]
pub(crate) struct Extras {
    pub(crate) epilogue: Epilogue,
    /// In the order of the epilogue.
    pub(crate) scalars: Vec<f64>,
    vectors: Vec<(String, Resident, Host)>,
    /// C, one copy for each copy of the operands; `None` if it is not read.
    c: Option<(Host, Vec<Resident>)>,
}

impl Extras {
    /// For a product that is stored without an epilogue.
    pub(crate) fn none() -> Extras {
        Extras { epilogue: Epilogue::identity(), scalars: Vec::new(), vectors: Vec::new(), c: None }
    }

    fn prepare<'a>(
        &'a self,
        gemm: &CompiledGemm,
        Copy { a, b, experts, .. }: &'a Copy,
        d: &'a Resident,
        index: usize,
    ) -> Result<Prepared<'a>, Error> {
        let names = self.epilogue.scalars.iter().map(String::as_str);
        let scalars: Vec<(&str, f64)> = names.zip(self.scalars.iter().copied()).collect();
        let vectors: Vec<(&str, &Resident)> =
            self.vectors.iter().map(|(name, resident, _)| (name.as_str(), resident)).collect();
        if gemm.problem().batch == Batch::Grouped {
            let weights: Vec<&Resident> = std::iter::once(b).chain(experts).collect();
            let rows = routed(a.matrix().shape.rows, weights.len());
            let expert = |(rows, b): (usize, _)| Expert { rows, b, vectors: &vectors };
            let experts: Vec<Expert<'_, '_>> = rows.into_iter().zip(weights).map(expert).collect();
            return gemm.prepare_experts(&ExpertsCall { a, d, experts: &experts, scalars: &scalars });
        }
        let c = self.c.as_ref().and_then(|(_, copies)| copies.get(index));
        gemm.prepare_resident(&ResidentCall { a, b, c, d, vectors: &vectors, scalars: &scalars })
    }

    /// The vectors' elements.
    pub(crate) fn vectors(&self) -> Vec<Vec<f64>> {
        let elements = |host: &Host| (0..host.elements()).map(|index| host.get(index)).collect();
        self.vectors.iter().map(|(.., host)| elements(host)).collect()
    }

    /// An element of C.
    pub(crate) fn c(&self, product: usize, row: usize, col: usize) -> f64 {
        self.c.as_ref().map_or(0.0, |(host, _)| host.at(product, row, col))
    }

    /// Whether D is the accumulator itself, judged by some values.
    pub(crate) fn is_plain(&self, rounding: Rounding) -> bool {
        let same = |value: f64| {
            let operands = epilogue::Operands {
                acc: Estimate::exact(value),
                c: 0.0,
                row: 0,
                col: 0,
                scalars: &self.scalars,
                vectors: &[],
            };
            epilogue::evaluate(&self.epilogue, &operands, rounding, APPROXIMATE).value == value
        };
        self.vectors.is_empty() && self.c.is_none() && [-2.5, -0.125, 0.0, 1.0, 37.0].into_iter().all(same)
    }
}

/// Rows of each of `experts`, `rows` in all: unequal as after a router, from half to one and a half of the average, in
/// no order.
pub(crate) fn routed(rows: usize, experts: usize) -> Vec<usize> {
    let share = |expert: usize| 0.5 + ((expert * 7 + 3) % experts) as f64 / experts.max(2) as f64;
    let all: f64 = (0..experts).map(share).sum();
    let mut left = rows;
    let mut each: Vec<usize> = (0..experts)
        .map(|expert| {
            let own = ((rows as f64 * share(expert) / all) as usize).min(left);
            left -= own;
            own
        })
        .collect();
    if let Some(last) = each.last_mut() {
        *last += left;
    }
    each
}

/// Whether the host has memory for A, B, and three matrices like D: the result, the reference, and its magnitudes.
fn fits(size: Size, problem: &Problem) -> Result<(), Error> {
    let d = size.m as u128 * size.n as u128 * size.batch as u128;
    let bytes = size.bytes(problem.types).saturating_add(d.saturating_mul(2 * 8));
    match available() {
        Some(available) if bytes > available.into() => Err(Error::Device(DeviceError::OutOfMemory {
            device: "the host".into(),
            what: format!("the matrices of {size}"),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        })),
        _ => Ok(()),
    }
}

fn packed(rows: usize, cols: usize, layout: ptx_gemm::Layout, batch: usize) -> (Shape, Stack) {
    let shape = Shape::packed(rows, cols, layout);
    let stack = if batch == 1 { Stack::ONE } else { Stack { count: batch, stride: shape.len().unwrap_or(0) } };
    (shape, stack)
}
