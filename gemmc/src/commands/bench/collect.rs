//! `gemmc bench --table FILE --rows FILE`: adds the rows of a file of results to the file of all rows.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ptx_gemm_bench::rows::Rows;
use serde_json::Value;

use crate::reply::Failure;
use crate::source::{self, unusable};

/// Adds the rows of a file of results to a file of all rows, which may be new.
pub(super) fn collect(rows: &Path, path: &Path, results: &Value) -> Result<(), Failure> {
    let refused = |path: &Path, why: String| Failure::refused("file", format!("{}: {why}", path.display()));
    let mut all = match fs::read_to_string(rows) {
        Ok(text) => Rows::read(&text).map_err(|why| refused(rows, why))?,
        Err(error) if error.kind() == ErrorKind::NotFound => Rows::default(),
        Err(error) => return Err(unusable(rows, error)),
    };
    // The folder and the stem of the file.
    let parts: Vec<&OsStr> = path.iter().rev().take(2).collect();
    let name = parts.into_iter().rev().collect::<PathBuf>().with_extension("");
    all.add(&name.display().to_string(), results).map_err(|why| refused(path, why))?;
    source::write(rows, all.text())
}
