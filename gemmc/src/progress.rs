//! The progress of a long command, on standard error and only if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::reply::Format;

/// A bar of `steps`, with its percentage and the current activity.
pub(crate) fn bar(steps: usize, format: Format) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {pos}/{len} {msg}");
    let bar = ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    // indicatif draws on standard error, and draws nothing if that is not a terminal.
    if format == Format::Json {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}
