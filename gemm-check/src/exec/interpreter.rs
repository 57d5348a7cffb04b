//! A launch file on the interpreter.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ptx_gemm_runtime::interp::{
    Allocation, Arg as Value, BlockOrder, Counting, Landing, Launch, Memory, Options, Program, Report, Severity,
    TensorMap, Violation, WarpOrder, launch,
};

use super::{Arg, Contents, ExecError, LaunchFile};

/// The order in which warps and blocks are scheduled and copies complete, by a name that reproduces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First warp and block first, copies at the latest moment.
    Forward,
    /// Last warp and block first, copies at the earliest moment.
    Backward,
    /// Everything in random order.
    Random(u64),
    /// One warp after another is delayed for as long as the others can make progress.
    Late(u64),
}

/// The options for PTX that other compilers or people wrote: what production kernels do, and what works, is a warning.
pub fn foreign() -> Options {
    Options { proxy_init_own: Severity::Warn, ..Options::default() }
}

/// One order, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orders {
    /// This one.
    One(Order),
    /// Forward, backward, some random ones, and some with a delayed warp.
    All,
}

/// The number of random orders when all are used.
const RANDOM: u64 = 6;
/// The number of orders in which a warp is delayed.
const LATE: u64 = 3;

impl Order {
    /// The options of a launch in this order.
    pub fn options(self, options: &Options) -> Options {
        let (order, blocks, landing) = match self {
            Order::Forward => (WarpOrder::Forward, BlockOrder::Forward, Landing::Latest),
            Order::Backward => (WarpOrder::Backward, BlockOrder::Backward, Landing::Earliest),
            Order::Random(seed) => (WarpOrder::Seeded(seed), BlockOrder::Seeded(seed), Landing::Seeded(seed)),
            Order::Late(seed) => (WarpOrder::Late(seed), BlockOrder::Forward, Landing::Seeded(seed)),
        };
        Options { order, blocks, landing, ..*options }
    }
}

impl Orders {
    /// All of them.
    pub fn list(self) -> Vec<Order> {
        match self {
            Orders::One(order) => vec![order],
            Orders::All => {
                let (random, late) = ((0..RANDOM).map(Order::Random), (0..LATE).map(Order::Late));
                [Order::Forward, Order::Backward].into_iter().chain(random).chain(late).collect()
            }
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Forward => f.write_str("forward"),
            Order::Backward => f.write_str("backward"),
            Order::Random(seed) => write!(f, "random:{seed}"),
            Order::Late(seed) => write!(f, "late:{seed}"),
        }
    }
}

impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Orders::One(order) => order.fmt(f),
            Orders::All => f.write_str("all"),
        }
    }
}

impl FromStr for Orders {
    type Err = String;

    fn from_str(text: &str) -> Result<Orders, String> {
        let one = match text.split_once(':').map(|(name, seed)| (name, seed.parse())) {
            Some(("random", Ok(seed))) => Order::Random(seed),
            Some(("late", Ok(seed))) => Order::Late(seed),
            None if text == "forward" => Order::Forward,
            None if text == "backward" => Order::Backward,
            None if text == "all" => return Ok(Orders::All),
            _ => return Err("one of forward, backward, random:SEED, late:SEED, all".into()),
        };
        Ok(Orders::One(one))
    }
}

/// The result of one run.
#[derive(Debug)]
pub struct Interpreted {
    /// The order that it ran in.
    pub order: Order,
    /// Every buffer afterwards, by name. Bytes that were never written are 0.
    pub contents: Contents,
    /// Counts and warnings, if the run completed.
    pub report: Option<Report>,
    /// The violation that ended the run.
    pub violation: Option<Violation>,
}

/// Runs a launch file in one order, and counts its cost.
///
/// # Errors
/// Returns what is wrong with the file. A launch that breaks a rule is not an error: the violation is in the
/// result.
pub fn interpret(
    program: &Program,
    file: &LaunchFile,
    order: Order,
    options: &Options,
) -> Result<Interpreted, ExecError> {
    let memory = Memory::new();
    let mut buffers: BTreeMap<&str, Allocation> = BTreeMap::new();
    for (name, buffer) in &file.buffers {
        // The 256-byte alignment of cudaMalloc.
        let allocation = memory.alloc(name, buffer.bytes().unwrap_or(0), 256)?;
        let contents = buffer.contents().map_err(|message| ExecError::File(format!("buffer `{name}`: {message}")))?;
        if let Some(bytes) = &contents {
            memory.write(allocation.address, bytes)?;
        }
        if buffer.write_once {
            memory.set_write_once(allocation.id)?;
            // Earlier contents may stay, such as the padding of rows.
            if contents.is_none() {
                memory.set_written_after(allocation.address)?;
            }
        }
        buffers.insert(name, allocation);
    }
    let args: Vec<Value> = file.args.iter().map(|arg| value(arg, file, &buffers)).collect::<Result<_, _>>()?;
    let entry = entry_of(program, file)?;
    let what = Launch {
        entry,
        grid: file.grid,
        block: file.block,
        dynamic_shared_bytes: file.shared,
        args: &args,
        cluster: file.cluster.unwrap_or([1; 3]),
        overlaps: file.overlaps,
        resident: file.resident,
        ..Launch::default()
    };
    let options = Options { counting: Counting::On, ..order.options(options) };
    let (report, violation) = match launch(program, &memory, &what, &options) {
        Ok(report) => (Some(report), None),
        Err(violation) => (None, Some(violation)),
    };
    let mut contents = Contents::new();
    for (name, allocation) in buffers {
        let mut bytes = vec![0; allocation.bytes as usize];
        memory.read(allocation.address, &mut bytes)?;
        contents.push((name.into(), bytes));
    }
    Ok(Interpreted { order, contents, report, violation })
}

/// The entry that a launch file names, or the only one.
pub(super) fn entry_of<'a>(program: &'a Program, file: &'a LaunchFile) -> Result<&'a str, ExecError> {
    let known: Vec<&str> = program.entries().collect();
    match (&file.entry, known.as_slice()) {
        (Some(entry), _) => Ok(entry),
        (None, [one]) => Ok(*one),
        (None, several) => {
            let several = several.join(", ");
            Err(ExecError::File(format!("the launch file names no entry; the module has {several}")))
        }
    }
}

fn value(arg: &Arg, file: &LaunchFile, buffers: &BTreeMap<&str, Allocation>) -> Result<Value, ExecError> {
    // The names were checked when the file was read.
    let address = |name: &str| buffers.get(name).map_or(0, |buffer| buffer.address);
    match arg {
        Arg::Buffer(name) => Ok(Value::U64(address(name))),
        Arg::Map(name) => {
            let map = file.maps.get(name).ok_or_else(|| ExecError::File(format!("the file has no map `{name}`")))?;
            let args = map.args(address(&map.buffer))?;
            let map = TensorMap::encode(&args).map_err(|error| ExecError::Map { name: name.clone(), error })?;
            Ok(Value::TensorMap(Box::new(map)))
        }
        plain => {
            let bytes = plain.bytes().map_err(ExecError::File)?;
            Ok(Value::Bytes(bytes.unwrap_or_default()))
        }
    }
}
