//! Plans of launches: they compute the product, no launch is superfluous, and products by them on the interpreter are
//! right.

use std::collections::{BTreeSet, HashMap};

use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::sums::{self, Part};
use ptx_gemm_dsl::terms::Operand;

use super::kernels::kernels;
use super::plan::{Matrix as Of, Piece, Plan, Request, SUMS, Sign, View};
use crate::backend::StreamHandle;
use crate::interp::{Checks, Options, WarpOrder};
use crate::{CompiledGemm, Device, InterpreterOptions, Matrix, ResidentCall};

fn plan([m, n, k]: [usize; 3], levels: u32, reads_c: bool) -> Plan {
    Plan::new(Request { m, n, k, levels, granule: [2; 3], reads_c, takes_sums: !reads_c })
}

#[test]
fn launches_of_one_level() {
    insta::assert_snapshot!("launches", plan([8, 8, 8], 1, false));
    insta::assert_snapshot!("launches_with_c_and_remainders", plan([9, 10, 11], 1, true));
}

#[test]
fn seven_products_a_level() {
    let products = |levels| plan([32; 3], levels, false).steps.iter().filter(|step| step.b.is_some()).count();
    assert_eq!([products(1), products(2)], [7, 49]);
    let matrices = |levels| plan([32; 3], levels, false).buffers.len();
    assert_eq!([matrices(1), matrices(2)], [5, 10]);
}

#[test]
fn small_products_are_one_launch() {
    for extents in [[3, 64, 64], [64, 3, 64], [64, 64, 3], [0, 64, 64], [64, 0, 64], [64, 64, 0]] {
        assert_eq!(plan(extents, 1, false).steps.len(), 1, "{extents:?}");
    }
}

#[test]
fn what_is_compiled_is_launched() {
    let epilogues =
        ["|acc| acc", "|acc, bias| relu(acc + bias[n])", "|acc, alpha| alpha * acc", "|acc, c, beta| acc + beta * c"];
    for (epilogue, levels) in epilogues.into_iter().flat_map(|epilogue| [(epilogue, 1), (epilogue, 2)]) {
        let text = format!("tile(2, 2, 2); thread(1, 1); epilogue({epilogue}); strassen(levels = {levels});");
        let schedule: Schedule = text.parse().unwrap();
        let own = schedule.plan(None).unwrap();
        let compiled: BTreeSet<Piece> = kernels(&schedule, &own).unwrap().into_iter().map(|(piece, _)| piece).collect();
        let (reads_c, takes_sums) = (own.problem.epilogue.uses_c(), sums::takes_sums(&own.problem.epilogue));
        let of = |k| Plan::new(Request { m: 17, n: 19, k, levels, granule: [2; 3], reads_c, takes_sums });
        let steps = [16, 21].into_iter().flat_map(|k| of(k).steps);
        let mut launched: BTreeSet<Piece> = steps.map(|step| step.piece).collect();
        // It is the schedule's own kernel.
        assert!(launched.remove(&Piece::Product(Part::Whole)), "{text}");
        assert_eq!(compiled, launched, "{text}");
    }
}

/// A small number, different from its neighbours.
fn number(operand: Operand, row: usize, col: usize) -> i64 {
    let mixed = (row * 7 + col * 13 + row * col * 5 + operand as usize * 11) % 17;
    mixed as i64 - 8
}

/// The epilogue of these tests, which distinguishes the sum over k from parts of it.
fn epilogue(sum: i64, c: Option<i64>) -> i64 {
    sum * sum + 3 * c.unwrap_or(1)
}

/// Executes a plan on integers.
///
/// # Errors
/// An element that is read before it is written, or an element of D that is read or written twice.
fn run(plan: &Plan, [m, n, k]: [usize; 3]) -> Result<Vec<Option<i64>>, String> {
    let mut memory: HashMap<(Of, usize, usize), i64> = HashMap::new();
    for (operand, rows, cols) in [(Operand::A, m, k), (Operand::B, k, n), (Operand::C, m, n)] {
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            memory.insert((Of::Given(operand), row, col), number(operand, row, col));
        }
    }
    for step in &plan.steps {
        let read = |view: View, row: usize, col: usize| {
            let place = (view.of, view.row + row, view.col + col);
            if row >= view.rows || col >= view.cols || view.of == Of::Given(Operand::D) {
                return Err(format!("{place:?} is not to be read"));
            }
            memory.get(&place).copied().ok_or_else(|| format!("{place:?} is read before it is written"))
        };
        let mut written = Vec::new();
        for (row, col) in (0..step.d.rows).flat_map(|row| (0..step.d.cols).map(move |col| (row, col))) {
            let c = step.c.map(|c| read(c, row, col)).transpose()?;
            let acc = match step.b {
                Some(b) => (0..step.a.cols)
                    .map(|i| Ok::<i64, String>(read(step.a, row, i)? * read(b, i, col)?))
                    .sum::<Result<i64, String>>()?,
                None => read(step.a, row, col)?,
            };
            let sums = c.unwrap_or(0);
            let value = match step.piece {
                Piece::Product(Part::Whole) | Piece::Epilogue(Part::Whole) => epilogue(acc, c),
                Piece::Product(Part::First) | Piece::Epilogue(Part::First) => acc,
                Piece::Product(Part::Middle) | Piece::Epilogue(Part::Middle) => acc + sums,
                Piece::Product(Part::Last) | Piece::Epilogue(Part::Last) => epilogue(acc + sums, None),
                Piece::Sum(_, Sign::Plus) => acc + sums,
                Piece::Sum(_, Sign::Minus) => acc - sums,
                Piece::Sum(_, Sign::Reversed) => sums - acc,
            };
            written.push(((step.d.of, step.d.row + row, step.d.col + col), value));
        }
        for (place, value) in written {
            if memory.insert(place, value).is_some() && place.0 == Of::Given(Operand::D) {
                return Err(format!("{place:?} is written twice"));
            }
        }
    }
    let all = (0..m).flat_map(|row| (0..n).map(move |col| (row, col)));
    Ok(all.map(|(row, col)| memory.get(&(Of::Given(Operand::D), row, col)).copied()).collect())
}

fn expected([m, n, k]: [usize; 3], reads_c: bool) -> Vec<Option<i64>> {
    let all = (0..m).flat_map(|row| (0..n).map(move |col| (row, col)));
    let sum = |row, col| (0..k).map(|i| number(Operand::A, row, i) * number(Operand::B, i, col)).sum();
    all.map(|(row, col)| Some(epilogue(sum(row, col), reads_c.then(|| number(Operand::C, row, col))))).collect()
}

#[test]
fn every_size_is_right() {
    let sizes = [0, 1, 3, 4, 5, 7, 8, 11, 13, 16, 17];
    for extents in sizes.iter().flat_map(|m| sizes.iter().flat_map(|n| sizes.iter().map(|k| [*m, *n, *k]))) {
        for (levels, reads_c) in [(1, false), (1, true), (2, false), (2, true)] {
            let plan = plan(extents, levels, reads_c);
            assert_eq!(run(&plan, extents), Ok(expected(extents, reads_c)), "{extents:?}, {levels} levels\n{plan}");
        }
    }
}

/// Each kernel that is made for sums of operands is launched, and each launched kernel is made.
#[test]
fn sums_are_those_that_have_kernels() {
    let launched: BTreeSet<Piece> = plan([16; 3], 1, false).steps.iter().map(|step| step.piece).collect();
    let sums = launched.into_iter().filter(|piece| matches!(piece, Piece::Sum(..)));
    assert_eq!(sums.collect::<Vec<_>>(), SUMS.map(|(operand, sign)| Piece::Sum(operand, sign)));
}

/// Every possible fault of one launch: it is missing, has another sign, another epilogue, or another quadrant.
fn faults(plan: &Plan) -> Vec<(String, Plan)> {
    let mut all = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let mut with = |what: &str, change: &dyn Fn(&mut Vec<super::plan::Step>)| {
            let mut faulty = plan.clone();
            change(&mut faulty.steps);
            if faulty != *plan {
                all.push((format!("launch {index}, {what}"), faulty));
            }
        };
        with("left out", &|steps| steps.retain(|other| other != step));
        if let Piece::Sum(operand, _) = step.piece {
            for other in [Sign::Plus, Sign::Minus, Sign::Reversed] {
                with("another sign", &|steps| steps[index].piece = Piece::Sum(operand, other));
            }
        }
        if let Piece::Product(Part::Middle) = step.piece {
            with("without the sums before it", &|steps| {
                (steps[index].piece, steps[index].c) = (Piece::Product(Part::First), None);
            });
        }
        let moved = |view: View, (down, right): (usize, usize)| View {
            row: view.row.abs_diff(down * view.rows),
            col: view.col.abs_diff(right * view.cols),
            ..view
        };
        for to in [(0, 1), (1, 0), (1, 1)] {
            with("another A", &|steps| steps[index].a = moved(step.a, to));
            with("another B", &|steps| steps[index].b = step.b.map(|b| moved(b, to)));
            with("another C", &|steps| steps[index].c = step.c.map(|c| moved(c, to)));
            with("another D", &|steps| steps[index].d = moved(step.d, to));
        }
    }
    all
}

#[test]
fn a_fault_in_any_launch_changes_the_result() {
    for (extents, levels, reads_c) in [([8, 8, 8], 1, false), ([9, 10, 11], 1, true), ([17, 16, 18], 2, false)] {
        let right = Ok(expected(extents, reads_c));
        let plan = plan(extents, levels, reads_c);
        let faults = faults(&plan);
        assert!(faults.len() > 5 * plan.steps.len(), "{}", faults.len());
        // Those of two levels are the same in other places, and many.
        for (what, faulty) in faults.into_iter().step_by(if levels == 1 { 1 } else { 5 }) {
            assert_ne!(run(&faulty, extents), right, "{what} of {extents:?}\n{plan}");
        }
    }
}

fn of(schedule: &str, device: &Device) -> CompiledGemm {
    CompiledGemm::new(&schedule.parse::<Schedule>().unwrap(), device).unwrap()
}

fn filled(operand: Operand, rows: usize, cols: usize) -> Matrix<f32> {
    Matrix::from_fn(rows, cols, |row, col| number(operand, row, col) as f32)
}

#[test]
fn products_on_a_device() {
    let gemm = of("tile(16, 16, 4); thread(2, 2); vector(4); strassen(levels = 1)", &Device::interpreter());
    for [m, n, k] in [[32, 32, 32], [41, 35, 53], [16, 24, 8], [5, 5, 5]] {
        let (a, b) = (filled(Operand::A, m, k), filled(Operand::B, k, n));
        let d = gemm.multiply(&a, &b).unwrap();
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let sum: i64 = (0..k).map(|i| number(Operand::A, row, i) * number(Operand::B, i, col)).sum();
            assert_eq!(d.get(row, col), Some(sum as f32), "{row}, {col} of {m} x {n} x {k}");
        }
    }
}

/// The size of the workspace is known before the launch. It includes what split-K of all launches needs.
#[test]
fn the_workspace_is_stated() {
    let device = Device::interpreter();
    let bytes = |clauses: &str, size: usize| {
        of(&format!("tile(16, 16, 4); thread(2, 2); {clauses}"), &device).workspace_bytes(size, size, size, 1)
    };
    let quadrants = |size: u64| 5 * size * size;
    assert_eq!(bytes("strassen(levels = 1)", 64), quadrants(64));
    assert_eq!(bytes("strassen(levels = 2)", 64), quadrants(64) + quadrants(32));
    let split = bytes("split_k(2, reduce = workspace)", 32);
    assert_eq!(bytes("split_k(2, reduce = workspace); strassen(levels = 1)", 64), quadrants(64) + split);
}

/// The same bits in every order of warps.
#[test]
fn the_same_bits_in_each_run() {
    let mut results = Vec::new();
    for order in [WarpOrder::Forward, WarpOrder::Backward, WarpOrder::Seeded(7), WarpOrder::Forward] {
        let options = Options { checks: Checks::Full, order, ..Options::default() };
        let device = Device::interpreter_with(InterpreterOptions { options, misalign: 0 });
        let gemm = of("tile(16, 16, 4); thread(2, 2); split_k(2); strassen(levels = 2)", &device);
        let (a, b) = (Matrix::<f32>::random(50, 51, 1), Matrix::<f32>::random(51, 52, 2));
        results.push(gemm.multiply(&a, &b).unwrap());
    }
    assert!(results.iter().all(|result| *result == results[0]));
}

/// D may be C: the launch that writes a quadrant of D reads the same quadrant of C.
#[test]
fn in_place() {
    let device = Device::interpreter();
    let clauses = "tile(16, 16, 4); thread(2, 2); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)";
    let (a, b, c) = (filled(Operand::A, 37, 29), filled(Operand::B, 29, 41), filled(Operand::C, 37, 41));
    let product = |clauses: &str| {
        let mut d = c.clone();
        let gemm = of(clauses, &device);
        gemm.set("alpha", 2.0).set("beta", -3.0).accumulate_into(&a, &b, &mut d).unwrap();
        d
    };
    assert_eq!(product(&format!("{clauses}; strassen(levels = 2)")), product(clauses));
}

/// NaN and infinities reach the same elements as in an ordinary product.
#[test]
fn what_is_not_finite_is_not_lost() {
    let device = Device::interpreter();
    let (plain, quadrants) = (
        of("tile(16, 16, 4); thread(2, 2)", &device),
        of("tile(16, 16, 4); thread(2, 2); strassen(levels = 1)", &device),
    );
    for value in [f32::NAN, f32::INFINITY] {
        for (row, col) in [(3, 5), (3, 20), (20, 5), (20, 20), (32, 32)] {
            let mut a = filled(Operand::A, 33, 33);
            a.as_mut_slice()[row * 33 + col] = value;
            let b = Matrix::from_fn(33, 33, |row, col| 1.0 + ((row + col) % 3) as f32);
            let (ordinary, d) = (plain.multiply(&a, &b).unwrap(), quadrants.multiply(&a, &b).unwrap());
            for index in 0..33 * 33 {
                let (ordinary, d) = (ordinary.as_slice()[index], d.as_slice()[index]);
                assert!(ordinary.is_finite() || !d.is_finite(), "{value} at {row}, {col}: {d} for {ordinary}");
            }
        }
    }
}

/// A matrix is read in place, also from device memory, with a stride between its rows.
#[test]
fn matrices_on_the_device() {
    let device = Device::interpreter();
    let gemm = of("tile(16, 16, 4); thread(2, 2); vector(4); strassen(levels = 1)", &device);
    let (a, b) = (filled(Operand::A, 40, 40), filled(Operand::B, 40, 40));
    let resident = [&a, &b, &filled(Operand::D, 40, 40)].map(|matrix| device.upload(matrix).unwrap());
    let [in_a, in_b, d] = &resident;
    let call = ResidentCall { a: in_a, b: in_b, c: None, d, vectors: &[], scalars: &[] };
    let prepared = gemm.prepare_resident(&call).unwrap();
    prepared.enqueue(StreamHandle(0), false).unwrap();
    prepared.enqueue(StreamHandle(0), false).unwrap();
    let mut back = Matrix::from_fn(40, 40, |_, _| 0.0);
    d.download(&mut back).unwrap();
    assert_eq!(back, gemm.multiply(&a, &b).unwrap());
}
