//! A launch as specified by the host, and the checks before its first instruction.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

use crate::cost::Region;
use crate::decode::Symbols;
use crate::env::Env;
use crate::global::shadow::Detail;
use crate::global::{GlobalTable, Mapped};
use crate::grid::Grid;
use crate::memory::Memory;
use crate::op::{Access, Bulk, Constant};
use crate::options::{BlockOrder, Checks, Counting, Options, Watch};
use crate::program::{Entry, Program};
use crate::report::Report;
use crate::shadow::Actor;
use crate::tensor::TensorMap;
use crate::violation::{Site, Violation, ViolationKind, triple};

/// A kernel argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// `.param .u32` or `.b32`.
    U32(u32),
    /// `.param .u64` or `.b64`; also a device pointer.
    U64(u64),
    /// `.param .f32`.
    F32(f32),
    /// `.param .f64`.
    F64(f64),
    /// `.param .s32`.
    I32(i32),
    /// `.param .s64`.
    I64(i64),
    /// Any other parameter, as bytes.
    Bytes(Vec<u8>),
    /// `.param .align 64 .b8 map[128]`.
    TensorMap(Box<TensorMap>),
}

impl Arg {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Arg::U32(value) => value.to_le_bytes().into(),
            Arg::U64(value) => value.to_le_bytes().into(),
            Arg::F32(value) => value.to_le_bytes().into(),
            Arg::F64(value) => value.to_le_bytes().into(),
            Arg::I32(value) => value.to_le_bytes().into(),
            Arg::I64(value) => value.to_le_bytes().into(),
            Arg::Bytes(bytes) => bytes.clone(),
            Arg::TensorMap(map) => map.to_bytes().into(),
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// Number of blocks.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// Size of the `.extern .shared` memory.
    pub dynamic_shared_bytes: u32,
    /// Arguments, in the order of the parameters.
    pub args: &'a [Arg],
    /// Blocks per cluster, at most 8; the entry's `.reqnctapercluster` if it is `[1; 3]` and the entry has one.
    pub cluster: [u32; 3],
    /// Registers that each thread starts with in the compiled kernel. If absent, they follow from `.maxnreg`, and from
    /// `.reqntid` or `.maxntid` with `.minnctapersm`. If none of these is known, the pool of registers that `setmaxnreg`
    /// uses is not tracked.
    pub registers: Option<u32>,
    /// Whether kernels that were launched before may still run (CUDA's "programmatic stream serialization"). Then every
    /// access to global memory has to be ordered after a `griddepcontrol.wait` of a thread of the cluster.
    pub overlaps: bool,
    /// Blocks that run at the same time; the others start when one of these has exited. If absent, any number.
    pub resident: Option<u32>,
    /// Parts of shared memory that are also counted separately; they must not overlap.
    pub regions: &'a [Region<'a>],
}

impl Default for Launch<'_> {
    /// One block of one thread, of an entry without a name.
    fn default() -> Self {
        Launch {
            entry: "",
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared_bytes: 0,
            args: &[],
            cluster: [1; 3],
            registers: None,
            overlaps: false,
            resident: None,
            regions: &[],
        }
    }
}

/// Runs a kernel to its end. With the checks off, a wrong kernel may produce wrong numbers. With them on, the first
/// broken rule ends the launch, and memory keeps its contents at that time.
pub fn launch(program: &Program, memory: &Memory, launch: &Launch, options: &Options) -> Result<Report, Violation> {
    let entry = program.entry(launch.entry).ok_or_else(|| {
        let known: Vec<&str> = program.entries().collect();
        refused(launch, format!("there is no entry `{}`; the module has {}", launch.entry, known.join(", ")))
    })?;
    check_shape(entry, launch)?;
    let packed = pack(entry, launch)?;
    let params = words(&packed);
    let variables = memory.variables(program.number, &entry.symbols.globals);
    let variables = variables.map_err(|error| refused(launch, error.to_string()))?;
    let strict = options.checks != Checks::Off;
    let watch = if strict || options.counting == Counting::On { Watch::On } else { Watch::Off };
    let start = |detail: Detail| Env {
        entry,
        code: &entry.code,
        memory,
        global: GlobalTable::new(memory, strict.then_some(detail)),
        variables: variables.clone(),
        constants: constants(&entry.symbols, &variables),
        grid: launch.grid,
        block: launch.block,
        cluster: entry.required_cluster.unwrap_or(launch.cluster),
        explicit_cluster: entry.required_cluster.is_some() || launch.cluster != [1; 3],
        param_bytes: packed.len(),
        params: params.clone(),
        shared_bytes: (entry.symbols.shared_bytes + entry.symbols.shared_shift) as u32 + launch.dynamic_shared_bytes,
        shared_gaps: entry.symbols.shared_gaps.as_slice().into(),
        dynamic_bytes: launch.dynamic_shared_bytes,
        resident: launch.resident,
        regions: launch.regions,
        checks: options.checks,
        strict,
        counting: options.counting,
        watch,
        order: options.order,
        block_order: options.blocks,
        landing: options.landing,
        proxy_war: options.proxy_war,
        overtaken: options.overtaken,
        fenced_late: options.fenced_late,
        proxy_init: options.proxy_init,
        proxy_init_own: options.proxy_init_own,
        equal_stores: options.equal_stores,
        past_rows: options.past_rows,
        wide_parity: options.wide_parity,
        registers: launch.registers.or(entry.registers),
        overlaps: launch.overlaps && strict,
        max_instructions: options.max_instructions.unwrap_or(u64::MAX),
        detail,
        flags: Mutex::default(),
        histories: Mutex::default(),
        raced: AtomicBool::new(false),
        broken: AtomicU64::new(u64::MAX),
    };
    // Blocks that may wait for each other or communicate run in a fixed order; after a race, all blocks do.
    let communicates =
        entry.code.accesses.iter().any(Access::may_communicate) || entry.code.bulks.iter().any(Bulk::may_communicate);
    if !(strict && communicates) {
        let env = start(Detail::Quick);
        let threads = if options.blocks == BlockOrder::Forward { options.threads } else { Some(1) };
        let result = Grid::new(&env).run(threads);
        if !env.raced.load(Relaxed) {
            return result.and_then(|report| declared_after(&env).map(|()| report));
        }
        env.global.restore();
    }
    let env = start(Detail::Exact);
    let report = Grid::new(&env).run(Some(1))?;
    declared_after(&env)?;
    Ok(report)
}

/// The contents of constant memory, with the addresses of this launch's variables.
fn constants(symbols: &Symbols, variables: &[u64]) -> Vec<u32> {
    let mut words = symbols.constants.clone();
    for (at, constant) in &symbols.constant_pointers {
        let value = match *constant {
            Constant::Global(number, offset) => {
                variables.get(number as usize).copied().unwrap_or(0).wrapping_add_signed(offset)
            }
            Constant::Value(value) => value,
            Constant::Shared(_) | Constant::Special(_) => continue,
        };
        let first = *at as usize / 4;
        if let Some(pair) = words.get_mut(first..first + 2) {
            pair.copy_from_slice(&[value as u32, (value >> 32) as u32]);
        }
    }
    words
}

/// Checks the declarations about memory after the launch, that it is written or that it is zero. Only allocations that
/// an argument points to are checked: other flags may belong to a concurrent launch on the same memory.
fn declared_after(env: &Env) -> Result<(), Violation> {
    let given: Vec<u64> = env.params.windows(2).map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0])).collect();
    let given = |mapped: &&Mapped| given.iter().any(|address| mapped.buffer.contains(*address, 0));
    for mapped in env.global.all().iter().filter(given) {
        let buffer = &mapped.buffer;
        let must_be_written = buffer.written_after.load(Relaxed) && env.watches(ViolationKind::NotWritten);
        if let Some(address) = must_be_written.then(|| mapped.first_left()).flatten() {
            return Err(not_written(env, mapped, address));
        }
        if !env.watches(ViolationKind::NotZero) {
            continue;
        }
        let ranges = buffer.zero_after.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (start, end) in ranges {
            let found = (start..end).find(|at| mapped.buffer.load(mapped.buffer.offset(*at), 1) != 0);
            if let Some(address) = found {
                return Err(not_zero(env, mapped, address));
            }
        }
    }
    Ok(())
}

fn not_written(env: &Env, mapped: &Mapped, address: u64) -> Violation {
    let label = mapped.buffer.label.to_string();
    let message = format!("byte {} of `{label}` is not written by the launch", address - mapped.buffer.start);
    let (entry, address) = (env.entry.name.clone(), Some(address));
    let site = Site { entry, address, label: Some(label), ..Site::default() };
    Violation { kind: ViolationKind::NotWritten, message, site: Box::new(site) }
}

fn not_zero(env: &Env, mapped: &Mapped, address: u64) -> Violation {
    let label = mapped.buffer.label.to_string();
    let mut site = Site { entry: env.entry.name.clone(), address: Some(address), ..Site::default() };
    let mut message = format!("byte {} of `{label}` is not zero after the launch", address - mapped.buffer.start);
    let writer = mapped.shadow.as_ref().and_then(|shadow| shadow.writer(mapped.buffer.offset(address)));
    match writer {
        None => message += "; the launch did not write it",
        Some(writer) => {
            let Actor { block, thread, .. } = writer.actor;
            let (block, thread) = (env.ctaid_of(block, thread), env.tid(thread.into()));
            message += &format!("; thread {} of block {} wrote it last", triple(thread), triple(block));
            let origin = &env.code.origins[writer.actor.pc as usize];
            (site.line, site.instruction, site.note) = (Some(origin.line), origin.text.clone(), origin.note.clone());
            (site.block, site.threads) = (Some(block), vec![thread]);
        }
    }
    site.label = Some(label);
    Violation { kind: ViolationKind::NotZero, message, site: Box::new(site) }
}

fn refused(launch: &Launch, message: String) -> Violation {
    let site = Site { entry: launch.entry.into(), ..Site::default() };
    Violation { kind: ViolationKind::Launch, message, site: Box::new(site) }
}

/// Largest supported shared memory of a block, well above that of every GPU.
const MAX_SHARED: u64 = 1 << 20;

fn check_shape(entry: &Entry, launch: &Launch) -> Result<(), Violation> {
    let refuse = |message: String| Err(refused(launch, message));
    let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
    if threads == 0 || threads > 1024 {
        return refuse(format!("a block has {:?} threads, and must have 1 to 1024", launch.block));
    }
    let [x, y, z] = launch.grid;
    if x == 0 || y == 0 || z == 0 || x > i32::MAX as u32 || y > 65_535 || z > 65_535 {
        return refuse(format!("a grid has {:?} blocks, and the limit is 2147483647 x 65535 x 65535", launch.grid));
    }
    if let Some(required) = entry.required_threads
        && required != launch.block
    {
        return refuse(format!("a block has {:?} threads, but the entry requires {required:?}", launch.block));
    }
    if let Some(most) = entry.max_threads
        && most.iter().map(|extent| u64::from(*extent)).product::<u64>() < threads
    {
        return refuse(format!("a block has {threads} threads, but the entry allows {most:?}"));
    }
    let cluster = entry.required_cluster.unwrap_or(launch.cluster);
    if launch.cluster != [1; 3] && launch.cluster != cluster {
        return refuse(format!("a cluster has {:?} blocks, but the entry requires {cluster:?}", launch.cluster));
    }
    check_cluster(entry, launch, cluster).or_else(refuse)?;
    let shared = entry.symbols.shared_bytes + u64::from(launch.dynamic_shared_bytes);
    if shared > MAX_SHARED {
        return refuse(format!("a block uses {shared} bytes of shared memory, and the limit is {MAX_SHARED}"));
    }
    Ok(())
}

/// Most blocks of a cluster: the size that every device with clusters runs (CUDA C++ Programming Guide, "Thread Block
/// Clusters").
const MAX_CLUSTER: u64 = 8;

/// Checks the shape of the clusters. The error is the reason why a launch with it is refused.
fn check_cluster(entry: &Entry, launch: &Launch, cluster: [u32; 3]) -> Result<(), String> {
    let blocks: u64 = cluster.iter().map(|extent| u64::from(*extent)).product();
    if blocks == 0 || blocks > MAX_CLUSTER {
        return Err(format!(
            "a cluster has {cluster:?} blocks, and must have 1 to {MAX_CLUSTER}; larger ones, which only some devices run, are \
             not supported"
        ));
    }
    if let Some(most) = entry.max_cluster_rank
        && u64::from(most) < blocks
    {
        return Err(format!("a cluster has {blocks} blocks, but the entry allows {most} (.maxclusterrank)"));
    }
    if entry.explicit_cluster && entry.required_cluster.is_none() && cluster == [1; 3] {
        return Err(
            "the entry is .explicitcluster, and neither it nor the launch specifies the cluster's blocks".into()
        );
    }
    if let Some(axis) = (0..3).find(|axis| !launch.grid[*axis].is_multiple_of(cluster[*axis])) {
        return Err(format!(
            "a grid of {:?} blocks cannot be divided into clusters of {cluster:?}: {} is not a multiple of {}",
            launch.grid, launch.grid[axis], cluster[axis]
        ));
    }
    Ok(())
}

/// Packs the arguments into the entry's parameters.
fn pack(entry: &Entry, launch: &Launch) -> Result<Vec<u8>, Violation> {
    let params = &entry.symbols.params;
    if params.len() != launch.args.len() {
        return Err(refused(
            launch,
            format!("{} arguments were given for {} parameters", launch.args.len(), params.len()),
        ));
    }
    let mut packed = vec![0; entry.symbols.param_bytes as usize];
    for (param, arg) in params.iter().zip(launch.args) {
        let bytes = arg.bytes();
        if bytes.len() as u64 != param.bytes {
            let message =
                format!("parameter `{}` has {} bytes, but its argument has {}", param.name, param.bytes, bytes.len());
            return Err(refused(launch, message));
        }
        packed[param.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    Ok(packed)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    // One additional word, for 8-byte reads of the last one.
    bytes.chunks(4).map(word).chain([0]).collect()
}

/// Number of host threads that a launch uses if it specifies none.
pub fn threads() -> usize {
    rayon::current_num_threads()
}
