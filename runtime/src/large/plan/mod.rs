//! The plan of a product of host matrices: blocks of C that stay on the devices, slabs of K that stream past them, and
//! every copy, launch and event in the order of issue.
//!
//! A plan is pure: it follows from numbers, needs no device, and equal requests give equal plans. K is summed in
//! ascending order, slab by slab. Plans with slabs of the same depth give the same bits, whatever the number of devices
//! and blocks.
//!
//! ```text
//! Request -> choose a geometry (grid, blocks, slabs, ring) -> steps in the order of one thread -> dependencies -> operations
//! ```
//!
//! The steps alone, run one after another, are a correct program. Each states what it reads and writes, and the events
//! that order steps on different streams follow from that (`schedule`). [`crate::large::races`] checks the result
//! independently.

mod choose;
mod estimate;
mod geometry;
mod schedule;
mod steps;
mod text;

use std::collections::BTreeMap;

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::{DType, Layout, Layouts, Types};

use super::operation::{Action, Buffer, Operation};
use super::region::Region;
use crate::shape::Shape;

pub use estimate::{Bound, Estimate, Traffic};
pub use geometry::Geometry;
pub(crate) use geometry::{Homes, tiles};
pub(crate) use schedule::schedule;
pub(crate) use text::Bytes;

/// A product to plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element types.
    pub types: Types,
    /// Layouts, of the host's matrices and of the devices' parts of them.
    pub layouts: Layouts,
    /// Whether C is read.
    pub addend: Addend,
    /// Whether K may be divided into slabs.
    pub division: Division,
    /// The block tile of the kernels, m, n and k. Parts are multiples of it.
    pub tile: [usize; 3],
    /// The number of devices.
    pub devices: usize,
    /// Which devices copy directly from each other.
    pub links: Links,
    /// Bytes of device memory that may be used on each device.
    pub budget: u64,
    /// Bytes of the epilogue's vectors on each device.
    pub vector_bytes: u64,
    /// Numbers that the plan otherwise determines.
    pub tuning: Tuning,
    /// Speeds of the machine, for the estimate.
    pub rates: Rates,
}

/// Whether C is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addend {
    /// Only A and B are read.
    Absent,
    /// C is read as well.
    Read,
}

/// Whether K may be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Into any number of slabs.
    Slabs,
    /// The epilogue must see the whole sum and C at once.
    Whole,
}

/// Direct copies between devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Links {
    /// Between all of them.
    All,
    /// Between none: every device gets everything from the host.
    Host,
    /// `[to][from]`
    Pairs(Vec<Vec<bool>>),
}

impl Links {
    /// True if `to` can copy from `from`.
    pub fn join(&self, to: usize, from: usize) -> bool {
        match self {
            Links::All => true,
            Links::Host => false,
            Links::Pairs(pairs) => pairs.get(to).and_then(|row| row.get(from)).copied().unwrap_or(false),
        }
    }
}

/// Numbers to fix instead of deriving them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Depth of a slab, in elements of K.
    pub depth: Option<usize>,
    /// Slabs that a device holds at once.
    pub ring: Option<usize>,
    /// Strips in which a block of D is finished.
    pub strips: Option<usize>,
}

/// Speeds of a machine, measured, in bytes per second and direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Multiplications and additions per second of one device.
    pub flops: f64,
    /// Device memory, of one device.
    pub memory: f64,
    /// Host to one device.
    pub up: f64,
    /// One device to the host.
    pub down: f64,
    /// The host's memory: sending, receiving, and both together.
    pub host: [f64; 3],
    /// From one device to another.
    pub peer: f64,
}

impl Rates {
    /// A host with four H200s on NVLink: copies as measured there, memory at its nominal speed.
    pub fn h200(flops: f64) -> Rates {
        Rates { flops, memory: 4.8e12, up: 55.5e9, down: 55.3e9, host: [175e9, 148e9, 184e9], peer: 394e9 }
    }
}

/// Memory of each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Type of its elements.
    pub dtype: DType,
    /// The largest matrix that it holds; the leading dimension is the same for smaller ones.
    pub shape: Shape,
}

/// Rows on the devices begin at multiples of this many bytes, so that the widest accesses of every kernel are aligned.
const PITCH: usize = 128;

impl Allocation {
    /// Memory for a matrix, with the padding that aligns its rows.
    pub(crate) fn padded(dtype: DType, rows: usize, cols: usize, layout: Layout) -> Allocation {
        let shape = Shape::packed(rows, cols, layout);
        let ld = shape.ld.next_multiple_of(PITCH / dtype.bytes() as usize);
        Allocation { dtype, shape: Shape { ld, ..shape } }
    }

    /// Elements, including padding between rows.
    pub fn elements(&self) -> u64 {
        self.shape.len().map_or(u64::MAX, |len| len as u64)
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.bytes().into())
    }
}

/// The requirements of a plan on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs<'p> {
    pub(crate) operations: &'p [Operation],
    pub(crate) buffers: &'p BTreeMap<Buffer, Allocation>,
    pub(crate) workspace_bytes: u64,
    /// Multiprocessors that its products do not occupy, for kernels that run at the same time.
    pub(crate) spare: u32,
}

/// A product as copies, launches and events.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What was planned.
    pub request: Request,
    /// The division into blocks and slabs.
    pub geometry: Geometry,
    /// The buffers of each device.
    pub buffers: BTreeMap<Buffer, Allocation>,
    /// Bytes of the kernels' workspace on each device.
    pub workspace_bytes: u64,
    /// All operations, in an order in which they can be issued, and run one after another.
    pub operations: Vec<Operation>,
    /// The number of events.
    pub events: usize,
}

/// Why a product cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The list of devices is empty.
    #[error("no device to plan for; at least one is needed")]
    NoDevice,
    /// A matrix that exceeds the address space of a host.
    #[error(
        "{operand:?}, {rows} x {cols} of {dtype}, takes {bytes} bytes, and a host addresses {limit}: divide the product"
    )]
    Matrix {
        /// `A`, `B`, `C` or `D`.
        operand: Operand,
        /// Its rows.
        rows: usize,
        /// Its columns.
        cols: usize,
        /// Its type.
        dtype: DType,
        /// Its bytes.
        bytes: u128,
        /// Bytes that a host addresses.
        limit: u64,
    },
    /// The budget does not hold the smallest block with its slabs.
    #[error(
        "a budget of {budget} bytes per device is too small: {needed} bytes hold one {rows} x {cols} tile of D with slabs of \
         {depth} of K{why}"
    )]
    Budget {
        /// The budget.
        budget: u64,
        /// The smallest budget that suffices.
        needed: u64,
        /// Rows of the smallest block.
        rows: usize,
        /// Its columns.
        cols: usize,
        /// Depth of its slabs.
        depth: usize,
        /// Why slabs are not shallower or fewer, if there is a reason.
        why: String,
    },
    /// The plan has too many operations.
    #[error("the plan would have {count} launches, at most {limit} are allowed: {advice}")]
    TooLong {
        /// Their number.
        count: u64,
        /// The limit.
        limit: u64,
        /// The argument of the request that causes it, and a value that would be enough.
        advice: String,
    },
    /// An extent beyond the limit of kernels.
    #[error("{name} = {got} is too large, at most {limit}")]
    Extent {
        /// `M`, `N` or `K`.
        name: &'static str,
        /// Its value.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// A fixed number that is 0.
    #[error("{name} = 0: at least 1, or leave it out")]
    Zero {
        /// Its name.
        name: &'static str,
    },
}

/// Bytes of workspace that a launch of these extents needs.
pub type Workspace<'a> = &'a dyn Fn(usize, usize, usize) -> u64;

impl Plan {
    /// Plans a product. `workspace` returns the bytes of workspace of a launch by its m, n and k.
    ///
    /// # Errors
    /// [`PlanError`]: a budget that does not hold the smallest block, and numbers outside their range.
    pub fn new(request: Request, workspace: Workspace<'_>) -> Result<Plan, PlanError> {
        let geometry = choose::choose(&request, workspace)?;
        let buffers = geometry.buffers(&request);
        let workspace_bytes = geometry.workspace_bytes(&request, workspace);
        let steps = steps::steps(&request, &geometry);
        let (operations, events) = schedule(steps);
        Ok(Plan { request, geometry, buffers, workspace_bytes, operations, events })
    }

    /// The strips of D, in the order in which they are finished.
    pub fn strips(&self) -> impl Iterator<Item = Region> {
        self.operations.iter().filter_map(|operation| match operation.action {
            Action::Download { host, .. } => Some(host),
            _ => None,
        })
    }

    pub(super) fn needs(&self) -> Needs<'_> {
        let workspace_bytes = self.workspace_bytes;
        // Copies need no multiprocessors.
        Needs { operations: &self.operations, buffers: &self.buffers, workspace_bytes, spare: 0 }
    }

    /// Bytes that it uses on each device.
    pub fn device_bytes(&self) -> u64 {
        let buffers: u64 = self.buffers.values().map(Allocation::bytes).sum();
        buffers + self.workspace_bytes + self.request.vector_bytes
    }
}
