//! Copies between the host and a GPU: as few per matrix as the driver allows, without the padding between its rows.

use std::ptr;

use cudarc::driver::sys::{self, CUmemorytype as MemoryType};

use crate::view::{AnyRef, HostBytes};

/// Runs of bytes at equal distances, at the same offsets on both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) offset: usize,
    /// The index of the first run.
    pub(super) first: usize,
    run: usize,
    runs: usize,
    pitch: usize,
}

/// The largest pitch that every driver copies (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
pub(super) const MAX_PITCH: usize = (1 << 31) - 1;

/// Splits an operand into pieces that one copy can move: each matrix as a whole, or run by run if the runs are too far
/// apart.
pub(super) fn pieces(matrix: AnyRef<'_>) -> Vec<Piece> {
    let (shape, element) = (matrix.shape, matrix.dtype.bytes() as usize);
    let (run, runs, pitch) = (shape.run() * element, shape.runs(), shape.ld * element);
    if shape.is_empty() {
        return Vec::new();
    }
    let one_slice = matches!(matrix.bytes, HostBytes::Slice(_));
    let of_one = |start: usize| {
        let whole = Piece { offset: start * element, first: 0, run, runs, pitch };
        match pitch <= MAX_PITCH {
            // Contiguous rows are one run: a copy row by row is slow if rows are short.
            _ if one_slice && run == pitch => vec![Piece { run: run * runs, runs: 1, pitch: run * runs, ..whole }],
            true => vec![whole],
            false => {
                let run = |i| Piece { offset: whole.offset + i * pitch, first: i, runs: 1, pitch: run, ..whole };
                (0..runs).map(run).collect()
            }
        }
    };
    matrix.products().flat_map(of_one).collect()
}

impl Piece {
    /// Whether a plain copy can move it. A strided copy limits the length of rows.
    pub(super) fn is_one_run(&self) -> bool {
        self.runs == 1
    }

    pub(super) fn span(&self) -> usize {
        (self.runs - 1) * self.pitch + self.run
    }

    pub(super) fn to_device(self, host: &[u8], device: u64) -> sys::CUDA_MEMCPY2D {
        sys::CUDA_MEMCPY2D {
            srcMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
            srcHost: host.as_ptr().cast(),
            dstMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
            dstDevice: device + self.offset as u64,
            ..self.copy()
        }
    }

    pub(super) fn to_host(self, device: u64, host: &mut [u8]) -> sys::CUDA_MEMCPY2D {
        sys::CUDA_MEMCPY2D {
            srcMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
            srcDevice: device + self.offset as u64,
            dstMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
            dstHost: host.as_mut_ptr().cast(),
            ..self.copy()
        }
    }

    /// The parts that both directions share.
    fn copy(self) -> sys::CUDA_MEMCPY2D {
        block(self.run, self.runs, self.pitch, self.pitch)
    }
}

/// A copy of `runs` runs of `run` bytes each, without its two ends.
pub(super) fn block(run: usize, runs: usize, from_pitch: usize, to_pitch: usize) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        srcHost: ptr::null(),
        srcDevice: 0,
        srcArray: ptr::null_mut(),
        srcPitch: from_pitch,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        dstHost: ptr::null_mut(),
        dstDevice: 0,
        dstArray: ptr::null_mut(),
        dstPitch: to_pitch,
        WidthInBytes: run,
        Height: runs,
    }
}
