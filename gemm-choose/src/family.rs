//! Families: spaces of schedules that a schedule is chosen from.

use std::sync::OnceLock;

use ptx_gemm_dsl::Space;

/// A space of schedules for one kind of products.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name of its file.
    pub name: &'static str,
    /// Its file: a comment that says what it is for, and clauses with alternatives.
    pub text: &'static str,
    /// The same, read.
    pub space: Space,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../families/", $name, ".gemm")))),*]
    };
}

/// The files. Where two families contain the same schedule, it is of the first one.
const FILES: [(&str, &str); 11] = files![
    "wgmma",
    "wgmma_divided",
    "wgmma_pingpong",
    "wgmma_rows",
    "wgmma_split",
    "planes",
    "mma",
    "simt_rows",
    "simt_tma",
    "simt",
    "simt_async",
];

impl Family {
    /// All of them.
    pub fn all() -> &'static [Family] {
        static ALL: OnceLock<Vec<Family>> = OnceLock::new();
        ALL.get_or_init(|| {
            let read = |(name, text): (&'static str, &'static str)| {
                let space = Space::parse(text).unwrap_or_else(|errors| panic!("{name}: {errors}"));
                Family { name, text, space }
            };
            FILES.into_iter().map(read).collect()
        })
    }

    /// What it is for.
    pub fn purpose(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("//"));
        lines.map(str::trim).collect::<Vec<_>>().join(" ")
    }
}
