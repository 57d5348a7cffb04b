//! Products across real processes: this test starts itself again, once for each rank, with a launcher's variables.

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ptx_gemm_runtime::distributed::{Distributed, DistributedError, Share, Tiles, World};
use ptx_gemm_runtime::large::{Arguments, Region};
use ptx_gemm_runtime::{Device, Matrix};

/// A variable of these tests: the task of a process that they start.
const TASK: &str = "PTX_GEMM_TEST_TASK";
/// Time within which the others notice that a process dies.
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

/// Compares every element with its exact value.
fn check(share: &Share, k: usize) {
    let (d, Region { row, col, rows, cols }) = (share.download::<f32>().unwrap(), share.region);
    for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
        let sum: f32 = (0..k).map(|k| element(row + i, k) * element(k, col + j)).sum();
        assert_eq!(d[(i, j)], sum, "D[{}, {}]", row + i, col + j);
    }
    println!("right: D{}", share.region);
}

/// Whether this many GPUs are present, and NCCL to connect them.
fn has_gpus(count: usize) -> bool {
    cfg!(feature = "nccl") && ptx_gemm_runtime::cuda::status().is_ok_and(|status| status.devices >= count)
}

/// A single process also loads, connects and calls NCCL.
#[test]
fn a_gpu_by_itself_uses_nccl() {
    if !has_gpus(1) {
        return;
    }
    let world = World::in_process(1, Duration::from_secs(60)).remove(0);
    let schedule = "tile(64, 64, 8); thread(4, 4);".parse().unwrap();
    let mut product = Distributed::new(&schedule, &world, &Device::cuda(0).unwrap()).unwrap().depth(64);
    for [m, n, k] in [[333, 257, 500], [64, 64, 0], [0, 5, 5]] {
        match product.run([m, n, k], &mut tiles(), &mut tiles(), &Arguments::new()) {
            Ok(share) => check(&share, k),
            Err(DistributedError::NoNccl { reason }) => return println!("skipped: {reason}"),
            Err(other) => panic!("{other}"),
        }
    }
}

/// The task of a process that a test below has started. By itself it does nothing.
#[test]
fn one_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (m, n, k) = (45, 37, 50);
    let schedule = "tile(8, 8, 4); thread(2, 2);".parse().unwrap();
    let run = || {
        let world = World::from_env()?;
        let device = if task.ends_with("on GPUs") { world.gpu()? } else { Device::interpreter() };
        let mut product = Distributed::new(&schedule, &world, &device)?.depth(8);
        let mut b = match (task.split(' ').next(), world.rank()) {
            // Dies in the middle, without a message.
            (Some("dies"), 1) => Tiles::function(|_, _: &mut Matrix<f32>| std::process::abort()),
            _ => tiles(),
        };
        product.run([m, n, k], &mut tiles(), &mut b, &Arguments::new())
    };
    match run() {
        Ok(share) => check(&share, k),
        Err(error) => println!("error: {error}"),
    }
}

/// A port that is not in use.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn launch(task: &str, size: usize, [rank, world, local]: [&str; 3]) -> Vec<Output> {
    let port = port().to_string();
    let start = |index: usize| -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["distributed::one_process", "--exact", "--nocapture"])
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
    let (host, gpu) = ("multiplies", "multiplies on GPUs");
    let cases = [(host, 2, torchrun), (host, 4, mpirun), (host, 3, srun), (gpu, 2, torchrun), (gpu, 4, mpirun)];
    for (task, size, variables) in cases.into_iter().filter(|(task, size, _)| *task == host || has_gpus(*size)) {
        for (rank, output) in launch(task, size, variables).into_iter().enumerate() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("right: D["), "{rank} of {size}: {text}{errors}");
        }
    }
}

#[test]
fn a_process_that_is_killed_ends_the_others() {
    let tasks = [("dies", 4), ("dies on GPUs", 2)];
    for (task, size) in tasks.into_iter().filter(|(task, size)| *task == "dies" || has_gpus(*size)) {
        let begun = Instant::now();
        let outputs = launch(task, size, ["RANK", "WORLD_SIZE", "LOCAL_RANK"]);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        for (rank, output) in outputs.into_iter().enumerate() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let named = text.contains("error: process 1 has died (its connection closed");
            assert_eq!(named, rank != 1, "{rank}: {text}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
