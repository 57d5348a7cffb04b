//! Wrong inputs, and inputs that are barely right: each gives its typed error or result, and the device remains usable.

use ptx_gemm::{
    ArgumentError as Argument, CompiledGemm, Device, DeviceError, DeviceKind, Error, InterpreterOptions, Matrix,
    MatrixMut, MatrixRef, ResidentCall, Schedule, Target,
};

use ptx_gemm::cuda;

use super::claims::{Answer, Trouble, expect};

pub(crate) const CLAUSES: &str = "tile(32, 32, 8); thread(4, 4); vector(4);";
const ALPHA_BETA: &str = "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);";

pub(crate) fn compiled(clauses: &str, device: &Device) -> Result<CompiledGemm, Error> {
    CompiledGemm::new(&clauses.parse::<Schedule>()?, device)
}

pub(crate) fn ones(rows: usize, cols: usize) -> Matrix<f32> {
    Matrix::from_fn(rows, cols, |_, _| 1.0)
}

/// A wrong call, its name here, and whether its error is the expected one.
struct Mistake {
    name: &'static str,
    answer: Result<(), Error>,
    is_right: fn(&Error) -> bool,
}

macro_rules! mistake {
    ($name:literal, $answer:expr, $pattern:pat) => {
        Mistake { name: $name, answer: $answer, is_right: |error| matches!(error, $pattern) }
    };
}

pub(crate) fn refused(device: &Device) -> Answer {
    let gemm = compiled(CLAUSES, device)?;
    let scaled = compiled(&format!("{CLAUSES}{ALPHA_BETA}"), device)?;
    let multiply = |a: MatrixRef<'_, f32>, b: MatrixRef<'_, f32>| {
        let mut d = [7.0f32; 16];
        gemm.multiply_into(&a, &b, &mut MatrixMut::new(&mut d, 4, 4)).map(drop)
    };
    let data = [1.0f32; 16];
    let whole = || MatrixRef::new(&data, 4, 4);
    let doubles = Matrix::<f64>::from_fn(4, 4, |_, _| 1.0);
    let resident = device.upload(&ones(4, 4))?;
    let onto_itself = ResidentCall { a: &resident, b: &resident, c: None, d: &resident, vectors: &[], scalars: &[] };
    let empty = Matrix::<f32>::zeros(0, 0);
    let tall = MatrixRef::new(empty.as_slice(), 1 << 33, 0);
    let elsewhere = Device::interpreter_with(InterpreterOptions::default()).upload(&ones(4, 4))?;
    let [b, d] = [device.upload(&ones(4, 4))?, device.upload(&ones(4, 4))?];
    let of_another = ResidentCall { a: &elsewhere, b: &b, c: None, d: &d, vectors: &[], scalars: &[] };
    let mut mistakes = vec![
        mistake!(
            "a matrix of another device",
            gemm.prepare_resident(&of_another).map(drop),
            Error::Argument(Argument::OtherDevice { .. })
        ),
        mistake!(
            "a device that does not exist",
            Device::cuda(1 << 20).map(drop),
            Error::Device(DeviceError::NoSuchDevice { .. } | DeviceError::NoCuda { .. })
        ),
        mistake!("ld too small", multiply(whole().ld(3), whole()), Error::Argument(Argument::LeadingDimension { .. })),
        mistake!("slice too short", multiply(whole().ld(5), whole()), Error::Argument(Argument::TooShort { .. })),
        mistake!(
            "extents that do not fit",
            multiply(whole(), MatrixRef::new(&data, 3, 4)),
            Error::Argument(Argument::Extents { .. })
        ),
        mistake!(
            "elements of another type",
            gemm.multiply_as::<f32>(&doubles, &ones(4, 4)).map(drop),
            Error::Argument(Argument::Type { .. })
        ),
        mistake!(
            "an extent of 2^33",
            gemm.multiply_as::<f32>(&tall, &MatrixRef::new(empty.as_slice(), 0, 1)).map(drop),
            Error::Argument(Argument::ExtentTooLarge { .. })
        ),
        mistake!("D over A", gemm.prepare_resident(&onto_itself).map(drop), Error::Argument(Argument::Overlap { .. })),
        mistake!(
            "a scalar that is missing",
            scaled.c(&ones(4, 4)).set("alpha", 1).multiply_as::<f32>(&whole(), &whole()).map(drop),
            Error::Argument(Argument::MissingScalar { .. })
        ),
        mistake!(
            "a scalar that is unknown",
            gemm.set("gamma", 1).multiply_as::<f32>(&whole(), &whole()).map(drop),
            Error::Argument(Argument::UnknownScalar { .. })
        ),
        mistake!(
            "a C that is missing",
            scaled.set("alpha", 1).set("beta", 1).multiply_as::<f32>(&whole(), &whole()).map(drop),
            Error::Argument(Argument::MissingC)
        ),
    ];
    if let DeviceKind::Cuda(_) = device.kind() {
        let newer = Target { capability: 999, specific: false };
        let schedule: Schedule = CLAUSES.parse().map_err(Error::from)?;
        let answer = CompiledGemm::for_target(&schedule, newer, device).map(drop);
        let is_right = |error: &Error| matches!(error, Error::Schedule(_) | Error::Device(DeviceError::Target { .. }));
        mistakes.push(Mistake { name: "a target that does not exist", answer, is_right });
    }
    let count = mistakes.len();
    for Mistake { name, answer, is_right } in mistakes {
        match answer {
            Err(error) if is_right(&error) => {}
            Err(error) => return Err(Trouble::Wrong(format!("{name}: an unexpected error: {error}"))),
            Ok(()) => return Err(Trouble::Wrong(format!("{name}: it was not refused"))),
        }
    }
    let d: Matrix<f32> = gemm.multiply(&whole(), &whole())?;
    expect(d.as_slice() == [4.0; 16], || format!("the product after them is {:?}", d.as_slice()))?;
    Ok(format!("{count} mistakes, each with its own error, and a right product after them"))
}

pub(crate) fn edges(device: &Device) -> Answer {
    let gemm = compiled(&format!("{CLAUSES}{ALPHA_BETA}"), device)?;
    for (m, n) in [(0, 4), (4, 0), (0, 0)] {
        let mut d = ones(m, n);
        let run = gemm.set("alpha", 1).set("beta", 1).accumulate_into(&ones(m, 3), &ones(3, n), &mut d)?;
        expect(run.blocks == 0, || format!("{m} x {n}: {} blocks ran", run.blocks))?;
    }
    let mut d = ones(5, 3);
    gemm.set("alpha", 5).set("beta", 3).accumulate_into(&ones(5, 0), &ones(0, 3), &mut d)?;
    expect(d.as_slice().iter().all(|&x| x == 3.0), || format!("k = 0: {:?}", d.as_slice()))?;
    let odd = ones(4, 4).with_ld(5, f32::NAN);
    let mut d = ones(4, 4);
    let run = gemm.set("alpha", 1).set("beta", 0).accumulate_into(&odd, &ones(4, 4), &mut d)?;
    expect(d.as_slice() == [4.0; 16], || format!("lda = 5: {:?}", d.as_slice()))?;
    expect(!run.notes.is_empty(), || "lda = 5 ran without a word".into())?;
    Ok(format!("m, n or k = 0; {}", run.notes.join("; ")))
}

/// A kernel with one wrong line: the driver's message, the line, and the clause that the line is from.
pub(crate) fn linker(device: &Device) -> Answer {
    let gemm = compiled(CLAUSES, device)?;
    let whole = cuda::assemble(device, gemm.ptx())?;
    let Some(line) = gemm.ptx().lines().find(|line| line.contains("//@ thread(4, 4): multiply")) else {
        return Err(Trouble::Wrong("a kernel that multiplies nothing".into()));
    };
    let opcode = line.split_whitespace().next().unwrap_or_default();
    let wrong = line.replacen(opcode, "nonsense", 1);
    let error = match cuda::assemble(device, &gemm.ptx().replacen(line, &wrong, 1)) {
        Err(Error::Device(error @ DeviceError::Link { .. })) => error.to_string(),
        other => return Err(Trouble::Wrong(format!("PTX with `{}`: {other:?}", wrong.trim()))),
    };
    expect(error.contains("ptxas") && error.contains(wrong.trim()), || {
        format!("the log does not say which line: {error}")
    })?;
    let clause = line.split_once("//@").map_or("", |(_, clause)| clause.trim());
    let named = !clause.is_empty() && error.contains(clause);
    expect(named, || format!("the log does not name the clause `{clause}`: {error}"))?;
    let d: Matrix<f32> = gemm.multiply(&ones(4, 4), &ones(4, 4))?;
    expect(d.as_slice() == [4.0; 16], || format!("the product after it is {:?}", d.as_slice()))?;
    Ok(format!("{} bytes of cubin; a wrong line is quoted, with `{clause}`", whole.len()))
}

pub(crate) fn threads(device: &Device) -> Answer {
    const THREADS: usize = 16;
    let (a, b) = (Matrix::<f32>::random(131, 40, 1), Matrix::<f32>::random(40, 77, 2));
    // A schedule that no other test here compiles.
    let clauses = "tile(48, 32, 8); thread(3, 2);";
    let products: Result<Vec<Matrix<f32>>, Error> = std::thread::scope(|scope| {
        let multiply = || (0..8).try_fold(None, |_, _| compiled(clauses, device)?.multiply(&a, &b).map(Some));
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(multiply)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(None)));
        joined.map(|product| Ok(product?.unwrap_or_else(|| Matrix::zeros(0, 0)))).collect()
    });
    let products = products?;
    let expected: Matrix<f32> = compiled(clauses, &Device::interpreter())?.multiply(&a, &b)?;
    let wrong = products.iter().filter(|product| **product != expected).count();
    expect(wrong == 0, || format!("{wrong} of {THREADS} threads have another result than the interpreter"))?;
    Ok(format!("{THREADS} threads, one kernel, equal results"))
}
