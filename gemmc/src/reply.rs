//! The answer of a command, as text or as one JSON object, and its exit status.

use std::io::{self, Write};
use std::process::ExitCode;

use ptx_gemm::distributed::DistributedError;
use ptx_gemm::large::{Incomplete, LargeError, Region};
use ptx_gemm::{Contract, Diagnostic, Diagnostics, Error, TextError, TextErrors};
use ptx_gemm_check::{CheckError, Verdict};
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
    /// A requested comparison compared nothing.
    Uncompared,
}

impl From<Verdict> for Status {
    fn from(verdict: Verdict) -> Status {
        match verdict {
            Verdict::Right | Verdict::Empty => Status::Fine,
            Verdict::Wrong => Status::Wrong,
            Verdict::Uncompared => Status::Uncompared,
        }
    }
}

impl Status {
    /// The more serious of two: a wrong result, then a rejection, then an empty comparison.
    pub(crate) fn worse(self, other: Status) -> Status {
        let rank = |status| match status {
            Status::Fine => 0,
            Status::Uncompared => 1,
            Status::Refused => 2,
            Status::Wrong => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Fine => 0,
            Status::Refused => 1,
            Status::Wrong => 2,
            Status::Uncompared => 3,
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
        let written = match format {
            Format::Text => print(&self.text),
            Format::Json => print(&line(&self.object())),
        };
        // An answer that could not be written is a failure; a wrong result stays a wrong result.
        if self.status == Status::Fine { written } else { self.status }
    }

    /// The answer with its `ok` field, which every object has.
    fn object(&self) -> Value {
        let mut json = self.json.clone();
        if let Value::Object(all) = &mut json {
            all.entry("ok").or_insert((self.status == Status::Fine).into());
        }
        json
    }
}

/// The reason why a command has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Diagnostics about the schedule.
    Schedule(Diagnostics),
    /// Errors in the text of tile programs or of PTX, and the name of its file.
    Text { clause: &'static str, name: String, text: String, errors: TextErrors },
    /// A large product that is not complete.
    Incomplete(Box<Incomplete>),
    /// Anything else.
    Other { clause: &'static str, message: String, help: Option<String>, status: Status },
}

impl Failure {
    /// Something that the user can change.
    pub(crate) fn refused(clause: &'static str, message: impl Into<String>) -> Failure {
        Failure::Other { clause, message: message.into(), help: None, status: Status::Refused }
    }

    /// An error of clap.
    pub(crate) fn usage(error: &clap::Error) -> Failure {
        let text = error.to_string();
        let text = text.trim_end();
        // clap separates the usage line and its suggestions with blank lines.
        let (message, help) = text.split_once("\n\n").unwrap_or((text, ""));
        let message = message.strip_prefix("error: ").unwrap_or(message).to_string();
        let help = Some(help.trim().to_string()).filter(|help| !help.is_empty());
        Failure::Other { clause: "usage", message, help, status: Status::Refused }
    }

    pub(crate) fn print(&self, format: Format) -> Status {
        match format {
            Format::Json => {
                print(&line(&json!({ "ok": false, "errors": self.errors() })));
            }
            Format::Text => complain(&self.text()),
        }
        self.status()
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Failure::Schedule(_) | Failure::Text { .. } | Failure::Incomplete(_) => Status::Refused,
            Failure::Other { status, .. } => *status,
        }
    }

    pub(crate) fn errors(&self) -> Vec<Value> {
        match self {
            Failure::Schedule(diagnostics) => diagnostics.errors().map(diagnostic).collect(),
            Failure::Text { clause, text, errors, .. } => {
                errors.0.iter().map(|error| text_error(clause, text, error)).collect()
            }
            Failure::Incomplete(all) => vec![incomplete(all)],
            Failure::Other { clause, message, help, .. } => {
                let error = Diagnostic::error("", *clause, message);
                vec![diagnostic(&Diagnostic { help: help.clone(), ..error })]
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Schedule(diagnostics) => styled(diagnostics),
            Failure::Text { name, errors, .. } => errors.0.iter().map(|error| format!("{name}:{error}\n")).collect(),
            Failure::Incomplete(incomplete) => format!("error: {incomplete}\n"),
            Failure::Other { message, help: None, .. } => format!("error: {message}\n"),
            Failure::Other { message, help: Some(help), .. } => format!("error: {message}\n\n{help}\n"),
        }
    }
}

/// A diagnostic as a JSON object: `rule` is null if it is not about a schedule.
pub(crate) fn diagnostic(diagnostic: &Diagnostic) -> Value {
    json!({
        "clause": diagnostic.clause,
        "rule": Some(diagnostic.rule).filter(|rule| !rule.is_empty()),
        "severity": diagnostic.severity,
        "kind": diagnostic.kind,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "fix": diagnostic.fix,
        "span": diagnostic.span,
    })
}

/// The result of a contract as a JSON object: `holds` is null where the figure is not known.
pub(crate) fn contract(contract: &Contract) -> Value {
    match contract {
        Contract::Measured(measured) => json!({
            "contract": measured.contract.to_string(),
            "holds": measured.holds(),
            "figure": measured.figure,
            "entry": measured.entry,
            "message": contract.to_string(),
        }),
        Contract::Unchecked { contract: stated, .. } => json!({
            "contract": stated.to_string(),
            "holds": null,
            "figure": null,
            "entry": null,
            "message": contract.to_string(),
        }),
    }
}

/// What failed devices have left undone: every strip, also if the message lists only some.
fn incomplete(incomplete: &Incomplete) -> Value {
    let regions = |all: &[Region]| -> Value {
        let region = |at: &Region| json!({ "row": at.row, "col": at.col, "rows": at.rows, "cols": at.cols });
        all.iter().map(region).collect()
    };
    let failures = incomplete.failures.iter().map(|failure| {
        json!({
            "device": failure.device,
            "operation": failure.operation,
            "message": failure.error.to_string(),
        })
    });
    let mut error = diagnostic(&Diagnostic::error("", "device", incomplete.to_string()));
    error["finished"] = regions(&incomplete.finished);
    error["left"] = regions(&incomplete.left);
    error["failures"] = failures.collect();
    error
}

/// The same for an error in a `.tile` file; its span is its first character.
fn text_error(clause: &'static str, text: &str, TextError { line, column, message }: &TextError) -> Value {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(before..).unwrap_or_default();
    let start = before + rest.chars().take(column.saturating_sub(1)).map(char::len_utf8).sum::<usize>();
    let end = start + text.get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    let mut error = diagnostic(&Diagnostic::error("", clause, message));
    error["span"] = json!({ "start": start, "end": end, "line": line, "column": column });
    error
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
            Error::Tile(errors) => {
                return Failure::Text {
                    clause: "tile",
                    name: "tile".into(),
                    text: String::new(),
                    errors: errors.clone(),
                };
            }
            Error::Argument(_) => ("argument", Status::Refused),
            Error::Device(_) => ("device", Status::Refused),
            Error::Compiler(_) => ("compiler", Status::Wrong),
            _ if error.is_violation() => ("kernel", Status::Wrong),
            _ => ("run", Status::Refused),
        };
        Failure::Other { clause, message: error.to_string(), help: None, status }
    }
}

impl From<LargeError> for Failure {
    fn from(error: LargeError) -> Failure {
        match error {
            LargeError::Run(error) => error.into(),
            LargeError::Incomplete(incomplete) => Failure::Incomplete(incomplete),
            error => Failure::refused("large", error.to_string()),
        }
    }
}

impl From<DistributedError> for Failure {
    fn from(error: DistributedError) -> Failure {
        match error {
            DistributedError::Run(error) => error.into(),
            error => Failure::refused("large", error.to_string()),
        }
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

/// Diagnostics with colours, which [`print`] and [`complain`] remove where they are not wanted.
pub(crate) fn styled(diagnostics: &Diagnostics) -> String {
    diagnostics.styled()
}

/// Writes to standard output. A reader that closes the pipe early is not an error.
pub(crate) fn print(text: &str) -> Status {
    // Colours are used for terminals, or as requested with --color; $NO_COLOR and $TERM are honoured.
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("error: standard output: {error}\n"));
            Status::Refused
        }
        _ => Status::Fine,
    }
}

/// Writes to standard error; if that is closed, there is nowhere left to report.
pub(crate) fn complain(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use ptx_gemm::large::{self, Incomplete, LargeError, Region};
    use ptx_gemm::{DeviceError, TextError, TextErrors};
    use serde_json::json;

    use super::Failure;

    #[test]
    fn errors_of_a_tile_file_have_places() {
        let error = |line, column, message: &str| TextError { line, column, message: message.into() };
        let errors = TextErrors(vec![error(2, 4, "`ü` is not a word"), error(9, 1, "the text ends here")]);
        let failure = Failure::Text { clause: "tile", name: "a.tile".into(), text: "tile\nä bü x\n".into(), errors };
        assert_eq!(failure.text(), "a.tile:2:4: `ü` is not a word\na.tile:9:1: the text ends here\n");
        let spans: Vec<_> = failure.errors().into_iter().map(|error| error["span"].clone()).collect();
        assert_eq!(
            spans,
            [
                json!({ "start": 9, "end": 11, "line": 2, "column": 4 }),
                json!({ "start": 14, "end": 14, "line": 9, "column": 1 }),
            ]
        );
        assert!(failure.errors().iter().all(|error| error["clause"] == "tile" && error["help"].is_null()));
    }

    #[test]
    fn every_strip_of_an_incomplete_product_is_listed() {
        let strip = |row| Region::new(row..row + 8, 0..5);
        let failed = |device| large::Failure {
            device,
            operation: None,
            error: DeviceError::NoCuda { reason: "none".into() }.into(),
        };
        let finished: Vec<Region> = (0..6).map(|index| strip(8 * index)).collect();
        let incomplete = Incomplete { finished, left: vec![strip(48)], failures: vec![failed(1), failed(3)] };
        let failure = Failure::from(LargeError::Incomplete(Box::new(incomplete)));
        let errors = failure.errors();
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        let rows: Vec<_> = error["finished"].as_array().unwrap().iter().map(|strip| strip["row"].clone()).collect();
        assert_eq!(rows, [0, 8, 16, 24, 32, 40]);
        assert_eq!(error["left"], json!([{ "row": 48, "col": 0, "rows": 8, "cols": 5 }]));
        assert_eq!((&error["failures"][0]["device"], &error["failures"][1]["device"]), (&json!(1), &json!(3)));
        assert_eq!(error["clause"], "device");
        assert!(failure.text().starts_with("error: device 1 failed: "), "{}", failure.text());
    }
}
