//! `gemmc draw`: files, what is rejected, and the plots of `bench` and `ladder`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn gemmc(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).current_dir(folder).args(args).output().expect("gemmc starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fine(folder: &Path, args: &[&str]) -> String {
    let output = gemmc(folder, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(folder: &Path, args: &[&str]) -> String {
    let output = gemmc(folder, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn a_page_as_svg_and_as_png() {
    let folder = tempfile::tempdir().unwrap();
    let said = fine(folder.path(), &["draw", "vectorized", "-o", "page.svg"]);
    let (wrote, left_out) = said.split_once('\n').unwrap();
    assert_eq!(wrote, "wrote page.svg: threads, shared, pipeline, raster, roofline");
    assert!(left_out.starts_with("left out: fragments: threads multiply by themselves"), "{left_out}");
    let svg = std::fs::read_to_string(folder.path().join("page.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("prefers-color-scheme"));
    let clauses = "tile(32, 32, 8); thread(2, 2);";
    for scheme in ["light", "dark"] {
        let args = ["draw", "-e", clauses, "-o", "page.png", "--scheme", scheme, "--what", "threads", "--zoom", "1"];
        if cfg!(not(feature = "png")) {
            assert!(refused(folder.path(), &args).contains("build it with `--features png`"));
            continue;
        }
        fine(folder.path(), &args);
        let png = std::fs::read(folder.path().join("page.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
        // The width in the header.
        assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 1200);
    }
}

/// Without a GPU or a target, commands agree on what they compile for; with a GPU, it is the GPU's.
#[test]
fn one_rule_for_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let target = |args: &[&str], at: &str| {
        let json: serde_json::Value =
            serde_json::from_str(&fine(folder.path(), &[args, &["--json"]].concat())).unwrap();
        json.pointer(at).and_then(|found| found.as_str()).map_or_else(|| panic!("{args:?}: {json}"), str::to_string)
    };
    // Its asynchronous copies rule sm_75 out.
    let staged = "tile(64, 64, 8); thread(4, 4); vector(4); stages(3); load(cp_async);";
    let draw = ["draw", "-e", staged, "-o", "page.svg", "--what", "raster"];
    let named = format!("{staged} target(sm_86);");
    for (args, at) in [
        (vec!["ptx", "-e", staged], "/target"),
        (vec!["plan", "-e", staged], "/target"),
        (vec!["profile", "-e", staged, "--wait", "0"], "/target"),
        (vec!["ablate", "-e", staged, "--wait", "0"], "/target"),
        (draw.to_vec(), "/target"),
    ] {
        assert_eq!(target(&args, at), "sm_80", "{args:?}");
    }
    let page = std::fs::read_to_string(folder.path().join("page.svg")).unwrap();
    assert!(page.contains("at least ") && page.contains("NVIDIA H200"), "what sm_80 leaves to an H200");
    assert_eq!(target(&[&draw[..], &["--gpu", "h200"]].concat(), "/target"), "sm_90");
    let page = std::fs::read_to_string(folder.path().join("page.svg")).unwrap();
    assert!(!page.contains("at least "), "compiled for that GPU");
    assert_eq!(target(&["draw", "-e", &named, "-o", "page.svg", "--gpu", "h200"], "/target"), "sm_86");
    assert_eq!(target(&[&draw[..], &["--gpu", "h200", "--target", "sm_89"]].concat(), "/target"), "sm_89");
    for command in ["ptx", "plan", "profile", "diff", "ablate", "draw", "run", "sweep", "ladder"] {
        let help = fine(folder.path(), &[command, "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("else the newest that the GPU runs, if one is given; else the first"), "{help}");
    }
}

#[test]
fn a_tile_program_and_what_it_has_no_data_for() {
    let folder = tempfile::tempdir().unwrap();
    let tile = root().join("examples/tile/two_sums.tile");
    let said = fine(folder.path(), &["draw", &tile.to_string_lossy(), "-o", "two.svg", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["ok"], json["shown"].as_array().map(Vec::len)), (&true.into(), Some(5)));
    let said = fine(folder.path(), &["draw", "naive", "-o", "naive.svg"]);
    assert!(said.contains("left out: shared: nothing is staged") && said.contains("left out: pipeline: "), "{said}");
    let why = refused(folder.path(), &["draw", "naive", "-o", "none.svg", "--what", "shared"]);
    assert!(why.contains("nothing is staged in shared memory"), "{why}");
    assert!(!folder.path().join("none.svg").exists());
}

#[test]
fn what_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (args, wanted) in [
        (vec!["draw", "naive", "-o", "page.gif"], "pictures are SVG or PNG: write page.svg"),
        (vec!["draw", "naive", "-o", "page.png", "--scheme", "auto"], "a PNG has one scheme"),
        (vec!["draw", "naive", "-o", "no/such/folder.svg"], "no/such/folder.svg"),
        (vec!["draw", "naive", "-o", "page.svg", "--gpu", "voodoo"], "one of h200, h100"),
        (vec!["draw", "nn_128x128", "-o", "page.svg", "--gpu", "t4"], "NVIDIA T4 does not run code for sm_90"),
        (vec!["draw", "-e", "tile(0, 1, 1);", "-o", "page.svg"], "tile"),
        (vec!["draw", "naive", "-o", "page.svg", "--results", "none.json"], "none.json"),
    ] {
        let why = refused(folder.path(), &args);
        assert!(why.contains(wanted), "{args:?}: {why}");
    }
}

#[test]
fn a_measured_speed_from_a_file_of_results() {
    let folder = tempfile::tempdir().unwrap();
    let results = root().join("bench/results/h200/ladder.json");
    let results = results.to_string_lossy();
    let draw = |case: &str, gpu: &str| {
        let args = ["draw", case, "-o", "roof.svg", "--what", "roofline", "--results", &results, "--gpu", gpu];
        gemmc(folder.path(), &args)
    };
    assert!(draw("vectorized", "h200").status.success());
    let svg = std::fs::read_to_string(folder.path().join("roof.svg")).unwrap();
    assert!(svg.contains("Measured at 4096 × 4096 × 4096"), "{svg}");
    let elsewhere = text(&draw("vectorized", "a100").stderr);
    assert!(elsewhere.contains("results of NVIDIA H200") && elsewhere.contains("--gpu"), "{elsewhere}");
}

/// The plots next to the results are of these results, and each is on a page.
#[test]
fn the_plots_of_the_results_are_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let pages = ["README.md", "docs/performance.md", "docs/tutorial.md", "docs/language.md"];
    let pages = pages.map(|page| read(&root().join(page))).concat();
    let paths = std::fs::read_dir(root().join("bench/results")).unwrap().map(|entry| entry.unwrap().path());
    let inside = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let plots = paths.filter(|path| path.is_dir()).flat_map(inside);
    let mut count = 0;
    for plot in plots.filter(|path| path.extension().is_some_and(|extension| extension == "svg")) {
        let name = plot.strip_prefix(root()).unwrap().display().to_string();
        assert!(pages.contains(&format!("{name})")), "no page shows {name}");
        let json = plot.with_extension("json");
        let (results, new) = (json.to_string_lossy(), folder.path().join("plot.svg"));
        match plot.parent().and_then(Path::file_name).and_then(std::ffi::OsStr::to_str) {
            // Drawn by `examples/accuracy.rs`, which computes the figures.
            Some("accuracy" | "interpreter") => continue,
            Some("cpu") => fine(folder.path(), &["ladder", "--cpu", "--table", &results, "--plot", "plot.svg"]),
            _ => fine(folder.path(), &["bench", "--table", &results, "--plot", "plot.svg"]),
        };
        assert_eq!(read(&new), read(&plot), "{name}: gemmc bench --table F.json --plot F.svg");
        count += 1;
    }
    assert!(count > 5, "{count}");
}
