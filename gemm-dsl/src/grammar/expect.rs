//! `expect { spills = 0; shared <= 48 KiB }`: figures, comparisons, limits.

use crate::clause::{Clause, Expectation, Metric, Relation};
use crate::grammar::args::Args;
use crate::grammar::args::integer;
use crate::token::{Token, TokenKind};
use crate::words::Word;

/// Reads the inside of the braces; `None` if there are none.
pub(super) fn parse(args: &mut Args, group: Option<&[Token]>) -> Option<Clause> {
    let Some(tokens) = group else {
        args.fail("brackets", "expect takes its contracts in braces", args.span);
        return None;
    };
    let mut list: Vec<Expectation> = Vec::new();
    for piece in tokens.split(|token| token.is_punct(';') || token.is_punct(',')) {
        if let [first, ..] = piece
            && let Some(contract) = contract(args, piece)
        {
            if list.iter().any(|earlier| earlier.metric == contract.metric) {
                args.fail("argument-twice", format!("expect: {} is given twice", contract.metric.word()), first.span);
            }
            list.push(contract);
        }
    }
    if list.is_empty() {
        args.missing("at least one contract");
    }
    Some(Clause::Expect(list))
}

/// `figure relation number [unit]`
fn contract(args: &mut Args, piece: &[Token]) -> Option<Expectation> {
    let (head, rest) = piece.split_first()?;
    let span = head.span.to(piece.last()?.span);
    let metric: Metric = args.word_value(std::slice::from_ref(head), head.span)?;
    let signs = rest.iter().take_while(|token| matches!(token.kind, TokenKind::Punct(_))).count();
    let symbol: String = rest[..signs.min(2)]
        .iter()
        .filter_map(|token| if let TokenKind::Punct(c) = token.kind { Some(c) } else { None })
        .collect();
    let symbol = if symbol == "==" { "=" } else { &symbol };
    let Some((_, relation)) = Relation::TABLE.iter().find(|(known, _)| *known == symbol) else {
        args.fail("relation", format!("expect: {} needs one of = <= < >= > and a limit", metric.word()), span);
        return None;
    };
    let (value, unit) = match &rest[signs..] {
        [value] => (value, 1),
        [value, unit] if matches!(metric, Metric::Shared | Metric::Spills) => match unit.ident() {
            Some("B") => (value, 1),
            Some("KiB") => (value, 1024),
            Some("MiB") => (value, 1024 * 1024),
            _ => {
                args.fail(
                    "unit",
                    format!("expect: {} is not a unit of bytes: B, KiB, MiB", unit.describe()),
                    unit.span,
                );
                return None;
            }
        },
        [_, unit, ..] => {
            let message = format!("expect: {} has no unit, got {}", metric.word(), unit.describe());
            args.fail("unit", message, unit.span);
            return None;
        }
        [] => {
            args.fail("relation", format!("expect: {} needs a limit", metric.word()), span);
            return None;
        }
    };
    // `48KiB` in one word is a slip that is easy to make and easy to understand.
    if let TokenKind::Number(text) = &value.kind
        && let Some(digits) = text.find(|c: char| c.is_ascii_alphabetic())
        && integer(&text[..digits]).is_ok()
        && ["B", "KiB", "MiB"].contains(&&text[digits..])
    {
        let spaced = format!("{} {}", &text[..digits], &text[digits..]);
        let message = format!("expect: {text} needs a space before its unit");
        let diagnostic = crate::diagnostic::Diagnostic::error("unit", "expect", message).at(value.span);
        args.push(diagnostic.help(format!("write {spaced}")).fix(crate::diagnostic::Fix::Spell(spaced)));
        return None;
    }
    let number = args.int_value(metric.word(), std::slice::from_ref(value), value.span, 0);
    Some(Expectation { metric, relation: *relation, limit: u64::from(number) * unit })
}
