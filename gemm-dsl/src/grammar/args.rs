//! Argument lists: positional and `name = value`, taken one by one by the clause that owns them.

use crate::diagnostic::{Diagnostic, Fix};
use crate::grammar::Origin;
use crate::grammar::number::{self, integer};
use crate::implemented;
use crate::span::Span;
use crate::suggest;
use crate::table::Info;
use crate::token::{Delimiter, Token, TokenKind, abridged};
use crate::words::Word;

/// One argument.
struct Arg<'t> {
    name: Option<(&'t str, Span)>,
    value: &'t [Token],
    span: Span,
    taken: bool,
}

/// The arguments of one clause while it is being read.
pub(super) struct Args<'t> {
    pub info: &'static Info,
    /// Of the whole clause.
    pub span: Span,
    pub origin: Origin,
    list: Vec<Arg<'t>>,
    /// Every name that the clause has asked for, for suggestions.
    known: Vec<&'static str>,
    errors: Vec<Diagnostic>,
    /// The first argument that is not there: told only if nothing else is wrong.
    absent: Option<Diagnostic>,
    holes: bool,
}

impl<'t> Args<'t> {
    pub fn new(info: &'static Info, span: Span, origin: Origin) -> Args<'t> {
        let (list, known, errors) = (Vec::new(), Vec::new(), Vec::new());
        Args { info, span, origin, list, known, errors, absent: None, holes: false }
    }

    /// Cuts the inside of the parentheses at its commas.
    pub fn split(&mut self, tokens: &'t [Token]) {
        let pieces: Vec<&[Token]> = tokens.split(|token| token.is_punct(',')).collect();
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let Some((first, end)) = piece.first().zip(piece.last()) else {
                // Nothing at all, and a comma after the last argument, are fine.
                if index != last {
                    self.fail(
                        "argument",
                        format!("{}: an argument is missing before the comma", self.info.name),
                        self.span,
                    );
                }
                continue;
            };
            let span = first.span.to(end.span);
            let (name, value) = match piece {
                [name, eq, value @ ..] if eq.is_punct('=') && name.ident().is_some() => {
                    (name.ident().map(|text| (text, name.span)), value)
                }
                value => (None, value),
            };
            if let Some((name, _)) = name.filter(|_| value.is_empty()) {
                self.fail("argument", format!("{}: `{} =` needs a value", self.info.name, abridged(name)), span);
                continue;
            }
            self.list.push(Arg { name, value, span, taken: false });
        }
    }

    pub fn fail(&mut self, rule: &'static str, message: impl Into<String>, span: Span) {
        let usage = format!("write {}", self.info.signature);
        self.fail_with(rule, message, usage, span);
    }

    pub fn fail_with(&mut self, rule: &'static str, message: impl Into<String>, help: impl Into<String>, span: Span) {
        self.errors.push(Diagnostic::error(rule, self.info.name, message).help(help).at(span));
    }

    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
    }

    /// The errors found, and whether a value is a hole.
    pub fn outcome(mut self) -> (Vec<Diagnostic>, bool) {
        if self.errors.is_empty() {
            self.errors.extend(self.absent);
        }
        (self.errors, self.holes)
    }

    /// Takes over the errors of arguments inside an argument.
    pub fn absorb(&mut self, inner: Args) {
        self.errors.extend(inner.errors);
        self.absent = self.absent.take().or(inner.absent);
        self.holes |= inner.holes;
    }

    /// True if nothing is wrong so far.
    pub fn is_fine(&self) -> bool {
        self.errors.is_empty()
    }

    /// Notes that a value is a hole.
    pub fn hole(&mut self) {
        self.holes = true;
    }

    /// The value of the argument called `name`.
    pub fn named(&mut self, name: &'static str) -> Option<(&'t [Token], Span)> {
        self.known.push(name);
        let index = self.list.iter().position(|arg| !arg.taken && arg.name.is_some_and(|(n, _)| n == name))?;
        self.list[index].taken = true;
        Some((self.list[index].value, self.list[index].span))
    }

    /// The next argument without a name.
    pub fn positional(&mut self) -> Option<(&'t [Token], Span)> {
        let arg = self.list.iter_mut().find(|arg| !arg.taken && arg.name.is_none())?;
        arg.taken = true;
        Some((arg.value, arg.span))
    }

    /// The argument called `name`, or else the next one without a name.
    pub fn take(&mut self, name: &'static str) -> Option<(&'t [Token], Span)> {
        self.named(name).or_else(|| self.positional())
    }

    /// A required integer, by name or position.
    pub fn int(&mut self, name: &'static str) -> u32 {
        match self.take(name) {
            Some((value, span)) => self.int_value(name, value, span, 1),
            None => {
                self.missing(name);
                1
            }
        }
    }

    /// An optional integer, by name or position.
    pub fn maybe_int(&mut self, name: &'static str) -> Option<u32> {
        self.take(name).map(|(value, span)| self.int_value(name, value, span, 1))
    }

    /// An optional integer, by name only.
    pub fn named_int(&mut self, name: &'static str) -> Option<u32> {
        self.named(name).map(|(value, span)| self.int_value(name, value, span, 1))
    }

    /// An optional word, by name only.
    pub fn named_word<W: Word>(&mut self, name: &'static str) -> Option<W> {
        let (value, span) = self.named(name)?;
        self.word_value(value, span)
    }

    /// A required word, by position.
    pub fn word<W: Word>(&mut self) -> Option<W> {
        match self.positional() {
            Some((value, span)) => self.word_value(value, span),
            None => {
                self.missing(W::WHAT);
                None
            }
        }
    }

    pub fn missing(&mut self, what: &str) {
        let name = self.info.name;
        let diagnostic = Diagnostic::error("argument-missing", name, format!("{name} needs {what}"));
        let diagnostic = diagnostic.help(format!("write {}", self.info.signature)).at(self.span);
        self.absent.get_or_insert(diagnostic);
    }

    /// Reads an integer; `stand_in` is the value of a hole.
    pub fn int_value(&mut self, name: &str, value: &[Token], span: Span, stand_in: u32) -> u32 {
        let clause = self.info.name;
        match value {
            [Token { kind: TokenKind::Hole(_), .. }] => {
                self.hole();
                return stand_in;
            }
            [Token { kind: TokenKind::Number(text), .. }] => match integer(text) {
                Ok(value) => return value,
                Err((problem, meant)) => {
                    let message = format!("{clause}: {name} = {} {problem}", abridged(text));
                    let diagnostic = Diagnostic::error("integer", clause, message);
                    let diagnostic = diagnostic.at(span_of(value));
                    self.push(match meant {
                        Some(meant) => diagnostic.help(format!("write {meant}")).fix(Fix::Spell(meant)),
                        None => diagnostic.help(format!("write {}", self.info.signature)),
                    });
                }
            },
            [minus, Token { kind: TokenKind::Number(text), .. }] if minus.is_punct('-') => {
                self.fail("integer", format!("{clause}: {name} = -{} is negative", abridged(text)), span);
            }
            [Token { kind: TokenKind::Group(Delimiter::Brace, _), .. }] => self.braces(span),
            other => {
                let diagnostic = self.no_integer(name, other).at(span_of(other));
                self.push(diagnostic);
            }
        }
        stand_in
    }

    /// What is not one whole number: perhaps constants to be multiplied, or what Rust knows by a name.
    fn no_integer(&self, name: &str, value: &[Token]) -> Diagnostic {
        let clause = self.info.name;
        let written = number::text(value);
        if let Some(number) = number::value(value) {
            let message =
                format!("{clause}: {name} = {} is an expression, and a clause takes numbers", abridged(&written));
            let spelling = number.to_string();
            return Diagnostic::error("integer", clause, message)
                .help(format!("write {spelling}"))
                .fix(Fix::Spell(spelling));
        }
        let got = match value {
            [one] => one.describe(),
            _ => format!("`{}`", abridged(&written)),
        };
        let diagnostic =
            Diagnostic::error("integer", clause, format!("{clause}: {name} must be a whole number, got {got}"));
        match (number::is_rust(value), self.origin) {
            (false, _) => diagnostic.help(format!("write {}", self.info.signature)),
            (true, Origin::Macro) => {
                let hole = format!("{{{written}}}");
                diagnostic.help(format!("write `{hole}` for its value in Rust")).fix(Fix::Spell(hole))
            }
            (true, Origin::Text) => diagnostic.help("write the number itself: only gemm! takes values from Rust"),
        }
    }

    /// Reads a word of the language.
    pub fn word_value<W: Word>(&mut self, value: &[Token], span: Span) -> Option<W> {
        match value {
            [Token { kind: TokenKind::Hole(_), .. }] => {
                self.hole();
                return W::TABLE.first().map(|(_, value)| *value);
            }
            [Token { kind: TokenKind::Ident(word), .. }] => {
                if let Some((_, value)) = W::TABLE.iter().find(|(known, _)| known == word) {
                    return Some(*value);
                }
                self.unknown_word::<W>(word, span);
            }
            [Token { kind: TokenKind::Group(Delimiter::Brace, _), .. }] => self.braces(span),
            other => {
                let got = other.first().map_or_else(String::new, Token::describe);
                self.fail("word", format!("{}: expected {}, got {got}", self.info.name, W::WHAT), span);
            }
        }
        None
    }

    pub fn unknown_word<W: Word>(&mut self, word: &str, span: Span) {
        let words = || W::TABLE.iter().map(|(word, _)| *word);
        let working = || W::TABLE.iter().filter(|(_, value)| implemented::works(value)).map(|(word, _)| *word);
        let message = format!("{}: `{}` is not {}", self.info.name, abridged(word), W::WHAT);
        let diagnostic = Diagnostic::error("unknown-word", self.info.name, message).at(span);
        self.push(match suggest::nearest(word, words()) {
            Some(near) if working().any(|word| word == near) => {
                diagnostic.help(format!("did you mean `{near}`?")).fix(Fix::Spell(near.into()))
            }
            Some(near) if working().next().is_some() => {
                diagnostic.help(format!("`{near}` is not implemented yet: write {}", suggest::list(working())))
            }
            Some(near) => diagnostic.help(format!("`{near}` is not implemented yet: leave {} out", self.info.name)),
            None if working().next().is_some() => diagnostic.help(format!("write {}", suggest::list(working()))),
            None => diagnostic.help(format!("leave {} out: it is not implemented yet", self.info.name)),
        });
    }

    fn braces(&mut self, span: Span) {
        let message = format!("{}: `{{...}}` takes a value from Rust code, and this schedule is text", self.info.name);
        self.errors.push(Diagnostic::error("hole", self.info.name, message).help("write the value").at(span));
    }

    /// Complains about what nobody took.
    pub fn finish(&mut self) {
        let clause = self.info.name;
        for arg in std::mem::take(&mut self.list).into_iter().filter(|arg| !arg.taken) {
            match arg.name {
                Some((name, _)) if self.known.contains(&name) => {
                    self.fail_with("argument-twice", format!("{clause}: {name} is given twice"), "keep one", arg.span);
                }
                Some((name, at)) => {
                    let message = format!("{clause} has no argument `{}`", abridged(name));
                    let diagnostic = Diagnostic::error("unknown-argument", clause, message).at(at);
                    self.push(match suggest::nearest(name, self.known.iter().copied()) {
                        Some(near) => diagnostic.help(format!("did you mean `{near}`?")).fix(Fix::Spell(near.into())),
                        None => diagnostic.help(format!("write {}", self.info.signature)),
                    });
                }
                // What is left over after another error mostly follows from it.
                None if !self.errors.is_empty() => {}
                None => {
                    let what = arg.value.first().map_or_else(String::new, Token::describe);
                    self.fail("argument-extra", format!("{clause}: {what} is one argument too many"), arg.span);
                }
            }
        }
    }
}

/// From the first to the last of these tokens.
fn span_of(tokens: &[Token]) -> Span {
    let nowhere = Span { start: 0, end: 0, line: 0, column: 0 };
    tokens.first().zip(tokens.last()).map_or(nowhere, |(first, last)| first.span.to(last.span))
}
