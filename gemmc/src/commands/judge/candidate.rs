//! One line of a batch, and its verdict.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ptx_gemm::interp::{Checks, Options, Program, Violation, ViolationKind};
use ptx_gemm::{
    CompiledGemm, Device, DeviceError, Diagnostic, Error, InterpreterOptions, Kernel, Problem, Schedule, Severity,
    TextErrors, TileProgram,
};
use ptx_gemm_check::exec::{ExecError, LaunchFile, Order, foreign, interpret, legal, unsupported};
use ptx_gemm_check::{CheckError, Data, Outcome, Request, Size, check, edge_requests, edge_sizes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cli::Budget;
use crate::commands::exec::told;

/// A candidate: exactly one of a schedule, a tile program, and PTX with a launch.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    /// A text or a number that no other line has.
    pub(crate) id: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schedule: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tile: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ptx: Option<Text>,
    /// As a launch file has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) launch: Option<Value>,
    /// What buffers hold afterwards, by name: values as a launch file prints them. Of PTX alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expect: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<Wanted>,
}

/// A text, or the file that has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Here(String),
    In { file: String },
}

/// What a candidate has to compute. What is left out is that of the candidate itself.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// What `types(...)` has in a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    types: Option<String>,
    /// What `layout(...)` has.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
    /// What `epilogue(...)` has.
    #[serde(skip_serializing_if = "Option::is_none")]
    epilogue: Option<String>,
    /// What `batch(...)` has.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    /// m, n and k of each product, instead of those at which kernels go wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<Vec<[usize; 3]>>,
    /// `exact` or `random` alone, instead of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Kind>,
    /// The share of the bound of rounding errors that an element may have; 1 if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerance: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Exact,
    Random,
}

/// What is known about a candidate.
pub(crate) type Judged = Map<String, Value>;

/// A verdict with what shows it.
fn verdict(name: &str, rule: &str, message: impl Into<String>) -> Judged {
    let mut all = Map::new();
    all.insert("verdict".into(), name.into());
    all.insert("rule".into(), rule.into());
    all.insert("message".into(), Value::String(message.into()));
    all
}

/// The verdict on a line that makes no sense, or on a candidate that needs more than its budget.
pub(crate) fn refused(rule: &str, message: impl Into<String>) -> Judged {
    verdict("refused", rule, message)
}

fn with(mut judged: Judged, name: &str, value: Value) -> Judged {
    judged.insert(name.into(), value);
    judged
}

/// The orders of warps, blocks and landing copies that a candidate is run in.
const ORDERS: [Order; 4] = [Order::Forward, Order::Backward, Order::Random(0), Order::Late(0)];
/// How many sizes are tried, whatever they cost, and at most.
const SIZES: usize = 5;
const MOST_SIZES: usize = 24;
/// Threads of a launch: each takes an instruction at least.
const MOST_THREADS: u64 = 1 << 22;
/// The longest message: a thousand errors of one text say no more than the first of them.
const LONGEST: usize = 2000;

/// Judges a candidate whose files have been read. A panic says something about this program, and nothing about the candidate.
pub(crate) fn judge(candidate: &Candidate, budget: &Budget) -> Judged {
    let judged = catch_unwind(AssertUnwindSafe(|| match (&candidate.schedule, &candidate.tile, &candidate.ptx) {
        (Some(Text::Here(text)), None, None) => schedule(text, candidate, budget),
        (None, Some(Text::Here(text)), None) => tile(text, candidate, budget),
        (None, None, Some(Text::Here(text))) => ptx(text, candidate, budget),
        _ => refused("candidate", "a candidate has one of `schedule`, `tile` and `ptx`, as a text or a file"),
    }));
    let mut judged =
        judged.unwrap_or_else(|_| refused("internal", "the judge failed on this candidate: its own fault"));
    if let Some(Value::String(message)) = judged.get_mut("message")
        && let Some((end, _)) = message.char_indices().nth(LONGEST)
    {
        message.truncate(end);
    }
    judged
}

fn of_diagnostics<'a>(errors: impl Iterator<Item = &'a Diagnostic>) -> Judged {
    let errors: Vec<&Diagnostic> = errors.filter(|one| one.severity == Severity::Error).collect();
    let Some(first) = errors.first() else { return refused("schedule", "it is not legal") };
    let all = errors.iter().map(|one| json!({ "rule": one.rule, "message": one.message, "help": one.help }));
    let judged = with(refused(first.rule, first.message.clone()), "fix", json!(first.help));
    with(judged, "errors", all.take(16).collect())
}

fn of_texts(errors: &TextErrors) -> Judged {
    let Some(first) = errors.0.first() else { return refused("text", "it cannot be read") };
    let all = errors.0.iter().map(|one| json!({ "line": one.line, "column": one.column, "message": one.message }));
    with(refused("text", first.message.clone()), "errors", all.take(16).collect())
}

/// The verdict that a broken rule of the interpreter is.
fn of_violation(violation: &Violation, order: Order) -> Judged {
    let name = match violation.kind {
        ViolationKind::OutOfBounds | ViolationKind::Misaligned | ViolationKind::PastRows => "out-of-bounds",
        ViolationKind::Uninitialised => "uninitialised",
        ViolationKind::Deadlock | ViolationKind::InstructionLimit => "hang",
        ViolationKind::UnknownInstruction => "unsupported",
        ViolationKind::NotWritten | ViolationKind::Trap | ViolationKind::Assertion => "wrong",
        ViolationKind::Launch
        | ViolationKind::TensorMap
        | ViolationKind::Descriptor
        | ViolationKind::InvalidOperand
        | ViolationKind::StackOverflow => "refused",
        _ => "race",
    };
    let judged = verdict(name, &violation.kind.name(), violation.message.clone());
    with(judged, "witness", told(violation, order, &[order]))
}

fn of_error(error: Error, order: Order) -> Judged {
    match error {
        Error::Schedule(errors) => of_diagnostics(errors.iter()),
        Error::Tile(errors) => of_texts(&errors),
        Error::Interpreter(violation) => of_violation(&violation, order),
        Error::Unwritten { row, col, .. } => {
            let judged = verdict("wrong", "not-written", "an element of D is never written");
            with(judged, "element", json!({ "row": row, "col": col }))
        }
        Error::Argument(error) => refused("size", error.to_string()),
        Error::Device(error @ DeviceError::OutOfMemory { .. }) => refused("memory", error.to_string()),
        Error::Device(error) => refused("device", error.to_string()),
        other => refused("compiler", other.to_string()),
    }
}

fn schedule(text: &str, candidate: &Candidate, budget: &Budget) -> Judged {
    let schedule: Schedule = match text.parse() {
        Ok(schedule) => schedule,
        Err(errors) => return of_diagnostics(errors.iter()),
    };
    product(candidate, budget, &|device| CompiledGemm::new(&schedule, device))
}

fn tile(text: &str, candidate: &Candidate, budget: &Budget) -> Judged {
    match TileProgram::parse(text) {
        Ok(program) => product(candidate, budget, &|device| program.on(device)),
        Err(error) => of_error(error, Order::Forward),
    }
}

/// Whether a problem is the wanted one; if not, in what it differs.
fn differs(wanted: &Wanted, problem: &Problem) -> Result<Option<String>, Judged> {
    let clause = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}({value})"));
    let clauses = [
        clause("types", &wanted.types),
        clause("layout", &wanted.layout),
        clause("epilogue", &wanted.epilogue),
        clause("batch", &wanted.batch),
    ];
    let clauses: Vec<String> = clauses.into_iter().flatten().collect();
    let of = Schedule::parse_part(&clauses.join("; ")).and_then(|part| part.problem());
    let asked = of.map_err(|errors| with(of_diagnostics(errors.iter()), "of", "problem".into()))?.asked();
    let own = problem.clone().asked();
    let parts = [
        ("types", wanted.types.is_some() && own.types != asked.types),
        ("layout", wanted.layout.is_some() && own.layouts != asked.layouts),
        ("epilogue", wanted.epilogue.is_some() && own.epilogue != asked.epilogue),
        ("batch", wanted.batch.is_some() && own.batch != asked.batch),
    ];
    let differing: Vec<&str> = parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    Ok((!differing.is_empty()).then(|| format!("it computes another product: {} differ", differing.join(", "))))
}

/// The sizes that are tried, smallest first: the whole tile, one past it in each extent, and others at the kernel's edges.
fn sizes(kernel: &Kernel, work: u64) -> Vec<Size> {
    let tile = kernel.interface().entries[0].tile;
    let [m, n, k] = [tile.m, tile.n, tile.k].map(|extent| extent.max(1) as usize);
    let padded = |size: &Size| {
        let [a, b, c] = [(size.m, m), (size.n, n), (size.k, k)].map(|(extent, tile)| extent.next_multiple_of(tile));
        (a * b * c.max(1)) as u64
    };
    let edges = edge_sizes(kernel);
    let past = [[m, n, k], [m + 1, n, k], [m, n + 1, k], [m, n, k + 1], [m + 1, n + 1, 2 * k + 1]];
    // Kernels without guards have edges of their own.
    let guarded = edges.iter().any(|size| size.m % m != 0 || size.n % n != 0);
    let mut chosen: Vec<Size> = if guarded { past.map(|[m, n, k]| Size::new(m, n, k)).into() } else { Vec::new() };
    let mut rest: Vec<Size> = edges.into_iter().filter(|size| !chosen.contains(size)).collect();
    rest.sort_by_key(|size| (padded(size), size.m, size.n, size.k));
    // Some of each cost, from empty products to many tiles.
    let step = rest.len().div_ceil(MOST_SIZES - SIZES).max(1);
    let rest = rest.into_iter().step_by(step);
    let mut spent: u64 = chosen.iter().map(padded).sum();
    for size in rest {
        spent += padded(&size);
        if chosen.len() >= SIZES && spent > work {
            break;
        }
        chosen.push(size);
    }
    chosen.sort_by_key(|size| (padded(size), size.m, size.n, size.k));
    chosen
}

/// Runs a kernel of ours: each size with exact data in one order, and with other data in another.
fn product(candidate: &Candidate, budget: &Budget, load: &dyn Fn(&Device) -> Result<CompiledGemm, Error>) -> Judged {
    let on = |order: Order| {
        let limit =
            Options { checks: Checks::Full, max_instructions: Some(budget.max_instructions), ..Options::default() };
        Device::interpreter_with(InterpreterOptions { options: order.options(&limit), misalign: 0 })
    };
    let [first, others @ ..] = ORDERS;
    let loaded = load(&on(first)).and_then(|gemm| {
        let others = others.map(|order| Ok((order, gemm.on(&on(order))?)));
        let others = others.into_iter().collect::<Result<Vec<_>, Error>>()?;
        Ok([vec![(first, gemm)], others].concat())
    });
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return of_error(error, first),
    };
    let wanted = candidate.problem.clone().unwrap_or_default();
    let kernel = loaded[0].1.kernel();
    match differs(&wanted, kernel.problem()) {
        Ok(None) => {}
        Ok(Some(message)) => return refused("problem", message),
        Err(judged) => return judged,
    }
    let given = wanted.sizes.as_ref().map(|all| all.iter().map(|&[m, n, k]| Size::new(m, n, k)).collect());
    let sizes = given.unwrap_or_else(|| sizes(kernel, budget.work));
    let (mut compared, mut instructions, mut products) = (0usize, 0u64, 0usize);
    let mut tried: Vec<[usize; 3]> = Vec::new();
    for (turn, size) in sizes.iter().enumerate() {
        for (index, request) in edge_requests(kernel, *size, turn).into_iter().enumerate() {
            let exact = request.data == Data::Exact;
            if wanted.data.is_some_and(|kind| (kind == Kind::Exact) != exact) {
                continue;
            }
            let (order, gemm) = &loaded[(2 * turn + index) % ORDERS.len()];
            let outcome = match check(gemm, &request) {
                Ok(outcome) => outcome,
                Err(error) => return at(of_check(error, *order), &request, *order),
            };
            products += 1;
            compared += outcome.compared;
            instructions += outcome.run.counts.as_ref().map_or(0, |counts| counts.instructions);
            if !outcome.padding_intact || outcome.max_error > wanted.tolerance.unwrap_or(1.0) {
                return at(wrong(&outcome), &request, *order);
            }
        }
        tried.push([size.m, size.n, size.k]);
    }
    if compared == 0 {
        return refused("nothing-compared", "no element of these products could be compared with a reference");
    }
    let mut judged = Map::new();
    judged.insert("verdict".into(), "right".into());
    judged.insert("sizes".into(), json!(tried));
    judged.insert("products".into(), json!(products));
    judged.insert("orders".into(), ORDERS.iter().map(Order::to_string).collect());
    judged.insert("elements".into(), json!(compared));
    judged.insert("instructions".into(), json!(instructions));
    judged
}

/// Where it was found.
fn at(judged: Judged, request: &Request, order: Order) -> Judged {
    let Request { m, n, k, seed, data, .. } = request;
    let data = format!("{data:?}").to_lowercase();
    let judged = with(judged, "size", json!([m, n, k]));
    with(with(with(judged, "data", data.into()), "seed", json!(seed)), "order", order.to_string().into())
}

fn of_check(error: CheckError, order: Order) -> Judged {
    match error {
        CheckError::Runtime(error) => of_error(error, order),
        CheckError::TooLarge { .. } => refused("memory", error.to_string()),
        other => refused("data", other.to_string()),
    }
}

fn wrong(outcome: &Outcome) -> Judged {
    let number = |value: f64| if value.is_finite() { json!(value) } else { json!(value.to_string()) };
    let element = outcome.worst.map(|worst| {
        json!({ "row": worst.row, "col": worst.col, "got": number(worst.got), "expected": number(worst.expected),
            "bound": number(worst.bound) })
    });
    let rule = if outcome.padding_intact { "value" } else { "padding" };
    with(verdict("wrong", rule, outcome.to_string()), "element", json!(element))
}

/// Runs PTX as its launch says, in every order.
fn ptx(text: &str, candidate: &Candidate, budget: &Budget) -> Judged {
    let Some(launch) = &candidate.launch else { return refused("launch", "PTX needs a `launch`") };
    if candidate.problem.is_some() {
        return refused("problem", "a `problem` is of a schedule or a tile program: PTX has `expect`");
    }
    let file = match LaunchFile::parse(&launch.to_string()) {
        Ok(file) => file,
        Err(message) => return refused("launch", message),
    };
    let threads = file.grid.iter().chain(&file.block).fold(1u64, |all, extent| all.saturating_mul(u64::from(*extent)));
    if threads > MOST_THREADS {
        return refused("grid", format!("the launch has {threads} threads, and {MOST_THREADS} are judged at most"));
    }
    let needed: u64 = file.buffers.values().filter_map(|buffer| buffer.bytes()).sum();
    if needed > budget.memory << 18 {
        return refused("memory", format!("its buffers have {needed} bytes, more than a quarter of the budget"));
    }
    if let Err(errors) = legal(text) {
        return of_texts(&errors);
    }
    if let Some(first) = unsupported(text).first() {
        return with(verdict("unsupported", "instruction", first.message.clone()), "line", json!(first.line));
    }
    let program = match Program::from_text(text) {
        Ok(program) => program,
        Err(error) => return refused("text", error.to_string()),
    };
    let options = Options { checks: Checks::Full, max_instructions: Some(budget.max_instructions), ..foreign() };
    let mut runs = Vec::new();
    for order in ORDERS {
        match interpret(&program, &file, order, &options) {
            Ok(run) => match &run.violation {
                Some(violation) => return of_violation(violation, order),
                None => runs.push(run),
            },
            Err(ExecError::Memory(error)) => return refused("memory", error.to_string()),
            Err(error) => return refused("launch", error.to_string()),
        }
    }
    let first = &runs[0];
    if let Some(run) = runs.iter().find(|run| run.contents != first.contents) {
        let changed = run.contents.iter().zip(&first.contents).find(|(a, b)| a != b).map_or("", |((name, _), _)| name);
        let message = format!("`{changed}` is another in order {} than in order {}", run.order, first.order);
        return verdict("race", "order-dependent", message);
    }
    for (name, expected) in candidate.expect.iter().flatten() {
        let found = file.buffers.get(name).zip(first.contents.iter().find(|(of, _)| of == name));
        let Some((buffer, (_, bytes))) = found else {
            return refused("expect", format!("the launch has no buffer `{name}`"));
        };
        let (values, expected) = (buffer.ty.values(bytes), expected.as_array().map_or(&[][..], Vec::as_slice));
        if values.len() != expected.len() {
            return refused(
                "expect",
                format!("{} values are expected of `{name}`, which has {}", expected.len(), values.len()),
            );
        }
        let same = |(got, expected): (&Value, &Value)| {
            got == expected || got.as_f64().zip(expected.as_f64()).is_some_and(|(x, y)| x == y)
        };
        if let Some(index) = values.iter().zip(expected).position(|pair| !same(pair)) {
            let element = json!({ "buffer": name, "index": index, "got": values[index], "expected": expected[index] });
            let message = format!("`{name}` has {} at {index}, and {} is expected", values[index], expected[index]);
            return with(verdict("wrong", "value", message), "element", element);
        }
    }
    let mut judged = Map::new();
    judged.insert("verdict".into(), "right".into());
    judged.insert("orders".into(), ORDERS.iter().map(Order::to_string).collect());
    // Without `expect` no result is right or wrong; `right` then says that no rule was broken.
    judged.insert("compared".into(), json!(candidate.expect.as_ref().map_or(0, Map::len)));
    judged.insert("instructions".into(), json!(first.report.as_ref().map(|report| report.instructions)));
    judged
}
