//! Heartbeats in a folder: each process rewrites a file of its own every second, and checks those of the others.
//!
//! Only a change of a file counts, by the clock of the process that checks: hosts need not agree about the time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);
/// Time between two checks of the others.
const LOOK: Duration = Duration::from_millis(500);
/// A process without a heartbeat for this long is dead: several times the delay on a busy host.
pub(super) const DEAD: Duration = Duration::from_secs(5);
/// Longest time that counts between two checks. A process that was suspended has not watched the others.
const MOST: Duration = Duration::from_secs(1);
/// Prefix of the names of the files.
pub(super) const ALIVE: &str = "alive.";

fn name(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("{ALIVE}{rank}"))
}

/// Makes heartbeats until it is dropped. That removes the file: this process has left.
#[derive(Debug)]
pub(super) struct Heart {
    file: PathBuf,
    /// The thread ends when this is dropped.
    beating: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Heart {
    pub(super) fn new(folder: &Path, rank: usize) -> io::Result<Heart> {
        let file = name(folder, rank);
        fs::write(&file, "0")?;
        let (sender, ends) = mpsc::channel();
        let of_thread = file.clone();
        let thread = thread::Builder::new().name("ptx-gemm heartbeat".into()).spawn(move || {
            let mut beat = 0u64;
            while ends.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                beat += 1;
                // The file is written in place, since a network file system may cache the target of a name for a while.
                // If it cannot be written, the other processes report it.
                let _ = fs::write(&of_thread, beat.to_string());
            }
        })?;
        Ok(Heart { file, beating: Some((sender, thread)) })
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.beating.take() {
            drop(sender);
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.file);
    }
}

/// What is known about another process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pulse {
    /// Nothing so far.
    Unseen,
    /// A file that existed at the first check, and may be of an earlier launch.
    Found(Vec<u8>),
    /// The last heartbeat, and the time since.
    Alive(Vec<u8>, Duration),
    /// The file was removed.
    Left,
}

impl Pulse {
    /// The state after another check, this long after the one before.
    fn after(self, seen: Option<Vec<u8>>, since: Duration, first: bool) -> Pulse {
        match (self, seen) {
            (Pulse::Unseen, None) => Pulse::Unseen,
            (Pulse::Unseen, Some(now)) if first => Pulse::Found(now),
            (Pulse::Found(before), Some(now)) if before == now => Pulse::Found(now),
            (Pulse::Alive(before, silent), Some(now)) if before == now => Pulse::Alive(now, silent + since.min(MOST)),
            (_, Some(now)) => Pulse::Alive(now, Duration::ZERO),
            (Pulse::Found(_), None) => Pulse::Unseen,
            (Pulse::Alive(..) | Pulse::Left, None) => Pulse::Left,
        }
    }
}

/// Watches the heartbeats of all processes.
#[derive(Debug)]
pub(super) struct Watch {
    folder: PathBuf,
    rank: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    looked: Option<Instant>,
    pulses: Vec<Pulse>,
}

impl Watch {
    pub(super) fn new(folder: &Path, rank: usize, size: usize) -> Watch {
        let state = State { looked: None, pulses: vec![Pulse::Unseen; size] };
        Watch { folder: folder.into(), rank, state: Mutex::new(state) }
    }

    /// A process that is dead, if there is one.
    pub(super) fn dead(&self) -> Option<usize> {
        let dead = |pulse: &Pulse| matches!(pulse, Pulse::Alive(_, silent) if *silent >= DEAD);
        self.look(|pulses| pulses.iter().position(dead))
    }

    /// Records a message: its sender belongs to this launch and is alive. Process 0 sends nothing before all processes
    /// have met.
    pub(super) fn heard(&self, from: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (rank, pulse) in state.pulses.iter_mut().enumerate().filter(|(rank, _)| from == 0 || *rank == from) {
            match pulse {
                Pulse::Unseen if rank != self.rank => *pulse = Pulse::Alive(Vec::new(), Duration::ZERO),
                Pulse::Found(beat) => *pulse = Pulse::Alive(std::mem::take(beat), Duration::ZERO),
                _ => {}
            }
        }
    }

    /// Whether a process has left.
    pub(super) fn has_left(&self, rank: usize) -> bool {
        self.look(|pulses| pulses.get(rank) == Some(&Pulse::Left))
    }

    fn look<T>(&self, answer: impl FnOnce(&[Pulse]) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = state.looked.map(|looked| looked.elapsed());
        if since.is_none_or(|since| since >= LOOK) {
            let State { looked, pulses } = &mut *state;
            for (rank, pulse) in pulses.iter_mut().enumerate().filter(|(rank, _)| *rank != self.rank) {
                let seen = match fs::read(name(&self.folder, rank)) {
                    Ok(beat) => Some(beat),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                    // A folder that cannot be read for a moment says nothing about the others.
                    Err(_) => continue,
                };
                let before = std::mem::replace(pulse, Pulse::Unseen);
                *pulse = before.after(seen, since.unwrap_or_default(), looked.is_none());
            }
            *looked = Some(Instant::now());
        }
        answer(&state.pulses)
    }
}

#[cfg(test)]
mod tests {
    use super::{DEAD, Pulse};
    use std::time::Duration;

    /// The state after checks that found these contents, `since` apart.
    fn after(files: &[&str], since: Duration) -> Pulse {
        let file = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        let look = |pulse: Pulse, (index, text): (usize, &&str)| pulse.after(file(text), since, index == 0);
        files.iter().enumerate().fold(Pulse::Unseen, look)
    }

    #[test]
    fn a_process_is_alive_while_its_file_changes() {
        let half = Duration::from_millis(500);
        let alive = |text: &str, silent| Pulse::Alive(text.into(), silent);
        assert_eq!(after(&["", "", "0"], half), alive("0", Duration::ZERO));
        assert_eq!(after(&["", "0", "0", "0"], half), alive("0", 2 * half));
        assert_eq!(after(&["", "0", "0", "1"], half), alive("1", Duration::ZERO));
        assert_eq!(after(&["", "0", ""], half), Pulse::Left);
        // A file from before may be of another launch, and says nothing until it changes.
        assert_eq!(after(&["7"; 100], half), Pulse::Found("7".into()));
        assert_eq!(after(&["7", "7", "0"], half), alive("0", Duration::ZERO));
        assert_eq!(after(&["7", ""], half), Pulse::Unseen);
        // After a minute without checks, one check is not enough to tell.
        assert!(matches!(after(&["", "0", "0"], Duration::from_secs(60)), Pulse::Alive(_, silent) if silent < DEAD));
    }
}
