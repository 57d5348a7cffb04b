//! Tests the effect of a failing GPU on a call, without a GPU: the interpreter acts as a device that runs out of
//! memory, or dies.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ptx_gemm_dsl::{Schedule, Target};
use ptx_gemm_interp::TensorMapArgs;

use crate::backend::{Backend, Execution, Lifetime, Limits, Module, Output, StreamHandle};
use crate::compiled::CompiledGemm;
use crate::device::{Device, DeviceKind};
use crate::error::{DeviceError, Error};
use crate::health::Health;
use crate::interpreter::{Interpreter, InterpreterOptions, WAVE as INTERPRETER_WAVE};
use crate::kernel::Kernel;
use crate::launch::Launch;
use crate::matrix::Matrix;
use crate::view::{AnyMut, AnyRef};

const CLAUSES: &str =
    "tile(16, 16, 8); thread(2, 4); epilogue(|acc, c, bias, alpha| alpha * acc + c + bias[n]); split_k(2);";

/// The interpreter, and the faults to inject.
#[derive(Debug)]
struct Faulty {
    inner: Interpreter,
    limits: Limits,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    health: Health,
    /// Allocations until memory runs out; negative if none are left.
    room: AtomicI64,
    /// Launches before the device dies.
    lives: AtomicI64,
    /// Allocations that have not been released.
    held: AtomicUsize,
    /// Clusters that the device reports to hold at once, if it reports any.
    clusters: OnceLock<u32>,
}

impl Backend for Faulty {
    fn name(&self) -> &str {
        "a GPU"
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn encode(&self, args: &TensorMapArgs) -> Result<[u8; 128], Error> {
        self.inner.encode(args)
    }

    fn load(&self, kernel: &Arc<Kernel>) -> Result<Arc<dyn Module>, Error> {
        self.state.health.check(self.name())?;
        if self.state.room.load(Ordering::Relaxed) <= 0 {
            return Err(DeviceError::OutOfMemory { device: "a GPU".into(), what: "code".into(), bytes: 1 }.into());
        }
        Ok(Arc::new(FaultyModule { inner: self.inner.load(kernel)?, state: self.state.clone() }))
    }

    fn allocate(&self, label: &str, bytes: u64, element: u32, lifetime: Lifetime) -> Result<u64, Error> {
        self.state.health.check(self.name())?;
        if self.state.room.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(DeviceError::OutOfMemory { device: "a GPU".into(), what: label.into(), bytes }.into());
        }
        self.state.held.fetch_add(1, Ordering::Relaxed);
        self.inner.allocate(label, bytes, element, lifetime)
    }

    fn free(&self, address: u64, bytes: u64, lifetime: Lifetime) {
        self.state.held.fetch_sub(1, Ordering::Relaxed);
        self.inner.free(address, bytes, lifetime);
    }

    fn zero(&self, address: u64, bytes: u64) -> Result<(), Error> {
        self.inner.zero(address, bytes)
    }

    fn upload(&self, address: u64, matrix: AnyRef<'_>) -> Result<(), Error> {
        self.inner.upload(address, matrix)
    }

    fn prepare(&self, address: u64, d: AnyRef<'_>, output: Output) -> Result<(), Error> {
        self.inner.prepare(address, d, output)
    }

    fn download(&self, address: u64, entry: &str, d: AnyMut<'_>) -> Result<(), Error> {
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
        Ok(self.state.clusters.get().copied().or(self.inner.resident_clusters(entry, kernel)?))
    }

    fn launch(&self, launch: &Launch) -> Result<Execution, Error> {
        self.state.health.check("a GPU")?;
        if self.state.lives.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(self.state.health.died("a GPU", "CUDA_ERROR_ILLEGAL_ADDRESS".into()).into());
        }
        self.inner.launch(launch)
    }

    fn enqueue(&self, launch: &Launch, _stream: StreamHandle) -> Result<(), Error> {
        self.launch(launch).map(drop)
    }
}

fn device() -> (Device, Arc<State>) {
    let state = Arc::new(State { room: AtomicI64::new(1000), lives: AtomicI64::new(1000), ..State::default() });
    let limits = Interpreter::new(InterpreterOptions::default()).limits().clone();
    (device_with(limits, &state), state)
}

fn device_with(limits: Limits, state: &Arc<State>) -> Device {
    let inner = Interpreter::new(InterpreterOptions::default());
    Device::with(DeviceKind::Cuda(0), Arc::new(Faulty { inner, limits, state: state.clone() }))
}

fn gemm(device: &Device) -> CompiledGemm {
    let schedule: Schedule = CLAUSES.parse().unwrap();
    CompiledGemm::new(&schedule, device).unwrap()
}

/// D before the call, and the call.
fn multiply(gemm: &CompiledGemm, d: &mut Matrix<f32>) -> Result<(), Error> {
    let (a, b, c) =
        (Matrix::<f32>::random(20, 24, 1), Matrix::<f32>::random(24, 18, 2), Matrix::<f32>::random(20, 18, 3));
    let bias = [0.5f32; 18];
    gemm.c(&c).vector("bias", &bias).set("alpha", 2).multiply_into(&a, &b, d).map(drop)
}

fn untouched() -> Matrix<f32> {
    Matrix::from_fn(20, 18, |row, col| (row * col) as f32)
}

#[test]
fn out_of_memory_is_typed_and_leaks_nothing_and_can_be_tried_again() {
    let (device, state) = device();
    let gemm = gemm(&device);
    let mut labels = Vec::new();
    for room in 0.. {
        let mut d = untouched();
        state.room.store(room, Ordering::Relaxed);
        match multiply(&gemm, &mut d) {
            Ok(()) => break,
            Err(Error::Device(DeviceError::OutOfMemory { what, bytes, .. })) => {
                assert!(bytes > 0, "{what}");
                labels.push(what);
            }
            Err(other) => panic!("{room}: {other:?}"),
        }
        assert_eq!(d, untouched(), "D after {room} allocations");
        assert_eq!(state.held.load(Ordering::Relaxed), 0, "memory held after {room} allocations");
    }
    assert_eq!(labels, ["A", "B", "C", "bias", "D", "the workspace"]);
    assert_eq!(state.held.load(Ordering::Relaxed), 0);
}

#[test]
fn a_kernel_that_found_no_memory_is_loaded_later() {
    let (device, state) = device();
    let schedule: Schedule = CLAUSES.parse().unwrap();
    let room = state.room.swap(0, Ordering::Relaxed);
    let error = CompiledGemm::new(&schedule, &device).unwrap_err();
    assert!(matches!(error, Error::Device(DeviceError::OutOfMemory { .. })), "{error:?}");
    state.room.store(room, Ordering::Relaxed);
    multiply(&gemm(&device), &mut untouched()).unwrap();
}

#[test]
fn a_dead_device_says_so_once_and_refuses_the_rest() {
    let (device, state) = device();
    let gemm = gemm(&device);
    state.lives.store(0, Ordering::Relaxed);
    let mut d = untouched();
    let first = multiply(&gemm, &mut d).unwrap_err();
    assert!(matches!(&first, Error::Device(DeviceError::ContextDead { .. })), "{first:?}");
    assert!(first.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS") && first.to_string().contains("in_interpreter()"));
    state.lives.store(1000, Ordering::Relaxed);
    for _ in 0..2 {
        let later = multiply(&gemm, &mut d).unwrap_err();
        assert!(matches!(&later, Error::Device(DeviceError::ContextLost { .. })), "{later:?}");
    }
    let other: Schedule = "tile(32, 32, 8); thread(2, 2);".parse().unwrap();
    let loading = CompiledGemm::new(&other, &device).unwrap_err();
    assert!(matches!(loading, Error::Device(DeviceError::ContextLost { .. })), "{loading:?}");
    assert_eq!((d.clone(), state.held.load(Ordering::Relaxed)), (untouched(), 0));

    // The same call on the interpreter succeeds, since the kernel is correct.
    multiply(&gemm.in_interpreter().unwrap(), &mut d).unwrap();
    let mut expected = untouched();
    multiply(&self::gemm(&Device::interpreter()), &mut expected).unwrap();
    assert_eq!(d, expected);
}

/// Clusters do not fill a device if the size of its clusters of multiprocessors is not a multiple of theirs: an H100
/// with 132 multiprocessors holds 30 clusters of four blocks.
#[test]
fn a_persistent_grid_has_the_blocks_of_the_clusters_that_fit() {
    let clauses = "tile(64, 64, 32); thread(8, 8); load(tma); stages(2); specialize(producers = 1 warp); persistent; \
                   store(tma); cluster(2, 1); multicast(b);";
    let (a, b) = (Matrix::<f32>::random(512, 40, 1), Matrix::<f32>::random(40, 128, 2));
    let blocks = |clusters: Option<u32>, spare: u32| {
        let (device, state) = device();
        clusters.into_iter().for_each(|clusters| state.clusters.set(clusters).unwrap());
        let gemm = CompiledGemm::new(&clauses.parse::<Schedule>().unwrap(), &device).unwrap();
        let mut d = Matrix::<f32>::zeros(512, 128);
        gemm.leaving(spare).unwrap().multiply_into(&a, &b, &mut d).unwrap().blocks
    };
    assert_eq!(blocks(None, 0), INTERPRETER_WAVE / 2 * 2);
    assert_eq!(blocks(Some(1), 0), 2);
    assert_eq!(blocks(Some(3), 0), 6);
    assert_eq!(blocks(Some(3), 1), 4);
}

#[test]
fn sixteen_threads_load_a_kernel_once() {
    let (device, _) = device();
    let gemms: Vec<CompiledGemm> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| gemm(&device))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(gemms.iter().all(|gemm| std::ptr::eq(gemm.ptx(), gemms[0].ptx())));
}

/// A kernel that needs more than the device has is an error before the device is used.
#[test]
fn kernels_beyond_a_device_are_refused() {
    let state = Arc::new(State::default());
    let limits = |capability, threads, shared_bytes| Limits {
        target: Some(Target { capability, specific: false }),
        threads,
        shared_bytes,
        multiprocessors: 1,
    };
    let refused = |clauses: &str, limits: Limits, words: &str| {
        let schedule: Schedule = clauses.parse().unwrap();
        let error = CompiledGemm::new(&schedule, &device_with(limits, &state)).unwrap_err();
        assert!(matches!(error, Error::Device(DeviceError::Limit { .. } | DeviceError::Target { .. })), "{error:?}");
        assert_eq!(error.to_string(), words);
    };
    const CASE: &str = "target(sm_80); tile(128, 128, 32); thread(8, 4); double_buffer;";
    refused(CASE, limits(80, 256, 1 << 18), "a block needs 512 threads, a GPU allows 256");
    refused(CASE, limits(80, 1024, 48 << 10), "a block needs 65536 bytes of shared memory, a GPU allows 49152");
    refused(
        CASE,
        limits(75, 1024, 1 << 18),
        "the kernel is for sm_80, a GPU is sm_75; target(sm_75) or a lower one runs there",
    );
    let schedule: Schedule = "tile(16, 16, 8); thread(2, 4);".parse().unwrap();
    let device = device_with(limits(100, 1024, 1 << 18), &state);
    let error = CompiledGemm::for_target(&schedule, Target::SM_90A, &device).unwrap_err();
    let words = "the kernel is for sm_90a, a GPU is sm_100; `sm_90a` instructions run on that capability alone";
    assert_eq!(error.to_string(), words);
}
