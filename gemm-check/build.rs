//! Embeds `cases/*.gemm`, so that a new case needs only a new file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=cases");
    let path = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("cases");
    let mut files: Vec<PathBuf> = fs::read_dir(&path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "gemm"));
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(table, "    ({stem:?}, include_str!({:?})),", file.to_string_lossy());
    }
    table.push(']');
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("cases.rs"), table)
}
