//! Correct results for ragged sizes and every grid, from functions and from matrices, through every kind of rendezvous.

use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use ptx_gemm_dsl::{Layout, Schedule};

use crate::CompiledGemm;
use crate::device::Device;
use crate::distributed::{Distributed, DistributedError, Launch, Rendezvous, Share, Tiles, World};
use crate::interpreter::InterpreterOptions;
use crate::large::{Arguments, Region};
use crate::matrix::Matrix;

pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn device() -> Device {
    Device::interpreter_with(InterpreterOptions::default())
}

/// Small integers, so that sums are exact in every order.
fn a(row: usize, k: usize) -> f32 {
    ((row * 7 + k * 3) % 11) as f32 - 5.0
}

fn b(k: usize, col: usize) -> f32 {
    ((k * 5 + col * 2) % 13) as f32 - 6.0
}

pub(super) fn tiles<'t>(element: impl Fn(usize, usize) -> f32 + 't) -> Tiles<'t> {
    Tiles::function(move |region: Region, tile: &mut Matrix<f32>| {
        for (row, col) in (0..region.rows).flat_map(|row| (0..region.cols).map(move |col| (row, col))) {
            tile[(row, col)] = element(region.row + row, region.col + col);
        }
    })
}

fn bias(n: usize) -> Vec<f32> {
    (0..n).map(|col| col as f32 - 7.0).collect()
}

/// D, assembled from the parts of the processes.
fn assembled(m: usize, n: usize, shares: &[Share]) -> Matrix<f32> {
    let mut d = Matrix::from_fn(m, n, |_, _| f32::NAN);
    for share in shares {
        let part = share.download::<f32>().unwrap();
        let Region { row, col, rows, cols } = share.region;
        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
            assert!(d[(row + i, col + j)].is_nan(), "two processes have D[{}, {}]", row + i, col + j);
            d[(row + i, col + j)] = part[(i, j)];
        }
    }
    d
}

/// Runs `work` as each process of a world of threads.
pub(super) fn on<T: Send>(worlds: Vec<World>, work: impl Fn(World) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let ranks: Vec<_> = worlds.into_iter().map(|world| scope.spawn(move || work(world))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn every_size_and_grid_is_right() {
    let cases = [
        ("", "epilogue(|acc| acc);"),
        ("layout(a = col, b = col, d = col); split_k(2);", "epilogue(|acc, bias, alpha| relu(alpha * acc + bias[n]));"),
    ];
    for (clauses, epilogue) in cases {
        let schedule: Schedule = format!("tile(8, 8, 4); thread(2, 2); {clauses} {epilogue}").parse().unwrap();
        let with_bias = epilogue.contains("bias");
        for [rows, cols] in [[1, 1], [1, 2], [2, 2], [2, 3]] {
            for (m, n, k) in [(37, 29, 30), (8, 8, 8), (1, 1, 1), (0, 5, 3), (20, 17, 0), (3, 40, 9)] {
                let vector = bias(n);
                let arguments = || match with_bias {
                    true => Arguments::new().set("alpha", 2).vector("bias", &vector),
                    false => Arguments::new(),
                };
                let shares = on(World::in_process(rows * cols, PATIENCE), |world| {
                    let mut product = Distributed::new(&schedule, &world, &device()).unwrap().grid(rows, cols).depth(8);
                    product.run([m, n, k], &mut tiles(a), &mut tiles(b), &arguments()).unwrap()
                });
                let whole = CompiledGemm::new(&schedule, &device()).unwrap();
                let (la, lb) = (whole.problem().layouts.a, whole.problem().layouts.b);
                let (a, b) = (Matrix::from_fn(m, k, a).to_layout(la), Matrix::from_fn(k, n, b).to_layout(lb));
                let call = if with_bias { whole.set("alpha", 2).vector("bias", &vector) } else { whole.call() };
                let want: Matrix<f32> = call.multiply(&a, &b).unwrap();
                let d = assembled(m, n, &shares);
                assert_eq!(d, want.to_layout(Layout::Row), "{m} x {n} x {k} on {rows} x {cols}, {clauses}");
            }
        }
    }
}

/// A second product uses the same processes and its own tags; a matrix gives the same tiles as a function.
#[test]
fn a_matrix_gives_the_same_as_a_function() {
    let schedule: Schedule = "types(f16, acc = f32, d = f32); tile(8, 8, 4); thread(2, 2);".parse().unwrap();
    let half = |value: f32| half::f16::from_f32(value);
    let (ma, mb) = (Matrix::from_fn(20, 30, |i, k| half(a(i, k))), Matrix::from_fn(30, 25, |k, j| half(b(k, j))));
    let shares = on(World::in_process(4, PATIENCE), |world| {
        let mut product = Distributed::new(&schedule, &world, &device()).unwrap().depth(4);
        let mut run = || {
            let arguments = Arguments::new();
            product.run([20, 25, 30], &mut Tiles::matrix(&ma), &mut Tiles::matrix(&mb), &arguments).unwrap()
        };
        assert_eq!(run().download::<f32>(), run().download::<f32>());
        let wide = product.run([20, 25, 30], &mut tiles(a), &mut Tiles::matrix(&mb), &Arguments::new());
        let words = wide.unwrap_err().to_string();
        assert!(
            words.contains("A is f32, 20 x 30, row major, the product needs f16") || words.contains("process"),
            "{words}"
        );
    });
    assert_eq!(shares.len(), 4);
}

/// A port that no other test uses.
pub(super) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    21_000 + (std::process::id() % 4_000) as u16 * 8 + NEXT.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn processes_meet_at_an_address_and_in_a_folder() {
    let schedule: Schedule = "tile(8, 8, 4); thread(2, 2);".parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for rendezvous in
        [Rendezvous::Address(format!("127.0.0.1:{}", port())), Rendezvous::Folder(folder.path().join("meeting"))]
    {
        let meet = |rank| {
            let launch = Launch { rank, size: 4, local: rank };
            let world = World::meet_within(launch, rendezvous.clone(), PATIENCE)?;
            let mut product = Distributed::new(&schedule, &world, &device())?.depth(4);
            product.run([19, 23, 17], &mut tiles(a), &mut tiles(b), &Arguments::new())
        };
        let shares: Vec<Share> = thread::scope(|scope| {
            let meet = &meet;
            let ranks: Vec<_> = (0..4).map(|rank| scope.spawn(move || meet(rank).unwrap())).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let want = Matrix::from_fn(19, 23, |i, j| (0..17).map(|k| a(i, k) * b(k, j)).sum());
        assert_eq!(assembled(19, 23, &shares), want, "{rendezvous:?}");
    }
    // Every message has been received.
    assert_eq!(folder.path().join("meeting").read_dir().unwrap().count(), 0);
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let one = || World::in_process(1, PATIENCE).remove(0);
    let refused = |text: &str, size: [usize; 2]| {
        let world = one();
        let schedule: Schedule = text.parse().unwrap();
        let product = Distributed::new(&schedule, &world, &device())?;
        product.grid(size[0], size[1]).plan(8, 8, 8).map(drop)
    };
    let plain = "tile(8, 8, 4); thread(2, 2);";
    assert_eq!(refused(plain, [1, 1]), Ok(()));
    assert_eq!(refused(&format!("{plain} batch(strided);"), [1, 1]), Err(DistributedError::Batched));
    let with_c = |beta: f64| {
        let world = one();
        let schedule: Schedule = format!("{plain} epilogue(|acc, c, beta| acc + beta * c);").parse().unwrap();
        let mut product = Distributed::new(&schedule, &world, &device()).unwrap().depth(4);
        let share = product.run([9, 9, 9], &mut tiles(a), &mut tiles(b), &Arguments::new().set("beta", beta))?;
        share.download::<f32>()
    };
    assert_eq!(with_c(1.0), Err(DistributedError::ReadsC));
    let want = Matrix::from_fn(9, 9, |i, j| (0..9).map(|k| a(i, k) * b(k, j)).sum());
    assert_eq!(with_c(0.0), Ok(want));
    let words = refused(plain, [2, 3]).unwrap_err().to_string();
    assert_eq!(words, "a grid of 2 x 3 has 6 processes, there are 1");
}
