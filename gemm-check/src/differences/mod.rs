//! How two schedules differ: their texts at each level, line by line, and the cost of each.
//!
//! Registers and labels are numbered in the order in which the compiler creates them, so one more at the top of a
//! kernel renames all others. Lines are therefore aligned by their text without these numbers, and aligned lines differ
//! if their names do not correspond ([`names`]).

mod names;

use std::fmt::Write;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use names::{Correspondence, Dialect};

/// Equal lines shown around a change.
const CONTEXT: usize = 2;

/// A level at which two programs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The clauses of a schedule.
    Clauses,
    /// Every number that follows from them.
    Plan,
    /// Tile IR.
    Tile,
    /// Kernel IR.
    Kernel,
    /// The PTX text.
    Ptx,
}

impl Level {
    /// All levels, from the clauses down.
    pub const ALL: [Level; 5] = [Level::Clauses, Level::Plan, Level::Tile, Level::Kernel, Level::Ptx];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Clauses => "clauses",
            Level::Plan => "plan",
            Level::Tile => "tile",
            Level::Kernel => "kernel",
            Level::Ptx => "ptx",
        }
    }

    /// The start of a comment.
    fn comment(self) -> Option<&'static str> {
        match self {
            Level::Clauses | Level::Plan => None,
            Level::Tile | Level::Kernel => Some(";"),
            Level::Ptx => Some("//"),
        }
    }
}

/// Whether comments count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// They are left out.
    Ignored,
    /// They are compared like everything else.
    Compared,
}

/// The difference of two texts of one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which level.
    pub level: Level,
    /// Lines that only the first has.
    pub removed: usize,
    /// Lines that only the second has.
    pub added: usize,
    /// The changes, each with some equal lines around it.
    pub hunks: Vec<Vec<Line>>,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Which text has it.
    pub tag: Tag,
    /// Its text; that of the first where both have it.
    pub text: String,
}

/// Which text has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tag {
    /// Both.
    Equal,
    /// The first.
    Removed,
    /// The second.
    Added,
}

/// Compares two texts of a level.
pub fn compare(level: Level, first: &str, second: &str, comments: Comments) -> Difference {
    let [first, second] = [first, second].map(|text| lines(level, text, comments));
    let dialects = [&first, &second].map(|lines| Dialect::of(level, lines));
    let key = |lines: &[String], dialect: &Dialect| lines.iter().map(|line| dialect.key(line)).collect::<Vec<_>>();
    let ops = capture_diff_slices(Algorithm::Patience, &key(&first, &dialects[0]), &key(&second, &dialects[1]));
    let ops = with_names(&ops, [&first, &second], &dialects);
    let mut difference = Difference { level, removed: 0, added: 0, hunks: Vec::new() };
    for op in &ops {
        if !matches!(op, DiffOp::Equal { .. }) {
            difference.removed += op.old_range().len();
            difference.added += op.new_range().len();
        }
    }
    for group in group_diff_ops(ops, CONTEXT) {
        difference.hunks.push(group.iter().flat_map(|op| of_op(op, &first, &second)).collect());
    }
    difference.hunks.retain(|hunk| hunk.iter().any(|line| line.tag != Tag::Equal));
    difference
}

/// The lines that are compared.
fn lines(level: Level, text: &str, comments: Comments) -> Vec<String> {
    let stripped = |line: &str| match (level.comment(), comments) {
        (Some(mark), Comments::Ignored) => line.split(mark).next().unwrap_or_default().trim_end().to_string(),
        // Plans are printed in columns; their width depends on the longest line.
        (Some(mark), Comments::Compared) => match line.split_once(mark) {
            Some((code, comment)) => format!("{} {mark}{comment}", code.trim_end()),
            None => line.trim_end().to_string(),
        },
        (None, _) => line.trim_end().to_string(),
    };
    // The number of declared registers does not count as a difference.
    let says = |line: &String| !(line.trim().is_empty() || level == Level::Ptx && line.trim().starts_with(".reg"));
    text.lines().map(stripped).filter(says).collect()
}

/// The same operations, but aligned lines count as changes if their names do not correspond.
fn with_names(ops: &[DiffOp], [first, second]: [&[String]; 2], dialects: &[Dialect; 2]) -> Vec<DiffOp> {
    let mut names = Correspondence::default();
    let mut all: Vec<DiffOp> = Vec::new();
    for op in ops {
        let &DiffOp::Equal { old_index, new_index, len } = op else {
            all.push(*op);
            continue;
        };
        for offset in 0..len {
            let (old_index, new_index) = (old_index + offset, new_index + offset);
            let tokens = [dialects[0].names(&first[old_index]), dialects[1].names(&second[new_index])];
            let agree = names.agree(&tokens[0], &tokens[1]);
            let next = match (agree, all.last_mut()) {
                (true, Some(DiffOp::Equal { old_index: old, len, .. })) if *old + *len == old_index => {
                    *len += 1;
                    continue;
                }
                (true, _) => DiffOp::Equal { old_index, new_index, len: 1 },
                (false, Some(DiffOp::Replace { old_index: old, old_len, new_len, .. }))
                    if *old + *old_len == old_index =>
                {
                    (*old_len, *new_len) = (*old_len + 1, *new_len + 1);
                    continue;
                }
                (false, _) => DiffOp::Replace { old_index, old_len: 1, new_index, new_len: 1 },
            };
            all.push(next);
        }
    }
    all
}

fn of_op(op: &DiffOp, first: &[String], second: &[String]) -> Vec<Line> {
    let line = |tag| move |text: &String| Line { tag, text: text.clone() };
    let (old, new) = (&first[op.old_range()], &second[op.new_range()]);
    match op {
        DiffOp::Equal { .. } => old.iter().map(line(Tag::Equal)).collect(),
        _ => old.iter().map(line(Tag::Removed)).chain(new.iter().map(line(Tag::Added))).collect(),
    }
}

impl Difference {
    /// Whether the texts are equal.
    pub fn is_empty(&self) -> bool {
        self.removed + self.added == 0
    }

    /// The hunks as text: `-` before lines that only the first has, `+` before lines that only the second has. `paint`
    /// may wrap a line, depending on its tag.
    pub fn unified(&self, paint: impl Fn(Tag, &str) -> String) -> String {
        let mut text = String::new();
        for (index, hunk) in self.hunks.iter().enumerate() {
            if index > 0 {
                text.push_str("  ...\n");
            }
            for Line { tag, text: line } in hunk {
                let mark = match tag {
                    Tag::Equal => ' ',
                    Tag::Removed => '-',
                    Tag::Added => '+',
                };
                // Writing to a string does not fail.
                let _ = writeln!(text, "{}", paint(*tag, &format!("{mark} {line}")));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Comments, Level, compare};

    const ONE: &str = "
.visible .entry f()
{
    .reg .b32 %r<9>;
    ld.shared.f32 %a0, [%r1];    //@ thread(1, 1): fragment
    ld.shared.f32 %a1, [%r1+4];
loop_1:
    fma.rn.f32 %acc0, %a0, %b0, %acc0;
    fma.rn.f32 %acc1, %a1, %b0, %acc1;
    bra.uni loop_1;
}";

    fn changes(level: Level, first: &str, second: &str) -> String {
        let difference = compare(level, first, second, Comments::Ignored);
        difference.unified(|_, line| line.to_string()).lines().filter(|line| line.starts_with(['-', '+'])).collect()
    }

    #[test]
    fn names_and_comments_are_no_difference() {
        let renamed = ONE.replace("%r1", "%r7").replace("loop_1", "loop_4").replace("fragment", "a fragment");
        assert!(compare(Level::Ptx, ONE, &renamed, Comments::Ignored).is_empty());
        let difference = compare(Level::Ptx, ONE, &renamed, Comments::Compared);
        assert_eq!((difference.removed, difference.added), (1, 1));
    }

    #[test]
    fn one_more_register_is_one_line() {
        let more =
            ONE.replace("    ld.shared.f32 %a0, [%r1];", "    add.u32 %r2, %r1, 4;\n    ld.shared.f32 %a0, [%r2];");
        let more = more.replace("%a1, [%r1+4]", "%a1, [%r2+4]");
        assert_eq!(changes(Level::Ptx, ONE, &more), "+     add.u32 %r2, %r1, 4;");
    }

    #[test]
    fn the_same_instructions_on_other_registers_are_a_difference() {
        let swapped = ONE.replace("%acc0, %a0, %b0, %acc0", "%acc0, %a1, %b0, %acc0");
        let changes = changes(Level::Ptx, ONE, &swapped);
        assert!(
            changes.starts_with("-     fma.rn.f32 %acc0, %a0") && changes.contains("+     fma.rn.f32 %acc0, %a1"),
            "{changes}"
        );
    }

    #[test]
    fn kernels_have_their_registers_declared() {
        let one =
            "kernel k {\n  registers r0..3 U32: x\n  r0 = param m\n  r1 = (r0 * 4)\n  store shared [r1 + 0] f32\n}";
        let more = "kernel k {\n  registers r0..4 U32: x\n  r0 = tid\n  r1 = param m\n  r2 = (r1 * 4)\n  store shared [r2 + 0] f32\n}";
        assert_eq!(changes(Level::Kernel, one, more), "+   r0 = tid");
        assert!(changes(Level::Kernel, one, &one.replace("f32", "f64")).contains("f64"));
    }

    #[test]
    fn clauses_are_lines() {
        assert_eq!(
            changes(Level::Clauses, "tile(2, 2, 2);\nthread(1, 1);\n", "tile(2, 2, 4);\nthread(1, 1);\n"),
            "- tile(2, 2, 2);+ tile(2, 2, 4);"
        );
    }
}
