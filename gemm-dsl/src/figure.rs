//! The numbers of `expect`: limits, and the figures to compare with them.

use std::fmt;

use serde::{Serialize, Serializer};

/// The maximum number of decimals: enough for two digits of the error of an f64 product.
const DECIMALS: usize = 18;

/// The number of parts that make one.
const ONE: u128 = 10u128.pow(DECIMALS as u32);

/// Ratios are rounded to multiples of this, the sixth decimal.
const MILLIONTH: u128 = ONE / 1_000_000;

/// Smaller numbers are printed with an exponent.
const SMALL: u128 = ONE / 10_000;

/// A non-negative number with at most eighteen decimals, so that diagnostics print exactly the compared value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Figure {
    /// `u128::MAX` for any other value: a builder was given a negative number or NaN, or a kernel computed NaN.
    parts: u128,
}

/// The figure of anything that is not a non-negative number.
const NOT_A_NUMBER: Figure = Figure { parts: u128::MAX };

impl Figure {
    /// `count / of`, rounded to six decimals; 0 if `of` is 0.
    pub fn ratio(count: u64, of: u64) -> Figure {
        let (count, of) = (u128::from(count) * (ONE / MILLIONTH), u128::from(of));
        Figure { parts: (count + of / 2).checked_div(of).unwrap_or(0) * MILLIONTH }
    }

    /// A measured value, rounded to three digits and to eighteen decimals. Infinity and NaN are not numbers.
    pub fn measured(value: f64) -> Figure {
        format!("{value:.2e}").parse().map_or(NOT_A_NUMBER, |rounded: f64| rounded.into())
    }

    /// Reads `12`, `1_024`, `0.25`, `.25`, `1.` or `1.5e-7`; `None` for anything else, including more than eighteen
    /// decimals.
    pub fn parse(text: &str) -> Option<Figure> {
        let (digits, shift) = text.split_once(['e', 'E']).map_or(Some((text, 0)), |(digits, exponent)| {
            let shift: usize = exponent.strip_prefix('-')?.parse().ok()?;
            Some((digits, shift))
        })?;
        let figure = Figure::decimal(digits)?;
        let divisor = 10u128.checked_pow(shift.try_into().ok()?)?;
        figure.parts.is_multiple_of(divisor).then_some(Figure { parts: figure.parts / divisor })
    }

    /// Reads a number without an exponent.
    fn decimal(text: &str) -> Option<Figure> {
        // At least one side of the point has digits.
        let (whole, fraction) = match text.split_once('.') {
            None => (text, "0"),
            Some(("", "")) => return None,
            Some((whole, "")) => (whole, "0"),
            Some(("", fraction)) => ("0", fraction),
            Some(both) => both,
        };
        let digits = |text: &str| -> Option<u128> {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
            plain.then(|| text.replace('_', "").parse().ok()).flatten()
        };
        let scale = DECIMALS.checked_sub(fraction.len())?;
        let fraction = digits(fraction)? * 10u128.pow(scale as u32);
        let whole = u32::try_from(digits(whole)?).ok()?;
        Some(Figure { parts: u128::from(whole) * ONE + fraction })
    }

    /// Whether it is a number that a contract can name.
    pub fn is_number(&self) -> bool {
        *self != NOT_A_NUMBER
    }

    /// The number, if it is whole.
    pub fn whole(self) -> Option<u64> {
        let whole = self.is_number() && self.parts.is_multiple_of(ONE);
        whole.then(|| u64::try_from(self.parts / ONE).ok()).flatten()
    }

    /// The nearest f64.
    pub fn as_f64(self) -> f64 {
        if self.is_number() { self.parts as f64 / ONE as f64 } else { f64::NAN }
    }
}

impl From<u64> for Figure {
    fn from(whole: u64) -> Figure {
        Figure { parts: u128::from(whole) * ONE }
    }
}

impl From<f64> for Figure {
    /// The shortest decimal number that reads as this f64, rounded to eighteen decimals. Checking the schedule rejects
    /// a negative number, an infinity or NaN.
    fn from(value: f64) -> Figure {
        let shortest = value.to_string();
        let rounded = format!("{value:.DECIMALS$}");
        // Whole numbers larger than text may contain.
        let large = || (value.is_finite() && value >= 0.0 && value < u64::MAX as f64).then(|| (value as u64).into());
        Figure::decimal(&shortest).or_else(|| Figure::decimal(&rounded)).or_else(large).unwrap_or(NOT_A_NUMBER)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_number() {
            return f.write_str("no number");
        }
        let (whole, fraction) = (self.parts / ONE, self.parts % ONE);
        if whole == 0 && (1..SMALL).contains(&fraction) {
            let digits = fraction.to_string();
            let (first, rest) = digits.split_at(1);
            let (rest, exponent) = (rest.trim_end_matches('0'), DECIMALS + 1 - digits.len());
            return write!(f, "{first}{}{rest}e-{exponent}", if rest.is_empty() { "" } else { "." });
        }
        match fraction {
            0 => write!(f, "{whole}"),
            _ => write!(f, "{whole}.{}", format!("{fraction:0DECIMALS$}").trim_end_matches('0')),
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
        for text in ["0", "12", "0.25", "1.333333", "0.000123", "1e-6", "1.5e-7", "1e-18", "4294967295"] {
            assert_eq!(Figure::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Figure::parse("1_024.50").unwrap().to_string(), "1024.5");
        assert_eq!(Figure::parse("0.000001"), Figure::parse("1e-6"));
        assert_eq!(Figure::parse("150E-2").unwrap().to_string(), "1.5");
        assert_eq!([".5", "2.", ".5e-1"].map(|text| Figure::parse(text).unwrap().to_string()), ["0.5", "2", "0.05"]);
        for text in [
            "",
            ".",
            ".e-1",
            "-1",
            "1e3",
            "1e",
            "1e-",
            "1e-19",
            "1.5e-18",
            "1e-99",
            "1e-4294967297",
            "0.1234567890123456789",
            "4294967296",
            "1.2.3",
        ] {
            assert_eq!(Figure::parse(text), None, "{text}");
        }
    }

    #[test]
    fn figures_of_floats_are_read_again() {
        for value in [0.0, 0.1, 2.5, 1e-6, 1.5e-7, 0.1 + 0.2, 1.0 / 3.0 * 1e-9, 123456.789] {
            let figure = Figure::from(value);
            assert_eq!(Figure::parse(&figure.to_string()), Some(figure), "{value}");
            assert!((figure.as_f64() - value).abs() <= 1e-18 + value * 1e-15, "{value}");
        }
        assert_eq!(Figure::from(1e15).whole(), Some(1_000_000_000_000_000));
        assert_eq!(Figure::measured(1.23456e-7).to_string(), "1.23e-7");
        assert_eq!(Figure::measured(0.0), Figure::from(0));
        assert!([f64::NAN, f64::INFINITY].into_iter().all(|value| !Figure::measured(value).is_number()));
    }

    #[test]
    fn ratios_are_exact_to_six_decimals() {
        assert_eq!(Figure::ratio(1, 3).to_string(), "0.333333");
        assert_eq!(Figure::ratio(2, 3), Figure::from(0.666667));
        assert_eq!(Figure::ratio(6, 3), Figure::from(2));
        assert_eq!(Figure::ratio(1, 0), Figure::from(0));
        assert_eq!(Figure::from(2).whole(), Some(2));
        assert_eq!(Figure::from(2.5).whole(), None);
        assert!([f64::NAN, -1.0, f64::INFINITY].into_iter().all(|value| !Figure::from(value).is_number()));
    }
}
