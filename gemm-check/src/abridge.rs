//! Abridges texts of the compiler so that they can be reviewed: long runs of similar lines are left out, and the last
//! line is a digest of the whole text, so that no change goes unnoticed.

use std::fmt::Write;

/// The longest cycle of different lines that is searched for, and the minimum number of repetitions of a cycle that are
/// abridged to one.
const CYCLE: usize = 16;
const ROUNDS: usize = 3;

/// FNV-1a, which distinguishes texts in a snapshot. It does not protect against deliberate collisions.
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// A text of kernel IR or PTX with its long runs of similar lines shortened, and the digest of the whole text.
pub fn abridge(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let kinds: Vec<(String, &str)> = lines.iter().map(|line| kind(line)).collect();
    let mut out = String::new();
    let mut i = 0;
    while i < lines.len() {
        // A line without a note is structure.
        let (length, rounds) = if kinds[i].1.is_empty() { (1, 1) } else { cycle(&kinds[i..]) };
        for line in &lines[i..i + length] {
            let _ = writeln!(out, "{}", line.trim_end());
        }
        if rounds > 1 {
            let indent = lines[i].len() - lines[i].trim_start().len();
            let _ = writeln!(out, "{:indent$}... {} more lines like these", "", (rounds - 1) * length);
        }
        i += length * rounds;
    }
    let _ = writeln!(out, "{} lines, digest {:016x}", lines.len(), digest(text));
    out
}

/// The key by which two lines are similar: the operation, and the note after the text.
fn kind(line: &str) -> (String, &str) {
    let note = line.split_once("//@ ").or_else(|| line.split_once("; ")).map_or("", |(_, note)| note);
    (operation(line).chars().filter(|c| !c.is_ascii_digit()).collect(), note)
}

/// The first word of a line, or that of the value where the line begins with a destination.
pub fn operation(line: &str) -> &str {
    let text = line.split_once(" = ").map_or(line, |(_, value)| value);
    text.split_whitespace().next().unwrap_or("")
}

/// Rounds of the best cycle that begins at the first line: (lines of a round, rounds).
fn cycle(kinds: &[(String, &str)]) -> (usize, usize) {
    let rounds =
        |length: usize| 1 + kinds[length..].chunks(length).take_while(|round| *round == &kinds[..length]).count();
    let all = (1..=CYCLE.min(kinds.len())).map(|length| (length, rounds(length)));
    all.filter(|(_, rounds)| *rounds >= ROUNDS)
        .max_by_key(|(length, rounds)| (length * (rounds - 1), usize::MAX - length))
        .unwrap_or((1, 1))
}

#[cfg(test)]
mod tests {
    use super::abridge;

    #[test]
    fn runs_are_shortened_and_every_change_shows() {
        let text: String = (0..8).map(|i| format!("    add %r{i}; //@ tile: a sum\n")).collect::<String>() + "ret;\n";
        let short = abridge(&text);
        assert!(
            short.starts_with("    add %r0; //@ tile: a sum\n    ... 7 more lines like these\nret;\n9 lines"),
            "{short}"
        );
        // Inside the part that is left out.
        assert_ne!(abridge(&text.replace("%r5", "%r6")), short);
    }
}
