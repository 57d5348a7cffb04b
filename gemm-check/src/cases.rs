//! The named cases: every kernel of the reports that this project grew from, as a schedule.

use ptx_gemm_dsl::{Diagnostics, Schedule};

/// One file of `cases/`.
///
/// Its first comment line names where the kernel comes from, the lines after it say what it is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The file's stem.
    pub name: &'static str,
    /// The whole file.
    pub text: &'static str,
}

impl Case {
    /// Where the kernel comes from: the first comment line.
    pub fn seed(&self) -> &'static str {
        self.comments().next().unwrap_or_default()
    }

    /// What it is there to show: the comment lines after the first, in one sentence or two.
    pub fn point(&self) -> String {
        self.comments().skip(1).collect::<Vec<_>>().join(" ")
    }

    /// The schedule. A case that does not parse is a bug, which a test of this crate would have found.
    pub fn schedule(&self) -> Result<Schedule, Diagnostics> {
        self.text.parse()
    }

    fn comments(&self) -> impl Iterator<Item = &'static str> {
        self.text.lines().map_while(|line| line.strip_prefix("//")).map(str::trim)
    }
}

static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// Every case, by name.
pub fn cases() -> impl ExactSizeIterator<Item = Case> {
    FILES.iter().map(|&(name, text)| Case { name, text })
}

/// The case of that name.
pub fn case(name: &str) -> Option<Case> {
    cases().find(|case| case.name == name)
}
