//! Matrices in page-locked memory: accepted wherever a `Matrix` is, under the same rules.

use ptx_gemm_dsl::{Layout, Schedule};
use ptx_gemm_runtime::{
    ArgumentError, CompiledGemm, Device, DeviceError, Error, Matrix, MatrixMut, MatrixRef, PinnedMatrix, Shape,
};

fn compiled(clauses: &str, device: &Device) -> CompiledGemm {
    let schedule: Schedule = clauses.parse().unwrap();
    CompiledGemm::new(&schedule, device).unwrap()
}

/// Every available device: the claims below also hold on a GPU.
fn devices() -> Vec<Device> {
    Device::cuda(0).into_iter().chain([Device::interpreter()]).collect()
}

#[test]
fn pinned_operands_give_the_bits_of_others() {
    for device in devices() {
        let gemm = compiled(
            "tile(16, 16, 8); thread(2, 4); layout(b = col); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);",
            &device,
        );
        let a = Matrix::<f32>::random(33, 20, 1).with_ld(23, f32::NAN);
        let b = Matrix::<f32>::random(20, 17, 2).to_layout(Layout::Col);
        let c = Matrix::<f32>::random(33, 17, 3);
        let mut expected = Matrix::in_shape(Shape { rows: 33, cols: 17, layout: Layout::Row, ld: 19 }, -1.0f32);
        let mut d = device.pin(&expected).unwrap();
        gemm.c(&c).set("alpha", 2).set("beta", -1).multiply_into(&a, &b, &mut expected).unwrap();
        let (a, b, c) = (device.pin(&a).unwrap(), device.pin(&b).unwrap(), device.pin(&c).unwrap());
        gemm.c(&c).set("alpha", 2).set("beta", -1).multiply_into(&a, &b, &mut d).unwrap();
        assert_eq!(d.as_slice().unwrap(), expected.as_slice(), "{device}");
        assert_eq!((d.rows(), d.cols(), d.shape()), (33, 17, expected.shape()));
        // One device's memory is an operand on the other device.
        let elsewhere: Matrix<f32> =
            gemm.in_interpreter().unwrap().c(&c).set("alpha", 2).set("beta", -1).multiply(&a, &b).unwrap();
        assert_eq!((elsewhere.rows(), elsewhere.cols()), (33, 17));
        assert!((0..33).all(|row| (0..17).all(|col| elsewhere.get(row, col) == expected.get(row, col))));
    }
}

#[test]
fn what_is_uploaded_comes_back() {
    for device in devices() {
        let first = Matrix::<f32>::random(7, 5, 1).with_ld(6, 0.5);
        let second = device.pin(&Matrix::<f32>::random(7, 5, 2).with_ld(6, 0.5)).unwrap();
        let resident = device.upload(&first).unwrap();
        let mut back = device.pinned(first.shape(), 0.5f32).unwrap();
        resident.download(&mut back).unwrap();
        assert_eq!(back.as_slice().unwrap(), first.as_slice());
        resident.overwrite(&second).unwrap();
        resident.download(&mut back).unwrap();
        assert_eq!(back.as_slice().unwrap(), second.as_slice().unwrap());
    }
}

#[test]
fn copies_are_between_equals() {
    for device in devices() {
        let resident = device.upload(&Matrix::<f32>::zeros(4, 3)).unwrap();
        let refused = |result: Result<(), Error>, words: &str| assert_eq!(result.unwrap_err().to_string(), words);
        let here = "f32, 4 x 3, row major, ld = 3 on the device: a copy is between equal types and shapes";
        refused(
            resident.download(&mut Matrix::<f32>::zeros(3, 4)),
            &format!("f32, 3 x 4, row major, ld = 4 on the host, {here}"),
        );
        refused(
            resident.overwrite(&Matrix::<i32>::zeros(4, 3)),
            &format!("i32, 4 x 3, row major, ld = 3 on the host, {here}"),
        );
        refused(
            resident.overwrite(&device.pinned(Shape::packed(4, 3, Layout::Col), 0.0f32).unwrap()),
            &format!("f32, 4 x 3, col major, ld = 4 on the host, {here}"),
        );
        for (elements, ld, needed) in [(11, 3, 12), (12, 4, 15), (12, 2, 9), (0, usize::MAX, usize::MAX)] {
            let answer = device.upload(&MatrixRef::new(&[0.0f32; 12][..elements], 4, 3).ld(ld));
            let is_right = matches!(&answer, Err(Error::Argument(ArgumentError::NoMatrix { got, needed: n, .. }))
                if (*got, *n) == (elements, needed));
            assert!(is_right, "{elements} elements, ld = {ld}: {answer:?}");
        }
        let short = resident.download(&mut MatrixMut::new(&mut [0.0f32; 11], 4, 3));
        assert!(
            matches!(short, Err(Error::Argument(ArgumentError::NoMatrix { got: 11, needed: 12, .. }))),
            "{short:?}"
        );
    }
}

#[test]
fn shapes_are_those_of_a_matrix() {
    for device in devices() {
        for (rows, cols, ld) in [(0, 5, 0), (5, 0, 0), (0, 0, 7), (3, 4, 0), (3, 4, 9)] {
            let shape = Shape { rows, cols, layout: Layout::Col, ld };
            let pinned = device.pinned(shape, 7u8).unwrap();
            let matrix = Matrix::in_shape(shape, 7u8);
            assert_eq!((pinned.shape(), pinned.as_slice().unwrap()), (matrix.shape(), matrix.as_slice()));
        }
        for (rows, cols) in [(usize::MAX, 2), (1 << 62, 1), (1 << 33, 1 << 25)] {
            let huge = device.pinned(Shape::packed(rows, cols, Layout::Row), 0.0f64);
            assert!(matches!(huge, Err(Error::Device(DeviceError::OutOfMemory { .. }))), "{huge:?}");
        }
    }
}

#[test]
fn pinned_matrices_go_from_thread_to_thread() {
    let device = Device::interpreter();
    let mut pinned: PinnedMatrix<f64> = device.pinned(Shape::packed(2, 2, Layout::Row), 1.0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| pinned.as_mut_slice().unwrap()[3] = 4.0);
    });
    assert_eq!(pinned.as_slice().unwrap(), [1.0, 1.0, 1.0, 4.0]);
}
