//! The driver's two ways from PTX to machine code: its linker, which returns a cubin that can be stored, and loading the text.
//!
//! The linker assembles PTX as one of several compilation units. Then ptxas ignores `setmaxnreg` (C7504), so that a thread of 384
//! has 168 registers whatever `registers` says. Where more are needed, for two tiles of `wgmma` wider than 136 columns, it
//! spills and serialises the products (C7511), which takes ten times as long. Loaded as text, a module is assembled as a whole; the
//! driver stores such machine code itself.
#![allow(unsafe_code)] // Calls of the driver.

use std::ffi::{c_uint, c_void};
use std::ptr;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUjit_option as Option_};

use super::driver::code;
use crate::error::DeviceError;
use crate::kernel::Kernel;
use crate::versions;

/// Bytes of log kept.
const LOG: usize = 16 << 10;

/// Whether PTX has to be assembled as a whole, which the linker does not do.
pub(super) fn is_whole(ptx: &str) -> bool {
    ptx.contains("setmaxnreg")
}

/// A linker, which is destroyed on every path.
struct Linker(sys::CUlinkState);

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: the state came from cuLinkCreate and is destroyed once.
        let _ = unsafe { sys::cuLinkDestroy(self.0) };
    }
}

/// Links PTX text for the device of the current context.
pub(super) fn cubin(kernel: &Kernel, driver: &str) -> Result<Vec<u8>, DeviceError> {
    known_to(driver, kernel, || assemble(kernel.ptx()))
}

/// Loads PTX text into the current context, assembled as a whole.
pub(super) fn module(kernel: &Kernel, driver: &str) -> Result<sys::CUmodule, DeviceError> {
    let ptx = kernel.ptx();
    known_to(driver, kernel, || load(ptx, None).map_err(|(error, log)| refused(error, &log, ptx)))
}

/// What `make` makes of the kernel's PTX, or an error that names both versions if the driver is older than it.
fn known_to<T>(driver: &str, kernel: &Kernel, make: impl FnOnce() -> Result<T, DeviceError>) -> Result<T, DeviceError> {
    let version = kernel.module().version;
    versions::check(version, driver)?;
    make().map_err(|error| match error {
        DeviceError::Link { code, .. } if code == UNSUPPORTED_VERSION => versions::too_old(version, driver),
        other => other,
    })
}

/// The driver's error code for PTX that is newer than the driver.
const UNSUPPORTED_VERSION: &str = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";

/// The same for any text, for the device of the current context.
pub(super) fn assemble(ptx: &str) -> Result<Vec<u8>, DeviceError> {
    let mut log = vec![0u8; LOG];
    link(ptx, &mut log).map_err(|error| refused(error, &text(&log), ptx))
}

fn refused(error: DriverError, log: &str, ptx: &str) -> DeviceError {
    DeviceError::Link { code: code(error), log: cited(log, ptx) }
}

/// The log up to its end.
fn text(log: &[u8]) -> String {
    String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default()).trim().to_string()
}

/// Loads any PTX text into the current context, at this level of optimisation; an error comes with the assembler's log.
pub(super) fn load(ptx: &str, level: Option<u32>) -> Result<sys::CUmodule, (DriverError, String)> {
    let mut log = vec![0u8; LOG];
    let mut options = vec![Option_::CU_JIT_ERROR_LOG_BUFFER, Option_::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver expects integers in place of pointers here.
    let mut values = vec![log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    if let Some(level) = level {
        options.push(Option_::CU_JIT_OPTIMIZATION_LEVEL);
        values.push(level as usize as *mut c_void);
    }
    // The driver reads PTX as a string that ends in 0.
    let mut bytes = ptx.as_bytes().to_vec();
    bytes.push(0);
    let mut module = ptr::null_mut();
    // SAFETY: the text ends in 0; options, values and log outlive the call.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            bytes.as_ptr().cast(),
            options.len() as c_uint,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    loaded.result().map(|()| module).map_err(|error| (error, text(&log)))
}

/// The assembler's log, with the PTX line after each line number that it names. The line's note says which clause it
/// comes from.
fn cited(log: &str, ptx: &str) -> String {
    let mut out = String::new();
    for line in log.lines() {
        let number = line.split_once("line ").map_or("", |(_, rest)| rest);
        let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let index = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        out.push_str(line);
        out.push('\n');
        if let Some(source) = index.and_then(|index| ptx.lines().nth(index)) {
            out.push_str(&format!("    {}\n", source.trim()));
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn link(ptx: &str, log: &mut [u8]) -> Result<Vec<u8>, DriverError> {
    let mut options = [Option_::CU_JIT_ERROR_LOG_BUFFER, Option_::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver expects integers in place of pointers here.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let mut state = ptr::null_mut();
    // The driver reads PTX as a string that ends in 0.
    let mut text = ptx.as_bytes().to_vec();
    text.push(0);
    // SAFETY: options, values, log and text outlive the linker, and its pointers go nowhere else; the driver keeps the
    // log's address until the linker is destroyed, at the end of this function. The cubin belongs to the linker and is
    // copied before that.
    unsafe {
        let count = options.len() as c_uint;
        sys::cuLinkCreate_v2(count, options.as_mut_ptr(), values.as_mut_ptr(), &mut state).result()?;
        let linker = Linker(state);
        sys::cuLinkAddData_v2(
            linker.0,
            sys::CUjitInputType::CU_JIT_INPUT_PTX,
            text.as_mut_ptr().cast(),
            text.len(),
            c"gemm.ptx".as_ptr(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        )
        .result()?;
        let (mut image, mut bytes) = (ptr::null_mut(), 0);
        sys::cuLinkComplete(linker.0, &mut image, &mut bytes).result()?;
        Ok(std::slice::from_raw_parts(image.cast::<u8>(), bytes).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::cited;

    #[test]
    fn the_log_quotes_the_ptx_and_its_clause() {
        let ptx = "first\n    second;   //@ vector(4): load A\nthird\n";
        for (log, words) in [
            (
                "ptxas gemm.ptx, line 2; error   : no such thing\nptxas fatal   : aborted",
                "ptxas gemm.ptx, line 2; error   : no such thing\n    second;   //@ vector(4): load A\nptxas fatal   : aborted",
            ),
            ("line 0; line 9", "line 0; line 9"),
            ("line 18446744073709551616", "line 18446744073709551616"),
            ("", ""),
        ] {
            assert_eq!(cited(log, ptx), words);
        }
    }
}
