//! Pictures as PNG. The font is embedded, so that they look alike everywhere and no font need be installed.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use crate::DrawError;

/// The most pixels along a side.
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
