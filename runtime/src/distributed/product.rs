//! One process's part of a product across processes.

use std::fmt;
use std::time::Instant;

use ptx_gemm_dsl::sums::Sums;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{Layout, Schedule};

use super::error::DistributedError;
use super::exchange::{self, Links};
use super::plan::{self, Plan, Request};
use super::share::Share;
use super::tiles::Tiles;
use super::world::World;
use crate::checks::Extents;
use crate::compiled::CompiledGemm;
use crate::device::{Device, DeviceKind};
use crate::kernel::Kernel;
use crate::large::host::Part as HostPart;
use crate::large::plan::{Division, Needs};
use crate::large::site::{Constants, Site};
use crate::large::{Arguments, Buffer, Place, PlanError, Region};

/// Blocks of a persistent grid in plans without a device: one for each multiprocessor of an H200.
const BLOCKS: u32 = 132;

/// A schedule for one product of all processes of a [`World`], each with its own device.
///
/// ```
/// use std::time::Duration;
/// use ptx_gemm_runtime::{Device, Matrix};
/// use ptx_gemm_runtime::distributed::{Distributed, Tiles, World};
/// use ptx_gemm_runtime::large::Arguments;
///
/// let schedule = "tile(16, 16, 8); thread(2, 2);".parse().unwrap();
/// // Processes as threads; `World::from_env()` is one process of a launcher.
/// let work = |world: World| {
///     let mut product = Distributed::new(&schedule, &world, &Device::interpreter())?;
///     let mut a = Tiles::function(|tile, a: &mut Matrix<f32>| a.as_mut_slice().fill(tile.row as f32));
///     let mut b = Tiles::function(|_, b: &mut Matrix<f32>| b.as_mut_slice().fill(2.0));
///     product.run([60, 50, 70], &mut a, &mut b, &Arguments::new())?.download::<f32>()
/// };
/// std::thread::scope(|scope| {
///     let worlds = World::in_process(2, Duration::from_secs(10));
///     let ranks: Vec<_> = worlds.into_iter().map(|world| scope.spawn(|| work(world))).collect();
///     let parts: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect();
///     assert_eq!(parts.iter().map(|d| d.rows()).sum::<usize>(), 60);
/// });
/// ```
pub struct Distributed<'w> {
    world: &'w World,
    device: Device,
    sums: Sums,
    tile: [usize; 3],
    grid: Option<[usize; 2]>,
    depth: Option<usize>,
    links: Option<([usize; 2], Links)>,
}

impl<'w> Distributed<'w> {
    /// A schedule on this process's device. On GPUs, NCCL does the exchange, which needs the feature `nccl`.
    ///
    /// # Errors
    /// A schedule that is not legal, or has `batch(strided)`.
    pub fn new(schedule: &Schedule, world: &'w World, device: &Device) -> Result<Distributed<'w>, DistributedError> {
        let (sums, tile) = world.guarded(|_| accepted(schedule))?;
        Ok(Distributed { world, device: device.clone(), sums, tile, grid: None, depth: None, links: None })
    }

    /// Sets the processes along m and n. The default is the most square grid.
    pub fn grid(self, rows: usize, cols: usize) -> Distributed<'w> {
        Distributed { grid: Some([rows, cols]), ..self }
    }

    /// Sets the depth of a panel of K. Equal depths give equal bits, whatever the grid.
    pub fn depth(self, depth: usize) -> Distributed<'w> {
        Distributed { depth: Some(depth), ..self }
    }

    /// The plan of a product. Nothing is reserved and nothing runs.
    pub fn plan(&self, m: usize, n: usize, k: usize) -> Result<Plan, DistributedError> {
        let size = self.world.size();
        let [rows, cols] = self.grid.unwrap_or_else(|| plan::grid(size, m, n));
        if rows.checked_mul(cols) != Some(size) {
            return Err(DistributedError::Grid { rows, cols, size });
        }
        let request = request(&self.sums, self.tile, [m, n, k], [rows, cols], self.depth);
        let gemms = self.sums.schedules().iter().map(|schedule| CompiledGemm::new(schedule, &self.device));
        let spare = exchange::multiprocessors(&self.device, [rows, cols]);
        let gemms: Vec<CompiledGemm> = gemms.map(|gemm| gemm?.leaving(spare)).collect::<Result<_, _>>()?;
        let workspace = |m, n, k| gemms.iter().map(|gemm| gemm.workspace_bytes(m, n, k, 1)).max().unwrap_or(0);
        Ok(Plan::new(request, &workspace)?)
    }

    /// D = epilogue(A B) for m, n and k. All processes call it together, and each keeps its part of D. It returns when
    /// every process has its part, or when one has failed.
    ///
    /// `arguments` has the scalars and the whole vectors of the epilogue. C is not among the operands: a scalar of 0
    /// drops it from an epilogue.
    pub fn run(
        &mut self,
        [m, n, k]: [usize; 3],
        a: &mut Tiles<'_>,
        b: &mut Tiles<'_>,
        arguments: &Arguments<'_>,
    ) -> Result<Share, DistributedError> {
        let world = self.world;
        world.guarded(|_| self.compute([m, n, k], a, b, arguments))
    }

    fn compute(
        &mut self,
        [m, n, k]: [usize; 3],
        a: &mut Tiles<'_>,
        b: &mut Tiles<'_>,
        arguments: &Arguments<'_>,
    ) -> Result<Share, DistributedError> {
        let (world, begun) = (self.world, Instant::now());
        let product = world.next_product();
        let (constants, depth) = self.check([m, n, k], arguments)?;
        let layouts = self.sums.problem.layouts;
        for (operand, tiles, extents, layout) in
            [(Operand::A, &*a, [m, k], layouts.a), (Operand::B, &*b, [k, n], layouts.b)]
        {
            tiles.check(operand, (self.sums.problem.types.of(operand), extents, layout))?;
        }
        let plan = self.plan(m, n, depth)?;
        let rank = world.rank();
        // A GPU and an interpreter cannot exchange anything.
        let kind = match self.device.kind() {
            DeviceKind::Cuda(_) => "GPUs",
            DeviceKind::Interpreter => "interpreters",
        };
        world.agree(&format!("{product}.plan"), &format!("{:?}, depth {}, on {kind}", plan.request, plan.depth))?;
        let (buffers, operations) = (plan.buffers(rank), plan.operations(rank));
        let spare = exchange::multiprocessors(&self.device, plan.request.grid);
        let workspace_bytes = plan.workspace_bytes;
        let needs = Needs { operations: &operations, buffers: &buffers, workspace_bytes, spare };
        let mut site = Site::new(&self.device, needs, &self.sums, &constants, [0, 0])?;
        load(&site, &plan, rank, Operand::A, layouts.a, a)?;
        load(&site, &plan, rank, Operand::B, layouts.b, b)?;
        if self.links.as_ref().is_none_or(|(grid, _)| *grid != plan.request.grid) {
            let links = Links::open(world, &self.device, &plan, product)?;
            self.links = Some((plan.request.grid, links));
        }
        let Some((_, links)) = &mut self.links else { return Err(PlanError::NoDevice.into()) };
        // From here on, no process has anything else to do, so a missing response is a failure.
        world.agree(&format!("{product}.begin"), "")?;
        let loading = begun.elapsed();
        let begun = Instant::now();
        let done = exchange::perform(world, links, &site, &plan, &operations, product);
        if done.is_err() {
            // Broken connections are not used again.
            self.links = None;
        }
        done?;
        let time = begun.elapsed();
        world.agree(&format!("{product}.end"), "")?;
        let part = plan.part(rank);
        let result = if plan.homes().result == Buffer::Sum { Buffer::Sum } else { Buffer::Result };
        let place = Place { buffer: result, region: Region { row: 0, col: 0, ..part } };
        let matrix = site.matrix(place);
        let memory = site.take(result);
        Ok(Share::new(self.device.clone(), part, matrix, memory, plan, loading, time))
    }

    /// Checks scalars and vectors. Returns the constants of the launches, and how much of K has to be summed.
    fn check<'h>(
        &self,
        [m, n, k]: [usize; 3],
        arguments: &Arguments<'h>,
    ) -> Result<(Constants<'h>, usize), DistributedError> {
        if arguments.has_c() {
            return Err(DistributedError::ReadsC);
        }
        let number = |name, got| {
            let limit = ptx_gemm_codegen::kernel::MAX_EXTENT;
            u32::try_from(got).ok().filter(|got| *got <= limit).ok_or(PlanError::Extent {
                name,
                got,
                limit: limit as usize,
            })
        };
        let extents = Extents { m: number("M", m)?, n: number("N", n)?, k: number("K", k)?, batch: 1 };
        let (constants, dropped) = arguments.resolve(&self.sums.problem, extents)?;
        let scalars: Vec<f64> = constants.scalars.iter().map(|(_, value)| *value).collect();
        if self.sums.problem.epilogue.reads_c(&scalars) {
            return Err(DistributedError::ReadsC);
        }
        Ok((constants, if dropped { 0 } else { k }))
    }
}

/// Checks that processes can share a product of this schedule. Returns its schedules for slabs, and its tile.
fn accepted(schedule: &Schedule) -> Result<(Sums, [usize; 3]), DistributedError> {
    let sums = Sums::of(schedule)?;
    if sums.is_batched() {
        return Err(DistributedError::Batched);
    }
    let block = schedule.plan_on(None)?.block;
    Ok((sums, [block.m, block.n, block.k].map(|extent| extent as usize)))
}

fn request(sums: &Sums, tile: [usize; 3], [m, n, k]: [usize; 3], grid: [usize; 2], depth: Option<usize>) -> Request {
    let (types, layouts) = (sums.problem.types, sums.problem.layouts);
    let division = if sums.are_divisible() { Division::Slabs } else { Division::Whole };
    Request { m, n, k, types, layouts, division, tile, grid, depth }
}

/// The plan of a schedule on a grid of processes that need not exist.
pub fn plan_for(
    schedule: &Schedule,
    grid: [usize; 2],
    depth: Option<usize>,
    [m, n, k]: [usize; 3],
) -> Result<Plan, DistributedError> {
    let (sums, tile) = accepted(schedule)?;
    let kernels = sums.schedules().iter().map(|schedule| Kernel::compile_for(schedule, None));
    let kernels: Vec<_> = kernels.collect::<Result<_, _>>()?;
    let workspace = |m, n, k| kernels.iter().map(|kernel| kernel.workspace_on(m, n, k, BLOCKS)).max().unwrap_or(0);
    Ok(Plan::new(request(&sums, tile, [m, n, k], grid, depth), &workspace)?)
}

/// Copies a process's own panels of A or B to its device.
pub(super) fn load(
    site: &Site,
    plan: &Plan,
    rank: usize,
    operand: Operand,
    layout: Layout,
    tiles: &mut Tiles<'_>,
) -> Result<(), DistributedError> {
    for (buffer, part) in plan.own(rank, operand) {
        let place = Place { buffer, region: Region { row: 0, col: 0, ..part } };
        tiles.give(part, layout, &mut |matrix, region| site.write(place, &HostPart { matrix, region }))?;
    }
    Ok(())
}

impl fmt::Debug for Distributed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Distributed({:?}, {:?})", self.world, self.device)
    }
}
