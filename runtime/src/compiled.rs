//! A kernel on a device, ready to multiply.

use std::sync::Arc;
use std::time::Duration;

use ptx_gemm_codegen::tile::interface::{Entry, WORKSPACE, WORKSPACE_ALIGN};
use ptx_gemm_codegen::tile::record::RECORD_ALIGN;
use ptx_gemm_codegen::{Interface, tile};
use ptx_gemm_dsl::terms::Wave;
use ptx_gemm_dsl::types::Batch;
use ptx_gemm_dsl::{Problem, Schedule, Target};

use crate::arguments::{Arguments, DeviceMatrix, DeviceVector};
use crate::backend::{Buffer, Counts, Execution, Lifetime, Limits, Module, Step};
use crate::checks;
use crate::contracts::{self, Contract, Made, Ran};
use crate::device::Device;
use crate::error::{DeviceError, Error};
use crate::kernel::Kernel;
use crate::launch::{Checked, Launch};
use crate::shape::Placement;
use crate::strassen::plan::Piece;
use crate::view::AnyRef;
use crate::work::{self, Work};

/// A schedule, or a tile program, compiled and loaded on a device. It is cheap to clone, and can be shared freely
/// between threads.
#[derive(Clone, Debug)]
pub struct CompiledGemm {
    kernel: Arc<Kernel>,
    module: Arc<dyn Module>,
    device: Device,
    /// Blocks of each entry's last kernel that the device holds at once, for entries with a grid that depends on it.
    resident: Arc<[u32]>,
    /// The product that contracts are about, or why there is none.
    ran: Arc<Result<Ran, String>>,
    /// Descriptions of the contracts that cannot be checked here.
    unchecked: Arc<[String]>,
    /// The other kernels of `strassen`.
    pieces: Arc<[(Piece, CompiledGemm)]>,
}

/// The cost of a product.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The entry that ran; `None` if there was nothing to compute (M or N is 0).
    pub entry: Option<String>,
    /// Blocks of the grid, of the kernel that writes D.
    pub blocks: u32,
    /// Launches that multiply: one, or with `strassen` several. `entry` and `blocks` are those of the last one.
    pub products: usize,
    /// All launches, those that add quadrants included.
    pub launches: usize,
    /// Bytes of device memory that the launches use in addition to the matrices.
    pub workspace_bytes: u64,
    /// Time of the kernels, without copies.
    pub time: Duration,
    /// The interpreter's counts; `None` on a GPU.
    pub counts: Option<Counts>,
    /// Notes, such as why the aligned entry did not run.
    pub notes: Vec<String>,
}

/// A product on matrices that are already in device memory.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCall<'a> {
    /// A, M x K.
    pub a: DeviceMatrix,
    /// B, K x N.
    pub b: DeviceMatrix,
    /// C, M x N: either identical to `d`, or disjoint from it.
    pub c: Option<DeviceMatrix>,
    /// D, M x N.
    pub d: DeviceMatrix,
    /// The epilogue's vectors by name, with elements of the accumulator's type.
    pub vectors: &'a [(&'a str, DeviceVector)],
    /// The epilogue's scalars by name.
    pub scalars: &'a [(&'a str, f64)],
}

impl CompiledGemm {
    /// Compiles `schedule` for `device` and loads it there; for the target that the schedule names, if it names one.
    pub fn new(schedule: &Schedule, device: &Device) -> Result<CompiledGemm, Error> {
        CompiledGemm::load(Kernel::compile_for(schedule, device.limits().target)?, Some(schedule), device)
    }

    /// The same, for an explicit target.
    pub fn for_target(schedule: &Schedule, target: Target, device: &Device) -> Result<CompiledGemm, Error> {
        CompiledGemm::load(Kernel::unheld(schedule, Some(target))?, Some(schedule), device)
    }

    /// The text of a `.tile` file, compiled for the target that it names and loaded.
    pub fn from_tile(text: &str, device: &Device) -> Result<CompiledGemm, Error> {
        CompiledGemm::from_kernel(Kernel::compile_text(text)?, device)
    }

    /// Loads a kernel on a device.
    pub fn from_kernel(kernel: Arc<Kernel>, device: &Device) -> Result<CompiledGemm, Error> {
        CompiledGemm::load(kernel, None, device)
    }

    /// Loads a kernel, and checks it against the contracts of the schedule that it comes from. Errors point into
    /// `schedule`.
    fn load(kernel: Arc<Kernel>, schedule: Option<&Schedule>, device: &Device) -> Result<CompiledGemm, Error> {
        let gemm = CompiledGemm::loaded(kernel, device)?;
        let contracts = gemm.contracts();
        contracts::hold(&contracts, schedule)?;
        let unchecked = contracts.iter().filter(|contract| matches!(contract, Contract::Unchecked { .. }));
        Ok(CompiledGemm { unchecked: unchecked.map(ToString::to_string).collect(), ..gemm })
    }

    /// Loads a kernel, and multiplies with it if a contract is about products.
    fn loaded(kernel: Arc<Kernel>, device: &Device) -> Result<CompiledGemm, Error> {
        fits(kernel.interface(), device.limits(), device.name())?;
        let module = device.module(&kernel)?;
        let resident = resident(&kernel, &*module, device, 0)?;
        let ran = Arc::new(Err("nothing was multiplied".into()));
        let load = |(piece, kernel): &(Piece, Arc<Kernel>)| Ok((*piece, CompiledGemm::loaded(kernel.clone(), device)?));
        let pieces = kernel.pieces().iter().map(load).collect::<Result<_, Error>>()?;
        let unchecked = Arc::default();
        let gemm = CompiledGemm { kernel, module, device: device.clone(), resident, ran, unchecked, pieces };
        let asked = gemm.kernel.plan().is_some_and(|plan| plan.unrun().next().is_some());
        Ok(if asked { CompiledGemm { ran: Arc::new(gemm.multiplied()?), ..gemm } } else { gemm })
    }

    /// The error of a product on this device, without the epilogue.
    fn multiplied(&self) -> Result<Result<Ran, String>, Error> {
        let kernel = match self.kernel.without_epilogue() {
            Ok(kernel) => kernel,
            Err(why) => return Ok(Err(why)),
        };
        let plain =
            if Arc::ptr_eq(&kernel, &self.kernel) { self.clone() } else { CompiledGemm::loaded(kernel, &self.device)? };
        let accuracy =
            contracts::measure(plain.interface(), &|a, b, mut d| plain.multiply_into(&a, &b, &mut d).map(drop))?;
        let by = self.device.name().to_string();
        Ok(accuracy.map(|accuracy| Ran { by, accuracy }).ok_or("the host does not compute with these types".into()))
    }

    /// The results of the contracts of `expect`: registers, spills and the size of the code are those of the machine
    /// code that the device runs; the interpreter runs none, and uses ptxas. Errors of products are those of this device.
    pub fn contracts(&self) -> Vec<Contract> {
        let made = || match self.module.machine_code() {
            Ok(Some(entries)) => Ok(Made { by: format!("the driver of {}", self.device.name()), entries }),
            Ok(None) => self.kernel.assembled(),
            Err(error) => Err(error.to_string()),
        };
        self.kernel.contracts_with(made, &self.ran)
    }

    /// How it is launched: its entries, and what each requires of its operands.
    pub fn interface(&self) -> &Interface {
        self.kernel.interface()
    }

    /// What it computes.
    pub fn problem(&self) -> &Problem {
        self.kernel.problem()
    }

    /// The tile programs that it was lowered from, one for each entry.
    pub fn programs(&self) -> &tile::Module {
        self.kernel.programs()
    }

    /// The kernel: where it comes from, and its PTX as text and as data.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The PTX text.
    pub fn ptx(&self) -> &str {
        self.kernel.ptx()
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of the workspace that a product of these extents needs, whichever entry runs and whatever it packs; 0 for
    /// a schedule that neither divides K among blocks nor packs, and has no `strassen`.
    pub fn workspace_bytes(&self, m: usize, n: usize, k: usize, batch: usize) -> u64 {
        let [m, n, k, batch] = [m, n, k, batch].map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
        self.largest_workspace(checks::Extents { m, n, k, batch })
    }

    /// Blocks of an entry's last kernel that the device holds at once.
    pub(crate) fn resident(&self, entry: usize) -> u32 {
        self.resident[entry]
    }

    pub(crate) fn pieces(&self) -> &[(Piece, CompiledGemm)] {
        &self.pieces
    }

    pub(crate) fn shared_kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    pub(crate) fn module(&self) -> &Arc<dyn Module> {
        &self.module
    }

    /// The same kernel with a persistent grid that leaves this many multiprocessors to other kernels that run at the
    /// same time, such as those of a collective. While they hold a multiprocessor, a block of a whole wave has to wait
    /// for them, and the product for that block. Schedules without a wave, and those that state its size, stay as they
    /// are.
    ///
    /// ```
    /// use ptx_gemm_runtime::{CompiledGemm, Device, INTERPRETER_WAVE, Matrix};
    ///
    /// let schedule = "tile(16, 16, 8); thread(2, 2); persistent;".parse().unwrap();
    /// let gemm = CompiledGemm::new(&schedule, &Device::interpreter()).unwrap();
    /// let (a, b, mut d) = (Matrix::<f32>::zeros(64, 8), Matrix::<f32>::zeros(8, 64), Matrix::<f32>::zeros(64, 64));
    /// assert_eq!(gemm.multiply_into(&a, &b, &mut d).unwrap().blocks, INTERPRETER_WAVE);
    /// assert_eq!(gemm.leaving(2).unwrap().multiply_into(&a, &b, &mut d).unwrap().blocks, INTERPRETER_WAVE - 2);
    /// ```
    pub fn leaving(&self, multiprocessors: u32) -> Result<CompiledGemm, Error> {
        let resident = resident(&self.kernel, &*self.module, &self.device, multiprocessors)?;
        let leaving = |(piece, gemm): &(Piece, CompiledGemm)| Ok((*piece, gemm.leaving(multiprocessors)?));
        let pieces = self.pieces.iter().map(leaving).collect::<Result<_, Error>>()?;
        Ok(CompiledGemm { resident, pieces, ..self.clone() })
    }

    /// The same kernel on another device.
    pub fn on(&self, device: &Device) -> Result<CompiledGemm, Error> {
        CompiledGemm::from_kernel(self.kernel.clone(), device)
    }

    /// The same kernel on the interpreter: the same PTX, with every step checked, and the same number of blocks, among
    /// which `stream_k` divides the sums.
    pub fn in_interpreter(&self) -> Result<CompiledGemm, Error> {
        let there = CompiledGemm::from_kernel(self.kernel.clone(), &Device::interpreter())?;
        let with = |(piece, there): &(Piece, CompiledGemm), here: &CompiledGemm| {
            (*piece, CompiledGemm { resident: here.resident.clone(), ..there.clone() })
        };
        let pieces = there.pieces.iter().zip(self.pieces.iter()).map(|(there, (_, here))| with(there, here)).collect();
        Ok(CompiledGemm { resident: self.resident.clone(), pieces, ..there })
    }

    /// Runs on matrices that are already in device memory, and waits for completion.
    ///
    /// Every mistake in shapes, pointers and names is an error before the launch.
    ///
    /// # Safety
    ///
    /// The pointers must be valid on this device for the shapes given, and nothing else may write the inputs or touch D
    /// until the call returns. The interpreter checks this; a GPU does not.
    #[allow(unsafe_code)] // This is a declaration: the obligation is the caller's.
    pub unsafe fn launch(&self, call: &DeviceCall<'_>) -> Result<Run, Error> {
        let (extents, arguments) = self.resolve(call)?;
        self.execute(extents, arguments)
    }

    /// Extents and arguments of a product on device memory, if shapes and names fit the schedule.
    pub(crate) fn resolve(&self, call: &DeviceCall<'_>) -> Result<(checks::Extents, Arguments), Error> {
        let epilogue = &self.problem().epilogue;
        let acc = self.problem().types.epilogue();
        let placement = |matrix: DeviceMatrix| Placement { shape: matrix.shape, stack: matrix.stack };
        let extents = checks::extents(
            self.interface(),
            placement(call.a),
            placement(call.b),
            call.c.map(placement),
            placement(call.d),
        )?;
        let scalars = checks::resolve_scalars(epilogue, acc, call.scalars)?;
        checks::check_c(self.problem(), call.c.is_some(), &scalars)?;
        let vectors: Vec<_> = call
            .vectors
            .iter()
            .map(|(name, vector)| checks::GivenVector { name, dtype: acc, len: vector.len })
            .collect();
        let order = checks::resolve_vectors(epilogue, acc, extents, &vectors)?;
        let vectors = order.into_iter().map(|index| call.vectors[index].1).collect();
        Ok((extents, Arguments { a: call.a, b: call.b, c: call.c, d: call.d, vectors, scalars }))
    }

    /// Checks and launches a product on device memory.
    pub(crate) fn execute(&self, extents: checks::Extents, arguments: Arguments) -> Result<Run, Error> {
        self.run(self.ready(extents, arguments, Lifetime::Call)?)
    }

    /// Runs the launches of a product to completion.
    pub(crate) fn run(&self, ready: Option<Ready>) -> Result<Run, Error> {
        let Some(Ready { steps, workspace }) = ready else {
            return Ok(Run::nothing());
        };
        if let Some(Workspace { buffer, flag_bytes, .. }) = &workspace
            && *flag_bytes > 0
        {
            self.device.backend().zero(buffer.address, *flag_bytes)?;
        }
        let Execution { time, counts } = self.device.backend().launch(&steps)?;
        let main = work::main(&steps);
        let entry = main.map(|step| step.kernel.interface().entries[step.launch.entry].name.clone());
        let blocks = main.map_or(0, |step| step.launch.blocks());
        let mut notes = work::notes(&steps);
        notes.extend(self.unchecked.iter().cloned());
        let products = steps.iter().filter(|step| step.kernel.multiplies()).count();
        let workspace_bytes = workspace.as_ref().map_or(0, |workspace| workspace.bytes);
        Ok(Run { entry, blocks, products, launches: steps.len(), workspace_bytes, time, counts, notes })
    }

    /// Checks a product and reserves what it needs; `None` if there is nothing to compute.
    pub(crate) fn ready(
        &self,
        extents: checks::Extents,
        arguments: Arguments,
        lifetime: Lifetime,
    ) -> Result<Option<Ready>, Error> {
        // This comes before the workspace, which would have a meaningless size for a nonsensical grid.
        self.reserve(self.work(extents, &arguments)?, lifetime)
    }

    /// The same for the products of a group.
    pub(crate) fn ready_group(
        &self,
        products: &[(checks::Extents, Arguments)],
        lifetime: Lifetime,
    ) -> Result<Option<Ready>, Error> {
        let launch = self.launch_of_group(products)?;
        let batch = u32::try_from(products.len()).unwrap_or(u32::MAX);
        self.reserve(launch.map(|launch| self.one(launch, checks::Extents { m: 0, n: 0, k: 0, batch })), lifetime)
    }

    /// Reserves the workspace of launches, and writes the list of products to it if there is one.
    fn reserve(&self, work: Option<Work>, lifetime: Lifetime) -> Result<Option<Ready>, Error> {
        let Some(work) = work else { return Ok(None) };
        let workspace = self.workspace(&work, lifetime)?;
        let address = workspace.as_ref().map_or(0, |workspace| workspace.buffer.address);
        let steps = self.steps(work, address)?;
        if let Some((at, list)) = work::list(&steps) {
            self.device.backend().upload(address + at, AnyRef::of_bytes(list))?;
        }
        Ok(Some(Ready { steps, workspace }))
    }

    /// The launch with its workspace at this address.
    pub(crate) fn placed(&self, extents: checks::Extents, workspace: u64, checked: Checked) -> Result<Launch, Error> {
        let encode = |args: &_| self.device.backend().encode(args);
        checks::placed(self.interface(), extents, workspace, checked, encode)
    }

    /// A launch that has passed every check; `None` if there is nothing to compute.
    pub(crate) fn launch_of(&self, extents: checks::Extents, arguments: &Arguments) -> Result<Option<Checked>, Error> {
        if self.problem().batch == Batch::Grouped {
            // A list of one.
            return self.launch_of_group(&[(extents, arguments.clone())]);
        }
        let Some(mut checked) = checks::launch(self.interface(), extents, arguments)? else {
            return Ok(None);
        };
        let launch = &mut checked.launch;
        let main = self.interface().entries[launch.entry].main().zip(launch.kernels.last_mut());
        if let Some((kernel, start)) = main
            && kernel.grid.wave.is_some()
        {
            let blocks = kernel.grid.blocks(extents.into(), self.resident[launch.entry]);
            start.grid = u32::try_from(blocks).unwrap_or(start.grid);
        }
        Ok(Some(checked))
    }

    /// The same for the products of a group.
    pub(crate) fn launch_of_group(&self, products: &[(checks::Extents, Arguments)]) -> Result<Option<Checked>, Error> {
        let Some(Checked { launch, list_maps }) = checks::group(self.interface(), products)? else { return Ok(None) };
        let mut launch = self.in_one_wave(launch);
        let extents = checks::Extents { m: 0, n: 0, k: 0, batch: u32::try_from(products.len()).unwrap_or(u32::MAX) };
        launch.list_at = launch.list_offset(&self.interface().entries[launch.entry], extents);
        Ok(Some(Checked { launch, list_maps }))
    }

    /// A launch with no more blocks than a wave has.
    pub(crate) fn in_one_wave<A>(&self, mut launch: Launch<A>) -> Launch<A> {
        let main = self.interface().entries[launch.entry].main().zip(launch.kernels.last_mut());
        if let Some((kernel, start)) = main {
            let most = kernel.grid.most(self.resident[launch.entry]);
            start.grid = u32::try_from(most).unwrap_or(u32::MAX).min(start.grid);
        }
        launch
    }

    /// The workspace of launches; `None` if they need none.
    fn workspace(&self, work: &Work, lifetime: Lifetime) -> Result<Option<Workspace>, Error> {
        if work.bytes == 0 {
            return Ok(None);
        }
        let (what, align) = match self.problem().batch {
            Batch::Grouped if work.flag_bytes == 0 => ("the list of products", RECORD_ALIGN),
            Batch::Grouped => ("partial sums and the list of products", WORKSPACE_ALIGN),
            Batch::One | Batch::Strided => (WORKSPACE, WORKSPACE_ALIGN),
        };
        let chunks = work.bytes.div_ceil(align.into());
        let buffer = Buffer::new(self.device.backend(), what, chunks, align, lifetime)?;
        Ok(Some(Workspace { buffer, bytes: work.bytes, flag_bytes: work.flag_bytes }))
    }
}

/// Launches that have passed every check, with the memory that they need in addition to their operands.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) steps: Vec<Step>,
    pub(crate) workspace: Option<Workspace>,
}

/// Memory of a reduction (flags followed by partial sums) or of a list of products, and then of packed operands.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) buffer: Buffer,
    pub(crate) bytes: u64,
    pub(crate) flag_bytes: u64,
}

impl Run {
    pub(crate) fn nothing() -> Run {
        Run {
            entry: None,
            blocks: 0,
            products: 0,
            launches: 0,
            workspace_bytes: 0,
            time: Duration::ZERO,
            counts: None,
            notes: Vec::new(),
        }
    }
}

/// Blocks of each entry's last kernel that a device holds at once on all but `spare` multiprocessors, for entries with
/// a grid that depends on it.
fn resident(kernel: &Kernel, module: &dyn Module, device: &Device, spare: u32) -> Result<Arc<[u32]>, Error> {
    let multiprocessors = device.limits().multiprocessors;
    let held = |(index, entry): (usize, &Entry)| {
        let grid = entry.main().map(|main| main.grid);
        match grid.and_then(|grid| grid.wave).zip(grid) {
            Some((Wave::Device, grid)) => {
                let main = entry.launches.len() - 1;
                let each = module.blocks_per_multiprocessor(index, main)?;
                let cluster = grid.cluster_blocks();
                let held = match module.resident_clusters(index, main)? {
                    Some(clusters) => clusters * cluster,
                    None => multiprocessors * each,
                };
                // A cluster does not run if one of its multiprocessors is missing.
                let spare = spare.saturating_mul(cluster).saturating_mul(each);
                Ok(held.saturating_sub(spare).max(each))
            }
            _ => Ok(0),
        }
    };
    kernel.interface().entries.iter().enumerate().map(held).collect()
}

/// Checks everything that does not depend on the arguments, for every entry, since a module is loaded as a whole.
fn fits(interface: &Interface, limits: &Limits, device: &str) -> Result<(), DeviceError> {
    if let Some(capability) = limits.target {
        runs_on(interface.target, capability, device)?;
    }
    let limit = |what, needed: u32, limit: u32| match needed > limit {
        true => Err(DeviceError::Limit { what, needed: needed.into(), limit: limit.into(), device: device.into() }),
        false => Ok(()),
    };
    limit("threads", interface.threads(), limits.threads)?;
    limit("bytes of shared memory", interface.shared_bytes(), limits.shared_bytes)
}

/// PTX for `sm_80` runs on every later device; PTX for `sm_90a` runs on exactly that one.
fn runs_on(target: Target, device: Target, name: &str) -> Result<(), DeviceError> {
    if target.runs_on(device.capability) {
        return Ok(());
    }
    let help = if target.specific {
        format!("`{target}` instructions run on that capability alone")
    } else {
        format!("target({device}) or a lower one runs there")
    };
    Err(DeviceError::Target { target, device: name.into(), capability: device, help })
}
