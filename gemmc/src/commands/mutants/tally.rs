//! How the faults of one kernel, or of many, were found: counts, survivors, tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::reply::{Failure, Reply, Status};
use crate::source;

/// The outcome of a fault, for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was found.
    Killed,
    /// It is not a fault: the text has a different meaning, and the kernel computes it.
    Legal,
    /// It was not found, and computes the same for this reason; without a reason it is a hole in the checks.
    Survived(Option<&'static str>),
}

/// How faults were found.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// For each kind, the number judged and the outcomes.
    found: BTreeMap<String, BTreeMap<String, usize>>,
    equivalent: BTreeMap<String, usize>,
    survivors: Vec<Value>,
    killed: usize,
    legal: usize,
    unexplained: usize,
}

impl Tally {
    /// Counts one more; `told` is the text for one that survived.
    pub(super) fn note(&mut self, kind: &str, how: &str, fate: Fate, told: impl FnOnce() -> Value) {
        *self.found.entry(kind.into()).or_default().entry(how.into()).or_default() += 1;
        match fate {
            Fate::Killed => self.killed += 1,
            Fate::Legal => self.legal += 1,
            Fate::Survived(reason) => {
                let mut told = told();
                told["equivalent"] = json!(reason);
                self.survivors.push(told);
                match reason {
                    Some(reason) => *self.equivalent.entry(reason.into()).or_default() += 1,
                    None => self.unexplained += 1,
                }
            }
        }
    }

    /// Those of some kinds that survived for a reason.
    pub(super) fn excused(&self, of: impl Fn(&str) -> bool) -> usize {
        let excused = |told: &&Value| told["kind"].as_str().is_some_and(&of) && told["equivalent"].is_string();
        self.survivors.iter().filter(excused).count()
    }

    /// The sum of several tallies.
    pub(super) fn of_all<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
        let mut sum = Tally::default();
        for tally in tallies {
            for (kind, found) in &tally.found {
                for (how, count) in found {
                    *sum.found.entry(kind.clone()).or_default().entry(how.clone()).or_default() += count;
                }
            }
            for (reason, count) in &tally.equivalent {
                *sum.equivalent.entry(reason.clone()).or_default() += count;
            }
            sum.survivors.extend(tally.survivors.iter().cloned());
            sum.killed += tally.killed;
            sum.legal += tally.legal;
            sum.unexplained += tally.unexplained;
        }
        sum
    }

    /// Faults of some kinds that were found in this way.
    pub(super) fn count(&self, how: &str, kinds: impl Fn(&str) -> bool) -> usize {
        let of = self.found.iter().filter(|(kind, _)| kinds(kind));
        of.map(|(_, found)| found.get(how).copied().unwrap_or(0)).sum()
    }

    /// Faults of some kinds.
    pub(super) fn of(&self, kinds: impl Fn(&str) -> bool) -> usize {
        let of = self.found.iter().filter(|(kind, _)| kinds(kind));
        of.flat_map(|(_, found)| found.values()).sum()
    }

    pub(super) fn total(&self) -> usize {
        self.of(|_| true)
    }

    pub(super) fn killed(&self) -> usize {
        self.killed
    }

    pub(super) fn legal(&self) -> usize {
        self.legal
    }

    pub(super) fn equivalent(&self) -> usize {
        self.survivors.len() - self.unexplained
    }

    pub(super) fn unexplained(&self) -> usize {
        self.unexplained
    }

    /// How faults were found, kind by kind, then the survivors, then the totals.
    pub(super) fn reply(&self) -> Reply {
        let mut text = String::new();
        for (kind, found) in &self.found {
            let figures: Vec<String> = found.iter().map(|(how, count)| format!("{how} {count}")).collect();
            text.push_str(&format!("{kind:<18} {}\n", figures.join(", ")));
        }
        for (reason, count) in &self.equivalent {
            text.push_str(&format!("equivalent {count}: {reason}\n"));
        }
        for survivor in &self.survivors {
            let word = |key: &str| survivor[key].as_str().unwrap_or_default().to_string();
            let reason = survivor["equivalent"].as_str();
            let reason = reason.map_or_else(String::new, |reason| format!(", equivalent: {reason}"));
            text.push_str(&format!(
                "survived: {}:{} {}: `{}` -> `{}` ({}){reason}\n",
                word("case"),
                survivor["line"],
                word("kind"),
                word("before"),
                word("after"),
                word("note"),
            ));
        }
        text.push_str(&format!("{} of {} killed, ", self.killed, self.total()));
        if self.legal > 0 {
            text.push_str(&format!("{} make another program that is right, ", self.legal));
        }
        text.push_str(&format!("{} equivalent, {} unexplained\n", self.equivalent(), self.unexplained));
        let json = json!({ "killed": self.killed, "total": self.total(), "legal": self.legal,
            "unexplained": self.unexplained, "kinds": self.found, "survivors": self.survivors });
        let status = match (self.unexplained, self.total()) {
            (1.., _) => Status::Wrong,
            (0, 0) => Status::Uncompared,
            (0, _) => Status::Fine,
        };
        if status == Status::Uncompared {
            text.push_str("NOT COMPARED: there is no such fault to plant\n");
        }
        Reply { text, json, status }
    }
}

/// Figures of earlier runs, one file for each kernel: a long run may be interrupted at any time and continued.
pub(super) struct Kept<'a>(pub(super) Option<&'a Path>);

#[derive(Serialize, Deserialize)]
struct Entry {
    /// The inputs of the figures: the kernel, its faults and the products that each is run on.
    of: String,
    tally: Tally,
}

impl Kept<'_> {
    /// Whether there are figures under this name, of whatever inputs.
    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).is_some_and(|path| path.exists())
    }

    /// The figures under this name, if their inputs are the same and every survivor is explained.
    pub(super) fn find(&self, name: &str, of: &str) -> Option<Tally> {
        let text = std::fs::read_to_string(self.path(name)?).ok()?;
        let entry: Entry = serde_json::from_str(&text).ok()?;
        (entry.of == of && entry.tally.unexplained == 0).then_some(entry.tally)
    }

    /// Stores figures, if there is a folder for them.
    pub(super) fn keep(&self, name: &str, of: String, tally: Tally) -> Result<Tally, Failure> {
        let Some(path) = self.path(name) else { return Ok(tally) };
        let entry = Entry { of, tally };
        let text = serde_json::to_string_pretty(&entry).unwrap_or_default();
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| Failure::refused("file", format!("{}: {error}", path.display())))?;
        Ok(entry.tally)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.0?.join(format!("{}.json", name.replace(['/', '\\'], "_"))))
    }
}

/// A table in Markdown: a heading, one row for each case, and one for all of them; next to the names of cases what they show, if
/// there is something to say of them.
pub(super) fn write_table(
    path: &Path,
    about: &str,
    columns: &[&str],
    (rows, total): (&[(String, Tally)], &Tally),
    shows: impl Fn(&str) -> Option<&'static str>,
    row: impl Fn(&Tally) -> Vec<String>,
) -> Result<(), Failure> {
    let are_shown = rows.iter().any(|(name, _)| shows(name).is_some());
    let (head, rule) = if are_shown { ("case | mechanism", "---|---") } else { ("case", "---") };
    let figures = "---:|".repeat(columns.len());
    let mut text = format!("{about}\n\n| {head} | {} |\n|{rule}|{figures}\n", columns.join(" | "));
    let named = rows.iter().map(|(name, tally)| (name.as_str(), tally));
    for (name, tally) in named.chain([("all", total)]) {
        let mechanism = if are_shown { format!(" {} |", shows(name).unwrap_or_default()) } else { String::new() };
        text.push_str(&format!("| {name} |{mechanism} {} |\n", row(tally).join(" | ")));
    }
    let reasons: Vec<String> =
        total.equivalent.iter().map(|(reason, count)| format!("- {count} equivalent: {reason}.\n")).collect();
    text.push_str(&format!("\n{}", reasons.concat()));
    source::write(path, text)
}
