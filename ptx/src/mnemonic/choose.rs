//! Lists every choice of an opcode's modifiers, one after another: the third use of a mnemonic's description.

use super::walk::Modifiers;
use crate::matrix::Shape;
use crate::names::Word;

/// Representative shapes of matrix multiplications: any other shape takes the same types as one of these.
const SHAPES: &[Shape] = &[
    Shape::new(8, 8, 4),
    Shape::new(8, 8, 16),
    Shape::new(8, 32, 16),
    Shape::new(16, 8, 4),
    Shape::new(16, 8, 8),
    Shape::new(16, 8, 16),
    Shape::new(16, 8, 32),
    Shape::new(16, 16, 16),
    Shape::new(32, 8, 16),
    Shape::new(64, 8, 8),
    Shape::new(64, 24, 16),
    Shape::new(64, 32, 32),
];

/// Visits an opcode's modifiers and sets each to one of its alternatives; [`Chooser::advance`] moves on to the next
/// combination. Which modifiers follow may depend on the choices before them.
#[derive(Default)]
pub(super) struct Chooser {
    /// What was chosen for each modifier so far, out of how many alternatives.
    chosen: Vec<(usize, usize)>,
    visited: usize,
    contradicts: bool,
}

impl Chooser {
    /// Whether the last visit ended in a contradiction.
    pub fn contradicts(&self) -> bool {
        self.contradicts
    }

    /// The next combination, or `None` after the last one.
    pub fn advance(mut self) -> Option<Chooser> {
        while let Some((choice, of)) = self.chosen.pop() {
            if choice + 1 < of {
                self.chosen.push((choice + 1, of));
                return Some(Chooser { chosen: self.chosen, visited: 0, contradicts: false });
            }
        }
        None
    }

    fn choose(&mut self, of: usize) -> usize {
        if self.visited == self.chosen.len() {
            self.chosen.push((0, of));
        }
        self.visited += 1;
        self.chosen[self.visited - 1].0
    }

    fn word<W: Word>(&mut self, word: &mut W) {
        *word = W::ALL[self.choose(W::ALL.len())];
    }
}

impl Modifiers for Chooser {
    fn optional<W: Word>(&mut self, word: &mut W) {
        self.word(word);
    }

    fn required<W: Word>(&mut self, word: &mut W) {
        self.word(word);
    }

    fn literal(&mut self, _: &'static str) {}

    fn flag(&mut self, flag: &mut bool, _: &'static str) {
        *flag = self.choose(2) == 1;
    }

    fn vector(&mut self, lanes: &mut u8) {
        *lanes = 1 << self.choose(4);
    }

    fn shape(&mut self, shape: &mut Shape) {
        *shape = SHAPES[self.choose(SHAPES.len())];
    }

    fn number(&mut self, _: &'static str, number: &mut u8, _: &'static str) {
        *number = 1 + self.choose(5) as u8;
    }

    fn reject_if(&mut self, contradiction: bool) {
        self.contradicts |= contradiction;
    }

    fn redundant(&mut self, _: &'static str) {}

    fn either(&mut self, first: &mut bool, _: [&'static str; 2]) {
        *first = self.choose(2) == 0;
    }
}
