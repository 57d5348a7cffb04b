//! Argument lists: positional and `name = value`. The clause that owns the arguments takes them one by one.

use crate::diagnostic::Diagnostic;
use crate::grammar::Origin;
use crate::grammar::number::{self, TOO_LARGE, integer};
use crate::implemented;
use crate::open::{Open, OpenValues};
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
    /// The span of the whole clause.
    pub span: Span,
    pub origin: Origin,
    list: Vec<Arg<'t>>,
    /// Every name that the clause has asked for, for suggestions.
    known: Vec<&'static str>,
    errors: Vec<Diagnostic>,
    /// The first missing argument; reported only if there is no other error.
    absent: Option<Diagnostic>,
    holes: bool,
    open: Vec<Open>,
    /// Whether an error leaves the meaning unclear. All other errors are slips: the clause is read with their fixes
    /// applied, so that the rules can report its other errors.
    lost: bool,
    /// The places of misspelt names, with the intended names.
    misnamed: Vec<(u32, &'static str)>,
    /// Misspelt names, which are read as the intended ones.
    renamed: Vec<(u32, &'static str)>,
}

impl<'t> Args<'t> {
    pub fn new(info: &'static Info, span: Span, origin: Origin) -> Args<'t> {
        Args {
            info,
            span,
            origin,
            list: Vec::new(),
            known: Vec::new(),
            errors: Vec::new(),
            absent: None,
            holes: false,
            open: Vec::new(),
            lost: false,
            misnamed: Vec::new(),
            renamed: Vec::new(),
        }
    }

    /// The same clause again, with misspelt names read as the intended ones; `None` if it has none.
    pub fn again(&self) -> Option<Args<'t>> {
        let renamed = self.misnamed.clone();
        (!renamed.is_empty()).then(|| Args { renamed, ..Args::new(self.info, self.span, self.origin) })
    }

    /// The arguments within an argument.
    pub fn inside(&self, tokens: &'t [Token]) -> Args<'t> {
        let mut inner = Args { renamed: self.renamed.clone(), ..Args::new(self.info, self.span, self.origin) };
        inner.split(tokens);
        inner
    }

    /// Cuts the inside of the parentheses at its commas.
    pub fn split(&mut self, tokens: &'t [Token]) {
        let pieces: Vec<&[Token]> = tokens.split(|token| token.is_punct(',')).collect();
        let last = pieces.len() - 1;
        for (index, piece) in pieces.into_iter().enumerate() {
            let Some((first, end)) = piece.first().zip(piece.last()) else {
                // An empty list and a trailing comma are both allowed.
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
            let renamed = |at: Span| self.renamed.iter().find(|(start, _)| *start == at.start).map(|(_, meant)| *meant);
            let name = match name.map(|(name, at)| (name, at, renamed(at))) {
                Some((name, at, Some(meant))) => {
                    self.slip(unknown_argument(self.info, name).at(at).meant(meant));
                    Some((meant, at))
                }
                _ => name,
            };
            self.list.push(Arg { name, value, span, taken: false });
        }
    }

    pub fn fail(&mut self, rule: &'static str, message: impl Into<String>, span: Span) {
        let usage = format!("write {}", self.info.signature);
        self.fail_with(rule, message, usage, span);
    }

    pub fn fail_with(&mut self, rule: &'static str, message: impl Into<String>, help: impl Into<String>, span: Span) {
        self.push(Diagnostic::error(rule, self.info.name, message).help(help).at(span));
    }

    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
        self.lost = true;
    }

    /// Reports an error; the clause is read with its fix applied.
    pub fn slip(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
    }

    /// The result of reading the clause.
    pub fn outcome(mut self) -> Outcome {
        let absent = if self.lost { None } else { self.absent };
        self.lost |= absent.is_some();
        self.errors.extend(absent);
        Outcome { errors: self.errors, holes: self.holes || !self.open.is_empty(), lost: self.lost, open: self.open }
    }

    /// Takes over the errors of arguments within an argument.
    pub fn absorb(&mut self, inner: Args) {
        self.errors.extend(inner.errors);
        self.misnamed.extend(inner.misnamed);
        self.lost |= inner.lost;
        self.absent = self.absent.take().or(inner.absent);
        self.holes |= inner.holes;
        self.open.extend(inner.open);
    }

    /// Drops the remaining arguments, which were reported as a whole.
    pub fn ignore_rest(&mut self) {
        self.list.clear();
    }

    /// True if the meaning is clear so far.
    pub fn is_clear(&self) -> bool {
        !self.lost
    }

    /// Records that a value is a hole.
    pub fn hole(&mut self) {
        self.holes = true;
    }

    /// Records an open value.
    fn left_open(&mut self, name: &str, span: Span, values: OpenValues) {
        self.open.push(Open { clause: self.info.name, key: self.info.key, name: name.into(), span, values });
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

    /// Takes the next argument without a name if it is this word.
    pub fn takes_word(&mut self, word: &str) -> bool {
        let next = self.list.iter_mut().find(|arg| !arg.taken && arg.name.is_none());
        let is = |value: &[Token]| matches!(value, [Token { kind: TokenKind::Ident(name), .. }] if name == word);
        next.filter(|arg| is(arg.value)).map(|arg| arg.taken = true).is_some()
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
        self.int_up_to(self.info.largest(name), name, value, span, stand_in)
    }

    /// The same with an explicit largest value, if there is one.
    pub fn int_up_to(&mut self, most: Option<u32>, name: &str, value: &[Token], span: Span, stand_in: u32) -> u32 {
        let clause = self.info.name;
        match value {
            [Token { kind: TokenKind::Hole(_), .. }] => {
                self.hole();
                return stand_in;
            }
            [mark] if mark.is_punct('?') => {
                self.left_open(name, mark.span, OpenValues::Numbers);
                return stand_in;
            }
            [Token { kind: TokenKind::Number(text), .. }] => match integer(text) {
                Ok(value) => return value,
                Err((problem, meant)) => {
                    let limit =
                        most.filter(|_| problem == TOO_LARGE).map_or(String::new(), |most| format!(", at most {most}"));
                    let message = format!("{clause}: {name} = {} {problem}{limit}", abridged(text));
                    let diagnostic = Diagnostic::error("integer", clause, message);
                    let diagnostic = diagnostic.at(span_of(value));
                    if let Some(meant) = meant {
                        let value = meant.parse().unwrap_or(stand_in);
                        self.slip(diagnostic.help(format!("write {meant}")).spell(meant));
                        return value;
                    }
                    self.push(diagnostic.help(format!("write {}", self.info.signature)));
                }
            },
            [minus, Token { kind: TokenKind::Number(text), .. }] if minus.is_punct('-') => {
                self.fail("integer", format!("{clause}: {name} = -{} is negative", abridged(text)), span);
            }
            [Token { kind: TokenKind::Group(Delimiter::Brace, _), .. }] => self.braces(span),
            other => {
                let diagnostic = self.no_integer(name, other).at(span_of(other));
                if let Some(number) = number::value(other) {
                    self.slip(diagnostic);
                    return number;
                }
                self.push(diagnostic);
            }
        }
        stand_in
    }

    /// Reports a value that is not a single whole number: perhaps an expression of constants, or a Rust name.
    fn no_integer(&self, name: &str, value: &[Token]) -> Diagnostic {
        let clause = self.info.name;
        let written = number::text(value);
        if let Some(number) = number::value(value) {
            let message =
                format!("{clause}: {name} = {} is an expression, and a clause takes numbers", abridged(&written));
            let spelling = number.to_string();
            return Diagnostic::error("integer", clause, message).help(format!("write {spelling}")).spell(spelling);
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
                diagnostic.help(format!("write `{hole}` for its value in Rust")).spell(hole)
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
            [mark] if mark.is_punct('?') => {
                let words = W::TABLE.iter().filter(|(_, value)| implemented::works(value)).map(|(word, _)| *word);
                self.left_open(W::WHAT, mark.span, OpenValues::Words(words.collect()));
                return W::TABLE.first().map(|(_, value)| *value);
            }
            [Token { kind: TokenKind::Ident(word), span }] => {
                if let Some((_, value)) = W::TABLE.iter().find(|(known, _)| known == word) {
                    return Some(*value);
                }
                return self.unknown_word::<W>(word, *span);
            }
            [Token { kind: TokenKind::Group(Delimiter::Brace, _), .. }] => self.braces(span),
            other => {
                let got = other.first().map_or_else(String::new, Token::describe);
                self.fail("word", format!("{}: expected {}, got {got}", self.info.name, W::WHAT), span);
            }
        }
        None
    }

    /// Reports a word that is not one of `W`; returns the intended one if it is clear.
    pub fn unknown_word<W: Word>(&mut self, word: &str, span: Span) -> Option<W> {
        self.unknown_word_of(word, span, |_| true)
    }

    /// The same if only some words make sense.
    pub fn unknown_word_of<W: Word>(&mut self, word: &str, span: Span, fits: impl Fn(&W) -> bool) -> Option<W> {
        let fitting = || W::TABLE.iter().filter(|(_, value)| fits(value));
        let words = || fitting().map(|(word, _)| *word);
        let working = || fitting().filter(|(_, value)| implemented::works(value)).map(|(word, _)| *word);
        let message = format!("{}: `{}` is not {}", self.info.name, abridged(word), W::WHAT);
        let diagnostic = Diagnostic::error("unknown-word", self.info.name, message).at(span);
        let near = suggest::nearest(word, words());
        if let Some(near) = near.filter(|near| working().any(|word| word == *near)) {
            self.slip(diagnostic.meant(near));
            return W::TABLE.iter().find(|(word, _)| *word == near).map(|(_, value)| *value);
        }
        self.push(match near {
            Some(near) if working().next().is_some() => {
                diagnostic.help(format!("`{near}` is not implemented yet: write {}", suggest::list(working())))
            }
            Some(near) => diagnostic.help(format!("`{near}` is not implemented yet: leave {} out", self.info.name)),
            None if working().next().is_some() => diagnostic.help(format!("write {}", suggest::list(working()))),
            None => diagnostic.help(format!("leave {} out: it is not implemented yet", self.info.name)),
        });
        None
    }

    fn braces(&mut self, span: Span) {
        let message = format!("{}: `{{...}}` takes a value from Rust code, and this schedule is text", self.info.name);
        self.push(Diagnostic::error("hole", self.info.name, message).help("write the value").at(span));
    }

    /// Reports the remaining arguments.
    pub fn finish(&mut self) {
        let clause = self.info.name;
        let given: Vec<&str> = self.list.iter().filter_map(|arg| arg.name.map(|(name, _)| name)).collect();
        for arg in std::mem::take(&mut self.list).into_iter().filter(|arg| !arg.taken) {
            match arg.name {
                Some((name, _)) if self.known.contains(&name) => {
                    self.fail_with("argument-twice", format!("{clause}: {name} is given twice"), "keep one", arg.span);
                }
                Some((name, at)) => {
                    let diagnostic = unknown_argument(self.info, name).at(at);
                    let free = self.known.iter().copied().filter(|known| !given.contains(known));
                    match suggest::nearest(name, free) {
                        Some(near) => {
                            self.misnamed.push((at.start, near));
                            self.push(diagnostic.meant(near));
                        }
                        None => self.push(diagnostic.help(format!("write {}", self.info.signature))),
                    }
                }
                // Arguments left over after another error are mostly its consequence.
                None if self.lost => {}
                None => {
                    let what = arg.value.first().map_or_else(String::new, Token::describe);
                    self.fail("argument-extra", format!("{clause}: {what} is one argument too many"), arg.span);
                }
            }
        }
    }
}

/// The result of reading a clause.
pub(super) struct Outcome {
    pub errors: Vec<Diagnostic>,
    /// Whether a value is a hole, or open.
    pub holes: bool,
    /// Open values.
    pub open: Vec<Open>,
    /// Whether the meaning is unknown.
    pub lost: bool,
}

fn unknown_argument(info: &Info, name: &str) -> Diagnostic {
    let message = format!("{} has no argument `{}`", info.name, abridged(name));
    Diagnostic::error("unknown-argument", info.name, message)
}

/// The span from the first to the last of these tokens.
pub(super) fn span_of(tokens: &[Token]) -> Span {
    let nowhere = Span { start: 0, end: 0, line: 0, column: 0 };
    tokens.first().zip(tokens.last()).map_or(nowhere, |(first, last)| first.span.to(last.span))
}
