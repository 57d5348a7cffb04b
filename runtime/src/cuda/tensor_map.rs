//! Tensor maps, encoded by the driver.
#![allow(unsafe_code)] // Calls of the driver.

use std::ffi::c_void;
use std::sync::LazyLock;

use cudarc::driver::sys;
use libloading::Library;
use ptx_gemm_interp::TensorMapArgs;

use super::shared::Shared;
use crate::error::{DeviceError, Error};

/// Encodes a tensor map with the driver of a context.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE`, whatever is wrong with it; [`DeviceError::NoTensorMaps`] if the driver has none.
pub(super) fn encode(shared: &Shared, args: &TensorMapArgs) -> Result<[u8; 128], Error> {
    shared.enter()?;
    let rank = args.rank as usize;
    // The driver reads one element of each array per dimension; missing elements would be read out of bounds.
    let lengths = [args.dims.len(), args.strides.len() + 1, args.box_dims.len(), args.element_strides.len()];
    let invalid = || DeviceError::Driver {
        call: "cuTensorMapEncodeTiled",
        device: shared.name().into(),
        code: "CUDA_ERROR_INVALID_VALUE".into(),
    };
    if lengths.iter().any(|length| *length < rank) {
        return Err(invalid().into());
    }
    // The driver requires maps at multiples of 64 bytes.
    #[repr(align(64))]
    struct Aligned([u64; 16]);
    let mut map = Aligned([0; 16]);
    let encode = ENCODE_TILED.ok_or_else(|| DeviceError::NoTensorMaps { device: shared.name().into() })?;
    // SAFETY: the function is the driver's and has this signature; the arrays have an element for each dimension, and
    // the driver writes the 128 bytes of the map.
    let made = unsafe {
        encode(
            map.0.as_mut_ptr().cast(),
            args.data_type,
            args.rank,
            args.address,
            args.dims.as_ptr(),
            args.strides.as_ptr(),
            args.box_dims.as_ptr(),
            args.element_strides.as_ptr(),
            args.interleave,
            args.swizzle,
            args.l2_promotion,
            args.oob_fill,
        )
    };
    if made != 0 {
        return Err(invalid().into());
    }
    let mut bytes = [0; 128];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(map.0) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

/// `cuTensorMapEncodeTiled`, with plain numbers in place of its enumerations: invalid numbers are also passed to the
/// driver, and would not be values of a Rust enumeration.
type EncodeTiled = unsafe extern "C" fn(
    map: *mut c_void,
    data_type: u32,
    rank: u32,
    address: u64,
    dims: *const u64,
    strides: *const u64,
    box_dims: *const u32,
    element_strides: *const u32,
    interleave: u32,
    swizzle: u32,
    l2_promotion: u32,
    oob_fill: u32,
) -> u32;

/// Looked up once, by `encode`. Its context means that the driver is loaded.
// SAFETY: getting the library only opens it, which `driver::status` has tried.
static ENCODE_TILED: LazyLock<Option<EncodeTiled>> = LazyLock::new(|| encode_tiled(unsafe { sys::culib() }));

/// The function in a driver's library. It is not called through cudarc, which panics if the symbol is absent. Drivers
/// have the symbol since CUDA 12.0.
fn encode_tiled(driver: &Library) -> Option<EncodeTiled> {
    // SAFETY: the driver API's declaration of this function, CUDA 12.0 and later; see the type.
    unsafe { driver.get::<EncodeTiled>(b"cuTensorMapEncodeTiled\0") }.ok().map(|function| *function)
}

#[cfg(all(test, unix))]
mod tests {
    use libloading::os::unix::Library;

    /// This program's own symbols do not include those of a driver.
    #[test]
    fn a_library_without_tensor_maps_has_none() {
        assert!(super::encode_tiled(&Library::this().into()).is_none());
    }
}
