//! What a clause changes in the PTX of a schedule.

use std::collections::BTreeMap;

use ptx_gemm_dsl::Schedule;
use ptx_gemm_runtime::ptx::normal::instructions;
use ptx_gemm_runtime::{Error, Kernel};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

/// How two PTX texts differ, regardless of the names of registers and labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Lines of each text.
    pub lines: [usize; 2],
    /// Opcodes that occur more often in one text than in the other, with their counts; the largest difference first.
    pub opcodes: Vec<(String, [usize; 2])>,
    /// The lines that differ, as in a patch, if the opcodes are the same: otherwise registers are renumbered, and most
    /// lines differ.
    pub changed: Vec<String>,
}

impl Effect {
    /// Compiles both schedules, each for its own target.
    ///
    /// # Errors
    /// Returns the error of a schedule that is wrong or not implemented.
    pub fn of(schedules: [&str; 2]) -> Result<Effect, Error> {
        let [before, after] = schedules.map(|text| -> Result<String, Error> {
            let schedule: Schedule = text.parse()?;
            Ok(instructions(Kernel::compile(&schedule, None)?.ptx()))
        });
        Ok(Effect::between(&before?, &after?))
    }

    fn between(before: &str, after: &str) -> Effect {
        let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
        for (side, text) in [before, after].into_iter().enumerate() {
            text.lines().filter_map(opcode).for_each(|opcode| counts.entry(opcode).or_default()[side] += 1);
        }
        let different = counts.into_iter().filter(|(_, [before, after])| before != after);
        let mut opcodes: Vec<(String, [usize; 2])> = different.map(|(name, counts)| (name.into(), counts)).collect();
        opcodes.sort_by_key(|(_, [before, after])| std::cmp::Reverse(before.abs_diff(*after)));
        let changed = if opcodes.is_empty() { changed(before, after) } else { Vec::new() };
        Effect { lines: [before.lines().count(), after.lines().count()], opcodes, changed }
    }

    /// True if the two texts have the same instructions.
    pub fn is_none(&self) -> bool {
        self.opcodes.is_empty() && self.changed.is_empty()
    }
}

fn changed(before: &str, after: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(before, after);
    let different = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    different.map(|change| format!("{}{}", change.tag(), change.value().trim())).collect()
}

/// The opcode of a line, guards aside; none for directives, labels and brackets.
fn opcode(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let word = if first.starts_with('@') { words.next()? } else { first };
    let word = word.trim_end_matches(';');
    (word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.ends_with(':')).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::Effect;

    #[test]
    fn an_effect_counts_opcodes_and_no_names() {
        let one = "ld.f32 <0>, [<1>];\n@<2> bra <3>;\nret;\n";
        let other = "ld.v4.f32 <0>, [<1>];\n@<2> bra <3>;\n@!<2> bra <3>;\nret;\n";
        let effect = Effect::between(one, other);
        assert_eq!(effect.lines, [3, 4]);
        let expected = [("bra", [1, 2]), ("ld.f32", [1, 0]), ("ld.v4.f32", [0, 1])];
        assert_eq!(effect.opcodes, expected.map(|(name, counts)| (name.to_string(), counts)));
        assert!(Effect::between(one, one).is_none());
        let turned = Effect::between(one, &one.replace("[<1>]", "[<1>+4]"));
        assert_eq!(turned.changed, ["-ld.f32 <0>, [<1>];", "+ld.f32 <0>, [<1>+4];"]);
        assert!(!turned.is_none());
    }
}
