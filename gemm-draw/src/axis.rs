//! An axis: the position of a value, and the values that have a tick mark. Scales and ticks are those of plotters.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;

/// Values along a line of the picture.
pub struct Axis {
    scale: Scale,
    /// The positions of the first and the last value.
    from: f64,
    to: f64,
}

enum Scale {
    Linear(RangedCoordf64),
    Log(LogCoord<f64>),
}

/// The resolution given to plotters, which computes positions as integers.
const STEPS: i32 = 1_000_000;

impl Axis {
    /// Equal distances for equal differences.
    pub fn linear(values: Range<f64>, from: f64, to: f64) -> Axis {
        Axis { scale: Scale::Linear(values.into()), from, to }
    }

    /// Equal distances for equal factors; values are positive.
    pub fn log(values: Range<f64>, from: f64, to: f64) -> Axis {
        Axis { scale: Scale::Log(values.log_scale().into()), from, to }
    }

    /// The position of a value.
    pub fn at(&self, value: f64) -> f64 {
        let step = match &self.scale {
            Scale::Linear(scale) => scale.map(&value, (0, STEPS)),
            Scale::Log(scale) => scale.map(&value, (0, STEPS)),
        };
        self.from + (self.to - self.from) * f64::from(step) / f64::from(STEPS)
    }

    /// At most this many round values on the axis.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        match &self.scale {
            Scale::Linear(scale) => scale.key_points(most),
            Scale::Log(scale) => scale.key_points(most),
        }
    }
}

/// A value of an axis in words.
pub fn number(value: f64) -> String {
    // Three digits, or the first two of what is less than 1.
    let text = match value.abs() {
        large if large >= 1e6 => return format!("{} M", number(value / 1e6)),
        large if large >= 1e4 => return format!("{} k", number(value / 1e3)),
        large if large >= 100.0 || value.fract().abs() < 1e-9 => format!("{value:.0}"),
        middle if middle >= 1.0 => format!("{value:.1}"),
        small => format!("{value:.*}", (1.0 - small.max(1e-9).log10().floor()) as usize),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{Axis, number};

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (66.908, "66.9"),
            (25.0, "25"),
            (4096.0, "4096"),
            (0.4868, "0.49"),
            (0.0242, "0.024"),
            (0.1, "0.1"),
            (36352.0, "36.4 k"),
            (2_095_104.0, "2.1 M"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn values_are_where_the_scale_has_them() {
        let linear = Axis::linear(0.0..10.0, 100.0, 200.0);
        assert!((linear.at(2.5) - 125.0).abs() < 0.01 && (linear.at(0.0) - 100.0).abs() < 0.01);
        assert!(linear.ticks(7).len() > 2 && linear.ticks(7).len() <= 7);
        // Downwards, by factors.
        let log = Axis::log(1.0..100.0, 300.0, 100.0);
        assert!((log.at(10.0) - 200.0).abs() < 0.01, "{}", log.at(10.0));
    }
}
