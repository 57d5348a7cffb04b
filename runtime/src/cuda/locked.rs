//! Page-locked host memory, and the copies of it that may be under way.
//!
//! The driver gives the memory and takes it back. In between every block keeps an event for each copy that may still be
//! under way, and waits for these before the host touches what they touch: so a copy can be put on a queue by reference,
//! and neither forgetting a value nor dropping it early lets the GPU and the host meet in the same bytes.
#![allow(unsafe_code)] // Calls of the driver.

use std::fmt;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaEvent, result, sys};

use super::driver::failure;
use super::gpu::Gpu;
use super::shared::Shared;
use crate::error::{DeviceError, Error};

/// A block of page-locked memory.
pub(crate) struct Locked {
    start: *mut u8,
    len: usize,
    shared: Arc<Shared>,
    pub(super) copies: Mutex<Copies>,
}

// SAFETY: the block is owned; what the GPU does with it is kept apart from the host by `copies`.
unsafe impl Send for Locked {}
// SAFETY: as above; through a shared reference the bytes are only read.
unsafe impl Sync for Locked {}

/// What queues may still be doing with a block.
#[derive(Default)]
pub(super) struct Copies {
    /// Copies that read it.
    pub(super) reading: Vec<CudaEvent>,
    /// Copies that write it.
    pub(super) writing: Vec<CudaEvent>,
    /// Why a copy that was to write it has not ended well. Told to everyone who reads the bytes until they are made anew.
    torn: Option<DeviceError>,
}

impl Gpu {
    /// At least one byte of page-locked memory, all zero.
    pub(crate) fn lock_memory(&self, bytes: usize) -> Result<Locked, Error> {
        self.shared.enter()?;
        // For every context, so that it is as good for another GPU's copies.
        // SAFETY: a context is current; `Locked` gives the memory back.
        let start = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        let start = start.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let device = "the host, which this much memory cannot be locked on".into();
                DeviceError::OutOfMemory { device, what: "a pinned matrix".into(), bytes: bytes as u64 }
            }
            _ => self.shared.failed("cuMemHostAlloc", error),
        })?;
        let start = start.cast::<u8>();
        // SAFETY: the driver gave `bytes` bytes there, and nobody else knows them.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Locked { start, len: bytes, shared: self.shared.clone(), copies: Mutex::default() })
    }
}

/// Waits for each; the first error, if there is one. Nothing is under way after an error either: the context is dead.
fn wait_for(events: &mut Vec<CudaEvent>, shared: &Shared) -> Result<(), DeviceError> {
    let mut result = Ok(());
    for event in events.drain(..) {
        let Err(error) = event.synchronize() else { continue };
        // A queue of another GPU may have made the copy: that one is to blame, and not the one that gave the memory.
        let own = event.context().cu_ctx() == shared.context.cu_ctx();
        let call = "cuEventSynchronize";
        result = result.and(Err(match own {
            true => shared.failed(call, error),
            false => failure(call, "the GPU that copies", error),
        }));
    }
    result
}

impl Copies {
    fn end_writing(&mut self, shared: &Shared) {
        if let Err(error) = wait_for(&mut self.writing, shared) {
            self.torn.get_or_insert(error);
        }
    }

    fn end_all(&mut self, shared: &Shared) {
        self.end_writing(shared);
        // A copy to the device leaves the host's bytes as they are, whatever becomes of it.
        let _ = wait_for(&mut self.reading, shared);
    }

    fn whole(&self) -> Result<(), DeviceError> {
        self.torn.clone().map_or(Ok(()), Err)
    }
}

impl Locked {
    /// The bytes, after the copies that write them.
    pub(crate) fn bytes(&self) -> Result<&[u8], Error> {
        let bytes = self.bytes_whatever_happened();
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).whole()?;
        Ok(bytes)
    }

    /// The same, also if one of these copies has failed.
    pub(crate) fn bytes_whatever_happened(&self) -> &[u8] {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).end_writing(&self.shared);
        // SAFETY: the block is `len` initialised bytes. No copy writes it: those that did have ended, and another needs
        // `&mut self` to begin.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }

    /// The bytes, after every copy.
    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        let copies = self.copies.get_mut().unwrap_or_else(PoisonError::into_inner);
        copies.end_all(&self.shared);
        copies.whole()?;
        Ok(self.bytes_mut_whatever_happened())
    }

    /// The same, to be made anew.
    pub(crate) fn bytes_mut_whatever_happened(&mut self) -> &mut [u8] {
        self.idle().0
    }

    /// The bytes after every copy, and where to note the next.
    pub(super) fn idle(&mut self) -> (&mut [u8], &mut Copies) {
        let copies = self.copies.get_mut().unwrap_or_else(PoisonError::into_inner);
        copies.end_all(&self.shared);
        copies.torn = None;
        // SAFETY: the block is `len` initialised bytes, no copy touches it any more, and another needs a reference.
        (unsafe { slice::from_raw_parts_mut(self.start, self.len) }, copies)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.copies.get_mut().unwrap_or_else(PoisonError::into_inner).end_all(&self.shared);
        // In a dead context the driver takes nothing back; the memory stays the process's.
        if self.shared.enter().is_ok() {
            // SAFETY: `start` came from cuMemHostAlloc and is freed once; every copy has ended.
            let _ = unsafe { result::free_host(self.start.cast()) };
        }
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Locked({} bytes)", self.len)
    }
}
