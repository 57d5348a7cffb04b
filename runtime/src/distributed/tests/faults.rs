//! If a process fails, dies or does not respond, the others soon return a typed error.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ptx_gemm_dsl::Schedule;

use super::runs::{PATIENCE, device, on, port, tiles};
use crate::distributed::{Distributed, DistributedError, Launch, Rendezvous, Share, Tiles, World};
use crate::error::{DeviceError, Error};
use crate::large::tests::faults::{Fault, faulty};
use crate::large::{Arguments, Region};
use crate::matrix::Matrix;

/// Longer than any of these tests takes, shorter than the patience.
const SOON: Duration = Duration::from_secs(10);

fn product<'w>(world: &'w World, device: &crate::Device) -> Result<Distributed<'w>, DistributedError> {
    let schedule: Schedule = "tile(8, 8, 4); thread(2, 2);".parse().unwrap();
    Ok(Distributed::new(&schedule, world, device)?.depth(4))
}

fn ones<'t>() -> Tiles<'t> {
    tiles(|_, _| 1.0)
}

fn run(world: &World) -> Result<Share, DistributedError> {
    product(world, &device())?.run([20, 20, 20], &mut ones(), &mut ones(), &Arguments::new())
}

/// Whatever copy or launch fails on any process, that process reports it, and the others name the process.
#[test]
fn a_device_that_fails_is_named_by_all() {
    let mut seen = 0;
    for (fault, points) in [(Fault::Copy, 24), (Fault::Death, 6), (Fault::Memory, 8)] {
        for point in 0..points {
            let begun = Instant::now();
            let bad = (point as usize) % 4;
            let results = on(World::in_process(4, PATIENCE), |world| {
                let device = if world.rank() == bad { faulty(fault, point) } else { device() };
                product(&world, &device)?.run([20, 20, 20], &mut ones(), &mut ones(), &Arguments::new())
            });
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            if results[bad].is_ok() {
                // The fault was after the last operation of its kind.
                continue;
            }
            seen += 1;
            for (rank, result) in results.into_iter().enumerate() {
                match (rank == bad, result.map(drop)) {
                    (true, Err(DistributedError::Run(Error::Device(_)))) => {}
                    (false, Err(DistributedError::Peer { rank, reason })) => {
                        assert!(rank == bad && reason.starts_with("has failed: "), "{rank}: {reason}");
                    }
                    (_, other) => panic!("{fault:?} {point}, process {rank}: {other:?}"),
                }
            }
        }
    }
    assert!(seen > 25, "{seen} faults were met");
}

#[test]
fn a_process_that_panics_or_leaves_is_named() {
    let results = on(World::in_process(3, PATIENCE), |world| match world.rank() {
        1 => {
            let panics = |_: Region, _: &mut Matrix<f32>| panic!("no such tile");
            let panicked = catch_unwind(AssertUnwindSafe(move || {
                product(&world, &device())?.run(
                    [20, 20, 20],
                    &mut Tiles::function(panics),
                    &mut ones(),
                    &Arguments::new(),
                )
            }));
            assert!(panicked.is_err());
            None
        }
        _ => run(&world).map(drop).err(),
    });
    let panicked = Some(DistributedError::Peer { rank: 1, reason: "panicked".into() });
    assert_eq!(results, [panicked.clone(), None, panicked]);
    let results = on(World::in_process(2, PATIENCE), |world| (world.rank() == 0).then(|| run(&world).map(drop)));
    let words = results[0].as_ref().unwrap().as_ref().unwrap_err().to_string();
    assert_eq!(words, "process 1 has left (0.plan was expected), so that this product cannot be completed");
}

/// A product that is complete stays complete, whatever a process does right after it.
#[test]
fn a_later_failure_does_not_reach_back() {
    for _ in 0..200 {
        let results = on(World::in_process(4, PATIENCE), |world| {
            let complete = world.agree("end", "");
            if world.rank() == 1 {
                world.store().fail("has failed");
            }
            complete
        });
        assert_eq!(results, vec![Ok(()); 4]);
    }
}

#[test]
fn silence_ends_after_the_patience() {
    let patience = Duration::from_millis(300);
    let begun = Instant::now();
    let results = on(World::in_process(2, patience), |world| {
        if world.rank() == 1 {
            // Neither fails nor continues.
            thread::sleep(Duration::from_secs(2));
            return None;
        }
        let result = run(&world).map(drop);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        Some(result)
    });
    assert!(matches!(results[0], Some(Err(DistributedError::Silent { from: 1, .. }))), "{results:?}");
}

#[test]
fn different_products_are_noticed() {
    let results = on(World::in_process(2, PATIENCE), |world| {
        let k = 20 + world.rank();
        let run = product(&world, &device())?.run([20, 20, k], &mut ones(), &mut ones(), &Arguments::new());
        run.map(drop)
    });
    assert!(matches!(&results[0], Err(DistributedError::Disagree { rank: 1, .. })), "{results:?}");
    assert!(matches!(&results[1], Err(DistributedError::Peer { rank: 0, .. })), "{results:?}");
}

fn at(address: &str, rank: usize, patience: Duration) -> Result<World, DistributedError> {
    let launch = Launch { rank, size: 3, local: rank };
    World::meet_within(launch, Rendezvous::Address(address.into()), patience)
}

/// The connection of a process that dies closes without a message.
#[test]
fn a_process_that_dies_is_named_by_all() {
    let address = format!("127.0.0.1:{}", port());
    let begun = Instant::now();
    let alive = |rank| at(&address, rank, PATIENCE).and_then(|world| run(&world).map(drop));
    let (first, second) = thread::scope(|scope| {
        let (first, second) = (scope.spawn(|| alive(0)), scope.spawn(|| alive(1)));
        // The third process sends only its greeting.
        let mut stream = loop {
            match TcpStream::connect(&address) {
                Ok(stream) => break stream,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        };
        let greeting: Vec<u8> = [1u64, 3, 2].into_iter().flat_map(u64::to_le_bytes).collect();
        stream.write_all(&[b"ptx-gemm".as_slice(), &greeting].concat()).unwrap();
        drop(stream);
        (first.join().unwrap(), second.join().unwrap())
    });
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for result in [first, second] {
        let words = result.unwrap_err().to_string();
        assert!(words.starts_with("process 2 has died (its connection closed: "), "{words}");
    }
}

const FOLDER: &str = "PTX_GEMM_TEST_FOLDER";

/// Process 2 of the next test; it does nothing by itself.
#[test]
fn a_process_that_will_be_killed() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let launch = Launch { rank: 2, size: 3, local: 2 };
        let world = World::meet(launch, Rendezvous::Folder(folder.into())).unwrap();
        println!("has met");
        thread::sleep(Duration::from_secs(60));
        drop(world);
    }
}

/// In a folder no connection closes: the others notice that heartbeats have stopped.
#[test]
fn a_killed_process_is_noticed_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut killed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "distributed::tests::faults::a_process_that_will_be_killed"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let meet = |rank| {
        let launch = Launch { rank, size: 3, local: rank };
        World::meet(launch, Rendezvous::Folder(folder.path().into())).unwrap()
    };
    let (results, took) = thread::scope(|scope| {
        let others = [0, 1].map(|rank| scope.spawn(move || meet(rank)));
        let worlds = others.map(|world| world.join().unwrap());
        let lines = BufReader::new(killed.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("has met")));
        // Longer than the time after which a silent process is dead: the living processes are not considered dead.
        thread::sleep(Duration::from_secs(6));
        worlds.iter().for_each(|world| world.store().check().unwrap());
        killed.kill().unwrap();
        killed.wait().unwrap();
        let begun = Instant::now();
        let runs = worlds.map(|world| scope.spawn(move || run(&world).map(drop)));
        (runs.map(|run| run.join().unwrap()), begun.elapsed())
    });
    assert!(took < SOON, "{took:?}");
    for result in results {
        let died = DistributedError::Peer { rank: 2, reason: "has died (no sign of life for 5 s)".into() };
        assert_eq!(result, Err(died));
    }
}

/// A process that ends regularly is not dead, and its earlier messages are received.
#[test]
fn a_process_that_leaves_a_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let meet = |rank| World::meet(Launch { rank, size: 2, local: rank }, Rendezvous::Folder(folder.path().into()));
    let expects = thread::scope(|scope| {
        let leaves = scope.spawn(|| meet(1).unwrap().store().send(&[0], "last words", b"so long").unwrap());
        let stays = meet(0).unwrap();
        leaves.join().unwrap();
        assert_eq!(stays.store().receive(1, "last words", PATIENCE), Ok(b"so long".to_vec()));
        stays.store().receive(1, "more", PATIENCE)
    });
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let left = DistributedError::Peer { rank: 1, reason: "has left (more was expected)".into() };
    assert_eq!(expects, Err(left));
}

#[test]
fn strangers_and_missing_processes_are_told_apart() {
    let address = format!("127.0.0.1:{}", port());
    let patience = Duration::from_millis(400);
    // No process 0 exists.
    let words = at(&address, 1, patience).unwrap_err().to_string();
    assert!(words.contains("process 0 did not answer for 0 s"), "{words}");
    // Nobody connects, except a peer that does not belong to the launch.
    thread::scope(|scope| {
        let first = scope.spawn(|| at(&address, 0, patience));
        thread::sleep(Duration::from_millis(100));
        let mut stranger = TcpStream::connect(&address).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: somebody else\r\n\r\n").unwrap();
        let missing = first.join().unwrap().map(drop);
        assert!(matches!(missing, Err(DistributedError::Silent { from: 1, .. })), "{missing:?}");
    });
    // A folder of another launch.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("0.begin.0.1"), []).unwrap();
    let launch = Launch { rank: 0, size: 2, local: 0 };
    let old = World::meet_within(launch, Rendezvous::Folder(folder.path().into()), patience).unwrap_err().to_string();
    assert!(old.contains("it contains 0.begin.0.1, of another launch"), "{old}");
}

/// A GPU on a machine without one, and NCCL without its library.
#[test]
fn what_is_missing_is_an_error() {
    let world = World::in_process(1, PATIENCE).remove(0);
    match world.gpu() {
        Ok(device) => drop(product(&world, &device).unwrap().run([8; 3], &mut ones(), &mut ones(), &Arguments::new())),
        Err(error) => {
            assert!(matches!(error, DistributedError::Run(Error::Device(DeviceError::NoCuda { .. }))), "{error}")
        }
    }
}
