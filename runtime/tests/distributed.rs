//! Products across real processes: this test starts itself again, once for each rank, with a launcher's variables.

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ptx_gemm_runtime::distributed::{Distributed, Tiles, World};
use ptx_gemm_runtime::large::{Arguments, Region};
use ptx_gemm_runtime::{Device, Matrix};

/// A variable of these tests: what a process that they start does.
const TASK: &str = "PTX_GEMM_TEST_TASK";
/// How soon the others notice a process that dies.
const SOON: Duration = Duration::from_secs(10);

fn element(row: usize, col: usize) -> f32 {
    ((row * 7 + col * 3) % 11) as f32 - 5.0
}

fn tiles<'t>() -> Tiles<'t> {
    Tiles::function(|region: Region, tile: &mut Matrix<f32>| {
        for (row, line) in tile.as_mut_slice().chunks_mut(region.cols).enumerate() {
            line.iter_mut().enumerate().for_each(|(col, x)| *x = element(region.row + row, region.col + col));
        }
    })
}

/// What a process does that a test below has started. By itself it does nothing.
#[test]
fn one_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (m, n, k) = (45, 37, 50);
    let schedule = "tile(8, 8, 4); thread(2, 2);".parse().unwrap();
    let run = || {
        let world = World::from_env()?;
        let mut product = Distributed::new(&schedule, &world, &Device::interpreter())?.depth(8);
        let mut b = match (task.as_str(), world.rank()) {
            // In the middle, without a word.
            ("dies", 1) => Tiles::function(|_, _: &mut Matrix<f32>| std::process::abort()),
            _ => tiles(),
        };
        product.run([m, n, k], &mut tiles(), &mut b, &Arguments::new())
    };
    match run() {
        Ok(share) => {
            let (d, Region { row, col, rows, cols }) = (share.download::<f32>().unwrap(), share.region);
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                let sum: f32 = (0..k).map(|k| element(row + i, k) * element(k, col + j)).sum();
                assert_eq!(d[(i, j)], sum, "D[{}, {}]", row + i, col + j);
            }
            println!("right: D{}", share.region);
        }
        Err(error) => println!("error: {error}"),
    }
}

/// A port that nobody uses now.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn launch(task: &str, size: usize, [rank, world, local]: [&str; 3]) -> Vec<Output> {
    let port = port().to_string();
    let start = |index: usize| -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["one_process", "--exact", "--nocapture"])
            .env(TASK, task)
            .env(rank, index.to_string())
            .env(world, size.to_string())
            .env(local, index.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", &port)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = (0..size).map(start).collect();
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

#[test]
fn processes_multiply() {
    let torchrun = ["RANK", "WORLD_SIZE", "LOCAL_RANK"];
    let mpirun = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"];
    let srun = ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"];
    for (size, variables) in [(2, torchrun), (4, mpirun), (3, srun)] {
        for (rank, output) in launch("multiplies", size, variables).into_iter().enumerate() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("right: D["), "{rank} of {size}: {text}{errors}");
        }
    }
}

#[test]
fn a_process_that_is_killed_ends_the_others() {
    let begun = Instant::now();
    let outputs = launch("dies", 4, ["RANK", "WORLD_SIZE", "LOCAL_RANK"]);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for (rank, output) in outputs.into_iter().enumerate() {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let named = text.contains("error: process 1 has died (its connection closed");
        assert_eq!(named, rank != 1, "{rank}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
