//! The language, tested from outside: one binary.

mod cases;
