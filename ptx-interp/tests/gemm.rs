//! The GEMM of the benchmark, with integer data, so that results are compared for equality.

use ptx_gemm_interp::{Arg, Checks, ViolationKind, WarpOrder};

use crate::gemm_text::{Element, gemm};
use crate::ring::ORDERS;
use crate::run::Device;

fn check(element: Element, m: u32, n: u32, k: u32, checks: Checks, order: WarpOrder) {
    let mut device = Device::new(&gemm(element));
    device.options.checks = checks;
    device.options.order = order;
    let value = |i: u32, seed: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) % 10;
    let a: Vec<u32> = (0..m * k).map(|i| value(i, 1)).collect();
    let b: Vec<u32> = (0..k * n).map(|i| value(i, 7)).collect();
    let upload = |label: &str, data: &[u32]| match element {
        Element::F32 => device.upload(label, &data.iter().map(|x| *x as f32).collect::<Vec<_>>()),
        Element::F64 => device.upload(label, &data.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()),
        Element::I32 => device.upload(label, data),
    };
    let (at_a, at_b) = (upload("A", &a), upload("B", &b));
    let d = device.reserve("D", u64::from(m * n * element.bytes()));
    let args = [Arg::U64(at_a), Arg::U64(at_b), Arg::U64(d), Arg::U32(n), Arg::U32(k)];
    let report = device.launch([n / 128, m / 128, 1], [256, 1, 1], &args).unwrap_or_else(|v| panic!("{v}"));
    let counted = if element == Element::I32 { report.mad } else { report.fma };
    assert!(counted >= u64::from(m) * u64::from(n) * u64::from(k));
    let words = device.words(d, (m * n * element.bytes() / 4) as usize);
    for i in 0..m {
        for j in 0..n {
            let want: u32 = (0..k).map(|l| a[(i * k + l) as usize] * b[(l * n + j) as usize]).sum();
            let at = (i * n + j) as usize;
            let got = match element {
                Element::F32 => f64::from(f32::from_bits(words[at])),
                Element::F64 => f64::from_bits(u64::from(words[2 * at]) | u64::from(words[2 * at + 1]) << 32),
                Element::I32 => f64::from(words[at]),
            };
            assert_eq!(got, f64::from(want), "{element:?} {checks:?} {order:?} at ({i}, {j})");
        }
    }
}

#[test]
fn every_element_type() {
    for element in [Element::F32, Element::F64, Element::I32] {
        check(element, 128, 256, 24, Checks::Off, WarpOrder::RunToBarrier);
        check(element, 128, 256, 24, Checks::Full, WarpOrder::RunToBarrier);
    }
}

/// Every barrier is needed, and so is switching between the buffers.
#[test]
fn mutants_die() {
    let text = gemm(Element::F32);
    let barriers = text.match_indices("bar.sync 0;").map(|(at, found)| (at, found, ""));
    let toggles = text.match_indices("xor.b32 %r2").map(|(at, found)| (at, found, "or.b32 %r2"));
    let mutants: Vec<(usize, &str, &str)> = barriers.chain(toggles).collect();
    assert_eq!(mutants.len(), 2 + 4);
    for (at, found, instead) in mutants {
        let mutant = format!("{}{instead}{}", &text[..at], &text[at + found.len()..]);
        let mut device = Device::new(&mutant);
        let (m, n, k) = (128, 128, 32);
        let (a, b) = (device.upload("A", &vec![1f32; m * k]), device.upload("B", &vec![1f32; k * n]));
        let d = device.reserve("D", (m * n * 4) as u64);
        let args = [Arg::U64(a), Arg::U64(b), Arg::U64(d), Arg::U32(n as u32), Arg::U32(k as u32)];
        for order in ORDERS {
            device.options.order = order;
            let violation = device.launch([1, 1, 1], [256, 1, 1], &args).expect_err("the mutant is wrong");
            assert_eq!(violation.kind, ViolationKind::Race, "{order:?}: {violation}");
        }
    }
}

#[test]
fn every_order_of_warps() {
    for order in [WarpOrder::Forward, WarpOrder::Backward, WarpOrder::Seeded(1), WarpOrder::Seeded(2)] {
        check(Element::F32, 128, 128, 24, Checks::Full, order);
    }
}
