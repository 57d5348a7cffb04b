//! The arguments of `gemmc draw`.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::Compile;

#[derive(Args, Debug)]
pub(crate) struct Draw {
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Where to: a file that ends in .svg or .png
    #[arg(short = 'o', long = "output", value_name = "FILE", value_parser = picture())]
    pub(crate) output: PathBuf,
    /// What to show; several are separated by commas [default: all, on one page]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) what: Vec<What>,
    /// For a light or a dark background; auto, for an SVG, as the reader's browser prefers [default: auto, light for PNG]
    #[arg(long, value_enum)]
    pub(crate) scheme: Option<Scheme>,
    /// The same as --scheme dark
    #[arg(long, conflicts_with = "scheme")]
    pub(crate) dark: bool,
    /// Mark the fastest run of a schedule of this name in a file of results of `gemmc bench` on the roofline
    #[arg(long, value_name = "FILE.json")]
    pub(crate) results: Option<PathBuf>,
    /// Pixels of a PNG for each unit of the picture, which is 1200 units wide
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0, value_parser = zoom)]
    pub(crate) zoom: f32,
}

/// A panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Which thread, lane and warp holds which elements of the block's tile of D
    Threads,
    /// Which lane holds which elements of an instruction of the tensor cores
    Fragments,
    /// The banks of the staged tiles, and the conflicts of stores and loads
    Shared,
    /// What each role does over the K-tiles, and what is in each slot
    Pipeline,
    /// The order of the tiles of D, and those of a wave on --gpu [default: h200, or another one that runs the target]
    Raster,
    /// Operations per byte, and the speed that they allow on --gpu [default: the same]
    Roofline,
}

impl From<What> for ptx_gemm_draw::What {
    fn from(what: What) -> Self {
        match what {
            What::Threads => Self::Threads,
            What::Fragments => Self::Fragments,
            What::Shared => Self::Shared,
            What::Pipeline => Self::Pipeline,
            What::Raster => Self::Raster,
            What::Roofline => Self::Roofline,
        }
    }
}

/// A background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    Light,
    Dark,
    Auto,
}

impl From<Scheme> for ptx_gemm_draw::Scheme {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Light => Self::Light,
            Scheme::Dark => Self::Dark,
            Scheme::Auto => Self::Auto,
        }
    }
}

/// Whether a path has this ending; case is ignored.
pub(crate) fn ends_in(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

fn picture() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match ends_in(&path, "svg") || ends_in(&path, "png") {
        true => Ok(path),
        false => Err(format!("pictures are SVG or PNG: write {}", path.with_extension("svg").display())),
    })
}

fn zoom(text: &str) -> Result<f32, String> {
    let zoom = text.parse().ok().filter(|zoom| (0.25..=8.0).contains(zoom));
    zoom.ok_or_else(|| "a number from 0.25 to 8".into())
}
