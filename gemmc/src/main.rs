//! `gemmc`: check, compile, run and explain schedules from the command line.
//!
//! Exit status: 0 fine; 1 the user's error (wrong schedule, wrong usage, refused, not implemented yet); 2 a wrong result or
//! a violation; 3 a comparison that compared nothing, so that the result may be right or wrong. With `--json` standard output holds one object and nothing else, whatever happens; its `ok` is true if the
//! status is 0. An answer that cannot be written is status 1.

mod cli;
mod commands;
mod interrupt;
mod progress;
mod reply;
mod source;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{FromArgMatches, ValueEnum};

use crate::cli::{Cli, Command};
use crate::reply::{Failure, Format, Reply};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // Also needed for clap's errors, and therefore before it.
    let format = if args.iter().any(|arg| arg == "--json") { Format::Json } else { Format::Text };
    colors(&args);
    let parsed = numbers_may_be_negative(cli::command()).try_get_matches_from(&args);
    let outcome = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => dispatch(&cli.command, format),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                return reply::print(&error.render().ansi().to_string()).into();
            }
            // `gemmc` without arguments prints the help.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if format == Format::Text => {
                return reply::print(&error.render().ansi().to_string()).into();
            }
            _ => Err(Failure::usage(&error)),
        },
    };
    match outcome {
        Ok(reply) => reply.print(format).into(),
        Err(failure) => failure.print(format).into(),
    }
}

/// `-m -1` is a wrong number for `-m`, and not an unknown argument `-1`.
fn numbers_may_be_negative(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values();
    let command = command.mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg });
    command.mut_subcommands(numbers_may_be_negative)
}

/// Colours also apply to clap's errors, so this is decided before parsing.
fn colors(args: &[OsString]) {
    let args = args.iter().map(|arg| arg.to_string_lossy());
    let next = args.clone().skip(1).map(Some).chain([None]);
    for (arg, next) in args.zip(next) {
        let value = arg.strip_prefix("--color=").map(str::to_string);
        let value = value.or_else(|| next.filter(|_| arg == "--color").map(|next| next.into_owned()));
        let choice = value.and_then(|value| clap::ColorChoice::from_str(&value, true).ok());
        if let Some(choice) = choice {
            colorchoice_clap::Color { color: choice }.write_global();
        }
    }
}

fn dispatch(command: &Command, format: Format) -> Result<Reply, Failure> {
    match command {
        Command::Check(args) => commands::check::run(args, format),
        Command::Fmt(args) => commands::fmt::run(args),
        Command::Explain(args) => commands::explain::run(args),
        Command::Plan(args) => commands::plan::run(args),
        Command::Ir(args) => commands::ir::run(args),
        Command::Draw(args) => commands::draw::run(args),
        Command::Ptx(args) => commands::ptx::run(args, format),
        Command::Profile(args) => commands::profile::run(args),
        Command::Diff(args) => commands::diff::run(args, format),
        Command::Ablate(args) => commands::ablate::run(args),
        Command::Run(args) => commands::run::run(args, format),
        Command::Mutants(args) => commands::mutants::run(args, format),
        Command::New(args) => commands::new::run(args),
        Command::Exec(args) => commands::exec::run(args),
        Command::Judge(args) => commands::judge::run(args, format),
        Command::JudgeWorker(args) => commands::judge::work(args),
        Command::Cases(_) => commands::cases::run(),
        Command::Ladder(args) => commands::ladder::run(args, format),
        Command::Bench(args) => commands::bench::run(args, format),
        Command::Selftest(args) if args.sanitize => commands::sanitize::run(args),
        Command::Selftest(args) => commands::selftest::run(args, format),
        Command::Fuzz(args) => commands::fuzz::run(args, format),
        Command::FirstLaunch(args) => commands::first_launch::run(args),
        Command::StrayPointer(args) => commands::stray_pointer::run(args),
        Command::SecondOpinion(args) => commands::second_opinion::run(args),
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::completions::man(args),
        Command::Pick(args) => commands::pick::run(args, format),
        Command::Tune(args) => commands::tune::run(args, format),
        Command::Lock(args) => commands::lock::run(args),
        Command::Calibrate(args) => commands::calibrate::run(args),
        Command::Sweep(args) => commands::sweep::run(args, format),
        Command::SweepWorker(args) => commands::sweep::work(args),
        Command::Large(args) => commands::large::run(args, format),
        Command::Doctor(_) => Ok(commands::doctor::run()),
    }
}
