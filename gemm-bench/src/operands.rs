//! The operands of one product, in several copies.
//!
//! A product whose operands fit the second-level cache would find them there the second time, which does not happen in
//! a program that computes them in between. Launches therefore cycle through enough copies to exceed the cache.

use ptx_gemm::cuda::{Cublas, CublasProduct, Properties};
use ptx_gemm::{CompiledGemm, DType, Device, Error, Prepared, Problem, Resident, ResidentCall, Shape, Stack};

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
        let Size { m, n, k, batch } = size;
        let (types, layouts) = (problem.types, problem.layouts);
        let random = |dtype, rows, cols, layout, seed| {
            let (shape, stack) = packed(rows, cols, layout, batch);
            Host::random(dtype, shape, stack, seed)
        };
        let a = random(types.a, m, k, layouts.a, 2 * seed);
        let b = random(types.b, k, n, layouts.b, 2 * seed + 1);
        let mut operands = Operands { problem: problem.clone(), size, a, b, copies: Vec::new() };
        let d = operands.poisoned(types.d);
        let bytes = operands.a.bytes() + operands.b.bytes() + d.bytes();
        for _ in 0..(CACHES * properties.l2_bytes).div_ceil(bytes.max(1)).clamp(1, COPIES) {
            let copy = Copy { a: device.upload(&operands.a)?, b: device.upload(&operands.b)?, d: device.upload(&d)? };
            operands.copies.push(copy);
        }
        Ok(operands)
    }

    /// A matrix like D in which every byte is `0xff`, so that an element that was not written is noticed.
    pub(crate) fn poisoned(&self, dtype: DType) -> Host {
        let (shape, stack) = packed(self.size.m, self.size.n, self.problem.layouts.d, self.size.batch);
        Host::poisoned(dtype, shape, stack)
    }

    /// The product on each copy by a schedule: every scalar of its epilogue is 1, and `beta` is 0.
    pub(crate) fn prepared<'a>(&'a self, gemm: &CompiledGemm) -> Result<Vec<Prepared<'a>>, Error> {
        self.copies.iter().map(|copy| prepare(gemm, &copy.a, &copy.b, &copy.d)).collect()
    }

    /// The product on the first copy, with another D.
    pub(crate) fn prepared_into<'a>(&'a self, gemm: &CompiledGemm, d: &'a Resident) -> Result<Prepared<'a>, Error> {
        let Copy { a, b, .. } = &self.copies[0];
        prepare(gemm, a, b, d)
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

fn prepare<'a>(gemm: &CompiledGemm, a: &'a Resident, b: &'a Resident, d: &'a Resident) -> Result<Prepared<'a>, Error> {
    let names = &gemm.problem().epilogue.scalars;
    let scalars: Vec<(&str, f64)> =
        names.iter().map(|name| (name.as_str(), if name == "beta" { 0.0 } else { 1.0 })).collect();
    gemm.prepare_resident(&ResidentCall { a, b, c: None, d, scalars: &scalars })
}

fn packed(rows: usize, cols: usize, layout: ptx_gemm::Layout, batch: usize) -> (Shape, Stack) {
    let shape = Shape::packed(rows, cols, layout);
    let stack = if batch == 1 { Stack::ONE } else { Stack { count: batch, stride: shape.len().unwrap_or(0) } };
    (shape, stack)
}
