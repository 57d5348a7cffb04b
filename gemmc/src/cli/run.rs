//! The arguments of `gemmc run`.

use clap::Args;
use ptx_gemm_check::Size;

use super::extent::size;
use super::{Compile, DeviceName};

#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Rows of A and D
    #[arg(short = 'm', value_name = "M", value_parser = size)]
    pub(crate) m: usize,
    /// Columns of B and D
    #[arg(short = 'n', value_name = "N", value_parser = size)]
    pub(crate) n: usize,
    /// Columns of A, rows of B
    #[arg(short = 'k', value_name = "K", value_parser = size)]
    pub(crate) k: usize,
    /// Products of batch(strided) [default: 3 there, else 1]
    #[arg(long, value_name = "COUNT")]
    pub(crate) batch: Option<usize>,
    /// Another product of batch(grouped), as `64x32x16`; many as `64x32x16,8x8x8`
    #[arg(long, value_name = "MxNxK", value_parser = extents, value_delimiter = ',')]
    pub(crate) group: Vec<Size>,
    /// Leading dimension of A, in elements [default: the smallest possible]
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) lda: Option<usize>,
    /// Leading dimension of B
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) ldb: Option<usize>,
    /// Leading dimension of C
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) ldc: Option<usize>,
    /// Leading dimension of D
    #[arg(long, value_name = "ELEMENTS")]
    pub(crate) ldd: Option<usize>,
    /// Value of the epilogue's scalar `alpha` [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) alpha: Option<f64>,
    /// Value of the epilogue's scalar `beta` [default: 0]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) beta: Option<f64>,
    /// Value of any scalar of the epilogue [default: 1]
    #[arg(long, value_name = "NAME=X", value_parser = assignment, allow_hyphen_values = true)]
    pub(crate) set: Vec<(String, f64)>,
    /// Which data
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Small integers, and equality instead of a bound
    #[arg(long)]
    pub(crate) exact: bool,
    /// A NaN or an infinity as the first element of every matrix
    #[arg(long, conflicts_with = "exact")]
    pub(crate) special: bool,
    /// D is C as well
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Where to run: best, interp, or cuda:N
    #[arg(long, default_value = "best", value_parser = DeviceName::parse)]
    pub(crate) device: DeviceName,
    /// Elements by which pointers are off an aligned address (interpreter)
    #[arg(long, value_name = "ELEMENTS", default_value_t = 0)]
    pub(crate) misalign: u32,
}

/// Extents of a product.
fn extents(text: &str) -> Result<Size, String> {
    let parts: Vec<usize> = text.split('x').map(|part| size(part.trim())).collect::<Result<_, _>>()?;
    match parts.as_slice() {
        &[m, n, k] => Ok(Size::new(m, n, k)),
        _ => Err("MxNxK, such as 64x32x16".into()),
    }
}

pub(super) fn assignment(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=X, such as gamma=0.5")?;
    let value = value.trim().parse().map_err(|_| format!("`{}` is not a number", value.trim()))?;
    Ok((name.trim().to_string(), value))
}
