//! Stores results in a file, line by line, so that an interrupted sweep continues where it stopped.
//!
//! Each line is a JSON object: what was timed, on which device and by which version, and the result. Only the last
//! line can be incomplete; it is removed, and its combination is judged again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::suites::Size;
use crate::sweep::{Failed, Measured};

/// The key of a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    /// Canonical text.
    schedule: String,
    /// The product's extents.
    size: String,
    /// The device.
    device: String,
    /// The version of this crate, and the PTX that was timed.
    version: String,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Record {
    Measured(Measured),
    Failed(Failed),
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    record: Record,
}

/// Results of earlier runs, and the file to append to.
#[derive(Debug, Default)]
pub struct Kept {
    known: HashMap<Key, Record>,
    file: Option<BufWriter<File>>,
    /// The first write error, reported at the end: the results are not lost because of it.
    failure: Option<io::Error>,
}

impl Kept {
    /// Stores nothing.
    pub fn nowhere() -> Kept {
        Kept::default()
    }

    /// Reads a file if there is one, and appends to it. An incomplete last line is removed.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written, or if any other line does not belong to a sweep.
    pub fn in_file(path: &Path) -> io::Result<Kept> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let text = io::read_to_string(&mut file)?;
        let mut known = HashMap::new();
        let mut whole = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match serde_json::from_str::<Line>(line) {
                Ok(Line { key, record }) if line.ends_with('\n') => {
                    known.insert(key, record);
                }
                _ if !line.ends_with('\n') => break,
                Ok(_) => {}
                Err(error) => {
                    let message = format!("line {}: {error}", number + 1);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
            }
            whole += line.len();
        }
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Kept { known, file: Some(BufWriter::new(file)), failure: None })
    }

    /// The number of known answers.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The key of a time: the PTX identifies the version of the compiler.
    pub(crate) fn timed(schedule: &str, size: Size, device: &str, ptx: &str) -> Key {
        Key {
            schedule: schedule.into(),
            size: size.to_string(),
            device: device.into(),
            version: format!("{} ptx {}", env!("CARGO_PKG_VERSION"), &blake3::hash(ptx.as_bytes()).to_hex()[..16]),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Record> {
        self.known.get(key)
    }

    /// Appends a line.
    pub(crate) fn keep(&mut self, key: Key, record: Record) {
        let Some(file) = &mut self.file else { return };
        let line = Line { key, record };
        let written = serde_json::to_string(&line).map_err(io::Error::from).and_then(|text| writeln!(file, "{text}"));
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
        self.known.insert(line.key, line.record);
    }

    /// Checks that everything was written to the file.
    ///
    /// # Errors
    ///
    /// The first line that could not be written.
    pub fn finish(&mut self) -> io::Result<()> {
        let flushed = self.file.as_mut().map_or(Ok(()), Write::flush);
        self.failure.take().map_or(flushed, Err)
    }
}
