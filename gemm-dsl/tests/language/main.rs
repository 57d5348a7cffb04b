//! The language, tested from outside: one binary.

mod cases;
mod generate;
mod properties;
mod wrong;
