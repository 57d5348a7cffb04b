//! Rules about the sources themselves, read from the manifests and from the tokens of every file, so that they keep
//! holding. Each rule reports everything that breaks it.

mod cycles;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The largest number of lines of a file, and the number from which on a file is reported as long.
const MOST_LINES: usize = 600;
const MANY_LINES: usize = 400;

/// Most bytes of all snapshots together: nobody reviews more than this.
const MOST_SNAPSHOT_BYTES: u64 = 2_600_000;
/// Most bytes and files of what was measured, and of what long runs found: whoever clones the project gets all of them.
const MOST_RESULT_BYTES: u64 = 2_000_000;
const MOST_RESULTS: usize = 150;
/// Most bytes of the page of measurements, and lines of ARCHITECTURE.md.
const MOST_PERFORMANCE_BYTES: u64 = 60_000;
const MOST_ARCHITECTURE_LINES: usize = 330;
const MOST_README_LINES: usize = 170;
/// The most times that prose may use two turns of phrase that a reader stumbles over, in code and documents together.
const STUMBLES: [&str; 2] = ["whose", " is no "];
const MOST_STUMBLES: usize = 160;

/// The crates of the workspace that each crate may depend on: all arrows, no more and no less.
const ARROWS: [(&str, &[&str]); 15] = [
    ("gemm-dsl", &[]),
    ("gemm-choose", &["gemm-dsl"]),
    ("gemm-macros", &["gemm-choose", "gemm-dsl"]),
    ("ptx", &[]),
    ("codegen-ptx", &["gemm-dsl", "ptx"]),
    ("ptx-interp", &["ptx"]),
    ("runtime", &["codegen-ptx", "gemm-dsl", "ptx", "ptx-interp"]),
    ("gemm-check", &["gemm-dsl", "runtime"]),
    ("", &["codegen-ptx", "gemm-check", "gemm-choose", "gemm-dsl", "gemm-macros", "ptx", "ptx-interp", "runtime"]),
    ("gemm-draw", &["gemm-check", "gemm-choose", "gemm-dsl", "runtime"]),
    ("gemm-bench", &["", "gemm-check", "gemm-choose", "gemm-draw", "gemm-dsl"]),
    ("gemmc", &["", "gemm-bench", "gemm-check", "gemm-choose", "gemm-draw", "gemm-dsl", "ptx"]),
    ("examples", &[]),
    ("tests", &[]),
    ("fuzz", &["codegen-ptx", "gemm-check", "gemm-dsl"]),
];

/// Opcodes of PTX, and its special registers, to search strings for.
const OPCODES: &str = "abs activemask add and atom bar barrier bfe bfi bra brev clz cos cp cvt cvta discard div elect ex2 \
    fence fma isspacep ld ldmatrix ldu lg2 lop3 mad madc mapa max mbarrier membar min mma mov movmatrix mul multimem neg not \
    or popc prefetch prmt rcp red redux rem rsqrt selp setmaxnreg setp shf shfl shl shr sin sqrt st stmatrix sub tanh testp \
    vote wgmma xor";
const REGISTERS: [&str; 6] = ["%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid"];
/// Words that may follow an opcode as its first modifier; anything else is a sentence's end, a method or a file name.
const MODIFIERS: &str = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 bf16 bf16x2 pred rn rz rm rp approx \
    full lo hi wide sync async global shared local param const generic volatile relaxed acquire release acq_rel sc gpu cta \
    sys uni warp to lt le gt ge eq ne idx bfly up down all any ballot aligned init arrive inval try_wait test_wait complete_tx \
    expect_tx proxy mma_async commit_group wait_group tensormap gl cluster weak nc";
/// Directives of a module.
const DIRECTIVES: [&str; 10] =
    [".version", ".target", ".address_size", ".visible", ".entry", ".extern", ".reg", ".param", ".reqntid", ".maxntid"];

/// The interpreter's decoder, which names what it decodes.
const DECODER: &str = "ptx-interp/src/decode";
/// Places where `unsafe` is justified: calls of the driver, functions that take device pointers, and programs that
/// launch by hand; the one function of a BLAS that the CPU's ladder compares with; a test that maps files into memory.
const UNSAFE: [&str; 11] = [
    "runtime/src/cuda/",
    "runtime/src/compiled.rs",
    "runtime/src/experts.rs",
    "runtime/src/group.rs",
    "runtime/src/prepared.rs",
    "runtime/tests/group.rs",
    "runtime/tests/launch.rs",
    "runtime/tests/mapped.rs",
    "examples/ptx_only.rs",
    "gemmc/src/commands/stray_pointer.rs",
    "gemm-bench/src/cpu/openblas.rs",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// A source file: its path from the root, with forward slashes, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        ["tests/", "benches/", "examples/"]
            .iter()
            .any(|folder| self.path.starts_with(folder) || self.path.contains(&format!("/{folder}")))
    }

    fn stream(&self) -> TokenStream {
        TokenStream::from_str(&self.text).unwrap_or_else(|e| panic!("{}: {e}", self.path))
    }

    /// Every token outside documentation and unit tests, with its line.
    fn tokens(&self) -> Vec<(usize, TokenTree)> {
        let mut out = Vec::new();
        flatten(without_tests(self.stream()), &mut out);
        out
    }

    fn strings(&self) -> impl Iterator<Item = (usize, String)> {
        self.tokens().into_iter().filter_map(|(line, token)| match token {
            TokenTree::Literal(literal) => Some((line, literal.to_string())).filter(|(_, text)| text.contains('"')),
            _ => None,
        })
    }
}

/// The same tokens without attributes (which include documentation), and without items under `#[cfg(test)]`.
fn without_tests(stream: TokenStream) -> Vec<TokenTree> {
    let mut out = Vec::new();
    let mut tokens = stream.into_iter().peekable();
    let mut test = false;
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == '#'
        {
            tokens.next_if(|next| matches!(next, TokenTree::Punct(bang) if bang.as_char() == '!'));
            let attribute =
                tokens.next_if(|next| matches!(next, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket));
            test |= attribute.is_some_and(|attribute| attribute.to_string().replace(' ', "") == "[cfg(test)]");
            continue;
        }
        match token {
            // An item ends with its braces, or with a semicolon.
            TokenTree::Group(group) if test && group.delimiter() == Delimiter::Brace => test = false,
            TokenTree::Punct(end) if test && end.as_char() == ';' => test = false,
            _ if test => {}
            TokenTree::Group(group) => {
                let inner = without_tests(group.stream()).into_iter().collect();
                out.push(Group::new(group.delimiter(), inner).into());
            }
            token => out.push(token),
        }
    }
    out
}

/// Every token that is not a group, with its line.
fn flatten(tokens: Vec<TokenTree>, out: &mut Vec<(usize, TokenTree)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => flatten(group.stream().into_iter().collect(), out),
            token => out.push((token.span().start().line, token)),
        }
    }
}

fn files(extension: &str) -> Vec<PathBuf> {
    let mut files = files_below(root());
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    files
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    // Files that git ignores are not sources, in an unpacked archive as well.
    let walk = ignore::WalkBuilder::new(folder).require_git(false).build();
    let mut files: Vec<PathBuf> =
        walk.flatten().map(ignore::DirEntry::into_path).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn bytes(files: &[PathBuf]) -> u64 {
    files.iter().map(|path| fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).len()).sum()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn sources() -> Vec<Source> {
    let files = files("rs");
    assert!(files.len() > 100, "only {} source files were found", files.len());
    files.into_iter().map(|path| Source { path: relative(&path), text: fs::read_to_string(&path).unwrap() }).collect()
}

#[track_caller]
fn none(rule: &str, broken: impl IntoIterator<Item = String>) {
    let broken: Vec<String> = broken.into_iter().collect();
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn every_file_says_what_it_is() {
    let opens = |source: &Source| {
        let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        // The programs that must not compile describe their error in a plain comment.
        first.starts_with("//! ") || source.path.starts_with("tests/ui/") && first.starts_with("// ")
    };
    none("these files have no module documentation", sources().iter().filter(|s| !opens(s)).map(|s| s.path.clone()));
}

#[test]
fn files_are_short() {
    let length = |source: &Source| source.text.lines().count();
    let line = |source: &Source| format!("{} {}", length(source), source.path);
    let sources = sources();
    let long: Vec<String> = sources.iter().filter(|s| length(s) > MANY_LINES).map(line).collect();
    println!("{} files have more than {MANY_LINES} lines\n{}", long.len(), long.join("\n"));
    none("these files are too long", sources.iter().filter(|s| length(s) > MOST_LINES).map(line));
}

/// The manifests by folder; the root's folder is "".
fn manifests() -> BTreeMap<String, toml::Table> {
    let manifests = files("toml").into_iter().filter(|path| path.ends_with("Cargo.toml"));
    let read = |path: PathBuf| {
        let folder = relative(&path).trim_end_matches("Cargo.toml").trim_end_matches('/').to_string();
        (folder, fs::read_to_string(&path).unwrap().parse().unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    };
    manifests.map(read).collect()
}

fn package(manifest: &toml::Table) -> &str {
    manifest["package"]["name"].as_str().unwrap()
}

/// Names in one table of dependencies, including those of single platforms.
fn dependencies<'a>(manifest: &'a toml::Table, table: &str) -> BTreeSet<&'a str> {
    let platforms = manifest
        .get("target")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flatten()
        .filter_map(|(_, of)| of.get(table));
    let tables = manifest.get(table).into_iter().chain(platforms);
    tables.filter_map(toml::Value::as_table).flat_map(|table| table.keys().map(String::as_str)).collect()
}

#[test]
fn crates_know_each_other_in_one_direction() {
    let manifests = manifests();
    let names: BTreeMap<&str, &str> =
        manifests.iter().map(|(folder, manifest)| (package(manifest), folder.as_str())).collect();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut wrong = Vec::new();
    for (folder, manifest) in &manifests {
        let found: BTreeSet<&str> =
            dependencies(manifest, "dependencies").iter().filter_map(|name| names.get(name).copied()).collect();
        match allowed.get(folder.as_str()) {
            Some(arrows) if found == arrows.iter().copied().collect() => {}
            arrows => wrong.push(format!("`{folder}` depends on {found:?}, but the rule says {arrows:?}")),
        }
        // Some examples are programs that use cudarc themselves.
        let tables = ["dependencies", "build-dependencies", "dev-dependencies"];
        let mut every = tables.into_iter().filter(|table| folder != "examples" || *table != "dev-dependencies");
        if folder != "runtime" && every.any(|table| dependencies(manifest, table).contains("cudarc")) {
            wrong.push(format!("`{folder}` depends on cudarc, which belongs to runtime alone"));
        }
    }
    assert_eq!(manifests.len(), ARROWS.len());
    none("arrows between crates", wrong);
}

/// True if the text has an opcode of PTX with its first modifier, or a special register.
fn has_mnemonic(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '%';
    text.split(|c| !word(c)).any(|token| {
        let mut parts = token.split('.');
        let (stem, modifier) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let known = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
        REGISTERS.contains(&stem) || known(OPCODES, stem) && known(MODIFIERS, modifier)
    })
}

#[test]
fn what_a_mnemonic_is() {
    for text in ["ld.global.f32 %f0", "`bar.sync`", "cp.async", "a fence.proxy.async", "mov.u32 x, %tid.x"] {
        assert!(has_mnemonic(text), "{text}");
    }
    for text in ["the bar. Global", "file.rs", "add a row", "max.min", "`or`.", "%d", "ld{} = {got}"] {
        assert!(!has_mnemonic(text), "{text}");
    }
}

#[test]
fn mnemonics_belong_to_the_ptx_crate() {
    let mut broken = Vec::new();
    for source in sources() {
        if source.is_test() || source.path.starts_with("ptx/") || source.path.starts_with(DECODER) {
            continue;
        }
        let found = source.strings().filter(|(_, text)| has_mnemonic(text));
        broken.extend(found.map(|(line, text)| format!("{}:{line}: {text}", source.path)));
    }
    none("mnemonics of PTX in strings", broken);
}

#[test]
fn one_file_prints_ptx() {
    let mut broken = Vec::new();
    let mut printed = 0;
    let names = |source: &Source| DIRECTIVES.iter().any(|word| source.text.contains(&format!("{word} ")));
    for source in sources().into_iter().filter(|source| !source.is_test() && names(source)) {
        for (line, text) in source.strings() {
            let text = text.trim_start_matches('"');
            // The parser compares whole words; code that prints needs a space after them.
            let directive = DIRECTIVES.iter().any(|word| text.starts_with(&format!("{word} ")));
            if source.path == "ptx/src/print.rs" {
                printed += usize::from(directive);
            } else if directive {
                broken.push(format!("{}:{line}: \"{text}", source.path));
            }
        }
    }
    assert!(printed > 5, "the rule does not see what ptx/src/print.rs prints");
    none("PTX is printed elsewhere", broken);
}

#[test]
fn unsafe_code_is_where_it_is_expected() {
    let is_unsafe = |(_, token): &(usize, TokenTree)| matches!(token, TokenTree::Ident(ident) if ident == "unsafe");
    let places: BTreeSet<String> = sources()
        .into_iter()
        // The tokens of a text without the word are not needed.
        .filter(|source| source.text.contains("unsafe") && source.tokens().iter().any(is_unsafe))
        .map(|source| source.path)
        .collect();
    assert!(places.iter().any(|path| path.starts_with(UNSAFE[0])), "the rule does not see the calls of the driver");
    let interpreter = places.iter().filter(|path| path.starts_with("ptx-interp/src/")).count();
    assert!(interpreter <= 1, "one file of the interpreter may have unsafe code, for SIMD: {places:?}");
    let expected =
        |path: &str| UNSAFE.iter().any(|place| path.starts_with(place)) || path.starts_with("ptx-interp/src/");
    none("unsafe code outside the launch code", places.into_iter().filter(|path| !expected(path)));
}

#[test]
fn snapshots_are_few_enough_to_review() {
    let snapshots = files("snap");
    let bytes = bytes(&snapshots);
    println!("{} snapshots, {bytes} bytes", snapshots.len());
    assert!(snapshots.len() > 100, "only {} snapshots were found", snapshots.len());
    assert!(bytes <= MOST_SNAPSHOT_BYTES, "snapshots have {bytes} bytes, and the limit is {MOST_SNAPSHOT_BYTES}");
}

#[test]
fn results_are_few_and_small() {
    let results: Vec<PathBuf> =
        ["bench/results", "tests/results"].iter().flat_map(|folder| files_below(&root().join(folder))).collect();
    let (count, of_results) = (results.len(), bytes(&results));
    println!("{count} files of results, {of_results} bytes");
    assert!(count > 20, "only {count} files of results were found");
    assert!(count <= MOST_RESULTS, "{count} files of results, and the limit is {MOST_RESULTS}");
    assert!(of_results <= MOST_RESULT_BYTES, "results have {of_results} bytes, limit {MOST_RESULT_BYTES}");
    let page = bytes(&[root().join("docs/performance.md")]);
    assert!(page <= MOST_PERFORMANCE_BYTES, "docs/performance.md has {page} bytes, limit {MOST_PERFORMANCE_BYTES}");
}

#[test]
fn prose_is_plain() {
    let texts =
        files("rs").into_iter().chain(files("md")).chain(files("gemm")).filter(|path| !path.ends_with("tidy.rs"));
    let count = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a text").to_lowercase();
        STUMBLES.iter().map(|words| text.matches(words).count()).sum::<usize>()
    };
    let mut found: Vec<(usize, PathBuf)> = texts.map(|path| (count(&path), path)).collect();
    found.sort_by(|x, y| y.cmp(x));
    let all: usize = found.iter().map(|(count, _)| count).sum();
    let most: Vec<String> =
        found.iter().take(5).map(|(count, path)| format!("{count} in {}", relative(path))).collect();
    assert!(all < MOST_STUMBLES, "{STUMBLES:?}: {all} times, limit {MOST_STUMBLES}; {}", most.join(", "));
    let lines = fs::read_to_string(root().join("README.md")).expect("the README").lines().count();
    assert!(lines <= MOST_README_LINES, "README.md has {lines} lines, limit {MOST_README_LINES}");
}

#[test]
fn every_snapshot_belongs_to_a_test() {
    let owned = [crate::levels::snapshot_names(), crate::cost::snapshot_names()];
    let mut expected: BTreeSet<String> = owned.into_iter().flatten().collect();
    expected.extend([crate::net::SNAPSHOT, crate::assemble::SNAPSHOT, crate::testing::SNAPSHOT].map(str::to_string));
    let folder = root().join("tests/snapshots");
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    // Files that git ignores are snapshots that have not been reviewed yet.
    let found: BTreeSet<String> = entries.filter(|name| !name.ends_with(".snap.new")).collect();
    let expected: BTreeSet<String> = expected.into_iter().map(|name| name + ".snap").collect();
    none("no test writes these snapshots", found.difference(&expected).cloned());
    none("these snapshots are missing", expected.difference(&found).cloned());
}

#[test]
fn the_architecture_names_every_crate() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_else(|e| panic!("ARCHITECTURE.md: {e}"));
    let lines = text.lines().count();
    assert!(lines < MOST_ARCHITECTURE_LINES, "ARCHITECTURE.md has {lines} lines, limit {MOST_ARCHITECTURE_LINES}");
    let manifests = manifests();
    assert_eq!(manifests.len(), ARROWS.len());
    let folders = manifests.keys().filter(|folder| !folder.is_empty());
    none("not in ARCHITECTURE.md", folders.filter(|folder| !text.contains(&format!("`{folder}"))).cloned());
}
