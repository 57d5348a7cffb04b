//! The tests that cross crates, in one binary.

mod assemble;
mod auto;
mod builder;
mod conformance;
mod contracts;
mod cost;
mod documents;
mod emulate;
mod execution;
mod faults;
mod fixes;
mod fragments;
mod functions;
mod instruction_maps;
mod levels;
mod macros;
mod mutilated;
mod narrow;
mod net;
mod nvrtc;
mod random;
mod special;
mod strassen;
mod testing;
mod tidy;
mod tile_rules;
mod tile_text;
mod ui;

use std::collections::BTreeSet;

use ptx_gemm_check::part::Part;

/// Snapshots are in one folder, named as the tests name them.
fn snapshots() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// Lines of a snapshot that a run makes in part: those of a part are in it, and all of them are the snapshot.
fn lines_are_in(snapshot: &str, part: Part, lines: &[String]) {
    assert!(!lines.is_empty(), "{snapshot}: no line");
    if part == Part::All {
        return snapshots().bind(|| insta::assert_snapshot!(snapshot, lines.join("\n")));
    }
    let stored = format!("{}/snapshots/{snapshot}.snap", env!("CARGO_MANIFEST_DIR"));
    let stored = std::fs::read_to_string(&stored).unwrap_or_else(|e| panic!("{stored}: {e}"));
    let known: BTreeSet<&str> = stored.lines().map(str::trim_end).collect();
    let changed: Vec<&String> = lines.iter().filter(|line| !known.contains(line.trim_end())).collect();
    assert!(changed.is_empty(), "not in the snapshot {snapshot}, which PTX_GEMM_PART=all rewrites:\n{changed:#?}");
}
