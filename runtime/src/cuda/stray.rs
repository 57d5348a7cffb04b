//! A launch that goes wrong, to show what follows: no part of the interface.
#![allow(unsafe_code)] // The wrong pointer is the point.

use crate::compiled::{CompiledGemm, DeviceCall};
use crate::error::Error;
use crate::prepared::{Prepared, ResidentCall};

/// An address in the first pages, which no driver gives to anybody.
const NOBODYS: u64 = 0x1000;

/// The same call, with A where nothing is: a GPU that runs it ends its context for this process, the interpreter names the
/// instruction.
#[doc(hidden)]
pub fn prepare_stray<'a>(gemm: &CompiledGemm, call: &ResidentCall<'a, '_>) -> Result<Prepared<'a>, Error> {
    call.check(gemm.problem(), gemm.device())?;
    let mut call: DeviceCall<'_> = call.on_device();
    call.a.address = NOBODYS;
    // SAFETY: the other matrices are borrowed for as long as the launch can be asked for. Reading A is an error of the
    // device's, which touches no memory of this process.
    unsafe { gemm.prepare(&call) }
}
