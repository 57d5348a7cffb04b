//! Kernels that are wrong in ways that only suitable data reveal: computed in a narrower type than stated, or with
//! garbage from memory instead of a zero.

use half::{bf16, f16};
use ptx_gemm_check::{Outcome, Request, Size, check, edge_requests};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_interp::{Checks, Options};
use ptx_gemm_runtime::{CompiledGemm, Device, Element, InterpreterOptions, MatrixRef};

/// A device that checks only results, as a GPU does.
fn device() -> Device {
    let options = Options { checks: Checks::Off, ..Options::default() };
    Device::interpreter_with(InterpreterOptions { options, misalign: 0 })
}

fn compile(clauses: &str) -> CompiledGemm {
    let schedule: Schedule = clauses.parse().unwrap();
    CompiledGemm::new(&schedule, &device()).unwrap()
}

/// The kernel with `edit` applied to every line of its PTX, and with registers of a type added.
fn edited(gemm: &CompiledGemm, registers: &str, edit: impl Fn(&str) -> String) -> CompiledGemm {
    let mut changed = 0;
    let mut text = String::new();
    for line in gemm.ptx().lines() {
        let new = edit(line);
        changed += usize::from(new != line);
        text.push_str(&new);
        text.push('\n');
        if line == "{" {
            text.push_str(&format!("    {registers}\n"));
        }
    }
    assert!(changed > 0, "no line was edited:\n{}", gemm.ptx());
    CompiledGemm::from_kernel(gemm.kernel().edited(&text).unwrap(), &device()).unwrap()
}

/// The first operand of an instruction.
fn first_operand(line: &str) -> &str {
    line.split_once('%').map_or("", |(_, rest)| rest.split([',', ';', ' ']).next().unwrap_or(""))
}

/// Converts a register's value to a narrower type and back, after the instruction that sets it.
fn through(line: &str, opcode: &str, register: &str, narrow: [&str; 2]) -> String {
    let to = first_operand(line);
    if !line.trim_start().starts_with(opcode) || !to.starts_with(register) {
        return line.into();
    }
    let [there, back] = narrow;
    format!("{line}\n    cvt.{there} %narrow, %{to};\n    cvt.{back} %{to}, %narrow;")
}

fn outcome(gemm: &CompiledGemm, request: &Request) -> Outcome {
    check(gemm, request).unwrap_or_else(|e| panic!("{request:?}: {e}"))
}

/// A type, what is narrowed in it (an instruction and the register that it sets), and the conversions.
const NARROW: [(&str, &str, &str, &str, [&str; 2]); 7] = [
    ("f64", ".reg .f32 %narrow;", "fma.rn.f64", "acc", ["rn.f32.f64", "f64.f32"]),
    ("f64", ".reg .f32 %narrow;", "ld.shared.f64", "a", ["rn.f32.f64", "f64.f32"]),
    ("f64", ".reg .f32 %narrow;", "ld.shared.f64", "b", ["rn.f32.f64", "f64.f32"]),
    ("f32", ".reg .b16 %narrow;", "fma.rn.f32", "acc", ["rn.f16.f32", "f32.f16"]),
    ("f32", ".reg .b16 %narrow;", "ld.shared.f32", "a", ["rn.f16.f32", "f32.f16"]),
    ("a = bf16, b = bf16, d = f32", ".reg .b16 %narrow;", "fma.rn.f32", "acc", ["rn.bf16.f32", "f32.bf16"]),
    ("a = f16, b = f16, d = f32", ".reg .b16 %narrow;", "fma.rn.f32", "acc", ["rn.f16.f32", "f32.f16"]),
];

#[test]
fn a_kernel_that_computes_in_a_narrower_type_is_found() {
    for (dtype, registers, opcode, register, conversions) in NARROW {
        let right = compile(&format!("types({dtype}); tile(16, 16, 4); thread(2, 2); target(sm_80)"));
        let wrong = edited(&right, registers, |line| through(line, opcode, register, conversions));
        // One product per element is the smallest case that can show it.
        for k in [1, 4, 33] {
            let request = Request::random(20, 18, k);
            let (good, bad) = (outcome(&right, &request), outcome(&wrong, &request));
            assert!(good.is_right(), "{dtype}, k = {k}: {good}");
            // With a single product the f64 reference is exactly the same number.
            assert!(good.max_error > 0.0 || k == 1, "{dtype}, k = {k}: {good}");
            assert!(!bad.is_right(), "{dtype}, k = {k}: {opcode} %{register} through {conversions:?}: {bad}");
        }
    }
}

/// Guards of loads at the edges that let a lane read the first element of its matrix and multiply it by zero: the
/// memory checks are off, and only a NaN in the first element can show it.
#[test]
fn what_a_lane_without_work_reads_is_found() {
    let right =
        compile("tile(16, 16, 4); thread(2, 2); shared(none); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)");
    let size = Size::new(19, 17, 7);
    let sees = |gemm: &CompiledGemm| {
        (0..12)
            .flat_map(|turn| edge_requests(gemm.kernel(), size, turn))
            .any(|request| !outcome(gemm, &request).is_right())
    };
    assert!(!sees(&right));
    // Each product adds 0 times the first element of A, which is the first parameter.
    let wrong = edited(&right, ".reg .f32 %extra;\n    .reg .b64 %first;", |line| {
        let to = first_operand(line);
        match line.trim_start().starts_with("fma.rn.f32") && to.starts_with("acc") {
            true => format!(
                "{line}\n    ld.param.u64 %first, [a];\n    ld.global.f32 %extra, [%first];\n    \
                 fma.rn.f32 %{to}, %extra, 0f00000000, %{to};"
            ),
            false => line.into(),
        }
    });
    assert!(sees(&wrong), "0 times the first element of A is not seen");
    // Without special values it goes unnoticed: the products are the same.
    assert!(outcome(&wrong, &Request::random(size.m, size.n, size.k)).is_right());
}

/// `alpha = 0` and `beta = 0` drop what they multiply without reading it; here a kernel multiplies by them instead.
#[test]
fn a_scalar_of_zero_that_does_not_drop_is_found() {
    let right = compile("tile(16, 16, 4); thread(2, 2); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)");
    for (scalar, request) in [
        ("alpha", Request::random(5, 6, 7).set("alpha", 0.0).set("beta", 1.0)),
        ("beta", Request::random(5, 6, 7).set("alpha", 1.0).set("beta", 0.0)),
    ] {
        assert!(outcome(&right, &request).is_right(), "{scalar}");
        // The comparison with zero, changed to a number that no scalar has.
        let wrong = edited(&right, "", |line| match line.contains("setp.") && line.contains("0f00000000") {
            true => line.replace("0f00000000", "0f42F60000"),
            false => line.into(),
        });
        assert!(!outcome(&wrong, &request).is_right(), "{scalar} = 0 multiplies, and is not found");
    }
}

/// Types, the start of the instructions that are replaced, what is replaced in them, and by what.
const CONVERTED_WRONGLY: [(&str, &str, &str, &str); 9] = [
    // D is truncated, or rounded up where there is a tie.
    ("types(f16)", "cvt.rn.f16.f32 %d", "cvt.rn", "cvt.rz"),
    ("types(bf16); target(sm_80)", "cvt.rn.bf16.f32 %d", "cvt.rn", "cvt.rz"),
    ("types(bf16); target(sm_75)", "add.u32 %t", ", 32767;", ", 0;"),
    ("types(bf16); target(sm_75)", "add.u32 %t", ", 32767;", ", 32768;"),
    // An operand is read as the other type, or with bits that it does not have.
    ("types(f16)", "cvt.f32.f16 %wa", "cvt.f32.f16", "cvt.f32.bf16"),
    ("types(f16, d = f32)", "cvt.f32.f16 %wb", "cvt.f32.f16", "cvt.f32.bf16"),
    ("types(bf16)", "mov.b32 %wa", "{0, %a", "{%a0, %a"),
    ("types(bf16, d = f32)", "mov.b32 %wb", "{0, %b", "{%b0, %b"),
    ("types(f32, c = f16)", "cvt.f32.f16 %e", "cvt.f32.f16", "cvt.f32.bf16"),
];

#[test]
fn a_conversion_that_is_wrong_is_found() {
    for (types, instruction, from, to) in CONVERTED_WRONGLY {
        let target = if types.contains("target") { "" } else { "; target(sm_80)" };
        let right = compile(&format!(
            "{types}{target}; tile(16, 16, 4); thread(2, 2); epilogue(|acc, c, beta| acc + beta * c)"
        ));
        let wrong = edited(&right, "", |line| match line.trim_start().starts_with(instruction) {
            true => line.replace(from, to),
            false => line.into(),
        });
        let found = |request: Request| {
            let request = request.set("beta", 2.0);
            let good = outcome(&right, &request);
            assert!(good.is_right(), "{types}: {good}");
            !outcome(&wrong, &request).is_right()
        };
        // Exact sums of this length are ties now and then.
        let requests = [Request::random(40, 36, 33), Request::exact(20, 18, 1500)];
        assert!(requests.map(found).contains(&true), "{types}: {instruction} with {to} is not found");
    }
}

/// Numbers around those at which rounding goes wrong: ties, what is just above and below one, the largest and the smallest
/// numbers of a type and their neighbours, and those that round to infinity or to 0.
fn awkward() -> Vec<f64> {
    let places = [7, 8, 9, 10, 11, 12, 23, 24, 25];
    let mut all = vec![f64::INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 1.0, 65504.0, 65519.0, 65520.0, 65521.0];
    for exponent in [-149, -134, -133, -126, -25, -24, -15, -14, -1, 0, 9, 15, 127] {
        for place in places {
            for sticky in [0.0, 1.0, -1.0] {
                for last in [1.0, 3.0] {
                    let fraction = last * 2f64.powi(-place) + sticky * 2f64.powi(-40);
                    all.push((1.0 + fraction) * 2f64.powi(exponent));
                    all.push(fraction * 2f64.powi(exponent));
                }
            }
        }
    }
    all.extend(all.clone().into_iter().map(|value| -value));
    all
}

/// Stores numbers in a type, by each target's way of converting.
fn stored<T: Element, D: Element>(target: &str, values: &[f64]) -> Vec<D> {
    let (t, d) = (T::DTYPE, D::DTYPE);
    let gemm = compile(&format!("types({t}, d = {d}); target({target}); tile(16, 16, 4); thread(2, 2)"));
    let values: Vec<T> = values.iter().map(|value| T::from_f64(*value)).collect();
    let one = [T::from_f64(1.0)];
    let (a, b) = (MatrixRef::new(&values, values.len(), 1), MatrixRef::new(&one, 1, 1));
    gemm.call().multiply_as::<D>(&a, &b).unwrap().as_slice().to_vec()
}

#[test]
fn every_target_rounds_to_nearest_even_once() {
    fn compare<T: Element, D: Element>() {
        let values = awkward();
        for target in ["sm_75", "sm_80", "sm_90", "sm_120"] {
            for (value, got) in values.iter().zip(stored::<T, D>(target, &values)) {
                let expected = D::from_f64(T::from_f64(*value).to_f64()).to_f64();
                let (t, d, got) = (T::DTYPE, D::DTYPE, got.to_f64());
                let same = got == expected || got.is_nan() && expected.is_nan();
                assert!(same, "{target}: {value:e} as {t}, stored as {d}, is {got:e} instead of {expected:e}");
            }
        }
    }
    compare::<f32, f16>();
    compare::<f32, bf16>();
    compare::<f64, f16>();
    compare::<f64, bf16>();
    // The value that is read is exact.
    compare::<f16, f32>();
    compare::<bf16, f32>();
    compare::<f16, bf16>();
}

/// A C wider than the accumulators is rounded once when it is read, and the reference does the same.
#[test]
fn a_wide_c_is_rounded_to_the_type_of_the_epilogue() {
    for epilogue in ["|acc, c| c", "|acc, c, alpha| alpha * acc - c", "|acc, c| max(c, acc)"] {
        let text = format!("tile(8, 8, 4); thread(2, 2); types(f32, c = f64); epilogue({epilogue})");
        let gemm = CompiledGemm::new(&text.parse().unwrap(), &Device::interpreter()).unwrap();
        for k in [0, 1, 5] {
            let outcome = check(&gemm, &Request::random(25, 21, k)).unwrap();
            assert!(outcome.is_right(), "{epilogue}: {outcome:?}");
        }
    }
}

/// Sums of integers leave as floats: exchanged as integers, converted once, scaled and stored in f32 arithmetic, by threads and by
/// TMA.
#[test]
fn sums_of_integers_are_scaled_as_floats() {
    let scales = "epilogue(|acc, c, of_row, of_column| acc * of_row[m] * of_column[n] + c)";
    for clauses in [
        "types(a = i8, b = u8, d = f32); layout(b = col); tile(32, 32, 32); warp(16, 16); atom(mma(16, 8, 32)); load(cp_async); stages(2)",
        "types(a = i8, b = i8, c = f32, d = bf16); tile(64, 64, 128); atom(wgmma(64, 64, 32)); load(tma); stages(2)",
        "types(a = u8, b = i8, d = f16); layout(b = col); tile(64, 64, 128); atom(wgmma(64, 64, 32)); load(tma); stages(2); \
         specialize(producers = 1); persistent; store(tma)",
        "types(a = i8, b = i8, d = bf16); tile(32, 32, 32); warp(16, 16); atom(mma(16, 8, 32)); split_k(3, reduce = workspace)",
        "types(a = i8, b = i8, d = bf16); tile(64, 64, 128); atom(wgmma(64, 64, 32)); load(tma); stages(2); split_k(2)",
        "types(a = i8, b = i8, d = f32); tile(64, 64, 128); atom(wgmma(64, 64, 32)); load(tma); stages(2); \
         split_k(2, reduce = cluster)",
        "types(a = u8, b = i8, d = bf16); tile(64, 64, 128); atom(wgmma(64, 64, 32)); load(tma); stages(2); \
         specialize(producers = 1); persistent(2); stream_k",
    ] {
        let gemm = CompiledGemm::new(&format!("{clauses}; {scales}").parse().unwrap(), &Device::interpreter()).unwrap();
        // Sums beyond 2^24 as well, which f32 rounds.
        for request in [Request::exact(70, 65, 130), Request::random(70, 65, 130), Request::random(33, 64, 2048)] {
            let outcome = check(&gemm, &request).unwrap();
            assert!(outcome.is_right(), "{clauses}: {request:?}: {outcome:?}");
        }
    }
    let by_threads = "types(i8, d = bf16); tile(8, 8, 8); thread(2, 2);".parse::<Schedule>().unwrap();
    assert!(by_threads.check().unwrap_err().to_string().contains("cannot hold what acc = i32 computes"));
}
