//! Feeds arbitrary text to every parser of the project, which has to answer quickly and without a panic.
//!
//! The fuzz targets of `fuzz/` and the tests over mutilated texts run the same functions.

use ptx_gemm_dsl::Schedule;
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interp::{Arg, Checks, Launch, Memory, Options, Program, launch};
use ptx_gemm_runtime::ptx::parse::parse;
use ptx_gemm_runtime::ptx::print::print;
use ptx_gemm_runtime::ptx::verify::verify;
use ptx_gemm_runtime::random::SplitMix64;

/// How far a text was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reached {
    /// The parser rejected it.
    Nothing,
    /// It was parsed, and rejected later.
    Read,
    /// It passed every stage.
    End,
}

/// Parses the text as a schedule, and plans it if it is one.
pub fn schedule(text: &str) -> Reached {
    let Ok(schedule) = text.parse::<Schedule>() else { return Reached::Nothing };
    let again = schedule.to_string().parse::<Schedule>();
    assert!(again.as_ref() == Ok(&schedule), "`{schedule}` is read as another schedule: {again:?}");
    match schedule.plan(None) {
        Ok(_) => Reached::End,
        Err(_) => Reached::Read,
    }
}

/// Parses the text as a `.tile` file, and compiles it if it is one.
pub fn tile(text: &str) -> Reached {
    match Kernel::compile_text(text) {
        Ok(_) => Reached::End,
        Err(_) => Reached::Nothing,
    }
}

/// Parses the text as PTX, which must survive being printed and parsed again.
pub fn ptx(text: &str) -> Reached {
    let Ok(module) = parse(text) else { return Reached::Nothing };
    let printed = print(&module);
    assert!(parse(&printed).as_ref() == Ok(&module), "another module is printed:\n{printed}");
    match verify(&module) {
        Ok(()) => Reached::End,
        Err(_) => Reached::Read,
    }
}

/// Bytes of the buffer that every 64-bit parameter points to.
const BUFFER: usize = 64 << 10;
/// The maximum number of instructions of one warp.
const INSTRUCTIONS: u64 = 10_000;

/// Runs PTX text on the interpreter: each entry is launched once, with all checks, on small blocks and a small buffer.
pub fn interpreter(text: &str) -> Reached {
    let Ok(program) = Program::from_text(text) else { return Reached::Nothing };
    let mut reached = Reached::Read;
    for entry in program.entries() {
        let memory = Memory::new();
        let Ok(buffer) = memory.alloc_from("buffer", &[0; BUFFER], 256) else { continue };
        let arg = |bytes: usize| match bytes {
            8 => Arg::U64(buffer.address),
            bytes => Arg::Bytes([32].into_iter().chain([0; 128]).take(bytes.min(128)).collect()),
        };
        let args: Vec<Arg> = program.param_bytes(entry).unwrap_or_default().into_iter().map(arg).collect();
        let block = program.reqntid(entry).unwrap_or([64, 1, 1]);
        let what = Launch { entry, grid: [2, 1, 1], block, args: &args, ..Launch::default() };
        let options = Options {
            checks: Checks::Full,
            max_instructions: Some(INSTRUCTIONS),
            threads: Some(1),
            ..Options::default()
        };
        match launch(&program, &memory, &what, &options) {
            Ok(_) => reached = Reached::End,
            Err(violation) => assert!(!violation.to_string().is_empty()),
        }
    }
    reached
}

/// A text with a few of its words or lines exchanged, repeated, left out, or changed by a digit: random bytes never
/// produce such near-valid texts.
pub fn mutilated(text: &str, random: &mut SplitMix64) -> String {
    let mut lines: Vec<Vec<String>> =
        text.lines().map(|line| line.split_inclusive([' ', ',', '(', ';', '.']).map(String::from).collect()).collect();
    for _ in 0..random.next_in(1, 4) {
        let mut pick = |end: usize| random.next_in(0, end.max(1) as i64 - 1) as usize;
        let (a, b) = (pick(lines.len()), pick(lines.len()));
        let (in_a, in_b, kind, digit) = (pick(lines[a].len()), pick(lines[b].len()), pick(8), pick(10));
        match kind {
            0 => lines.swap(a, b),
            1 => lines[a] = lines[b].clone(),
            2 if lines.len() > 1 => drop(lines.remove(a)),
            3 if !lines[a].is_empty() => drop(lines[a].remove(in_a)),
            4 if !lines[a].is_empty() => {
                let changed = lines[a][in_a].replace(|c: char| c.is_ascii_digit(), &digit.to_string());
                lines[a][in_a] = changed;
            }
            _ => {
                if let (Some(from), true) = (lines[b].get(in_b).cloned(), in_a < lines[a].len()) {
                    lines[a][in_a] = from;
                }
            }
        }
    }
    let lines: Vec<String> = lines.into_iter().map(|words| words.concat()).collect();
    lines.join("\n")
}
