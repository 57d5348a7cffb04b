//! Two processes, one cache of cubins: both start at once, and a damaged entry is made again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::claims::{Answer, Trouble, expect, failed};

const PRODUCT: [&str; 10] = ["run", "double_buffered", "-m", "100", "-n", "90", "-k", "80", "--exact", "--json"];

pub(crate) fn share_a_cache(ordinal: usize) -> Answer {
    let program = std::env::current_exe().map_err(|error| failed("this program's own path")(&error))?;
    let folder = std::env::temp_dir().join(format!("ptx-gemm-selftest-{}", std::process::id()));
    let answer = share(&program, &folder, ordinal);
    let _ = fs::remove_dir_all(&folder);
    answer
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
