//! Faults at every point of a plan: each ends in a typed error that names what is finished, or the other devices do the
//! rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ptx_gemm_dsl::{Layout, Schedule};
use ptx_gemm_interp::TensorMapArgs;

use super::runs::{devices, integers};
use crate::CompiledGemm;
use crate::backend::{Backend, Execution, Lifetime, Limits, Module, Output, StreamHandle};
use crate::device::{Device, DeviceKind};
use crate::error::{DeviceError, Error};
use crate::health::Health;
use crate::interpreter::{Interpreter, InterpreterOptions};
use crate::kernel::Kernel;
use crate::large::plan::Tuning;
use crate::large::{Arguments, Large, LargeError, LargeRun, OnFailure, Region};
use crate::launch::Launch;
use crate::matrix::Matrix;
use crate::view::{AnyMut, AnyRef};

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A copy in either direction fails; the device lives.
    Copy,
    /// A launch ends the device.
    Death,
    /// Memory runs out.
    Memory,
    /// The device is dead before its first use.
    Start,
}

/// The interpreter with one fault.
#[derive(Debug)]
struct Faulty {
    inner: Interpreter,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    /// Calls of the same kind before the fault.
    left: AtomicI64,
    health: Health,
}

impl State {
    fn inject(&self, fault: Fault) -> Result<(), Error> {
        self.health.check("a GPU")?;
        if fault != self.fault || self.left.fetch_sub(1, Ordering::Relaxed) != 0 {
            return Ok(());
        }
        let device = || "a GPU".to_string();
        Err(match fault {
            Fault::Copy => {
                DeviceError::Driver { call: "cuMemcpy2DAsync", device: device(), code: "CUDA_ERROR_UNKNOWN".into() }
            }
            Fault::Death | Fault::Start => self.health.died("a GPU", "CUDA_ERROR_ILLEGAL_ADDRESS".into()),
            Fault::Memory => DeviceError::OutOfMemory { device: device(), what: "a slab".into(), bytes: 1 },
        }
        .into())
    }
}

impl Backend for Faulty {
    fn name(&self) -> &str {
        "a GPU"
    }

    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn encode(&self, args: &TensorMapArgs) -> Result<[u8; 128], Error> {
        self.inner.encode(args)
    }

    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        self.state.inject(Fault::Start)?;
        self.inner.free_bytes()
    }

    fn load(&self, kernel: &Arc<Kernel>) -> Result<Arc<dyn Module>, Error> {
        self.state.health.check("a GPU")?;
        Ok(Arc::new(FaultyModule { inner: self.inner.load(kernel)?, state: self.state.clone() }))
    }

    fn allocate(&self, label: &str, bytes: u64, element: u32, lifetime: Lifetime) -> Result<u64, Error> {
        self.state.inject(Fault::Memory)?;
        self.inner.allocate(label, bytes, element, lifetime)
    }

    fn free(&self, address: u64, bytes: u64, lifetime: Lifetime) {
        self.inner.free(address, bytes, lifetime);
    }

    fn zero(&self, address: u64, bytes: u64) -> Result<(), Error> {
        self.inner.zero(address, bytes)
    }

    fn upload(&self, address: u64, matrix: AnyRef<'_>) -> Result<(), Error> {
        self.state.inject(Fault::Copy)?;
        self.inner.upload(address, matrix)
    }

    fn prepare(&self, address: u64, d: AnyRef<'_>, output: Output) -> Result<(), Error> {
        self.inner.prepare(address, d, output)
    }

    fn download(&self, address: u64, entry: &str, d: AnyMut<'_>) -> Result<(), Error> {
        self.state.inject(Fault::Copy)?;
        self.inner.download(address, entry, d)
    }
}

#[derive(Debug)]
struct FaultyModule {
    inner: Arc<dyn Module>,
    state: Arc<State>,
}

impl Module for FaultyModule {
    fn blocks_per_multiprocessor(&self, entry: usize, kernel: usize) -> Result<u32, Error> {
        self.inner.blocks_per_multiprocessor(entry, kernel)
    }

    fn resident_clusters(&self, entry: usize, kernel: usize) -> Result<Option<u32>, Error> {
        self.inner.resident_clusters(entry, kernel)
    }

    fn launch(&self, launch: &Launch) -> Result<Execution, Error> {
        self.state.inject(Fault::Death)?;
        self.inner.launch(launch)
    }

    fn enqueue(&self, launch: &Launch, _stream: StreamHandle) -> Result<(), Error> {
        self.launch(launch).map(drop)
    }
}

/// An interpreter that fails at the call after `after` calls of a kind.
pub(crate) fn faulty(fault: Fault, after: i64) -> Device {
    let state = Arc::new(State { fault, left: AtomicI64::new(after), health: Health::default() });
    let inner = Interpreter::new(InterpreterOptions::default());
    Device::with(DeviceKind::Interpreter, Arc::new(Faulty { inner, state }))
}

struct Product {
    schedule: Schedule,
    a: Matrix<f32>,
    b: Matrix<f32>,
    c: Matrix<f32>,
    want: Matrix<f32>,
}

/// Rows and columns of D.
const M: usize = 30;
const N: usize = 26;
/// An element of D that has not been written.
const UNTOUCHED: f32 = -12345.0;

impl Product {
    fn new() -> Product {
        let schedule: Schedule = "tile(4, 4, 4); thread(2, 2); epilogue(|acc, c| relu(acc + c));".parse().unwrap();
        let (m, n, k) = (M, N, 11);
        let packed = |rows, cols, seed| integers(rows, cols, Layout::Row, cols, seed);
        let (a, b, c) = (packed(m, k, 1), packed(k, n, 2), packed(m, n, 3));
        let gemm = CompiledGemm::new(&schedule, &Device::interpreter()).unwrap();
        let want = gemm.c(&c).multiply(&a, &b).unwrap();
        Product { schedule, a, b, c, want }
    }

    fn run(&self, devices: &[Device], on_failure: OnFailure) -> (Matrix<f32>, Result<LargeRun, LargeError>) {
        let tuning = Tuning { depth: Some(4), ring: Some(2), strips: Some(2) };
        let large = Large::new(&self.schedule).unwrap().devices(devices).budget(3300).tuning(tuning);
        let mut d = Matrix::from_fn(self.want.rows(), self.want.cols(), |_, _| UNTOUCHED);
        let run = large.on_failure(on_failure).run(&mut d, &self.a, &self.b, &mut Arguments::new().c(&self.c));
        (d, run)
    }

    fn is_right(&self, d: &Matrix<f32>, region: &Region) -> bool {
        let rows = region.row..region.row + region.rows;
        rows.flat_map(|row| (region.col..region.col + region.cols).map(move |col| (row, col)))
            .all(|at| d[at] == self.want[at])
    }
}

/// Runs with the fault on device `bad` of three, after 0, 1, 2, .. calls, until it does not occur any more.
fn at_every_point(
    fault: Fault,
    bad: usize,
    on_failure: OnFailure,
    check: impl Fn(&Product, &Matrix<f32>, Result<LargeRun, LargeError>),
) -> usize {
    let product = Product::new();
    for after in 0.. {
        let mut all = devices(3);
        all[bad] = faulty(fault, after);
        let (d, run) = product.run(&all, on_failure);
        if run.as_ref().is_ok_and(|run| run.failures.is_empty()) {
            assert_eq!(d, product.want);
            return after as usize;
        }
        check(&product, &d, run);
    }
    0
}

#[test]
fn every_fault_names_what_is_finished() {
    let faults = [(Fault::Copy, 12), (Fault::Death, 4), (Fault::Memory, 4)];
    for ((fault, least), bad) in faults.into_iter().flat_map(|fault| (0..3).map(move |bad| (fault, bad))) {
        let points = at_every_point(fault, bad, OnFailure::Stop, |product, d, run| {
            let Err(LargeError::Incomplete(incomplete)) = run else { panic!("{fault:?}: {run:?}") };
            assert_eq!(incomplete.failures.iter().map(|failure| failure.device).collect::<Vec<_>>(), [bad]);
            let regions = || incomplete.finished.iter().chain(&incomplete.left);
            assert_eq!(regions().map(Region::elements).sum::<u64>() as usize, M * N, "{incomplete}");
            assert!(incomplete.finished.iter().all(|strip| product.is_right(d, strip)), "{incomplete}");
            // Strips that are not listed as finished were not written, except by the failed copy itself.
            let written = (0..M).flat_map(|row| (0..N).map(move |col| (row, col))).filter(|at| d[*at] != UNTOUCHED);
            let finished = incomplete.finished.iter().map(Region::elements).sum::<u64>();
            assert!(written.count() as u64 <= finished + 8 * 32, "{incomplete}");
            let error = incomplete.to_string();
            assert!(
                error.starts_with(&format!("device {bad} failed: ")) && error.contains("strips of D are finished"),
                "{error}"
            );
            let typed = match fault {
                Fault::Copy => matches!(incomplete.failures[0].error, Error::Device(DeviceError::Driver { .. })),
                Fault::Death | Fault::Start => {
                    matches!(incomplete.failures[0].error, Error::Device(DeviceError::ContextDead { .. }))
                }
                Fault::Memory => matches!(incomplete.failures[0].error, Error::Device(DeviceError::OutOfMemory { .. })),
            };
            assert!(typed, "{error}");
        });
        assert!(points > least, "{fault:?} of device {bad} is met at {points} points");
    }
}

#[test]
fn the_others_finish_what_a_failed_device_leaves() {
    let faults = [Fault::Copy, Fault::Death, Fault::Memory, Fault::Start];
    for (fault, bad) in faults.into_iter().flat_map(|fault| (0..3).map(move |bad| (fault, bad))) {
        at_every_point(fault, bad, OnFailure::Continue, |product, d, run| {
            let run = run.unwrap_or_else(|error| panic!("{fault:?} of device {bad}: {error}"));
            assert_eq!(run.failures.iter().map(|failure| failure.device).collect::<Vec<_>>(), [bad]);
            assert_eq!(*d, product.want);
        });
    }
}

/// Without other devices, none can continue; without `OnFailure::Continue`, nothing starts.
#[test]
fn devices_that_were_dead_before_are_named() {
    let product = Product::new();
    let dead = || faulty(Fault::Start, 0);
    let (d, run) = product.run(&[dead(), dead()], OnFailure::Continue);
    let Err(LargeError::Incomplete(incomplete)) = run else { panic!("{run:?}") };
    assert_eq!(incomplete.failures.iter().map(|failure| failure.device).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((incomplete.finished, incomplete.left), (vec![], vec![Region::new(0..M, 0..N)]));
    let (other, run) = product.run(&[devices(1).remove(0), dead()], OnFailure::Stop);
    assert!(matches!(run, Err(LargeError::Run(Error::Device(DeviceError::ContextDead { .. })))), "{run:?}");
    assert!(d.as_slice().iter().chain(other.as_slice()).all(|x| *x == UNTOUCHED));
    // The plan is that of the remaining devices.
    let large = Large::new(&product.schedule).unwrap().on_failure(OnFailure::Continue);
    let plan = large.devices(&[devices(1).remove(0), dead()]).plan(M, N, 11).unwrap();
    assert_eq!(plan.request.devices, 1);
}

/// Also if a second device fails meanwhile, and until none is left.
#[test]
fn nothing_is_lost_until_no_device_is_left() {
    let product = Product::new();
    let (mut survived, mut lost) = (0, 0);
    for after in 0..40 {
        let all = [faulty(Fault::Death, after), faulty(Fault::Copy, 3 * after), faulty(Fault::Death, 2 * after)];
        let (d, run) = product.run(&all, OnFailure::Continue);
        match run {
            Ok(_) => {
                survived += 1;
                assert_eq!(d, product.want, "after {after}");
            }
            Err(LargeError::Incomplete(incomplete)) => {
                lost += 1;
                let mut failed: Vec<usize> = incomplete.failures.iter().map(|failure| failure.device).collect();
                failed.sort_unstable();
                assert_eq!(failed, [0, 1, 2]);
                assert!(incomplete.finished.iter().all(|strip| product.is_right(&d, strip)), "{incomplete}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(survived > 3 && lost > 3, "{survived} survived, {lost} lost");
}
