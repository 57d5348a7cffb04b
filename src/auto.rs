//! Products with schedules that are chosen for them.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ptx_gemm_choose::{self as choose, Bound, Entry, Gpu, Lock, Pick, Size, Source};
use ptx_gemm_dsl::{DType, Diagnostic, Diagnostics, Layout, Schedule};
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
    of_types(device, A::Element::DTYPE, [layout(a), layout(b)])?.multiply(a, b)
}

/// What [`matmul`] keeps: an [`Auto`] for each device, type and pair of layouts.
type Kept = (Device, DType, [Layout; 2], Auto);

/// The oldest one goes if there are more.
const KEPT: usize = 64;

static KEPT_ONES: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// The entries that [`set_lock`] gave.
static OWN: Mutex<Option<Arc<Lock>>> = Mutex::new(None);

/// Entries of your own, for [`matmul`] and for every [`Auto`] that is made after this call. They come before those of the library.
///
/// ```
/// use ptx_gemm::choose::Lock;
///
/// // In a program: include_str!("../gemm.lock"), which `gemmc tune` wrote.
/// let lock = Lock::parse("").map_err(std::io::Error::other)?;
/// ptx_gemm::set_lock(lock);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set_lock(lock: Lock) {
    *OWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(lock));
    KEPT_ONES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn of_types(device: &Device, dtype: DType, layouts: [Layout; 2]) -> Result<Auto, Error> {
    let mut kept = KEPT_ONES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept.iter().find(|one| (one.1, one.2) == (dtype, layouts) && one.0.is_same(device));
    if let Some((.., auto)) = found {
        return Ok(auto.clone());
    }
    let auto = Auto::new(&format!("types({dtype}); layout(a = {}, b = {})", layouts[0], layouts[1]), device)?;
    if kept.len() >= KEPT {
        kept.remove(0);
    }
    kept.push((device.clone(), dtype, layouts, auto.clone()));
    Ok(auto)
}

/// Kernels for one problem on one device: for each size of a product a schedule is chosen, the first time that it comes up, by
/// entries of a lock and by estimates. Nothing is timed.
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
    problem: Arc<Schedule>,
    device: Device,
    lock: Option<Arc<Lock>>,
    loaded: Arc<Mutex<HashMap<[usize; 4], Arc<Chosen>>>>,
}

/// A schedule that was chosen, and its kernel.
#[derive(Debug)]
pub struct Chosen {
    schedule: Schedule,
    reason: Reason,
    gemm: CompiledGemm,
}

/// A launch of [`Auto`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AutoRun {
    /// The launch.
    pub run: Run,
    /// What was launched, and why.
    pub chosen: Arc<Chosen>,
}

/// Why a schedule was chosen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It was the fastest for this product when `gemmc tune` timed it.
    Entry(Box<Entry>),
    /// It was the fastest for a product that is near.
    Near {
        /// The line of the lock.
        entry: Box<Entry>,
        /// The product that it was chosen for.
        size: Size,
        /// Milliseconds to expect, by an estimate that the entry corrected.
        ms: f64,
    },
    /// It has the best estimate of all families.
    Estimate {
        /// The GPU that it was estimated for.
        gpu: String,
        /// Whether its figures were fitted to times on such a GPU.
        calibrated: bool,
        /// The product that it was chosen for.
        size: Size,
        /// Milliseconds.
        ms: f64,
        /// The resource that limits it.
        bound: Bound,
    },
    /// The interpreter runs small tiles of few threads fastest.
    Interpreter,
}

/// What was chosen without a lock of the user's, on any device: a search takes a few tenths of a second.
static CHOICES: LazyLock<Mutex<HashMap<Key, Choice>>> = LazyLock::new(Mutex::default);

/// The device by its kind and name, the problem, and the size.
type Key = (DeviceKind, String, String, [usize; 4]);

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
        let problem = Arc::new(Schedule::parse_part(clauses)?);
        let lock = OWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Auto { problem, device: device.clone(), lock, loaded: Arc::default() })
    }

    /// The same with these entries in place of those of [`set_lock`]. The interpreter takes schedules of its own.
    #[must_use]
    pub fn with_lock(self, lock: Arc<Lock>) -> Auto {
        Auto { lock: Some(lock), loaded: Arc::default(), ..self }
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
        let bucket = Size { m, n, k, batch: count }.bucket();
        let key = [bucket.m, bucket.n, bucket.k, bucket.batch];
        let known = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (schedule, reason) = self.chosen(bucket, key)?;
        let gemm = CompiledGemm::new(&schedule, &self.device)?;
        let chosen = Arc::new(Chosen { schedule, reason, gemm });
        Ok(self.loaded.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(chosen).clone())
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
    pub fn multiply_into(
        &self,
        a: &impl AsMatrix,
        b: &impl AsMatrix,
        d: &mut impl AsMatrixMut,
    ) -> Result<AutoRun, Error> {
        let chosen = self.of(a, b)?;
        Ok(AutoRun { run: chosen.gemm.multiply_into(a, b, d)?, chosen })
    }

    /// The kernel for these matrices. What does not fit is left for it to report.
    fn of(&self, a: &impl AsMatrix, b: &impl AsMatrix) -> Result<Arc<Chosen>, Error> {
        let shape = |matrix: &dyn AsMatrix| matrix.as_any().map_or([1, 1], |one| [one.shape.rows, one.shape.cols]);
        let ([m, k], [_, n]) = (shape(a), shape(b));
        self.choose(m, n, k)
    }

    fn chosen(&self, size: Size, key: [usize; 4]) -> Result<Choice, Error> {
        let device = &self.device;
        if self.lock.is_some() && device.kind() != DeviceKind::Interpreter {
            return self.fastest(&gpu_of(device), size);
        }
        let key = (device.kind(), device.name().to_owned(), self.problem.to_string(), key);
        if let Some(choice) = CHOICES.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(choice.clone());
        }
        let choice = match device.kind() {
            DeviceKind::Interpreter => self.cheap()?,
            DeviceKind::Cuda(_) => self.fastest(&gpu_of(device), size)?,
        };
        CHOICES.lock().unwrap_or_else(PoisonError::into_inner).insert(key, choice.clone());
        Ok(choice)
    }

    /// The schedule that is expected to be the fastest.
    fn fastest(&self, gpu: &Gpu, size: Size) -> Result<Choice, Error> {
        let pick = Pick { given: &self.problem, size, gpu };
        let found = choose::choose(&pick, self.lock.as_deref()).ok_or_else(|| self.nothing(&gpu.name))?;
        let (ms, bound) = (found.ms, found.bound);
        let reason = match found.source {
            Source::Entry(entry) => Reason::Entry(entry),
            Source::Near(entry) => Reason::Near { entry, size, ms },
            Source::Family(_) => {
                Reason::Estimate { gpu: gpu.name.clone(), calibrated: gpu.calibrated, size, ms, bound }
            }
        };
        Ok((found.schedule, reason))
    }

    fn cheap(&self) -> Result<Choice, Error> {
        let legal = |clauses: &&str| {
            let schedule = Schedule::parse_part(clauses).ok()?.with(Schedule::clone(&self.problem));
            schedule.check().is_ok().then_some(schedule)
        };
        match CHEAP.iter().find_map(legal) {
            Some(schedule) => Ok((schedule, Reason::Interpreter)),
            None => self.fastest(Gpu::h200(), Size::cube(256)),
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

impl Deref for AutoRun {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Entry(entry) => {
                let Entry { gpu, size, ms, ratio, date, .. } = &**entry;
                let ratio = ratio.map_or(String::new(), |ratio| format!(", {ratio:.2} of cuBLAS's speed"));
                write!(f, "the fastest for {size} on {gpu}: {ms:.4} ms{ratio}, timed on {date}")
            }
            Reason::Near { entry, size, ms } => {
                let Entry { gpu, size: own, date, .. } = &**entry;
                write!(f, "estimated at {ms:.4} ms for {size}; the fastest for {own} on {gpu}, timed on {date}")
            }
            Reason::Estimate { gpu, calibrated, size, ms, bound } => {
                let whole = if *calibrated { "" } else { ", not calibrated" };
                write!(f, "estimated at {ms:.4} ms for {size} on {gpu}{whole}; {bound} limits it")
            }
            Reason::Interpreter => write!(f, "cheap to interpret"),
        }
    }
}

/// The GPU of a device, as estimates know it.
pub fn gpu_of(device: &Device) -> Gpu {
    let limits = device.limits();
    Gpu::of_device(device.name(), limits.target, limits.multiprocessors)
}
