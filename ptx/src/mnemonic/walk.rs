//! The visitor of an opcode's modifiers, and its two directions.

use crate::instruction::{Order, Scope};
use crate::matrix::Shape;
use crate::names::{Word, words};
use crate::text::Text;

/// A visitor of the modifiers of one opcode.
pub(super) trait Modifiers {
    /// A word that may be left out; not written when its name is empty.
    fn optional<W: Word>(&mut self, word: &mut W);
    /// A word that is always there.
    fn required<W: Word>(&mut self, word: &mut W);
    /// Fixed words, such as `sync.aligned`.
    fn literal(&mut self, text: &'static str);
    /// A word that is present if and only if the flag is set.
    fn flag(&mut self, flag: &mut bool, text: &'static str);
    /// `.v2`, `.v4`, `.v8`; a single lane is not written.
    fn vector(&mut self, lanes: &mut u8);
    /// `m16n8k16`.
    fn shape(&mut self, shape: &mut Shape);
    /// A small number with a letter on one side: `2d`, `x4`.
    fn number(&mut self, prefix: &'static str, number: &mut u8, suffix: &'static str);
    /// Rejects a contradiction in what was read; a writer ignores it.
    fn reject_if(&mut self, contradiction: bool);

    /// A word that states the default: accepted when reading, never written.
    fn redundant(&mut self, text: &'static str);

    /// One of two words.
    fn either(&mut self, first: &mut bool, words: [&'static str; 2]);

    /// `.relaxed.gpu` and the like, before the space.
    fn order(&mut self, order: &mut Order) {
        let (mut word, mut scope) = OrderWord::split(*order);
        self.optional(&mut word);
        if word.has_scope() {
            self.required(&mut scope);
        }
        *order = word.with(scope);
    }
}

/// The first word of a memory ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrderWord {
    Unstated,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

words!(OrderWord {
    Unstated "", Volatile "volatile", Relaxed "relaxed", Acquire "acquire", Release "release", AcqRel "acq_rel",
});

impl OrderWord {
    fn split(order: Order) -> (OrderWord, Scope) {
        match order {
            Order::Weak => (OrderWord::Unstated, Scope::Gpu),
            Order::Volatile => (OrderWord::Volatile, Scope::Gpu),
            Order::Relaxed(scope) => (OrderWord::Relaxed, scope),
            Order::Acquire(scope) => (OrderWord::Acquire, scope),
            Order::Release(scope) => (OrderWord::Release, scope),
            Order::AcqRel(scope) => (OrderWord::AcqRel, scope),
        }
    }

    fn has_scope(self) -> bool {
        !matches!(self, OrderWord::Unstated | OrderWord::Volatile)
    }

    fn with(self, scope: Scope) -> Order {
        match self {
            OrderWord::Unstated => Order::Weak,
            OrderWord::Volatile => Order::Volatile,
            OrderWord::Relaxed => Order::Relaxed(scope),
            OrderWord::Acquire => Order::Acquire(scope),
            OrderWord::Release => Order::Release(scope),
            OrderWord::AcqRel => Order::AcqRel(scope),
        }
    }
}

/// Writes the modifiers after a stem.
pub(super) struct Writer<'a> {
    pub text: &'a mut Text,
}

impl Writer<'_> {
    fn push(&mut self, word: &str) {
        if !word.is_empty() {
            self.text.push(".");
            self.text.push(word);
        }
    }
}

impl Modifiers for Writer<'_> {
    fn optional<W: Word>(&mut self, word: &mut W) {
        self.push(word.word());
    }

    fn required<W: Word>(&mut self, word: &mut W) {
        self.push(word.word());
    }

    fn literal(&mut self, text: &'static str) {
        self.push(text);
    }

    fn flag(&mut self, flag: &mut bool, text: &'static str) {
        if *flag {
            self.push(text);
        }
    }

    fn vector(&mut self, lanes: &mut u8) {
        match *lanes {
            0 | 1 => {}
            2 => self.push("v2"),
            4 => self.push("v4"),
            lanes => {
                self.push("v");
                self.text.unsigned(lanes.into());
            }
        }
    }

    fn shape(&mut self, shape: &mut Shape) {
        for (letter, extent) in [(".m", shape.m), ("n", shape.n), ("k", shape.k)] {
            self.text.push(letter);
            self.text.unsigned(extent.into());
        }
    }

    fn number(&mut self, prefix: &'static str, number: &mut u8, suffix: &'static str) {
        self.text.push(".");
        self.text.push(prefix);
        self.text.unsigned((*number).into());
        self.text.push(suffix);
    }

    fn reject_if(&mut self, _: bool) {}

    fn redundant(&mut self, _: &'static str) {}

    fn either(&mut self, first: &mut bool, words: [&'static str; 2]) {
        self.push(words[if *first { 0 } else { 1 }]);
    }
}

/// Reads the modifiers after a stem.
pub(super) struct Reader<'a> {
    /// The unread text, starting at the dot of the next modifier.
    rest: &'a str,
    failed: bool,
}

impl<'a> Reader<'a> {
    pub fn new(rest: &'a str) -> Self {
        Reader { rest, failed: false }
    }

    /// Whether every modifier was consumed and every required one was present.
    pub fn consumed(&self) -> bool {
        self.rest.is_empty() && !self.failed
    }

    fn next(&self) -> &'a str {
        let word = self.rest.strip_prefix('.').unwrap_or("");
        word.split('.').next().unwrap_or("")
    }

    fn advance(&mut self, word: &str) {
        self.rest = &self.rest[word.len() + 1..];
    }

    fn take<W: Word>(&mut self, slot: &mut W) -> bool {
        let word = self.next();
        match W::from_word(word) {
            Some(found) if !word.is_empty() => {
                *slot = found;
                self.advance(word);
                true
            }
            _ => false,
        }
    }

    /// Consumes `text`, one word or several.
    fn take_text(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix('.').and_then(|rest| rest.strip_prefix(text));
        match after {
            Some(after) if after.is_empty() || after.starts_with('.') => {
                self.rest = after;
                true
            }
            _ => false,
        }
    }
}

impl Modifiers for Reader<'_> {
    fn optional<W: Word>(&mut self, word: &mut W) {
        self.take(word);
    }

    fn required<W: Word>(&mut self, word: &mut W) {
        self.failed |= !self.take(word);
    }

    fn literal(&mut self, text: &'static str) {
        self.failed |= !self.take_text(text);
    }

    fn flag(&mut self, flag: &mut bool, text: &'static str) {
        *flag = self.take_text(text);
    }

    fn vector(&mut self, lanes: &mut u8) {
        for (text, count) in [("v2", 2), ("v4", 4), ("v8", 8)] {
            if self.take_text(text) {
                *lanes = count;
                return;
            }
        }
        *lanes = 1;
    }

    fn shape(&mut self, shape: &mut Shape) {
        let word = self.next();
        match Shape::from_name(word) {
            Some(found) => {
                *shape = found;
                self.advance(word);
            }
            None => self.failed = true,
        }
    }

    fn number(&mut self, prefix: &'static str, number: &mut u8, suffix: &'static str) {
        let word = self.next();
        let digit = word.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
        match digit.map(str::as_bytes) {
            Some([digit @ b'1'..=b'9']) => {
                *number = digit - b'0';
                self.advance(word);
            }
            _ => self.failed = true,
        }
    }

    fn reject_if(&mut self, contradiction: bool) {
        self.failed |= contradiction;
    }

    fn redundant(&mut self, text: &'static str) {
        self.take_text(text);
    }

    fn either(&mut self, first: &mut bool, words: [&'static str; 2]) {
        *first = self.take_text(words[0]);
        self.failed |= !*first && !self.take_text(words[1]);
    }
}
