//! What a command answers, as text or as one JSON object, and with which exit status.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use ptx_gemm::{Diagnostic, Diagnostics, Error};
use ptx_gemm_check::CheckError;
use serde_json::{Value, json};

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// The exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Fine,
    /// The user's error.
    Refused,
    /// A wrong result or a violation.
    Wrong,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Fine => 0,
            Status::Refused => 1,
            Status::Wrong => 2,
        })
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) json: Value,
    pub(crate) status: Status,
}

impl Reply {
    pub(crate) fn fine(text: String, json: Value) -> Reply {
        Reply { text, json, status: Status::Fine }
    }

    pub(crate) fn print(&self, format: Format) -> Status {
        match format {
            Format::Text => print(&self.text),
            Format::Json => print(&line(&self.json)),
        };
        self.status
    }
}

/// No answer, and why.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// What the language has to say about the schedule.
    Schedule(Diagnostics),
    /// Anything else.
    Other { clause: &'static str, message: String, help: Option<String>, status: Status },
}

impl Failure {
    /// Something that the user can change.
    pub(crate) fn refused(clause: &'static str, message: impl Into<String>) -> Failure {
        Failure::Other { clause, message: message.into(), help: None, status: Status::Refused }
    }

    /// What clap refuses.
    pub(crate) fn usage(error: &clap::Error) -> Failure {
        let text = error.to_string();
        let text = text.trim_end();
        // clap sets off the usage line and what it suggests with blank lines.
        let (message, help) = text.split_once("\n\n").unwrap_or((text, ""));
        let message = message.strip_prefix("error: ").unwrap_or(message).to_string();
        let help = Some(help.trim().to_string()).filter(|help| !help.is_empty());
        Failure::Other { clause: "usage", message, help, status: Status::Refused }
    }

    pub(crate) fn print(&self, format: Format) -> Status {
        match format {
            Format::Json => {
                print(&line(&json!({ "errors": self.errors() })));
            }
            Format::Text => complain(&self.text()),
        }
        match self {
            Failure::Schedule(_) => Status::Refused,
            Failure::Other { status, .. } => *status,
        }
    }

    fn errors(&self) -> Vec<Value> {
        match self {
            Failure::Schedule(diagnostics) => diagnostics.errors().map(diagnostic).collect(),
            Failure::Other { clause, message, help, .. } => {
                vec![json!({ "clause": clause, "message": message, "help": help, "span": null })]
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Failure::Schedule(diagnostics) if io::stderr().is_terminal() => diagnostics.styled(),
            Failure::Schedule(diagnostics) => diagnostics.to_string(),
            Failure::Other { message, help: None, .. } => format!("error: {message}\n"),
            Failure::Other { message, help: Some(help), .. } => format!("error: {message}\n\n{help}\n"),
        }
    }
}

/// A diagnostic as the object that tools read.
pub(crate) fn diagnostic(diagnostic: &Diagnostic) -> Value {
    json!({
        "clause": diagnostic.clause,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "span": diagnostic.span,
    })
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Failure {
        Failure::Schedule(diagnostics)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (clause, status) = match &error {
            Error::Schedule(diagnostics) => return Failure::Schedule(diagnostics.clone()),
            Error::Argument(_) => ("argument", Status::Refused),
            Error::Device(_) => ("device", Status::Refused),
            Error::Compiler(_) => ("compiler", Status::Wrong),
            _ if error.is_violation() => ("kernel", Status::Wrong),
            _ => ("run", Status::Refused),
        };
        Failure::Other { clause, message: error.to_string(), help: None, status }
    }
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Failure {
        match error {
            CheckError::Runtime(error) => error.into(),
            error => Failure::refused("argument", error.to_string()),
        }
    }
}

fn line(json: &Value) -> String {
    format!("{json}\n")
}

/// Writes to standard output. A reader that has gone away has seen what it wanted.
pub(crate) fn print(text: &str) -> Status {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("error: standard output: {error}\n"));
            Status::Refused
        }
        _ => Status::Fine,
    }
}

/// Writes to standard error; if that is closed there is no one left to tell.
pub(crate) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
