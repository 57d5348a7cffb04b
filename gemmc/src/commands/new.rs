//! `gemmc new NAME`: a crate with a schedule, a program that runs it, and tests of each kind.

use std::path::{Path, PathBuf};
use std::{env, fs};

use ptx_gemm::Gemm;
use ptx_gemm_check::abridge;
use serde_json::json;

use crate::cli::New;
use crate::reply::{Failure, Reply, Status};

/// The folder of the workspace that this program was built from; it may be gone by now.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const LOCK: &str = "Cargo.lock";

/// Part of the manifest of a crate that is inside another project.
const WORKSPACE: &str = "\n# It is inside another project, and not a member of that workspace.\n[workspace]\n";

/// The initial schedule of the crate.
const CLAUSES: &str = include_str!("new/kernel.gemm");

/// The files of the crate: path, and text with its `{{…}}` to be filled in.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("new/Cargo.toml.in")),
    (".gitignore", "/target\n*.snap.new\n*.pending-snap\n"),
    ("README.md", include_str!("new/README.md.in")),
    ("src/lib.rs", include_str!("new/lib.rs.in")),
    ("src/main.rs", include_str!("new/main.rs.in")),
    ("tests/kernels.rs", include_str!("new/kernels.rs.in")),
    ("tests/snapshots/kernels__the_ptx_is_as_it_was.snap", "---\nsource: tests/kernels.rs\n---\n{{snapshot}}"),
];

pub(crate) fn run(args: &New) -> Result<Reply, Failure> {
    let name = name(&args.folder)?;
    let here = env::current_dir().unwrap_or_default();
    let checkout = match (&args.path, args.registry) {
        (Some(path), _) => Some(checked(path)?),
        (None, true) => None,
        (None, false) => Some(found(Path::new(BUILT_FROM), &here).ok_or_else(no_checkout)?),
    };
    let source = match &checkout {
        None => format!("version = \"{}\"", release()),
        Some(checkout) => format!("path = {:?}", checkout.to_string_lossy()),
    };
    if args.folder.exists() {
        return Err(Failure::refused("usage", format!("{} is there already", args.folder.display())));
    }
    // cargo refuses a crate inside a workspace that does not have it as a member.
    let inside = here.join(&args.folder).ancestors().skip(1).any(|folder| folder.join("Cargo.toml").exists());
    let workspace = if inside { WORKSPACE } else { "" };
    let kernel: Gemm = CLAUSES.parse()?;
    let ptx = kernel.ptx(None)?;
    let indented: String = CLAUSES.lines().map(|line| format!("        {line}\n")).collect();
    let values = [
        ("{{name}}", name.to_string()),
        ("{{crate}}", name.replace('-', "_")),
        ("{{source}}", source),
        ("{{workspace}}", workspace.to_string()),
        ("{{clauses}}", indented.trim_end().to_string()),
        ("{{snapshot}}", abridge(&ptx)),
    ];
    for (path, text) in FILES {
        let text = values.iter().fold(text.to_string(), |text, (hole, value)| text.replace(hole, value));
        write(&args.folder.join(path), &text)?;
    }
    let mut files: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
    // The versions that the checkout was tested with; once it was built, they are available without a network.
    if let Some(lock) = checkout.as_ref().and_then(|checkout| fs::read_to_string(checkout.join(LOCK)).ok()) {
        write(&args.folder.join(LOCK), &lock)?;
        files.push(LOCK);
    }
    let dependency = checkout.as_ref().map_or_else(
        || format!("ptx-gemm {} on crates.io", release()),
        |checkout| format!("the checkout of ptx-gemm in {}", checkout.display()),
    );
    let text = format!(
        "{} is a crate with a schedule, a program and tests. It depends on {dependency}.\n\n    cd {}\n    cargo run\n    \
         cargo test\n\n`cargo insta review` accepts a changed snapshot (cargo install cargo-insta).\n",
        name,
        args.folder.display()
    );
    Ok(Reply::fine(text, json!({ "name": name, "folder": args.folder, "path": checkout, "files": files })))
}

/// The checkout to depend on: the one that this program was built from, with the same kernels, or else one around the current
/// folder.
fn found(built_from: &Path, here: &Path) -> Option<PathBuf> {
    [built_from].into_iter().chain(here.ancestors()).find_map(|folder| checked(folder).ok())
}

fn no_checkout() -> Failure {
    Failure::Other {
        clause: "usage",
        message: "no checkout of ptx-gemm is found, which the crate is to depend on: gemmc was not built from one that is still \
                  there, and the current folder is not in one"
            .into(),
        help: Some("name it with --path DIR; --registry depends on crates.io instead, once ptx-gemm is published".into()),
        status: Status::Refused,
    }
}

/// The name of the crate; cargo and rustc have to accept it.
fn name(folder: &Path) -> Result<&str, Failure> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !letters || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let message = format!("`{name}` is not a name for a crate: letters, digits, `-` and `_`, a letter first");
        return Err(Failure::refused("usage", message));
    }
    // Names that such a crate cannot have: that of its dependency, those of Rust's own crates, and keywords.
    const TAKEN: [&str; 7] = ["ptx-gemm", "ptx_gemm", "test", "core", "std", "alloc", "proc-macro"];
    if TAKEN.contains(&name) || syn::parse_str::<syn::Ident>(&name.replace('-', "_")).is_err() {
        return Err(Failure::refused("usage", format!("`{name}` is taken: by Rust, or by this project")));
    }
    Ok(name)
}

/// The version of this program as a requirement: versions with the same first non-zero number are compatible.
fn release() -> &'static str {
    let (major_minor, _patch) = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap_or_default();
    major_minor
}

/// The folder of a checkout, as a path that does not depend on where cargo runs.
fn checked(checkout: &Path) -> Result<PathBuf, Failure> {
    let manifest = fs::read_to_string(checkout.join("Cargo.toml")).unwrap_or_default();
    if !manifest.lines().any(|line| line == "name = \"ptx-gemm\"") {
        let message =
            format!("{} is not a checkout of ptx-gemm: no Cargo.toml there has that name", checkout.display());
        return Err(Failure::refused("usage", message));
    }
    fs::canonicalize(checkout).map_err(|error| Failure::refused("usage", format!("{}: {error}", checkout.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|error| Failure::refused("usage", format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{BUILT_FROM, checked, found};

    #[test]
    fn a_checkout_is_found_where_it_was_built_or_around_the_current_folder() {
        let own = checked(BUILT_FROM.as_ref()).expect("the tests run in a checkout");
        let home = tempfile::tempdir().expect("a folder");
        let other = home.path().join("other");
        fs::create_dir_all(other.join("deep/in/it")).expect("folders");
        fs::write(other.join("Cargo.toml"), "[package]\nname = \"ptx-gemm\"\n").expect("written");
        let other = fs::canonicalize(other).expect("it is there");
        let gone = home.path().join("gone");
        assert_eq!(found(BUILT_FROM.as_ref(), &other), Some(own));
        assert_eq!(found(&gone, &other.join("deep/in/it")), Some(other));
        assert_eq!(found(&gone, home.path()), None);
    }
}
