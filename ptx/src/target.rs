//! Targets and versions: what `.target sm_90a` supports, and the lowest `.version` it needs.

/// A PTX ISA version, `.version 8.0`.
pub type Version = (u32, u32);

/// What a target's suffix adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suffix {
    /// `sm_90`: runs on every later architecture.
    None,
    /// `sm_100f`: runs on later members of the family.
    Family,
    /// `sm_90a`: runs on this architecture alone, and has all of its features.
    Architecture,
}

/// A parsed `.target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// 90 in `sm_90a`.
    pub sm: u32,
    /// `a` in `sm_90a`.
    pub suffix: Suffix,
}

impl Target {
    /// Reads the first word of a `.target`: `sm_90a, debug` is sm_90a.
    pub fn from_words(words: &str) -> Option<Target> {
        let name = words.split(',').next()?.trim().strip_prefix("sm_")?;
        let (digits, suffix) = match name.as_bytes().last()? {
            b'a' => (&name[..name.len() - 1], Suffix::Architecture),
            b'f' => (&name[..name.len() - 1], Suffix::Family),
            _ => (name, Suffix::None),
        };
        let sm = digits.parse().ok().filter(|sm| (10..1000).contains(sm))?;
        Some(Target { sm, suffix })
    }

    /// The lowest version that has the target, according to ptxas 13.0. A target that is not in the table gets the
    /// newest version of the table.
    pub const fn version(self) -> Version {
        match (self.sm, self.suffix) {
            (..=69, _) => (5, 0),
            (70..=74, _) => (6, 0),
            (75..=79, _) => (6, 3),
            (80..=85, _) => (7, 0),
            (86, _) => (7, 1),
            (87, _) => (7, 4),
            (88, _) => (9, 0),
            (89, _) => (7, 8),
            (90, Suffix::None) => (7, 8),
            (90, _) => (8, 0),
            (100 | 101, Suffix::None | Suffix::Architecture) => (8, 6),
            (120, Suffix::None | Suffix::Architecture) => (8, 7),
            (100 | 101 | 103 | 120 | 121, _) => (8, 8),
            _ => (9, 0),
        }
    }
}
