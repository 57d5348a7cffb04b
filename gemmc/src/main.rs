//! `gemmc`.
fn main() {}
