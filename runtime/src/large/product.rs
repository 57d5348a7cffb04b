//! A schedule for host matrices of any size, its devices, and how much of their memory it may use.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ptx_gemm_codegen::tile::interface;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{DType, Schedule};

use super::error::{Incomplete, LargeError};
use super::executor::Executor;
use super::host::Host;
use super::perform::{Failure, Performed, perform};
use super::plan::{Addend, Division, Links, Plan, Rates, Request, Tuning};
use super::region::Region;
use super::sequential::Sequential;
use super::site::{Constants, HostVector, Site};
use super::sums::{Part, Sums};
use crate::checks::{self, GivenVector};
use crate::compiled::CompiledGemm;
use crate::device::{Device, DeviceKind};
use crate::element::Element;
use crate::error::{ArgumentError, Error};
use crate::kernel::Kernel;
use crate::shape::{Laid, Stack};
use crate::view::{AnyRef, AsMatrix, AsMatrixMut, Strides};

/// Bytes of a device's memory that are used if no budget is given and the device does not say how much is free.
const DEFAULT_BUDGET: u64 = 1 << 30;
/// The share of a GPU's free memory that is used if no budget is given: kernels and the driver need some as well.
const FREE_SHARE: f64 = 0.9;
/// Multiply-adds per second that are assumed if no rates are given: those of a good f32 kernel on an H200.
const DEFAULT_FLOPS: f64 = 55e12;
/// Blocks of a persistent grid in plans without a device: one for each multiprocessor of an H200.
const BLOCKS: u32 = 132;

/// What happens to the rest of a product when a device fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The other devices finish what they can; then the call returns [`LargeError::Incomplete`].
    #[default]
    Stop,
    /// The other devices also compute what the failed one has not finished. An error only if no device is left.
    Continue,
}

/// A schedule for products of host matrices that need not fit into a device's memory, on one or several devices.
///
/// ```
/// use ptx_gemm_runtime::{Device, Matrix};
/// use ptx_gemm_runtime::large::{Arguments, Large};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = "tile(16, 16, 8); thread(2, 2);".parse()?;
/// let devices = [Device::interpreter(), Device::interpreter()];
/// let large = Large::new(&schedule)?.devices(&devices).budget(16 << 10);
/// println!("{}", large.plan(100, 70, 50)?);
/// let (a, b) = (Matrix::<f32>::random(100, 50, 1), Matrix::<f32>::random(50, 70, 2));
/// let mut d = Matrix::<f32>::zeros(100, 70);
/// large.run(&mut d, &a, &b, &mut Arguments::new())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Large {
    sums: Arc<Sums>,
    tile: [usize; 3],
    devices: Vec<Device>,
    budget: Option<u64>,
    links: Option<Links>,
    tuning: Tuning,
    rates: Rates,
    on_failure: OnFailure,
}

/// The epilogue's operands besides A B, and where to report progress.
#[derive(Default)]
pub struct Arguments<'a> {
    c: Option<Result<AnyRef<'a>, Strides>>,
    scalars: Vec<(String, f64)>,
    vectors: Vec<(String, DType, &'a [u8])>,
    progress: Option<Box<dyn FnMut(Progress) + 'a>>,
}

/// How far a product is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Elements of D that are finished.
    pub finished: u64,
    /// Elements of D.
    pub elements: u64,
}

/// What a product has cost.
#[derive(Clone, Debug)]
pub struct LargeRun {
    /// The plan that ran, or the first of them if devices failed.
    pub plan: Plan,
    /// From the first operation to the last strip of D, without compiling, reserving memory and pinning.
    pub time: Duration,
    /// Devices that failed, whose work others have done.
    pub failures: Vec<Failure>,
}

impl<'a> Arguments<'a> {
    /// No arguments.
    pub fn new() -> Arguments<'a> {
        Arguments::default()
    }

    /// The matrix that the epilogue calls `c`. It is not D: a strip of D that is not finished could not be computed again.
    pub fn c(mut self, c: &'a impl AsMatrix) -> Arguments<'a> {
        self.c = Some(c.as_any());
        self
    }

    /// The value of a run-time scalar.
    pub fn set(mut self, name: &str, value: impl Into<f64>) -> Arguments<'a> {
        self.scalars.push((name.into(), value.into()));
        self
    }

    /// A vector of the epilogue: as many elements as D has rows (`name[m]`) or columns (`name[n]`).
    pub fn vector<T: Element>(mut self, name: &str, elements: &'a [T]) -> Arguments<'a> {
        self.vectors.push((name.into(), T::DTYPE, bytemuck::cast_slice(elements)));
        self
    }

    /// Is called whenever a strip of D is finished.
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

impl Large {
    /// A schedule on the first GPU, or else the interpreter.
    ///
    /// # Errors
    /// A schedule that is not legal, or has `batch(strided)`.
    pub fn new(schedule: &Schedule) -> Result<Large, LargeError> {
        let sums = Sums::of(schedule)?;
        if sums.is_batched() {
            return Err(LargeError::Batched);
        }
        let block = schedule.plan_on(None)?.block;
        Ok(Large {
            sums: Arc::new(sums),
            tile: [block.m, block.n, block.k].map(|extent| extent as usize),
            devices: Vec::new(),
            budget: None,
            links: None,
            tuning: Tuning::default(),
            rates: Rates::h200(DEFAULT_FLOPS),
            on_failure: OnFailure::Stop,
        })
    }

    /// The devices: GPUs, or interpreters. Two names of one device count as two.
    pub fn devices(self, devices: &[Device]) -> Large {
        Large { devices: devices.to_vec(), ..self }
    }

    /// Bytes that may be used of each device's memory. Without a budget: nine tenths of what is free on a GPU.
    pub fn budget(self, bytes: u64) -> Large {
        Large { budget: Some(bytes), ..self }
    }

    /// Copies between devices. Without this: directly where the devices can, and through the host otherwise.
    pub fn links(self, links: Links) -> Large {
        Large { links: Some(links), ..self }
    }

    /// Numbers that the plan otherwise determines. Equal depths of slabs give equal bits.
    pub fn tuning(self, tuning: Tuning) -> Large {
        Large { tuning, ..self }
    }

    /// The speeds from which the fastest plan and its time are estimated.
    pub fn rates(self, rates: Rates) -> Large {
        Large { rates, ..self }
    }

    /// What happens when a device fails.
    pub fn on_failure(self, on_failure: OnFailure) -> Large {
        Large { on_failure, ..self }
    }

    /// The plan of a product on its devices. Nothing is reserved and nothing runs.
    pub fn plan(&self, m: usize, n: usize, k: usize) -> Result<Plan, LargeError> {
        let devices = self.chosen()?;
        let request = self.request(&devices, [m, n, k], self.may_read_c(), 0)?;
        self.plan_of(request, Some(&devices[0]))
    }

    /// The plan for a number of devices that need not be there, all linked and with `budget` bytes each.
    pub fn plan_for(&self, devices: usize, budget: u64, m: usize, n: usize, k: usize) -> Result<Plan, LargeError> {
        let links = self.links.clone().unwrap_or(Links::All);
        self.plan_of(self.numbers([m, n, k], self.may_read_c(), 0, devices, links, budget), None)
    }

    /// D = epilogue(A B, C). Returns when D is complete; after an error some of it may be, see [`LargeError::Incomplete`].
    pub fn run(
        &self,
        d: &mut impl AsMatrixMut,
        a: &impl AsMatrix,
        b: &impl AsMatrix,
        arguments: &mut Arguments<'_>,
    ) -> Result<LargeRun, LargeError> {
        let strides = ArgumentError::strides;
        let (a, b) = (a.as_any().map_err(strides(Operand::A))?, b.as_any().map_err(strides(Operand::B))?);
        let c = arguments.c.transpose().map_err(strides(Operand::C))?;
        let d = d.as_any_mut().map_err(strides(Operand::D))?;
        let devices = self.chosen()?;
        let (constants, depth) = self.check(&devices[0], a, b, c, d.as_ref(), arguments)?;
        let epilogue = &self.sums.problem.epilogue;
        let values: Vec<f64> = epilogue.scalars.iter().map(|name| value(&constants, name)).collect();
        let addend = if epilogue.reads_c(&values) { Addend::Read } else { Addend::Absent };
        let mut host = Host { a, b, c: c.filter(|_| addend == Addend::Read), d, origin: [0, 0] };
        let mut progress = |progress| {
            if let Some(report) = &mut arguments.progress {
                report(progress);
            }
        };
        self.compute(&devices, &mut host, &constants, addend, depth, &mut progress)
    }

    /// Plans and performs the whole product, and again for what a failed device has left.
    fn compute(
        &self,
        devices: &[Device],
        host: &mut Host<'_>,
        constants: &Constants<'_>,
        addend: Addend,
        k: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LargeRun, LargeError> {
        let (m, n) = (host.d.shape.rows, host.d.shape.cols);
        let elements = m as u64 * n as u64;
        let vector_bytes = constants.vectors.iter().map(|vector| vector.bytes.len() as u64).sum();
        // The devices in use, by their original index.
        let mut using: Vec<(usize, Device)> = devices.iter().cloned().enumerate().collect();
        let mut left = vec![Region::new(0..m, 0..n)];
        let (mut finished, mut failures): (Vec<Region>, Vec<Failure>) = Default::default();
        let (mut first, mut time, mut large) = (None, Duration::ZERO, self.clone());
        while let Some(region) = left.pop() {
            let present: Vec<Device> = using.iter().map(|(_, device)| device.clone()).collect();
            let request = large.request(&present, [region.rows, region.cols, k], addend, vector_bytes)?;
            let plan = large.plan_of(request, present.first())?;
            // The same slabs, so that what others compute has the same bits.
            large.tuning.depth = Some(plan.geometry.depth.max(1));
            host.origin = [region.row, region.col];
            let mut done: u64 = finished.iter().map(Region::elements).sum();
            let mut report = |strip: Region| {
                done += strip.elements();
                progress(Progress { finished: done, elements });
            };
            let (performed, took) = self.perform(&plan, &present, host, constants, &mut report);
            time += took;
            let strips: Vec<Region> = plan.strips().filter(|strip| !performed.finished.contains(strip)).collect();
            let placed = |strip: &Region| strip.moved(region.row, region.col);
            finished.extend(performed.finished.iter().map(placed));
            left.extend(merged(strips.iter().map(placed).collect()));
            let failed: Vec<usize> = performed.failures.iter().map(|failure| failure.device).collect();
            let original = |failure: Failure| Failure { device: using[failure.device].0, ..failure };
            failures.extend(performed.failures.into_iter().map(original));
            let mut index = 0..;
            using.retain(|_| index.next().is_none_or(|index| !failed.contains(&index)));
            first.get_or_insert(plan);
            let stops = !failed.is_empty() && (self.on_failure == OnFailure::Stop || using.is_empty());
            if stops && !left.is_empty() {
                return Err(LargeError::Incomplete(Box::new(Incomplete { finished, left, failures })));
            }
        }
        match first {
            Some(plan) => Ok(LargeRun { plan, time, failures }),
            None => Err(super::plan::PlanError::NoDevice.into()),
        }
    }

    fn perform(
        &self,
        plan: &Plan,
        devices: &[Device],
        host: &mut Host<'_>,
        constants: &Constants<'_>,
        report: &mut dyn FnMut(Region),
    ) -> (Performed, Duration) {
        let site = |device: &Device| Site::new(device, plan, &self.sums, constants, host.origin);
        let mut failures = Vec::new();
        let mut sites = Vec::new();
        for (device, made) in devices.iter().map(site).enumerate() {
            sites.push(made.map_err(|error| failures.push(Failure { device, operation: None, error })).ok());
        }
        // A plan is for all of its devices.
        if !failures.is_empty() {
            return (Performed { finished: Vec::new(), failures }, Duration::ZERO);
        }
        let begun = Instant::now();
        let performed = match executor(&sites, host) {
            Ok(mut executor) => perform(plan, 0..plan.operations.len(), &mut *executor, report),
            Err((device, error)) => {
                let failures = vec![Failure { device, operation: None, error }];
                Performed { finished: Vec::new(), failures }
            }
        };
        (performed, begun.elapsed())
    }

    /// Every check that the matrices allow, before anything is reserved: the constants of the launches, and how much of K
    /// has to be summed.
    fn check<'h>(
        &self,
        device: &Device,
        a: AnyRef<'_>,
        b: AnyRef<'_>,
        c: Option<AnyRef<'_>>,
        d: AnyRef<'_>,
        arguments: &Arguments<'h>,
    ) -> Result<(Constants<'h>, usize), LargeError> {
        let problem = &self.sums.problem;
        let (epilogue, acc) = (&problem.epilogue, problem.types.acc);
        let whole = self.sums.schedule(Part::Whole).map(|schedule| CompiledGemm::new(schedule, device)).transpose()?;
        let Some(whole) = whole else { return Ok((Constants::default(), 0)) };
        let laid = |matrix: AnyRef<'_>| Laid { shape: matrix.shape, stack: Stack::ONE };
        let operands = [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))];
        for (operand, matrix) in operands.into_iter().filter_map(|(operand, matrix)| Some((operand, matrix?))) {
            let empty = Laid { shape: crate::shape::Shape::packed(0, 0, ptx_gemm_dsl::Layout::Row), stack: Stack::ONE };
            checks::slice(problem, operand, matrix.dtype, empty, 0)?;
        }
        let extents = checks::extents(whole.interface(), laid(a), laid(b), c.map(laid), laid(d))?;
        for (operand, matrix) in operands.into_iter().filter_map(|(operand, matrix)| Some((operand, matrix?))) {
            checks::slice(problem, operand, matrix.dtype, laid(matrix), matrix.elements())?;
        }
        let scalars = checks::resolve_scalars(epilogue, acc, &arguments.scalars)?;
        checks::check_c(problem, c.is_some(), &scalars)?;
        let given: Vec<GivenVector<'_>> = arguments
            .vectors
            .iter()
            .map(|(name, dtype, bytes)| GivenVector { name, dtype: *dtype, len: bytes.len() / dtype.bytes() as usize })
            .collect();
        let order = checks::resolve_vectors(epilogue, acc, extents, &given)?;
        let vectors = epilogue.vectors.iter().zip(order).map(|(vector, index)| {
            let (name, dtype, bytes) = &arguments.vectors[index];
            HostVector { name: name.clone(), axis: vector.axis, dtype: *dtype, bytes }
        });
        let vectors = vectors.collect();
        // As in BLAS: a product that is multiplied by 0 is not computed, whatever A and B contain.
        let dropped = epilogue.dropping_acc().into_iter().any(|scalar| scalars.get(scalar) == Some(&0.0));
        let named = epilogue.scalars.iter().cloned().zip(scalars).collect();
        Ok((Constants { scalars: named, vectors }, if dropped { 0 } else { a.shape.cols }))
    }

    fn chosen(&self) -> Result<Vec<Device>, LargeError> {
        match self.devices.as_slice() {
            [] => Ok(vec![Device::best()?]),
            devices => Ok(devices.to_vec()),
        }
    }

    fn may_read_c(&self) -> Addend {
        if self.sums.problem.epilogue.uses_c() { Addend::Read } else { Addend::Absent }
    }

    fn request(
        &self,
        devices: &[Device],
        extents: [usize; 3],
        addend: Addend,
        vector_bytes: u64,
    ) -> Result<Request, LargeError> {
        let budget = match self.budget {
            Some(budget) => budget,
            None => free(devices)?,
        };
        let links = self.links.clone().unwrap_or_else(|| links(devices));
        Ok(self.numbers(extents, addend, vector_bytes, devices.len(), links, budget))
    }

    fn numbers(
        &self,
        [m, n, k]: [usize; 3],
        addend: Addend,
        vector_bytes: u64,
        devices: usize,
        links: Links,
        budget: u64,
    ) -> Request {
        let (types, layouts) = (self.sums.problem.types, self.sums.problem.layouts);
        let division = if self.sums.are_divisible() { Division::Slabs } else { Division::Whole };
        let (tile, tuning, rates) = (self.tile, self.tuning, self.rates);
        Request { m, n, k, types, layouts, addend, division, tile, devices, links, budget, vector_bytes, tuning, rates }
    }

    /// The plan of a request, with the workspace that the kernels need.
    fn plan_of(&self, request: Request, device: Option<&Device>) -> Result<Plan, LargeError> {
        let parts = Part::ALL.into_iter().filter_map(|part| self.sums.schedule(part));
        let mut needs: Vec<Box<dyn Fn(usize, usize, usize) -> u64>> = Vec::new();
        for schedule in parts {
            match device {
                Some(device) => {
                    let gemm = CompiledGemm::new(schedule, device)?;
                    needs.push(Box::new(move |m, n, k| gemm.workspace_bytes(m, n, k, 1)));
                }
                None => {
                    let kernel = Kernel::compile_for(schedule, None)?;
                    needs.push(Box::new(move |m, n, k| {
                        let extents = interface::Extents { m: m as u64, n: n as u64, k: k as u64, batch: 1 };
                        kernel.interface().workspace_bytes(extents, |_| BLOCKS)
                    }));
                }
            }
        }
        let workspace = |m, n, k| needs.iter().map(|bytes| bytes(m, n, k)).max().unwrap_or(0);
        Ok(Plan::new(request, &workspace)?)
    }
}

impl fmt::Debug for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Large({:?}, {:?})", self.devices, self.budget)
    }
}

fn value(constants: &Constants<'_>, name: &str) -> f64 {
    constants.scalars.iter().find(|(known, _)| known == name).map_or(f64::NAN, |(_, value)| *value)
}

/// What every one of the devices has to spare.
fn free(devices: &[Device]) -> Result<u64, LargeError> {
    let mut least = u64::MAX;
    for device in devices {
        let free = device.backend().free_bytes()?.map(|bytes| (bytes as f64 * FREE_SHARE) as u64);
        // Two names of one GPU share its memory.
        let sharing = devices.iter().filter(|other| other.shares_memory_with(device)).count().max(1);
        least = least.min(free.map_or(DEFAULT_BUDGET, |free| free / sharing as u64));
    }
    Ok(least)
}

/// Which devices copy from which others: interpreters do, and GPUs where the hardware can.
fn links(devices: &[Device]) -> Links {
    let join = |to: &Device, from: &Device| match (to.kind(), from.kind()) {
        (DeviceKind::Interpreter, DeviceKind::Interpreter) => true,
        (DeviceKind::Cuda(_), DeviceKind::Cuda(_)) => crate::cuda::are_linked(to, from),
        _ => false,
    };
    Links::Pairs(devices.iter().map(|to| devices.iter().map(|from| join(to, from)).collect()).collect())
}

/// The executor for GPUs; any other devices, and a mixture, run one operation after another. An error comes with the index
/// of its device.
pub(super) fn executor<'e, 'h>(
    sites: &'e [Option<Site>],
    host: &'e mut Host<'h>,
) -> Result<Box<dyn Executor + 'e>, (usize, Error)> {
    #[cfg(feature = "cuda")]
    if sites.iter().flatten().all(|site| matches!(site.device.kind(), DeviceKind::Cuda(_))) {
        return Ok(Box::new(crate::cuda::Gpus::new(sites, host)?));
    }
    Ok(Box::new(Sequential::new(sites, host)))
}

/// The same regions, with those that are next to each other joined.
fn merged(mut regions: Vec<Region>) -> Vec<Region> {
    regions.sort_by_key(|region| (region.col, region.cols, region.row));
    let mut out: Vec<Region> = Vec::new();
    for region in regions {
        match out.last_mut() {
            Some(last) if (last.col, last.cols) == (region.col, region.cols) && last.row + last.rows == region.row => {
                last.rows += region.rows;
            }
            _ => out.push(region),
        }
    }
    out
}
