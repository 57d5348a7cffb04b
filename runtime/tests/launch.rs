//! The arguments that a launch rejects, with the messages, and those that it accepts.

use ptx_gemm_dsl::{DType, Layout, Schedule};
use ptx_gemm_runtime::{
    ArgumentError, CompiledGemm, Device, DeviceCall, DeviceError, Error, InterpreterOptions, Matrix, MatrixBatch,
    MatrixMut, MatrixRef, Shape,
};

const CLAUSES: &str = "tile(16, 16, 8); thread(2, 4); vector(4);";
const ALPHA_BETA: &str = "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);";
const BIAS: &str = "epilogue(|acc, bias, scale| scale * acc + bias[n]);";

fn compiled(clauses: &str) -> CompiledGemm {
    compiled_on(clauses, &Device::interpreter())
}

fn compiled_on(clauses: &str, device: &Device) -> CompiledGemm {
    let schedule: Schedule = clauses.parse().unwrap();
    CompiledGemm::new(&schedule, device).unwrap()
}

fn ones(rows: usize, cols: usize) -> Matrix<f32> {
    Matrix::from_fn(rows, cols, |_, _| 1.0)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Argument(_)), "{error:?}");
    assert_eq!(error.to_string(), words);
}

#[test]
fn shapes_must_agree() {
    let gemm = compiled(CLAUSES);
    let multiply = |a: &Matrix<f32>, b: &Matrix<f32>| gemm.multiply_as::<f32>(a, b);
    refused(multiply(&ones(2, 3), &ones(4, 5)), "B is 4 x 5, and A is 2 x 3: B needs 3 rows");
    refused(
        multiply(&ones(2, 3).to_layout(Layout::Col), &ones(3, 5)),
        "A is col major, the schedule says layout(a = row); Matrix::to_layout converts",
    );
    let mut d = ones(5, 2);
    refused(
        gemm.multiply_into(&ones(2, 3), &ones(3, 5), &mut d),
        "D is 5 x 2, the product of 2 x 3 and 3 x 5 is 2 x 5",
    );
    let with_c = compiled(&format!("{CLAUSES}{ALPHA_BETA}"));
    let (c, call) = (ones(1, 5), with_c.set("alpha", 1).set("beta", 1));
    refused(call.c(&c).multiply_as::<f32>(&ones(2, 3), &ones(3, 5)), "C is 1 x 5, it is added to a product of 2 x 5");
}

#[test]
fn types_must_agree() {
    let gemm = compiled(CLAUSES);
    let (a, b) = (ones(2, 2), ones(2, 2));
    refused(
        gemm.multiply_as::<f32>(&Matrix::<f64>::zeros(2, 2), &b),
        "A has elements of type f64, the schedule says a = f32",
    );
    refused(gemm.multiply_as::<f64>(&a, &b), "D has elements of type f64, the schedule says d = f32");
    refused(gemm.multiply_as::<i32>(&a, &b), "D has elements of type i32, the schedule says d = f32");
}

/// `multiply` takes the type of its result from A. If D has another one, the error names the method that states it.
#[test]
fn another_type_of_the_result_has_to_be_stated() {
    let wide = compiled(&format!("{CLAUSES} types(f32, d = f64);"));
    let (a, b) = (ones(2, 3), ones(3, 2));
    let words =
        "D has elements of type f64 in the schedule, and `multiply` gives those of A, f32: `multiply_as::<f64>`";
    refused(wide.multiply(&a, &b), words);
    refused(wide.call().multiply(&a, &b), words);
    assert_eq!(wide.multiply_as::<f64>(&a, &b).unwrap(), Matrix::from_fn(2, 2, |_, _| 3.0f64));
    // If A is wrong as well, that comes first.
    refused(wide.multiply(&Matrix::<i32>::zeros(2, 3), &b), "A has elements of type i32, the schedule says a = f32");
    let batch = compiled(&format!("{CLAUSES} types(f32, d = f64); batch(strided);"));
    let (a, b) = (MatrixBatch::<f32>::random(2, 2, 3, 1), MatrixBatch::<f32>::random(2, 3, 2, 2));
    refused(
        batch.multiply_batch(&a, &b),
        "D has elements of type f64 in the schedule, and `multiply_batch` gives those of A, f32: `multiply_batch_as::<f64>`",
    );
}

#[test]
fn slices_and_leading_dimensions_must_suffice() {
    let gemm = compiled(CLAUSES);
    let data = [1.0f32; 12];
    let (a, b) = (MatrixRef::new(&data[..6], 2, 3), MatrixRef::new(&data, 3, 4));
    refused(
        gemm.multiply_as::<f32>(&a.ld(2), &b),
        "lda = 2 is too small: A is row major with 3 elements to a row, so lda is at least 3",
    );
    refused(gemm.multiply_as::<f32>(&a.ld(4), &b), "the slice of A has 6 elements, 2 x 3 with lda = 4 needs 7");
    refused(
        gemm.multiply_as::<f32>(&a, &b.ld(usize::MAX)),
        &format!("the slice of B has 12 elements, 3 x 4 with ldb = {} needs {}", usize::MAX, u64::MAX),
    );
    let mut short = [0.0f32; 7];
    refused(
        gemm.multiply_into(&a, &b, &mut MatrixMut::new(&mut short, 2, 4)),
        "the slice of D has 7 elements, 2 x 4 with ldd = 4 needs 8",
    );
    assert!(gemm.multiply_as::<f32>(&a, &b).is_ok());
}

#[test]
fn extents_have_a_limit() {
    let gemm = compiled(CLAUSES);
    let nothing: [f32; 0] = [];
    let tall = |rows| MatrixRef::new(&nothing, rows, 0);
    let b = MatrixRef::new(&nothing, 0, 0);
    refused(
        gemm.multiply_as::<f32>(&tall(u32::MAX as usize), &b),
        "M = 4294967295 is above 4294901760, the largest extent",
    );
    assert!(gemm.multiply_as::<f32>(&tall(u32::MAX as usize - 65_535), &b).is_ok());
    let wide = compiled("tile(1, 1); thread(1, 1); shared(none);");
    let b = MatrixRef::new(&nothing, 0, 1 << 20);
    let error = wide.multiply_into(&tall(1 << 20), &b, &mut MatrixMut::<f32>::new(&mut [], 1 << 20, 1 << 20));
    refused(error, "the slice of D has 0 elements, 1048576 x 1048576 with ldd = 1048576 needs 1099511627776");
}

#[test]
fn scalars_and_vectors_must_fit_the_epilogue() {
    let (a, b) = (ones(2, 3), ones(3, 4));
    let gemm = compiled(&format!("{CLAUSES}{BIAS}"));
    let bias = [1.0f32; 4];
    refused(
        gemm.vector("bias", &bias).multiply_as::<f32>(&a, &b),
        "the epilogue's scalar `scale` has no value; set(\"scale\", …)",
    );
    refused(
        gemm.set("scale", 1).multiply_as::<f32>(&a, &b),
        "the epilogue's vector `bias` was not given; vector(\"bias\", …)",
    );
    let call = gemm.set("scale", 1).vector("bias", &bias);
    refused(
        call.clone().set("alpha", 1).multiply_as::<f32>(&a, &b),
        "the epilogue has no scalar `alpha` (its scalars are scale)",
    );
    refused(
        call.clone().vector("offset", &bias).multiply_as::<f32>(&a, &b),
        "the epilogue has no vector `offset` (its vectors are bias)",
    );
    refused(
        call.clone().vector("bias", &bias[..3]).multiply_as::<f32>(&a, &b),
        "vector `bias` has 3 elements, N = 4 are needed",
    );
    refused(
        call.clone().vector("bias", &[1.0f64; 4]).multiply_as::<f32>(&a, &b),
        "vector `bias` has elements of type f64, the epilogue computes in f32",
    );
    refused(
        call.clone().set("scale", 1e39).multiply_as::<f32>(&a, &b),
        &format!("scalar `scale` = {} is not a value of type f32, in which the epilogue computes", "1e39"),
    );
    refused(
        compiled(CLAUSES).set("alpha", 1).multiply_as::<f32>(&a, &b),
        "the epilogue has no scalar `alpha` (it has no scalars)",
    );
    assert_eq!(call.multiply_as::<f32>(&a, &b).unwrap(), Matrix::from_fn(2, 4, |_, _| 4.0));
}

#[test]
fn c_is_there_exactly_if_it_is_read() {
    let (a, b, c) = (ones(2, 3), ones(3, 4), ones(2, 4));
    refused(
        compiled(CLAUSES).c(&c).multiply_as::<f32>(&a, &b),
        "a C was given, and the epilogue does not read c: epilogue(|acc| acc)",
    );
    let mut d = c.clone();
    refused(
        compiled(&format!("{CLAUSES} epilogue(|acc, c| acc + c);"))
            .call()
            .c(&d.clone())
            .accumulate_into(&a, &b, &mut d),
        "C is given twice: a product in place takes it from D, leave c(…) out",
    );
    refused(
        compiled(CLAUSES).call().accumulate_into(&a, &b, &mut d),
        "a C was given, and the epilogue does not read c: epilogue(|acc| acc)",
    );
    let gemm = compiled(&format!("{CLAUSES}{ALPHA_BETA}"));
    refused(gemm.set("alpha", 1).set("beta", 1).multiply_as::<f32>(&a, &b), "the epilogue reads c, and no C was given");
    // As in BLAS, beta = 0 does not read C.
    assert_eq!(
        gemm.set("alpha", 2).set("beta", 0).multiply_as::<f32>(&a, &b).unwrap(),
        Matrix::from_fn(2, 4, |_, _| 6.0)
    );
}

#[test]
fn a_zero_scalar_drops_what_it_multiplies() {
    let gemm = compiled(&format!("{CLAUSES}{ALPHA_BETA}"));
    let (a, b, nan) = (ones(3, 3), ones(3, 3), Matrix::from_fn(3, 3, |_, _| f32::NAN));
    let d: Matrix<f32> = gemm.c(&nan).set("alpha", 1).set("beta", 0).multiply(&a, &b).unwrap();
    assert_eq!(d, Matrix::from_fn(3, 3, |_, _| 3.0));
    let d: Matrix<f32> = gemm.c(&b).set("alpha", 0).set("beta", 2).multiply(&nan, &nan).unwrap();
    assert_eq!(d, Matrix::from_fn(3, 3, |_, _| 2.0));
    let nans = |d: &Matrix<f32>| d.as_slice().iter().filter(|x| x.is_nan()).count();
    let d: Matrix<f32> = gemm.c(&nan).set("alpha", 1).set("beta", 1).multiply(&a, &b).unwrap();
    assert_eq!(nans(&d), 9);
    let d: Matrix<f32> = gemm.c(&b).set("alpha", 1).set("beta", 1).multiply(&a, &nan).unwrap();
    assert_eq!(nans(&d), 9);
}

#[test]
fn sizes_must_divide_without_a_tail() {
    let gemm = compiled("tile(16, 16, 8); thread(2, 4); tail(none);");
    assert!(gemm.multiply_as::<f32>(&ones(32, 8), &ones(8, 16)).is_ok());
    for (m, n, k, words) in [
        (31, 16, 8, "M = 31 is not a multiple of 16"),
        (32, 17, 8, "N = 17 is not a multiple of 16"),
        (32, 16, 9, "K = 9 is not a multiple of 8"),
    ] {
        let error = gemm.multiply_as::<f32>(&ones(m, k), &ones(k, n));
        refused(error, &format!("{words}, and the schedule says tail(none); tail(predicate) takes any size"));
    }
}

#[test]
fn empty_products_do_what_blas_does() {
    let gemm = compiled(&format!("{CLAUSES}{ALPHA_BETA}"));
    for (m, n) in [(0, 4), (4, 0), (0, 0)] {
        let mut d = ones(m, n);
        let run = gemm.set("alpha", 1).set("beta", 1).accumulate_into(&ones(m, 3), &ones(3, n), &mut d).unwrap();
        assert_eq!((run.entry, run.blocks), (None, 0));
    }
    let mut d = ones(2, 3);
    gemm.set("alpha", 5).set("beta", 3).accumulate_into(&ones(2, 0), &ones(0, 3), &mut d).unwrap();
    assert_eq!(d, Matrix::from_fn(2, 3, |_, _| 3.0));
}

#[test]
fn alignment_picks_the_entry_and_says_why() {
    let aligned = Device::interpreter();
    let unaligned = Device::interpreter_with(InterpreterOptions { misalign: 1, ..Default::default() });
    for (device, k, entry, note) in [
        (&aligned, 8, "gemm_v4", None),
        (&aligned, 7, "gemm_v1", Some("lda = 7 is not a multiple of 4: running the scalar entry")),
        (&unaligned, 8, "gemm_v1", Some(" is not aligned to 16 bytes: running the scalar entry")),
    ] {
        let gemm = compiled_on(CLAUSES, device);
        let mut d = ones(4, 8);
        let run = gemm.multiply_into(&ones(4, k), &ones(k, 8), &mut d).unwrap();
        assert_eq!(run.entry.as_deref(), Some(entry), "{:?}", run.notes);
        assert_eq!(d, Matrix::from_fn(4, 8, |_, _| k as f32));
        match note {
            Some(note) => assert!(run.notes.last().is_some_and(|last| last.ends_with(note)), "{:?}", run.notes),
            None => assert!(run.notes.is_empty(), "{:?}", run.notes),
        }
    }
}

#[test]
fn padding_is_neither_read_nor_written() {
    let gemm = compiled(CLAUSES);
    let a = ones(5, 6).with_ld(9, f32::NAN);
    let b = ones(6, 7).with_ld(11, f32::NAN);
    let mut d = Matrix::in_shape(Shape { rows: 5, cols: 7, layout: Layout::Row, ld: 10 }, -1e10f32);
    gemm.multiply_into(&a, &b, &mut d).unwrap();
    assert_eq!(d.as_slice().len(), 50);
    for (index, &value) in d.as_slice().iter().enumerate() {
        assert_eq!(value, if index % 10 < 7 { 6.0 } else { -1e10 }, "element {index}");
    }
}

/// Launches on device pointers, which are all blocks of one 16 x 16 matrix of ones.
fn in_one_matrix(clauses: &str, c: Option<(usize, usize)>, d: (usize, usize)) -> Result<Matrix<f32>, Error> {
    let device = Device::interpreter();
    let gemm = compiled_on(clauses, &device);
    let whole = device.upload(&ones(16, 16))?;
    let block = |(row, col)| whole.matrix().block(DType::F32, row, col, 4, 4).unwrap();
    let scalars: &[(&str, f64)] = if c.is_some() { &[("alpha", 1.0), ("beta", 1.0)] } else { &[] };
    let call = DeviceCall { a: block((0, 0)), b: block((4, 4)), c: c.map(block), d: block(d), vectors: &[], scalars };
    #[allow(unsafe_code)]
    // SAFETY: every block is part of `whole`, which outlives the call.
    unsafe { gemm.launch(&call) }?;
    let mut out = ones(16, 16);
    whole.download(&mut out)?;
    Ok(out)
}

#[test]
fn d_may_overlap_nothing_but_c() {
    let alpha_beta = format!("{CLAUSES}{ALPHA_BETA}");
    // Blocks of one matrix interleave in memory and share no element.
    for (c, d) in [(None, (0, 4)), (None, (4, 0)), (None, (12, 12)), (Some((8, 8)), (8, 8)), (Some((8, 8)), (8, 12))] {
        let out = in_one_matrix(if c.is_some() { &alpha_beta } else { CLAUSES }, c, d).unwrap();
        let value = if c.is_some() { 5.0 } else { 4.0 };
        let inside = |row: usize, col: usize| (d.0..d.0 + 4).contains(&row) && (d.1..d.1 + 4).contains(&col);
        assert_eq!(out, Matrix::from_fn(16, 16, |row, col| if inside(row, col) { value } else { 1.0 }), "{c:?} {d:?}");
    }
    for (c, d, name) in [
        (None, (0, 0), "A"),
        (None, (3, 3), "A"),
        (None, (4, 4), "B"),
        (None, (7, 1), "B"),
        (Some((8, 8)), (8, 9), "C"),
        (Some((8, 8)), (11, 11), "C"),
    ] {
        let error = in_one_matrix(if c.is_some() { &alpha_beta } else { CLAUSES }, c, d).unwrap_err();
        match &error {
            Error::Argument(ArgumentError::Overlap { name: found, d, input }) => {
                assert_eq!(found, name, "{error}");
                assert!(d.start < input.end && input.start < d.end, "{error}");
            }
            other => panic!("{c:?} {d:?}: {other:?}"),
        }
    }
}

#[test]
fn wrong_device_pointers_are_refused() {
    let device = Device::interpreter();
    let gemm = compiled_on(CLAUSES, &device);
    let matrices =
        [device.upload(&ones(4, 4)).unwrap(), device.upload(&ones(4, 4)).unwrap(), device.upload(&ones(4, 4)).unwrap()];
    let [a, b, d] = matrices.each_ref().map(|matrix| matrix.matrix());
    let good = DeviceCall { a, b, c: None, d, vectors: &[], scalars: &[] };
    #[allow(unsafe_code)]
    // SAFETY: the interpreter checks every access.
    let launch = |call: DeviceCall<'_>| unsafe { gemm.launch(&call) };
    assert!(launch(good.clone()).is_ok());
    let moved = |mut matrix: ptx_gemm_runtime::DeviceMatrix, address: u64| {
        matrix.address = address;
        matrix
    };
    refused(
        launch(DeviceCall { a: moved(a, 2), ..good.clone() }),
        "the pointer of A, 0x2, is not a multiple of its element size, 4 bytes",
    );
    let end = u64::MAX - 3;
    refused(
        launch(DeviceCall { b: moved(b, end), ..good.clone() }),
        &format!("B reaches past the end of the address space: 16 elements from {end:#x}"),
    );
    // An unmapped pointer: the interpreter names it, and the line of PTX.
    let error = launch(DeviceCall { a: moved(a, 0x1000), ..good }).unwrap_err();
    assert!(error.is_violation() && error.to_string().contains("out of bounds"), "{error}");
}

/// On a machine with a GPU, no other test of this program uses the GPU, and afterwards none can.
#[test]
fn an_illegal_address_is_reported_in_full_once() {
    let Ok(device) = Device::cuda(0) else { return };
    let gemm = compiled_on(CLAUSES, &device);
    let [a, b, d] = [0; 3].map(|_| device.upload(&ones(4, 4)).unwrap());
    let mut stray = a.matrix();
    stray.address = 0x1000;
    let call = DeviceCall { a: stray, b: b.matrix(), c: None, d: d.matrix(), vectors: &[], scalars: &[] };
    #[allow(unsafe_code)]
    // SAFETY: none. The address is deliberately unmapped: the GPU faults on it, and the process ends after this.
    let first = unsafe { gemm.launch(&call) }.unwrap_err();
    assert!(matches!(first, Error::Device(DeviceError::ContextDead { .. })), "{first:?}");
    let later = gemm.multiply_as::<f32>(&ones(4, 4), &ones(4, 4)).unwrap_err();
    assert!(matches!(later, Error::Device(DeviceError::ContextLost { .. })), "{later:?}");
    let watched = gemm.call().in_interpreter().unwrap().multiply_as::<f32>(&ones(4, 4), &ones(4, 4)).unwrap();
    assert_eq!(watched.as_slice(), [4.0; 16]);
}

#[test]
fn sixteen_threads_share_one_kernel() {
    let gemm = compiled(CLAUSES);
    let expected =
        gemm.multiply_as::<f32>(&Matrix::<f32>::random(33, 20, 1), &Matrix::<f32>::random(20, 17, 2)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let compiled = compiled(CLAUSES);
                let d =
                    compiled.multiply_as::<f32>(&Matrix::<f32>::random(33, 20, 1), &Matrix::<f32>::random(20, 17, 2));
                assert_eq!(d.unwrap(), expected);
            });
        }
    });
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    match Device::cuda(0) {
        Ok(device) => assert!(device.limits().threads >= 1024, "{device}"),
        Err(error) => assert!(error.to_string().contains("CUDA"), "{error}"),
    }
    assert!(Device::cuda(usize::MAX).is_err());
    assert!(!Device::best().unwrap().to_string().is_empty());
}
