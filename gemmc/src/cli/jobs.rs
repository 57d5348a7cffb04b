//! The commands by the job that they do, as `gemmc help` lists them.

use std::fmt::Write;

use clap::Command;

/// Each job, and its commands.
const JOBS: &[(&str, &[&str])] = &[
    ("Write", &["pick", "new", "check", "fmt", "explain", "cases"]),
    ("Look", &["plan", "ir", "ptx", "profile", "diff", "ablate", "draw", "ladder"]),
    ("Run", &["run", "large"]),
    ("Measure", &["bench", "sweep", "tune", "lock", "calibrate"]),
    ("Check PTX of your own", &["exec", "judge", "second-opinion"]),
    ("Check this machine and this compiler", &["doctor", "selftest", "fuzz", "mutants"]),
    ("Set up", &["completions", "man", "help"]),
];

/// Lists the commands by job instead of one after the other.
pub(super) fn grouped(command: Command) -> Command {
    let about = |name: &str| {
        let found = command.get_subcommands().find(|found| found.get_name() == name);
        found.and_then(Command::get_about).map(|about| about.to_string().trim_end_matches('.').to_owned())
    };
    let mut text = String::new();
    for (job, names) in JOBS {
        // A write to a `String` does not fail.
        let _ = write!(text, "\n{job}:\n");
        for name in *names {
            let about = about(name).unwrap_or_else(|| "This text, or that of a command".into());
            let _ = writeln!(text, "  {name:14} {about}");
        }
    }
    command
        .help_template("{about-with-newline}\n{usage-heading} {usage}\n{after-help}\n\nOptions:\n{options}")
        .after_help(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::JOBS;

    #[test]
    fn every_command_has_one_job() {
        let command = crate::cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(clap::Command::get_name).chain(["help"]).collect();
        let listed: Vec<&str> = JOBS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(listed.len(), shown.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), shown);
    }
}
