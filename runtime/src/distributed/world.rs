//! The processes of a launch, and how they find each other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::DistributedError;
use super::launch::Launch;
use super::store::{Client, Folder, Mailbox, Member, Server, Store};
use crate::device::Device;

/// How long a process waits for another one before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The place where the processes of a launch meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rendezvous {
    /// At `MASTER_ADDR` and `MASTER_PORT`. Under `torchrun`, which may use that port for its own store, at the next
    /// port.
    #[default]
    Launcher,
    /// At this address, `host:port`, of the host of process 0.
    Address(String),
    /// In this folder, which all hosts see and which must be empty before.
    Folder(PathBuf),
}

/// All processes of a launch, as seen by one of them.
///
/// Dropping it leaves the launch; the others fail if they still need this process.
#[derive(Debug)]
pub struct World {
    launch: Launch,
    store: Arc<dyn Store>,
    patience: Duration,
    /// Products so far: every process counts the same, so that no tag is used twice.
    products: AtomicU64,
}

impl World {
    /// Reads the launcher's variables, and meets the other processes at the place that they name.
    ///
    /// # Errors
    /// Variables that are missing or wrong, and processes that do not arrive within a minute.
    pub fn from_env() -> Result<World, DistributedError> {
        World::meet(Launch::from_env()?, Rendezvous::Launcher)
    }

    /// Meets the other processes.
    pub fn meet(launch: Launch, rendezvous: Rendezvous) -> Result<World, DistributedError> {
        World::meet_within(launch, rendezvous, PATIENCE)
    }

    /// The same with another patience, here and in every product: how long this process waits for another one that
    /// makes no progress. It must be longer than any launch takes.
    pub fn meet_within(launch: Launch, rendezvous: Rendezvous, patience: Duration) -> Result<World, DistributedError> {
        let store = open(launch, rendezvous, patience)?;
        let world = World { launch, store, patience, products: AtomicU64::new(0) };
        world.guarded(|world| world.agree("meeting", ""))?;
        Ok(world)
    }

    /// This many processes, which are threads of this one: for tests of programs across processes.
    pub fn in_process(size: usize, patience: Duration) -> Vec<World> {
        let mailbox = Arc::<Mailbox>::default();
        let world = |rank| World {
            launch: Launch { rank, size, local: rank },
            store: Arc::new(Member { rank, mailbox: mailbox.clone() }),
            patience,
            products: AtomicU64::new(0),
        };
        (0..size).map(world).collect()
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.launch.rank
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.launch.size
    }

    /// The GPU of this process: the one with its rank on the host as its number, or the only one that it sees.
    pub fn gpu(&self) -> Result<Device, DistributedError> {
        let number = if crate::cuda::status()?.devices == 1 { 0 } else { self.launch.local };
        Ok(Device::cuda(number)?)
    }

    /// How long this process waits for another one.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The number of the next product.
    pub(super) fn next_product(&self) -> u64 {
        self.products.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs a step that other processes rely on. If it fails, they are notified.
    pub(super) fn guarded<T>(
        &self,
        act: impl FnOnce(&World) -> Result<T, DistributedError>,
    ) -> Result<T, DistributedError> {
        act(self).inspect_err(|error| match error {
            // The others know already.
            DistributedError::Peer { .. } => {}
            error => self.store.fail(&format!("has failed: {error}")),
        })
    }

    /// Waits until every process is here, with the same text.
    pub(super) fn agree(&self, tag: &str, text: &str) -> Result<(), DistributedError> {
        let Launch { rank, size, .. } = self.launch;
        if rank > 0 {
            self.store.send(&[0], tag, text.as_bytes())?;
            return self.store.receive(0, tag, self.patience).map(drop);
        }
        for other in 1..size {
            let theirs = String::from_utf8_lossy(&self.store.receive(other, tag, self.patience)?).into_owned();
            if theirs != text {
                return Err(DistributedError::Disagree { rank: other, ours: text.into(), theirs });
            }
        }
        let others: Vec<usize> = (1..size).collect();
        self.store.send(&others, tag, &[])
    }
}

fn open(launch: Launch, rendezvous: Rendezvous, patience: Duration) -> Result<Arc<dyn Store>, DistributedError> {
    let Launch { rank, size, .. } = launch;
    if size == 1 {
        return Ok(Arc::new(Member { rank: 0, mailbox: Arc::default() }));
    }
    let address = match rendezvous {
        Rendezvous::Launcher => launchers_address(|name| std::env::var(name).ok(), launch)?,
        Rendezvous::Address(address) => address,
        Rendezvous::Folder(path) => {
            let failed = |error: std::io::Error| DistributedError::Meeting {
                rank,
                place: path.display().to_string(),
                reason: error.to_string(),
            };
            return Ok(Arc::new(Folder::open(&path, rank, size).map_err(failed)?));
        }
    };
    let failed = |reason| DistributedError::Meeting { rank, place: address.clone(), reason };
    match rank {
        0 => Ok(Arc::new(Server::listen(&address, size).map_err(|error| failed(error.to_string()))?)),
        _ => Ok(Arc::new(Client::connect(&address, size, rank, patience).map_err(failed)?)),
    }
}

/// The address that the launcher's variables name.
fn launchers_address(variable: impl Fn(&str) -> Option<String>, launch: Launch) -> Result<String, DistributedError> {
    let Launch { rank, size, .. } = launch;
    let (Some(host), Some(port)) = (variable("MASTER_ADDR"), variable("MASTER_PORT")) else {
        return Err(DistributedError::NoPlace { size });
    };
    // torchrun's agent may itself listen at the port, for PyTorch's own store.
    let next = u16::from(variable("TORCHELASTIC_RUN_ID").is_some());
    let port = port.trim().parse::<u16>().ok().and_then(|port| port.checked_add(next));
    match port {
        // An IPv6 address needs brackets.
        Some(port) if host.contains(':') && !host.starts_with('[') => Ok(format!("[{host}]:{port}")),
        Some(port) => Ok(format!("{host}:{port}")),
        None => Err(DistributedError::Meeting { rank, place: host, reason: "MASTER_PORT is not a port".into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_variables_give_an_address() {
        let address = |variables: &[(&str, &str)]| {
            let of =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
            launchers_address(of, Launch { rank: 1, size: 4, local: 1 })
        };
        let master = [("MASTER_ADDR", "node0"), ("MASTER_PORT", "29500"), ("TORCHELASTIC_RUN_ID", "none")];
        assert_eq!(address(&master[..2]).as_deref(), Ok("node0:29500"));
        assert_eq!(address(&master).as_deref(), Ok("node0:29501"));
        assert_eq!(address(&[("MASTER_ADDR", "::1"), ("MASTER_PORT", "7")]).as_deref(), Ok("[::1]:7"));
        assert!(matches!(address(&master[..1]), Err(DistributedError::NoPlace { size: 4 })));
        let words = address(&[("MASTER_ADDR", "node0"), ("MASTER_PORT", "65536")]).unwrap_err().to_string();
        assert_eq!(words, "process 1 did not meet the others at node0: MASTER_PORT is not a port");
    }
}
