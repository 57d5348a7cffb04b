//! A process that answers lines with lines, and may be stopped.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The process, its input and the lines of its output. It ends when this is dropped.
#[derive(Debug)]
pub struct LineProcess {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl LineProcess {
    /// Starts a command; its standard input, output and error are taken over.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(mut command: Command) -> io::Result<LineProcess> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let pipe = || io::Error::other("a process without a pipe");
        let (input, output) = (child.stdin.take().ok_or_else(pipe)?, child.stdout.take().ok_or_else(pipe)?);
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(LineProcess { child, input, lines })
    }

    /// Sends a line. A process that has already ended is noticed when its answer is read.
    pub fn ask(&mut self, line: &str) {
        let _ = self.input.write_all(line.as_bytes()).and_then(|()| self.input.write_all(b"\n"));
        let _ = self.input.flush();
    }

    /// Its next line.
    ///
    /// # Errors
    ///
    /// There is none in this time, or the process has ended.
    pub fn answer(&self, time: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(time)
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops it.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end, and returns how it ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().ok()
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        self.stop();
    }
}
