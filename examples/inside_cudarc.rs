//! Calls a kernel from a program that already uses cudarc, with its own context, stream and slices. The products are
//! enqueued on its stream without waiting, and are recorded into its CUDA graph.
//!
//! ```text
//! cargo run --release --example inside_cudarc
//! ```
//!
//! Two layers of a network: H = relu(X W1 + b1), then Y = H W2 + b2, where W2 is column major. Without a GPU it prints
//! why it did not run.

use std::error::Error;

use cudarc::driver::sys::{CUgraphInstantiate_flags as InstantiateFlags, CUstreamCaptureMode_enum as CaptureMode};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use ptx_gemm::cuda::{self, SliceMut, SliceRef};
use ptx_gemm::{CompiledGemm, Device, Layout, Matrix, gemm};

const BATCH: usize = 1000;
const INPUT: usize = 784;
const HIDDEN: usize = 512;
const OUTPUT: usize = 10;
const REPLAYS: usize = 100;

/// The weights, and storage for the activations between the layers.
struct Network {
    first: CompiledGemm,
    second: CompiledGemm,
    w1: CudaSlice<f32>,
    b1: CudaSlice<f32>,
    w2: CudaSlice<f32>,
    b2: CudaSlice<f32>,
    hidden: CudaSlice<f32>,
}

impl Network {
    /// Enqueues both layers on `stream`, with the result in `y`. It neither waits nor allocates, so it can be captured
    /// in a graph.
    fn forward(
        &mut self,
        stream: &std::sync::Arc<CudaStream>,
        x: &CudaSlice<f32>,
        y: &mut CudaSlice<f32>,
    ) -> Result<(), ptx_gemm::Error> {
        self.first.on_stream(stream)?.vector::<f32>("bias", &self.b1).multiply_into(
            SliceRef::new(x, BATCH, INPUT),
            SliceRef::new(&self.w1, INPUT, HIDDEN),
            SliceMut::new(&mut self.hidden, BATCH, HIDDEN),
        )?;
        self.second.on_stream(stream)?.vector::<f32>("bias", &self.b2).multiply_into(
            SliceRef::new(&self.hidden, BATCH, HIDDEN),
            SliceRef::new(&self.w2, HIDDEN, OUTPUT).layout(Layout::Col),
            SliceMut::new(y, BATCH, OUTPUT),
        )
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // cudarc panics without a driver, so this is checked first.
    match cuda::status() {
        Ok(status) => println!("{} CUDA device(s), driver for CUDA {}", status.devices, status.driver),
        Err(why) => {
            println!("Not run: {why}.");
            return Ok(());
        }
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;

    // The schedules are compiled for the program's context.
    let device = Device::from_context(&context)?;
    let first = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        fragment(4, 4);
        vector(4);
        shared(a = km + pad(4));
        double_buffer;
        epilogue(|acc, bias| relu(acc + bias[n]));
    };
    let second = gemm! {
        layout(b = col);
        tile(32, 16, 32);
        thread(1, 1);
        epilogue(|acc, bias| acc + bias[n]);
    };
    let host = Host::random();
    let upload = |matrix: &Matrix<f32>| stream.clone_htod(matrix.as_slice());
    let mut network = Network {
        first: first.on(&device)?,
        second: second.on(&device)?,
        w1: upload(&host.w1)?,
        b1: upload(&host.b1)?,
        w2: upload(&host.w2)?,
        b2: upload(&host.b2)?,
        hidden: stream.alloc_zeros(BATCH * HIDDEN)?,
    };
    let x = upload(&host.x)?;
    let mut y: CudaSlice<f32> = stream.alloc_zeros(BATCH * OUTPUT)?;

    network.forward(&stream, &x, &mut y)?;
    let direct = stream.clone_dtoh(&y)?;
    println!("largest distance from the sums in f64: {:.2e}", host.distance(&direct));

    // The same as a graph: two kernels for the price of one launch.
    stream.memset_zeros(&mut y)?;
    stream.begin_capture(CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let recorded = network.forward(&stream, &x, &mut y);
    // End the capture before the error is returned: a stream in capture accepts no other work.
    let graph = stream.end_capture(InstantiateFlags(0))?;
    recorded?;
    let graph = graph.ok_or("the graph is empty")?;
    let start = std::time::Instant::now();
    for _ in 0..REPLAYS {
        graph.launch()?;
    }
    let replayed = stream.clone_dtoh(&y)?;
    let microseconds = start.elapsed().as_secs_f64() * 1e6 / REPLAYS as f64;
    let same = direct.iter().zip(&replayed).all(|(x, y)| x.to_bits() == y.to_bits());
    println!("replayed {REPLAYS} times, {microseconds:.0} us each; the same bits: {same}");
    if same && host.distance(&direct) < 1e-3 { Ok(()) } else { Err("the result is wrong".into()) }
}

/// The operands on the host.
struct Host {
    x: Matrix<f32>,
    w1: Matrix<f32>,
    b1: Matrix<f32>,
    w2: Matrix<f32>,
    b2: Matrix<f32>,
}

impl Host {
    fn random() -> Host {
        // Small weights, so that the sums stay near 1.
        let small = |rows, cols, seed| {
            let random = Matrix::<f32>::random(rows, cols, seed);
            Matrix::from_fn(rows, cols, |row, col| random.get(row, col).unwrap_or_default() / 16.0)
        };
        Host {
            x: Matrix::random(BATCH, INPUT, 1),
            w1: small(INPUT, HIDDEN, 2),
            b1: small(1, HIDDEN, 3),
            w2: small(HIDDEN, OUTPUT, 4).to_layout(Layout::Col),
            b2: small(1, OUTPUT, 5),
        }
    }

    /// The largest distance between `y` and the same network in f64, on some rows of every tile.
    fn distance(&self, y: &[f32]) -> f64 {
        let at = |matrix: &Matrix<f32>, row, col| f64::from(matrix.get(row, col).unwrap_or(f32::NAN));
        let mut largest = 0.0f64;
        for row in (0..BATCH).step_by(7).chain([BATCH - 1]) {
            let hidden: Vec<f64> = (0..HIDDEN)
                .map(|h| (0..INPUT).map(|k| at(&self.x, row, k) * at(&self.w1, k, h)).sum::<f64>() + at(&self.b1, 0, h))
                .map(|sum| sum.max(0.0))
                .collect();
            for col in 0..OUTPUT {
                let sum: f64 = hidden.iter().enumerate().map(|(h, value)| value * at(&self.w2, h, col)).sum();
                let distance = (f64::from(y[row * OUTPUT + col]) - sum - at(&self.b2, 0, col)).abs();
                // A NaN counts as an infinite distance.
                largest = if distance.is_nan() { f64::INFINITY } else { largest.max(distance) };
            }
        }
        largest
    }
}
