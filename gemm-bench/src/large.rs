//! The suite `large`: cubes in page-locked memory of the host, on one GPU and on several.
//!
//! ```text
//! for each size: A, B and D in the host's memory
//!   for each schedule, for 1, 2, 4 ... GPUs and for all of them:
//!     multiply a few times, check the result, measure products and copies without the other: one row
//! ```
//!
//! Times are from the first copy to a GPU to the last strip of D in the host's memory. Page-locking, at about 2.5 GB/s,
//! takes longer than the product and is not counted.

mod sample;
mod table;

use std::time::{Duration, Instant};

use ptx_gemm::builder::Atom;
use ptx_gemm::large::plan::Rates;
use ptx_gemm::large::{Arguments, Large, LargeError};
use ptx_gemm::{DType, Device, DeviceKind, Error, PinnedMatrix, Schedule, Shape};
use serde::{Deserialize, Serialize};

use crate::spelling::RowTypes;
pub use sample::{Checked, Host, fill};
pub use table::{plot, table};

/// The number of runs of a product, and the time after which it is not repeated.
const RUNS: usize = 5;
const LONG: Duration = Duration::from_secs(2);

/// What is measured.
pub struct Order<'a> {
    /// Schedules for f32, by name.
    pub schedules: &'a [(String, Schedule)],
    /// Extents of the cubes.
    pub sizes: &'a [usize],
    /// All devices; each product runs on the first of them, the first two, the first four and so on.
    pub devices: &'a [Device],
    /// No product begins after this.
    pub deadline: Instant,
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Always `large`.
    pub suite: String,
    /// Types of A, B, the sums and D: `f32` if all agree.
    pub types: String,
    /// Layouts of A, B and D.
    pub layout: String,
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Products: one.
    pub batch: usize,
    /// The schedule's name.
    pub schedule: String,
    /// Number of devices.
    pub devices: usize,
    /// Milliseconds, the median of `runs`.
    pub ms: f64,
    /// Speed in TFLOP/s.
    pub tflops: f64,
    /// Number of runs.
    pub runs: usize,
    /// The speedup over one device; absent for one device, or without its time.
    pub speedup: Option<f64>,
    /// The largest error that was found, as a share of its bound.
    pub max_error: f64,
    /// Milliseconds of its products without copies, measured once; absent in older results.
    pub products_ms: Option<f64>,
    /// The same of its copies without products.
    pub copies_ms: Option<f64>,
}

impl Row {
    /// Its time relative to the larger of the two times that bound it.
    pub fn of_bound(&self) -> Option<f64> {
        Some(self.ms / self.products_ms?.max(self.copies_ms?))
    }
}

/// An event of a measurement.
pub enum Event<'a> {
    /// A product was measured.
    Row(&'a Row),
    /// Why some were not.
    Note(String),
}

/// The device counts that are tried: powers of two, and all of them.
pub fn counts(devices: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|count| *count < devices).collect();
    counts.extend((devices > 0).then_some(devices));
    counts
}

/// Measures every schedule at every size on every number of devices.
///
/// # Errors
///
/// Returns what is wrong with a schedule, or with a device. A size that does not fit the host's memory is a note.
pub fn measure(order: &Order<'_>, say: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Row>, LargeError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut late = 0;
    let Some(first) = order.devices.first() else { return Ok(rows) };
    for &extent in order.sizes {
        let all = order.schedules.len() * counts(order.devices.len()).len();
        if Instant::now() > order.deadline {
            late += all;
            continue;
        }
        let shape = Shape::packed(extent, extent, ptx_gemm::Layout::Row);
        let (mut a, mut b, mut d) = match matrices(first, shape) {
            Ok(matrices) => matrices,
            Err(error) => {
                say(Event::Note(format!("{extent}: {error}")));
                continue;
            }
        };
        fill(a.as_mut_slice()?, 1);
        fill(b.as_mut_slice()?, 2);
        for (name, schedule) in order.schedules {
            for count in counts(order.devices.len()) {
                if Instant::now() > order.deadline {
                    late += 1;
                    continue;
                }
                let devices = &order.devices[..count];
                let row = product((name, schedule), devices, (&a, &b, &mut d), &rows)?;
                say(Event::Row(&row));
                rows.push(row);
            }
        }
    }
    if late > 0 {
        say(Event::Note(format!("{late} measurements not begun: the time was up")));
    }
    Ok(rows)
}

/// Memory for A, B and D.
fn matrices(device: &Device, shape: Shape) -> Result<(Pinned, Pinned, Pinned), Error> {
    let matrix = || device.pinned(shape, 0.0f32);
    Ok((matrix()?, matrix()?, matrix()?))
}

type Pinned = PinnedMatrix<f32>;

/// TFLOP/s that an H200 sustains in large products, roughly, by kind of kernel: see `docs/performance.md`.
pub fn assumed_tflops(plan: &ptx_gemm::Plan) -> f64 {
    let types = plan.problem.types;
    match (plan.sums.emulate.map(|emulate| emulate.by.pairs().len()), plan.atom) {
        // Divided by the number of 16-bit products for each f32 product.
        (Some(products), _) => (800.0 / products as f64).round(),
        (None, Atom::Fma) if types.acc == DType::F64 => 30.0,
        (None, Atom::Fma) => 55.0,
        // Tensor cores take the same time for a byte of any type.
        (None, Atom::Mma(..)) => 700.0 / f64::from(types.a.bytes()),
        (None, Atom::Wgmma(..)) => 1400.0 / f64::from(types.a.bytes()),
    }
}

fn product(
    (name, schedule): (&str, &Schedule),
    devices: &[Device],
    (a, b, d): (&Pinned, &Pinned, &mut Pinned),
    rows: &[Row],
) -> Result<Row, LargeError> {
    let rates = schedule.plan(None).map(|plan| Rates::h200(assumed_tflops(&plan) * 1e12));
    let large = rates.into_iter().fold(Large::new(schedule)?.devices(devices), Large::rates);
    let mut times = Vec::new();
    let interpreted = devices.iter().any(|device| device.kind() == DeviceKind::Interpreter);
    while times.len() < RUNS {
        let run = large.run(d, a, b, &mut Arguments::new())?;
        times.push(run.time);
        if run.time > LONG || interpreted {
            break;
        }
    }
    times.sort();
    let problem = schedule.problem()?;
    let host = Host {
        problem: &problem,
        a: (a.as_slice()?, a.shape()),
        b: (b.as_slice()?, b.shape()),
        c: None,
        d: (d.as_slice()?, d.shape()),
        scalars: Vec::new(),
        vectors: Vec::new(),
    };
    let max_error = host.check(3).max_error;
    let bounds = large.bounds(d, a, b, &Arguments::new())?;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let (types, layouts, extent) = (problem.types, problem.layouts, a.shape().rows);
    let ms = milliseconds(times[times.len() / 2]);
    let alone = rows.iter().find(|row| row.n == extent && row.schedule == name && row.devices == 1);
    Ok(Row {
        suite: "large".into(),
        types: RowTypes { types: [types.a, types.b, types.acc, types.d], planes: None }.to_string(),
        layout: format!("{},{},{}", layouts.a, layouts.b, layouts.d),
        m: extent,
        n: extent,
        k: extent,
        batch: 1,
        schedule: name.into(),
        devices: devices.len(),
        ms,
        tflops: 2.0 * (extent as f64).powi(3) / ms / 1e9,
        runs: times.len(),
        speedup: alone.filter(|_| devices.len() > 1).map(|alone| alone.ms / ms),
        max_error,
        products_ms: Some(milliseconds(bounds.products)),
        copies_ms: Some(milliseconds(bounds.copies)),
    })
}

/// Whether a schedule can be measured here: plain products of row-major f32.
pub fn suits(schedule: &Schedule) -> bool {
    schedule.problem().is_ok_and(|problem| {
        let types = problem.types;
        let row = ptx_gemm::Layout::Row;
        [types.a, types.b, types.d].iter().all(|dtype| *dtype == DType::F32)
            && [problem.layouts.a, problem.layouts.b, problem.layouts.d].iter().all(|layout| *layout == row)
            && problem.epilogue == ptx_gemm::builder::Epilogue::identity()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_double() {
        assert_eq!(
            [0, 1, 2, 3, 4, 6].map(counts),
            [vec![], vec![1], vec![1, 2], vec![1, 2, 3], vec![1, 2, 4], vec![1, 2, 4, 6]]
        );
    }

    #[test]
    fn every_number_of_devices_has_a_row() {
        let schedule: Schedule = "tile(16, 16, 8); thread(2, 2);".parse().unwrap();
        assert!(suits(&schedule) && !suits(&"tile(16, 16, 8); thread(2, 2); layout(a = col);".parse().unwrap()));
        let devices = [0, 1].map(|_| Device::interpreter_with(Default::default()));
        let order = Order {
            schedules: &[("small".into(), schedule)],
            sizes: &[33, 48],
            devices: &devices,
            deadline: Instant::now() + Duration::from_secs(300),
        };
        let mut said = 0;
        let rows = measure(&order, &mut |event| said += usize::from(matches!(event, Event::Row(_)))).unwrap();
        let places: Vec<(usize, usize)> = rows.iter().map(|row| (row.n, row.devices)).collect();
        assert_eq!(places, [(33, 1), (33, 2), (48, 1), (48, 2)]);
        assert!(said == 4 && rows.iter().all(|row| row.max_error <= 1.0 && row.ms > 0.0), "{rows:?}");
        assert!(rows.iter().all(|row| row.speedup.is_some() == (row.devices == 2)));
        assert!(rows.iter().all(|row| row.of_bound().is_some_and(|share| share > 0.0)), "{rows:?}");
        let text = table(&rows);
        assert_eq!(text.lines().count(), 2 + rows.len(), "{text}");
        let picture = plot("interpreters", &rows);
        assert_eq!(picture.matches("<circle").count(), 4, "two sizes, on one device and on two");
        let late = Order { deadline: Instant::now() - Duration::from_secs(1), ..order };
        assert_eq!(measure(&late, &mut |_| ()).unwrap(), []);
    }
}
