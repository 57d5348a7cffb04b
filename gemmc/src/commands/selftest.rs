//! `gemmc selftest`: every case and every kind of schedule on every edge size, netlib's grid, and
//! all other claims, on one device.
//!
//! `--quick` runs a few sizes each and leaves out the rest; `--sanitize` runs the quick test under NVIDIA's
//! compute-sanitizer.

mod bits;
mod claims;
mod devices;
mod endurance;
mod inputs;
mod kinds;
mod large;
mod pinned;
mod processes;
mod refills;
mod streams;

use std::time::{Duration, Instant};

use claims::{Answer, Claim};
use half::{bf16, f16};
use ptx_gemm::cuda::CudaStatus;
use ptx_gemm::{CompiledGemm, Device, DeviceKind, Element, Error, Kernel, Layout, Schedule};
use ptx_gemm_check::part::Part;
use ptx_gemm_check::{
    Request, Size, Verdict, cases, check, edge_requests, edge_sizes, netlib, quick_requests, quick_sizes, rereads_tma,
};
use serde_json::{Value, json};

use crate::cli::Selftest;
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};

/// netlib's grid, by the name of its row.
type Grid = (&'static str, fn(&Device, &str) -> Row);

/// For each type of the matrices.
const NETLIB: [Grid; 5] = [
    ("netlib sgemm", |device, name| grid::<f32, f32>(device, name, "f32", BY_THREADS)),
    ("netlib bf16", |device, name| grid::<bf16, bf16>(device, name, "bf16", BY_THREADS)),
    ("netlib f16", |device, name| grid::<f16, f16>(device, name, "f16", BY_THREADS)),
    ("netlib tf32", |device, name| grid::<f32, f32>(device, name, "tf32", BY_WARPS)),
    ("netlib i8", |device, name| grid::<i8, i32>(device, name, "a = i8, b = i8, d = i32", BY_THREADS)),
];

/// A vectorised, double-buffered kernel, and one on tensor cores.
const BY_THREADS: &str = "tile(32, 32, 8); thread(4, 4); vector(8); double_buffer";
const BY_WARPS: &str = "tile(32, 32, 16); warp(16, 16); atom(mma(16, 8, 8)); double_buffer";

/// One row of the table.
struct Row {
    name: String,
    products: usize,
    /// Elements that were compared.
    compared: usize,
    worst: f64,
    time: Duration,
    /// A description of each wrong product.
    wrong: Vec<String>,
    /// Entries of the kernel that have not run yet.
    left: Vec<String>,
}

pub(crate) fn run(args: &Selftest, format: Format) -> Result<Reply, Failure> {
    let device = args.device.open(0)?;
    let meant = |name: &str| args.only.as_deref().is_none_or(|text| name.contains(text));
    let mut tests = if args.quick { Vec::new() } else { tests(&device) };
    tests.retain(|(name, _)| meant(name));
    let mut schedules: Vec<Named> = schedules().filter(|(name, _)| meant(name)).collect();
    schedules.retain(|(_, schedule)| !args.no_rereads || !rereads(schedule));
    let grids: Vec<Grid> = NETLIB.into_iter().filter(|(name, _)| !args.quick && meant(name)).collect();
    let all = schedules.len() + grids.len() + tests.len();
    if all == 0 {
        return Err(nothing(args, &device));
    }
    let bar = progress::bar(all, format);
    let interrupt = Interrupt::watch();
    let mut rows = Vec::new();
    for (name, schedule) in schedules.into_iter().take_while(|_| !interrupt.came()) {
        bar.set_message(name.clone());
        rows.push(edges(name, schedule, &device, args.quick));
        bar.inc(1);
    }
    for (name, grid) in grids.into_iter().take_while(|_| !interrupt.came()) {
        bar.set_message(name);
        rows.push(grid(&device, name));
        bar.inc(1);
    }
    let tested = tests.into_iter().take_while(|_| !interrupt.came()).map(|(name, test)| {
        bar.set_message(name);
        let claim = Claim::test(name, test);
        bar.inc(1);
        claim
    });
    let claims: Vec<Claim> = tested.collect();
    bar.finish_and_clear();
    let left = all - rows.len() - claims.len();
    Ok(reply(&device, &rows, &claims, left))
}

/// Why nothing matches: the requested test may need a GPU, or be left out by `--quick`.
fn nothing(args: &Selftest, device: &Device) -> Failure {
    let text = args.only.as_deref().unwrap_or_default();
    let listed = |names: &[&'static str]| {
        let meant = names.iter().filter(|name| name.contains(text));
        meant.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let names = |tests: Vec<(&'static str, Test)>| tests.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let mut quick = names(tests(device));
    quick.extend(NETLIB.map(|(name, _)| name));
    let left_out = listed(if args.quick { &quick } else { &[] });
    let on_a_gpu = match device.kind() {
        DeviceKind::Cuda(_) => String::new(),
        _ => listed(&names(of_a_gpu(device, 0).into())),
    };
    Failure::refused(
        "usage",
        match (left_out.is_empty(), on_a_gpu.is_empty()) {
            (false, _) => format!("--quick leaves {left_out} out"),
            (true, false) => format!("{on_a_gpu} can be tested on a GPU only, and this is {device}"),
            (true, true) => format!("nothing is called `{text}`: leave --only out to see the names"),
        },
    )
}

/// A schedule by its name in the table.
type Named = (String, Result<Schedule, Error>);

/// Every case, and every other kind of schedule.
pub(crate) fn schedules() -> impl Iterator<Item = Named> {
    let files = cases().map(|case| (case.name.to_string(), case.schedule().map_err(Error::from)));
    files.chain(kinds::schedules().map(|(name, schedule)| (name, Ok(schedule))))
}

/// Whether a kernel of its plan of launches may read what TMA wrote for another one.
pub(crate) fn rereads(schedule: &Result<Schedule, Error>) -> bool {
    let kernel = schedule.as_ref().ok().and_then(|schedule| Kernel::compile(schedule, None).ok());
    kernel.is_some_and(|kernel| rereads_tma(&kernel))
}

type Test<'a> = Box<dyn FnOnce() -> Answer + 'a>;

/// Claims other than correct products. Those that need a GPU are left out on the interpreter.
fn tests(device: &Device) -> Vec<(&'static str, Test<'_>)> {
    let mut tests: Vec<(&'static str, Test<'_>)> = vec![
        ("wrong inputs", Box::new(|| inputs::refused(device))),
        ("inputs at the edge", Box::new(|| inputs::edges(device))),
        ("16 threads, one kernel", Box::new(|| inputs::threads(device))),
    ];
    let DeviceKind::Cuda(ordinal) = device.kind() else { return tests };
    tests.extend(of_a_gpu(device, ordinal));
    // Claims about several devices are left out where there is only one.
    if let Ok(CudaStatus { devices: count @ 2.., .. }) = ptx_gemm::cuda::status() {
        tests.push(("every device at once", Box::new(move || devices::all(count))));
    }
    tests
}

/// Claims that only a GPU can show.
fn of_a_gpu(device: &Device, ordinal: usize) -> [(&'static str, Test<'_>); 15] {
    [
        ("bits of the interpreter", Box::new(|| bits::equal(device))),
        ("slots that TMA refills", Box::new(|| refills::right(device))),
        ("PTX that is refused", Box::new(|| inputs::linker(device))),
        ("an illegal address", Box::new(move || processes::stray_pointer(ordinal))),
        ("the caller's stream", Box::new(move || streams::own(ordinal))),
        ("the caller's graph", Box::new(move || streams::graph(ordinal))),
        ("pinned host copies", Box::new(|| pinned::copies(device))),
        ("10,000 launches", Box::new(move || endurance::launches(ordinal, 10_000))),
        ("2 processes, one cache", Box::new(move || processes::share_a_cache(ordinal))),
        ("first launch under 20 ms", Box::new(move || processes::first_launch(ordinal))),
        ("no memory left", Box::new(move || endurance::memory(device, ordinal))),
        ("offsets past 2^32", Box::new(move || streams::offsets(ordinal))),
        ("a leading dimension of 2^20", Box::new(|| large::leading_dimension(device))),
        ("2^31 + 1 rows", Box::new(|| large::rows(device))),
        ("2^28 + 3 tiles in a row", Box::new(|| large::tiles(device))),
    ]
}

/// Runs a schedule on some sizes: exact data, and random and special data, alternating through all arrangements.
fn edges(name: String, schedule: Result<Schedule, Error>, device: &Device, quick: bool) -> Row {
    let start = Instant::now();
    let (wrong, left) = (Vec::new(), Vec::new());
    let mut row = Row { name, products: 0, compared: 0, worst: 0.0, time: Duration::ZERO, wrong, left };
    let compiled = schedule.and_then(|schedule| CompiledGemm::new(&schedule, device));
    match compiled {
        Ok(gemm) => {
            row.left = gemm.interface().entries.iter().map(|entry| entry.name.clone()).collect();
            let kernel: &Kernel = gemm.kernel();
            let sizes: Vec<Size> = if quick { quick_sizes(kernel) } else { edge_sizes(kernel) };
            sizes.into_iter().enumerate().for_each(|(index, size)| {
                let requests = match quick {
                    true => quick_requests(kernel, size, index),
                    false => edge_requests(kernel, size, index),
                };
                requests.iter().for_each(|request| row.product(&gemm, request));
            })
        }
        Err(error) => row.wrong.push(error.to_string()),
    }
    row.unseen();
    row.time = start.elapsed();
    row
}

impl Row {
    /// A test that never runs an entry says nothing about it, and neither does one that compares nothing.
    fn unseen(&mut self) {
        self.wrong.extend((self.compared == 0).then(|| "no element was compared".into()));
        let left = std::mem::take(&mut self.left);
        self.wrong.extend(left.into_iter().map(|entry| format!("entry `{entry}` was never run")));
    }

    fn product(&mut self, gemm: &CompiledGemm, request: &Request) {
        let Request { m, n, k, .. } = request;
        self.products += 1;
        match check(gemm, request) {
            Ok(outcome) => {
                self.compared += outcome.compared;
                self.worst = self.worst.max(outcome.max_error);
                self.left.retain(|entry| Some(entry) != outcome.run.entry.as_ref());
                // Of a few elements there may be none with a bound: the row says whether any was compared.
                if outcome.verdict() == Verdict::Wrong {
                    self.wrong.push(format!("{m} x {n} x {k}: {outcome}"));
                }
            }
            Err(error) => self.wrong.push(format!("{m} x {n} x {k}: {error}")),
        }
    }
}

/// netlib's SGEMM grid on a kernel for these types.
fn grid<T: Element, U: Element>(device: &Device, name: &str, types: &str, clauses: &str) -> Row {
    let start = Instant::now();
    let kernel = |a: Layout, b: Layout| {
        let schedule: Schedule = format!(
            "types({types}); {clauses}; layout(a = {a}, b = {b}, d = col);
             epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);"
        )
        .parse()?;
        CompiledGemm::new(&schedule, device)
    };
    let (products, compared, worst, wrong) = match netlib::run::<T, U>(Part::All, kernel) {
        Ok(summary) => {
            let wrong = summary.failures.iter().map(|(call, what)| format!("{call:?}: {what}")).collect();
            (summary.calls, summary.compared, summary.worst_ratio / netlib::THRESHOLD, wrong)
        }
        Err(error) => (0, 0, 0.0, vec![error.to_string()]),
    };
    let mut row = Row { name: name.into(), products, compared, worst, time: Duration::ZERO, wrong, left: Vec::new() };
    row.unseen();
    row.time = start.elapsed();
    row
}

/// `left` is the number of tests that were not begun.
fn reply(device: &Device, rows: &[Row], claims: &[Claim], left: usize) -> Reply {
    let mut text = format!("{device}\n");
    // Not a table of comfy-table: what is wrong with a case is written below its row.
    if !rows.is_empty() {
        text.push_str(&format!("\n{:20} {:>9} {:>12} {:>9}\n", "case", "products", "max error", "seconds"));
    }
    let mut list: Vec<Value> = Vec::new();
    for Row { name, products, worst, time, wrong, .. } in rows {
        let seconds = time.as_secs_f64();
        let verdict = if wrong.is_empty() { "" } else { "  WRONG" };
        text.push_str(&format!("{name:20} {products:>9} {worst:>12.4} {seconds:>9.2}{verdict}\n"));
        wrong.iter().take(5).for_each(|what| text.push_str(&format!("    {what}\n")));
        list.push(json!({ "name": name, "products": products, "max_error": worst.min(f64::MAX), "seconds": seconds,
            "wrong": wrong }));
    }
    if !claims.is_empty() {
        text.push_str(&format!("\n{:28} {:>9}\n", "claim", "seconds"));
    }
    claims.iter().for_each(|claim| claim.line(&mut text));
    let ok = rows.iter().all(|row| row.wrong.is_empty()) && claims.iter().all(Claim::holds);
    let nothing = rows.is_empty() && claims.iter().all(Claim::is_skipped);
    let status = match (ok, left) {
        (false, _) => Status::Wrong,
        (true, 1..) => Status::Refused,
        (true, 0) if nothing => Status::Uncompared,
        (true, 0) => Status::Fine,
    };
    text.push_str(&match status {
        Status::Wrong => "\nWRONG\n".to_string(),
        Status::Uncompared => "\nNOT COMPARED: everything was skipped\n".into(),
        _ if left > 0 => format!("\nright so far; interrupted, {left} not begun\n"),
        _ => "\nall right\n".into(),
    });
    let json = json!({ "device": device.to_string(), "ok": status == Status::Fine, "left": left, "rows": list,
        "claims": claims.iter().map(Claim::json).collect::<Vec<_>>() });
    Reply { text, json, status }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::Device;

    use super::claims::{Claim, Trouble};
    use super::{edges, kinds, reply};
    use crate::reply::Status;

    /// What this machine cannot show is not right, if there is nothing else.
    #[test]
    fn skipped_claims_alone_are_no_success() {
        let device = Device::interpreter();
        let skipped = || Claim::test("skipped", || Err(Trouble::Skipped("no second GPU".into())));
        let fine = || Claim::test("fine", || Ok("seen".into()));
        let status = |claims: &[Claim], left| reply(&device, &[], claims, left).status;
        assert_eq!(status(&[skipped()], 0), Status::Uncompared);
        assert_eq!(status(&[skipped(), fine()], 0), Status::Fine);
        assert_eq!(status(&[fine()], 2), Status::Refused);
        assert_eq!(status(&[Claim::test("wrong", || Err(Trouble::Wrong("no".into())))], 0), Status::Wrong);
    }

    #[test]
    fn every_kind_is_right() {
        let device = Device::interpreter();
        for (name, schedule) in kinds::schedules() {
            let row = edges(name, Ok(schedule), &device, true);
            assert!(row.wrong.is_empty() && row.products > 2, "{}: {:?}", row.name, row.wrong);
        }
    }

    /// The only element of D has no bound, if what divides it may be 0.
    #[test]
    fn a_product_that_cannot_be_compared_is_not_wrong() {
        let (name, schedule) = kinds::schedules().find(|(name, _)| name == "quotients").unwrap();
        let row = edges(name, Ok(schedule), &Device::interpreter(), false);
        assert!(row.wrong.is_empty() && row.compared > 0, "{:?}", row.wrong);
    }
}
