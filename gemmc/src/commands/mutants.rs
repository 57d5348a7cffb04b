//! `gemmc mutants`: kernels and tile programs with one fault each, and whether the checks find it.

mod tally;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use ptx_gemm::random::SplitMix64;
use ptx_gemm::{Kernel, Level};
use ptx_gemm_check::cases;
use ptx_gemm_check::mechanisms::MECHANISMS;
use ptx_gemm_check::mutants::{
    Edit, EditKind, Judge, Mutant, MutantKind, Products, TileJudge, TileVerdict, Verdict, mutants_of,
};
use serde_json::{Value, json};

use self::tally::{Fate, Kept, Tally, write_table};
use crate::cli::{Faults, Mutants};
use crate::interrupt::Interrupt;
use crate::progress;
use crate::reply::{Failure, Format, Reply, Status};
use crate::source;

/// The minimum number of faults per kernel in a full run, if the kernel has as many.
const FULL: usize = 120;

pub(crate) fn run(args: &Mutants, format: Format) -> Result<Reply, Failure> {
    if let Some(kind) = &args.kind {
        known_kind(args.level, kind)?;
    }
    let names: Vec<OsString> = match args.case.as_ref().or(args.source.as_ref()) {
        Some(name) => vec![name.clone()],
        None if args.mechanisms => MECHANISMS.iter().map(|mechanism| mechanism.case.into()).collect(),
        None => cases().map(|case| case.name.into()).collect(),
    };
    let (mut rows, count) = (Vec::new(), names.len());
    let interrupt = Interrupt::watch();
    let mut whole = 0;
    for name in names.into_iter().take_while(|_| !interrupt.came()) {
        let (loaded, name) = (source::load_named(&name)?, name.to_string_lossy().into_owned());
        let tally = match args.level {
            Faults::Ptx => of_kernel(&name, loaded.kernel()?, args, (format, &interrupt))?,
            Faults::Tile => Some(of_program(&name, loaded.ir(Level::Tile)?, args, (format, &interrupt))?),
        };
        whole += usize::from(!interrupt.came());
        rows.extend(tally.map(|tally| (name, tally)));
    }
    let total = Tally::of_all(rows.iter().map(|(_, tally)| tally));
    let left = count - whole;
    if let Some(path) = args.table.as_ref().filter(|_| left == 0) {
        let about = about(args, path, rows.len(), count);
        let shows = |name: &str| MECHANISMS.iter().find(|mechanism| mechanism.case == name).map(|known| known.shows);
        let shows = |name: &str| shows(name).filter(|_| args.mechanisms);
        match args.level {
            Faults::Ptx => write_table(path, &about, &KERNEL_COLUMNS, (&rows, &total), shows, kernel_row)?,
            Faults::Tile => write_table(path, &about, &PROGRAM_COLUMNS, (&rows, &total), shows, program_row)?,
        }
    }
    let mut reply = total.reply();
    if left > 0 {
        reply.text.push_str(&format!("interrupted: {left} of {count} kernels were not judged, or only in part\n"));
        reply.status = reply.status.worse(Status::Refused);
    }
    reply.json["left"] = left.into();
    Ok(reply)
}

fn known_kind(level: Faults, kind: &str) -> Result<(), Failure> {
    let known: Vec<&str> = match level {
        Faults::Ptx => MutantKind::ALL.iter().map(|kind| kind.name()).collect(),
        Faults::Tile => EditKind::ALL.iter().map(|kind| kind.name()).collect(),
    };
    if known.contains(&kind) {
        return Ok(());
    }
    Err(Failure::refused("kind", format!("`{kind}` is not a kind of fault; there are {}", known.join(", "))))
}

fn of_kernel(
    name: &str,
    kernel: Arc<Kernel>,
    args: &Mutants,
    (format, interrupt): (Format, &Interrupt),
) -> Result<Option<Tally>, Failure> {
    let kept = Kept(args.keep.as_deref());
    if args.kept && !kept.has(name) {
        return Ok(None);
    }
    let place = |mutant: &Mutant| ((mutant.kernel, mutant.entry), mutant.kind.name());
    let all = chosen(mutants_of(&kernel), place, args);
    let products = Products::of(&kernel);
    let of = products.digest(&kernel, &all);
    let found = kept.find(name, &of);
    if found.is_some() || args.kept {
        return Ok(found);
    }
    let judge = Judge::by(kernel, products)?;
    let bar = progress::bar(all.len(), format).with_message(name.to_string());
    let verdicts = judge.judge_while(
        || !interrupt.came(),
        &all,
        |mutant, verdict, time| {
            if args.all {
                progress::note(&bar, format!("{verdict}, in {:.1} s: {mutant}", time.as_secs_f64()));
            }
            bar.inc(1);
        },
    );
    bar.finish_and_clear();
    let mut tally = Tally::default();
    for (mutant, verdict) in all.iter().zip(verdicts).filter_map(|(mutant, verdict)| Some((mutant, verdict?))) {
        let fate = if verdict == Verdict::Survived { Fate::Survived(judge.equivalent(mutant)) } else { Fate::Killed };
        let told = || {
            // With `strassen` a product launches several.
            let case = if mutant.kernel == 0 { name.into() } else { format!("{name}, kernel {}", mutant.kernel + 1) };
            json!({ "case": case, "kind": mutant.kind.name(), "line": mutant.line(judge.module(mutant)),
                "before": mutant.before, "after": mutant.after, "note": mutant.note })
        };
        tally.note(mutant.kind.name(), verdict.name(), fate, told);
    }
    // Figures of some of the faults would be taken for those of all.
    if interrupt.came() { Ok(Some(tally)) } else { kept.keep(name, of, tally).map(Some) }
}

fn of_program(
    name: &str,
    text: String,
    args: &Mutants,
    (format, interrupt): (Format, &Interrupt),
) -> Result<Tally, Failure> {
    let judge = TileJudge::new(text)?;
    let all = chosen(judge.edits(), |edit: &Edit| (0, edit.kind.name()), args);
    let bar = progress::bar(all.len(), format).with_message(name.to_string());
    let mut tally = Tally::default();
    for edit in all.iter().take_while(|_| !interrupt.came()) {
        let verdict = judge.judge(edit);
        let (fate, why) = match &verdict {
            TileVerdict::Refused(_) => (Fate::Killed, String::new()),
            TileVerdict::AnotherProgram => (Fate::Legal, String::new()),
            TileVerdict::SameKernel => (Fate::Survived(judge.equivalent(edit)), String::new()),
            TileVerdict::Wrong(why) => (Fate::Survived(None), why.clone()),
        };
        if args.all && !matches!(fate, Fate::Survived(_)) {
            progress::note(&bar, format!("{}: line {}: {}", verdict.name(), edit.line, edit.what));
        }
        let told = || -> Value {
            json!({ "case": name, "kind": edit.kind.name(), "line": edit.line, "before": judge.line(edit).trim(),
                "after": edit.what, "note": if why.is_empty() { verdict.name().to_string() } else { why } })
        };
        tally.note(edit.kind.name(), verdict.name(), fate, told);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(tally)
}

/// The faults to judge: some of each kind in each entry, spread over the text; or a sample of all.
fn chosen<T, P: Ord + Copy>(mut all: Vec<T>, place: impl Fn(&T) -> (P, &'static str), args: &Mutants) -> Vec<T> {
    if let Some(kind) = &args.kind {
        all.retain(|fault| place(fault).1 == kind);
    }
    if let Some(count) = args.sample {
        return sample(all, |fault| place(fault).1, count, args.seed);
    }
    let mut counts: BTreeMap<(P, &str), usize> = BTreeMap::new();
    all.iter().for_each(|fault| *counts.entry(place(fault)).or_default() += 1);
    let taken = |each: usize| counts.values().map(|count| (*count).min(each)).sum::<usize>();
    let enough = || (1..).find(|each| taken(*each) >= FULL.min(all.len()));
    let each = args.each.or_else(enough).unwrap_or(FULL);
    let mut seen: BTreeMap<(P, &str), usize> = BTreeMap::new();
    all.retain(|fault| {
        let key = place(fault);
        let (count, place) = (counts[&key], seen.entry(key).or_default());
        *place += 1;
        // Evenly spread: one is taken whenever the cumulative share reaches the next whole number.
        (*place * each) / count.max(each) > ((*place - 1) * each) / count.max(each)
    });
    all
}

/// Drawn at random, taking turns among the kinds, so that a frequent kind does not crowd out a rare one.
fn sample<T>(all: Vec<T>, kind: impl Fn(&T) -> &'static str, count: usize, seed: u64) -> Vec<T> {
    let mut random = SplitMix64::new(seed);
    let mut by_kind: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    all.into_iter().for_each(|fault| by_kind.entry(kind(&fault)).or_default().push(fault));
    let mut taken = Vec::new();
    while taken.len() < count && by_kind.values().any(|left| !left.is_empty()) {
        for left in by_kind.values_mut().filter(|left| !left.is_empty()) {
            let at = random.next_in(0, left.len() as i64 - 1) as usize;
            taken.push(left.swap_remove(at));
        }
    }
    // The order of the kinds is random as well.
    while taken.len() > count {
        let at = random.next_in(0, taken.len() as i64 - 1) as usize;
        taken.swap_remove(at);
    }
    taken
}

/// What a table with this many of all kernels is about.
fn about(args: &Mutants, path: &Path, judged: usize, all: usize) -> String {
    let (level, what) = match args.level {
        Faults::Ptx => ("", IN_KERNELS),
        Faults::Tile => ("--level tile ", IN_PROGRAMS),
    };
    let of = if args.mechanisms { "--mechanisms " } else { "" };
    let judged = if judged == all { String::new() } else { format!("{judged} of {all} kernels. ") };
    format!("{judged}{what}\n\n```sh\ngemmc mutants {of}{level}--table {}\n```", path.display())
}

const IN_KERNELS: &str = "Faults in the PTX of kernels, one at a time, and how they were found. The last column counts the \
faults of synchronisation that are not equivalent, and those of them that broke a rule of the interpreter in the plain forward \
order.";

const KERNEL_COLUMNS: [&str; 9] = [
    "faults",
    "broken rule",
    "wrong result",
    "other bits",
    "refused",
    "killed",
    "equivalent",
    "unexplained",
    "synchronisation",
];

fn kernel_row(tally: &Tally) -> Vec<String> {
    let any = |_: &str| true;
    let synchronises =
        |kind: &str| MutantKind::ALL.iter().any(|known| known.is_synchronisation() && known.name() == kind);
    let figures = [
        tally.total(),
        tally.count("violation", any) + tally.count("violation in another order", any),
        tally.count("wrong result", any),
        tally.count("other bits", any),
        tally.count("refused", any),
        tally.killed(),
        tally.equivalent(),
        tally.unexplained(),
    ];
    let of = tally.of(synchronises) - tally.excused(synchronises);
    let forward = format!("{} of {of}", tally.count("violation", synchronises));
    figures.iter().map(ToString::to_string).chain([forward]).collect()
}

const IN_PROGRAMS: &str = "Edits of tile programs, one at a time. Each is refused, or is another program, which was run under all \
checks and computes what it says; one that leaves the instructions as they are has a reason.";

const PROGRAM_COLUMNS: [&str; 5] = ["edits", "refused", "another program, right", "equivalent", "unexplained"];

fn program_row(tally: &Tally) -> Vec<String> {
    let figures = [tally.total(), tally.killed(), tally.legal(), tally.equivalent(), tally.unexplained()];
    figures.iter().map(ToString::to_string).collect()
}
