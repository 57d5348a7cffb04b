//! `expect { spills = 0; shared <= 48 KiB }`: figures, comparisons, limits.

use crate::clause::{Clause, Expectation, Metric, Relation};
use crate::diagnostic::Diagnostic;
use crate::figure::Figure;
use crate::grammar::args::Args;
use crate::grammar::number::integer;
use crate::token::{Token, TokenKind};
use crate::words::Word;

/// Units of bytes.
const UNITS: [(&str, u64); 3] = [("B", 1), ("KiB", 1024), ("MiB", 1024 * 1024)];

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
                args.fail("argument-twice", format!("expect: {} is given twice", contract.metric.name()), first.span);
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
    let signs = rest.iter().take_while(|token| matches!(token.kind, TokenKind::Punct('=' | '<' | '>'))).count();
    let symbol: String = rest[..signs]
        .iter()
        .filter_map(|token| if let TokenKind::Punct(c) = token.kind { Some(c) } else { None })
        .collect();
    let symbol = if symbol == "==" { "=" } else { &symbol };
    let Some((_, relation)) = Relation::TABLE.iter().find(|(known, _)| *known == symbol) else {
        args.fail("relation", format!("expect: {} needs one of = <= < >= > and a limit", metric.name()), span);
        return None;
    };
    let (value, unit) = match &rest[signs..] {
        [value] => (value, 1),
        [minus, number, ..] if minus.is_punct('-') => {
            args.int_value(metric.name(), &rest[signs..signs + 2], minus.span.to(number.span), 0);
            return None;
        }
        [value, percent] if metric == Metric::Occupancy && percent.is_punct('%') => {
            let limit = fraction(args, metric, value);
            return Some(Expectation { metric: Metric::OccupancyPercent, relation: *relation, limit });
        }
        [value, unit] if metric.is_bytes() => match UNITS.iter().find(|(known, _)| unit.ident() == Some(known)) {
            Some((_, bytes)) => (value, *bytes),
            None => {
                args.fail(
                    "unit",
                    format!("expect: {} is not a unit of bytes: B, KiB, MiB", unit.describe()),
                    unit.span,
                );
                return None;
            }
        },
        [_, unit, ..] => {
            let message = format!("expect: {} has no unit, got {}", metric.name(), unit.describe());
            args.fail("unit", message, unit.span);
            return None;
        }
        [] => {
            args.fail("relation", format!("expect: {} needs a limit", metric.name()), span);
            return None;
        }
    };
    if let Some(Slip { message, spelling, metric, limit }) = misspelled(metric, value) {
        let diagnostic = Diagnostic::error("unit", "expect", message).at(value.span);
        args.slip(diagnostic.help(format!("write {spelling}")).spell(spelling));
        return Some(Expectation { metric, relation: *relation, limit });
    }
    if metric.is_fraction() {
        return Some(Expectation { metric, relation: *relation, limit: fraction(args, metric, value) });
    }
    let number = args.int_up_to(Some(u32::MAX), metric.name(), std::slice::from_ref(value), value.span, 0);
    Some(Expectation { metric, relation: *relation, limit: (u64::from(number) * unit).into() })
}

/// Reads a limit whose notation is wrong but whose meaning is clear.
struct Slip {
    message: String,
    spelling: String,
    metric: Metric,
    limit: Figure,
}

/// `48KiB` written as one word, and `occupancy >= 0.5`.
fn misspelled(metric: Metric, value: &Token) -> Option<Slip> {
    let TokenKind::Number(text) = &value.kind else { return None };
    if metric == Metric::Occupancy {
        let share = text.contains('.').then(|| Figure::parse(text)).flatten()?;
        let percent = Figure::from(100.0 * share.as_f64());
        let message = "expect: occupancy counts blocks of a multiprocessor, or its warps in percent".into();
        let (metric, spelling) = (Metric::OccupancyPercent, format!("{percent} %"));
        return (share <= Figure::from(1)).then_some(Slip { message, spelling, metric, limit: percent });
    }
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let (_, bytes) = UNITS.iter().find(|(known, _)| *known == unit).filter(|_| metric.is_bytes())?;
    let message = format!("expect: {text} needs a space before its unit");
    let limit = (u64::from(integer(number).ok()?) * bytes).into();
    Some(Slip { message, spelling: format!("{number} {unit}"), metric, limit })
}

/// A limit that need not be whole.
fn fraction(args: &mut Args, metric: Metric, value: &Token) -> Figure {
    match &value.kind {
        TokenKind::Number(text) if text.contains(['.', 'e', 'E']) => Figure::parse(text).unwrap_or_else(|| {
            let message = format!("expect: {} = {text} is not a number with at most eighteen decimals", metric.name());
            args.fail("decimal", message, value.span);
            Figure::from(0)
        }),
        _ => {
            let value = std::slice::from_ref(value);
            u64::from(args.int_up_to(Some(u32::MAX), metric.name(), value, value[0].span, 0)).into()
        }
    }
}
