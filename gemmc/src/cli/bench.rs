//! The arguments of `gemmc bench` and `gemmc ladder`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use ptx_gemm::{DType, Target};
use ptx_gemm_bench::suites::{LayoutPair, Size, Suite};
use ptx_gemm_choose::Gpu;

use super::DeviceName;
use super::profile::{milliseconds, whole_seconds};
use super::target::{GPU, TARGET, gpu, target};

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Products of one kind; several are separated by commas
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) suite: Vec<Suite>,
    /// Products of these extents: M, MxNxK or MxNxKxBATCH; several are separated by commas
    #[arg(long, value_parser = Size::parse, value_delimiter = ',')]
    pub(crate) size: Vec<Size>,
    /// Of the suites, or of --table, only products with one of these texts in their name or extents, such as Mixtral or 512x
    #[arg(long, value_name = "TEXT", value_delimiter = ',', conflicts_with = "size")]
    pub(crate) only: Vec<String>,
    /// Type of the elements of A and B
    #[arg(long, default_value = "f32", value_parser = dtype)]
    pub(crate) types: DType,
    /// Layouts of A and B, instead of those that the schedules name
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) layouts: Vec<LayoutPair>,
    /// Cases, .gemm or .tile files, instead of what `matmul` takes for each product
    #[arg(long, alias = "case", value_name = "NAME", value_delimiter = ',')]
    pub(crate) schedules: Vec<String>,
    /// Clauses of one more schedule, such as 'schedule(?); emulate(f16x3)'; open values are filled in for each product. May be
    /// given several times
    #[arg(short = 'e', long = "clauses", value_name = "CLAUSES", allow_hyphen_values = true)]
    pub(crate) clauses: Vec<String>,
    /// One JSON object on standard output, and nothing else; also written to FILE if there is one; with --table the rows shown
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the shares of cuBLAS and of the peak; with --table those of the file
    #[arg(long, value_name = "FILE.svg", value_parser = picture())]
    pub(crate) plot: Option<PathBuf>,
    /// Write SUITE.json and SUITE.svg there, each as soon as its suite has ended
    #[arg(long, value_name = "FOLDER")]
    pub(crate) results: Option<PathBuf>,
    /// Where to run: cuda:N [default: cuda:0; every GPU for --suite large]
    #[arg(long, value_parser = DeviceName::parse)]
    pub(crate) device: Option<DeviceName>,
    /// The value of an epilogue's scalar called beta; every other scalar is 1, C and vectors are random. The product by
    /// cuBLAS is without an epilogue
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_hyphen_values = true)]
    pub(crate) beta: f64,
    /// Let the GPU rest this long before each sample: a cool GPU has a higher clock than a busy one
    #[arg(long, value_name = "MS", default_value = "0", value_parser = milliseconds)]
    pub(crate) rest: u64,
    /// Start no further measurement after this time
    #[arg(long, value_name = "N", default_value = "480", value_parser = whole_seconds)]
    pub(crate) seconds: u64,
    /// Measure nothing: print a file of results as a table in Markdown, of all its schedules or of --schedules
    #[arg(long, value_name = "FILE.json", conflicts_with_all = MEASURES)]
    pub(crate) table: Option<PathBuf>,
    /// Of that table only the fastest schedule of each product
    #[arg(long, requires = "table", conflicts_with_all = MEASURES)]
    pub(crate) best: bool,
    /// Instead of that table a line for each number of rows: means over products of the fastest schedules
    #[arg(long, requires = "table", conflicts_with = "beside")]
    pub(crate) means: bool,
    /// Add the rows of that file of results to a compact file of all of them
    #[arg(long, requires = "table", value_name = "FILE.json")]
    pub(crate) rows: Option<PathBuf>,
    /// In that table, also the speeds of another file of results, by schedule
    #[arg(long, requires = "table", conflicts_with_all = MEASURES, value_name = "FILE.json")]
    pub(crate) beside: Option<PathBuf>,
}

/// The arguments of a measurement. Those that require --table conflict with them as well: clap does not require an argument that
/// conflicts with a given one, and would ignore the others.
const MEASURES: [&str; 10] =
    ["suite", "size", "types", "layouts", "clauses", "results", "device", "beta", "rest", "seconds"];

/// The arguments of a ladder of cases, for the same reason.
const COMPILES: [&str; 3] = ["cases", "target", "gpu"];

#[derive(Args, Debug)]
pub(crate) struct Ladder {
    /// These cases alone, such as wgmma
    #[arg(value_name = "CASE")]
    pub(crate) cases: Vec<String>,
    #[arg(long, value_parser = target, help = TARGET)]
    pub(crate) target: Option<Target>,
    #[arg(long, value_name = "NAME", value_parser = gpu, help = GPU)]
    pub(crate) gpu: Option<&'static Gpu>,
    /// The steps of a product on the CPU next to libraries, instead of the cases
    #[arg(long, conflicts_with_all = COMPILES)]
    pub(crate) cpu: bool,
    /// Sizes of the products on the CPU [default: 16 to 65536, as far as memory and --seconds allow]
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "cpu", conflicts_with_all = COMPILES)]
    pub(crate) sizes: Vec<usize>,
    /// Print a file of results of --cpu as a table, and measure nothing
    #[arg(long, value_name = "FILE.json", requires = "cpu", conflicts_with_all = ["cases", "target", "gpu", "sizes", "seconds", "json"])]
    pub(crate) table: Option<PathBuf>,
    /// Leave out products on the CPU that are expected to take longer
    #[arg(long, value_name = "S", default_value_t = 10.0, requires = "cpu", conflicts_with_all = COMPILES)]
    pub(crate) seconds: f64,
    /// One JSON object on standard output, and nothing else; also written to FILE if there is one
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the figures
    #[arg(long, value_name = "FILE.svg", value_parser = picture())]
    pub(crate) plot: Option<PathBuf>,
}

/// The file of a picture; its ending determines the format.
pub(super) fn picture() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err(format!("pictures are SVG: write {}", path.with_extension("svg").display())),
    })
}

pub(crate) fn dtype(text: &str) -> Result<DType, String> {
    DType::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| {
        let known: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("one of {}", known.join(", "))
    })
}
