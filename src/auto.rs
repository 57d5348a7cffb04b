//! Products with schedules that are chosen for them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ptx_gemm_choose::{Bound, Gpu, Pick, Size};
use ptx_gemm_dsl::{Diagnostic, Diagnostics, Layout, Schedule, Target};
use ptx_gemm_runtime::{
    AsMatrix, AsMatrixMut, CompiledGemm, Device, DeviceKind, Element, Error, Matrix, Run, TypedMatrix,
};

/// D = A B, with a schedule that is chosen for the device, the type, the layouts and the size of the product.
///
/// What is chosen is a [`Schedule`] like any other: [`Auto::choose`] returns it, and the reason. `Auto` also has epilogues, other
/// types of D, batches, and kernels that are kept.
///
/// ```
/// use ptx_gemm::{Device, Matrix, matmul};
///
/// let device = Device::best()?;
/// let (a, b) = (Matrix::<f32>::random(40, 30, 1), Matrix::<f32>::random(30, 50, 2));
/// let d = matmul(&device, &a, &b)?;
/// assert_eq!((d.rows(), d.cols()), (40, 50));
/// # Ok::<(), ptx_gemm::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`CompiledGemm::multiply`]. Where no schedule multiplies such matrices, the error says so.
pub fn matmul<A, B>(device: &Device, a: &A, b: &B) -> Result<Matrix<A::Element>, Error>
where
    A: TypedMatrix,
    B: TypedMatrix<Element = A::Element>,
{
    let layout = |matrix: &dyn AsMatrix| matrix.as_any().map_or(Layout::Row, |matrix| matrix.shape.layout);
    let (dtype, layouts) = (A::Element::DTYPE, [layout(a), layout(b)]);
    let auto = Auto::new(&format!("types({dtype}); layout(a = {}, b = {})", layouts[0], layouts[1]), device)?;
    auto.multiply(a, b)
}

/// Kernels for one problem on one device: for each size of a product a schedule is chosen, the first time that it comes up, by
/// estimates alone. Nothing is timed.
///
/// ```
/// use ptx_gemm::{Auto, Device, Matrix};
///
/// let auto = Auto::new("types(f32); epilogue(|acc, bias| relu(acc + bias[n]))", &Device::interpreter())?;
/// let (a, b) = (Matrix::<f32>::random(40, 30, 1), Matrix::<f32>::random(30, 50, 2));
/// let chosen = auto.choose(40, 50, 30)?;
/// println!("{}\n{}", chosen.schedule(), chosen.reason());
/// let d = chosen.gemm().vector("bias", &[0.5f32; 50]).multiply(&a, &b)?;
/// # assert_eq!((d.rows(), d.cols()), (40, 50));
/// # Ok::<(), ptx_gemm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Auto {
    problem: Schedule,
    device: Device,
    loaded: Arc<Mutex<HashMap<Bucket, Arc<Chosen>>>>,
}

/// A schedule that was chosen, and its kernel.
#[derive(Debug)]
pub struct Chosen {
    schedule: Schedule,
    reason: Reason,
    gemm: CompiledGemm,
}

/// Why a schedule was chosen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It has the best estimate of all families.
    Estimate {
        /// The GPU that it was estimated for.
        gpu: String,
        /// Whether its figures were fitted to times on such a GPU.
        calibrated: bool,
        /// The product that it was estimated for: the bucket that the asked one is in.
        size: Size,
        /// Milliseconds.
        ms: f64,
        /// The resource that limits it.
        bound: Bound,
    },
    /// The interpreter runs small tiles of few threads fastest.
    Interpreter,
}

/// Products that get the same schedule: extents in four steps an octave, and whether rows are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Bucket([usize; 4]);

/// What was chosen, of all devices: a search takes a few tenths of a second.
static CHOICES: LazyLock<Mutex<HashMap<Key, Choice>>> = LazyLock::new(Mutex::default);

/// The device by its kind and name, the problem, and the bucket.
type Key = (DeviceKind, String, String, Bucket);

type Choice = (Schedule, Reason);

/// Schedules for the interpreter, the cheapest first; the last ones for types that only tensor cores multiply.
const CHEAP: [&str; 4] = [
    "tile(32, 32, 8); thread(4, 4)",
    "tile(32, 32, 16); warp(16, 16); atom(mma(16, 8, 16)); stages(1)",
    "tile(32, 32, 32); warp(16, 16); atom(mma(16, 8, 32)); stages(1)",
    "tile(32, 32, 8); warp(16, 16); atom(mma(16, 8, 8)); stages(1)",
];

impl Auto {
    /// For the problem that these clauses state: `types`, `layout`, `epilogue`, `batch`, and any others that every schedule is to
    /// have, such as `emulate(bf16x6)`.
    ///
    /// # Errors
    ///
    /// What is wrong with the clauses.
    pub fn new(clauses: &str, device: &Device) -> Result<Auto, Error> {
        let problem = Schedule::parse_part(clauses)?;
        Ok(Auto { problem, device: device.clone(), loaded: Arc::default() })
    }

    /// The schedule for products of this size, and its kernel, which is right for products of every size. The second time it
    /// is only looked up.
    ///
    /// # Errors
    ///
    /// No schedule computes the problem on this device, or the kernel cannot be loaded.
    pub fn choose(&self, m: usize, n: usize, k: usize) -> Result<Arc<Chosen>, Error> {
        self.choose_batch(m, n, k, 1)
    }

    /// The same for `count` products of `batch(strided)`.
    ///
    /// # Errors
    ///
    /// As those of [`Auto::choose`].
    pub fn choose_batch(&self, m: usize, n: usize, k: usize, count: usize) -> Result<Arc<Chosen>, Error> {
        let bucket = Bucket::of([m, n, k, count]);
        let known = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(&bucket).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (schedule, reason) = self.chosen(bucket)?;
        let gemm = CompiledGemm::new(&schedule, &self.device)?;
        let chosen = Arc::new(Chosen { schedule, reason, gemm });
        Ok(self.loaded.lock().unwrap_or_else(PoisonError::into_inner).entry(bucket).or_insert(chosen).clone())
    }

    /// D = A B, as [`CompiledGemm::multiply`] computes it.
    ///
    /// # Errors
    ///
    /// As those of [`Auto::choose`] and of [`CompiledGemm::multiply`].
    pub fn multiply<A: TypedMatrix>(&self, a: &A, b: &impl AsMatrix) -> Result<Matrix<A::Element>, Error> {
        self.of(a, b)?.gemm.multiply(a, b)
    }

    /// D = A B, in a matrix of the caller.
    ///
    /// # Errors
    ///
    /// As those of [`Auto::choose`] and of [`CompiledGemm::multiply_into`].
    pub fn multiply_into(&self, a: &impl AsMatrix, b: &impl AsMatrix, d: &mut impl AsMatrixMut) -> Result<Run, Error> {
        self.of(a, b)?.gemm.multiply_into(a, b, d)
    }

    /// The kernel for these matrices. What does not fit is left for it to report.
    fn of(&self, a: &impl AsMatrix, b: &impl AsMatrix) -> Result<Arc<Chosen>, Error> {
        let shape = |matrix: &dyn AsMatrix| matrix.as_any().map_or([1, 1], |one| [one.shape.rows, one.shape.cols]);
        let ([m, k], [_, n]) = (shape(a), shape(b));
        self.choose(m, n, k)
    }

    fn chosen(&self, bucket: Bucket) -> Result<Choice, Error> {
        let device = &self.device;
        let key = (device.kind(), device.name().to_owned(), self.problem.to_string(), bucket);
        if let Some(choice) = CHOICES.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(choice.clone());
        }
        let choice = match device.kind() {
            DeviceKind::Interpreter => self.cheap()?,
            DeviceKind::Cuda(_) => self.picked(&gpu(device), bucket.size())?,
        };
        CHOICES.lock().unwrap_or_else(PoisonError::into_inner).insert(key, choice.clone());
        Ok(choice)
    }

    /// The schedule with the best estimate.
    fn picked(&self, gpu: &Gpu, size: Size) -> Result<Choice, Error> {
        let ranked = Pick { given: &self.problem, size, gpu }.run(1);
        let best = ranked.candidates.into_iter().next().ok_or_else(|| self.nothing(&gpu.name))?;
        let (ms, bound) = (best.estimate.ms, best.estimate.bound);
        let reason = Reason::Estimate { gpu: gpu.name.clone(), calibrated: gpu.calibrated, size, ms, bound };
        Ok((best.schedule, reason))
    }

    fn cheap(&self) -> Result<Choice, Error> {
        let legal = |clauses: &&str| {
            let schedule = Schedule::parse_part(clauses).ok()?.with(self.problem.clone());
            schedule.check().is_ok().then_some(schedule)
        };
        match CHEAP.iter().find_map(legal) {
            Some(schedule) => Ok((schedule, Reason::Interpreter)),
            None => self.picked(Gpu::h200(), Size::cube(256)),
        }
    }

    fn nothing(&self, gpu: &str) -> Error {
        let what = format!("no family of schedules computes `{}` on {gpu}", self.problem.to_string().trim());
        Error::Schedule(Diagnostics::new(vec![Diagnostic::error("choose", "schedule", what)]))
    }
}

impl Chosen {
    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Why this one.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Its kernel, with everything that a call takes: C, scalars, vectors, batches, matrices on the device.
    pub fn gemm(&self) -> &CompiledGemm {
        &self.gemm
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Estimate { gpu, calibrated, size, ms, bound } => {
                let whole = if *calibrated { "" } else { ", not calibrated" };
                write!(f, "estimated at {ms:.4} ms for {size} on {gpu}{whole}; {bound} limits it")
            }
            Reason::Interpreter => write!(f, "cheap to interpret"),
        }
    }
}

impl Bucket {
    fn of(extents: [usize; 4]) -> Bucket {
        let up = |extent: usize| {
            let step = (extent.max(1).next_power_of_two() / 8).max(1);
            extent.max(1).next_multiple_of(step)
        };
        let [m, n, k, count] = extents;
        // Rows of odd lengths are copied in other ways.
        let row =
            |extent: usize| if extent.is_multiple_of(16) { up(extent).next_multiple_of(16) } else { up(extent) | 1 };
        Bucket([up(m), row(n), row(k), up(count)])
    }

    fn size(self) -> Size {
        let Bucket([m, n, k, batch]) = self;
        Size { m, n, k, batch }
    }
}

/// The GPU of a device.
fn gpu(device: &Device) -> Gpu {
    let limits = device.limits();
    known(device.name(), limits.target.unwrap_or(Target::SM_90A), limits.multiprocessors)
}

/// The GPU with this name in its own, or else one of its generation; with as many multiprocessors as the device has.
fn known(device: &str, target: Target, processors: u32) -> Gpu {
    let name = device.replace(' ', "").to_ascii_lowercase();
    let named = |gpu: &&Gpu| gpu.capability == target.capability && name.contains(&gpu.name.to_ascii_lowercase());
    match Gpu::all().iter().find(named) {
        Some(gpu) if gpu.processors == processors => gpu.clone(),
        named => {
            let like = named.or_else(|| Gpu::for_target(target)).unwrap_or(Gpu::h200());
            Gpu { name: device.to_owned(), processors, calibrated: false, ..like.clone() }
        }
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Target;

    use super::known;

    #[test]
    fn a_gpu_is_known_by_its_name_and_generation() {
        let h200 = known("NVIDIA H200", Target::SM_90A, 132);
        assert!(h200.calibrated && h200.name == "H200");
        // Another board of the same name, and another name that contains one.
        let pcie = known("NVIDIA H100 PCIe", Target::SM_90A, 114);
        assert!(!pcie.calibrated && pcie.processors == 114 && pcie.memory_gb_s == 3350);
        let a1000 = known("NVIDIA RTX A1000", Target::SM_80, 16);
        assert!(!a1000.calibrated && a1000.processors == 16);
    }
}
