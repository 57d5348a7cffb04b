//! Runs a large product: checks its arguments, plans, performs, and plans again for the work that a failed device has
//! left.

use std::time::{Duration, Instant};

use ptx_gemm_dsl::Layout;
use ptx_gemm_dsl::terms::Operand;

use super::arguments::{Arguments, Progress};
use super::error::{Incomplete, LargeError};
use super::executor::Executor;
use super::host::Host;
use super::operation::Action;
use super::perform::{Failure, Performed, perform};
use super::plan::{Addend, Plan, PlanError};
use super::product::{Large, OnFailure};
use super::region::Region;
use super::sequential::Sequential;
use super::site::{Constants, Site};
use crate::checks;
use crate::compiled::CompiledGemm;
use crate::device::Device;
use crate::error::{ArgumentError, Error};
use crate::shape::{Placement, Shape, Stack};
use crate::view::{AnyRef, AsMatrix, AsMatrixMut};
use ptx_gemm_dsl::sums::Part;

/// The cost of a product.
#[derive(Clone, Debug)]
pub struct LargeRun {
    /// The plan that ran, or the first one if devices failed.
    pub plan: Plan,
    /// From the first operation to the last strip of D, without compiling, reserving memory and pinning.
    pub time: Duration,
    /// Devices that failed; others have done their work.
    pub failures: Vec<Failure>,
}

/// The devices, operands and constants of a product, once its arguments are checked.
pub(super) struct Prepared<'h> {
    /// The devices that are alive, by their index.
    pub(super) using: Vec<(usize, Device)>,
    /// Why the other devices are not used.
    pub(super) failures: Vec<Failure>,
    pub(super) host: Host<'h>,
    pub(super) constants: Constants<'h>,
    pub(super) addend: Addend,
    /// How much of K has to be summed.
    pub(super) depth: usize,
}

impl Large {
    /// D = epilogue(A B, C). Returns when D is complete; after an error some of it may be, see [`LargeError::Incomplete`].
    pub fn run(
        &self,
        d: &mut impl AsMatrixMut,
        a: &impl AsMatrix,
        b: &impl AsMatrix,
        arguments: &mut Arguments<'_>,
    ) -> Result<LargeRun, LargeError> {
        let prepared = self.prepare(d, a, b, arguments)?;
        let mut progress = |progress| {
            if let Some(report) = &mut arguments.progress {
                report(progress);
            }
        };
        let Prepared { using, failures, mut host, constants, addend, depth } = prepared;
        self.compute((using, failures), &mut host, &constants, addend, depth, &mut progress)
    }

    /// Every check, before anything is reserved. An error if no device is alive.
    pub(super) fn prepare<'h>(
        &self,
        d: &'h mut impl AsMatrixMut,
        a: &'h impl AsMatrix,
        b: &'h impl AsMatrix,
        arguments: &Arguments<'h>,
    ) -> Result<Prepared<'h>, LargeError> {
        let strides = ArgumentError::strides;
        let (a, b) = (a.as_any().map_err(strides(Operand::A))?, b.as_any().map_err(strides(Operand::B))?);
        let c = arguments.c.transpose().map_err(strides(Operand::C))?;
        let d = d.as_any_mut().map_err(strides(Operand::D))?;
        let (using, failures) = self.living(&self.chosen()?)?;
        let Some((_, device)) = using.first() else {
            let left = vec![Region::new(0..d.shape.rows, 0..d.shape.cols)];
            return Err(LargeError::Incomplete(Box::new(Incomplete { finished: Vec::new(), left, failures })));
        };
        let (constants, depth) = self.check(device, a, b, c, d.as_ref(), arguments)?;
        let epilogue = &self.sums.problem.epilogue;
        let values: Vec<f64> = epilogue.scalars.iter().map(|name| value(&constants, name)).collect();
        let addend = if epilogue.reads_c(&values) { Addend::Read } else { Addend::Absent };
        let host = Host { a, b, c: c.filter(|_| addend == Addend::Read), d, origin: [0, 0] };
        Ok(Prepared { using, failures, host, constants, addend, depth })
    }

    /// Plans and performs the whole product, and again for the work that a failed device has left. Starts with the
    /// devices in use, by their index, and those that have failed before.
    fn compute(
        &self,
        (mut using, mut failures): (Vec<(usize, Device)>, Vec<Failure>),
        host: &mut Host<'_>,
        constants: &Constants<'_>,
        addend: Addend,
        k: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LargeRun, LargeError> {
        let (m, n) = (host.d.shape.rows, host.d.shape.cols);
        let elements = m as u64 * n as u64;
        let vector_bytes = constants.vectors.iter().map(|vector| vector.bytes.len() as u64).sum();
        let mut left = vec![Region::new(0..m, 0..n)];
        let mut finished: Vec<Region> = Vec::new();
        let (mut first, mut time, mut large) = (None, Duration::ZERO, self.clone());
        while let Some(region) = left.pop() {
            let present: Vec<Device> = using.iter().map(|(_, device)| device.clone()).collect();
            let request = large.request(&present, [region.rows, region.cols, k], addend, vector_bytes);
            let plan = match request.and_then(|request| large.plan_of(request, present.first())) {
                Ok(plan) => plan,
                Err(error) if failures.is_empty() => return Err(error),
                // The finished part is worth more than the reason why the others cannot continue.
                Err(_) => {
                    left.push(region);
                    return Err(LargeError::Incomplete(Box::new(Incomplete { finished, left, failures })));
                }
            };
            // The same slabs, so that parts computed by other devices have the same bits.
            large.tuning.depth = Some(plan.geometry.depth.max(1));
            host.origin = [region.row, region.col];
            let before: u64 = finished.iter().map(Region::elements).sum();
            // With K = 0, each element still counts once.
            let depth = k.max(1) as u128;
            let (mut done, mut products) = (before, u128::from(before) * depth);
            let mut report = |ended: &Action| {
                match ended {
                    Action::Multiply(product) => {
                        products += u128::from(product.d.region.elements()) * product.a.region.cols.max(1) as u128;
                    }
                    Action::Download { host, .. } => done += host.elements(),
                    _ => {}
                }
                let multiplied = products as f64 / (u128::from(elements) * depth) as f64;
                progress(Progress { finished: done, elements, multiplied });
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
            None => Err(PlanError::NoDevice.into()),
        }
    }

    fn perform(
        &self,
        plan: &Plan,
        devices: &[Device],
        host: &mut Host<'_>,
        constants: &Constants<'_>,
        report: &mut dyn FnMut(&Action),
    ) -> (Performed, Duration) {
        let sites = match self.sites(plan, devices, constants, host.origin) {
            Ok(sites) => sites,
            Err(failures) => return (Performed { finished: Vec::new(), failures }, Duration::ZERO),
        };
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

    /// The sites of a plan, or every device that does not meet the requirements.
    pub(super) fn sites(
        &self,
        plan: &Plan,
        devices: &[Device],
        constants: &Constants<'_>,
        origin: [usize; 2],
    ) -> Result<Vec<Option<Site>>, Vec<Failure>> {
        let (mut sites, mut failures) = (Vec::new(), Vec::new());
        for (device, at) in devices.iter().enumerate() {
            match Site::new(at, plan.needs(), &self.sums, constants, origin) {
                Ok(site) => sites.push(Some(site)),
                Err(error) => failures.push(Failure { device, operation: None, error }),
            }
        }
        if failures.is_empty() { Ok(sites) } else { Err(failures) }
    }

    /// Every check that the matrices allow, before anything is reserved. Returns the constants of the launches, and how
    /// much of K has to be summed.
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
        let whole = self.sums.schedule(Part::Whole).map(|schedule| CompiledGemm::new(schedule, device)).transpose()?;
        let Some(whole) = whole else { return Ok((Constants::default(), 0)) };
        let placement = |matrix: AnyRef<'_>| Placement { shape: matrix.shape, stack: Stack::ONE };
        let operands = [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))];
        for (operand, matrix) in operands.into_iter().filter_map(|(operand, matrix)| Some((operand, matrix?))) {
            let empty = Placement { shape: Shape::packed(0, 0, Layout::Row), stack: Stack::ONE };
            checks::slice(problem, operand, matrix.dtype, empty, 0)?;
        }
        let extents = checks::extents(whole.interface(), placement(a), placement(b), c.map(placement), placement(d))?;
        for (operand, matrix) in operands.into_iter().filter_map(|(operand, matrix)| Some((operand, matrix?))) {
            checks::slice(problem, operand, matrix.dtype, placement(matrix), matrix.elements())?;
        }
        let (constants, dropped) = arguments.resolve(problem, extents)?;
        let scalars: Vec<f64> = constants.scalars.iter().map(|(_, value)| *value).collect();
        checks::check_c(problem, c.is_some(), &scalars)?;
        Ok((constants, if dropped { 0 } else { a.shape.cols }))
    }
}

fn value(constants: &Constants<'_>, name: &str) -> f64 {
    constants.scalars.iter().find(|(known, _)| known == name).map_or(f64::NAN, |(_, value)| *value)
}

/// The executor for GPUs. Other devices, and mixtures, run one operation after another. An error has the index of its
/// device.
pub(super) fn executor<'e, 'h>(
    sites: &'e [Option<Site>],
    host: &'e mut Host<'h>,
) -> Result<Box<dyn Executor + 'e>, (usize, Error)> {
    #[cfg(feature = "cuda")]
    if sites.iter().flatten().all(|site| matches!(site.device.kind(), crate::device::DeviceKind::Cuda(_))) {
        return Ok(Box::new(crate::cuda::Gpus::new(sites, host)?));
    }
    Ok(Box::new(Sequential::new(sites, host)))
}

/// The same regions, with adjacent ones joined.
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
