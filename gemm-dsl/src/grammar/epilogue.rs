//! `|acc, c, alpha, bias| relu(alpha * acc + bias[n])`: declared names, then an expression with the usual precedence.

mod declarations;

use crate::diagnostic::{Diagnostic, Edit, Fix};
use crate::epilogue::{Axis, BinaryOp, Epilogue, Expr, Function, Vector};
use crate::grammar::args::Args;
use crate::span::Span;
use crate::suggest;
use crate::token::{Delimiter, Token, TokenKind, abridged};
use crate::words::Word;

use declarations::{CONTROL, Declarations, Indexed, axis, declarations, undeclarable};

/// The maximum number of nodes in an expression: far more than anyone writes, few enough for every recursive walk.
const MAX_NODES: u32 = 256;

const OPERANDS: &str = "an operand is a declared name, a number, a function call or an expression in parentheses";

const DECLARE: &str = "declare it between the bars";

/// Replaces an operand with an error, so that the rest of the expression is read; the clause is dropped.
const STAND_IN: Expr = Expr::Literal(1.0);

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
    let sound = args.is_clear();
    let Declarations { names: declared, indexed } = declared;
    let mut uses = vec![Use::None; declared.len()];
    indexed.iter().for_each(|indexed| uses[indexed.name] = Use::Vector(indexed.axis));
    let mut parser = Parser { args, uses, declared, indexed, nodes: 0, undeclared: Vec::new() };
    let mut cursor = Cursor::new(body, span);
    let expr = parser.sum(&mut cursor);
    if let Some(extra) = cursor.rest.first().filter(|_| expr.is_some()) {
        let message = format!("epilogue: expected an operator or the end, got {}", extra.describe());
        parser.args.fail_with("epilogue", message, operators(extra), extra.span);
    }
    let Parser { declared, uses, undeclared, indexed, .. } = parser;
    let epilogue = expr.map(|expr| resolve(declared.clone(), &uses, expr));
    let help = if sound { format!("declare it: |{}|", declared.join(", ")) } else { DECLARE.into() };
    // As data, if everything else in the epilogue is clear.
    let whole = epilogue.as_ref().filter(|_| args.is_clear()).map(|epilogue| format!("epilogue({epilogue})"));
    let written = whole.as_ref().map_or(String::new(), |text| format!(": {text}"));
    let whole = whole.map(|text| Fix::of(Some(args.info.key), Edit::Set(text)));
    // One fix covers all these errors.
    for (name, span) in undeclared {
        let diagnostic = undeclared_name(&name).help(help.clone()).at(span);
        args.slip(Diagnostic { fix: whole.clone(), ..diagnostic });
    }
    for Indexed { name, axis, span } in indexed {
        let name = &declared[name];
        let indexed = format!("{}[{}]", abridged(name), axis.word());
        let message = format!("epilogue: a name is declared without its index, got `{indexed}`");
        let help = format!("declare `{}`, and write `{indexed}` where it is used{written}", abridged(name));
        args.slip(
            Diagnostic { fix: whole.clone(), ..Diagnostic::error("declared-index", "epilogue", message) }
                .help(help)
                .at(span),
        );
    }
    epilogue
}

/// How a declared name is used.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    None,
    Scalar,
    Vector(Axis),
}

struct Cursor<'t> {
    rest: &'t [Token],
    /// The place to report a missing token.
    end: Span,
}

impl<'t> Cursor<'t> {
    /// A reader of `rest`, which is inside `around`.
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

/// Names are indices into `declared` until [`resolve`] knows which ones are vectors.
struct Parser<'a, 't> {
    args: &'a mut Args<'t>,
    /// The names between the bars, then the undeclared ones.
    declared: Vec<String>,
    /// Names that were declared with an index.
    indexed: Vec<Indexed>,
    uses: Vec<Use>,
    nodes: u32,
    /// Names that are not declared and do not resemble a declared one, each with its first span.
    undeclared: Vec<(String, Span)>,
}

impl Parser<'_, '_> {
    fn fail<T>(&mut self, message: String, help: impl Into<String>, span: Span) -> Option<T> {
        self.args.fail_with("epilogue", message, help, span);
        None
    }

    /// Reports a wrong operand within a readable expression.
    fn wrong(&mut self, message: String, help: impl Into<String>, span: Span) -> Option<Expr> {
        self.args.fail_with("epilogue", message, help, span);
        Some(STAND_IN)
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
                        operators(extra),
                        extra.span,
                    ),
                }
            }
            _ => self.fail(format!("epilogue: expected an operand, got {}", token.describe()), OPERANDS, token.span),
        }
    }

    fn literal(&mut self, text: &str, span: Span) -> Option<Expr> {
        let digits: String = text.chars().filter(|&c| c != '_').collect();
        let text = abridged(text);
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() && digits.starts_with(|c: char| c == '.' || c.is_ascii_digit()) => {
                Some(Expr::Literal(value))
            }
            Ok(_) => self.wrong(format!("epilogue: {text} is too large for f64"), "write a smaller number", span),
            Err(_) => {
                self.wrong(format!("epilogue: {text} is not a number"), "numbers are written as 2, 0.5 or 1e-3", span)
            }
        }
    }

    fn name(&mut self, name: &str, span: Span, cursor: &mut Cursor) -> Option<Expr> {
        if CONTROL.contains(&name) {
            let choosing = Function::TABLE.iter().filter(|(_, function)| function.chooses()).map(|(name, _)| *name);
            let help = match name {
                "let" | "return" => "write the value alone".into(),
                _ => format!("write {} to choose between values", suggest::list(choosing)),
            };
            let message = format!("epilogue: `{name}` does not exist here, an epilogue is one expression");
            return self.fail(message, help, span);
        }
        if let Some((inner, group)) = cursor.group(Delimiter::Paren) {
            return self.call(name, span, inner, group);
        }
        let index = cursor.group(Delimiter::Bracket);
        let known = self.declared.iter().position(|known| known == name);
        let Some(declared) = known.or_else(|| self.undeclared(name, span)) else {
            return Some(STAND_IN);
        };
        // The intended name, if it differs.
        let name = self.declared[declared].clone();
        let name = name.as_str();
        let shown = abridged(name);
        let (usage, expr) = match index {
            None if name == "acc" => return Some(Expr::Acc),
            None if name == "c" => return Some(Expr::C),
            None => match self.indexed.iter().find(|indexed| indexed.name == declared) {
                Some(indexed) => (Use::Vector(indexed.axis), Expr::Vector(declared)),
                None => (Use::Scalar, Expr::Scalar(declared)),
            },
            Some((_, at)) if name == "acc" || name == "c" => {
                let message = format!("epilogue: {name} is one element and takes no index");
                let diagnostic = Diagnostic::error("epilogue", "epilogue", message).help(format!("write {name}"));
                self.args.slip(diagnostic.spell("").at(at));
                return Some(if name == "acc" { Expr::Acc } else { Expr::C });
            }
            Some((index, at)) => match axis(index) {
                Some(axis) => (Use::Vector(axis), Expr::Vector(declared)),
                None => {
                    let message = format!("epilogue: {shown} is indexed by [m] or [n]");
                    return self.wrong(message, format!("write {shown}[m] or {shown}[n]"), at);
                }
            },
        };
        let before = std::mem::replace(&mut self.uses[declared], usage);
        if before != Use::None && before != usage {
            let message = format!("epilogue: {shown} is used in two ways: {} and {}", before.text(), usage.text());
            return self.wrong(message, "declare two names", span);
        }
        Some(expr)
    }

    /// Reports an undeclared name; returns the intended name, which may be the name itself.
    fn undeclared(&mut self, name: &str, span: Span) -> Option<usize> {
        // The forms that an f64 of the surrounding code can take.
        if ["NaN", "inf"].contains(&name) {
            let message = format!("epilogue: {name} is not a literal, only finite numbers are");
            self.args.fail_with("epilogue", message, "pass it as a run-time scalar", span);
            return None;
        }
        let declared = &self.declared[..self.declared.len() - self.undeclared.len()];
        if let Some(near) = suggest::nearest(name, declared.iter().map(String::as_str)) {
            let at = declared.iter().position(|known| known == near);
            self.args.slip(undeclared_name(name).meant(near).at(span));
            return at;
        }
        if let Some((function, usage)) =
            Function::TABLE.iter().find(|(known, _)| *known == name).map(|(name, f)| (name, usage(*f)))
        {
            let message = format!("epilogue: {function} is a function");
            self.args.fail_with("epilogue", message, format!("write {usage}"), span);
            return None;
        }
        // A name that is too long to show was not meant as a declaration.
        if undeclarable(name).is_some() || abridged(name) != name {
            self.args.push(undeclared_name(name).help(DECLARE).at(span));
            return None;
        }
        self.undeclared.push((name.into(), span));
        self.declared.push(name.into());
        self.uses.push(Use::None);
        Some(self.declared.len() - 1)
    }

    fn call(&mut self, name: &str, span: Span, inner: &[Token], group: Span) -> Option<Expr> {
        let mut pieces: Vec<&[Token]> = inner.split(|token| token.is_punct(',')).collect();
        if pieces.last().is_some_and(|piece| piece.is_empty()) {
            pieces.pop();
        }
        let known = Function::TABLE.iter().find(|(known, _)| *known == name).map(|(_, function)| *function);
        // A function with another arity was not meant if some function takes this many arguments.
        let takes = |function: &Function| function.arity() == pieces.len();
        let some = Function::TABLE.iter().any(|(_, function)| takes(function));
        let takes_them = |function: &Function| !some || takes(function);
        if known.is_none() && self.declared.iter().any(|declared| declared == name) {
            let shown = abridged(name);
            let message = format!("epilogue: {shown} is not a function, and an operator is missing after it");
            return self.wrong(message, format!("write {shown} * (...) for a product"), span.to(group));
        }
        let Some(function) = known.or_else(|| self.args.unknown_word_of(name, span, takes_them)) else {
            // Its arguments may have their own errors.
            for piece in inner.split(|token| token.is_punct(',')).filter(|piece| !piece.is_empty()) {
                self.argument(piece, group)?;
            }
            return Some(STAND_IN);
        };
        if pieces.len() != function.arity() {
            let (wanted, got) = (function.arity(), pieces.len());
            let plural = if wanted == 1 { "argument" } else { "arguments" };
            let message = format!("epilogue: {name} takes {wanted} {plural}, got {got}");
            return self.wrong(message, format!("write {}", usage(function)), span.to(group));
        }
        let mut values = Vec::with_capacity(pieces.len());
        for piece in pieces {
            values.push(self.argument(piece, group)?);
        }
        Some(Expr::Call(function, values))
    }

    /// One argument of a call with the parentheses `group`.
    fn argument(&mut self, piece: &[Token], group: Span) -> Option<Expr> {
        let mut cursor = Cursor::new(piece, group);
        let value = self.sum(&mut cursor)?;
        match cursor.rest.first() {
            None => Some(value),
            Some(extra) => {
                let message = format!("epilogue: expected an operator or `,`, got {}", extra.describe());
                self.fail(message, operators(extra), extra.span)
            }
        }
    }
}

/// The operators that may follow an operand.
fn operators(found: &Token) -> &'static str {
    match found.is_punct('.') {
        true => "a function takes all of its operands in parentheses: max(acc, 0)",
        false => "the operators are + - * /",
    }
}

/// A call of a function.
fn usage(function: Function) -> String {
    format!("{}({})", function.word(), ["x", "y", "z"][..function.arity().min(3)].join(", "))
}

fn undeclared_name(name: &str) -> Diagnostic {
    let message = format!("epilogue: `{}` is not declared", abridged(name));
    Diagnostic::error("undeclared", "epilogue", message)
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
