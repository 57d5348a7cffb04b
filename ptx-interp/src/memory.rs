//! Global memory of the interpreter's device, as the host sees it.
//!
//! Addresses are never reused, and there are gaps of at least 16 MiB between allocations. An index past the end of one
//! matrix falls into the gap, not into the next matrix, and a dangling pointer is recognised.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::buffer::{Buffer, GRANULE, OutOfMemory};
use crate::decode::GlobalVariable;
use crate::op::Constant;

/// Lowest address; 0 and addresses near it are never valid.
const FIRST_ADDRESS: u64 = 0x7000_0000_0000;
/// Addresses below this are considered null pointers with an offset.
const NULL_PAGE: u64 = 1 << 20;
/// Smallest gap between two allocations.
const MIN_GAP: u64 = 16 << 20;
/// Largest alignment that [`Memory::alloc`] takes.
const MAX_ALIGN: u64 = 1 << 20;
/// Number of freed allocations that are remembered by name.
const REMEMBERED: usize = 64;

/// Identifies an allocation for as long as its [`Memory`] lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllocationId(u64);

/// A range of global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its identifier, for [`Memory::free`] and [`Memory::set_write_once`].
    pub id: AllocationId,
    /// Its device pointer.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Why a request of the host failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The host does not have that much memory.
    #[error("out of memory: {bytes} bytes do not fit")]
    OutOfMemory {
        /// Number of bytes requested.
        bytes: u64,
    },
    /// An alignment that is not a power of two up to 1 MiB.
    #[error("alignment {align} is not a power of two up to 1048576")]
    Alignment {
        /// The requested alignment.
        align: u64,
    },
    /// A host access that leaves its allocation.
    #[error("{bytes} bytes at {address:#x} are not inside one allocation: {nearest}")]
    OutOfBounds {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// The nearest allocation, as text.
        nearest: String,
    },
    /// An allocation that was freed, or that belongs to another memory.
    #[error("no such allocation")]
    NoSuchAllocation,
}

impl From<OutOfMemory> for MemoryError {
    fn from(OutOfMemory { bytes }: OutOfMemory) -> MemoryError {
        MemoryError::OutOfMemory { bytes }
    }
}

/// Global memory. Threads can share it. A running launch keeps the allocations that it uses alive.
#[derive(Debug, Default)]
pub struct Memory {
    state: RwLock<State>,
    /// The addresses of modules' variables, by the module's number and the variable's name.
    modules: Mutex<BTreeMap<(u64, String), u64>>,
}

#[derive(Debug, Default)]
struct State {
    /// By address.
    live: BTreeMap<u64, Arc<Buffer>>,
    addresses: BTreeMap<AllocationId, u64>,
    freed: VecDeque<Freed>,
    next_address: u64,
    next_id: u64,
}

#[derive(Clone, Debug)]
struct Freed {
    start: u64,
    len: u64,
    label: Arc<str>,
}

impl Memory {
    /// A memory without allocations.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Allocates `bytes` uninitialised bytes, aligned to `align` and to 256.
    pub fn alloc(&self, label: &str, bytes: u64, align: u64) -> Result<Allocation, MemoryError> {
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(MemoryError::Alignment { align });
        }
        self.reserve(label, bytes, align, 0)
    }

    /// Allocates `bytes` uninitialised bytes that start `offset` bytes (below 256) after a 256-byte boundary, like a
    /// pointer into the middle of a larger matrix.
    pub fn alloc_at_offset(&self, label: &str, bytes: u64, offset: u64) -> Result<Allocation, MemoryError> {
        if offset >= GRANULE {
            return Err(MemoryError::Alignment { align: offset });
        }
        self.reserve(label, bytes, GRANULE, offset)
    }

    /// Allocates and fills memory.
    pub fn alloc_from(&self, label: &str, bytes: &[u8], align: u64) -> Result<Allocation, MemoryError> {
        let allocation = self.alloc(label, bytes.len() as u64, align)?;
        self.write(allocation.address, bytes)?;
        Ok(allocation)
    }

    /// The addresses of a module's variables. The first launch on this memory allocates and initialises them. They
    /// persist, with the values that kernels write, as long as the memory does.
    pub(crate) fn variables(&self, module: u64, variables: &[GlobalVariable]) -> Result<Vec<u64>, MemoryError> {
        let mut known = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut addresses = Vec::new();
        let mut fresh = Vec::new();
        for variable in variables {
            let key = (module, variable.name.clone());
            let address = match known.get(&key) {
                Some(address) => *address,
                None => {
                    let mut contents = variable.initial.clone();
                    contents.resize(variable.bytes as usize, 0);
                    let address = self.alloc_from(&variable.name, &contents, variable.align)?.address;
                    known.insert(key, address);
                    fresh.push((variable, address));
                    address
                }
            };
            addresses.push(address);
        }
        // A variable may contain the address of a later one.
        for (variable, start) in fresh {
            for (at, constant) in &variable.pointers {
                let value = match *constant {
                    Constant::Global(number, offset) => {
                        addresses.get(number as usize).copied().unwrap_or(0).wrapping_add_signed(offset)
                    }
                    Constant::Value(value) => value,
                    Constant::Shared(_) | Constant::Special(_) => continue,
                };
                self.write(start + at, &value.to_le_bytes())?;
            }
        }
        Ok(addresses)
    }

    fn reserve(&self, label: &str, bytes: u64, align: u64, offset: u64) -> Result<Allocation, MemoryError> {
        let too_large = MemoryError::OutOfMemory { bytes };
        let mut state = self.write_state();
        let base = state.next_address.max(FIRST_ADDRESS).next_multiple_of(align.max(GRANULE));
        let gap = bytes.max(MIN_GAP);
        let end = base.checked_add(offset + gap).and_then(|at| at.checked_add(bytes)).filter(|end| *end < 1 << 56);
        let next = end.ok_or(too_large)?;
        let id = AllocationId(state.next_id);
        let buffer = Buffer::new(label, base + offset, bytes)?;
        let allocation = Allocation { id, address: buffer.start, bytes };
        state.next_id += 1;
        state.next_address = next;
        state.addresses.insert(id, buffer.start);
        state.live.insert(buffer.start, Arc::new(buffer));
        Ok(allocation)
    }

    /// Copies host bytes to the device; they count as initialised from here on.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.buffer(address, bytes.len() as u64)?.write(address, bytes);
        Ok(())
    }

    /// Copies device bytes to the host. Bytes that were never written read as 0; see [`Memory::first_unwritten`].
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        self.buffer(address, bytes.len() as u64)?.read(address, bytes);
        Ok(())
    }

    /// The first byte of a range that neither the host nor a kernel has written yet.
    pub fn first_unwritten(&self, address: u64, bytes: u64) -> Result<Option<u64>, MemoryError> {
        Ok(self.buffer(address, bytes)?.first_unwritten(address, bytes))
    }

    /// Frees the allocation. If a kernel still uses the pointer, the report names the allocation.
    pub fn free(&self, id: AllocationId) -> Result<(), MemoryError> {
        let mut state = self.write_state();
        let start = state.addresses.remove(&id).ok_or(MemoryError::NoSuchAllocation)?;
        if let Some(buffer) = state.live.remove(&start) {
            state.freed.push_back(Freed { start, len: buffer.len, label: buffer.label.clone() });
        }
        if state.freed.len() > REMEMBERED {
            state.freed.pop_front();
        }
        Ok(())
    }

    /// From the next launch on, each byte of the allocation may be written at most once per launch (checks on).
    pub fn set_write_once(&self, id: AllocationId) -> Result<(), MemoryError> {
        self.set_once(id, true)
    }

    /// Reverts [`Memory::set_write_once`].
    pub fn clear_write_once(&self, id: AllocationId) -> Result<(), MemoryError> {
        self.set_once(id, false)
    }

    fn set_once(&self, id: AllocationId, once: bool) -> Result<(), MemoryError> {
        let state = self.read_state();
        let buffer = state.addresses.get(&id).and_then(|start| state.live.get(start));
        buffer.ok_or(MemoryError::NoSuchAllocation)?.write_once.store(once, Relaxed);
        Ok(())
    }

    /// From the next launch on, every byte of the allocation at this address must be written after each launch (checks
    /// on) with an argument that points into it. For write-once memory, that launch must have written it; otherwise any
    /// write counts.
    pub fn set_written_after(&self, address: u64) -> Result<(), MemoryError> {
        self.buffer(address, 0)?.written_after.store(true, Relaxed);
        Ok(())
    }

    /// From the next launch on, these bytes must be zero after each launch (checks on) with an argument that points
    /// into their allocation. This is for flags that the next launch expects to be zero.
    pub fn set_zero_after(&self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        let buffer = self.buffer(address, bytes)?;
        let mut ranges = buffer.zero_after.lock().unwrap_or_else(PoisonError::into_inner);
        let range = (address, address + bytes);
        if bytes > 0 && !ranges.contains(&range) {
            ranges.push(range);
        }
        Ok(())
    }

    /// Reverts every [`Memory::set_zero_after`] for the allocation at this address.
    pub fn clear_zero_after(&self, address: u64) -> Result<(), MemoryError> {
        self.buffer(address, 0)?.zero_after.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    /// Every live allocation, sorted by address, for a launch.
    pub(crate) fn snapshot(&self) -> Vec<Arc<Buffer>> {
        self.read_state().live.values().cloned().collect()
    }

    fn buffer(&self, address: u64, bytes: u64) -> Result<Arc<Buffer>, MemoryError> {
        let found = self.read_state().live.range(..=address).next_back().map(|(_, buffer)| buffer.clone());
        match found {
            Some(buffer) if buffer.contains(address, bytes) => Ok(buffer),
            _ => Err(MemoryError::OutOfBounds { address, bytes, nearest: self.describe(address, bytes).text }),
        }
    }

    /// Describes an address that is not in any allocation.
    pub(crate) fn describe(&self, address: u64, bytes: u64) -> Nearest {
        let state = self.read_state();
        if let Some(freed) =
            state.freed.iter().find(|freed| address >= freed.start && address < freed.start + freed.len)
        {
            return Nearest::new(&freed.label, format!("inside `{}`, which was freed", freed.label));
        }
        let below = state.live.range(..=address).next_back().map(|(_, buffer)| buffer);
        let above = state.live.range(address..).next().map(|(_, buffer)| buffer);
        let distance_below = below.map_or(u64::MAX, |buffer| address.saturating_sub(buffer.end()));
        let distance_above = above.map_or(u64::MAX, |buffer| buffer.start - address);
        if address < NULL_PAGE {
            return Nearest { label: None, text: "a null pointer, or an offset from one".into() };
        }
        match (below, above) {
            (Some(buffer), _) if address < buffer.end() => {
                let left = buffer.end() - address;
                Nearest::new(&buffer.label, format!("only {left} of these {bytes} bytes are inside {}", of(buffer)))
            }
            (Some(buffer), _) if distance_below <= distance_above => {
                Nearest::new(&buffer.label, format!("{} past the end of {}", distance(distance_below), of(buffer)))
            }
            (_, Some(buffer)) => {
                Nearest::new(&buffer.label, format!("{} before the start of {}", distance(distance_above), of(buffer)))
            }
            _ => Nearest { label: None, text: "there are no allocations".into() },
        }
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The distance between an access and an allocation, as text; empty if they are adjacent.
fn distance(bytes: u64) -> String {
    match bytes {
        0 => "right".into(),
        bytes => format!("{bytes} bytes"),
    }
}

/// An allocation with its extent, as text.
fn of(buffer: &Buffer) -> String {
    format!("`{}` ({} bytes at {:#x})", buffer.label, buffer.len, buffer.start)
}

/// The allocation nearest to an invalid address.
pub(crate) struct Nearest {
    pub(crate) label: Option<String>,
    pub(crate) text: String,
}

impl Nearest {
    fn new(label: &str, text: String) -> Nearest {
        Nearest { label: Some(label.into()), text }
    }
}
