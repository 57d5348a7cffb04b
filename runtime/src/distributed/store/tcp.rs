//! Messages over TCP: process 0 keeps the mailbox, and each other process has one connection to it.
//!
//! A connection that closes without a message means that a process died, which ends all waits.
//!
//! ```text
//! greeting  -> "ptx-gemm", version, size, rank                     <- the same, without the rank
//! request   -> code, peer, milliseconds, tag, bytes                <- status, rank, bytes
//! ```
//!
//! Numbers are little endian, 8 bytes each; tag and bytes are preceded by their length.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Store;
use super::memory::Mailbox;
use crate::distributed::error::DistributedError;

const GREETING: &[u8; 8] = b"ptx-gemm";
const VERSION: u64 = 1;
/// Pause between two attempts to connect, or to accept.
const PAUSE: Duration = Duration::from_millis(5);
/// How long an unknown peer may take for its greeting.
const GREETING_TIME: Duration = Duration::from_secs(2);
/// How long an answer may take after the patience of a request: a lost host closes no connection.
const GRACE: Duration = Duration::from_secs(10);
/// How long process 0 waits for the others at the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest message: a panel between interpreters. A longer one is not from this program.
const LONGEST: u64 = 1 << 32;

const SEND: u64 = 1;
const RECEIVE: u64 = 2;
const FAIL: u64 = 3;
const CHECK: u64 = 4;
const LEAVE: u64 = 5;

const DONE: u64 = 0;
const PEER: u64 = 1;
const SILENT: u64 = 2;

fn write_number(to: &mut Vec<u8>, number: u64) {
    to.extend(number.to_le_bytes());
}

fn write_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    write_number(to, bytes.len() as u64);
    to.extend(bytes);
}

fn read_number(from: &mut TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn read_bytes(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = read_number(from)?;
    if length > LONGEST {
        return Err(io::Error::other(format!("a message of {length} bytes")));
    }
    let mut bytes = Vec::new();
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn read_text(from: &mut TcpStream) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_bytes(from)?).into_owned())
}

/// The greeting of a launch of this size.
fn greeting(size: usize) -> Vec<u8> {
    let mut bytes = GREETING.to_vec();
    write_number(&mut bytes, VERSION);
    write_number(&mut bytes, size as u64);
    bytes
}

/// Process 0: the mailbox, and a thread for each of the others.
#[derive(Debug)]
pub(in crate::distributed) struct Server {
    mailbox: Arc<Mailbox>,
    size: usize,
    closing: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at an address. The other processes may start later.
    pub(in crate::distributed) fn listen(address: &str, size: usize) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        // The thread has to notice that the server is dropped.
        listener.set_nonblocking(true)?;
        let (mailbox, closing) = (Arc::<Mailbox>::default(), Arc::new(AtomicBool::new(false)));
        let (of_thread, ends) = (mailbox.clone(), closing.clone());
        let accepting = thread::Builder::new().name("ptx-gemm meeting".into()).spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let mailbox = of_thread.clone();
                        // If the thread cannot start, the connection closes, and the other side notices.
                        let _ = thread::Builder::new().spawn(move || serve(stream, size, &mailbox));
                    }
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        })?;
        Ok(Server { mailbox, size, closing, accepting: Some(accepting) })
    }
}

impl Store for Server {
    fn send(&self, to: &[usize], tag: &str, bytes: &[u8]) -> Result<(), DistributedError> {
        self.mailbox.send(0, to, tag, bytes);
        Ok(())
    }

    fn receive(&self, from: usize, tag: &str, patience: Duration) -> Result<Vec<u8>, DistributedError> {
        self.mailbox.receive((from, 0), tag, patience)
    }

    fn fail(&self, reason: &str) {
        self.mailbox.fail(0, reason.into());
    }

    fn check(&self) -> Result<(), DistributedError> {
        self.mailbox.check()
    }
}

impl Drop for Server {
    /// Waits until the others have left, since the messages that they wait for are here.
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail("panicked");
        }
        self.mailbox.leave(0);
        self.mailbox.wait_for_leaving(self.size, FAREWELL);
        self.closing.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Answers one process until it leaves.
fn serve(mut stream: TcpStream, size: usize, mailbox: &Mailbox) {
    let Ok(rank) = welcome(&mut stream, size) else { return };
    if let Err(error) = converse(&mut stream, rank, mailbox) {
        mailbox.fail(rank, format!("has died (its connection closed: {error})"));
    }
    mailbox.leave(rank);
}

/// Receives a greeting. Returns the rank of a process that belongs to this launch.
fn welcome(stream: &mut TcpStream, size: usize) -> io::Result<usize> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING_TIME))?;
    let ours = greeting(size);
    let mut theirs = vec![0; ours.len()];
    stream.read_exact(&mut theirs)?;
    let rank = read_number(stream)?;
    stream.write_all(&ours)?;
    stream.set_read_timeout(None)?;
    match usize::try_from(rank) {
        Ok(rank) if theirs == ours && (1..size).contains(&rank) => Ok(rank),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn converse(stream: &mut TcpStream, rank: usize, mailbox: &Mailbox) -> io::Result<()> {
    loop {
        let code = read_number(stream)?;
        let peer = read_number(stream)? as usize;
        let patience = Duration::from_millis(read_number(stream)?);
        let tag = read_text(stream)?;
        let bytes = read_bytes(stream)?;
        let result = match code {
            SEND => {
                mailbox.send(rank, &[peer], &tag, &bytes);
                Ok(Vec::new())
            }
            RECEIVE => mailbox.receive((peer, rank), &tag, patience),
            FAIL => {
                mailbox.fail(rank, tag);
                Ok(Vec::new())
            }
            CHECK => mailbox.check().map(|()| Vec::new()),
            LEAVE => return Ok(()),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let (status, of, bytes) = match result {
            Ok(bytes) => (DONE, 0, bytes),
            Err(DistributedError::Peer { rank, reason }) => (PEER, rank, reason.into_bytes()),
            Err(_) => (SILENT, peer, Vec::new()),
        };
        let mut answer = Vec::with_capacity(bytes.len() + 24);
        write_number(&mut answer, status);
        write_number(&mut answer, of as u64);
        write_bytes(&mut answer, &bytes);
        stream.write_all(&answer)?;
    }
}

/// Any other process.
#[derive(Debug)]
pub(in crate::distributed) struct Client {
    stream: Mutex<TcpStream>,
}

impl Client {
    /// Connects to process 0, which may start later.
    pub(in crate::distributed) fn connect(
        address: &str,
        size: usize,
        rank: usize,
        patience: Duration,
    ) -> Result<Client, String> {
        let begun = Instant::now();
        loop {
            let failed = match attempt(address, size, rank) {
                Ok(stream) => return Ok(Client { stream: Mutex::new(stream) }),
                Err(error) => error,
            };
            if begun.elapsed() > patience {
                return Err(format!("process 0 did not answer for {} s: {failed}", patience.as_secs()));
            }
            thread::sleep(PAUSE);
        }
    }

    fn ask(
        &self,
        code: u64,
        peer: usize,
        patience: Duration,
        tag: &str,
        bytes: &[u8],
    ) -> Result<Vec<u8>, DistributedError> {
        let mut request = Vec::with_capacity(bytes.len() + tag.len() + 40);
        write_number(&mut request, code);
        write_number(&mut request, peer as u64);
        write_number(&mut request, patience.as_millis().try_into().unwrap_or(u64::MAX));
        write_bytes(&mut request, tag.as_bytes());
        write_bytes(&mut request, bytes);
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut exchange = || -> io::Result<(u64, u64, Vec<u8>)> {
            stream.set_read_timeout(Some(patience.saturating_add(GRACE)))?;
            stream.write_all(&request)?;
            Ok((read_number(&mut stream)?, read_number(&mut stream)?, read_bytes(&mut stream)?))
        };
        let died =
            |error| DistributedError::Peer { rank: 0, reason: format!("has died (its connection closed: {error})") };
        match exchange().map_err(died)? {
            (DONE, _, bytes) => Ok(bytes),
            (PEER, rank, reason) => Err(DistributedError::Peer {
                rank: rank as usize,
                reason: String::from_utf8_lossy(&reason).into_owned(),
            }),
            _ => Err(DistributedError::silent(peer, tag, patience)),
        }
    }
}

fn attempt(address: &str, size: usize, rank: usize) -> io::Result<TcpStream> {
    let mut last = io::Error::other(format!("{address} is not an address"));
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, GREETING_TIME) {
            Ok(mut stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(GREETING_TIME))?;
                let ours = greeting(size);
                let mut request = ours.clone();
                write_number(&mut request, rank as u64);
                stream.write_all(&request)?;
                let mut theirs = vec![0; ours.len()];
                stream.read_exact(&mut theirs)?;
                if theirs != ours {
                    return Err(io::Error::other("somebody else answers there, or a launch of another size"));
                }
                stream.set_read_timeout(None)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Store for Client {
    fn send(&self, to: &[usize], tag: &str, bytes: &[u8]) -> Result<(), DistributedError> {
        to.iter().try_for_each(|to| self.ask(SEND, *to, Duration::ZERO, tag, bytes).map(drop))
    }

    fn receive(&self, from: usize, tag: &str, patience: Duration) -> Result<Vec<u8>, DistributedError> {
        self.ask(RECEIVE, from, patience, tag, &[])
    }

    fn fail(&self, reason: &str) {
        // If process 0 has died, every process has noticed.
        let _ = self.ask(FAIL, 0, Duration::ZERO, reason, &[]);
    }

    fn check(&self) -> Result<(), DistributedError> {
        self.ask(CHECK, 0, Duration::ZERO, "", &[]).map(drop)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail("panicked");
        }
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut farewell = Vec::new();
        [LEAVE, 0, 0, 0, 0].into_iter().for_each(|number| write_number(&mut farewell, number));
        let _ = stream.write_all(&farewell);
    }
}
