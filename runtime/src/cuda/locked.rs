//! Page-locked host memory, and the copies of it that may be in flight.
//!
//! The driver allocates and frees the memory. Every block keeps an event for each copy that may still be in flight, and
//! waits for these before the host accesses the same bytes. A copy can therefore be queued by reference: neither
//! forgetting a value nor dropping it early lets the GPU and the host access the same bytes concurrently.
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

// SAFETY: the block is owned; `copies` keeps accesses of the GPU apart from those of the host.
unsafe impl Send for Locked {}
// SAFETY: as above; through a shared reference the bytes are only read.
unsafe impl Sync for Locked {}

/// Copies of a block that may still be in flight.
#[derive(Default)]
pub(super) struct Copies {
    /// Copies that read it.
    pub(super) reading: Vec<CudaEvent>,
    /// Copies that write it.
    pub(super) writing: Vec<CudaEvent>,
    /// Why a copy to it failed. Every read of the bytes reports the error, until they are overwritten.
    torn: Option<DeviceError>,
}

impl Gpu {
    /// At least one byte of page-locked memory, all zero.
    pub(crate) fn lock_memory(&self, bytes: usize) -> Result<Locked, Error> {
        self.shared.enter()?;
        // Portable to every context, so that copies of another GPU can use it as well.
        // SAFETY: a context is current; `Locked` frees the memory.
        let start = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        let start = start.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let device = "the host, which this much memory cannot be locked on".into();
                DeviceError::OutOfMemory { device, what: "a pinned matrix".into(), bytes: bytes as u64 }
            }
            _ => self.shared.failed("cuMemHostAlloc", error),
        })?;
        let start = start.cast::<u8>();
        // SAFETY: the driver allocated `bytes` bytes there, and nothing else refers to them.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Locked { start, len: bytes, shared: self.shared.clone(), copies: Mutex::default() })
    }
}

/// Waits for each; returns the first error, if any. Nothing is in flight after an error either: the context is dead.
fn wait_for(events: &mut Vec<CudaEvent>, shared: &Shared) -> Result<(), DeviceError> {
    let mut result = Ok(());
    for event in events.drain(..) {
        let Err(error) = event.synchronize() else { continue };
        // A queue of another GPU may have made the copy: the error belongs to that GPU, and not to the one that
        // allocated the memory.
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
        // A copy to the device leaves the host's bytes unchanged, even if it fails.
        let _ = wait_for(&mut self.reading, shared);
    }

    fn whole(&self) -> Result<(), DeviceError> {
        self.torn.clone().map_or(Ok(()), Err)
    }
}

impl Locked {
    /// The bytes, after waiting for the copies that write them.
    pub(crate) fn bytes(&self) -> Result<&[u8], Error> {
        let bytes = self.bytes_whatever_happened();
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).whole()?;
        Ok(bytes)
    }

    /// The same, even if one of these copies has failed.
    pub(crate) fn bytes_whatever_happened(&self) -> &[u8] {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).end_writing(&self.shared);
        // SAFETY: the block is `len` initialised bytes. No copy writes it: earlier ones have ended, and a new one needs
        // `&mut self`.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }

    /// The bytes, after waiting for every copy.
    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        let copies = self.copies.get_mut().unwrap_or_else(PoisonError::into_inner);
        copies.end_all(&self.shared);
        copies.whole()?;
        Ok(self.bytes_mut_whatever_happened())
    }

    /// The same, to be overwritten.
    pub(crate) fn bytes_mut_whatever_happened(&mut self) -> &mut [u8] {
        self.idle().0
    }

    /// The bytes, after waiting for every copy, and the list that the next copy is added to.
    pub(super) fn idle(&mut self) -> (&mut [u8], &mut Copies) {
        let copies = self.copies.get_mut().unwrap_or_else(PoisonError::into_inner);
        copies.end_all(&self.shared);
        copies.torn = None;
        // SAFETY: the block is `len` initialised bytes, no copy accesses it any more, and a new one needs a reference.
        (unsafe { slice::from_raw_parts_mut(self.start, self.len) }, copies)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.copies.get_mut().unwrap_or_else(PoisonError::into_inner).end_all(&self.shared);
        // In a dead context the driver frees nothing; the memory stays with the process.
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
