//! A small language for GPU matrix multiplication, and its compiler.
//!
//! You write *how* a product is computed as a list of clauses. The compiler checks the list while your crate builds and
//! writes raw PTX text: no LLVM, no nvcc, no CUDA toolkit. The runtime loads the text on an NVIDIA GPU; without one,
//! the project's own PTX interpreter runs the same text on the CPU.
//!
//! Each clause is an item of [`clauses`]; `docs/language.md` in the repository is the full reference.
//!
//! # A product, its schedule, and another one
//!
//! ```
//! use ptx_gemm::{Auto, Device, Matrix, gemm, matmul};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::interpreter();   // Device::best() takes the first GPU, if there is one
//! let (a, b) = (Matrix::<f32>::random(40, 30, 1), Matrix::<f32>::random(30, 50, 2));
//! let d = matmul(&device, &a, &b)?;
//!
//! let chosen = Auto::new("types(f32)", &device)?.choose(40, 50, 30)?;
//! println!("{}\n{}", chosen.schedule(), chosen.reason());
//!
//! let other = gemm! { ..chosen.schedule(); order(row); }?;      // with one clause changed
//! assert_eq!(other.on(&device)?.multiply(&a, &b)?, d);
//! # Ok(())
//! # }
//! ```
//!
//! # A schedule becomes a result
//!
//! ```
//! use ptx_gemm::{Device, Matrix, Target, gemm};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel = gemm! {
//!     tile(128, 128, 8);          // one thread block computes 128 x 128 of D, 8 of K at a time
//!     thread(8, 8);               // one thread computes 8 x 8
//!     vector(4);                  // up to 16-byte accesses
//!     double_buffer;              // the next K-tile loads while this one is multiplied
//! };
//!
//! // The PTX, if that is all you want. `abi` says how to launch it.
//! assert!(kernel.ptx(Target::SM_80)?.contains("ld.global.v4.f32"));
//! println!("{}", kernel.abi(Target::SM_80)?);
//!
//! // Or the result: sizes are run-time values, any from 0 up.
//! let device = Device::interpreter();   // Device::best() takes the first GPU, if there is one
//! let gemm = kernel.on(&device)?;
//! let a = Matrix::<f32>::random(40, 30, 1);
//! let b = Matrix::<f32>::random(30, 50, 2);
//! let d = gemm.multiply(&a, &b)?;       // elements of A's type; multiply_as::<T> for others
//! assert_eq!((d.rows(), d.cols()), (40, 50));
//! # Ok(())
//! # }
//! ```
//!
//! # An epilogue
//!
//! D is the plain product unless an `epilogue` says otherwise: an expression over the accumulator `acc`, the element `c` of
//! a third matrix, run-time scalars, and vectors by row (`[m]`) or column (`[n]`).
//!
//! ```
//! # use ptx_gemm::{Device, Gemm, Matrix};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel: Gemm = "tile(32, 32, 8); thread(2, 2);
//!                     epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);".parse()?;
//! let gemm = kernel.on(&Device::interpreter())?;
//! let a = Matrix::<f32>::from_fn(2, 3, |i, k| (i + k) as f32);
//! let b = Matrix::<f32>::from_fn(3, 2, |k, j| (k * j) as f32);
//! let c = Matrix::<f32>::from_fn(2, 2, |_, _| 1.0);
//! let d = gemm.c(&c).set("alpha", 2.0).set("beta", -1.0).multiply(&a, &b)?;
//! assert_eq!(d.as_slice(), [-1.0, 9.0, -1.0, 15.0]);
//!
//! // In place, as in BLAS: D is C as well.
//! let mut d = c.clone();
//! gemm.set("alpha", 2.0).set("beta", -1.0).accumulate_into(&a, &b, &mut d)?;
//! assert_eq!(d.as_slice(), [-1.0, 9.0, -1.0, 15.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Slices, layouts, leading dimensions
//!
//! Your own matrices are passed as views. Operands that do not fit are rejected before anything runs, with an error
//! that names the argument and the limit.
//!
//! ```
//! # use ptx_gemm::{Device, Gemm, Layout, Matrix, MatrixMut, MatrixRef};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel: Gemm = "tile(32, 32, 8); thread(2, 2); layout(b = col);".parse()?;
//! let gemm = kernel.on(&Device::interpreter())?;
//! let (a, b) = ([1.0f32; 6], [1.0f32; 20]);
//! let a = MatrixRef::new(&a, 2, 3);
//! let b = MatrixRef::new(&b, 3, 4).layout(Layout::Col).ld(5);
//! let mut d = [0.0f32; 8];
//! gemm.multiply_into(&a, &b, &mut MatrixMut::new(&mut d, 2, 4))?;
//! assert_eq!(d, [3.0; 8]);
//!
//! let error = gemm.multiply(&a, &b.ld(2)).unwrap_err();
//! assert!(error.to_string().starts_with("ldb = 2 is too small"), "{error}");
//! # Ok(())
//! # }
//! ```
//!
//! # Text, values, other schedules
//!
//! A schedule can be text as well (a `.gemm` file, say), take values from the code around it, and extend another one.
//! Anything the macro cannot know while your crate is compiled is checked when the schedule is constructed.
//!
//! ```
//! # use ptx_gemm::{Gemm, gemm};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let base: Gemm = "tile(64, 64, 8); thread(4, 4);".parse()?;
//! let depth = 16;
//! let deeper = gemm! { ..base; tile(64, 64, {depth}); double_buffer; }?;
//! assert_eq!(deeper.plan(None)?.block.k, 16);
//! # Ok(())
//! # }
//! ```
//!
//! `gemm!(file "kernel.gemm")` reads the schedule from a file next to the source and checks it while the crate
//! compiles. A schedule can also be built by a chain of methods, with the types in [`builder`].
//!
//! # Many products at once
//!
//! ```
//! # use ptx_gemm::{Device, MatrixBatch, gemm};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel = gemm! { tile(32, 32, 8); thread(2, 2); batch(strided); };
//! let gemm = kernel.on(&Device::interpreter())?;
//! let (a, b) = (MatrixBatch::<f32>::random(5, 10, 20, 1), MatrixBatch::<f32>::random(5, 20, 30, 2));
//! let d = gemm.call().multiply_batch(&a, &b)?;
//! assert_eq!((d.count(), d.shape().rows, d.shape().cols), (5, 10, 30));
//! # Ok(())
//! # }
//! ```
//!
//! With `batch(grouped)` each product has extents of its own. The list of them is in device memory; a kernel may write it
//! as well ([`DeviceList`]), and [`ExpertsCall`] makes one for a mixture of experts.
//!
//! ```
//! # use ptx_gemm::{Device, Matrix, gemm};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel = gemm! { tile(32, 32, 8); thread(2, 2); batch(grouped); };
//! let gemm = kernel.on(&Device::interpreter())?;
//! let a = [Matrix::<f32>::random(10, 20, 1), Matrix::random(0, 4, 2), Matrix::random(70, 3, 3)];
//! let b = [Matrix::<f32>::random(20, 8, 4), Matrix::random(4, 8, 5), Matrix::random(3, 50, 6)];
//! let d = gemm.multiply_group(&a, &b)?;
//! assert_eq!(d.iter().map(|d| (d.shape().rows, d.shape().cols)).collect::<Vec<_>>(), [(10, 8), (0, 8), (70, 50)]);
//! # Ok(())
//! # }
//! ```
//!
//! # Matrices that do not fit, and several GPUs
//!
//! [`large::Large`] multiplies matrices on the host with any schedule, on one or several devices, within a budget of device
//! memory. The plan can be printed before it runs.
//!
//! ```
//! # use ptx_gemm::large::{Arguments, Large};
//! # use ptx_gemm::{Device, Matrix, gemm};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel = gemm! { tile(16, 16, 8); thread(2, 2); };
//! let devices = [Device::interpreter(), Device::interpreter()];
//! let large = Large::new(kernel.schedule())?.devices(&devices).budget(24 << 10);
//! println!("{}", large.plan(60, 50, 70)?);
//! let (a, b) = (Matrix::<f32>::random(60, 70, 1), Matrix::<f32>::random(70, 50, 2));
//! let mut d = Matrix::<f32>::zeros(60, 50);
//! large.run(&mut d, &a, &b, &mut Arguments::new())?;
//! # Ok(())
//! # }
//! ```
//!
//! # Weights that stay the same
//!
//! What a launch packs, or splits into planes for `emulate`, is in its workspace. A [`Prepared`] product keeps that copy
//! for an operand that does not change:
//!
//! ```no_run
//! # #[cfg(feature = "cuda")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use ptx_gemm::cuda::{Enqueue, Queue};
//! # use ptx_gemm::{Device, Matrix, Operand, ResidentCall, gemm};
//! let kernel = gemm! { types(f32); emulate(bf16x6); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); };
//! let device = Device::cuda(0)?;
//! let gemm = kernel.on(&device)?;
//! let [x, weights, y] = [(64, 512), (512, 1024), (64, 1024)].map(|(rows, cols)| Matrix::<f32>::random(rows, cols, 1));
//! let (x, weights, y) = (device.upload(&x)?, device.upload(&weights)?, device.upload(&y)?);
//! let layer = gemm.prepare_resident(&ResidentCall { a: &x, b: &weights, c: None, d: &y, vectors: &[], scalars: &[] })?;
//! let layer = layer.keeping(Operand::B);
//! let queue = Queue::new(&device)?;
//! layer.enqueue(&queue)?;                 // splits x and the weights, and multiplies
//! layer.enqueue(&queue)?;                 // splits x, and multiplies
//! queue.wait()?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "cuda"))]
//! # fn main() {}
//! ```
//!
//! # Several processes
//!
//! [`distributed::Distributed`] multiplies across the processes that a launcher starts (`torchrun --no-python`, `mpirun`,
//! `srun`), one for each GPU of one host or of many: each has its part of A, B and D, and panels are broadcast by NCCL while
//! others are multiplied. `examples/distributed.rs` is such a program.
//!
//! # Levels
//!
//! [`Gemm::plan`] gives every number that follows from a schedule, [`Gemm::ir`] the text of each level between the plan
//! and the PTX. The first of them is tile IR; a text in it is a complete program, a [`TileProgram`], whether or not it
//! was derived from a schedule. Output is deterministic: equal schedules give equal bytes, so a snapshot of the PTX is
//! a useful test.
//!
//! # Features
//!
//! - `cuda`, on by default: NVIDIA GPUs. Building does not require CUDA; without the feature there are the PTX and the
//!   interpreter.
//! - `nccl`: GPUs of several processes, for [`distributed`]. The library is loaded at run time.
//! - `ndarray`, `faer`: accept their matrices, and views of them, as operands.
//! - `testing`, for dev-dependencies: tests of snapshots, results, contracts and races in your own crate, one line
//!   each.

extern crate self as ptx_gemm;

mod abi;
mod auto;
pub mod builder;
mod expansion;
mod gemm;
#[cfg(feature = "testing")]
pub mod testing;
mod tile;

pub use abi::{Abi, AbiEntry, AbiLaunch, AbiParam};
pub use auto::{Auto, AutoRun, Chosen, Reason, gpu_of, matmul, set_lock};
pub use gemm::{Gemm, Level};
/// Choosing a schedule: families, estimates, GPUs as data.
pub use ptx_gemm_choose as choose;
pub use ptx_gemm_choose::pick;
pub use ptx_gemm_dsl::diagnostic::Kind;
pub use ptx_gemm_dsl::terms::Operand;
pub use ptx_gemm_dsl::types::Batch;
pub use ptx_gemm_dsl::{
    DType, Diagnostic, Diagnostics, Edit, Fix, Layout, Measured, Plan, Problem, Schedule, Severity, Span, Target,
    clauses,
};
pub use ptx_gemm_interp::{BlockOrder, Checks, Cost, Counting, Landing, Options as InterpreterChecks, WarpOrder};
pub use ptx_gemm_macros::gemm;
pub use ptx_gemm_runtime::{
    AnyMut, AnyRef, ArgumentError, AsMatrix, AsMatrixMut, Call, CompiledGemm, Contract, Counts, Device, DeviceCall,
    DeviceError, DeviceGroup, DeviceKind, DeviceList, DeviceMatrix, DeviceProduct, DeviceVector, Element, Error,
    Expert, ExpertsCall, Group, GroupProduct, HostBytes, HostBytesMut, Interface, InterpreterOptions, Kernel,
    KernelCounts, Limits, MAX_EXTENT, Matrix, MatrixBatch, MatrixMut, MatrixRef, PinnedMatrix, Prepared, Refusal,
    Resident, ResidentCall, Run, Runs, RunsMut, Shape, Stack, Strides, TextError, TextErrors, TypedMatrix, cuda,
    distributed, interp, large, random,
};
pub use tile::TileProgram;

/// Items that the macro's expansion names. They are not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use ptx_gemm_dsl::Schedule;
    pub use ptx_gemm_dsl::interpolate::Piece;

    pub use crate::expansion::{checked, chosen, constructed};
}
