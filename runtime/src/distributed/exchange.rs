//! Performs a process's operations: on an interpreter one after another, with panels as messages; on a GPU by streams,
//! events and NCCL.

use super::error::DistributedError;
use super::plan::Plan;
use super::world::World;
use crate::device::{Device, DeviceKind};
use crate::large::site::{Between, Site};
use crate::large::{Action, Operation};

/// Blocks of NCCL's kernels; each occupies a multiprocessor. A broadcast runs concurrently with a product, and that
/// gives it many times the time that it needs, so a part of the links' speed is enough.
const CHANNELS: u32 = 4;

/// Multiprocessors that a product on a grid of processes leaves to the exchange.
///
/// If a block of a persistent grid gets no multiprocessor, it waits for the broadcast, which waits for the slowest
/// process. Then it computes its tiles while the other blocks have nothing left to do.
pub(super) fn multiprocessors(device: &Device, grid: [usize; 2]) -> u32 {
    match device.kind() {
        DeviceKind::Cuda(_) if grid != [1, 1] => CHANNELS,
        DeviceKind::Cuda(_) | DeviceKind::Interpreter => 0,
    }
}

/// How panels travel between processes.
#[derive(Debug)]
pub(super) enum Links {
    /// As messages.
    Messages,
    /// Through NCCL: a communicator for this process's row of the grid, and one for its column.
    #[cfg(feature = "nccl")]
    Nccl(Box<crate::cuda::Communicators>),
}

impl Links {
    /// Connects this process to those of its row and its column. All processes call it together.
    pub(super) fn open(world: &World, device: &Device, plan: &Plan, product: u64) -> Result<Links, DistributedError> {
        match device.kind() {
            DeviceKind::Interpreter => Ok(Links::Messages),
            DeviceKind::Cuda(_) => nccl(world, device, plan, product),
        }
    }
}

#[cfg(not(feature = "nccl"))]
fn nccl(_: &World, _: &Device, _: &Plan, _: u64) -> Result<Links, DistributedError> {
    Err(DistributedError::NoNccl { reason: "this program was built without the feature `nccl`".into() })
}

/// The first process of each row and column makes a name for it, which the others get as a message.
#[cfg(feature = "nccl")]
fn nccl(world: &World, device: &Device, plan: &Plan, product: u64) -> Result<Links, DistributedError> {
    use crate::cuda::{Communicators, Group, unique_name};
    use ptx_gemm_dsl::terms::Operand;
    let rank = world.rank();
    let group = |operand: Operand| -> Result<Group, DistributedError> {
        let members = plan.sharing(rank, operand);
        let tag = format!("{product}.name.{operand:?}");
        let first = members[0];
        let name = match first == rank {
            true => {
                let name = unique_name(device)?;
                world.store().send(&members[1..], &tag, &name)?;
                name
            }
            false => world.store().receive(first, &tag, world.patience())?,
        };
        let index = members.iter().position(|member| *member == rank).unwrap_or(0);
        Ok(Group { name, size: members.len(), index })
    };
    let groups = [group(Operand::A)?, group(Operand::B)?];
    let check = || world.store().check();
    let communicators = Communicators::new(device, rank, groups, CHANNELS, &check, world.patience())?;
    Ok(Links::Nccl(Box::new(communicators)))
}

/// Performs the operations of this process to their end.
pub(super) fn perform(
    world: &World,
    links: &mut Links,
    site: &Site,
    plan: &Plan,
    operations: &[Operation],
    product: u64,
) -> Result<(), DistributedError> {
    match links {
        Links::Messages => {
            let mut messages = Messages { world, site, plan, product };
            operations.iter().try_for_each(|operation| messages.perform(operation))
        }
        #[cfg(feature = "nccl")]
        Links::Nccl(communicators) => {
            let check = || world.store().check();
            // The position of a panel's owner among the processes that share it.
            let index = |operand, root| plan.sharing(world.rank(), operand).iter().position(|member| *member == root);
            communicators.perform(site, operations, &index, &check, world.patience())
        }
    }
}

/// An interpreter, which runs operations in the order of issue.
struct Messages<'a> {
    world: &'a World,
    site: &'a Site,
    plan: &'a Plan,
    product: u64,
}

impl Messages<'_> {
    fn perform(&mut self, operation: &Operation) -> Result<(), DistributedError> {
        match operation.action {
            Action::Broadcast { operand, panel, root, to, .. } => {
                let Some((dtype, matrix)) = self.site.matrix(to) else { return Ok(()) };
                let rank = self.world.rank();
                let tag = format!("{}.{operand:?}.{panel}", self.product);
                let mut between = Between::new(dtype, matrix.shape);
                if root == rank {
                    self.site.read(to, "a panel", &mut between)?;
                    let mut others = self.plan.sharing(rank, operand);
                    others.retain(|other| *other != rank);
                    return self.world.store().send(&others, &tag, &between.bytes);
                }
                let bytes = self.world.store().receive(root, &tag, self.world.patience())?;
                if bytes.len() != between.bytes.len() {
                    let reason = format!("sent a panel of {} bytes instead of {}", bytes.len(), between.bytes.len());
                    return Err(DistributedError::Peer { rank: root, reason });
                }
                between.bytes = bytes;
                Ok(self.site.write(to, &between)?)
            }
            Action::Multiply(ref product) => {
                // A process that only computes notices here that another one has failed.
                self.world.store().check()?;
                Ok(self.site.multiply(product)?)
            }
            _ => Ok(()),
        }
    }
}
