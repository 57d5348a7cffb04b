//! How far a long command is: on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::reply::Format;

/// A bar of `steps`, with its share in percent and what is being done.
pub(crate) fn bar(steps: usize, format: Format) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {pos}/{len} {msg}");
    let bar = ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    // indicatif draws on standard error, and nothing where that is no terminal.
    if format == Format::Json {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}
