//! PTX that this project did not write: CUDA kernels compiled by NVRTC, optimised and for a debugger, give the known
//! results in every order, without a violation.
//!
//! `NVRTC_PTX` names the folder that `tests/nvrtc/compile.py` fills. Without it this test prints that it was skipped,
//! and fails on CI. The expected results of the kernels are stated in [`expected`], independently of any kernel.

mod expected;
mod floats;

use std::fs;
use std::path::{Path, PathBuf};

use ptx_gemm_check::exec::{Buffer, ElementType, LaunchFile, Orders, interpret, launches_of, legal};
use ptx_gemm_interp::{Options, Program};

/// The inputs of a kernel, and its expected outputs.
struct Given {
    file: LaunchFile,
}

impl Given {
    fn buffer(&self, name: &str) -> &Buffer {
        self.file.buffers.get(name).unwrap_or_else(|| panic!("no buffer {name}"))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.buffer(name).contents().unwrap().unwrap_or_else(|| panic!("{name} has no initial contents"))
    }

    fn u32s(&self, name: &str) -> Vec<u32> {
        self.bytes(name).chunks(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    fn s32s(&self, name: &str) -> Vec<i32> {
        self.u32s(name).into_iter().map(|value| value as i32).collect()
    }

    fn f32s(&self, name: &str) -> Vec<f32> {
        self.u32s(name).into_iter().map(f32::from_bits).collect()
    }

    fn u64s(&self, name: &str) -> Vec<u64> {
        self.bytes(name).chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    fn f64s(&self, name: &str) -> Vec<f64> {
        self.u64s(name).into_iter().map(f64::from_bits).collect()
    }

    fn threads(&self) -> usize {
        self.file.block.iter().product::<u32>() as usize
    }
}

/// The expected contents of a buffer.
struct Wanted {
    name: &'static str,
    bytes: Vec<u8>,
    /// Largest differences, absolute or relative to the value, row by row of single precision or of bf16; empty if bits must
    /// be equal.
    errors: Vec<f64>,
}

impl Wanted {
    fn of<T: Number>(name: &'static str, values: impl IntoIterator<Item = T>) -> Wanted {
        Wanted { name, bytes: values.into_iter().flat_map(Number::bytes).collect(), errors: Vec::new() }
    }
}

trait Number {
    fn bytes(self) -> Vec<u8>;
}

macro_rules! number {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().into()
            }
        }
    )*};
}
number!(u8 u16 i16 u32 i32 u64 i64 f32 f64);

fn folder() -> Option<PathBuf> {
    let folder = std::env::var("NVRTC_PTX").ok().filter(|folder| !folder.is_empty());
    assert!(
        folder.is_some() || std::env::var("CI").is_err(),
        "NVRTC_PTX names no folder, and on CI this test must not be skipped"
    );
    if folder.is_none() {
        println!("NVRTC_PTX is not set: PTX of NVRTC was skipped");
    }
    folder.map(PathBuf::from)
}

#[test]
fn kernels_that_nvrtc_compiled_give_known_results() {
    let Some(folder) = folder() else { return };
    let mut wrong = Vec::new();
    let mut texts = 0;
    for (launch, paths) in launches_of(&folder).unwrap() {
        let name = launch.file_stem().unwrap().to_string_lossy().into_owned();
        let given = Given { file: LaunchFile::parse(&fs::read_to_string(&launch).unwrap()).unwrap() };
        // The sweep over all roundings has no known result and must only break no rule: it exists to be compared with a
        // GPU.
        let wanted = expected::of(&name, &given).unwrap_or_default();
        assert!(!wanted.is_empty() || name.starts_with("sweep."), "{name} has no known result");
        assert!(!paths.is_empty(), "{name} has no PTX");
        for path in paths {
            texts += 1;
            wrong.extend(complaints(&path, &given, &wanted));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(texts >= 100, "{texts} texts");
}

/// The failures of one text, in all orders.
fn complaints(path: &Path, given: &Given, wanted: &[Wanted]) -> Vec<String> {
    let name = path.file_name().unwrap().to_string_lossy();
    let text = fs::read_to_string(path).unwrap();
    let program = Program::from_text(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut found: Vec<String> = legal(&text).err().map(|errors| format!("{name}: {errors}")).into_iter().collect();
    for order in Orders::All.list() {
        let run = interpret(&program, &given.file, order, &Options::default()).unwrap();
        if let Some(violation) = run.violation {
            found.push(format!("{name}, order {order}: {violation}"));
            break;
        }
        for Wanted { name: buffer, bytes, errors } in wanted {
            let (_, got) = run.contents.iter().find(|(of, _)| of == buffer).unwrap();
            let ty = given.buffer(buffer).ty;
            if let Some(difference) = difference(ty, got, bytes, errors) {
                found.push(format!("{name}, order {order}: {buffer} {difference}"));
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// The first element that differs from the expected one.
fn difference(ty: ElementType, got: &[u8], wanted: &[u8], errors: &[f64]) -> Option<String> {
    if got.len() != wanted.len() {
        return Some(format!("has {} bytes, {} were expected", got.len(), wanted.len()));
    }
    let width = ty.bytes();
    let elements = wanted.len() / width;
    let row = elements / errors.len().max(1);
    let single = |bytes: &[u8]| match bytes {
        [low, high] => half::bf16::from_le_bytes([*low, *high]).to_f64(),
        bytes => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
    };
    (0..elements).find_map(|index| {
        let (a, b) = (&got[index * width..][..width], &wanted[index * width..][..width]);
        let near = |error: &f64| (single(a) - single(b)).abs() <= error * single(b).abs().max(1.0);
        if a == b || errors.get(index / row).is_some_and(near) {
            return None;
        }
        let (a, b) = (ty.values(a).remove(0), ty.values(b).remove(0));
        Some(format!("[{index}] is {a}, expected {b}"))
    })
}

/// A persistent kernel with roles from another compiler: a fault planted in its PTX is reported at the instruction that it makes
/// wrong.
#[test]
fn faults_planted_in_a_kernel_with_roles_are_reported_where_they_are() {
    let Some(folder) = folder() else { return };
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let (text, file) = (read("specialized.sm_90a.ptx"), LaunchFile::parse(&read("specialized.json")).unwrap());
    let last = |what: &str| {
        let at = text.rfind(what).unwrap_or_else(|| panic!("no `{what}`"));
        format!("{}{}", &text[..at], &text[at + what.len()..])
    };
    let all = |from: &str, to: &str| {
        assert!(text.contains(from), "no `{from}`");
        text.replace(from, to)
    };
    let expected_bytes = text.lines().filter(|line| line.contains("mov.u32") && line.ends_with(", 16384;"));
    let short = expected_bytes.fold(text.clone(), |text, line| text.replace(line, &line.replace("16384", "16368")));
    assert_ne!(short, text);
    let (copy, load) = ("cp.async.bulk.tensor.2d.global.shared::cta", "cp.async.bulk.tensor.2d.shared::cluster.global");
    for (edited, said, instruction) in [
        (all("wgmma.fence.sync.aligned;", ""), "has not executed a fence of its registers", "wgmma.mma_async"),
        (all("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"), "is multiplying", load),
        (last("fence.proxy.async.shared::cta;"), "without a proxy fence", copy),
        (all("bar.sync 1, 128;", ""), "nothing orders the two", copy),
        (all("cp.async.bulk.wait_group.read 0;", ""), "is copying from", "stmatrix.sync.aligned"),
        (short, "announces 16 bytes too few", "mbarrier.arrive.expect_tx"),
        (all("wgmma.commit_group.sync.aligned;", ""), "is multiplying", load),
    ] {
        let program = Program::from_text(&edited).unwrap();
        let run = interpret(&program, &file, Orders::All.list()[0], &Options::default()).unwrap();
        let found = run.violation.unwrap_or_else(|| panic!("nothing was found of `{said}`"));
        let text = found.to_string();
        assert!(text.contains(said) && found.site.instruction.contains(instruction), "{said}: {text}");
    }
}
