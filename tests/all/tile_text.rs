//! Tile IR is a language: what is printed parses back, and every token of it matters.

use ptx_gemm_check::{cases, tuned};
use ptx_gemm_codegen::tile::{self, parse::parse, print::print};
use ptx_gemm_codegen::{compile_programs, compile_text};
use ptx_gemm_dsl::Schedule;

use crate::mutants::{EditKind, token_edits};
use crate::net::{RANDOM, instructions};

fn module(schedule: &Schedule) -> tile::Module {
    tile::build::build(&schedule.plan(None).unwrap())
}

#[test]
fn printed_programs_parse_back() {
    let named = cases().chain(tuned()).map(|case| case.schedule().unwrap());
    let random = RANDOM.lines().map(|text| text.parse().unwrap());
    let mut count = 0;
    for schedule in named.chain(random) {
        let module = module(&schedule);
        let printed = print(&module);
        match parse(&printed) {
            Ok((parsed, _)) => assert!(parsed == module, "{schedule}\n{printed}"),
            Err(errors) => panic!("{schedule}: {errors}\n{printed}"),
        }
        count += 1;
    }
    assert!(count > 400);
}

/// An edit that may leave the instructions as they are, and why.
fn same_by_meaning(what: &str, line: &str) -> Option<&'static str> {
    let head = line.trim_start();
    if head.starts_with("role ") && what.contains("->") {
        return Some("a role's name is free");
    }
    None
}

fn edits_of(name: &str, module: &tile::Module) -> (usize, Vec<String>) {
    let printed = print(module);
    let original = instructions(&compile_programs(module, None).unwrap().ptx);
    let lines: Vec<&str> = printed.lines().collect();
    let (mut refused, mut same) = (0, Vec::new());
    for edit in token_edits(&printed) {
        let line = lines[edit.line - 1];
        match compile_text(&edit.text, None) {
            Err(errors) => {
                assert!(errors.0.iter().all(|e| e.line > 0 && !e.message.is_empty()), "{name}: {}", edit.what);
                refused += 1;
            }
            Ok(compiled) => {
                let kept = instructions(&compiled.ptx) == original;
                if kept && same_by_meaning(&edit.what, line).is_none() {
                    same.push(format!("{name}:{}: {} | {}", edit.line, edit.what, line.trim()));
                }
            }
        }
        let _ = EditKind::Number;
    }
    (refused, same)
}

#[test]
fn every_token_matters() {
    for case in cases().chain(tuned()) {
        if std::env::var("CASE").is_ok_and(|only| only != case.name) {
            continue;
        }
        let start = std::time::Instant::now();
        let mut module = module(&case.schedule().unwrap());
        module.entries.truncate(1);
        let (refused, same) = edits_of(&case.name, &module);
        println!("{} refused {refused} same {} in {:?}\n{}", case.name, same.len(), start.elapsed(), same.join("\n"));
    }
}
