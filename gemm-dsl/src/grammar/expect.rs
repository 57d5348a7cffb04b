//! `expect { spills = 0; shared <= 48 KiB }`: figures, comparisons, limits.

use crate::clause::{Clause, Expectation, Metric, Relation};
use crate::diagnostic::Diagnostic;
use crate::figure::Figure;
use crate::grammar::args::{Args, span_of};
use crate::grammar::number::{self, integer};
use crate::suggest;
use crate::token::{Token, TokenKind, abridged};
use crate::words::Word;

/// Units of bytes.
const UNITS: [(&str, u64); 3] = [("B", 1), ("KiB", 1024), ("MiB", 1024 * 1024)];

const UNITS_OF_BYTES: &str = "write B, KiB or MiB";

/// Reads the inside of the braces; `None` if there are none.
pub(super) fn parse(args: &mut Args, group: Option<&[Token]>) -> Option<Clause> {
    let Some(tokens) = group else {
        args.fail("brackets", "expect takes its contracts in braces", args.span);
        return None;
    };
    let mut list: Vec<Expectation> = Vec::new();
    let mut unknown = false;
    for piece in tokens.split(|token| token.is_punct(';') || token.is_punct(',')) {
        if let [Token { kind: TokenKind::Hole(_), .. }, ..] = piece {
            // The figure is known at run time, and with it the unit and the limits.
            args.hole();
            unknown = true;
        } else if let [first, ..] = piece
            && let Some(contract) = contract(args, piece)
        {
            if list.iter().any(|earlier| earlier.metric == contract.metric) {
                args.fail("argument-twice", format!("expect: {} is given twice", contract.metric.name()), first.span);
            }
            list.push(contract);
        }
    }
    if list.is_empty() && !unknown {
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
    let (value, unit) = limit(&rest[signs..]);
    if value.is_empty() {
        args.fail("relation", format!("expect: {} needs a limit", metric.name()), span);
        return None;
    }
    let (metric, unit) = match unit {
        None => (metric, 1),
        Some(percent) if metric == Metric::Occupancy && percent.is_punct('%') => (Metric::OccupancyPercent, 1),
        Some(unit) if metric.is_bytes() => match bytes_of(unit.ident().unwrap_or_default()) {
            Ok((_, bytes)) => (metric, bytes),
            Err(near) => {
                let diagnostic = not_a_unit(&unit.describe()).at(unit.span);
                match near {
                    Some(near) => args.push(diagnostic.meant(near)),
                    None => args.push(diagnostic.help(UNITS_OF_BYTES)),
                }
                return None;
            }
        },
        Some(unit) => {
            let message = format!("expect: {} has no unit, got {}", metric.name(), unit.describe());
            args.fail("unit", message, unit.span);
            return None;
        }
    };
    if let [Token { kind: TokenKind::Number(text), span }] = value
        && let Some((_, unit)) = glued(text).filter(|_| metric.is_bytes())
        && let Err(None) = bytes_of(unit)
    {
        args.push(not_a_unit(&format!("`{}`", abridged(unit))).help(UNITS_OF_BYTES).at(*span));
        return None;
    }
    if let ([token], 1) = (value, unit)
        && let Some(Slip { message, spelling, metric, limit }) = misspelled(metric, token)
    {
        let diagnostic = Diagnostic::error("unit", "expect", message).at(token.span);
        args.slip(diagnostic.help(format!("write {spelling}")).spell(spelling));
        return Some(Expectation { metric, relation: *relation, limit });
    }
    let limit = if metric.is_fraction() {
        fraction(args, metric, value)
    } else {
        let number = args.int_value(metric.name(), value, span_of(value), 0);
        (u64::from(number) * unit).into()
    };
    Some(Expectation { metric, relation: *relation, limit })
}

/// A limit and its unit: a word or a percent sign after a number or an expression.
fn limit(tokens: &[Token]) -> (&[Token], Option<&Token>) {
    match tokens {
        [value @ .., before, unit]
            if !matches!(before.kind, TokenKind::Punct(_)) && (unit.ident().is_some() || unit.is_punct('%')) =>
        {
            (&tokens[..=value.len()], Some(unit))
        }
        _ => (tokens, None),
    }
}

/// A limit with a wrong notation but a clear meaning.
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
    let (number, unit) = glued(text).filter(|_| metric.is_bytes())?;
    let (unit, bytes) = bytes_of(unit).or_else(|near| bytes_of(near.unwrap_or_default())).ok()?;
    let message = format!("expect: {text} needs a space before its unit");
    let limit = (u64::from(integer(number).ok()?) * bytes).into();
    Some(Slip { message, spelling: format!("{number} {unit}"), metric, limit })
}

/// The unit of this name and its bytes, or else the intended name.
fn bytes_of(name: &str) -> Result<(&'static str, u64), Option<&'static str>> {
    let known = UNITS.iter().find(|(known, _)| *known == name).copied();
    known.ok_or_else(|| suggest::nearest(name, UNITS.iter().map(|(known, _)| *known)))
}

/// `48KiB` as a number and a unit. Exponents and radix prefixes are not units.
fn glued(text: &str) -> Option<(&str, &str)> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    unit.chars().all(|c| c.is_ascii_alphabetic()).then_some((number, unit))
}

fn not_a_unit(shown: &str) -> Diagnostic {
    Diagnostic::error("unit", "expect", format!("expect: {shown} is not a unit of bytes"))
}

/// A limit that may be a fraction.
fn fraction(args: &mut Args, metric: Metric, value: &[Token]) -> Figure {
    let name = metric.name();
    let problem = match value {
        [Token { kind: TokenKind::Number(text), .. }] if text.contains(['.', 'e', 'E']) => match Figure::parse(text) {
            Some(figure) => return figure,
            None => format!("expect: {name} = {text} is not a number with at most eighteen decimals"),
        },
        [_] | [_, Token { kind: TokenKind::Number(_), .. }] => return whole(args, metric, value),
        _ if number::value(value).is_some() => return whole(args, metric, value),
        _ => format!("expect: {name} must be a number, got `{}`", abridged(&number::text(value))),
    };
    args.fail("decimal", problem, span_of(value));
    Figure::from(0)
}

/// A limit that must be a whole number.
fn whole(args: &mut Args, metric: Metric, value: &[Token]) -> Figure {
    u64::from(args.int_value(metric.name(), value, span_of(value), 0)).into()
}
