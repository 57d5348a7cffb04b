//! The colours, each for a light and for a dark background.
//!
//! Categories are those of Okabe and Ito, which people with any colour vision tell apart, lightened or darkened where the
//! background asks for it; banks are 32 steps of viridis, which grows lighter monotonically.

/// A colour in each scheme, as `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Color {
    /// On a light background. No two colours agree in it.
    pub light: &'static str,
    /// On a dark background.
    pub dark: &'static str,
}

const fn color(light: &'static str, dark: &'static str) -> Color {
    Color { light, dark }
}

const fn both(hex: &'static str) -> Color {
    Color { light: hex, dark: hex }
}

/// The background.
pub const PAPER: Color = color("#fffffe", "#14171c");
/// Text and axes.
pub const INK: Color = color("#1b1f24", "#e8eaed");
/// Secondary text.
pub const MUTED: Color = color("#59616b", "#a4acb6");
/// Grid lines and frames.
pub const FAINT: Color = color("#d5d9de", "#3a4049");
/// The fill of an empty cell.
pub const GROUND: Color = color("#f1f3f5", "#1f242b");
/// Text on a dark cell, in both schemes.
pub const ON_DARK: Color = both("#ffffff");
/// Text on a light cell, in both schemes.
pub const ON_LIGHT: Color = both("#101214");
/// A mark on a bank's cell, which may be dark or light.
pub const MARK: Color = both("#ff3d7f");
/// Errors and costs.
pub const ALARM: Color = color("#c23b00", "#ff8a4c");

/// Categories: dark enough, or light enough, for text of [`ON_LIGHT`] on them.
pub const CATEGORIES: [Color; 7] = [
    color("#56b4e9", "#4aa3d6"),
    color("#e69f00", "#d99a14"),
    color("#2fb38a", "#1fa67d"),
    color("#e59ac6", "#d48ab6"),
    color("#f0e442", "#d8cd3a"),
    color("#ff8c5a", "#e8794a"),
    color("#b9bfc6", "#98a0a9"),
];

/// Categories of lines, which need contrast with the background.
pub const LINES: [Color; 6] = [
    color("#0072b2", "#58b4ec"),
    color("#d55e00", "#ff9350"),
    color("#00805c", "#35c79b"),
    color("#a8528a", "#e59fca"),
    color("#8a6d00", "#e6cf45"),
    color("#5b636c", "#b4bbc3"),
];

/// 32 banks: viridis.
#[rustfmt::skip] // four to a line
pub const BANKS: [Color; 32] = [
    both("#440154"), both("#470d60"), both("#48196b"), both("#482474"),
    both("#472e7c"), both("#453882"), both("#424186"), both("#3e4a89"),
    both("#3a538b"), both("#365c8d"), both("#32648e"), both("#2e6d8e"),
    both("#2b758e"), both("#287d8e"), both("#25858e"), both("#228c8d"),
    both("#20948c"), both("#1e9c89"), both("#20a386"), both("#25ab82"),
    both("#2eb37c"), both("#3aba76"), both("#48c16e"), both("#58c765"),
    both("#6ccd5a"), both("#7fd34e"), both("#93d741"), both("#a8db34"),
    both("#c0df25"), both("#d5e21a"), both("#eae51a"), both("#fde725"),
];

/// The text on a bank's cell.
pub fn on_bank(bank: usize) -> Color {
    if bank < 17 { ON_DARK } else { ON_LIGHT }
}

/// Category number `index`, wrapping around after the last.
pub fn category(index: usize) -> Color {
    CATEGORIES[index % CATEGORIES.len()]
}

/// The colour of line number `index`, wrapping around after the last.
pub fn line(index: usize) -> Color {
    LINES[index % LINES.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<Color> {
        let single = [PAPER, INK, MUTED, FAINT, GROUND, ON_DARK, ON_LIGHT, ALARM];
        single.into_iter().chain(CATEGORIES).chain(LINES).chain(BANKS).collect()
    }

    /// Relative luminance (WCAG 2.2).
    fn luminance(hex: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn no_two_colours_agree_on_a_light_background() {
        let light: BTreeSet<&str> = all().iter().map(|color| color.light).collect();
        assert_eq!(light.len(), all().len(), "the dark one is found by the light one");
    }

    #[test]
    fn text_has_contrast() {
        for (text, on, least) in [(INK, PAPER, 7.0), (MUTED, PAPER, 4.5), (MUTED, GROUND, 4.5), (ALARM, PAPER, 4.5)] {
            assert!(contrast(text.light, on.light) > least, "{text:?}");
            assert!(contrast(text.dark, on.dark) > least, "{text:?}");
        }
        for cell in CATEGORIES {
            assert!(contrast(ON_LIGHT.light, cell.light) > 4.5 && contrast(ON_LIGHT.dark, cell.dark) > 4.5, "{cell:?}");
        }
        for (bank, cell) in BANKS.into_iter().enumerate() {
            let text = on_bank(bank);
            assert!(contrast(text.light, cell.light) > 3.0 && contrast(text.dark, cell.dark) > 3.0, "bank {bank}");
        }
        for line in LINES {
            assert!(contrast(line.light, PAPER.light) > 3.0 && contrast(line.dark, PAPER.dark) > 3.0, "{line:?}");
        }
    }
}
