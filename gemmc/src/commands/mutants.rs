//! `gemmc mutants`: kernels with one fault each, and whether the checks find it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use ptx_gemm::Kernel;
use ptx_gemm::random::SplitMix64;
use ptx_gemm_check::mutants::{Judge, Module, Mutant, MutantKind, Verdict, equivalent, mutants};
use ptx_gemm_check::{Case, cases, tuned};
use serde_json::{Value, json};

use crate::cli::Mutants;
use crate::reply::{Failure, Format, Reply, Status};

/// Mutants of one kind that a full run takes of each entry, spread over its text.
const EACH: usize = 12;

/// How mutants of one kernel were found.
#[derive(Default)]
struct Tally {
    /// By kind, how many were judged and how.
    found: BTreeMap<MutantKind, BTreeMap<&'static str, usize>>,
    equivalent: BTreeMap<&'static str, usize>,
    survivors: Vec<Value>,
    unexplained: usize,
}

pub(crate) fn run(args: &Mutants, format: Format) -> Result<Reply, Failure> {
    let known: Vec<Case> = cases().chain(tuned()).collect();
    let chosen: Vec<&Case> = match &args.case {
        Some(name) => {
            let found = known.iter().find(|case| case.name == name.as_str());
            let help = "`gemmc cases` lists the cases";
            vec![found.ok_or_else(|| Failure::refused("case", format!("there is no case `{name}`; {help}")))?]
        }
        None => known.iter().collect(),
    };
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for case in chosen {
        let schedule = case.schedule()?;
        let kernel = Kernel::compile(&schedule, None)?;
        let start = Instant::now();
        let tally = judge(case, kernel, args, format)?;
        rows.push((case.name, tally.row(), start.elapsed()));
        total.add(tally);
    }
    if let Some(path) = &args.table {
        write_table(path, &rows, &total)?;
    }
    let (judged, killed) = (total.total(), total.killed());
    let mut text = String::new();
    for (kind, found) in &total.found {
        let figures: Vec<String> = found.iter().map(|(how, count)| format!("{how} {count}")).collect();
        text.push_str(&format!("{:<18} {}\n", kind.name(), figures.join(", ")));
    }
    for (reason, count) in &total.equivalent {
        text.push_str(&format!("equivalent {count}: {reason}\n"));
    }
    for survivor in &total.survivors {
        let word = |key: &str| survivor[key].as_str().unwrap_or_default().to_string();
        text.push_str(&format!(
            "survived: {} {}: `{}` -> `{}` ({}){}\n",
            word("case"),
            word("kind"),
            word("before"),
            word("after"),
            word("note"),
            survivor["equivalent"].as_str().map_or_else(String::new, |reason| format!(", equivalent: {reason}"))
        ));
    }
    text.push_str(&format!("{killed} of {judged} killed, {} unexplained\n", total.unexplained));
    let kinds: BTreeMap<&str, &BTreeMap<&str, usize>> =
        total.found.iter().map(|(kind, found)| (kind.name(), found)).collect();
    let json = json!({ "killed": killed, "total": judged, "unexplained": total.unexplained, "kinds": kinds,
        "survivors": total.survivors });
    let status = if total.unexplained == 0 { Status::Fine } else { Status::Wrong };
    Ok(Reply { text, json, status })
}

fn judge(case: &Case, kernel: std::sync::Arc<Kernel>, args: &Mutants, format: Format) -> Result<Tally, Failure> {
    let judge = Judge::new(kernel)?;
    let all = chosen(mutants(judge.module()), args);
    let bar = match format {
        Format::Json => ProgressBar::hidden(),
        Format::Text => ProgressBar::new(all.len() as u64),
    };
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.set_message(case.name.to_string());
    let mut tally = Tally::default();
    for mutant in all {
        let verdict = judge.judge(&mutant);
        *tally.found.entry(mutant.kind).or_default().entry(verdict.name()).or_default() += 1;
        if verdict == Verdict::Survived {
            let reason = equivalent(&mutant);
            match reason {
                Some(reason) => *tally.equivalent.entry(reason).or_default() += 1,
                None => tally.unexplained += 1,
            }
            tally.survivors.push(told(case.name, &mutant, judge.module(), reason));
        } else if args.all {
            bar.println(format!("{verdict}: {mutant}"));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(tally)
}

fn told(case: &str, mutant: &Mutant, module: &Module, reason: Option<&str>) -> Value {
    json!({ "case": case, "kind": mutant.kind.name(), "line": mutant.line(module), "before": mutant.before,
        "after": mutant.after, "note": mutant.note, "equivalent": reason })
}

/// Those to judge: some of each kind, spread over the text; or a sample of all.
fn chosen(mut all: Vec<Mutant>, args: &Mutants) -> Vec<Mutant> {
    if let Some(kind) = &args.kind {
        all.retain(|mutant| mutant.kind.name() == kind);
    }
    if let Some(count) = args.sample {
        let mut random = SplitMix64::new(args.seed);
        // Kind by kind in turn, so that the many of one kind leave room for the few of another.
        let mut by_kind: BTreeMap<MutantKind, Vec<Mutant>> = BTreeMap::new();
        all.into_iter().for_each(|mutant| by_kind.entry(mutant.kind).or_default().push(mutant));
        let mut taken = Vec::new();
        while taken.len() < count && by_kind.values().any(|left| !left.is_empty()) {
            for left in by_kind.values_mut().filter(|left| !left.is_empty()) {
                let at = random.next_in(0, left.len() as i64 - 1) as usize;
                taken.push(left.swap_remove(at));
            }
        }
        // Which kinds come first is a matter of chance as well.
        while taken.len() > count {
            let at = random.next_in(0, taken.len() as i64 - 1) as usize;
            taken.swap_remove(at);
        }
        return taken;
    }
    let mut counts: BTreeMap<(usize, MutantKind), usize> = BTreeMap::new();
    all.iter().for_each(|mutant| *counts.entry((mutant.entry, mutant.kind)).or_default() += 1);
    let mut seen: BTreeMap<(usize, MutantKind), usize> = BTreeMap::new();
    let each = args.each.unwrap_or(EACH);
    all.retain(|mutant| {
        let key = (mutant.entry, mutant.kind);
        let (count, place) = (counts[&key], seen.entry(key).or_default());
        *place += 1;
        // Evenly spread: as often as the share of the places so far reaches the next whole number.
        (*place * each) / count.max(each) > ((*place - 1) * each) / count.max(each)
    });
    all
}

impl Tally {
    fn total(&self) -> usize {
        self.found.values().flat_map(BTreeMap::values).sum()
    }

    fn killed(&self) -> usize {
        self.total() - self.survivors.len()
    }

    fn count(&self, how: &str, kinds: impl Fn(MutantKind) -> bool) -> usize {
        let of = self.found.iter().filter(|(kind, _)| kinds(**kind));
        of.map(|(_, found)| found.get(how).copied().unwrap_or(0)).sum()
    }

    fn add(&mut self, other: Tally) {
        for (kind, found) in other.found {
            for (how, count) in found {
                *self.found.entry(kind).or_default().entry(how).or_default() += count;
            }
        }
        for (reason, count) in other.equivalent {
            *self.equivalent.entry(reason).or_default() += count;
        }
        self.survivors.extend(other.survivors);
        self.unexplained += other.unexplained;
    }

    /// Its line of the table.
    fn row(&self) -> String {
        let any = |_: MutantKind| true;
        let sync: usize = self
            .found
            .iter()
            .filter(|(kind, _)| kind.is_synchronisation())
            .map(|(_, found)| found.values().sum::<usize>())
            .sum();
        let by_rule = self.count("violation", MutantKind::is_synchronisation);
        format!(
            "{} | {} | {} | {} | {} | {} | {} | {} | {by_rule} of {sync}",
            self.total(),
            self.count("violation", any) + self.count("violation in another order", any),
            self.count("wrong result", any),
            self.count("other bits", any),
            self.count("refused", any),
            self.survivors.len() - self.unexplained,
            self.unexplained,
            self.killed(),
        )
    }
}

fn write_table(path: &Path, rows: &[(&str, String, std::time::Duration)], total: &Tally) -> Result<(), Failure> {
    let mut text = String::from(
        "| case | mutants | broken rule | wrong result | other bits | refused | equivalent | unexplained | killed | \
         synchronisation: broken rule in the forward order |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, row, _) in rows {
        text.push_str(&format!("| {name} | {row} |\n"));
    }
    text.push_str(&format!("| all | {} |\n", total.row()));
    std::fs::write(path, text).map_err(|error| Failure::refused("file", format!("{}: {error}", path.display())))
}
