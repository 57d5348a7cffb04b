use super::*;
pub fn print(_: &Module) -> String { String::new() }
pub fn name(_: &Op) -> String { String::new() }
