//! One file for each command: arguments in, an answer out.

pub(crate) mod bench;
pub(crate) mod cases;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod first_launch;
pub(crate) mod fmt;
pub(crate) mod fuzz;
pub(crate) mod ir;
pub(crate) mod ladder;
pub(crate) mod mutants;
pub(crate) mod plan;
pub(crate) mod ptx;
pub(crate) mod run;
pub(crate) mod sanitize;
pub(crate) mod second_opinion;
pub(crate) mod selftest;
pub(crate) mod stray_pointer;
pub(crate) mod sweep;
