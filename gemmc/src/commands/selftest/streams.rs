//! A program with its own context, streams and slices.

use std::sync::Arc;

use ptx_gemm::cuda::cudarc::driver::{CudaContext, CudaSlice, CudaStream, sys};
use ptx_gemm::cuda::{SliceMut, SliceRef};
use ptx_gemm::{ArgumentError, CompiledGemm, Device, Error, Matrix};

use super::claims::{Answer, Trouble, expect, failed};
use super::inputs::compiled;

const SPLIT: &str = "tile(32, 32, 8); thread(4, 4); vector(4); split_k(4);";
const SIZE: (usize, usize, usize) = (130, 70, 200);
type Slice = CudaSlice<f32>;

/// Operands on a stream, and the expected D.
struct Setup {
    stream: Arc<CudaStream>,
    gemm: CompiledGemm,
    a: Slice,
    b: Slice,
    d: Slice,
    expected: Vec<f32>,
}

fn driver<T, E: std::fmt::Debug>(doing: &str, result: Result<T, E>) -> Result<T, Trouble> {
    result.map_err(|error| failed(doing)(&error))
}

impl Setup {
    fn new(ordinal: usize) -> Result<Setup, Trouble> {
        let (m, n, k) = SIZE;
        let context = driver("opening a context", CudaContext::new(ordinal))?;
        let stream = driver("making a stream", context.new_stream())?;
        let gemm = compiled(SPLIT, &Device::from_context(&context)?)?;
        let (a, b) = (Matrix::<f32>::random(m, k, 1), Matrix::<f32>::random(k, n, 2));
        let expected: Matrix<f32> = gemm.in_interpreter()?.multiply(&a, &b)?;
        let (a, b) = (stream.clone_htod(a.as_slice()), stream.clone_htod(b.as_slice()));
        let (a, b) = (driver("copying A", a)?, driver("copying B", b)?);
        let d = driver("allocating D", stream.alloc_zeros(m * n))?;
        Ok(Setup { stream, gemm, a, b, d, expected: expected.as_slice().to_vec() })
    }

    fn is_right(&mut self, after: &str) -> Result<(), Trouble> {
        let d = driver("copying D back", self.stream.clone_dtoh(&self.d))?;
        let wrong = d.iter().zip(&self.expected).filter(|(here, there)| here.to_bits() != there.to_bits()).count();
        expect(wrong == 0, || format!("{after}: {wrong} of {} elements differ from the interpreter's", d.len()))?;
        driver("clearing D", self.stream.memset_zeros(&mut self.d))
    }
}

pub(crate) fn own(ordinal: usize) -> Answer {
    let (m, n, k) = SIZE;
    let mut setup = Setup::new(ordinal)?;
    {
        let Setup { stream, gemm, a, b, d, .. } = &mut setup;
        gemm.on_stream(stream)?.multiply_into(
            SliceRef::new(a, m, k),
            SliceRef::new(b, k, n),
            SliceMut::new(d, m, n),
        )?;
    }
    setup.is_right("a launch with a workspace of the stream's")?;
    let Setup { stream, gemm, a, b, d, .. } = &mut setup;
    let short = gemm.on_stream(stream)?.multiply_into(
        SliceRef::new(a, m, k + 1),
        SliceRef::new(b, k + 1, n),
        SliceMut::new(d, m, n),
    );
    let refused = matches!(short, Err(Error::Argument(ArgumentError::TooShort { .. })));
    expect(refused, || format!("slices that are too short: {short:?}"))?;
    Ok("a context, stream and slices of cudarc's, with the interpreter's bits".into())
}

pub(crate) fn graph(ordinal: usize) -> Answer {
    let (m, n, k) = SIZE;
    let mut setup = Setup::new(ordinal)?;
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let graph = {
        let Setup { stream, gemm, a, b, d, .. } = &mut setup;
        let bytes = gemm.workspace_bytes(m, n, k, 1) as usize;
        let mut workspace = driver("allocating a workspace", stream.alloc_zeros::<u8>(bytes))?;
        driver("waiting", stream.synchronize())?;
        let mut record = |workspace: Option<&mut CudaSlice<u8>>| {
            driver("beginning a capture", stream.begin_capture(mode))?;
            let call = gemm.on_stream(stream)?;
            let call = match workspace {
                Some(workspace) => call.workspace(workspace),
                None => call,
            };
            let recorded = call.multiply_into(SliceRef::new(a, m, k), SliceRef::new(b, k, n), SliceMut::new(d, m, n));
            let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0));
            Ok::<_, Trouble>((recorded, driver("ending a capture", graph)?))
        };
        let (without, _) = record(None)?;
        let refused = matches!(without, Err(Error::Argument(ArgumentError::WorkspaceInCapture { .. })));
        expect(refused, || format!("recording without a workspace: {without:?}"))?;
        let (recorded, graph) = record(Some(&mut workspace))?;
        recorded?;
        let graph = graph.ok_or_else(|| Trouble::Wrong("the capture has no graph".into()))?;
        (graph, workspace)
    };
    for replay in ["the first replay", "the second replay"] {
        driver("launching the graph", graph.0.launch())?;
        setup.is_right(replay)?;
    }
    Ok("recorded once, replayed twice, with a workspace of the caller's".into())
}

pub(crate) fn offsets(ordinal: usize) -> Answer {
    const FAR: usize = 1 << 32;
    let context = driver("opening a context", CudaContext::new(ordinal))?;
    let (free, _) = driver("asking for free memory", context.mem_get_info())?;
    if free < 5 * FAR {
        return Err(Trouble::Skipped(format!("{free} bytes of device memory are free, {} are needed", 5 * FAR)));
    }
    let stream = driver("making a stream", context.new_stream())?;
    let gemm = compiled(super::inputs::CLAUSES, &Device::from_context(&context)?)?;
    let (m, n, k) = (65, 36, 40);
    let (a, b) = (Matrix::<f32>::random(m, k, 1), Matrix::<f32>::random(k, n, 2));
    let expected: Matrix<f32> = gemm.in_interpreter()?.multiply(&a, &b)?;
    let mut whole: Slice = driver("allocating 17 GB", stream.alloc_zeros(FAR + m * k + 2))?;
    let b = driver("copying B", stream.clone_htod(b.as_slice()))?;
    for offset in [FAR, FAR + 1, FAR + 2] {
        let mut place = whole.slice_mut(offset..offset + m * k);
        driver("copying A", stream.memcpy_htod(a.as_slice(), &mut place))?;
        let mut d: Slice = driver("allocating D", stream.alloc_zeros(m * n))?;
        let view = whole.slice(offset..);
        gemm.on_stream(&stream)?.multiply_into(
            SliceRef::new(&view, m, k),
            SliceRef::new(&b, k, n),
            SliceMut::new(&mut d, m, n),
        )?;
        let d = driver("copying D back", stream.clone_dtoh(&d))?;
        expect(d == expected.as_slice(), || format!("A at element {offset}: D differs from the interpreter's"))?;
    }
    Ok("A at elements 2^32, + 1, + 2 of a slice: aligned or not, the interpreter's bits".into())
}
