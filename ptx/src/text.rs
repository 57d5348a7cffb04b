//! Text assembled from many short pieces.
//!
//! Most pieces of PTX are short. A copy of a length that is known only at run time costs more than moving these few
//! bytes. Register prefixes, small numbers and spaces are therefore kept in arrays of a fixed size. The whole array is
//! copied, which takes one or two instructions, and the text is then truncated to the end of the piece.

use std::ops::Range;

/// Bytes copied per piece.
const COPIED: usize = 16;
/// The most spaces written at once.
const BLANKS: [u8; 64] = [b' '; 64];
/// The digits of each number below 1000, followed by their count.
const SMALL: [[u8; 4]; 1000] = {
    let mut small = [[0; 4]; 1000];
    let mut value = 0;
    while value < small.len() {
        let digits = [b'0' + (value / 100) as u8, b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8];
        let [hundreds, tens, ones] = digits;
        small[value] = match value {
            0..10 => [ones, 0, 0, 1],
            10..100 => [tens, ones, 0, 2],
            _ => [hundreds, tens, ones, 3],
        };
        value += 1;
    }
    small
};

/// A string that is written often, with a copy of its first bytes.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    text: &'a str,
    start: [u8; COPIED],
}

impl<'a> Piece<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut start = [0; COPIED];
        start.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        Piece { text, start }
    }
}

/// The text so far.
#[derive(Default)]
pub(crate) struct Text {
    bytes: Vec<u8>,
}

impl Text {
    pub fn with_capacity(bytes: usize) -> Self {
        Text { bytes: Vec::with_capacity(bytes) }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    #[inline]
    pub fn piece(&mut self, piece: &Piece<'_>) {
        if piece.text.len() > COPIED {
            return self.push(piece.text);
        }
        let end = self.len() + piece.text.len();
        self.bytes.extend_from_slice(&piece.start);
        self.bytes.truncate(end);
    }

    #[inline]
    pub fn unsigned(&mut self, value: u64) {
        match usize::try_from(value).ok().and_then(|value| SMALL.get(value)) {
            Some(digits) => {
                let end = self.len() + usize::from(digits[3]);
                self.bytes.extend_from_slice(digits);
                self.bytes.truncate(end);
            }
            None => self.push(itoa::Buffer::new().format(value)),
        }
    }

    pub fn signed(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.unsigned(value),
            Err(_) => self.push(itoa::Buffer::new().format(value)),
        }
    }

    /// Appends `count` spaces, at most 64.
    pub fn blanks(&mut self, count: usize) {
        let end = self.len() + count;
        self.bytes.extend_from_slice(&BLANKS);
        self.bytes.truncate(end);
    }

    /// Appends a copy of the text at `range`.
    pub fn again(&mut self, range: Range<usize>) {
        self.bytes.extend_from_within(range);
    }

    pub fn finish(self) -> String {
        // Only whole `str`s were written, so this does not fail.
        String::from_utf8(self.bytes).unwrap_or_default()
    }
}
