//! `|acc, c, alpha, bias| relu(alpha * acc + bias[n])`: declared names, then an expression with the usual precedence.

use crate::diagnostic::{Diagnostic, Fix};
use crate::epilogue::{Axis, BinaryOp, Epilogue, Expr, Function, Vector};
use crate::grammar::args::Args;
use crate::span::Span;
use crate::suggest;
use crate::token::{Delimiter, Token, TokenKind};
use crate::words::Word;

/// Most nodes that an expression may have: far more than anyone writes, few enough for every recursive walk.
const MAX_NODES: u32 = 256;

const OPERATORS: &str = "the operators are + - * /";

const OPERANDS: &str = "an operand is a declared name, a number, a function call or an expression in parentheses";

/// Reads the inside of `epilogue( ... )`.
pub(super) fn parse(args: &mut Args, tokens: &[Token]) -> Option<Epilogue> {
    let span = args.span;
    let bars: Vec<usize> = (0..tokens.len()).filter(|&at| tokens[at].is_punct('|')).collect();
    let (0, close) = (*bars.first().unwrap_or(&1), *bars.get(1).unwrap_or(&0)) else {
        args.fail("epilogue", "epilogue: expected the declared names between bars", span);
        return None;
    };
    if close == 0 {
        args.fail("epilogue", "epilogue: the bar is never closed", tokens[0].span);
        return None;
    }
    let declared = declarations(args, &tokens[1..close])?;
    let mut body = &tokens[close + 1..];
    if let [rest @ .., comma] = body
        && comma.is_punct(',')
    {
        body = rest;
    }
    if body.is_empty() {
        args.fail("epilogue", "epilogue: the expression is missing", span);
        return None;
    }
    let uses = vec![Use::None; declared.len()];
    let mut parser = Parser { args, declared: &declared, uses, nodes: 0 };
    let mut cursor = Cursor::new(body, span);
    let expr = parser.sum(&mut cursor)?;
    if let Some(extra) = cursor.rest.first() {
        let message = format!("epilogue: expected an operator or the end, got {}", extra.describe());
        return parser.fail(message, OPERATORS, extra.span);
    }
    let uses = parser.uses;
    Some(resolve(declared, &uses, expr))
}

/// The names between the bars.
fn declarations(args: &mut Args, tokens: &[Token]) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let pieces: Vec<&[Token]> = tokens.split(|token| token.is_punct(',')).collect();
    let last = pieces.len() - 1;
    for (index, piece) in pieces.into_iter().enumerate() {
        match piece {
            [] if index == last => {}
            [Token { kind: TokenKind::Ident(name), span }] => {
                let problem = if Function::TABLE.iter().any(|(function, _)| function == name) {
                    "is a function"
                } else if !name.is_ascii() {
                    "is not plain ASCII"
                } else if names.contains(name) {
                    "is declared twice"
                } else {
                    names.push(name.clone());
                    continue;
                };
                let message = format!("epilogue: `{name}` {problem}");
                args.fail_with("epilogue-name", message, "declare another name", *span);
                return None;
            }
            other => {
                let (got, span) = other.first().map_or(("nothing".into(), args.span), |t| (t.describe(), t.span));
                args.fail("epilogue", format!("epilogue: expected a name to declare, got {got}"), span);
                return None;
            }
        }
    }
    Some(names)
}

/// What a declared name turned out to be.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    None,
    Scalar,
    Vector(Axis),
}

struct Cursor<'t> {
    rest: &'t [Token],
    /// Where to report that something is missing.
    end: Span,
}

impl<'t> Cursor<'t> {
    /// Over `rest`, which stands inside `around`.
    fn new(rest: &'t [Token], around: Span) -> Cursor<'t> {
        Cursor { rest, end: rest.last().map_or(around, |last| last.span) }
    }

    fn punct(&mut self, wanted: &[char]) -> Option<(char, Span)> {
        let token = self.rest.first()?;
        let c = *wanted.iter().find(|&&c| token.is_punct(c))?;
        self.rest = &self.rest[1..];
        Some((c, token.span))
    }

    fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn group(&mut self, delimiter: Delimiter) -> Option<(&'t [Token], Span)> {
        match self.rest.first() {
            Some(Token { kind: TokenKind::Group(found, inner), span }) if *found == delimiter => {
                self.rest = &self.rest[1..];
                Some((inner, *span))
            }
            _ => None,
        }
    }
}

/// Names are indices into `declared` until [`resolve`] knows which are vectors.
struct Parser<'a, 't> {
    args: &'a mut Args<'t>,
    declared: &'a [String],
    uses: Vec<Use>,
    nodes: u32,
}

impl Parser<'_, '_> {
    fn fail<T>(&mut self, message: String, help: impl Into<String>, span: Span) -> Option<T> {
        self.args.fail_with("epilogue", message, help, span);
        None
    }

    fn count(&mut self, span: Span) -> Option<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return self.fail(
                format!("epilogue: the expression has more than {MAX_NODES} parts"),
                "write a shorter one",
                span,
            );
        }
        Some(())
    }

    fn sum(&mut self, cursor: &mut Cursor) -> Option<Expr> {
        let mut left = self.product(cursor)?;
        while let Some((symbol, span)) = cursor.punct(&['+', '-']) {
            self.count(span)?;
            let op = if symbol == '+' { BinaryOp::Add } else { BinaryOp::Sub };
            left = Expr::Binary(op, Box::new(left), Box::new(self.product(cursor)?));
        }
        Some(left)
    }

    fn product(&mut self, cursor: &mut Cursor) -> Option<Expr> {
        let mut left = self.unary(cursor)?;
        while let Some((symbol, span)) = cursor.punct(&['*', '/']) {
            self.count(span)?;
            let op = if symbol == '*' { BinaryOp::Mul } else { BinaryOp::Div };
            left = Expr::Binary(op, Box::new(left), Box::new(self.unary(cursor)?));
        }
        Some(left)
    }

    fn unary(&mut self, cursor: &mut Cursor) -> Option<Expr> {
        let mut signs = 0;
        while let Some((_, span)) = cursor.punct(&['-']) {
            self.count(span)?;
            signs += 1;
        }
        let mut expr = self.operand(cursor)?;
        for _ in 0..signs {
            expr = Expr::Neg(Box::new(expr));
        }
        Some(expr)
    }

    fn operand(&mut self, cursor: &mut Cursor) -> Option<Expr> {
        let Some(token) = cursor.next() else {
            return self.fail("epilogue: an operand is missing".into(), OPERANDS, cursor.end);
        };
        self.count(token.span)?;
        match &token.kind {
            TokenKind::Number(text) => self.literal(text, token.span),
            TokenKind::Ident(name) => self.name(name, token.span, cursor),
            TokenKind::Hole(_) => {
                self.args.hole();
                Some(Expr::Literal(1.0))
            }
            TokenKind::Group(Delimiter::Paren, inner) => {
                let mut inside = Cursor::new(inner, token.span);
                let expr = self.sum(&mut inside)?;
                match inside.rest.first() {
                    None => Some(expr),
                    Some(extra) => self.fail(
                        format!("epilogue: expected an operator or `)`, got {}", extra.describe()),
                        OPERATORS,
                        extra.span,
                    ),
                }
            }
            _ => self.fail(format!("epilogue: expected an operand, got {}", token.describe()), OPERANDS, token.span),
        }
    }

    fn literal(&mut self, text: &str, span: Span) -> Option<Expr> {
        let digits: String = text.chars().filter(|&c| c != '_').collect();
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() && digits.starts_with(|c: char| c.is_ascii_digit()) => {
                Some(Expr::Literal(value))
            }
            Ok(_) => self.fail(format!("epilogue: {text} is too large for f64"), "write a smaller number", span),
            Err(_) => {
                self.fail(format!("epilogue: {text} is not a number"), "numbers are written as 2, 0.5 or 1e-3", span)
            }
        }
    }

    fn name(&mut self, name: &str, span: Span, cursor: &mut Cursor) -> Option<Expr> {
        if let Some((inner, group)) = cursor.group(Delimiter::Paren) {
            return self.call(name, span, inner, group);
        }
        let index = cursor.group(Delimiter::Bracket);
        let Some(declared) = self.declared.iter().position(|known| known == name) else {
            return self.undeclared(name, span);
        };
        let (usage, expr) = match index {
            None if name == "acc" => return Some(Expr::Acc),
            None if name == "c" => return Some(Expr::C),
            None => (Use::Scalar, Expr::Scalar(declared)),
            Some((_, at)) if name == "acc" || name == "c" => {
                return self.fail(
                    format!("epilogue: {name} stands for one element and takes no index"),
                    format!("write {name}"),
                    at,
                );
            }
            Some(([axis], at)) => match axis.ident().and_then(|a| Axis::TABLE.iter().find(|(word, _)| *word == a)) {
                Some((_, axis)) => (Use::Vector(*axis), Expr::Vector(declared)),
                None => {
                    return self.fail(
                        format!("epilogue: {name} is indexed by [m] or [n]"),
                        format!("write {name}[m] or {name}[n]"),
                        at,
                    );
                }
            },
            Some((_, at)) => {
                return self.fail(
                    format!("epilogue: {name} is indexed by [m] or [n]"),
                    format!("write {name}[m] or {name}[n]"),
                    at,
                );
            }
        };
        let before = std::mem::replace(&mut self.uses[declared], usage);
        if before != Use::None && before != usage {
            return self.fail(
                format!("epilogue: {name} is used in two ways: {} and {}", before.text(), usage.text()),
                "declare two names",
                span,
            );
        }
        Some(expr)
    }

    fn undeclared(&mut self, name: &str, span: Span) -> Option<Expr> {
        // What an f64 of the surrounding code can become.
        if ["NaN", "inf"].contains(&name) {
            return self.fail(
                format!("epilogue: {name} is not a literal, only finite numbers are"),
                "pass it as a run-time scalar",
                span,
            );
        }
        let known = self.declared.iter().map(String::as_str);
        let near = suggest::nearest(name, known);
        let diagnostic =
            Diagnostic::error("undeclared", "epilogue", format!("epilogue: `{name}` is not declared")).at(span);
        let diagnostic = match near {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")).fix(Fix::Spell(near.into())),
            None => {
                let mut all = self.declared.to_vec();
                all.push(name.into());
                diagnostic.help(format!("declare it: |{}|", all.join(", ")))
            }
        };
        self.args.push(diagnostic);
        None
    }

    fn call(&mut self, name: &str, span: Span, inner: &[Token], group: Span) -> Option<Expr> {
        let Some((_, function)) = Function::TABLE.iter().find(|(known, _)| *known == name) else {
            self.args.unknown_word::<Function>(name, span);
            return None;
        };
        let mut pieces: Vec<&[Token]> = inner.split(|token| token.is_punct(',')).collect();
        if pieces.last().is_some_and(|piece| piece.is_empty()) {
            pieces.pop();
        }
        if pieces.len() != function.arity() {
            let (wanted, got) = (function.arity(), pieces.len());
            let plural = if wanted == 1 { "argument" } else { "arguments" };
            let usage = format!("write {name}({})", ["x", "y", "z"][..wanted.min(3)].join(", "));
            return self.fail(format!("epilogue: {name} takes {wanted} {plural}, got {got}"), usage, span.to(group));
        }
        let mut values = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let mut cursor = Cursor::new(piece, group);
            values.push(self.sum(&mut cursor)?);
            if let Some(extra) = cursor.rest.first() {
                return self.fail(
                    format!("epilogue: expected an operator or `,`, got {}", extra.describe()),
                    OPERATORS,
                    extra.span,
                );
            }
        }
        Some(Expr::Call(*function, values))
    }
}

impl Use {
    fn text(self) -> &'static str {
        match self {
            Use::None => "not at all",
            Use::Scalar => "as a scalar",
            Use::Vector(Axis::M) => "as a vector over m",
            Use::Vector(Axis::N) => "as a vector over n",
        }
    }
}

/// Sorts the declared names into scalars and vectors, and renumbers the expression's references.
fn resolve(declared: Vec<String>, uses: &[Use], mut expr: Expr) -> Epilogue {
    let (mut scalars, mut vectors, mut index) = (Vec::new(), Vec::new(), Vec::new());
    for (name, usage) in declared.iter().zip(uses) {
        index.push(match usage {
            Use::Vector(axis) => {
                vectors.push(Vector { name: name.clone(), axis: *axis });
                vectors.len() - 1
            }
            _ if name == "acc" || name == "c" => 0,
            _ => {
                scalars.push(name.clone());
                scalars.len() - 1
            }
        });
    }
    renumber(&mut expr, &index);
    Epilogue { scalars, vectors, declared, expr }
}

fn renumber(expr: &mut Expr, index: &[usize]) {
    match expr {
        Expr::Scalar(at) | Expr::Vector(at) => *at = index[*at],
        Expr::Neg(inner) => renumber(inner, index),
        Expr::Binary(_, left, right) => {
            renumber(left, index);
            renumber(right, index);
        }
        Expr::Call(_, args) => args.iter_mut().for_each(|arg| renumber(arg, index)),
        Expr::Acc | Expr::C | Expr::Literal(_) => {}
    }
}
