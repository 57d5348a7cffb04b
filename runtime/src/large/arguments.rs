//! The arguments of a large product in addition to A, B and D.

use std::fmt;

use ptx_gemm_dsl::{DType, Problem};

use super::site::{Constants, HostVector};
use crate::checks::{self, Extents, GivenVector};
use crate::element::Element;
use crate::error::ArgumentError;
use crate::view::{AnyRef, AsMatrix, Strides};

/// The epilogue's operands in addition to A B, and the callback for progress.
#[derive(Default)]
pub struct Arguments<'a> {
    pub(super) c: Option<Result<AnyRef<'a>, Strides>>,
    pub(super) scalars: Vec<(String, f64)>,
    pub(super) vectors: Vec<(String, DType, &'a [u8])>,
    pub(super) progress: Option<Box<dyn FnMut(Progress) + 'a>>,
}

/// The progress of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Elements of D that are finished.
    pub finished: u64,
    /// Elements of D.
    pub elements: u64,
    /// The share of the multiplications that are done, from 0 to 1, including those of unfinished strips. It falls when
    /// a device fails, since others repeat the work that it has not finished.
    pub multiplied: f64,
}

impl<'a> Arguments<'a> {
    /// No arguments.
    pub fn new() -> Arguments<'a> {
        Arguments::default()
    }

    /// The matrix that the epilogue calls `c`. It must not be D: a strip of D that is not finished could not be
    /// computed again.
    pub fn c(mut self, c: &'a impl AsMatrix) -> Arguments<'a> {
        self.c = Some(c.as_any());
        self
    }

    /// The value of a run-time scalar.
    pub fn set(mut self, name: &str, value: impl Into<f64>) -> Arguments<'a> {
        self.scalars.push((name.into(), value.into()));
        self
    }

    /// A vector of the epilogue, with one element for each row (`name[m]`) or column (`name[n]`) of D.
    pub fn vector<T: Element>(mut self, name: &str, elements: &'a [T]) -> Arguments<'a> {
        self.vectors.push((name.into(), T::DTYPE, bytemuck::cast_slice(elements)));
        self
    }

    /// Whether a C was given.
    pub(crate) fn has_c(&self) -> bool {
        self.c.is_some()
    }

    /// Checks the scalars and vectors of a problem's epilogue. Returns the constants of its launches, and whether one
    /// of them drops the product. As in BLAS, a product that is multiplied by 0 is not computed, whatever A and B
    /// contain.
    pub(crate) fn resolve(&self, problem: &Problem, extents: Extents) -> Result<(Constants<'a>, bool), ArgumentError> {
        let (epilogue, acc) = (&problem.epilogue, problem.types.epilogue());
        let scalars = checks::resolve_scalars(epilogue, acc, &self.scalars)?;
        let given: Vec<GivenVector<'_>> = self
            .vectors
            .iter()
            .map(|(name, dtype, bytes)| GivenVector { name, dtype: *dtype, len: bytes.len() / dtype.bytes() as usize })
            .collect();
        let order = checks::resolve_vectors(epilogue, acc, extents, &given)?;
        let vectors = epilogue.vectors.iter().zip(order).map(|(vector, index)| {
            let (name, dtype, bytes) = &self.vectors[index];
            HostVector { name: name.clone(), axis: vector.axis, dtype: *dtype, bytes }
        });
        let vectors = vectors.collect();
        let dropped = epilogue.dropping_acc().into_iter().any(|scalar| scalars.get(scalar) == Some(&0.0));
        let named = epilogue.scalars.iter().cloned().zip(scalars).collect();
        Ok((Constants { scalars: named, vectors }, dropped))
    }

    /// Sets a callback that runs whenever a slab of K is multiplied, and whenever a strip of D is finished.
    pub fn progress(mut self, report: impl FnMut(Progress) + 'a) -> Arguments<'a> {
        self.progress = Some(Box::new(report));
        self
    }
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arguments({:?}, {} vectors)", self.scalars, self.vectors.len())
    }
}
