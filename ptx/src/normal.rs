//! A normal form of PTX text that is independent of register and label names, for comparing two texts.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// The instructions and directives of a text, one per line, with registers and labels numbered by their first use in an
/// entry. Comments, blank lines and the sizes of register families are left out; opcodes, operands and their order are
/// kept.
pub fn instructions(ptx: &str) -> String {
    let lines = || ptx.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let labels: HashSet<&str> = lines().filter_map(|line| line.strip_suffix(':')).collect();
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut out = String::new();
    for line in lines().filter(|line| !line.is_empty() && !line.starts_with(".reg")) {
        if line.starts_with(".visible") {
            names.clear();
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '%' || c == '.';
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let end = rest.find(|c: char| !word(c)).unwrap_or(rest.len()).max(c.len_utf8());
            let (token, after) = rest.split_at(end);
            let special = ["%tid", "%ctaid", "%nctaid", "%ntid", "%laneid"].iter().any(|s| token.starts_with(s));
            if token.starts_with('%') && !special || labels.contains(token) {
                let next = names.len();
                // Writing to a string does not fail.
                let _ = write!(out, "<{}>", names.entry(token).or_insert(next));
            } else {
                out.push_str(token);
            }
            rest = after;
        }
        out.push('\n');
    }
    out
}

/// The same text without its comments, and without the lines that hold nothing else. No string of a module holds `//`.
pub fn without_comments(ptx: &str) -> String {
    let kept = ptx.lines().filter_map(|line| {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        (!code.is_empty() || line.is_empty()).then_some(code)
    });
    let mut out = String::new();
    for line in kept {
        // A comment between two blank lines leaves only one of them.
        if line.is_empty() && (out.is_empty() || out.ends_with("\n\n")) {
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{instructions, without_comments};

    #[test]
    fn without_comments_the_instructions_are_the_same() {
        let text =
            "// made by hand\n\n.version 7.8 // old\n\n.visible .entry f()\n{\n    // nothing\n    ret; // done\n}\n";
        let bare = without_comments(text);
        assert_eq!(bare, ".version 7.8\n\n.visible .entry f()\n{\n    ret;\n}\n");
        assert_eq!(instructions(&bare), instructions(text));
    }

    #[test]
    fn names_and_comments_make_no_difference_and_all_else_does() {
        let one = ".visible .entry f()\n{\nloop_1:\n    add.u32 %r1, %r2, 4; // tile: a\n    bra loop_1;\n}";
        let renamed = one.replace("%r1", "%x7").replace("tile: a", "b").replace("loop_1", "again");
        assert_eq!(instructions(one), instructions(&renamed));
        for changed in [one.replace('4', "5"), one.replace("add", "sub"), one.replace("%r2", "%r1")] {
            assert_ne!(instructions(one), instructions(&changed));
        }
    }
}
