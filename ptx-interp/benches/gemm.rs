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

const EXTENT: u32 = 512;

fn run(bencher: Bencher, element: Element, checks: Checks) {
    let program = Program::from_text(&gemm(element)).expect("the text is right");
    let memory = Memory::new();
    let bytes = vec![0; (EXTENT * EXTENT * element.bytes()) as usize];
    let a = memory.alloc_from("A", &bytes, 256).expect("fits");
    let b = memory.alloc_from("B", &bytes, 256).expect("fits");
    let d = memory.alloc("D", bytes.len() as u64, 256).expect("fits");
    let args = [Arg::U64(a.address), Arg::U64(b.address), Arg::U64(d.address), Arg::U32(EXTENT), Arg::U32(EXTENT)];
    let grid = [EXTENT / 128, EXTENT / 128, 1];
    let what = Launch { entry: "gemm", grid, block: [256, 1, 1], dynamic_shared_bytes: 0, args: &args };
    let options = Options { checks, ..Options::default() };
    bencher
        .counter(ItemsCount::new(u64::from(EXTENT).pow(3)))
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
