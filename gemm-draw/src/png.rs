//! Pictures as PNG. The font is embedded, so that they look the same everywhere and no font needs to be installed.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use crate::error::DrawError;

/// The maximum number of pixels along a side.
const MOST: f32 = 16384.0;

/// The SVG as PNG, `scale` pixels for each unit of the picture.
///
/// # Errors
/// [`DrawError::Png`] for a text that is not an SVG, or one that is too large.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, DrawError> {
    let failed = |error: String| DrawError::Png(error);
    let tree = usvg::Tree::from_str(svg, &options()).map_err(|error| failed(error.to_string()))?;
    let size = tree.size();
    let (width, height) = ((size.width() * scale).ceil(), (size.height() * scale).ceil());
    if width.max(height) > MOST {
        return Err(failed(format!("{width} x {height} pixels are more than {MOST} a side")));
    }
    let mut pixels = tiny_skia::Pixmap::new(width as u32, height as u32)
        .ok_or_else(|| failed(format!("{width} x {height} pixels")))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(error.to_string()))
}

/// Text is set in the embedded font, whatever families a picture names.
pub(crate) fn options() -> usvg::Options<'static> {
    let mut options = usvg::Options::default();
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.load_font_data(epaint_default_fonts::HACK_REGULAR.to_vec());
    let family = fonts.faces().next().and_then(|face| face.families.first()).map(|(name, _)| name.clone());
    if let Some(family) = family {
        fonts.set_sans_serif_family(family.clone());
        options.font_family = family;
    }
    options
}

#[cfg(test)]
pub(crate) mod tests {
    use resvg::usvg::{self, Group, Node};

    use super::{options, png};

    /// A box around a text, and the text.
    type Letters = (usvg::Rect, String);

    fn collect(group: &Group, all: &mut Vec<Letters>) {
        for node in group.children() {
            match node {
                Node::Group(group) => collect(group, all),
                Node::Text(text) => {
                    let words: String = text.chunks().iter().map(|chunk| chunk.text()).collect();
                    all.push((in_a_wide_font(text), words));
                }
                _ => {}
            }
        }
    }

    /// How much wider than the embedded font the fonts of browsers are: DejaVu Sans is the widest that an SVG names.
    const WIDER: f32 = 0.15;

    fn in_a_wide_font(text: &usvg::Text) -> usvg::Rect {
        let own = text.abs_bounding_box();
        if text.abs_transform().has_skew() {
            // Turned: along the other axis, where nothing is close.
            return own;
        }
        let more = WIDER * own.width();
        let (left, right) = match text.chunks().first().map(|chunk| chunk.anchor()) {
            Some(usvg::TextAnchor::Middle) => (more / 2.0, more / 2.0),
            Some(usvg::TextAnchor::End) => (more, 0.0),
            _ => (0.0, more),
        };
        usvg::Rect::from_ltrb(own.left() - left, own.top(), own.right() + right, own.bottom()).unwrap()
    }

    /// Texts that overlap by more than a small tolerance, or extend beyond the picture.
    pub(crate) fn faults(svg: &str) -> Vec<String> {
        let tree = usvg::Tree::from_str(svg, &options()).unwrap();
        let mut all = Vec::new();
        collect(tree.root(), &mut all);
        all.sort_by(|one, other| one.0.top().total_cmp(&other.0.top()));
        let mut faults = Vec::new();
        let (width, height) = (tree.size().width(), tree.size().height());
        for (index, (one, words)) in all.iter().enumerate() {
            if one.left() < 0.0 || one.top() < 0.0 || one.right() > width || one.bottom() > height {
                faults.push(format!("`{words}` is clipped: {one:?}"));
            }
            for (other, more) in all[index + 1..].iter().take_while(|(other, _)| other.top() < one.bottom()) {
                let x = one.right().min(other.right()) - one.left().max(other.left());
                let y = one.bottom().min(other.bottom()) - other.top();
                // The box of a line has room above and below its letters.
                if x > 1.0 && y > 0.45 * one.height().min(other.height()) {
                    faults.push(format!("`{words}` and `{more}` lie on each other: {one:?} {other:?}"));
                }
            }
        }
        faults
    }

    #[test]
    fn letters_are_drawn_without_fonts_of_the_machine() {
        let text = |words: &str| {
            format!(
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 100 20' font-family='No Such Font, sans-serif'><text y='15'>{words}</text></svg>"
            )
        };
        assert_ne!(png(&text("bank"), 1.0).unwrap(), png(&text(""), 1.0).unwrap());
        // The non-ASCII characters in the pictures.
        for sign in ["×", "–", "·"] {
            assert_ne!(png(&text(sign), 1.0).unwrap(), png(&text(""), 1.0).unwrap(), "{sign}");
        }
    }

    #[test]
    fn what_is_no_svg_or_too_large_is_refused() {
        assert!(png("no picture", 1.0).unwrap_err().to_string().starts_with("no PNG: "));
        let large = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9000 9000'/>";
        assert!(png(large, 2.0).unwrap_err().to_string().contains("18000 x 18000 pixels are more than"));
    }
}
