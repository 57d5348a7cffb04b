//! Arbitrary text: the interpreter always answers with a result or an error, and quickly.

use ptx_gemm_interp::{Arg, Checks, Launch, Memory, Options, Program, TensorElement, TensorMap, TensorMapArgs, launch};

use crate::gemm_text::{Element, gemm};
use crate::{mbarrier, ring, tma_gemm};

/// A small generator, identical on every host.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }
}

/// Loads and runs a text with the checks on and off; returns how far it got.
fn survive(text: &str, block: u32, args: impl Fn(&Memory) -> Vec<Arg>) -> usize {
    let Ok(program) = Program::from_text(text) else { return 0 };
    let mut finished = 1;
    for checks in [Checks::Off, Checks::Full] {
        for entry in program.entries() {
            let memory = Memory::new();
            let args = args(&memory);
            let what = Launch { entry, grid: [1; 3], block: [block, 1, 1], args: &args, ..Launch::default() };
            let options = Options { checks, max_instructions: Some(20_000), ..Options::default() };
            match launch(&program, &memory, &what, &options) {
                Ok(_) => finished += 1,
                Err(violation) => assert!(!violation.to_string().is_empty()),
            }
        }
    }
    finished
}

fn matrix(memory: &Memory) -> Arg {
    Arg::U64(memory.alloc_from("matrix", &[0; 128 * 128 * 4], 256).expect("fits").address)
}

/// A kernel's text with some lines exchanged, repeated, left out, or with words of another line.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    for _ in 0..1 + random.below(4) {
        let (a, b) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(5) {
            0 => lines.swap(a, b),
            1 => lines[a] = lines[b].clone(),
            2 => drop(lines.remove(a)),
            _ => {
                let from = lines[b][random.below(lines[b].len())];
                let to = random.below(lines[a].len());
                lines[a][to] = from;
            }
        }
    }
    let lines: Vec<String> = lines.into_iter().map(|words| words.join(" ")).collect();
    lines.join("\n")
}

#[test]
fn mutilated_kernels() {
    let text = gemm(Element::F32);
    let mut random = Random(0x1234_5678_9abc_def1);
    let args = |memory: &Memory| vec![matrix(memory), matrix(memory), matrix(memory), Arg::U32(128), Arg::U32(16)];
    let outcomes: Vec<usize> = (0..400).map(|_| survive(&mutate(&text, &mut random), 256, args)).collect();
    // Checks that some mutations run and some do not.
    for outcome in 0..=3 {
        assert!(outcomes.contains(&outcome), "no mutant got as far as {outcome}");
    }
}

#[test]
fn mutilated_rings() {
    let text = ring::text(&mbarrier::free_running());
    let mut random = Random(0x0fed_cba9_8765_4321);
    let args = |memory: &Memory| vec![matrix(memory), matrix(memory)];
    let outcomes: Vec<usize> = (0..400).map(|_| survive(&mutate(&text, &mut random), 64, args)).collect();
    for outcome in 0..=3 {
        assert!(outcomes.contains(&outcome), "no mutant got as far as {outcome}");
    }
}

#[test]
fn mutilated_copies() {
    let text = tma_gemm::text();
    let mut random = Random(0x2468_ace0_1357_9bdf);
    let args = |memory: &Memory| {
        let map = || {
            let Arg::U64(address) = matrix(memory) else { panic!("an address") };
            let args = TensorMapArgs::new(TensorElement::F32, address, &[40, 40], &[160], &[32, 32]);
            Arg::TensorMap(Box::new(TensorMap::encode(&args).expect("legal")))
        };
        vec![map(), map(), map(), matrix(memory), Arg::U32(40), Arg::U32(40)]
    };
    let outcomes: Vec<usize> = (0..400).map(|_| survive(&mutate(&text, &mut random), 160, args)).collect();
    for outcome in 0..=3 {
        assert!(outcomes.contains(&outcome), "no mutant got as far as {outcome}");
    }
}

#[test]
fn vast_declarations_are_refused() {
    let declarations = [
        ".shared .b8 x[18446744073709551615];",
        ".shared .align 2147483648 .b8 x[9223372036854775807];\n.shared .b64 y[9223372036854775807];",
        ".local .b64 x[4611686018427387904];",
    ];
    for declaration in declarations {
        let text =
            format!(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {{\n{declaration}\nret;\n}}\n");
        assert!(Program::from_text(&text).is_err(), "{declaration}");
    }
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .b64 x[9223372036854775807]) {\nret;\n}\n";
    assert!(Program::from_text(text).is_err());
}

#[test]
fn vast_allocations_are_refused() {
    let memory = Memory::new();
    for bytes in [u64::MAX, u64::MAX / 2, 1 << 60] {
        assert!(memory.alloc("all of it", bytes, 256).is_err(), "{bytes}");
    }
    assert!(memory.alloc("crooked", 16, 3).is_err());
    assert_eq!(memory.alloc("nothing", 0, 1).expect("fits").bytes, 0);
}
