//! Plans without devices: the parts of each process, the order of events and of broadcasts, and random orders of
//! operations on interpreters.

use std::collections::BTreeMap;

use ptx_gemm_dsl::sums::Sums;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{Layout, Schedule};

use super::runs::tiles;
use crate::device::Device;
use crate::distributed::plan::{Plan, grid};
use crate::distributed::plan_for;
use crate::distributed::product::load;
use crate::interpreter::InterpreterOptions;
use crate::large::executor::Executor;
use crate::large::host::Host;
use crate::large::plan::Needs;
use crate::large::races::races;
use crate::large::sequential::Sequential;
use crate::large::site::{Constants, Site};
use crate::large::{Action, Buffer, Operation, Place, Region, Stream, shuffled};
use crate::matrix::Matrix;
use crate::view::{AsMatrix, AsMatrixMut};

const SCHEDULE: &str = "tile(4, 4, 4); thread(2, 2); epilogue(|acc| relu(acc));";
const GRIDS: [[usize; 2]; 6] = [[1, 1], [1, 2], [2, 1], [2, 2], [2, 3], [4, 3]];

fn planned(grid: [usize; 2], [m, n, k]: [usize; 3], depth: usize) -> Plan {
    plan_for(&SCHEDULE.parse().unwrap(), grid, Some(depth), [m, n, k]).unwrap()
}

/// Every element of A, B and D belongs to exactly one process.
#[test]
fn the_parts_are_the_whole() {
    for grid in GRIDS {
        for sizes @ [m, n, k] in [[14, 10, 22], [40, 3, 9], [4, 4, 4], [1, 30, 1], [0, 5, 5], [5, 5, 0]] {
            let plan = planned(grid, sizes, 4);
            let count = |rows: usize, cols: usize, regions: Vec<Region>| {
                let mut owners = Matrix::<i32>::zeros(rows, cols);
                for Region { row, col, rows, cols } in regions {
                    (row..row + rows).for_each(|i| (col..col + cols).for_each(|j| owners[(i, j)] += 1));
                }
                assert!(owners.as_slice().iter().all(|owners| *owners == 1), "{sizes:?} on {grid:?}");
            };
            let ranks = 0..plan.size();
            count(m, n, ranks.clone().map(|rank| plan.part(rank)).collect());
            let own = |operand| ranks.clone().flat_map(|rank| plan.own(rank, operand)).map(|(_, part)| part).collect();
            // One of the processes of a grid row holds each panel that the row shares.
            count(m, k, own(Operand::A));
            count(k, n, own(Operand::B));
        }
    }
}

#[test]
fn grids_are_as_square_as_possible() {
    let of = |size| [grid(size, 100, 100), grid(size, 200, 100)];
    assert_eq!(of(1), [[1, 1], [1, 1]]);
    assert_eq!(of(8), [[2, 4], [4, 2]]);
    assert_eq!(of(7), [[1, 7], [7, 1]]);
    assert_eq!(of(1024), [[32, 32], [32, 32]]);
}

#[test]
fn nothing_races() {
    for grid in GRIDS {
        for sizes in [[14, 10, 22], [40, 3, 9], [4, 4, 4], [5, 5, 0]] {
            let plan = planned(grid, sizes, 4);
            assert_eq!(races(&plan.world()), [], "{sizes:?} on {grid:?}");
            for rank in 0..plan.size() {
                assert_eq!(races(&plan.operations(rank)), [], "process {rank} of {grid:?}");
            }
        }
    }
}

/// Each event is needed: a plan without one of its waits has a race, which is reported.
#[test]
fn a_missing_event_is_a_race() {
    let operations = planned([2, 2], [14, 10, 30], 4).operations(1);
    let waits = operations.iter().enumerate().filter(|(_, one)| matches!(one.action, Action::Wait(_)));
    let waits: Vec<usize> = waits.map(|(index, _)| index).collect();
    assert!(waits.len() > 6, "{operations:?}");
    for wait in &waits {
        let mut without = operations.clone();
        without.remove(*wait);
        assert!(!races(&without).is_empty(), "{} is not needed", operations[*wait]);
    }
    let mut without = operations;
    without.remove(waits[0]);
    let words = races(&without)[0].to_string();
    assert!(words.contains("A slab 0 of device 1") && words.ends_with("nothing orders them"), "{words}");
}

/// Panels arrive while another one is multiplied: a broadcast waits only for the product that last read its slot.
#[test]
fn the_exchange_is_ahead_of_the_product() {
    let operations = planned([2, 2], [16, 16, 40], 4).operations(0);
    let at = |wanted: &dyn Fn(&Action) -> bool| operations.iter().position(|one| wanted(&one.action)).unwrap();
    let order = crate::large::races::Order::of(&operations);
    let broadcast = |wanted: usize| {
        at(&|action| matches!(action, Action::Broadcast { panel, operand: Operand::A, .. } if *panel == wanted))
    };
    let products: Vec<usize> =
        (0..operations.len()).filter(|index| matches!(operations[*index].action, Action::Multiply(_))).collect();
    // Process 0 has the even panels of A and receives the odd ones, into two slots.
    for panel in [3, 5, 7] {
        assert!(!order.precedes(products[panel - 1], broadcast(panel)), "panel {panel} waits for the one before it");
        assert!(order.precedes(broadcast(panel), products[panel]));
    }
    assert!(operations.iter().all(|one| matches!(one.stream, Stream::Exchange | Stream::Compute)));
}

/// A broadcast that a process waits in: the processes that take part, whether the operand is A, and the panel.
type Waiting = (Vec<usize>, bool, usize);

/// Runs the broadcasts of all processes as if each waited until all its processes take part. Returns the processes that
/// cannot continue.
fn stuck(plan: &Plan, mut queues: Vec<Vec<Operation>>) -> Vec<usize> {
    queues.iter_mut().for_each(|queue| {
        queue.retain(|one| matches!(one.action, Action::Broadcast { .. }));
        queue.reverse();
    });
    loop {
        let mut waiting: BTreeMap<Waiting, Vec<usize>> = BTreeMap::new();
        for (rank, queue) in queues.iter().enumerate() {
            let Some(Action::Broadcast { operand, panel, root, .. }) = queue.last().map(|one| &one.action) else {
                continue;
            };
            assert_eq!(*root, plan.root(rank, *operand, *panel));
            let members = plan.sharing(rank, *operand);
            waiting.entry((members, *operand == Operand::A, *panel)).or_default().push(rank);
        }
        let complete: Vec<Vec<usize>> =
            waiting.into_iter().filter(|((members, ..), here)| members == here).map(|(_, here)| here).collect();
        if complete.is_empty() {
            return (0..queues.len()).filter(|rank| !queues[*rank].is_empty()).collect();
        }
        for rank in complete.into_iter().flatten() {
            queues[rank].pop();
        }
    }
}

#[test]
fn broadcasts_do_not_wait_in_a_circle() {
    for grid in GRIDS {
        for sizes in [[14, 10, 22], [40, 3, 9], [4, 40, 9], [4, 4, 4]] {
            let plan = planned(grid, sizes, 4);
            let queues = |plan: &Plan| (0..plan.size()).map(|rank| plan.operations(rank)).collect::<Vec<_>>();
            assert_eq!(stuck(&plan, queues(&plan)), [0; 0], "{sizes:?} on {grid:?}");
        }
    }
    // A process with another order blocks all processes.
    let plan = planned([2, 2], [16, 16, 16], 4);
    let mut queues: Vec<Vec<Operation>> = (0..4).map(|rank| plan.operations(rank)).collect();
    queues[0].reverse();
    assert!(!stuck(&plan, queues).is_empty());
}

/// A product of all processes in one thread.
struct World {
    plan: Plan,
    sites: Vec<Option<Site>>,
    want: Matrix<f32>,
}

impl World {
    fn new(grid: [usize; 2]) -> World {
        let [m, n, k] = [14, 10, 22];
        let plan = planned(grid, [m, n, k], 4);
        let schedule: Schedule = SCHEDULE.parse().unwrap();
        let sums = Sums::of(&schedule).unwrap();
        let a = |row: usize, k: usize| ((row * 7 + k * 3) % 11) as f32 - 5.0;
        let b = |k: usize, col: usize| ((k * 5 + col * 2) % 13) as f32 - 6.0;
        let want = Matrix::from_fn(m, n, |i, j| (0..k).map(|k| a(i, k) * b(k, j)).sum::<f32>().max(0.0));
        // Without the interpreter's own checks, which would take most of the time: only the order is tested.
        let mut options = InterpreterOptions::default();
        options.options.checks = crate::interp::Checks::Off;
        let site = |rank: usize| {
            let (buffers, operations) = (plan.buffers(rank), plan.operations(rank));
            let workspace_bytes = plan.workspace_bytes;
            let needs = Needs { operations: &operations, buffers: &buffers, workspace_bytes, spare: 0 };
            let device = Device::interpreter_with(options.clone());
            let site = Site::new(&device, needs, &sums, &Constants::default(), [0, 0]).unwrap();
            load(&site, &plan, rank, Operand::A, Layout::Row, &mut tiles(a)).unwrap();
            load(&site, &plan, rank, Operand::B, Layout::Row, &mut tiles(b)).unwrap();
            Some(site)
        };
        let sites = (0..plan.size()).map(site).collect();
        World { plan, sites, want }
    }

    /// D after the operations in this order.
    fn run(&self, operations: &[Operation], order: &[usize]) -> Matrix<f32> {
        let none = Matrix::<f32>::zeros(0, 0);
        let mut nothing = Matrix::<f32>::zeros(0, 0);
        let (a, b) = (none.as_any().unwrap(), none.as_any().unwrap());
        let mut host = Host { a, b, c: None, d: nothing.as_any_mut().unwrap(), origin: [0, 0] };
        let mut executor = Sequential::new(&self.sites, &mut host);
        for index in order {
            executor.start(*index, &operations[*index]).unwrap_or_else(|(rank, error)| panic!("{rank}: {error}"));
        }
        let mut d = Matrix::from_fn(self.want.rows(), self.want.cols(), |_, _| f32::NAN);
        for (rank, site) in self.sites.iter().enumerate() {
            let part = self.plan.part(rank);
            let place = Place { buffer: Buffer::Sum, region: Region { row: 0, col: 0, ..part } };
            let matrix = d.as_any_mut().unwrap();
            let mut into = crate::large::host::PartMut { matrix, region: part };
            site.as_ref().unwrap().read(place, "D", &mut into).unwrap();
        }
        d
    }
}

#[test]
fn every_order_has_one_result() {
    for (grid, orders) in [([1, 2], 100), ([2, 2], 500), ([2, 3], 400)] {
        let world = World::new(grid);
        let operations = world.plan.world();
        for seed in 0..orders {
            assert_eq!(world.run(&operations, &shuffled(&operations, seed)), world.want, "order {seed} on {grid:?}");
        }
    }
}

/// The test above can fail: without its waits, the same plan gives wrong results in most orders.
#[test]
fn without_events_the_order_matters() {
    let world = World::new([2, 2]);
    let mut operations = world.plan.world();
    operations.retain(|one| !matches!(one.action, Action::Wait(_) | Action::Record(_)));
    let wrong = |seed: &u64| world.run(&operations, &shuffled(&operations, *seed)) != world.want;
    let wrong = (0..20).filter(wrong).count();
    assert!(wrong > 10, "{wrong} of 20 orders without events are wrong");
}

/// Memory of a process: a part of A, of B and of D, and the ring.
#[test]
fn memory_is_a_share_and_a_ring() {
    let schedule: Schedule = "tile(128, 128, 8); thread(8, 8);".parse().unwrap();
    let bytes = |grid| plan_for(&schedule, grid, Some(1024), [16384, 16384, 16384]).unwrap().device_bytes();
    let matrix = 16384u64 * 16384 * 4;
    assert_eq!(bytes([1, 1]), 3 * matrix);
    // Two slots of A and of B, each 8192 x 1024.
    assert_eq!(bytes([2, 2]), 3 * matrix / 4 + 4 * 8192 * 1024 * 4);
}
