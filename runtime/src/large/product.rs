//! A schedule for host matrices of any size, its devices, and the memory budget on them.

use std::fmt;
use std::sync::Arc;

use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::epilogue::{Axis, Vector};

use super::error::LargeError;
use super::perform::Failure;
use super::plan::{Addend, Division, Links, Plan, PlanError, Rates, Request, Tuning};
use crate::checks;
use crate::compiled::CompiledGemm;
use crate::device::{Device, DeviceKind};
use crate::kernel::Kernel;
use ptx_gemm_dsl::sums::{Part, Sums};

/// Bytes of a device's memory that are used if no budget is given and the device does not report its free memory.
const DEFAULT_BUDGET: u64 = 1 << 30;
/// The share of a GPU's free memory that is used if no budget is given: kernels and the driver also need memory.
const FREE_SHARE: f64 = 0.9;
/// Multiply-adds per second that are assumed if no rates are given: those of a good f32 kernel on an H200.
const DEFAULT_FLOPS: f64 = 55e12;
/// Blocks of a persistent grid in plans without a device: one for each multiprocessor of an H200.
const BLOCKS: u32 = 132;

/// Bytes of workspace of one kernel, by its m, n and k.
type Need = Box<dyn Fn(usize, usize, usize) -> u64>;

/// What happens to the rest of a product when a device fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The other devices finish what they can; then the call returns [`LargeError::Incomplete`].
    #[default]
    Stop,
    /// The other devices also compute what the failed one has not finished, which is everything if it was dead before.
    /// An error only if no device is left.
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
/// let large = Large::new(&schedule)?.devices(&devices).budget(24 << 10);
/// println!("{}", large.plan(100, 70, 50)?);
/// let (a, b) = (Matrix::<f32>::random(100, 50, 1), Matrix::<f32>::random(50, 70, 2));
/// let mut d = Matrix::<f32>::zeros(100, 70);
/// large.run(&mut d, &a, &b, &mut Arguments::new())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Large {
    pub(super) sums: Arc<Sums>,
    tile: [usize; 3],
    devices: Vec<Device>,
    budget: Option<u64>,
    links: Option<Links>,
    /// Whether plans without arguments read C, if the epilogue uses it.
    planned: Addend,
    /// Whether they drop the product.
    drops: bool,
    pub(super) tuning: Tuning,
    rates: Rates,
    pub(super) on_failure: OnFailure,
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
            planned: Addend::Read,
            drops: false,
            tuning: Tuning::default(),
            rates: Rates::h200(DEFAULT_FLOPS),
            on_failure: OnFailure::Stop,
        })
    }

    /// Sets the devices: GPUs, or interpreters. A device that is named twice counts as two.
    pub fn devices(self, devices: &[Device]) -> Large {
        Large { devices: devices.to_vec(), ..self }
    }

    /// Sets the bytes that may be used of each device's memory. The default is nine tenths of the free memory of a GPU.
    pub fn budget(self, bytes: u64) -> Large {
        Large { budget: Some(bytes), ..self }
    }

    /// Sets the copies between devices. The default is direct copies if the devices can, and copies through the host
    /// otherwise.
    pub fn links(self, links: Links) -> Large {
        Large { links: Some(links), ..self }
    }

    /// Fixes numbers that the plan otherwise determines. Equal depths of slabs give equal bits.
    pub fn tuning(self, tuning: Tuning) -> Large {
        Large { tuning, ..self }
    }

    /// Sets the speeds that the estimate uses to find the fastest plan and its time.
    pub fn rates(self, rates: Rates) -> Large {
        Large { rates, ..self }
    }

    /// Sets what happens when a device fails.
    pub fn on_failure(self, on_failure: OnFailure) -> Large {
        Large { on_failure, ..self }
    }

    /// The value of each scalar of the epilogue, in its order; if a name is given twice, the last value counts.
    ///
    /// # Errors
    /// A name that the epilogue does not have, one without a value, or a value that its type does not have.
    pub fn scalars(&self, given: &[(String, f64)]) -> Result<Vec<f64>, LargeError> {
        let problem = &self.sums.problem;
        Ok(checks::resolve_scalars(&problem.epilogue, problem.types.epilogue(), given)?)
    }

    /// Plans for these scalars, in the order of the epilogue: one of 0 can drop C, or the product. Without this,
    /// everything counts as read. It does not affect [`Large::run`], which has its own scalars.
    pub fn planned_with(self, scalars: &[f64]) -> Large {
        let epilogue = &self.sums.problem.epilogue;
        let planned = if epilogue.reads_c(scalars) { Addend::Read } else { Addend::Absent };
        let drops = epilogue.dropping_acc().into_iter().any(|scalar| scalars.get(scalar) == Some(&0.0));
        Large { planned, drops, ..self }
    }

    /// The plan of a product on its devices. Nothing is reserved and nothing runs.
    pub fn plan(&self, m: usize, n: usize, k: usize) -> Result<Plan, LargeError> {
        let (devices, _) = self.living(&self.chosen()?)?;
        let devices: Vec<Device> = devices.into_iter().map(|(_, device)| device).collect();
        if devices.is_empty() {
            return Err(PlanError::NoDevice.into());
        }
        let k = if self.drops { 0 } else { k };
        let request = self.request(&devices, [m, n, k], self.may_read_c(), self.vector_bytes(m, n))?;
        self.plan_of(request, Some(&devices[0]))
    }

    /// The plan for a number of devices that need not exist, all linked and with `budget` bytes each.
    pub fn plan_for(&self, devices: usize, budget: u64, m: usize, n: usize, k: usize) -> Result<Plan, LargeError> {
        let links = self.links.clone().unwrap_or(Links::All);
        let k = if self.drops { 0 } else { k };
        let vector_bytes = self.vector_bytes(m, n);
        self.plan_of(self.numbers([m, n, k], self.may_read_c(), vector_bytes, devices, links, budget), None)
    }

    /// Bytes of the epilogue's vectors, which every device holds completely.
    fn vector_bytes(&self, m: usize, n: usize) -> u64 {
        let problem = &self.sums.problem;
        let len = |vector: &Vector| if vector.axis == Axis::M { m } else { n } as u64;
        let lens = problem.epilogue.vectors.iter().map(len).fold(0, u64::saturating_add);
        lens.saturating_mul(problem.types.epilogue().bytes().into())
    }

    pub(super) fn chosen(&self) -> Result<Vec<Device>, LargeError> {
        match self.devices.as_slice() {
            [] => Ok(vec![Device::best()?]),
            devices => Ok(devices.to_vec()),
        }
    }

    /// The devices that respond, by their index, and why the others do not. With [`OnFailure::Stop`], the first of the
    /// latter is an error.
    #[allow(clippy::type_complexity)] // Two lists.
    pub(super) fn living(&self, devices: &[Device]) -> Result<(Vec<(usize, Device)>, Vec<Failure>), LargeError> {
        let (mut living, mut failures) = (Vec::new(), Vec::new());
        for (index, device) in devices.iter().enumerate() {
            match device.backend().free_bytes() {
                Ok(_) => living.push((index, device.clone())),
                Err(error) if self.on_failure == OnFailure::Stop => return Err(error.into()),
                Err(error) => failures.push(Failure { device: index, operation: None, error }),
            }
        }
        Ok((living, failures))
    }

    /// Whether C is read, as far as a plan without arguments can tell.
    fn may_read_c(&self) -> Addend {
        if self.sums.problem.epilogue.uses_c() { self.planned } else { Addend::Absent }
    }

    pub(super) fn request(
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
    pub(super) fn plan_of(&self, request: Request, device: Option<&Device>) -> Result<Plan, LargeError> {
        let parts = Part::ALL.into_iter().filter_map(|part| self.sums.schedule(part));
        let mut needs: Vec<Need> = Vec::new();
        for schedule in parts {
            match device {
                Some(device) => {
                    let gemm = CompiledGemm::new(schedule, device)?;
                    needs.push(Box::new(move |m, n, k| gemm.workspace_bytes(m, n, k, 1)));
                }
                None => {
                    let kernel = Kernel::compile_for(schedule, None)?;
                    needs.push(Box::new(move |m, n, k| kernel.workspace_on(m, n, k, BLOCKS)));
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

/// The free memory that every one of the devices has.
fn free(devices: &[Device]) -> Result<u64, LargeError> {
    let mut least = u64::MAX;
    for device in devices {
        let free = device.backend().free_bytes()?.map(|bytes| (bytes as f64 * FREE_SHARE) as u64);
        // A GPU that is named twice shares its memory.
        let sharing = devices.iter().filter(|other| other.shares_memory_with(device)).count().max(1);
        least = least.min(free.map_or(DEFAULT_BUDGET, |free| free / sharing as u64));
    }
    Ok(least)
}

/// Which devices copy from each other: interpreters do, and GPUs if the hardware can.
fn links(devices: &[Device]) -> Links {
    let join = |to: &Device, from: &Device| match (to.kind(), from.kind()) {
        (DeviceKind::Interpreter, DeviceKind::Interpreter) => true,
        (DeviceKind::Cuda(_), DeviceKind::Cuda(_)) => crate::cuda::are_linked(to, from),
        _ => false,
    };
    Links::Pairs(devices.iter().map(|to| devices.iter().map(|from| join(to, from)).collect()).collect())
}
