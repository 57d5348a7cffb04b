//! Transcendental functions of an epilogue: each against its value in f64, over the whole range of its argument.

use ptx_gemm::builder::Function;
use ptx_gemm::{CompiledGemm, DType, Device, Matrix, Schedule};
use ptx_gemm_check::bound::{Estimate, Rounding};
use ptx_gemm_check::epilogue::{APPROXIMATE, Operands, evaluate};
use ptx_gemm_dsl::words::Word;
use ptx_gemm_runtime::random::SplitMix64;

/// Arguments of every magnitude, including the critical points of the functions.
fn arguments() -> Vec<f32> {
    let mut numbers = SplitMix64::new(7);
    let mut all = vec![0.0, -0.0, 1.0, -1.0, 4.0, -4.0, 7.998, -7.998, 88.72, -87.3, -103.9, 1e-38, 1e-45, 1e30, -1e30];
    for _ in 0..6000 {
        let sign = numbers.next_signed() as f32;
        all.push(10.0 * sign);
        all.push(100.0 * sign);
        all.push(sign * 10f32.powf(8.0 * numbers.next_signed() as f32));
    }
    all
}

/// The function of each argument, computed by a kernel.
fn computed(name: &str, arguments: &[f32]) -> (Schedule, Vec<f32>) {
    let text = format!("tile(256, 1); thread(1, 1); lanes(along = m); shared(none); epilogue(|acc| {name}(acc));");
    let schedule: Schedule = text.parse().unwrap();
    let gemm = CompiledGemm::new(&schedule, &Device::interpreter()).unwrap();
    let a = Matrix::from_fn(arguments.len(), 1, |row, _| arguments[row]);
    let one = Matrix::from_fn(1, 1, |_, _| 1.0f32);
    let mut d = Matrix::<f32>::zeros(arguments.len(), 1);
    gemm.call().multiply_into(&a, &one, &mut d).unwrap();
    (schedule, d.as_slice().to_vec())
}

#[test]
fn functions_are_as_precise_as_the_language_says() {
    let arguments = arguments();
    for (name, function) in Function::TABLE.iter().filter(|(_, function)| function.is_transcendental()) {
        let (schedule, values) = computed(name, &arguments);
        let epilogue = schedule.problem().unwrap().epilogue;
        let mut worst = 0.0f64;
        for (x, got) in arguments.iter().zip(values) {
            let acc = Estimate::exact(f64::from(*x));
            let operands = Operands { acc, c: 0.0, row: 0, col: 0, scalars: &[], vectors: &[] };
            let expected = evaluate(&epilogue, &operands, Rounding::of(DType::F32), APPROXIMATE);
            // A value beyond the largest number is infinite.
            if expected.value > f64::from(f32::MAX) {
                assert_eq!(got, f32::INFINITY, "{name}({x})");
                continue;
            }
            let error = (f64::from(got) - expected.value).abs();
            assert!(error <= expected.error, "{name}({x}) is {got}, not {expected:?}");
            // Near 0 the bound is that of subnormal numbers.
            if expected.value.abs() > 1e-30 {
                worst = worst.max(error / expected.error);
            }
        }
        assert!(worst > 1.0 / 16.0, "{name}: the bound is far from what was found, {worst}; {function:?}");
    }
}

#[test]
fn functions_of_infinities_and_nan() {
    const INF: f32 = f32::INFINITY;
    let of = |name: &str| computed(name, &[-INF, INF, f32::NAN]).1;
    for (name, low, high) in [
        ("exp", 0.0, INF),
        ("tanh", -1.0, 1.0),
        ("sigmoid", 0.0, 1.0),
        ("gelu", 0.0, INF),
        ("gelu_tanh", 0.0, INF),
        ("silu", 0.0, INF),
    ] {
        let values = of(name);
        assert_eq!(values[..2], [low, high], "{name}");
        assert!(values[2].is_nan(), "{name}");
    }
}
