//! Messages as files in a folder that all processes see, for launchers that set no address.
//!
//! A message is written under another name and then renamed, so that it appears whole; its receiver removes it. A
//! process that dies silently has no more heartbeats, which the others notice after some seconds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Store;
use super::heartbeat::{ALIVE, DEAD, Heart, Watch};
use crate::distributed::error::DistributedError;

/// Pause between two checks of the folder.
const PAUSE: Duration = Duration::from_millis(10);
/// The file that names the process that has failed.
const FAILED: &str = "failed";

/// A process that uses a folder.
#[derive(Debug)]
pub(in crate::distributed) struct Folder {
    path: PathBuf,
    rank: usize,
    watch: Watch,
    /// Dropped last, which means that this process has left.
    _heart: Heart,
}

impl Folder {
    /// Creates the folder if it does not exist. Process 0 must find it empty: its contents belong to another launch.
    pub(in crate::distributed) fn open(path: &Path, rank: usize, size: usize) -> io::Result<Folder> {
        fs::create_dir_all(path)?;
        // Other processes of this launch may already have written to process 0, and their heartbeat files exist.
        let own = format!("{ALIVE}{rank}");
        let of_this = |name: &str| {
            let starts = name.starts_with("partial.") || name.starts_with(ALIVE) || name.ends_with(".0");
            starts && name != own
        };
        let names = fs::read_dir(path)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        match names.into_iter().find(|name| !of_this(name)) {
            Some(name) if rank == 0 => {
                Err(io::Error::other(format!("it contains {name}, of another launch; take an empty folder for each")))
            }
            _ => {
                let watch = Watch::new(path, rank, size);
                Ok(Folder { path: path.into(), rank, watch, _heart: Heart::new(path, rank)? })
            }
        }
    }

    fn error(&self, error: io::Error) -> DistributedError {
        let (rank, place) = (self.rank, self.path.display().to_string());
        DistributedError::Meeting { rank, place, reason: error.to_string() }
    }

    fn name(&self, tag: &str, from: usize, to: usize) -> PathBuf {
        self.path.join(format!("{tag}.{from}.{to}"))
    }

    fn write(&self, name: &Path, bytes: &[u8]) -> io::Result<()> {
        let partial = self.path.join(format!("partial.{}", self.rank));
        fs::write(&partial, bytes)?;
        fs::rename(&partial, name)
    }
}

impl Store for Folder {
    fn send(&self, to: &[usize], tag: &str, bytes: &[u8]) -> Result<(), DistributedError> {
        let names = to.iter().map(|to| self.name(tag, self.rank, *to));
        names.into_iter().try_for_each(|name| self.write(&name, bytes)).map_err(|error| self.error(error))
    }

    fn receive(&self, from: usize, tag: &str, patience: Duration) -> Result<Vec<u8>, DistributedError> {
        let (begun, name) = (Instant::now(), self.name(tag, from, self.rank));
        loop {
            // Checked before the message, so that a message that a process sent before it left counts.
            let left = self.watch.has_left(from);
            match fs::read(&name) {
                Ok(bytes) => {
                    self.watch.heard(from);
                    fs::remove_file(&name).map_err(|error| self.error(error))?;
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.error(error)),
            }
            self.check()?;
            if left {
                return Err(DistributedError::Peer { rank: from, reason: format!("has left ({tag} was expected)") });
            }
            if begun.elapsed() > patience {
                return Err(DistributedError::silent(from, tag, patience));
            }
            thread::sleep(PAUSE);
        }
    }

    fn fail(&self, reason: &str) {
        // The first failure is the one to report.
        if !self.path.join(FAILED).exists() {
            let _ = self.write(&self.path.join(FAILED), format!("{} {reason}", self.rank).as_bytes());
        }
    }

    fn check(&self) -> Result<(), DistributedError> {
        if let Ok(text) = fs::read_to_string(self.path.join(FAILED)) {
            let (rank, reason) = text.split_once(' ').unwrap_or(("0", &text));
            return Err(DistributedError::Peer { rank: rank.parse().unwrap_or(0), reason: reason.into() });
        }
        match self.watch.dead() {
            Some(rank) => {
                let reason = format!("has died (no sign of life for {} s)", DEAD.as_secs());
                Err(DistributedError::Peer { rank, reason })
            }
            None => Ok(()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail("panicked");
        }
    }
}
