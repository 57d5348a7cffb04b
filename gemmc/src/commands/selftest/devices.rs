//! Several GPUs in one process: each on its own, mixed, and all at the same time.

use ptx_gemm::cuda::Queue;
use ptx_gemm::{
    ArgumentError, CompiledGemm, Device, DeviceError, DeviceKind, Error, Layout, Matrix, ResidentCall, Shape,
};

use super::claims::{Answer, Trouble, expect};
use super::inputs::{CLAUSES, compiled, ones};

const SIZE: (usize, usize, usize) = (531, 275, 140);
/// Products on each device while the others run theirs.
const ROUNDS: usize = 50;

pub(crate) fn all(count: usize) -> Answer {
    let devices = (0..count).map(Device::cuda).collect::<Result<Vec<_>, _>>()?;
    for (ordinal, device) in devices.iter().enumerate() {
        let kind = device.kind();
        expect(kind == DeviceKind::Cuda(ordinal), || format!("device {ordinal} says that it is {kind:?}"))?;
    }
    let beyond = Device::cuda(count);
    let refused = matches!(
        beyond,
        Err(Error::Device(DeviceError::NoSuchDevice { ordinal, count: known })) if ordinal == count && known == count
    );
    expect(refused, || format!("device {count} of {count}: {beyond:?}"))?;
    for pair in devices.windows(2) {
        mixed(&pair[0], &pair[1])?;
        mixed(&pair[1], &pair[0])?;
    }
    let elements = at_once(&devices)?;
    let names: Vec<String> = devices.iter().map(Device::to_string).collect();
    Ok(format!(
        "{}: {ROUNDS} products each at the same time, {elements} elements with the interpreter's bits",
        names.join(", ")
    ))
}

/// Matrices, queues and kernels of one device with those of another are rejected before a launch, without harm. Pinned
/// memory can be used with every device.
fn mixed(one: &Device, other: &Device) -> Result<(), Trouble> {
    let gemm = compiled(CLAUSES, one)?;
    let [a, b, d] = [one.upload(&ones(4, 4))?, one.upload(&ones(4, 4))?, one.upload(&ones(4, 4))?];
    let far = other.upload(&ones(4, 4))?;
    for (a, b, d) in [(&far, &b, &d), (&a, &far, &d), (&a, &b, &far)] {
        let answer = gemm.prepare_resident(&ResidentCall { a, b, c: None, d, vectors: &[], scalars: &[] });
        let refused = matches!(answer, Err(Error::Argument(ArgumentError::OtherDevice { .. })));
        expect(refused, || format!("a matrix of {other} for a kernel of {one}: {answer:?}"))?;
    }
    let ready = gemm.prepare_resident(&ResidentCall { a: &a, b: &b, c: None, d: &d, vectors: &[], scalars: &[] })?;
    let (near_queue, far_queue) = (Queue::new(one)?, Queue::new(other)?);
    let mut pinned = other.pinned(Shape::packed(4, 4, Layout::Row), 2.0f32)?;
    let mistakes = [
        ("a launch", far_queue.launch(&ready)),
        ("an upload", far_queue.upload(&pinned, &a)),
        ("a download", far_queue.download(&a, &mut pinned)),
    ];
    for (what, answer) in mistakes {
        let refused = matches!(answer, Err(Error::Device(DeviceError::OtherContext { .. })));
        expect(refused, || format!("{what} of {one} on a queue of {other}: {answer:?}"))?;
    }
    near_queue.upload(&pinned, &a)?;
    near_queue.launch(&ready)?;
    near_queue.download(&d, &mut pinned)?;
    expect(pinned.as_slice()? == [8.0; 16], || format!("after these, {one} computes {:?}", pinned.as_slice()))
}

/// Each device in its own thread, with every way of getting results.
fn at_once(devices: &[Device]) -> Result<usize, Trouble> {
    let (m, n, k) = SIZE;
    let (a, b) = (Matrix::<f32>::random(m, k, 1), Matrix::<f32>::random(k, n, 2));
    let expected: Matrix<f32> = compiled(CLAUSES, &Device::interpreter())?.multiply(&a, &b)?;
    let work = |device: &Device| -> Result<usize, Error> {
        let gemm: CompiledGemm = compiled(CLAUSES, device)?;
        let (on_a, on_b, on_d) = (device.upload(&a)?, device.upload(&b)?, device.upload(&Matrix::<f32>::zeros(m, n))?);
        let queue = Queue::new(device)?;
        let ready =
            gemm.prepare_resident(&ResidentCall { a: &on_a, b: &on_b, c: None, d: &on_d, vectors: &[], scalars: &[] })?;
        let mut back = device.pinned(expected.shape(), 0.0f32)?;
        let mut wrong = 0;
        for _ in 0..ROUNDS {
            let d: Matrix<f32> = gemm.multiply(&a, &b)?;
            wrong += usize::from(d != expected);
            queue.launch(&ready)?;
            queue.download(&on_d, &mut back)?;
            wrong += usize::from(back.as_slice()? != expected.as_slice());
        }
        Ok(wrong)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = devices.iter().map(|device| scope.spawn(|| work(device))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for (device, result) in devices.iter().zip(results) {
        let wrong = result.map_err(|_| Trouble::Wrong(format!("the thread of {device} panicked")))??;
        expect(wrong == 0, || format!("{device}: {wrong} of {} results are not the interpreter's", 2 * ROUNDS))?;
    }
    Ok(devices.len() * 2 * ROUNDS * m * n)
}
