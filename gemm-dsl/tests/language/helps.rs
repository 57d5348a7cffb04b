//! Help texts: following one leads to a legal schedule, or at least to fewer errors.

use ptx_gemm_dsl::diagnostic::Edit;
use ptx_gemm_dsl::token::{Token, TokenKind};
use ptx_gemm_dsl::{Diagnostic, Diagnostics, Schedule, Span, tokens};

const GOOD: &str = "tile(128, 128, 8); thread(8, 8);";

fn said(text: &str) -> Diagnostics {
    match Schedule::parse(text).and_then(|schedule| schedule.check()) {
        Ok(said) | Err(said) => said,
    }
}

#[track_caller]
fn legal(text: &str) {
    assert_eq!(said(text).errors().count(), 0, "{text}\n{}", said(text));
}

/// The only error of a schedule has this text, and the suggested change repairs it.
#[track_caller]
fn repaired(text: &str, words: &str, changed: &str) {
    let said = said(text);
    let errors: Vec<&Diagnostic> = said.errors().collect();
    assert!(matches!(errors[..], [only] if only.to_string().contains(words)), "{text}\n{said}");
    legal(changed);
}

/// On tensor cores fewer rows are tried first: the tile keeps the columns that its atom has.
#[test]
fn a_tile_with_too_many_accumulators_loses_rows() {
    let of = |m: u32| format!("types(bf16); tile({m}, 128, 16); warp(128, 32); atom(mma(16, 8, 16)); stages(2)");
    repaired(&of(512), "tile(256, 128, 16) takes 256 threads", &of(256));
}

#[test]
fn brackets_around_a_schedule_hide_nothing() {
    let advice = "write the clauses alone";
    for text in ["(< CLAUSES >)", "gemm!(< CLAUSES >)", "gemm!{ CLAUSES };", "{ CLAUSES }", "((( CLAUSES )))"] {
        repaired(&text.replace("CLAUSES", GOOD), advice, GOOD);
    }
    legal(&format!("< {GOOD} >"));
    let both = said("(< tile(128, 128, 8); thread(8, 9); stage(2) >)");
    assert_eq!(both.errors().count(), 3, "{both}");
}

#[test]
fn a_comment_of_another_language_hides_nothing() {
    let text = format!("# the tile; of one block (\n{GOOD}");
    repaired(&text, "`#` does not begin a comment; write `//`", &text.replace('#', "//"));
}

#[test]
fn what_is_no_clause_hides_no_clause() {
    for text in [format!("= {GOOD}"), format!("42, {GOOD}"), format!("(8, 8) {GOOD}")] {
        repaired(&text, "expected the name of a clause", GOOD);
    }
}

#[test]
fn undeclared_names_are_declared_at_once() {
    let epilogue = |text: &str| format!("{GOOD} epilogue({text})");
    let text = epilogue("|acc| gain * acc + bias[n] + gain * shift");
    let said = said(&text);
    let advice = "declare it: |acc, gain, bias, shift|";
    assert_eq!(said.errors().filter(|error| error.to_string().contains(advice)).count(), 3, "{said}");
    assert_eq!(said.errors().count(), 3, "{said}");
    legal(&text.replace("|acc|", "|acc, gain, bias, shift|"));
    repaired(
        &epilogue("|acc| if acc > 0 { acc } else { 0 }"),
        "write relu, min, max or clamp",
        &epilogue("|acc| max(acc, 0)"),
    );
}

/// Rust has `1.` but not `.5`; other languages have both.
#[test]
fn a_point_has_digits_on_one_side() {
    let read = |text: &str| Schedule::parse(&format!("{GOOD} {text}")).unwrap();
    assert_eq!(read("epilogue(|acc| acc*.5+1.-.5e-1*2.)"), read("epilogue(|acc| acc * 0.5 + 1 - 0.05 * 2)"));
    assert_eq!(
        read("expect { loads_per_fma <= .5; max_error <= 1. }"),
        read("expect { loads_per_fma <= 0.5; max_error <= 1 }")
    );
    for wrong in ["acc * .", "acc * . 5", "acc * .x", "acc..5", "acc.5"] {
        assert!(Schedule::parse(&format!("{GOOD} epilogue(|acc| {wrong})")).is_err(), "{wrong}");
    }
}

/// Only words that work are suggested.
#[test]
fn functions_that_are_suggested_work() {
    for name in ["gleu", "sigmod", "reul", "foo", "mx", "exq"] {
        let said = said(&format!("{GOOD} epilogue(|acc| {name}(acc))"));
        let unknown = |error: &&Diagnostic| error.rule == "unknown-word";
        let [error] = said.errors().filter(unknown).collect::<Vec<_>>()[..] else { panic!("{name}: {said}") };
        let help = error.help.as_deref().unwrap_or_default();
        let advised = match error.fix.as_ref().map(|fix| &fix.edit) {
            Some(Edit::Spell(spelling)) => vec![spelling.clone()],
            _ => {
                let (_, list) = help.split_once("write ").unwrap_or_else(|| panic!("{name}: {help}"));
                list.replace(" or ", ", ").split(", ").map(str::to_string).collect()
            }
        };
        for function in advised {
            let args = match function.as_str() {
                "min" | "max" => "acc, 0",
                "clamp" => "acc, 0, 6",
                _ => "acc",
            };
            legal(&format!("{GOOD} epilogue(|acc| {function}({args}))"));
        }
    }
}

/// Of a shape that does not exist, those that do are suggested.
#[test]
fn shapes_that_are_suggested_work() {
    const F64: &str = "types(f64); tile(64, 64, 16); warp(32, 32);";
    for shape in ["8, 8, 4", "16, 8, 4", "16, 8, 8", "16, 8, 16"] {
        legal(&format!("{F64} atom(mma({shape}))"));
    }
    let said = said(&format!("{F64} atom(mma(8, 8, 8))"));
    let helps: Vec<&str> = said.errors().filter_map(|error| error.help.as_deref()).collect();
    assert!(!helps.is_empty() && helps.iter().all(|help| help.contains("atom(mma(16, 8, 16))")), "{said}");
}

fn ident(name: &str, at: u32) -> Token {
    Token { kind: TokenKind::Ident(name.into()), span: Span::token(at) }
}

/// In `gemm!`, the help puts a name in place of a number into braces, and that version is legal.
#[test]
fn a_name_of_rust_gets_braces_in_the_macro() {
    let (size, own) = (|value: TokenKind, at| Token { kind: value, span: Span::token(at) }, Span::token(0));
    let read = |first: Vec<Token>| {
        let mut inner = first;
        inner.push(size(TokenKind::Punct(','), 7));
        inner.push(size(TokenKind::Number("128".into()), 8));
        inner.push(size(TokenKind::Punct(','), 9));
        inner.push(size(TokenKind::Number("8".into()), 10));
        let group = TokenKind::Group(ptx_gemm_dsl::token::Delimiter::Paren, inner);
        let tile = vec![ident("tile", 0), Token { kind: group, span: own }];
        tokens::read(&tile).errors
    };
    let advice = |errors: &Diagnostics| errors.errors().find_map(|error| error.fix.clone().map(|fix| fix.edit));
    let named = read(vec![ident("BM", 1)]);
    assert_eq!(advice(&named), Some(Edit::Spell("{BM}".into())), "{named}");
    assert!(named.to_string().contains("write `{BM}`"), "{named}");
    let twice = vec![size(TokenKind::Number("2".into()), 1), size(TokenKind::Punct('*'), 2), ident("BM", 3)];
    assert_eq!(advice(&read(twice)), Some(Edit::Spell("{2 * BM}".into())));
    let hole = read(vec![size(TokenKind::Hole(0), 1)]);
    assert!(hole.errors().all(|error| error.clause != "tile"), "{hole}");
}
