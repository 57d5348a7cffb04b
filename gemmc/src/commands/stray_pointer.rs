//! `gemmc stray-pointer`, for `gemmc selftest` alone: a kernel reads an unmapped address, which ends the GPU's context
//! for this process, and therefore needs a separate process.

#![allow(unsafe_code)] // The wrong pointer is the point.

use ptx_gemm::cuda::Queue;
use ptx_gemm::{CompiledGemm, Device, DeviceCall, DeviceError, Error, Layout, Matrix, PinnedMatrix, Schedule, Shape};
use serde_json::json;

use crate::cli::StrayPointer;
use crate::reply::{Failure, Reply, Status};

/// An address in the first pages, which no driver ever allocates.
const NOBODYS: u64 = 0x1000;

const CLAUSES: &str = "tile(32, 32, 8); thread(4, 4); vector(4);";

pub(crate) fn run(args: &StrayPointer) -> Result<Reply, Failure> {
    let device = args.device.open(0)?;
    let found = die(&device)?;
    let (text, status) = match found {
        Ok(words) => (words, Status::Fine),
        Err(words) => (words, Status::Wrong),
    };
    let json = json!({ "ok": status == Status::Fine, "words": text });
    Ok(Reply { text: text + "\n", json, status })
}

/// The observation, or what was expected instead.
type Seen = Result<String, String>;

fn die(device: &Device) -> Result<Seen, Error> {
    let gemm = CompiledGemm::new(&CLAUSES.parse::<Schedule>()?, device)?;
    let ones = device.pin(&Matrix::<f32>::from_fn(4, 4, |_, _| 1.0))?;
    let mut back = device.pinned(Shape::packed(4, 4, Layout::Row), 0.0f32)?;
    let [a, b, d] = [device.upload(&ones)?, device.upload(&ones)?, device.upload(&ones)?];
    let queue = Queue::new(device)?;
    let mut stray = a.matrix();
    stray.address = NOBODYS;
    let call = DeviceCall { a: stray, b: b.matrix(), c: None, d: d.matrix(), vectors: &[], scalars: &[] };
    // SAFETY: B and D outlive the launch below, which is waited for. Reading A is an error on the device, which does
    // not touch memory of this process.
    let prepared = unsafe { gemm.prepare(&call) }?;
    queue.launch(&prepared)?;
    // Queued after the launch, before the error is known. An error may be reported here or below.
    let begun = queue.download(&d, &mut back);
    // A copy that has not started leaves the matrix unchanged and readable.
    let torn = begun.is_ok().then_some(&back);
    let read = begun.and_then(|()| back.as_slice().map(drop));
    if !matches!(read, Err(Error::Device(DeviceError::ContextDead { .. }))) {
        return Ok(Err(format!("a result after the launch: {read:?}")));
    }
    Ok(afterwards(&gemm, &ones, torn))
}

/// The device is dead and reports it at once; the host's own data are unchanged, and the interpreter takes over.
fn afterwards(gemm: &CompiledGemm, ones: &PinnedMatrix<f32>, torn: Option<&PinnedMatrix<f32>>) -> Seen {
    let is_dead = |error: &Error| {
        matches!(error, Error::Device(DeviceError::ContextDead { .. } | DeviceError::ContextLost { .. }))
    };
    let again = torn.map(|matrix| ("the result again", matrix.as_slice().map(drop)));
    let calls = [
        ("a product", gemm.multiply_as::<f32>(ones, ones).map(drop)),
        ("an upload", gemm.device().upload(ones).map(drop)),
    ];
    for (what, answer) in calls.into_iter().chain(again) {
        match answer {
            Err(error) if is_dead(&error) => {}
            other => return Err(format!("{what} after that: {other:?}")),
        }
    }
    let intact = ones.as_slice().map(|elements| elements == [1.0; 16]);
    if intact != Ok(true) {
        return Err(format!("pinned memory after that: {intact:?}"));
    }
    let watched = gemm.call().in_interpreter().and_then(|call| call.multiply_as::<f32>(ones, ones));
    match watched {
        Ok(d) if d.as_slice() == [4.0; 16] => Ok(
            "the context's death is reported where the result is read, later calls fail at once, pinned memory is as it \
                was, and the interpreter has the result"
                .into(),
        ),
        other => Err(format!("the call in the interpreter: {other:?}")),
    }
}
