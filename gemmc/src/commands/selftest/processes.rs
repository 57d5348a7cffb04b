//! Tests in separate processes: two with one cache of cubins, both started at once; a damaged entry, which is
//! recreated; and the first launch of a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::claims::{Answer, Trouble, expect, failed};

const PRODUCT: [&str; 10] = ["run", "double_buffered", "-m", "100", "-n", "90", "-k", "80", "--exact", "--json"];

/// Schedules for the timed first launch: the one that the README begins with, and the largest of the fast ones.
const FIRST: [&str; 2] = ["double_buffered", "nn_128x128"];
/// The time to the first result after the device was opened, with a warm cache.
const AT_ONCE: f64 = 20.0;
/// Processes that are timed with a warm cache.
const WARM: usize = 5;

pub(crate) fn share_a_cache(ordinal: usize) -> Answer {
    in_a_folder("shared", |program, folder| share(program, folder, ordinal))
}

/// The time from opening the device to the first result: a median over processes, each with its own first launch.
pub(crate) fn first_launch(ordinal: usize) -> Answer {
    let mut words = Vec::new();
    for case in FIRST {
        words.push(in_a_folder(case, |program, folder| first_of(program, folder, case, ordinal))?);
    }
    Ok(words.join("; "))
}

/// A process with a context that dies: it gets an error, and exits normally.
pub(crate) fn stray_pointer(ordinal: usize) -> Answer {
    let program = std::env::current_exe().map_err(|error| failed("this program's own path")(&error))?;
    let mut command = Command::new(program);
    command.arg("stray-pointer").arg(format!("--device=cuda:{ordinal}"));
    let output = command.output().map_err(|error| failed("starting this program again")(&error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    expect(output.status.success() && complained.is_empty(), || {
        format!("the process ended with {}: {said}{complained}", output.status)
    })?;
    Ok(said.trim().into())
}

/// Runs a test with this program's path and a folder that does not exist yet, and removes the folder afterwards.
fn in_a_folder(name: &str, test: impl FnOnce(&Path, &Path) -> Answer) -> Answer {
    let program = std::env::current_exe().map_err(|error| failed("this program's own path")(&error))?;
    let folder = std::env::temp_dir().join(format!("ptx-gemm-selftest-{}-{name}", std::process::id()));
    let answer = test(&program, &folder);
    let _ = fs::remove_dir_all(&folder);
    answer
}

fn first_of(program: &Path, folder: &Path, case: &str, ordinal: usize) -> Answer {
    let cold = Times::of_a_process(program, folder, case, ordinal)?;
    let kept = entries(folder)?.len();
    expect(kept == 1, || format!("{case}: the cache has {kept} entries after the first process"))?;
    let mut warm =
        (0..WARM).map(|_| Times::of_a_process(program, folder, case, ordinal)).collect::<Result<Vec<_>, _>>()?;
    warm.sort_by(|x, y| x.total.total_cmp(&y.total));
    let Times { compile, load, run, total } = warm[WARM / 2];
    let words = format!(
        "{case}: {total:.1} ms with a warm cache (schedule to PTX {compile:.1}, loading {load:.1}, copies and launch \
         {run:.1}; slowest of {WARM} processes {:.1}), {:.1} ms with a cold one",
        warm[WARM - 1].total,
        cold.total
    );
    expect(total < AT_ONCE || cfg!(debug_assertions), || format!("above {AT_ONCE} ms: {words}"))?;
    Ok(words)
}

/// The output of `gemmc first-launch`, in milliseconds.
struct Times {
    compile: f64,
    load: f64,
    run: f64,
    total: f64,
}

impl Times {
    fn of_a_process(program: &Path, folder: &Path, case: &str, ordinal: usize) -> Result<Times, Trouble> {
        let mut command = Command::new(program);
        command.args(["first-launch", case, "--json"]).arg(format!("--device=cuda:{ordinal}"));
        // Only this library's cache, not the driver's.
        command.env("PTX_GEMM_CACHE", folder).env("CUDA_CACHE_DISABLE", "1");
        let output = command.output().map_err(|error| failed("starting this program again")(&error))?;
        let said = [output.stdout.as_slice(), &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        expect(output.status.success(), || format!("{case}: a process ended with {}: {said}", output.status))?;
        let json: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| failed("reading its answer")(&error))?;
        let time = |name: &str| json[name].as_f64().ok_or_else(|| Trouble::Wrong(format!("no {name} in {json}")));
        let (compile, load) = (time("compile_ms")?, time("load_ms")?);
        Ok(Times { compile, load, run: time("run_ms")?, total: time("total_ms")? })
    }
}

fn share(program: &Path, folder: &Path, ordinal: usize) -> Answer {
    let start = || {
        let mut command = Command::new(program);
        command
            .args(PRODUCT)
            .arg(format!("--device=cuda:{ordinal}"))
            .env("PTX_GEMM_CACHE", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().map_err(|error| failed("starting this program again")(&error))
    };
    let finish = |child: std::process::Child| {
        let output = child.wait_with_output().map_err(|error| failed("waiting for it")(&error))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        expect(output.status.success(), || format!("a process ended with {}: {said}", output.status))
    };
    let both = [start()?, start()?];
    both.into_iter().try_for_each(finish)?;
    let entries = entries(folder)?;
    let [entry] = &entries[..] else {
        return Err(Trouble::Wrong(format!("the cache has {} entries after one kernel: {entries:?}", entries.len())));
    };
    let whole = read(entry)?;
    let warm = timed(|| finish(start()?))?;
    fs::write(entry, &whole[..whole.len() / 2]).map_err(|error| failed("tearing the entry")(&error))?;
    let torn = timed(|| finish(start()?))?;
    expect(read(entry)?.len() == whole.len(), || "a torn entry was not made again".into())?;
    Ok(format!("one entry of {} bytes; a process takes {warm:.2?} with it, {torn:.2?} with it torn", whole.len()))
}

fn timed(work: impl FnOnce() -> Result<(), Trouble>) -> Result<Duration, Trouble> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let entries = fs::read_dir(folder).map_err(|error| failed("reading the cache")(&error))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn read(path: &Path) -> Result<Vec<u8>, Trouble> {
    fs::read(path).map_err(|error| failed("reading the entry")(&error))
}
