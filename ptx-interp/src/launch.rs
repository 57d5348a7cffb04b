//! Runs a grid: blocks on the host's threads, in ascending order, each until it is finished or waits for another.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::{Block, Progress};
use crate::cost::{Cost, Counters};
use crate::env::Env;
use crate::global::GlobalTable;
use crate::memory::Memory;
use crate::program::{Entry, Program};
use crate::violation::{Violation, ViolationKind};

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
    /// Any other parameter, by its bytes.
    Bytes(Vec<u8>),
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
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Size of the `.extern .shared` memory.
    pub dynamic_shared_bytes: u32,
    /// Arguments, in the order of the parameters.
    pub args: &'a [Arg],
}

/// What the interpreter watches for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checks {
    /// Bounds and alignment, which the hardware traps too.
    Off,
    /// Everything.
    #[default]
    Full,
}

/// How warps of a block take turns. A right kernel gives the same result under all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WarpOrder {
    /// In step, one instruction each, first warp first.
    Forward,
    /// In step, last warp first.
    Backward,
    /// Random turns of random length, the same for the same seed.
    Seeded(u64),
    /// Each runs as far as it can: the fastest.
    #[default]
    RunToBarrier,
}

/// Whether a launch counts what it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Counting {
    /// Only instructions and multiply-adds.
    #[default]
    Off,
    /// Everything in [`Cost`].
    On,
}

/// How to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What to watch for.
    pub checks: Checks,
    /// How warps take turns.
    pub order: WarpOrder,
    /// Whether to count what the launch costs.
    pub counting: Counting,
    /// Host threads; all of the current rayon pool if absent.
    pub threads: Option<usize>,
    /// Most instructions that one warp may execute before it counts as run away.
    pub max_instructions: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            checks: Checks::Full,
            order: WarpOrder::RunToBarrier,
            counting: Counting::Off,
            threads: None,
            max_instructions: Some(1 << 34),
        }
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions executed, counted once per warp.
    pub instructions: u64,
    /// Multiply-adds of floats (`fma`), counted once per thread, and twice where they are packed.
    pub fma: u64,
    /// Multiply-adds of integers (`mad`), addresses included, counted once per thread.
    pub mad: u64,
    /// What it cost, if that was asked for.
    pub cost: Option<Cost>,
}

/// Whether the loop that follows every value runs, or the bare one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Off,
    On,
}

/// Runs a kernel to its end. With the checks off a wrong kernel may leave wrong numbers; with them on, whatever breaks a
/// rule ends the launch, and memory is left as it was at that moment.
pub fn launch(program: &Program, memory: &Memory, launch: &Launch, options: &Options) -> Result<Report, Violation> {
    let entry = program.entry(launch.entry).ok_or_else(|| {
        let known: Vec<&str> = program.entries().collect();
        refused(launch, format!("there is no entry `{}`; the module has {}", launch.entry, known.join(", ")))
    })?;
    check_shape(entry, launch)?;
    let params = pack(entry, launch)?;
    let strict = options.checks == Checks::Full;
    let watch = if strict || options.counting == Counting::On { Watch::On } else { Watch::Off };
    let env = Env {
        entry,
        code: &entry.code,
        memory,
        global: GlobalTable::new(memory, strict),
        grid: launch.grid,
        block: launch.block,
        param_bytes: params.len(),
        params: words(&params),
        shared_bytes: entry.symbols.shared_bytes as u32 + launch.dynamic_shared_bytes,
        dynamic_bytes: launch.dynamic_shared_bytes,
        strict,
        counting: options.counting,
        watch,
        order: options.order,
        max_instructions: options.max_instructions.unwrap_or(u64::MAX),
    };
    Grid::new(&env).run(options.threads).map_err(|violation| *violation)
}

fn refused(launch: &Launch, message: String) -> Violation {
    Violation {
        kind: ViolationKind::Launch,
        entry: launch.entry.into(),
        message,
        line: None,
        instruction: String::new(),
        note: None,
        block: None,
        threads: Vec::new(),
        address: None,
        label: None,
    }
}

/// Largest shared memory of a block that is laid out, generously above every machine's.
const MAX_SHARED: u64 = 1 << 20;

fn check_shape(entry: &Entry, launch: &Launch) -> Result<(), Violation> {
    let refuse = |message: String| Err(refused(launch, message));
    let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
    if threads == 0 || threads > 1024 {
        return refuse(format!("a block of {:?} threads; 1 to 1024 are possible", launch.block));
    }
    let [x, y, z] = launch.grid;
    if x == 0 || y == 0 || z == 0 || x > i32::MAX as u32 || y > 65_535 || z > 65_535 {
        return refuse(format!("a grid of {:?} blocks; at most 2147483647 x 65535 x 65535 are possible", launch.grid));
    }
    if let Some(required) = entry.required_threads
        && required != launch.block
    {
        return refuse(format!("a block of {:?} threads; the entry requires {required:?}", launch.block));
    }
    if let Some(most) = entry.max_threads
        && most.iter().map(|extent| u64::from(*extent)).product::<u64>() < threads
    {
        return refuse(format!("a block of {threads} threads; the entry allows {most:?}"));
    }
    if launch.dynamic_shared_bytes > 0 && !entry.symbols.dynamic_shared {
        return refuse("dynamic shared memory for an entry that declares none".into());
    }
    let shared = entry.symbols.shared_bytes + u64::from(launch.dynamic_shared_bytes);
    if shared > MAX_SHARED {
        return refuse(format!("{shared} bytes of shared memory; {MAX_SHARED} are laid out at most"));
    }
    Ok(())
}

/// Lays the arguments out as the entry's parameters.
fn pack(entry: &Entry, launch: &Launch) -> Result<Vec<u8>, Violation> {
    let params = &entry.symbols.params;
    if params.len() != launch.args.len() {
        return Err(refused(launch, format!("{} arguments for {} parameters", launch.args.len(), params.len())));
    }
    let mut packed = vec![0; entry.symbols.param_bytes];
    for (param, arg) in params.iter().zip(launch.args) {
        let bytes = arg.bytes();
        if bytes.len() != param.bytes {
            let message = format!("parameter `{}` has {} bytes, its argument {}", param.name, param.bytes, bytes.len());
            return Err(refused(launch, message));
        }
        packed[param.offset..][..param.bytes].copy_from_slice(&bytes);
    }
    Ok(packed)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    // One word more, for 8-byte reads of the last one.
    bytes.chunks(4).map(word).chain([0]).collect()
}

/// A grid on its way.
struct Grid<'e, 'a> {
    env: &'e Env<'a>,
    /// Number of times that a block has written something and then stopped.
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The next block to start.
    next: u64,
    /// Blocks that wait for others.
    waiting: VecDeque<Waiting>,
    running: usize,
    /// The violation of the lowest block so far.
    violation: Option<(u64, Box<Violation>)>,
    report: Report,
    /// Emptied blocks, to be used again.
    spare: Vec<Box<Block>>,
}

struct Waiting {
    block: Box<Block>,
    /// Version of memory that it has looked at.
    seen: u64,
    stuck: bool,
}

impl<'e, 'a> Grid<'e, 'a> {
    fn new(env: &'e Env<'a>) -> Grid<'e, 'a> {
        Grid { env, version: AtomicU64::new(0), state: Mutex::default() }
    }

    fn run(self, threads: Option<usize>) -> Result<Report, Box<Violation>> {
        let blocks = usize::try_from(self.env.blocks()).unwrap_or(usize::MAX);
        let workers = threads.unwrap_or_else(rayon::current_num_threads).min(blocks).max(1);
        if workers == 1 {
            self.work();
        } else {
            rayon::scope(|scope| {
                for _ in 1..workers {
                    scope.spawn(|_| self.work());
                }
                self.work();
            });
        }
        let state = std::mem::take(&mut *self.lock());
        match state.violation {
            Some((_, violation)) => Err(violation),
            None => {
                let mut report = state.report;
                if self.env.counting == Counting::On {
                    report.cost = Some(self.cost(&state.spare));
                }
                Ok(report)
            }
        }
    }

    /// Adds up what the blocks' counters say; each of them has been through several blocks.
    fn cost(&self, blocks: &[Box<Block>]) -> Cost {
        let mut sum = Counters::new(self.env.code.instrs.len(), self.env.global.len());
        for counters in blocks.iter().filter_map(|block| block.memory.counters.as_deref()) {
            sum += counters;
        }
        Cost::new(&sum, self.env.code, self.env.global.labels())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One host thread: runs blocks as long as there are some that could move.
    fn work(&self) {
        while let Some(mut block) = self.take() {
            let seen = self.version.load(Ordering::SeqCst);
            let progress = block.run(self.env);
            let wrote = std::mem::take(&mut block.memory.wrote_global);
            if wrote {
                self.version.fetch_add(1, Ordering::SeqCst);
            }
            self.put_back(block, progress, seen, wrote);
        }
    }

    fn put_back(&self, block: Box<Block>, progress: Progress, seen: u64, wrote: bool) {
        let mut state = self.lock();
        state.running -= 1;
        match progress {
            Progress::Finished => {
                state.report.instructions += block.warps.iter().map(|warp| warp.steps).sum::<u64>();
                state.report.fma += block.warps.iter().map(|warp| warp.fma).sum::<u64>();
                state.report.mad += block.warps.iter().map(|warp| warp.mad).sum::<u64>();
                state.spare.push(block);
            }
            Progress::Waits { stuck } => state.waiting.push_back(Waiting { block, seen, stuck: stuck && !wrote }),
            Progress::Broken(violation) => state.keep_lowest(block.memory.number, violation),
        }
    }

    /// The next block to run: one that waited and may move now, then a new one, then any that waits.
    fn take(&self) -> Option<Box<Block>> {
        let mut state = self.lock();
        let version = self.version.load(Ordering::SeqCst);
        let broken = state.violation.as_ref().map(|(number, _)| *number);
        let may_move = |waiting: &Waiting| !waiting.stuck || waiting.seen != version;
        // Blocks behind a broken one need not go on. Those before it do: the lowest violation is reported, so that it
        // is the same on every run.
        let wanted = |number: u64| broken.is_none_or(|broken| number < broken);
        state.waiting.retain(|waiting| wanted(waiting.block.memory.number));
        let changed = state.waiting.iter().position(|waiting| waiting.seen != version);
        let block = if let Some(index) = changed {
            state.waiting.remove(index).map(|waiting| waiting.block)
        } else if state.next < self.env.blocks() && wanted(state.next) {
            let number = state.next;
            state.next += 1;
            let mut block = state.spare.pop().unwrap_or_default();
            state.running += 1;
            drop(state);
            block.reset(self.env, number);
            return Some(block);
        } else {
            let index = state.waiting.iter().position(may_move);
            index.and_then(|index| state.waiting.remove(index)).map(|waiting| waiting.block)
        };
        match block {
            Some(block) => {
                state.running += 1;
                Some(block)
            }
            None => {
                if state.running == 0 && broken.is_none() {
                    let deadlock = state.waiting.iter().min_by_key(|waiting| waiting.block.memory.number);
                    let deadlock =
                        deadlock.map(|waiting| (waiting.block.memory.number, waiting.block.deadlock(self.env)));
                    if let Some((number, violation)) = deadlock {
                        state.keep_lowest(number, violation);
                    }
                }
                None
            }
        }
    }
}

impl State {
    fn keep_lowest(&mut self, number: u64, violation: Box<Violation>) {
        if self.violation.as_ref().is_none_or(|(lowest, _)| number < *lowest) {
            self.violation = Some((number, violation));
        }
    }
}

/// Host threads that a launch uses when it does not say.
pub fn threads() -> usize {
    rayon::current_num_threads()
}
