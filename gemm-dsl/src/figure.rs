//! The numbers of `expect`: limits, and the figures that are compared with them.

use std::fmt;

use serde::{Serialize, Serializer};

/// The number of parts that make one.
const MILLIONTHS: u128 = 1_000_000;

/// A number from 0 up with at most six decimals, so that what a diagnostic prints is exactly what was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Figure {
    /// `u128::MAX` for anything that is not such a number, which happens if a builder was given a negative number or
    /// NaN.
    millionths: u128,
}

impl Figure {
    /// `count / of`, rounded to six decimals; 0 if `of` is 0.
    pub fn ratio(count: u64, of: u64) -> Figure {
        let (count, of) = (u128::from(count) * MILLIONTHS, u128::from(of));
        Figure { millionths: (count + of / 2).checked_div(of).unwrap_or(0) }
    }

    /// Reads `12`, `1_024` or `0.25`; `None` for anything else, more than six decimals included.
    pub fn parse(text: &str) -> Option<Figure> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| -> Option<u32> {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
            plain.then(|| text.replace('_', "").parse().ok()).flatten()
        };
        let scale = 6usize.checked_sub(fraction.len())?;
        let fraction = u128::from(digits(fraction)?) * 10u128.pow(scale as u32);
        Some(Figure { millionths: u128::from(digits(whole)?) * MILLIONTHS + fraction })
    }

    /// Whether it is a number that a contract can name.
    pub fn is_number(self) -> bool {
        self.millionths != u128::MAX
    }

    /// The number, if it is whole.
    pub fn whole(self) -> Option<u64> {
        let whole = self.is_number() && self.millionths.is_multiple_of(MILLIONTHS);
        whole.then(|| u64::try_from(self.millionths / MILLIONTHS).ok()).flatten()
    }

    /// The nearest f64.
    pub fn as_f64(self) -> f64 {
        if self.is_number() { self.millionths as f64 / MILLIONTHS as f64 } else { f64::NAN }
    }
}

impl From<u64> for Figure {
    fn from(whole: u64) -> Figure {
        Figure { millionths: u128::from(whole) * MILLIONTHS }
    }
}

impl From<f64> for Figure {
    /// Rounded to six decimals. A negative number, an infinity or NaN is refused when the schedule is checked.
    fn from(value: f64) -> Figure {
        let sensible = value.is_finite() && value >= 0.0 && value < u64::MAX as f64;
        Figure { millionths: if sensible { (value * MILLIONTHS as f64).round() as u128 } else { u128::MAX } }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_number() {
            return f.write_str("no number");
        }
        let (whole, fraction) = (self.millionths / MILLIONTHS, self.millionths % MILLIONTHS);
        match fraction {
            0 => write!(f, "{whole}"),
            _ => write!(f, "{whole}.{}", format!("{fraction:06}").trim_end_matches('0')),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.whole() {
            Some(whole) => serializer.serialize_u64(whole),
            None => serializer.serialize_f64(self.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Figure;

    #[test]
    fn figures_are_read_and_printed() {
        for text in ["0", "12", "0.25", "1.333333", "0.000001", "4294967295"] {
            assert_eq!(Figure::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Figure::parse("1_024.50").unwrap().to_string(), "1024.5");
        for text in ["", ".", "1.", ".5", "-1", "1e3", "0.1234567", "4294967296", "1.2.3"] {
            assert_eq!(Figure::parse(text), None, "{text}");
        }
    }

    #[test]
    fn figures_are_exact_to_six_decimals() {
        assert_eq!(Figure::ratio(1, 3).to_string(), "0.333333");
        assert_eq!(Figure::ratio(2, 3), Figure::from(0.666667));
        assert_eq!(Figure::ratio(6, 3), Figure::from(2));
        assert_eq!(Figure::ratio(1, 0), Figure::from(0));
        assert_eq!(Figure::from(2).whole(), Some(2));
        assert_eq!(Figure::from(2.5).whole(), None);
        assert!([f64::NAN, -1.0, f64::INFINITY].into_iter().all(|value| !Figure::from(value).is_number()));
    }
}
