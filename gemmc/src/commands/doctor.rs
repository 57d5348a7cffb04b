//! `gemmc doctor`: what this machine has to compile and run with.

use ptx_gemm::{Device, cuda};
use ptx_gemm_check::figures::Assembler;
use serde_json::{Value, json};

use crate::reply::Reply;

pub(crate) fn run() -> Reply {
    let mut text = format!("gemmc        {}\n", env!("CARGO_PKG_VERSION"));
    let interpreter = Device::interpreter();
    text.push_str(&format!("interpreter  {interpreter}, {}\n", simd()));
    let cuda = match cuda::status() {
        Ok(status) => {
            text.push_str(&format!("driver       CUDA {}, {} devices\n", status.driver, status.devices));
            let devices: Vec<Value> = (0..status.devices).map(|ordinal| device(ordinal, &mut text)).collect();
            json!({ "driver": status.driver, "devices": devices })
        }
        Err(error) => {
            text.push_str(&format!("driver       {error}\n"));
            json!({ "driver": null, "reason": error.to_string(), "devices": [] })
        }
    };
    let ptxas = Assembler::find();
    match &ptxas {
        Some(found) => text.push_str(&format!("ptxas        {} ({})\n", found.version(), found.path().display())),
        None => text.push_str("ptxas        not found (in $PTXAS or the path); nothing but its own figures needs it\n"),
    }
    let best = Device::best().map_or_else(|error| error.to_string(), |device| device.to_string());
    text.push_str(&format!("best device  {best}\n"));
    let ptxas = ptxas.map(|found| json!({ "path": found.path().to_string_lossy(), "version": found.version() }));
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "interpreter": { "name": interpreter.to_string(), "simd": simd() },
        "cuda": cuda,
        "ptxas": ptxas,
        "best_device": best,
    });
    Reply::fine(text, json)
}

fn device(ordinal: usize, text: &mut String) -> Value {
    match Device::cuda(ordinal) {
        Ok(device) => {
            let limits = device.limits();
            let target = limits.target.map(|target| target.to_string());
            let shown = target.as_deref().unwrap_or("?");
            let shared = limits.shared_bytes;
            text.push_str(&format!("             {device}, {shown}, {shared} bytes of shared memory a block\n"));
            json!({ "name": device.name(), "target": target, "shared_bytes": shared, "threads": limits.threads })
        }
        Err(error) => {
            text.push_str(&format!("             CUDA device {ordinal}: {error}\n"));
            json!({ "error": error.to_string() })
        }
    }
}

/// The widest vectors of this machine's processor that the interpreter uses.
fn simd() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    let found = match () {
        () if is_x86_feature_detected!("avx512f") => "AVX-512",
        () if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => "AVX2 and FMA",
        () => "SSE2 only, which is slow",
    };
    #[cfg(target_arch = "aarch64")]
    let found = "NEON";
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found = "no vector instructions";
    found
}
