//! `gemmc diff`: how two programs differ, level by level, and what each of them costs.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use ptx_gemm::Level as Ir;
use ptx_gemm_check::differences::{Comments, Difference, Level, Tag, compare};
use ptx_gemm_check::figures::{Figures, How, side_by_side};
use serde_json::{Value, json};

use crate::cli::{Compile, Diff, Plain, Source};
use crate::commands::profile::assembler;
use crate::reply::{Failure, Format, Reply, Status};
use crate::source::{self, Loaded};

/// Levels that are shown in full if none is named.
const SHOWN: usize = 2;

/// Characters of a name at the head of a column.
const LONGEST: usize = 24;

/// One of the two programs.
struct Side {
    name: String,
    /// Its text at each level that it has.
    texts: [Option<String>; 5],
    /// Its cost, which is unknown for a PTX file.
    figures: Option<Figures>,
}

pub(crate) fn run(args: &Diff, format: Format) -> Result<Reply, Failure> {
    // The wait for ptxas is most of the time.
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| side(&args.second, args));
        (side(&args.first, args), second.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let (first, second) = (first?, second?);
    let comments = if args.comments { Comments::Compared } else { Comments::Ignored };
    let pair = |level: Level| first.texts[level as usize].as_ref().zip(second.texts[level as usize].as_ref());
    let differences: Vec<Difference> =
        Level::ALL.into_iter().filter_map(|level| pair(level).map(|(a, b)| compare(level, a, b, comments))).collect();
    let differ = differences.iter().any(|difference| !difference.is_empty());
    let status = if differ && args.exit_code { Status::Refused } else { Status::Fine };
    let json = json!({
        "ok": true,
        "equal": !differ,
        "first": first.name,
        "second": second.name,
        "levels": differences,
        "costs": { "first": costs(&first), "second": costs(&second) },
    });
    let text = if format == Format::Json { String::new() } else { text(args, &first, &second, &differences) };
    Ok(Reply { text, json, status })
}

fn costs(side: &Side) -> Value {
    side.figures.as_ref().map_or(Value::Null, |figures| json!(figures.measures()))
}

fn text(args: &Diff, first: &Side, second: &Side, differences: &[Difference]) -> String {
    let mut text = format!("- {}\n+ {}\n\n", first.name, second.name);
    for level in Level::ALL {
        let said = match differences.iter().find(|difference| difference.level == level) {
            Some(difference) if difference.is_empty() => "equal".to_string(),
            Some(Difference { removed, added, .. }) => {
                format!("{removed} lines only in the first, {added} in the second")
            }
            None => "not in both".into(),
        };
        text.push_str(&format!("{:8} {said}\n", level.name()));
    }
    let mut differing = differences.iter().filter(|difference| !difference.is_empty());
    let shown: Vec<&Difference> = match args.level.is_empty() {
        true => differing.take(SHOWN).collect(),
        false => differing.by_ref().filter(|of| args.level.iter().any(|level| level.has(of.level))).collect(),
    };
    for difference in shown {
        text.push_str(&format!("\n{}\n{}", difference.level.name(), difference.unified(paint)));
    }
    // Clauses would make the column too wide.
    let names = match [first, second].map(|side| side.name.chars().count() <= LONGEST) {
        [true, true] => [first.name.as_str(), second.name.as_str()],
        _ => ["first", "second"],
    };
    let table = side_by_side(names, [first.figures.as_ref(), second.figures.as_ref()]);
    if !table.is_empty() {
        text.push_str(&format!("\n{table}"));
    }
    text
}

/// A line with its colour, which is removed where it is not wanted.
fn paint(tag: Tag, line: &str) -> String {
    match tag {
        Tag::Equal => line.to_string(),
        Tag::Removed => format!("\u{1b}[31m{line}\u{1b}[0m"),
        Tag::Added => format!("\u{1b}[32m{line}\u{1b}[0m"),
    }
}

/// A side of the comparison: clauses if it looks like them and is not a file, else a file or a case.
fn side(argument: &str, args: &Diff) -> Result<Side, Failure> {
    let path = Path::new(argument);
    if path.extension().is_some_and(|extension| extension == "ptx") {
        return ptx(path);
    }
    let is_text = !path.exists() && argument.contains(['(', ';']);
    let source = match is_text {
        true => Source { source: None, clauses: Some(argument.into()) },
        false => Source { source: Some(argument.into()), clauses: None },
    };
    // A tile program names its target itself.
    let is_free = path.extension().is_none_or(|extension| extension != "tile");
    let (target, gpu) = (args.target.filter(|_| is_free), args.gpu.filter(|_| is_free));
    let loaded = source::load(&Compile { source, target, gpu, plain: Plain { json: args.plain.json } })?;
    let kernel = loaded.kernel()?;
    let assembler = assembler(args.wait.0);
    let how = How { assembler: assembler.as_ref(), patience: args.wait.0, ..How::default() };
    let figures = Figures::of(&kernel, &how)?;
    let name = if is_text { argument.to_string() } else { loaded.name().to_string() };
    let [clauses, plan] = match &loaded {
        Loaded::Schedule { schedule, plan, .. } => [Some(schedule.to_string()), Some(plan.to_string())],
        Loaded::Tile { .. } => [None, None],
    };
    let (tile, one_thread) = (loaded.ir(Ir::Tile)?, loaded.ir(Ir::Kernel)?);
    let texts = [clauses, plan, Some(tile), Some(one_thread), Some(kernel.ptx().to_string())];
    Ok(Side { name, texts, figures: Some(figures) })
}

fn ptx(path: &Path) -> Result<Side, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::refused("file", format!("{name}: {error}")))?;
    // Its instructions need not be ones that this project knows: lines are compared.
    if !text.lines().any(|line| line.trim_start().starts_with(".version")) {
        return Err(Failure::refused("file", format!("{name} is not PTX: it has no .version")));
    }
    Ok(Side { name, texts: [None, None, None, None, Some(text)], figures: None })
}
