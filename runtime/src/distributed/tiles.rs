//! The sources of A and B: a function of the tile, or a matrix of which each process reads its part.

use std::fmt;

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{DType, Layout};

use super::error::DistributedError;
use crate::element::{Element, holds};
use crate::error::{ArgumentError, Error};
use crate::large::Region;
use crate::matrix::Matrix;
use crate::shape::Shape;
use crate::view::{AnyRef, AsMatrix, Strides};

/// Takes a part of a matrix.
pub(super) type Sink<'s> = &'s mut dyn FnMut(AnyRef<'_>, Region) -> Result<(), Error>;

type Fill<'a> = Box<dyn FnMut(Region, Layout, Sink<'_>) -> Result<(), Error> + 'a>;

/// A or B. Each process requests the parts that belong to it, once and in ascending order of k.
pub struct Tiles<'a> {
    source: Source<'a>,
}

enum Source<'a> {
    Function(DType, Fill<'a>),
    Matrix(Result<AnyRef<'a>, Strides>),
}

impl<'a> Tiles<'a> {
    /// A function that gets the rows and columns of a tile, and fills it with elements of the whole matrix at
    /// `[region.row.., region.col..]`. An element must be the same in every tile and process that requests it.
    pub fn function<T: Element>(mut fill: impl FnMut(Region, &mut Matrix<T>) + 'a) -> Tiles<'a> {
        let tile = move |region: Region, layout, sink: Sink<'_>| {
            let shape = Shape::packed(region.rows, region.cols, layout);
            let mut tile = Matrix::try_in_shape(shape, T::default()).ok_or_else(|| too_large::<T>(region))?;
            fill(region, &mut tile);
            let tile = tile.as_any().map_err(ArgumentError::from)?;
            sink(tile, Region { row: 0, col: 0, ..region })
        };
        Tiles { source: Source::Function(T::DTYPE, Box::new(tile)) }
    }

    /// A whole matrix on this host, for example a memory-mapped file; only this process's part of it is read.
    pub fn matrix(matrix: &'a impl AsMatrix) -> Tiles<'a> {
        Tiles { source: Source::Matrix(matrix.as_any()) }
    }

    /// Checks everything that is known before the first tile.
    pub(super) fn check(&self, operand: Operand, needed: (DType, [usize; 2], Layout)) -> Result<(), DistributedError> {
        let (dtype, extents, layout) = needed;
        match &self.source {
            Source::Function(got, _) if holds(*got, dtype) => Ok(()),
            Source::Function(got, _) => Err(DistributedError::source(operand, (*got, extents, layout), needed)),
            Source::Matrix(matrix) => {
                let matrix = (*matrix).map_err(ArgumentError::strides(operand))?;
                let Shape { rows, cols, ld, .. } = matrix.shape;
                let got = (matrix.dtype, [rows, cols], matrix.shape.layout);
                if !holds(matrix.dtype, dtype) || (got.1, got.2) != (extents, layout) {
                    return Err(DistributedError::source(operand, got, needed));
                }
                let (got, needed) = (matrix.elements(), matrix.shape.len().unwrap_or(usize::MAX));
                if got < needed || ld < matrix.shape.min_ld() {
                    return Err(ArgumentError::NoMatrix { got, needed, rows, cols, ld }.into());
                }
                Ok(())
            }
        }
    }

    /// Passes a part to `sink`. The matrix has been checked.
    pub(super) fn give(&mut self, region: Region, layout: Layout, sink: Sink<'_>) -> Result<(), Error> {
        match &mut self.source {
            Source::Function(_, fill) => fill(region, layout, sink),
            Source::Matrix(matrix) => sink((*matrix).map_err(ArgumentError::from)?, region),
        }
    }
}

fn too_large<T>(region: Region) -> Error {
    let bytes = region.elements().saturating_mul(size_of::<T>() as u64);
    crate::error::DeviceError::OutOfMemory { device: "the host".into(), what: "a tile".into(), bytes }.into()
}

impl fmt::Debug for Tiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Function(dtype, _) => write!(f, "Tiles(a function, {dtype})"),
            Source::Matrix(matrix) => write!(f, "Tiles({matrix:?})"),
        }
    }
}
