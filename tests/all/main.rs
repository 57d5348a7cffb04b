//! The tests that cross crates, in one binary.

mod assemble;
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

/// Snapshots are in one folder, named as the tests name them.
fn snapshots() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}
