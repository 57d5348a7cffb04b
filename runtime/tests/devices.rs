//! Several devices in one process. Interpreters act as GPUs: each has its own memory.

use ptx_gemm_dsl::Schedule;
use ptx_gemm_runtime::{
    ArgumentError, CompiledGemm, Device, DeviceError, DeviceKind, Error, InterpreterOptions, Matrix, ResidentCall, cuda,
};

fn another() -> Device {
    Device::interpreter_with(InterpreterOptions::default())
}

fn compiled(device: &Device) -> CompiledGemm {
    let schedule: Schedule = "tile(16, 16, 8); thread(2, 4); epilogue(|acc, c, beta| acc + beta * c);".parse().unwrap();
    CompiledGemm::new(&schedule, device).unwrap()
}

#[test]
fn every_number_is_a_device_or_a_typed_error() {
    let count = cuda::status().map_or(0, |status| status.devices);
    for ordinal in (0..count + 3).chain([255, 1 << 31, 1 << 32, usize::MAX]) {
        match Device::cuda(ordinal) {
            Ok(device) => assert!(ordinal < count && device.kind() == DeviceKind::Cuda(ordinal), "{device}"),
            Err(Error::Device(DeviceError::NoSuchDevice { ordinal: asked, count: known })) => {
                assert_eq!((asked, known), (ordinal, count));
                assert!(ordinal >= count);
            }
            Err(Error::Device(DeviceError::NoCuda { .. })) => assert_eq!(count, 0),
            Err(other) => panic!("{ordinal}: {other:?}"),
        }
    }
}

#[test]
fn matrices_of_another_device_are_refused() {
    let (here, there) = (another(), another());
    let gemm = compiled(&here);
    let upload = |device: &Device| device.upload(&Matrix::<f32>::zeros(4, 4)).unwrap();
    let [a, b, c, d] = [0; 4].map(|_| upload(&here));
    let far = upload(&there);
    let scalars = [("beta", 1.0)];
    let call = ResidentCall { a: &a, b: &b, c: Some(&c), d: &d, vectors: &[], scalars: &scalars };
    for (call, name) in [
        (ResidentCall { a: &far, ..call }, "A"),
        (ResidentCall { b: &far, ..call }, "B"),
        (ResidentCall { c: Some(&far), ..call }, "C"),
        (ResidentCall { d: &far, ..call }, "D"),
    ] {
        let error = gemm.prepare_resident(&call).unwrap_err();
        assert!(matches!(error, Error::Argument(ArgumentError::OtherDevice { .. })), "{error:?}");
        let words = error.to_string();
        assert!(words.starts_with(&format!("{name} is in the memory of ")), "{words}");
    }
    assert!(gemm.prepare_resident(&call).is_ok());
    // A clone is the same device, and another kernel on it reads the same memory.
    assert!(compiled(&here.clone()).prepare_resident(&call).is_ok());
    let replayed = gemm.in_interpreter().unwrap();
    let error = replayed.prepare_resident(&call).unwrap_err();
    assert!(matches!(error, Error::Argument(ArgumentError::OtherDevice { .. })), "{error:?}");
}

#[test]
fn devices_work_side_by_side() {
    let devices = [another(), another(), Device::interpreter()];
    let (a, b) = (Matrix::<f32>::random(50, 40, 1), Matrix::<f32>::random(40, 30, 2));
    let expected: Matrix<f32> = compiled(&Device::interpreter()).set("beta", 0).multiply(&a, &b).unwrap();
    std::thread::scope(|scope| {
        for device in devices.iter().cycle().take(9) {
            scope.spawn(|| {
                let gemm = compiled(device);
                for _ in 0..4 {
                    let resident = device.upload(&a).unwrap();
                    let mut back = Matrix::<f32>::zeros(50, 40);
                    resident.download(&mut back).unwrap();
                    assert_eq!(gemm.set("beta", 0).multiply_as::<f32>(&back, &b).unwrap(), expected);
                }
            });
        }
    });
}
