//! A second opinion: compares the PTX and launch files of a folder bit by bit, on the interpreter in every order and on
//! a GPU at every optimisation level of its assembler.
//!
//! A launch file `NAME.json` or `NAME.WORD.json` belongs to each PTX file `NAME.ptx` or `NAME.WORD.ptx` next to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ptx_gemm_runtime::Device;
use ptx_gemm_runtime::interp::Program;
use ptx_gemm_runtime::ptx::parse::parse;

use super::{Contents, ExecError, LaunchFile, Orders, foreign, interpret, on_gpu};
use crate::bits::Rule;

/// The driver's levels of optimisation that are tried; its own choice is the last.
pub const LEVELS: [Option<u32>; 3] = [Some(0), Some(3), None];

/// The launch files of a folder, in the order of their names, and the PTX that each belongs to.
///
/// # Errors
/// Fails if the folder cannot be read.
pub fn launches_of(folder: &Path) -> io::Result<Vec<(PathBuf, Vec<PathBuf>)>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    let with = |extension: &'static str| {
        paths.iter().filter(move |path| path.extension().is_some_and(|found| found == extension)).cloned()
    };
    Ok(with("json")
        .map(|launch| (launch.clone(), with("ptx").filter(|ptx| stem(ptx) == stem(&launch)).collect()))
        .collect())
}

/// A file's name up to the first dot.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_string()
}

/// The number of elements that break the rule and are reported.
const TOLD: usize = 8;

/// An element with different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The buffer that it is in.
    pub buffer: String,
    /// Its index in the buffer.
    pub index: usize,
    /// Its bits on the interpreter, in hexadecimal.
    pub here: String,
    /// Those on the GPU.
    pub there: String,
}

/// The comparison of one run with the interpreter's first.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// Elements with different bits.
    pub elements: usize,
    /// The largest difference as a share of what the rule allows; infinite where it allows none.
    pub share: f64,
    /// Elements that break the rule.
    pub broken: usize,
    /// Up to eight of these, the first one among them and the others spread evenly over the rest.
    pub examples: Vec<Element>,
    /// Why there was nothing to compare.
    pub refused: Option<String>,
}

impl Difference {
    /// Whether the rule holds.
    pub fn holds(&self) -> bool {
        self.broken == 0 && self.refused.is_none()
    }
}

/// The findings for one PTX file and launch.
#[derive(Clone, Debug)]
pub struct Opinion {
    /// Elements of the buffers that the launch file shows.
    pub elements: usize,
    /// The permitted differences, described in words.
    pub rule: String,
    /// The interpreter's runs: a violation, or a buffer that depends on the order.
    pub interpreter: Result<usize, String>,
    /// The GPU's, at each of [`LEVELS`].
    pub levels: Vec<Difference>,
}

impl Opinion {
    /// Whether everything agrees; false if there was nothing to compare.
    pub fn holds(&self) -> bool {
        self.elements > 0 && self.interpreter.is_ok() && self.levels.iter().all(Difference::holds)
    }
}

/// Runs one PTX text on the interpreter, with all checks and in all orders, and on a GPU if there is one.
///
/// # Errors
/// Returns what is wrong with the files. A rejection by the GPU's driver is a result, not an error.
pub fn second_opinion(ptx: &str, file: &LaunchFile, gpu: Option<&Device>) -> Result<Opinion, ExecError> {
    let program = Program::from_text(ptx)?;
    let module = parse(ptx).map_err(|error| ExecError::File(error.to_string()))?;
    let rule = Rule::of(&module);
    let mut file = file.clone();
    if file.entry.is_none() {
        file.entry = program.entries().next().map(str::to_string);
    }
    let mut runs = Vec::new();
    for order in Orders::All.list() {
        runs.push(interpret(&program, &file, order, &foreign())?);
    }
    let first = runs.first().map(|run| run.contents.clone()).unwrap_or_default();
    let wrong = runs.iter().find_map(|run| match &run.violation {
        Some(violation) => Some(format!("order {}: {violation}", run.order)),
        None if shown(&file, &run.contents) != shown(&file, &first) => {
            Some(format!("order {} gives other results than the first", run.order))
        }
        None => None,
    });
    let interpreter = wrong.map_or(Ok(runs.len()), Err);
    let mut levels = Vec::new();
    for level in LEVELS {
        let Some(device) = gpu else { break };
        // The assembler does not optimise text with debug information.
        let level = if is_for_debuggers(ptx) { level.map(|_| 0) } else { level };
        levels.push(match on_gpu(device, ptx, &file, level) {
            Ok(run) => compare(&file, &rule, &first, &run.contents),
            Err(error) => Difference { refused: Some(error.to_string()), ..Difference::default() },
        });
    }
    let bytes = |name: &str| {
        file.buffers.get(name).map_or(0, |buffer| buffer.bytes().unwrap_or(0) as usize / buffer.ty.bytes())
    };
    let elements = file.shown().into_iter().map(bytes).sum();
    Ok(Opinion { elements, rule: rule.to_string(), interpreter, levels })
}

/// Whether a text's `.target` asks for debug information, which the parser drops.
fn is_for_debuggers(ptx: &str) -> bool {
    let target = ptx.lines().find_map(|line| line.trim_start().strip_prefix(".target"));
    target.is_some_and(|options| options.split(',').any(|option| option.trim() == "debug"))
}

fn shown<'a>(file: &LaunchFile, contents: &'a Contents) -> Vec<&'a (String, Vec<u8>)> {
    let names = file.shown();
    contents.iter().filter(|(name, _)| names.contains(&name.as_str())).collect()
}

fn compare(file: &LaunchFile, rule: &Rule, here: &Contents, there: &Contents) -> Difference {
    let mut found = Difference::default();
    let mut broken = Vec::new();
    for ((name, here), (_, there)) in shown(file, here).into_iter().zip(shown(file, there)) {
        let Some(buffer) = file.buffers.get(name) else { continue };
        let width = buffer.ty.bytes();
        for (index, (x, y)) in here.chunks_exact(width).zip(there.chunks_exact(width)).enumerate() {
            if x == y {
                continue;
            }
            found.elements += 1;
            let number = |bytes: &[u8]| buffer.ty.values(bytes).first().and_then(serde_json::Value::as_f64);
            let share = match (number(x), number(y)) {
                (Some(x), Some(y)) if buffer.ty.is_float() && !rule.is_equality() => {
                    (x - y).abs() / rule.spread(x.abs().max(y.abs()))
                }
                _ => f64::INFINITY,
            };
            found.share = found.share.max(share);
            if share > 1.0 {
                broken.push((name, index, x, y));
            }
        }
    }
    // One instruction may be wrong for many consecutive operands: elements far apart are more informative.
    let step = broken.len().div_ceil(TOLD).max(1);
    let hex = |bytes: &[u8]| bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    let example = |(name, index, x, y): &(&String, usize, &[u8], &[u8])| Element {
        buffer: name.to_string(),
        index: *index,
        here: hex(x),
        there: hex(y),
    };
    found.broken = broken.len();
    found.examples = broken.iter().step_by(step).map(example).collect();
    found
}

#[cfg(test)]
mod tests {
    use super::{Contents, Difference, LaunchFile, Rule, compare, is_for_debuggers, parse};

    #[test]
    fn text_for_debuggers_says_so_in_its_target() {
        let text =
            |target: &str| format!("// .target sm_90a, debug\n.version 9.0\n.target {target}\n.address_size 64\n");
        assert!(is_for_debuggers(&text("sm_75, debug")));
        assert!(!is_for_debuggers(&text("sm_90a")) && !is_for_debuggers(&text("sm_90, texmode_independent")));
    }

    /// Compares two contents of a buffer of f32 under the rule of a module with one instruction.
    fn differ(instruction: &str, here: &[f32], there: &[f32]) -> Difference {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {{ .reg .f32 %f; {instruction} ret; }}"
        );
        let rule = Rule::of(&parse(&text).unwrap());
        let launch = format!(
            r#"{{"grid": [1, 1, 1], "block": [1, 1, 1], "buffers": {{"x": {{"type": "f32", "shape": [{}]}}}}}}"#,
            here.len()
        );
        let contents = |values: &[f32]| -> Contents {
            vec![("x".into(), values.iter().flat_map(|value| value.to_le_bytes()).collect())]
        };
        compare(&LaunchFile::parse(&launch).unwrap(), &rule, &contents(here), &contents(there))
    }

    #[test]
    fn elements_that_break_the_rule_are_counted_and_some_are_told() {
        let here = [1.0; 100];
        let mut there = here;
        assert!(differ("", &here, &there).holds());
        there[3..83].fill(2.0);
        let found = differ("", &here, &there);
        assert_eq!((found.elements, found.broken, found.holds()), (80, 80, false));
        assert_eq!(found.examples.iter().map(|found| found.index).collect::<Vec<_>>(), [3, 13, 23, 33, 43, 53, 63, 73]);
        let first = &found.examples[0];
        assert_eq!([&*first.buffer, &*first.here, &*first.there], ["x", "3f800000", "40000000"]);
        there[4..].fill(1.0);
        assert_eq!(differ("", &here, &there).examples.len(), 1);
    }

    #[test]
    fn an_approximate_function_may_differ_a_little() {
        let near = differ("ex2.approx.f32 %f, %f;", &[1.0, 2.0], &[1.000_000_1, 2.0]);
        assert_eq!((near.elements, near.broken, near.holds()), (1, 0, true));
        let far = differ("ex2.approx.f32 %f, %f;", &[1.0, 2.0], &[1.1, 2.000_000_2]);
        assert_eq!((far.elements, far.broken, far.holds()), (2, 1, false));
        assert_eq!(far.examples[0].index, 0);
    }
}
