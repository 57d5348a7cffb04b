//! The language, tested from outside: one binary.

mod builder;
mod cases;
mod generate;
mod helps;
mod hostile;
mod plans;
mod properties;
mod reference;
mod repair;
mod space;
mod wrong;
