//! The PTX interpreter as a device.
//!
//! It is stricter than a GPU: every matrix has its own allocation between guard bands; padding between the rows of an
//! input counts as uninitialised memory; each element of D must be written exactly once.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ptx_gemm_codegen::tile;
use ptx_gemm_codegen::tile::interface::{Entry, WORKSPACE};
use ptx_gemm_interp::{
    self as interp, AllocationId, Arg, BlockOrder, Memory, MemoryError, Program, TensorMap, TensorMapArgs,
};

use crate::backend::{Backend, Counts, Execution, KernelCounts, Lifetime, Limits, Module, Output, StreamHandle};
use crate::error::{DeviceError, Error};
use crate::kernel::Kernel;
use crate::launch::{Launch, Start, Value};
use crate::view::{AnyMut, AnyRef, HostBytes, HostBytesMut};

/// Options of the interpreter device.
#[derive(Clone, Debug, Default)]
pub struct InterpreterOptions {
    /// Which rules the interpreter checks, and how it runs threads.
    pub options: interp::Options,
    /// Elements by which every matrix is offset from an aligned address. 1 makes each pointer as unaligned as its type
    /// allows, so that the scalar entry runs.
    pub misalign: u32,
}

/// Global memory, and the options for running kernels.
#[derive(Debug)]
pub(crate) struct Interpreter {
    memory: Arc<Memory>,
    options: InterpreterOptions,
    limits: Limits,
    name: String,
    ids: Mutex<HashMap<u64, AllocationId>>,
}

impl Interpreter {
    pub(crate) fn new(options: InterpreterOptions) -> Interpreter {
        // The limits of the newest target; the compiler has checked those of the kernel's own target.
        let limits = Limits { target: None, threads: 1024, shared_bytes: 227 << 10, multiprocessors: WAVE };
        let name = format!("the PTX interpreter on {} CPU threads", interp::threads());
        Interpreter { memory: Arc::default(), options, limits, name, ids: Mutex::default() }
    }

    pub(crate) fn of_wave(self, blocks: u32) -> Interpreter {
        let limits = Limits { multiprocessors: blocks, ..self.limits };
        Interpreter { limits, ..self }
    }

    fn failed(&self, what: &str, error: MemoryError) -> DeviceError {
        match error {
            MemoryError::OutOfMemory { bytes } => {
                DeviceError::OutOfMemory { device: self.name.clone(), what: what.into(), bytes }
            }
            other => DeviceError::Driver { call: "memory", device: self.name.clone(), code: other.to_string() },
        }
    }

    fn write_runs(&self, address: u64, matrix: AnyRef<'_>) -> Result<(), Error> {
        let write = |at: usize, bytes: &[u8]| {
            let written = self.memory.write(address + at as u64, bytes);
            written.map_err(|error| self.failed("a copy to the device", error))
        };
        match matrix.bytes {
            HostBytes::Slice(bytes) => runs(matrix).try_for_each(|run| write(run.start, &bytes[run]))?,
            HostBytes::Runs(runs) => starts(matrix).enumerate().try_for_each(|(i, start)| write(start, runs.run(i)))?,
        }
        Ok(())
    }
}

impl Backend for Interpreter {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn encode(&self, args: &TensorMapArgs) -> Result<[u8; 128], Error> {
        let map = TensorMap::encode(args).map_err(|error| DeviceError::Driver {
            call: "cuTensorMapEncodeTiled",
            device: self.name.clone(),
            code: error.to_string(),
        })?;
        Ok(map.to_bytes())
    }

    fn load(&self, kernel: &Arc<Kernel>) -> Result<Arc<dyn Module>, Error> {
        let program = Program::from_text(kernel.ptx())?;
        let memory = self.memory.clone();
        let options = self.options.options;
        Ok(Arc::new(InterpreterModule { kernel: kernel.clone(), program, memory, options }))
    }

    fn allocate(&self, label: &str, bytes: u64, element: u32, _lifetime: Lifetime) -> Result<u64, Error> {
        // The memory does not support larger offsets, which would only repeat the smaller ones.
        let offset = u64::from(self.options.misalign) * u64::from(element) % interp::GRANULE;
        let allocation =
            self.memory.alloc_at_offset(label, bytes, offset).map_err(|error| self.failed(label, error))?;
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(allocation.address, allocation.id);
        Ok(allocation.address)
    }

    fn free(&self, address: u64, _bytes: u64, _lifetime: Lifetime) {
        if let Some(id) = self.ids.lock().unwrap_or_else(PoisonError::into_inner).remove(&address) {
            let _ = self.memory.free(id);
        }
    }

    fn zero(&self, address: u64, bytes: u64) -> Result<(), Error> {
        let zeros = vec![0; bytes as usize];
        // The next launch starts from the same flags.
        let written = self
            .memory
            .write(address, &zeros)
            .and_then(|()| self.memory.clear_zero_after(address))
            .and_then(|()| self.memory.set_zero_after(address, bytes));
        Ok(written.map_err(|error| self.failed(WORKSPACE, error))?)
    }

    fn upload(&self, address: u64, matrix: AnyRef<'_>) -> Result<(), Error> {
        self.write_runs(address, matrix)
    }

    fn prepare(&self, address: u64, d: AnyRef<'_>, output: Output) -> Result<(), Error> {
        if output == Output::InPlace || self.options.options.checks == interp::Checks::Off {
            // Without checks, writes are not tracked, so D must count as already written.
            self.write_runs(address, d)?;
        } else if let Some(&id) = self.ids.lock().unwrap_or_else(PoisonError::into_inner).get(&address) {
            self.memory.set_write_once(id).map_err(|error| self.failed("D", error))?;
        }
        // Padding is copied in both directions, so that the host notices a kernel that writes it.
        if let HostBytes::Slice(bytes) = d.bytes {
            for gap in gaps(d) {
                let written = self.memory.write(address + gap.start as u64, &bytes[gap]);
                written.map_err(|error| self.failed("D", error))?;
            }
        }
        Ok(())
    }

    fn copies_padding(&self) -> bool {
        true
    }

    fn download(&self, address: u64, entry: &str, d: AnyMut<'_>) -> Result<(), Error> {
        let element = d.dtype.bytes();
        let bytes = d.stack.len(d.shape).unwrap_or(0) * element as usize;
        let failed = |error| self.failed("D", error);
        let element_bytes = |start: usize, len: usize| (address + start as u64, len as u64);
        let unwritten = match &d.bytes {
            HostBytesMut::Slice(_) => self.memory.first_unwritten(address, bytes as u64).map_err(failed)?,
            // The bytes between the runs do not belong to the matrix.
            HostBytesMut::Runs(_) => {
                let run = d.shape.run() * element as usize;
                let mut unwritten = None;
                for start in starts(d.as_ref()) {
                    let (at, len) = element_bytes(start, run);
                    unwritten = self.memory.first_unwritten(at, len).map_err(failed)?;
                    if unwritten.is_some() {
                        break;
                    }
                }
                unwritten
            }
        };
        if let Some(at) = unwritten {
            let index = ((at - address) / u64::from(element)) as usize;
            let (row, col) = d.shape.place(if d.stack.stride > 0 { index % d.stack.stride } else { index });
            return Err(Error::Unwritten { entry: entry.into(), row, col });
        }
        let places: Vec<usize> = starts(d.as_ref()).collect();
        match d.bytes {
            HostBytesMut::Slice(host) => self.memory.read(address, &mut host[..bytes]).map_err(failed)?,
            HostBytesMut::Runs(host) => {
                for (index, start) in places.into_iter().enumerate() {
                    self.memory.read(address + start as u64, host.run_mut(index)).map_err(failed)?;
                }
            }
        }
        Ok(())
    }
}

/// Byte ranges that hold elements: one for each matrix without padding.
fn runs(matrix: AnyRef<'_>) -> impl Iterator<Item = Range<usize>> {
    let (shape, element) = (matrix.shape, matrix.dtype.bytes() as usize);
    let (run, pitch) = (shape.run(), shape.ld);
    let (count, len) = match () {
        () if shape.is_empty() => (0, 0),
        () if run == pitch => (1, run * shape.runs()),
        () => (shape.runs(), run),
    };
    let lines = move |first: usize| (0..count).map(move |i| first + i * pitch);
    matrix.products().flat_map(lines).map(move |start| start * element..(start + len) * element)
}

/// The offset of each row (of a row-major matrix) or column, in bytes.
fn starts(matrix: AnyRef<'_>) -> impl Iterator<Item = usize> {
    let (shape, element) = (matrix.shape, matrix.dtype.bytes() as usize);
    let count = if shape.is_empty() { 0 } else { shape.runs() };
    (0..count).map(move |index| index * shape.ld * element)
}

/// Byte ranges of the padding between runs, and between matrices.
fn gaps(matrix: AnyRef<'_>) -> impl Iterator<Item = Range<usize>> {
    let (shape, element) = (matrix.shape, matrix.dtype.bytes() as usize);
    let (run, pitch, stride) = (shape.run(), shape.ld, matrix.stack.stride);
    let count = if shape.is_empty() || run == pitch { 0 } else { shape.runs() - 1 };
    let lines = move |first: usize| (0..count).map(move |i| first + i * pitch + run..first + (i + 1) * pitch);
    let between = if shape.is_empty() { 0 } else { matrix.stack.stored().saturating_sub(1) };
    let len = shape.len().unwrap_or(0);
    let trailing = (0..between).map(move |i| i * stride + len..(i + 1) * stride);
    let all = matrix.products().flat_map(lines).chain(trailing).filter(|gap| !gap.is_empty());
    all.map(move |gap| gap.start * element..gap.end * element)
}

/// Every slot of every buffer, by the buffer's name.
fn regions(program: &tile::Program) -> Vec<interp::Region<'_>> {
    let slots = program.buffers.iter().enumerate().flat_map(|(index, buffer)| {
        let ring = program.ring_of(index).and_then(|ring| program.rings.get(ring));
        let (depth, slot_bytes) = ring.map_or((1, 0), |ring| (ring.depth, ring.slot_bytes));
        let bytes = u32::try_from(buffer.span_bytes(program.element(buffer.side))).unwrap_or(u32::MAX);
        (0..depth).map(move |slot| {
            let start = buffer.offset_bytes + slot * slot_bytes;
            interp::Region { label: &buffer.name, bytes: start..start.saturating_add(bytes) }
        })
    });
    slots.collect()
}

/// A parsed module.
#[derive(Debug)]
struct InterpreterModule {
    kernel: Arc<Kernel>,
    program: Program,
    memory: Arc<Memory>,
    options: interp::Options,
}

/// Blocks of a persistent grid in the interpreter: few, so that each computes several tiles, and the same number on
/// every machine.
pub const WAVE: u32 = 5;

impl Module for InterpreterModule {
    fn blocks_per_multiprocessor(&self, _entry: usize, _kernel: usize) -> Result<u32, Error> {
        Ok(1)
    }

    fn launch(&self, launch: &Launch) -> Result<Execution, Error> {
        let begun = Instant::now();
        let mut counts = Counts::default();
        let regions = self.kernel.programs().entries.get(launch.entry).map(regions).unwrap_or_default();
        let entry = &self.kernel.interface().entries[launch.entry];
        let main = entry.main();
        // Kernels of this compiler have every fence that the hardware may need, and write only D.
        let deny = interp::Severity::Deny;
        let options = interp::Options {
            overtaken: deny,
            fenced_late: deny,
            past_rows: deny,
            wide_parity: deny,
            equal_stores: deny,
            ..self.options
        };
        if let Some((address, bytes)) = launch.zero {
            let zeros = vec![0; bytes as usize];
            let written = self.memory.write(address, &zeros);
            written.map_err(|error| DeviceError::Driver {
                call: "memory",
                device: "the interpreter".into(),
                code: error.to_string(),
            })?;
        }
        for (index, start) in in_order(entry, launch, options.blocks) {
            let kernel = &entry.launches[index];
            let args: Vec<Arg> = start.args.iter().map(argument).collect();
            let request = interp::Launch {
                entry: &kernel.kernel,
                grid: [start.grid, 1, 1],
                block: [kernel.threads, 1, 1],
                dynamic_shared_bytes: kernel.dynamic_shared_bytes(),
                regions: if main == Some(kernel) { &regions } else { &[] },
                args: &args,
                ..interp::Launch::default()
            };
            let report = interp::launch(&self.program, &self.memory, &request, &options)?;
            let is_main = main == Some(kernel);
            let of_kernel = KernelCounts { kernel: kernel.kernel.clone(), is_main, cost: report.cost.clone() };
            let (instructions, fma, cost) = (report.instructions, report.fma, report.cost);
            counts += Counts { instructions, fma, cost, kernels: vec![of_kernel] };
        }
        Ok(Execution { time: begun.elapsed(), counts: Some(counts) })
    }

    fn enqueue(&self, launch: &Launch, _stream: StreamHandle) -> Result<(), Error> {
        self.launch(launch).map(drop)
    }
}

/// The kernels of a launch in the order in which they run. Kernels that a GPU may run at the same time are reversed if
/// the order of blocks is.
fn in_order<'a>(entry: &Entry, launch: &'a Launch, order: BlockOrder) -> Vec<(usize, &'a Start)> {
    let mut starts: Vec<_> = launch.starts().collect();
    if order == BlockOrder::Backward {
        starts.chunk_by_mut(|(first, _), (second, _)| entry.may_overlap(*first, *second)).for_each(<[_]>::reverse);
    }
    starts
}

fn argument(value: &Value) -> Arg {
    match value {
        Value::U32(x) => Arg::U32(*x),
        Value::U64(x) => Arg::U64(*x),
        Value::I32(x) => Arg::I32(*x),
        Value::F32(x) => Arg::F32(*x),
        Value::F64(x) => Arg::F64(*x),
        Value::Map(map) => Arg::Bytes(map.0.into()),
    }
}
