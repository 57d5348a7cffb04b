//! Products on interpreter devices: correct at every size, in every order, and with every fault.

use ptx_gemm_dsl::{Layout, Schedule};

use crate::CompiledGemm;
use crate::device::Device;
use crate::interpreter::InterpreterOptions;
use crate::large::host::Host;
use crate::large::perform::perform;
use crate::large::plan::{Addend, Links, Tuning};
use crate::large::races::races;
use crate::large::run::executor;
use crate::large::site::{Constants, Site};
use crate::large::{Action, Arguments, Failure, Large, LargeError, Plan, PlanError, Progress, shuffled};
use crate::matrix::Matrix;
use crate::shape::Shape;
use crate::view::{AsMatrix, AsMatrixMut};
use ptx_gemm_dsl::sums::Sums;

pub(super) fn devices(count: usize) -> Vec<Device> {
    (0..count).map(|_| Device::interpreter_with(InterpreterOptions::default())).collect()
}

/// Small integers, so that sums are exact in every order.
pub(super) fn integers(rows: usize, cols: usize, layout: Layout, ld: usize, seed: u64) -> Matrix<f32> {
    let mut matrix = Matrix::in_shape(Shape { ld, ..Shape::packed(rows, cols, layout) }, f32::NAN);
    let values = Matrix::<i32>::random(rows, cols, seed);
    for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
        matrix[(row, col)] = values[(row, col)] as f32;
    }
    matrix
}

/// The result of the schedule itself, in memory.
fn expected<D: AsMatrixMut>(
    schedule: &Schedule,
    (a, b): (&impl AsMatrix, &impl AsMatrix),
    c: Option<&Matrix<f32>>,
    scalars: &[(&str, f64)],
    bias: Option<&[f32]>,
    mut d: D,
) -> D {
    let gemm = CompiledGemm::new(schedule, &Device::interpreter()).unwrap();
    let mut call = gemm.call();
    if let Some(c) = c {
        call = call.c(c);
    }
    if let Some(bias) = bias {
        call = call.vector("bias", bias);
    }
    let call = scalars.iter().fold(call, |call, (name, value)| call.set(name, *value));
    call.multiply_into(a, b, &mut d).unwrap();
    d
}

const TUNING: Tuning = Tuning { depth: Some(8), ring: Some(2), strips: Some(2) };

#[test]
fn every_size_layout_and_epilogue_is_right() {
    let (row, col) = (Layout::Row, Layout::Col);
    let plain = "epilogue(|acc| acc);";
    let cases = [
        ("", plain, [row, row, row, row]),
        (
            "layout(a = col, b = row, c = col, d = row);",
            "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);",
            [col, row, col, row],
        ),
        (
            "layout(a = row, b = col, c = col, d = col);",
            "epilogue(|acc, c, alpha, beta| relu(alpha * acc + beta * c));",
            [row, col, col, col],
        ),
        ("split_k(2);", "epilogue(|acc, bias, alpha| relu(alpha * acc + bias[n]) - acc);", [row, row, row, row]),
    ];
    for (clauses, epilogue, layouts) in cases {
        let schedule: Schedule = format!("tile(8, 8, 4); thread(2, 2); {clauses} {epilogue}").parse().unwrap();
        let names = schedule.problem().unwrap().epilogue;
        for (m, n, k) in [(37, 29, 30), (8, 8, 8), (1, 1, 1), (0, 5, 3), (5, 0, 3), (20, 17, 0), (3, 40, 9)] {
            for (count, links) in [(1, Links::All), (3, Links::All), (4, Links::Host)] {
                let [la, lb, lc, ld] = layouts;
                let odd = |rows, cols, layout: Layout| Shape::packed(rows, cols, layout).ld + 3;
                let a = integers(m, k, la, odd(m, k, la), 1);
                let b = integers(k, n, lb, odd(k, n, lb), 2);
                let c = integers(m, n, lc, odd(m, n, lc), 3);
                let bias: Vec<f32> = (0..n).map(|col| col as f32 - 7.0).collect();
                let scalars: Vec<(&str, f64)> = names.scalars.iter().map(String::as_str).zip([2.0, -3.0]).collect();
                let mut d = integers(m, n, ld, odd(m, n, ld), 4);
                let with_c = names.uses_c().then_some(&c);
                let with_bias = (!names.vectors.is_empty()).then_some(&bias[..]);
                let want = expected(&schedule, (&a, &b), with_c, &scalars, with_bias, d.clone());
                let large = Large::new(&schedule).unwrap().devices(&devices(count)).budget(6000).links(links);
                let large = large.tuning(TUNING);
                let mut arguments = scalars.iter().fold(Arguments::new(), |all, (name, value)| all.set(name, *value));
                if with_c.is_some() {
                    arguments = arguments.c(&c);
                }
                if let Some(bias) = with_bias {
                    arguments = arguments.vector("bias", bias);
                }
                let run = large.run(&mut d, &a, &b, &mut arguments);
                let run = run.unwrap_or_else(|error| panic!("{m} x {n} x {k}, {schedule}: {error}"));
                // Equal bits, including those of the padding.
                let bits = |matrix: &Matrix<f32>| matrix.as_slice().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&d), bits(&want), "{m} x {n} x {k} on {count}, {schedule}\n{}", run.plan);
            }
        }
    }
}

#[test]
fn other_types_are_summed_in_their_accumulator() {
    fn check<T: crate::Element>(dtype: &str) {
        let clauses = "tile(8, 8, 4); thread(2, 2); epilogue(|acc, c, beta| acc + beta * c);";
        let schedule: Schedule = format!("types({dtype}); {clauses}").parse().unwrap();
        let matrix = |rows, cols, seed| {
            let values = Matrix::<i32>::random(rows, cols, seed);
            Matrix::<T>::from_fn(rows, cols, |row, col| T::from_f64(f64::from(values[(row, col)])))
        };
        let (a, b, c) = (matrix(30, 50, 1), matrix(50, 20, 2), matrix(30, 20, 3));
        let gemm = CompiledGemm::new(&schedule, &Device::interpreter()).unwrap();
        let want = gemm.c(&c).set("beta", 2).multiply(&a, &b).unwrap();
        let mut d = matrix(30, 20, 9);
        let large = Large::new(&schedule).unwrap().devices(&devices(2)).tuning(TUNING).budget(12_000);
        let run = large.run(&mut d, &a, &b, &mut Arguments::new().c(&c).set("beta", 2)).unwrap();
        assert!(run.plan.geometry.slabs > 1, "{}", run.plan);
        assert_eq!(d, want);
    }
    check::<f64>("f64");
    check::<i32>("i32");
}

/// A scalar of 0 drops its factor without reading it, even if K is divided.
#[test]
fn what_is_dropped_is_not_read() {
    let schedule: Schedule =
        "tile(8, 8, 4); thread(2, 2); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);".parse().unwrap();
    let nan = |rows, cols| Matrix::from_fn(rows, cols, |_, _| f32::NAN);
    let good = |rows, cols| Matrix::from_fn(rows, cols, |_, _| 1.0f32);
    let large = Large::new(&schedule).unwrap().devices(&devices(2)).tuning(TUNING).budget(6000);
    let mut d = nan(20, 20);
    let c = good(20, 20);
    let mut arguments = Arguments::new().c(&c).set("alpha", 0).set("beta", 3);
    let run = large.run(&mut d, &nan(20, 30), &nan(30, 20), &mut arguments).unwrap();
    assert!(d.as_slice().iter().all(|x| *x == 3.0), "{d:?}");
    let uploads = |operand| {
        let of = move |action: &Action| matches!(action, Action::Upload { operand: found, .. } if *found == operand);
        run.plan.operations.iter().filter(|operation| of(&operation.action)).count()
    };
    assert_eq!(uploads(ptx_gemm_dsl::terms::Operand::A), 0);
    assert_eq!(large.clone().planned_with(&[0.0, 3.0]).plan(20, 20, 30).unwrap(), run.plan);
    // C need not even exist.
    let mut arguments = Arguments::new().set("alpha", 1).set("beta", 0);
    large.run(&mut d, &good(20, 30), &good(30, 20), &mut arguments).unwrap();
    assert!(d.as_slice().iter().all(|x| *x == 30.0), "{d:?}");
}

#[test]
fn wrong_arguments_are_errors_before_anything_runs() {
    let schedule: Schedule = "tile(8, 8, 4); thread(2, 2); epilogue(|acc, c, beta| acc + beta * c);".parse().unwrap();
    let large = Large::new(&schedule).unwrap().devices(&devices(2)).budget(6000);
    let (a, b, c) = (Matrix::<f32>::zeros(9, 8), Matrix::<f32>::zeros(8, 7), Matrix::<f32>::zeros(9, 7));
    let refused = |a: &dyn Fn() -> Matrix<f32>, arguments: &mut Arguments<'_>| {
        let mut d = Matrix::<f32>::zeros(9, 7);
        large.run(&mut d, &a(), &b, arguments).unwrap_err().to_string()
    };
    let words = refused(&|| a.clone(), &mut Arguments::new().c(&c));
    assert!(words.contains("beta"), "{words}");
    let words = refused(&|| a.clone(), &mut Arguments::new().set("beta", 1));
    assert!(words.contains('C') || words.contains("`c`"), "{words}");
    let words = refused(&|| Matrix::zeros(9, 9), &mut Arguments::new().c(&c).set("beta", 1));
    assert!(words.contains("B needs 9 rows"), "{words}");
    let mut narrow = Matrix::<f64>::zeros(9, 7);
    assert!(large.run(&mut narrow, &a, &b, &mut Arguments::new().c(&c).set("beta", 1)).is_err());
    let batched: Schedule = "tile(8, 8, 4); thread(2, 2); batch(strided);".parse().unwrap();
    assert_eq!(Large::new(&batched).unwrap_err(), LargeError::Batched);
    let nobody = Large::new(&schedule).unwrap().devices(&devices(1)).budget(100).plan(10, 10, 10).unwrap_err();
    assert!(matches!(nobody, LargeError::Plan(PlanError::Budget { .. })), "{nobody}");
}

/// A product that is small enough for a thousand runs, with every kind of operation and several rounds.
struct Small {
    plan: Plan,
    sums: Sums,
    devices: Vec<Device>,
    a: Matrix<f32>,
    b: Matrix<f32>,
    c: Matrix<f32>,
    want: Matrix<f32>,
}

impl Small {
    fn new() -> Small {
        let clauses = "tile(4, 4, 4); thread(2, 2); epilogue(|acc, c| relu(acc + c));";
        let schedule: Schedule = clauses.parse().unwrap();
        let (m, n, k) = (14, 10, 11);
        let packed = |rows, cols, seed| integers(rows, cols, Layout::Row, cols, seed);
        let (a, b, c) = (packed(m, k, 1), packed(k, n, 2), packed(m, n, 3));
        let want = expected(&schedule, (&a, &b), Some(&c), &[], None, Matrix::zeros(m, n));
        // Without the interpreter's own checks, which would take most of the time: only the order is tested.
        let mut options = InterpreterOptions::default();
        options.options.checks = crate::interp::Checks::Off;
        let devices: Vec<Device> = (0..4).map(|_| Device::interpreter_with(options.clone())).collect();
        let tuning = Tuning { depth: Some(4), ring: Some(2), strips: Some(2) };
        let large = Large::new(&schedule).unwrap().devices(&devices).budget(3100).tuning(tuning);
        let plan = large.plan(m, n, k).unwrap();
        assert!(plan.geometry.rounds.iter().product::<usize>() > 1 && plan.geometry.slabs > 2, "{plan}");
        assert!(plan.operations.iter().any(|operation| matches!(operation.action, Action::Receive { .. })));
        assert_eq!(plan.request.addend, Addend::Read);
        Small { plan, sums: Sums::of(&schedule).unwrap(), devices, a, b, c, want }
    }

    fn sites(&self) -> Vec<Option<Site>> {
        let site = |device| Site::new(device, self.plan.needs(), &self.sums, &Constants::default(), [0, 0]);
        self.devices.iter().map(|device| Some(site(device).unwrap())).collect()
    }

    /// D after the operations in this order, and the first failure.
    fn run(&self, sites: &[Option<Site>], plan: &Plan, order: Vec<usize>) -> Result<Matrix<f32>, Box<Failure>> {
        let mut d = Matrix::from_fn(self.want.rows(), self.want.cols(), |_, _| f32::NAN);
        let mut host = Host {
            a: self.a.as_any().unwrap(),
            b: self.b.as_any().unwrap(),
            c: Some(self.c.as_any().unwrap()),
            d: d.as_any_mut().unwrap(),
            origin: [0, 0],
        };
        let mut executor = executor(sites, &mut host).unwrap_or_else(|(_, error)| panic!("{error}"));
        let performed = perform(plan, order.into_iter(), &mut *executor, &mut |_| ());
        drop(executor);
        performed.failures.into_iter().next().map_or(Ok(d), |failure| Err(failure.into()))
    }
}

#[test]
fn a_thousand_orders_have_one_result() {
    let small = Small::new();
    let sites = small.sites();
    assert!(races(&small.plan.operations).is_empty());
    for seed in 0..1000 {
        let d = small.run(&sites, &small.plan, shuffled(&small.plan.operations, seed));
        assert_eq!(d.as_ref(), Ok(&small.want), "order {seed}");
    }
}

/// The test above can fail: without its waits, the same plan gives wrong results in most orders.
#[test]
fn without_events_the_order_matters() {
    let small = Small::new();
    let sites = small.sites();
    let mut plan = small.plan.clone();
    plan.operations.retain(|operation| !matches!(operation.action, Action::Wait(_) | Action::Record(_)));
    let wrong = |seed: &u64| small.run(&sites, &plan, shuffled(&plan.operations, *seed)).as_ref() != Ok(&small.want);
    let wrong = (0..20).filter(wrong).count();
    assert!(wrong > 10, "{wrong} of 20 orders without events are wrong");
}

#[test]
fn progress_reaches_the_end() {
    let schedule: Schedule = "tile(8, 8, 4); thread(2, 2);".parse().unwrap();
    let (a, b) = (Matrix::<f32>::random(30, 20, 1), Matrix::<f32>::random(20, 40, 2));
    let mut d = Matrix::<f32>::zeros(30, 40);
    let mut seen = Vec::new();
    let large = Large::new(&schedule).unwrap().devices(&devices(2)).budget(6000).tuning(TUNING);
    large.run(&mut d, &a, &b, &mut Arguments::new().progress(|progress| seen.push(progress))).unwrap();
    assert!(seen.len() > 4 && seen.is_sorted_by_key(|progress| progress.finished));
    let last = Progress { finished: 1200, elements: 1200, multiplied: 1.0 };
    assert_eq!(seen.last(), Some(&last));
    // Slabs count before any strip of D is finished.
    assert!(seen.is_sorted_by(|before, after| before.multiplied <= after.multiplied), "{seen:?}");
    let early = seen.iter().filter(|progress| progress.finished == 0 && progress.multiplied > 0.0);
    assert!(early.count() > 1, "{seen:?}");
}

/// A plan without arguments counts the same memory as the run does.
#[test]
fn a_plan_counts_the_vectors_of_the_run() {
    let schedule: Schedule = "tile(8, 8, 4); thread(2, 2); epilogue(|acc, x, y| acc + x[m] + y[n]);".parse().unwrap();
    let (a, b) = (Matrix::<f32>::random(30, 20, 1), Matrix::<f32>::random(20, 40, 2));
    let (x, y) = (vec![1.0f32; 30], vec![2.0f32; 40]);
    let large = Large::new(&schedule).unwrap().devices(&devices(2)).budget(6000).tuning(TUNING);
    let mut arguments = Arguments::new().vector("x", &x).vector("y", &y);
    let run = large.run(&mut Matrix::<f32>::zeros(30, 40), &a, &b, &mut arguments).unwrap();
    assert_eq!(run.plan.request.vector_bytes, 280);
    assert_eq!(large.plan(30, 40, 20).unwrap(), run.plan);
    assert_eq!(large.plan_for(2, 6000, 30, 40, 20).unwrap().device_bytes(), run.plan.device_bytes());
}

/// The same bits with any devices and any memory, if slabs have the same depth.
#[test]
fn equal_slabs_give_equal_bits() {
    let schedule: Schedule = "tile(8, 8, 4); thread(2, 2);".parse().unwrap();
    let (a, b) = (Matrix::<f32>::random(30, 50, 1), Matrix::<f32>::random(50, 40, 2));
    let run = |count: usize, budget: u64, depth: usize| {
        let mut d = Matrix::<f32>::zeros(30, 40);
        let tuning = Tuning { depth: Some(depth), ..Tuning::default() };
        let large = Large::new(&schedule).unwrap().devices(&devices(count)).budget(budget).tuning(tuning);
        large.run(&mut d, &a, &b, &mut Arguments::new()).unwrap();
        d
    };
    let one = run(1, 1 << 20, 16);
    assert_eq!(one, run(3, 8000, 16));
    assert_eq!(one, run(4, 7000, 16));
    assert!(one != run(1, 1 << 20, 24), "other slabs are added in another order");
}
