//! `expect { .. }` on the command line: each contract once kept and once broken, wherever a kernel is planned, written or run.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const CLAUSES: &str = "tile(128, 128, 8); thread(8, 8); vector(4); double_buffer; target(sm_90);";

/// Calls a command on the clauses and a contract; the path contains only `ptxas`.
fn gemmc(command: &str, contract: &str, more: &[&str], ptxas: Option<&Path>) -> Output {
    let source = format!("{CLAUSES} expect {{ {contract} }}");
    let mut gemmc = Command::new(env!("CARGO_BIN_EXE_gemmc"));
    gemmc.args([command, "-e", &source]).args(more).env("PATH", "").env_remove("PTXAS");
    if command == "run" {
        gemmc.args(["-m", "20", "-n", "30", "-k", "10", "--device", "interp"]);
    }
    if let Some(ptxas) = ptxas {
        gemmc.env("PTXAS", ptxas);
    }
    gemmc.output().expect("gemmc starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

const COMMANDS: [&str; 4] = ["check", "plan", "ptx", "run"];

/// Figures of this schedule, each with a contract that holds and one that is broken, and the message for the broken
/// one.
const KNOWN: [(&str, &str, &str); 7] = [
    ("bank_conflicts <= 8192", "bank_conflicts = 0", "bank_conflicts is 8192 in gemm_v4, counted at 256 x 256 x 32"),
    ("sectors_per_load <= 16", "sectors_per_load < 16", "sectors_per_load is 16 in gemm_v4, counted at 256 x 256 x 32"),
    (
        "loads_per_fma <= 0.07",
        "loads_per_fma <= 0.06",
        "loads_per_fma is 0.066406 in gemm_v4, counted at 256 x 256 x 32",
    ),
    ("occupancy >= 2", "occupancy >= 3", "occupancy is 2 in gemm_v4 on sm_90"),
    ("occupancy >= 25 %", "occupancy >= 50 %", "occupancy is 25 % in gemm_v4 on sm_90"),
    ("shared <= 16 KiB", "shared <= 8 KiB", "shared is 16384 B"),
    ("threads = 256", "threads < 256", "threads is 256"),
];

#[test]
fn what_the_plan_knows_is_refused_by_every_command() {
    for (kept, broken, said) in KNOWN {
        for command in COMMANDS {
            let output = gemmc(command, kept, &[], None);
            assert!(output.status.success(), "{command} {kept}: {output:?}");
            let output = gemmc(command, broken, &[], None);
            let words = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{command} {broken}: {output:?}");
            assert!(words.contains(said) && words.contains("look at") && words.contains("-e:1:"), "{command}: {words}");
            assert!(output.stdout.is_empty(), "{command}: {output:?}");
        }
        let output = gemmc("check", broken, &["--json"], None);
        let error = &json(&output)["errors"][0];
        assert_eq!((error["clause"].as_str(), error["span"]["line"].as_u64()), (Some("expect"), Some(1)), "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(said)), "{error}");
    }
}

#[test]
fn without_an_assembler_commands_say_what_they_cannot_check() {
    for (contract, command) in ["spills = 0", "registers <= 128", "code_bytes <= 32 KiB"]
        .into_iter()
        .flat_map(|contract| COMMANDS.map(|command| (contract, command)))
    {
        let output = gemmc(command, contract, &[], None);
        let said = text(&output.stdout) + &text(&output.stderr);
        let note =
            format!("`{contract}` is not checked here: no ptxas was found; set PTXAS to its path, or run on a GPU");
        assert!(output.status.success() && said.contains(&note), "{command} {contract}: {output:?}");
        assert!(command != "ptx" || text(&output.stdout).starts_with("//"), "the PTX is not alone: {output:?}");
        let found = &json(&gemmc(command, contract, &["--json"], None))["contracts"][0];
        assert_eq!((found["contract"].as_str(), &found["holds"]), (Some(contract), &Value::Null), "{command}: {found}");
    }
}

/// A program that prints the output of ptxas for 168 registers, 12 bytes spilled and 4,096 bytes of code for each
/// entry.
#[cfg(unix)]
fn assembler(folder: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;

    // An ELF file: the names of its sections in section 0, then two sections of code.
    let names = b"\0.text.gemm_v4\0.text.gemm_v1\0";
    let mut cubin = vec![0u8; 0x40];
    cubin[..6].copy_from_slice(b"\x7fELF\x02\x01");
    cubin[0x28..0x30].copy_from_slice(&(0x40 + names.len() as u64).to_le_bytes());
    (cubin[0x3a], cubin[0x3c]) = (0x40, 3);
    cubin.extend_from_slice(names);
    for (name, offset, size) in [(0u32, 0x40u64, 0u64), (1, 0, 4096), (15, 0, 4096)] {
        let mut header = [0; 0x40];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[0x18..0x20].copy_from_slice(&offset.to_le_bytes());
        header[0x20..0x28].copy_from_slice(&size.to_le_bytes());
        cubin.extend_from_slice(&header);
    }
    let (image, path) = (folder.join("image"), folder.join("ptxas"));
    std::fs::write(&image, cubin).expect("a file");
    let entry = |name: &str| {
        format!(
            "echo \"ptxas info : Compiling entry function '{name}' for 'sm_90'
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info : Used 168 registers, used 1 barriers\" >&2\n"
        )
    };
    let script = format!(
        "#!/bin/sh
if [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 99.1, V99.1.2'; exit 0; fi
{}{}/bin/cat '{}' > \"$4\"\n",
        entry("gemm_v4"),
        entry("gemm_v1"),
        image.display()
    );
    std::fs::write(&path, script).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    path
}

#[cfg(unix)]
#[test]
fn what_an_assembler_knows_is_refused_by_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let ptxas = assembler(folder.path());
    for (kept, broken, said) in [
        ("spills <= 12", "spills = 0", "spills is 12 B in gemm_v1, says ptxas 99.1.2"),
        ("registers <= 168", "registers <= 128", "registers is 168 in gemm_v4, says ptxas 99.1.2"),
        ("code_bytes <= 4 KiB", "code_bytes < 4 KiB", "code_bytes is 4096 B in gemm_v4, says ptxas 99.1.2"),
    ] {
        for command in COMMANDS {
            let output = gemmc(command, kept, &["--json"], Some(&ptxas));
            let contract = &json(&output)["contracts"][0];
            assert!(output.status.success() && contract["holds"] == true, "{command} {kept}: {output:?}");
            let output = gemmc(command, broken, &[], Some(&ptxas));
            let words = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{command} {broken}: {output:?}");
            assert!(words.contains(said) && words.contains("look at thread(8, 8)"), "{command}: {words}");
            assert!(words.contains("-e:1:"), "{command} has no place: {words}");
        }
    }
}

/// `run` multiplies, on a device; the others say that they do not.
#[test]
fn what_a_product_shows_is_refused_where_it_runs() {
    let (kept, broken) = ("max_error <= 1e-6", "max_error <= 1.5e-9");
    for command in ["check", "plan", "ptx"] {
        let output = gemmc(command, broken, &[], None);
        let said = text(&output.stdout) + &text(&output.stderr);
        let note = format!("`{broken}` is not checked here: a device has to multiply first; `gemmc run`");
        assert!(output.status.success() && said.contains(&note), "{command}: {output:?}");
        let found = &json(&gemmc(command, broken, &["--json"], None))["contracts"][0];
        assert_eq!((found["contract"].as_str(), &found["holds"]), (Some(broken), &Value::Null), "{command}: {found}");
    }
    let contract = &json(&gemmc("run", kept, &["--json"], None))["contracts"][0];
    assert!(contract["holds"] == true && contract["figure"].as_f64().is_some_and(|figure| figure < 1e-6), "{contract}");
    let output = gemmc("run", broken, &[], None);
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(words.contains("max_error is ") && words.contains("measured at 128 x 128 x 1024 on "), "{words}");
    assert!(words.contains("look at types(f32)") && words.contains("-e:1:"), "{words}");
    let error = &json(&gemmc("run", broken, &["--json"], None))["errors"][0];
    assert_eq!((error["clause"].as_str(), error["span"]["line"].as_u64()), (Some("expect"), Some(1)), "{error}");
}
