//! Errors that prevent a picture from being drawn.

/// Why a picture was not drawn.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DrawError {
    /// The interpreter's run, from which the figures come, failed.
    #[error("no figures: {0}")]
    Figures(String),
    /// The picture asked for has nothing to show.
    #[error("there is nothing to draw: {0}")]
    Nothing(String),
    /// The SVG could not be converted to a PNG.
    #[error("no PNG: {0}")]
    Png(String),
}
