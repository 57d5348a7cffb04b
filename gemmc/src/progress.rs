//! The progress of a long command, on standard error and only if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::reply::Format;

/// A bar of `steps`, with its percentage and the current activity.
pub(crate) fn bar(steps: usize, format: Format) -> ProgressBar {
    // indicatif draws on standard error, and draws nothing if that is not a terminal.
    let target = if format == Format::Json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    bar_on(target, steps)
}

/// A line on standard error, above the bar if there is one.
pub(crate) fn note(bar: &ProgressBar, line: String) {
    match bar.is_hidden() {
        true => eprintln!("{line}"),
        false => bar.println(line),
    }
}

fn bar_on(target: ProgressDrawTarget, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {pos}/{len}, {eta} left {msg}");
    ProgressBar::with_draw_target(Some(steps as u64), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::bar_on;

    /// A terminal that remembers what is written.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_says_the_percentage() {
        let screen = Screen::default();
        let bar = bar_on(ProgressDrawTarget::term_like(Box::new(screen.clone())), 8);
        bar.set_message("vectorized");
        bar.set_position(2);
        bar.tick();
        let shown = screen.0.lock().unwrap().clone();
        assert!(shown.contains(" 25 % 2/8") && shown.contains("vectorized"), "{shown:?}");
    }

    fn rust_files(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rust_files(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all.push(path);
            }
        }
    }

    /// The bars of commands are made here, and those of the examples show a percentage, too.
    #[test]
    fn no_bar_is_without_a_percentage() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        rust_files(&here.join("src"), &mut files);
        rust_files(&here.join("../examples"), &mut files);
        for path in files.iter().filter(|path| !path.ends_with("progress.rs")) {
            let text = fs::read_to_string(path).unwrap();
            let made =
                text.lines().filter(|line| line.contains("ProgressBar::new(") || line.contains("with_template("));
            let bare: Vec<&str> = made.filter(|line| !line.contains("{percent")).collect();
            assert!(bare.is_empty(), "{}: {bare:?}", path.display());
        }
    }
}
