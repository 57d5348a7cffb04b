//! Lower bounds for the time of a product of host matrices: its products without their copies, and its copies without
//! them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::error::{Incomplete, LargeError};
use super::operation::{Action, Operation};
use super::perform::{Failure, perform};
use super::product::Large;
use super::region::Region;
use super::run::{Prepared, executor};
use crate::device::Device;
use crate::view::{AsMatrix, AsMatrixMut};

/// The times of the two halves of a plan, each performed without the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Time of every product, on slabs that are already on the device.
    pub products: Duration,
    /// Time of every copy: from the host, between devices, to the host.
    pub copies: Duration,
}

impl Bounds {
    /// The larger of the two: no overlap of copies and products can be faster.
    pub fn larger(&self) -> Duration {
        self.products.max(self.copies)
    }
}

/// The operations to run, by their index. Every order keeps all events, so that the streams wait as they do in the
/// whole plan.
struct Orders {
    /// Copies to the devices that fill each part of a buffer once.
    fill: Vec<usize>,
    products: Vec<usize>,
    copies: Vec<usize>,
}

impl Orders {
    fn of(operations: &[Operation]) -> Orders {
        let mut filled = HashSet::new();
        let mut orders = Orders { fill: Vec::new(), products: Vec::new(), copies: Vec::new() };
        for (index, Operation { device, action, .. }) in operations.iter().enumerate() {
            match action {
                Action::Record(_) | Action::Wait(_) => {
                    orders.fill.push(index);
                    orders.products.push(index);
                    orders.copies.push(index);
                }
                Action::Multiply(_) => orders.products.push(index),
                Action::Upload { to: place, .. }
                | Action::Receive { place, .. }
                | Action::Broadcast { to: place, .. } => {
                    orders.copies.push(index);
                    if filled.insert((*device, *place)) {
                        orders.fill.push(index);
                    }
                }
                Action::Download { .. } => orders.copies.push(index),
            }
        }
        orders
    }
}

impl Large {
    /// Measures the plan of [`Large::run`] for the same arguments twice: its products without copies, on the first slab
    /// that each slot of the ring holds, and its copies without products. Afterwards D is unspecified.
    ///
    /// # Errors
    ///
    /// Those of [`Large::run`]. The failure of a device always ends the measurement.
    pub fn bounds(
        &self,
        d: &mut impl AsMatrixMut,
        a: &impl AsMatrix,
        b: &impl AsMatrix,
        arguments: &Arguments<'_>,
    ) -> Result<Bounds, LargeError> {
        let Prepared { using, failures, mut host, constants, addend, depth } = self.prepare(d, a, b, arguments)?;
        let whole = Region::new(0..host.d.shape.rows, 0..host.d.shape.cols);
        let failed = |failures: Vec<Failure>| {
            LargeError::Incomplete(Box::new(Incomplete { finished: Vec::new(), left: vec![whole], failures }))
        };
        if !failures.is_empty() {
            return Err(failed(failures));
        }
        let devices: Vec<Device> = using.into_iter().map(|(_, device)| device).collect();
        let vector_bytes = constants.vectors.iter().map(|vector| vector.bytes.len() as u64).sum();
        let request = self.request(&devices, [whole.rows, whole.cols, depth], addend, vector_bytes)?;
        let plan = self.plan_of(request, devices.first())?;
        let sites = self.sites(&plan, &devices, &constants, host.origin).map_err(failed)?;
        let mut executor = executor(&sites, &mut host)
            .map_err(|(device, error)| failed(vec![Failure { device, operation: None, error }]))?;
        let mut timed = |order: Vec<usize>| {
            let begun = Instant::now();
            let performed = perform(&plan, order.into_iter(), &mut *executor, &mut |_| ());
            if performed.failures.is_empty() { Ok(begun.elapsed()) } else { Err(failed(performed.failures)) }
        };
        let Orders { fill, products, copies } = Orders::of(&plan.operations);
        timed(fill)?;
        Ok(Bounds { products: timed(products)?, copies: timed(copies)? })
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Schedule;

    use super::*;
    use crate::interpreter::InterpreterOptions;
    use crate::large::plan::Tuning;
    use crate::large::{Access, AccessKind, Plan};
    use crate::matrix::Matrix;

    const TUNING: Tuning = Tuning { depth: Some(8), ring: Some(2), strips: Some(2) };

    fn large() -> Large {
        let schedule: Schedule =
            "tile(8, 8, 4); thread(2, 2); epilogue(|acc, c, beta| acc + beta * c);".parse().unwrap();
        let devices = [0; 2].map(|_| Device::interpreter_with(InterpreterOptions::default()));
        Large::new(&schedule).unwrap().devices(&devices).budget(6000).tuning(TUNING)
    }

    fn accesses<'p>(plan: &'p Plan, order: &'p [usize]) -> impl Iterator<Item = Access> + 'p {
        order.iter().flat_map(|index| plan.operations[*index].accesses())
    }

    #[test]
    fn products_and_copies_are_apart_and_complete() {
        let plan = large().plan(37, 29, 50).unwrap();
        let Orders { fill, products, copies } = Orders::of(&plan.operations);
        let count = |order: &[usize], is: fn(&Action) -> bool| {
            order.iter().filter(|index| is(&plan.operations[**index].action)).count()
        };
        let events = |action: &Action| matches!(action, Action::Record(_) | Action::Wait(_));
        let multiplies = |action: &Action| matches!(action, Action::Multiply(_));
        let all: Vec<usize> = (0..plan.operations.len()).collect();
        for order in [&fill, &products, &copies] {
            assert_eq!(count(order, events), count(&all, events), "every event is kept");
        }
        assert_eq!(count(&products, multiplies), count(&all, multiplies));
        assert_eq!((count(&fill, multiplies), count(&copies, multiplies)), (0, 0));
        assert_eq!(
            products.len() + copies.len(),
            all.len() + count(&all, events),
            "each other operation is in one of them"
        );
        // Slots are filled once. That covers everything that the products read, but not all copies.
        assert!(fill.len() < copies.len());
        let written: Vec<Access> = accesses(&plan, &fill).filter(|access| access.kind == AccessKind::Write).collect();
        let own: Vec<Access> = accesses(&plan, &products).filter(|access| access.kind == AccessKind::Write).collect();
        let known = |read: &Access| written.iter().chain(&own).any(|write| write.conflicts(read));
        assert!(accesses(&plan, &products).all(|access| known(&access)));
    }

    #[test]
    fn both_are_measured_and_the_checks_are_those_of_a_run() {
        let [a, b, c] = [(37, 50), (50, 29), (37, 29)].map(|(rows, cols)| Matrix::<f32>::random(rows, cols, 1));
        let mut d = Matrix::<f32>::zeros(37, 29);
        let arguments = Arguments::new().c(&c).set("beta", 2.0);
        let bounds = large().bounds(&mut d, &a, &b, &arguments).unwrap();
        assert!(bounds.products > Duration::ZERO && bounds.copies > Duration::ZERO, "{bounds:?}");
        assert!(bounds.larger() >= bounds.products && bounds.larger() >= bounds.copies);
        assert!(large().bounds(&mut d, &b, &a, &arguments).is_err(), "shapes that do not fit");
    }
}
