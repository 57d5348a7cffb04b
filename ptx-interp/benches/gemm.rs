//! Multiply-adds per second of the double-buffered GEMM at 512 x 512 x 512. Divan's throughput column counts
//! multiply-adds as items.

#[path = "../tests/gemm_text.rs"]
mod gemm_text;

use divan::Bencher;
use divan::counter::ItemsCount;
use gemm_text::{Element, gemm};
use ptx_gemm_interp::{Arg, Checks, Launch, Memory, Options, Program, launch};

fn main() {
    divan::main();
}

/// Extents of the problem that is measured.
const EXTENT: u32 = 512;

fn run(bencher: Bencher, element: Element, checks: Checks) {
    run_sized(bencher, element, checks, EXTENT, EXTENT);
}

/// Square D of `extent`, with inner extent `depth`.
fn run_sized(bencher: Bencher, element: Element, checks: Checks, extent: u32, depth: u32) {
    let program = Program::from_text(&gemm(element)).expect("the text is right");
    let memory = Memory::new();
    let bytes = vec![0; (extent * extent.max(depth) * element.bytes()) as usize];
    let a = memory.alloc_from("A", &bytes, 256).expect("fits");
    let b = memory.alloc_from("B", &bytes, 256).expect("fits");
    let d = memory.alloc("D", bytes.len() as u64, 256).expect("fits");
    let args = [Arg::U64(a.address), Arg::U64(b.address), Arg::U64(d.address), Arg::U32(extent), Arg::U32(depth)];
    let grid = [extent / 128, extent / 128, 1];
    let what = Launch { entry: "gemm", grid, block: [256, 1, 1], args: &args, ..Launch::default() };
    let options = Options { checks, ..Options::default() };
    bencher
        .counter(ItemsCount::new(u64::from(extent).pow(2) * u64::from(depth)))
        .bench(|| launch(&program, &memory, &what, &options).expect("the kernel is right"));
}

#[divan::bench(args = [Element::F32, Element::F64, Element::I32])]
fn checks_off(bencher: Bencher, element: Element) {
    run(bencher, element, Checks::Off);
}

#[divan::bench(args = [Element::F32, Element::F64, Element::I32])]
fn checks_full(bencher: Bencher, element: Element) {
    run(bencher, element, Checks::Full);
}

/// One block and one K-tile, to measure the fixed cost of a launch.
#[divan::bench(args = [Checks::Off, Checks::Full])]
fn one_tile(bencher: Bencher, checks: Checks) {
    run_sized(bencher, Element::F32, checks, 128, 8);
}
