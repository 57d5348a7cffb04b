//! The host's matrices, part by part.

use std::ops::Range;

use ptx_gemm_dsl::Layout;
use ptx_gemm_dsl::terms::Operand;

use super::region::Region;
use crate::shape::Shape;
use crate::view::{AnyMut, AnyRef, HostBytes, HostBytesMut, Runs, RunsMut};

/// A, B, C and D on the host. Plans of a part of D count its rows and columns from `origin`.
pub(crate) struct Host<'h> {
    pub(crate) a: AnyRef<'h>,
    pub(crate) b: AnyRef<'h>,
    /// `None` if C is not read.
    pub(crate) c: Option<AnyRef<'h>>,
    pub(crate) d: AnyMut<'h>,
    /// Row and column of D at which the plan begins.
    pub(crate) origin: [usize; 2],
}

impl Host<'_> {
    /// A part of an input, in the coordinates of a plan.
    pub(crate) fn input(&self, operand: Operand, region: Region) -> Option<Part<'_>> {
        let [row, col] = self.origin;
        let (matrix, region) = match operand {
            Operand::A => (self.a, region.moved(row, 0)),
            Operand::B => (self.b, region.moved(0, col)),
            Operand::C | Operand::D => (self.c?, region.moved(row, col)),
        };
        Some(Part { matrix, region })
    }

    /// A part of D, in the coordinates of a plan.
    pub(crate) fn output(&mut self, region: Region) -> PartMut<'_> {
        let [row, col] = self.origin;
        PartMut { matrix: self.d.reborrow(), region: region.moved(row, col) }
    }
}

/// The indices of the contiguous runs of a region, and its range within each run, in elements.
pub(crate) fn runs(layout: Layout, region: Region) -> (Range<usize>, Range<usize>) {
    let (rows, cols) = (region.row..region.row + region.rows, region.col..region.col + region.cols);
    match layout {
        Layout::Row => (rows, cols),
        Layout::Col => (cols, rows),
    }
}

/// The place of a part of a run in the slice of its matrix, in bytes.
fn place(shape: Shape, element: usize, run: usize, elements: &Range<usize>) -> Range<usize> {
    let start = run * shape.ld;
    (start + elements.start) * element..(start + elements.end) * element
}

/// A rectangle of a host matrix, with the runs of the rectangle.
#[derive(Clone, Copy)]
pub(crate) struct Part<'h> {
    pub(crate) matrix: AnyRef<'h>,
    pub(crate) region: Region,
}

impl Runs for Part<'_> {
    fn run(&self, index: usize) -> &[u8] {
        let AnyRef { shape, dtype, bytes, .. } = self.matrix;
        let (all, elements) = runs(shape.layout, self.region);
        let size = dtype.bytes() as usize;
        match bytes {
            HostBytes::Slice(bytes) => &bytes[place(shape, size, all.start + index, &elements)],
            HostBytes::Runs(of) => &of.run(all.start + index)[elements.start * size..elements.end * size],
        }
    }
}

/// The same, for writing.
pub(crate) struct PartMut<'h> {
    pub(crate) matrix: AnyMut<'h>,
    pub(crate) region: Region,
}

impl Runs for PartMut<'_> {
    fn run(&self, index: usize) -> &[u8] {
        let AnyMut { shape, dtype, ref bytes, .. } = self.matrix;
        let (all, elements) = runs(shape.layout, self.region);
        let size = dtype.bytes() as usize;
        match bytes {
            HostBytesMut::Slice(bytes) => &bytes[place(shape, size, all.start + index, &elements)],
            HostBytesMut::Runs(of) => &of.run(all.start + index)[elements.start * size..elements.end * size],
        }
    }
}

impl RunsMut for PartMut<'_> {
    fn run_mut(&mut self, index: usize) -> &mut [u8] {
        let AnyMut { shape, dtype, ref mut bytes, .. } = self.matrix;
        let (all, elements) = runs(shape.layout, self.region);
        let size = dtype.bytes() as usize;
        match bytes {
            HostBytesMut::Slice(bytes) => &mut bytes[place(shape, size, all.start + index, &elements)],
            HostBytesMut::Runs(of) => &mut of.run_mut(all.start + index)[elements.start * size..elements.end * size],
        }
    }
}
