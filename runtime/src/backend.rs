//! The operations of a device: the one interface that CUDA and the interpreter share.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ptx_gemm_dsl::Target;
use ptx_gemm_interp::TensorMapArgs;

use crate::contracts::MachineCode;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::launch::Launch;
use crate::view::{AnyMut, AnyRef};

/// The limits of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The device's own target; `None` if it runs code for every target.
    pub target: Option<Target>,
    /// Threads in a block.
    pub threads: u32,
    /// Bytes of shared memory in a block, dynamic shared memory included.
    pub shared_bytes: u32,
    /// Multiprocessors; in the interpreter, the blocks of a wave.
    pub multiprocessors: u32,
}

/// The cost of running a launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Execution {
    /// Time of the kernels only.
    pub(crate) time: Duration,
    /// The interpreter's counts; `None` on a GPU.
    pub(crate) counts: Option<Counts>,
}

/// The interpreter's counts for a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions executed, one for each warp.
    pub instructions: u64,
    /// Fused multiply-adds, one for each thread that took part.
    pub fma: u64,
    /// All other counters, if its options are [`Counting::On`](crate::interp::Counting::On).
    pub cost: Option<crate::interp::Cost>,
    /// The same for each kernel, if a product takes several: kernels that pack or split its operands, and those that
    /// write D.
    pub kernels: Vec<KernelCounts>,
}

/// The interpreter's counts for all launches of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Its name in the module.
    pub kernel: String,
    /// Whether it writes D.
    pub is_main: bool,
    /// All counters, if the interpreter's options are [`Counting::On`](crate::interp::Counting::On).
    pub cost: Option<crate::interp::Cost>,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.instructions += other.instructions;
        self.fma += other.fma;
        add(&mut self.cost, other.cost);
        for counts in other.kernels {
            match self.kernels.iter_mut().find(|known| known.kernel == counts.kernel) {
                Some(known) => add(&mut known.cost, counts.cost),
                None => self.kernels.push(counts),
            }
        }
    }
}

fn add(sum: &mut Option<crate::interp::Cost>, cost: Option<crate::interp::Cost>) {
    match (sum, cost) {
        (Some(sum), Some(cost)) => *sum += &cost,
        (sum @ None, cost) => *sum = cost,
        (Some(_), None) => {}
    }
}

/// Who may still use memory when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// A single call, which runs entirely on the device's own stream.
    Call,
    /// Anyone, on any stream: releasing it waits for the device.
    Kept,
}

/// How D's memory is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Its elements are written and never read.
    Fresh,
    /// It is C as well.
    InPlace,
}

/// A device. It is `Any` because streams and graphs need the GPU itself and not only the common interface.
pub(crate) trait Backend: Any + fmt::Debug + Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;

    fn limits(&self) -> &Limits;

    /// The address space of its pointers, if several backends can share one; `None` if it has its own.
    fn address_space(&self) -> Option<usize> {
        None
    }

    /// Bytes of memory that are free; `None` if the device uses the host's memory.
    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Encodes a tensor map for this device.
    fn encode(&self, args: &TensorMapArgs) -> Result<[u8; 128], Error>;

    /// Makes a kernel ready to launch.
    fn load(&self, kernel: &Arc<Kernel>) -> Result<Arc<dyn Module>, Error>;

    /// Runs launches one after another, and waits for the last one.
    fn launch(&self, steps: &[Step]) -> Result<Execution, Error> {
        let mut all = Execution { time: Duration::ZERO, counts: None };
        for step in steps {
            let Execution { time, counts } = step.module.launch(&step.launch)?;
            all.time += time;
            if let Some(counts) = counts {
                *all.counts.get_or_insert_default() += counts;
            }
        }
        Ok(all)
    }

    /// Reserves memory for a matrix or vector of elements of `element` bytes each; the pointer is a multiple of that.
    fn allocate(&self, label: &str, bytes: u64, element: u32, lifetime: Lifetime) -> Result<u64, Error>;

    /// Releases memory that [`Backend::allocate`] reserved, with the same size and lifetime.
    fn free(&self, address: u64, bytes: u64, lifetime: Lifetime);

    /// Sets bytes to zero, before the next launch.
    fn zero(&self, address: u64, bytes: u64) -> Result<(), Error>;

    /// Copies an input to the device.
    fn upload(&self, address: u64, matrix: AnyRef<'_>) -> Result<(), Error>;

    /// Prepares D's memory for a launch.
    fn prepare(&self, address: u64, d: AnyRef<'_>, output: Output) -> Result<(), Error>;

    /// Whether [`Backend::prepare`] and [`Backend::download`] also copy the padding between D's rows.
    fn copies_padding(&self) -> bool {
        false
    }

    /// Copies D back. Padding between its rows keeps the host's contents, unless the kernel changed it.
    fn download(&self, address: u64, entry: &str, d: AnyMut<'_>) -> Result<(), Error>;
}

/// A kernel that a device can launch.
pub(crate) trait Module: fmt::Debug + Send + Sync {
    /// Blocks of a kernel that a multiprocessor holds at once. The kernel is given by its index in its entry, and the entry
    /// by its index in the interface.
    fn blocks_per_multiprocessor(&self, entry: usize, kernel: usize) -> Result<u32, Error>;

    /// Clusters of a kernel that the device holds at once, if that is fewer than its blocks would allow. All blocks of
    /// a cluster run within one cluster of multiprocessors, and the size of that need not be a multiple of the
    /// cluster's.
    fn resident_clusters(&self, _entry: usize, _kernel: usize) -> Result<Option<u32>, Error> {
        Ok(None)
    }

    /// The machine code of the kernels of all entries, by name; `None` on a device that does not run machine code.
    fn machine_code(&self) -> Result<Option<BTreeMap<String, MachineCode>>, Error> {
        Ok(None)
    }

    /// Runs one launch to completion.
    fn launch(&self, launch: &Launch) -> Result<Execution, Error>;

    /// Enqueues one launch on a stream and returns; a device without streams runs it to completion.
    fn enqueue(&self, launch: &Launch, stream: StreamHandle) -> Result<(), Error>;
}

/// One launch of a product, with its addresses.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) module: Arc<dyn Module>,
    pub(crate) launch: Launch,
}

/// A stream handle of the driver, as a number; only a GPU can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamHandle(pub(crate) usize);

/// Device memory that is released when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) address: u64,
    bytes: u64,
    lifetime: Lifetime,
    backend: Arc<dyn Backend>,
}

impl Buffer {
    /// Allocates `elements` elements of `element` bytes each.
    pub(crate) fn new(
        backend: &Arc<dyn Backend>,
        label: &str,
        elements: u64,
        element: u32,
        lifetime: Lifetime,
    ) -> Result<Buffer, Error> {
        let bytes = elements.saturating_mul(u64::from(element));
        let address = backend.allocate(label, bytes, element, lifetime)?;
        Ok(Buffer { address, bytes, lifetime, backend: backend.clone() })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.backend.free(self.address, self.bytes, self.lifetime);
    }
}
