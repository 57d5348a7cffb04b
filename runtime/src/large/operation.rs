//! The operations of a plan: copies, launches, and the events that order them across streams.

use std::fmt;

use ptx_gemm_dsl::terms::Operand;

use super::region::Region;
use ptx_gemm_dsl::sums::Part;

/// The streams of a device. Operations on one stream run in order; those on different streams run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Slabs of A and B from the host.
    Upload,
    /// Parts of slabs from other devices.
    Exchange,
    /// Blocks of C from the host.
    Addend,
    /// Products.
    Compute,
    /// Strips of D to the host.
    Download,
}

impl Stream {
    /// Every stream, by index.
    pub const ALL: [Stream; 5] = [Stream::Upload, Stream::Exchange, Stream::Addend, Stream::Compute, Stream::Download];
}

/// Memory of a device that holds part of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// A K-slab of A in a slot of the ring.
    A(usize),
    /// A K-slab of B in a slot of the ring.
    B(usize),
    /// The sums over the slabs so far, in the accumulator's type. Also D, and C, if these have the same type and
    /// layout.
    Sum,
    /// A block of C with a type or layout other than that of the sums.
    Addend,
    /// A block of D with a type other than that of the sums.
    Result,
    /// A panel of A that this process itself has, in a product across processes.
    OwnA(usize),
    /// The same for B.
    OwnB(usize),
}

/// A rectangle of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The buffer, of the operation's own device.
    pub buffer: Buffer,
    /// The elements of the buffer.
    pub region: Region,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copies a rectangle of a host matrix to the device.
    Upload {
        /// A, B or C.
        operand: Operand,
        /// The place in the host's matrix.
        host: Region,
        /// The destination.
        to: Place,
    },
    /// Copies a rectangle from the same place of another device.
    Receive {
        /// The other device.
        from: usize,
        /// The place on both devices.
        place: Place,
    },
    /// Takes part in a broadcast: the root's panel goes to every process of its row of the grid, or of its column.
    Broadcast {
        /// A along rows, B along columns.
        operand: Operand,
        /// Index of the panel of K.
        panel: usize,
        /// The device that has the panel.
        root: usize,
        /// The place on that device.
        from: Place,
        /// The destination; the same place on the root.
        to: Place,
    },
    /// Multiplies one slab.
    Multiply(Product),
    /// Copies a strip of D to the host.
    Download {
        /// The place on the device.
        from: Place,
        /// The place in the host's matrix.
        host: Region,
    },
    /// Marks this point of the stream.
    Record(usize),
    /// Later operations of the stream start after the event's point.
    Wait(usize),
}

/// One launch: a strip of a block of D, or all of it, and one slab of K.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// The schedule that runs.
    pub part: Part,
    /// The slab of A.
    pub a: Place,
    /// The slab of B.
    pub b: Place,
    /// The matrix that the kernel reads as C: C, or the sums so far.
    pub c: Option<Place>,
    /// The destination of the result.
    pub d: Place,
    /// The rows and columns of the host's D, which select the elements of the epilogue's vectors.
    pub host: Region,
}

/// An operation, and the stream that it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Index of the device.
    pub device: usize,
    /// The stream.
    pub stream: Stream,
    /// The action.
    pub action: Action,
}

/// Memory that an operation accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The accessed matrix.
    pub memory: Memory,
    /// The accessed elements.
    pub region: Region,
    /// Whether they are read or written.
    pub kind: AccessKind,
}

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// The elements are read.
    Read,
    /// The elements are written.
    Write,
}

/// A matrix in some memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// A buffer of a device.
    Device(usize, Buffer),
    /// The host's D. The host's other matrices are only read.
    Host,
}

impl Operation {
    /// Everything that it reads and writes, other than host matrices that are never written.
    pub fn accesses(&self) -> Vec<Access> {
        use AccessKind::{Read, Write};
        let at = |device: usize, Place { buffer, region }: Place, kind| Access {
            memory: Memory::Device(device, buffer),
            region,
            kind,
        };
        match &self.action {
            Action::Upload { to, .. } => vec![at(self.device, *to, Write)],
            Action::Receive { from, place } => vec![at(*from, *place, Read), at(self.device, *place, Write)],
            Action::Broadcast { root, from, .. } if *root == self.device => vec![at(*root, *from, Read)],
            Action::Broadcast { root, from, to, .. } => vec![at(*root, *from, Read), at(self.device, *to, Write)],
            Action::Multiply(product) => {
                let inputs = [Some(product.a), Some(product.b), product.c].into_iter().flatten();
                let reads = inputs.map(|place| at(self.device, place, Read));
                reads.chain([at(self.device, product.d, Write)]).collect()
            }
            Action::Download { from, host } => {
                vec![at(self.device, *from, Read), Access { memory: Memory::Host, region: *host, kind: Write }]
            }
            Action::Record(_) | Action::Wait(_) => Vec::new(),
        }
    }
}

impl Access {
    /// Whether the order of the two matters.
    pub fn conflicts(&self, other: &Access) -> bool {
        self.memory == other.memory
            && (self.kind == AccessKind::Write || other.kind == AccessKind::Write)
            && self.region.overlaps(&other.region)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stream::Upload => "upload",
            Stream::Exchange => "exchange",
            Stream::Addend => "addend",
            Stream::Compute => "compute",
            Stream::Download => "download",
        })
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Buffer::A(slot) => write!(f, "A slab {slot}"),
            Buffer::B(slot) => write!(f, "B slab {slot}"),
            Buffer::Sum => f.write_str("sums"),
            Buffer::Addend => f.write_str("C block"),
            Buffer::Result => f.write_str("D block"),
            Buffer::OwnA(panel) => write!(f, "own A panel {panel}"),
            Buffer::OwnB(panel) => write!(f, "own B panel {panel}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.buffer, self.region)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Device(device, buffer) => write!(f, "{buffer} of device {device}"),
            Memory::Host => f.write_str("D"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Upload { operand, host, to } => write!(f, "copy {operand:?}{host} -> {to}"),
            Action::Receive { from, place } => write!(f, "copy {place} of device {from} -> the same"),
            Action::Broadcast { operand, panel, root, from, to } => {
                write!(f, "broadcast panel {panel} of {operand:?} from device {root}: {from} -> {to}")
            }
            Action::Multiply(Product { part, a, b, c, d, .. }) => {
                write!(f, "multiply {} {a} * {b}", part.name())?;
                if let Some(c) = c {
                    write!(f, ", {c}")?;
                }
                write!(f, " -> {d}")
            }
            Action::Download { from, host } => write!(f, "copy {from} -> D{host}"),
            Action::Record(event) => write!(f, "record {event}"),
            Action::Wait(event) => write!(f, "wait for {event}"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} {:<8}  {}", self.device, self.stream, self.action)
    }
}
