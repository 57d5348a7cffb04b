//! A device as part of a plan: its kernels, its buffers, and the launches of its products.

use std::collections::BTreeMap;
use std::sync::Arc;

use ptx_gemm_codegen::tile::interface::{WORKSPACE, WORKSPACE_ALIGN};
use ptx_gemm_dsl::epilogue::Axis;
use ptx_gemm_dsl::{DType, Layout};

use super::operation::{Action, Buffer, Place, Product};
use super::plan::{Allocation, Needs};
use super::region::Region;
use crate::arguments::{DeviceMatrix, DeviceVector};
use crate::backend::{self, Backend, Lifetime, Step};
use crate::compiled::{CompiledGemm, DeviceCall};
use crate::device::Device;
use crate::error::Error;
use crate::shape::{Shape, Stack};
use crate::view::{AnyMut, AnyRef, HostBytes, HostBytesMut, Runs, RunsMut};
use ptx_gemm_dsl::sums::{Part, Sums};

/// A vector of the epilogue on the host.
#[derive(Clone, Debug)]
pub(crate) struct HostVector<'h> {
    pub(crate) name: String,
    pub(crate) axis: Axis,
    pub(crate) dtype: DType,
    pub(crate) bytes: &'h [u8],
}

/// What the launches of a plan need in addition to matrices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants<'h> {
    pub(crate) scalars: Vec<(String, f64)>,
    pub(crate) vectors: Vec<HostVector<'h>>,
}

/// A device, with everything that its part of a plan needs.
pub(crate) struct Site {
    pub(crate) device: Device,
    kernels: BTreeMap<Part, CompiledGemm>,
    memory: BTreeMap<Buffer, (backend::Buffer, Allocation)>,
    vectors: Vec<(String, Axis, u64, backend::Buffer)>,
    scalars: Vec<(String, f64)>,
    workspace: Option<backend::Buffer>,
    /// Row and column of D at which the plan begins.
    origin: [usize; 2],
}

/// The launches of a product, and the part of their workspace that must be zero before them.
pub(crate) struct Ready {
    pub(crate) steps: Vec<Step>,
    /// Address and length; the length is 0 if nothing must be zero.
    pub(crate) flags: (u64, u64),
}

impl Site {
    /// Compiles the kernels that a plan uses, reserves its memory, and copies the vectors.
    pub(crate) fn new(
        device: &Device,
        needs: Needs<'_>,
        sums: &Sums,
        constants: &Constants<'_>,
        origin: [usize; 2],
    ) -> Result<Site, Error> {
        let backend = device.backend();
        let mut kernels = BTreeMap::new();
        for operation in needs.operations {
            let Action::Multiply(Product { part, .. }) = operation.action else { continue };
            if let (None, Some(schedule)) = (kernels.get(&part), sums.schedule(part)) {
                kernels.insert(part, CompiledGemm::new(schedule, device)?.leaving(needs.spare)?);
            }
        }
        let mut memory = BTreeMap::new();
        for (&buffer, &allocation) in needs.buffers {
            let element = allocation.dtype.bytes();
            let label = buffer.to_string();
            let reserved = backend::Buffer::new(backend, &label, allocation.elements(), element, Lifetime::Kept)?;
            memory.insert(buffer, (reserved, allocation));
        }
        let mut vectors = Vec::new();
        for HostVector { name, axis, dtype, bytes } in &constants.vectors {
            let len = bytes.len() / dtype.bytes() as usize;
            let buffer = backend::Buffer::new(backend, name, len as u64, dtype.bytes(), Lifetime::Kept)?;
            let shape = Shape::packed(1, len, Layout::Row);
            let row = AnyRef { dtype: *dtype, shape, stack: Stack::ONE, bytes: (*bytes).into() };
            backend.upload(buffer.address, row)?;
            vectors.push((name.clone(), *axis, u64::from(dtype.bytes()), buffer));
        }
        let chunks = needs.workspace_bytes.div_ceil(WORKSPACE_ALIGN.into());
        let workspace = (chunks > 0)
            .then(|| backend::Buffer::new(backend, WORKSPACE, chunks, WORKSPACE_ALIGN, Lifetime::Kept))
            .transpose()?;
        let scalars = constants.scalars.clone();
        Ok(Site { device: device.clone(), kernels, memory, vectors, scalars, workspace, origin })
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        self.device.backend()
    }

    /// Removes a buffer and returns it.
    pub(crate) fn take(&mut self, buffer: Buffer) -> Option<(backend::Buffer, Allocation)> {
        self.memory.remove(&buffer)
    }

    /// A part of a buffer, as a matrix.
    pub(crate) fn matrix(&self, place: Place) -> Option<(DType, DeviceMatrix)> {
        let (buffer, Allocation { dtype, shape }) = self.memory.get(&place.buffer)?;
        let Region { row, col, rows, cols } = place.region;
        let whole = DeviceMatrix::new(buffer.address, *shape);
        Some((*dtype, whole.block(*dtype, row, col, rows, cols)?))
    }

    /// Copies a part of a buffer to the host. Waits for it.
    pub(crate) fn read(&self, place: Place, what: &str, into: &mut dyn RunsMut) -> Result<(), Error> {
        let Some((dtype, DeviceMatrix { address, shape, .. })) = self.matrix(place) else { return Ok(()) };
        let bytes = HostBytesMut::Runs(into);
        self.backend().download(address, what, AnyMut { dtype, shape, stack: Stack::ONE, bytes })
    }

    /// Copies a part of a buffer from the host. Waits for it.
    pub(crate) fn write(&self, place: Place, from: &dyn Runs) -> Result<(), Error> {
        let Some((dtype, DeviceMatrix { address, shape, .. })) = self.matrix(place) else { return Ok(()) };
        self.backend().upload(address, AnyRef { dtype, shape, stack: Stack::ONE, bytes: HostBytes::Runs(from) })
    }

    /// Computes a product. Waits for it.
    pub(crate) fn multiply(&self, product: &Product) -> Result<(), Error> {
        let Some(ready) = self.ready(product)? else { return Ok(()) };
        if ready.flags.1 > 0 {
            self.backend().zero(ready.flags.0, ready.flags.1)?;
        }
        self.backend().launch(&ready.steps).map(drop)
    }

    /// The launch of a product; `None` if there is nothing to compute.
    pub(crate) fn ready(&self, product: &Product) -> Result<Option<Ready>, Error> {
        let matrix = |place: Place| self.matrix(place).map(|(_, matrix)| matrix);
        let kernel = self.kernels.get(&product.part);
        let places = kernel.zip(matrix(product.a)).zip(matrix(product.b)).zip(matrix(product.d));
        let Some((((kernel, a), b), d)) = places else { return Ok(None) };
        let epilogue = &kernel.problem().epilogue;
        let scalars: Vec<(&str, f64)> = self
            .scalars
            .iter()
            .filter(|(name, _)| epilogue.scalars.contains(name))
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let vectors = self.vectors.iter().filter(|(name, ..)| epilogue.vectors.iter().any(|of| of.name == *name));
        let vectors: Vec<(&str, DeviceVector)> = vectors
            .map(|(name, axis, bytes, buffer)| {
                let (start, len) = match axis {
                    Axis::M => (self.origin[0] + product.host.row, product.host.rows),
                    Axis::N => (self.origin[1] + product.host.col, product.host.cols),
                };
                (name.as_str(), DeviceVector { address: buffer.address + start as u64 * bytes, len })
            })
            .collect();
        let c = product.c.and_then(matrix);
        let call = DeviceCall { a, b, c, d, vectors: &vectors, scalars: &scalars };
        let (extents, arguments) = kernel.resolve(&call)?;
        let Some(work) = kernel.work(extents, &arguments)? else { return Ok(None) };
        let address = self.workspace.as_ref().map_or(0, |workspace| workspace.address);
        let flags = (address, work.flag_bytes);
        Ok(Some(Ready { steps: kernel.steps(work, address)?, flags }))
    }
}

/// The runs of a matrix in transit from one device to another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Between {
    run: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Between {
    pub(crate) fn new(dtype: DType, shape: Shape) -> Between {
        let run = shape.run() * dtype.bytes() as usize;
        Between { run, bytes: vec![0; run * shape.runs()] }
    }
}

impl Runs for Between {
    fn run(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.run..(index + 1) * self.run]
    }
}

impl RunsMut for Between {
    fn run_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * self.run..(index + 1) * self.run]
    }
}
