//! How much of a session is done.

use crate::session::{Event, Order, Orders};

/// Counts the measurements that have begun, from the events of a session. One that fails counts as well.
#[derive(Clone, Debug)]
pub struct Progress {
    orders: Vec<Order>,
    /// Which of them is current.
    at: usize,
    /// Measurements of the orders that have ended.
    ended: usize,
    /// Measurements of the current one that have begun.
    begun: usize,
    /// Whether the last of them has no result yet.
    open: bool,
}

impl Progress {
    /// Before the first event.
    pub fn of(orders: &Orders) -> Progress {
        Progress { orders: orders.suites.clone(), at: 0, ended: 0, begun: 0, open: false }
    }

    /// Measurements that have begun.
    pub fn begun(&self) -> usize {
        self.ended + self.begun
    }

    /// All measurements.
    pub fn total(&self) -> usize {
        self.orders.iter().map(measurements).sum()
    }

    /// Takes an event into account.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Started { .. } => {
                self.begun += 1;
                self.open = true;
            }
            Event::Row(_) => self.open = false,
            // What has begun has been counted.
            Event::Missing { .. } if self.open => self.open = false,
            Event::Missing { size: Some(_), .. } => self.begun += 1,
            // A schedule that was excluded from the start is not counted in the order; others miss all sizes.
            Event::Missing { size: None, schedule, .. } => {
                let order = self.orders.get(self.at);
                let is_ordered = |order: &&Order| order.schedules.iter().any(|named| named.name == *schedule);
                self.begun += order.filter(is_ordered).map_or(0, |order| order.sizes.len());
            }
            Event::End { .. } => {
                self.ended += self.orders.get(self.at).map_or(0, measurements);
                self.at += 1;
                (self.begun, self.open) = (0, false);
            }
            Event::Begin { .. } | Event::Note(_) | Event::Broken(_) => {}
        }
    }
}

fn measurements(order: &Order) -> usize {
    order.sizes.len() * order.schedules.len()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ptx_gemm::Device;

    use super::Progress;
    use crate::Program;
    use crate::rivals::Against;
    use crate::session::{Event, Order, Orders, Reason};
    use crate::suites::{Named, Size};

    fn orders() -> Orders {
        let named = |name: &str| Named {
            name: name.into(),
            program: Program::Schedule("tile(32, 32, 8); thread(2, 2);".parse().unwrap()),
        };
        let order = |suite: &str, extents: &[usize], schedules: &[&str]| Order {
            suite: suite.into(),
            sizes: extents.iter().map(|extent| Size::cube(*extent)).collect(),
            schedules: schedules.iter().map(|name| named(name)).collect(),
            left_out: vec![("batched".into(), "it has a batch".into())],
        };
        let suites = vec![order("square", &[256, 512], &["one", "two"]), order("odd", &[255], &["one"])];
        Orders {
            device: Device::interpreter(),
            suites,
            against: Against::Cublas,
            beta: 0.0,
            rest: Duration::ZERO,
            deadline: Instant::now(),
        }
    }

    fn started(schedule: &str, extent: usize) -> Event {
        Event::Started { suite: "square".into(), schedule: schedule.into(), size: Size::cube(extent) }
    }

    fn missing(schedule: &str, size: Option<Size>) -> Event {
        let (suite, what) = ("square".into(), String::new());
        Event::Missing { suite, schedule: schedule.into(), size, reason: Reason::Refused, what }
    }

    #[test]
    fn every_measurement_counts_once() {
        let mut progress = Progress::of(&orders());
        assert_eq!(progress.total(), 5);
        let events = [
            (missing("batched", None), 0),
            (started("one", 256), 1),
            // It cannot be loaded, which is reported once.
            (missing("one", None), 1),
            (missing("two", Some(Size::cube(256))), 2),
            (started("one", 512), 3),
            (started("two", 512), 4),
            (missing("two", Some(Size::cube(512))), 4),
            (Event::End { suite: "square".into() }, 4),
            (Event::End { suite: "odd".into() }, 5),
        ];
        for (event, begun) in events {
            progress.take(&event);
            assert_eq!(progress.begun(), begun, "{event:?}");
        }
        let mut progress = Progress::of(&orders());
        progress.take(&missing("one", None));
        assert_eq!(progress.begun(), 2, "a schedule that has an error misses all sizes");
    }
}
