//! NVIDIA's assembler accepts every case for every target that the case supports; a long text is assembled once for
//! targets with the same instructions. Registers and spills are snapshotted for one version, per target. Other versions
//! assemble each case for one target, a different one from case to case.
//!
//! A part of the cases is assembled like this in each run, and every mechanism for its own target; their lines have to be in
//! the snapshot. `PTX_GEMM_PART=all` compares the whole snapshot, and is what rewrites it.
//!
//! `PTXAS` names the assemblers, separated by colons. Without it these tests print that they were skipped, and fail on
//! CI.

use std::path::PathBuf;
use std::process::Command;

use ptx_gemm_check::cases;
use ptx_gemm_check::mechanisms::MECHANISMS;
use ptx_gemm_check::part::Part;
use ptx_gemm_dsl::Target;

/// Texts longer than this take ptxas a second for each target, which would dominate the time of all tests.
const LONG: usize = 300 << 10;

/// Texts longer than this take ptxas several seconds; they are assembled once, for their own target.
const LONGER: usize = 1 << 20;

/// Longer texts take ptxas most of a minute, and differ only in the type: one of them is assembled, with few optimisations,
/// if every case is.
const LONGEST: usize = 5 << 19;

/// The version of the figures in the snapshot.
const FIGURES: &str = "V13.0.88";

pub(crate) const SNAPSHOT: &str = "ptxas_figures";

struct Ptxas {
    path: PathBuf,
    version: String,
}

fn assemblers() -> Vec<Ptxas> {
    let named = std::env::var("PTXAS").unwrap_or_default();
    let found: Vec<Ptxas> = named.split(':').filter(|p| !p.is_empty()).map(Ptxas::at).collect();
    assert!(
        !found.is_empty() || std::env::var("CI").is_err(),
        "PTXAS names no assembler, and on CI these tests must not be skipped"
    );
    if found.is_empty() {
        println!("PTXAS is not set: assembling was skipped");
    }
    found
}

impl Ptxas {
    fn at(path: &str) -> Ptxas {
        let run = Command::new(path).arg("--version").output().unwrap_or_else(|e| panic!("{path}: {e}"));
        let text = String::from_utf8_lossy(&run.stdout);
        let version = text.split_whitespace().find(|w| w.starts_with('V')).unwrap_or_default().to_string();
        Ptxas { path: path.into(), version }
    }

    /// Assembles, and returns registers and spilled bytes of each entry, in order of their names.
    fn assemble(&self, ptx: &str, target: Target, name: &str) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("ptx-gemm-tests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, cubin) = (folder.join(format!("{name}.ptx")), folder.join(format!("{name}.cubin")));
        std::fs::write(&source, ptx).unwrap();
        let level = if ptx.len() > LONGEST { "-O1" } else { "-O3" };
        let run = Command::new(&self.path)
            .args(["-v", level, &format!("-arch={target}"), "-o"])
            .args([&cubin, &source])
            .output()
            .unwrap_or_else(|e| panic!("{}: {e}", self.path.display()));
        let log = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{name} for {target}, ptxas {}: {log}", self.version);
        // Serialised warp-group products are correct but slow: warnings C7508 and C7510 to C7515 of ptxas.
        let serialized = log.contains("wgmma") || log.contains("setmaxnreg");
        assert!(!serialized && !log.contains("(C75"), "{name} for {target}, ptxas {}: {log}", self.version);
        figures(&log)
    }
}

fn figures(log: &str) -> Vec<String> {
    let number = |line: &str, before: &str| {
        let text = line.split_once(before).map_or("", |(left, _)| left).trim();
        text.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse::<u32>().ok()
    };
    let (mut entry, mut spilled, mut out) = (String::new(), 0, Vec::new());
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split('\'').next().unwrap_or("").to_string();
        } else if line.contains("bytes spill stores") {
            spilled = number(line, " bytes spill stores").unwrap_or(0);
        } else if line.contains("Used ") {
            out.push(format!("{entry} {} registers, {spilled} B spilled", number(line, " registers").unwrap_or(0)));
        }
    }
    out.sort();
    out
}

/// The text without the lines that name its version and target, and without those that are comments.
fn instructions(ptx: &str) -> String {
    let header = |line: &&str| line.starts_with(".version") || line.starts_with(".target") || line.starts_with("//");
    ptx.lines().filter(|line| !header(line)).collect::<Vec<_>>().join("\n")
}

/// The version, targets and figures of each case that this run assembles, in the order of the snapshot.
fn lines(part: Part, assemblers: &[Ptxas]) -> Vec<String> {
    let (mut lines, mut one_of_the_longest) = (Vec::new(), part != Part::All);
    for (index, case) in cases().enumerate() {
        let whole = part.has(index);
        if !whole && !MECHANISMS.iter().any(|mechanism| mechanism.case == case.name) {
            continue;
        }
        let schedule = case.schedule().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let targets = || Target::ALL.into_iter().filter_map(|target| Some((target, schedule.plan(Some(target)).ok()?)));
        let count = targets().count();
        assert!(count > 0, "{} compiles for no target", case.name);
        let own = schedule.plan(None).map(|plan| plan.target);
        let mut assembled: Vec<String> = Vec::new();
        for (turn, (target, plan)) in targets().enumerate() {
            if !whole && Ok(target) != own {
                continue;
            }
            let ptx = ptx_gemm_codegen::compile(&plan).unwrap().ptx;
            let [long, longer, longest] = [LONG, LONGER, LONGEST].map(|most| ptx.len() > most);
            if longest && one_of_the_longest || longer && Ok(target) != own {
                continue;
            }
            one_of_the_longest |= longest;
            let in_turn = turn == index % count && !longer;
            let same = instructions(&ptx);
            let by_figures = !long || !assembled.contains(&same);
            assembled.push(same);
            let chosen = |ptxas: &&Ptxas| if ptxas.version == FIGURES { by_figures } else { in_turn };
            for ptxas in assemblers.iter().filter(chosen) {
                // With scales, two kernels for each operand.
                let scaled = plan.sums.emulate.is_some_and(|emulate| emulate.by.scales());
                let kernels = plan.variants.len() + plan.ring.pack.len() * (1 + usize::from(scaled));
                let figures = ptxas.assemble(&ptx, target, &format!("{}_{target}", case.name));
                assert_eq!(figures.len(), kernels, "{}", case.name);
                if ptxas.version == FIGURES {
                    lines.push(format!("{:18} {:7} {}", case.name, target.to_string(), figures.join("; ")));
                }
            }
        }
    }
    lines
}

#[test]
fn every_case_assembles_for_every_target() {
    let (part, assemblers) = (Part::of_this_run(), assemblers());
    let lines = lines(part, &assemblers);
    if lines.is_empty() {
        return;
    }
    assert!(lines.len() >= MECHANISMS.len(), "only {} texts were assembled", lines.len());
    crate::lines_are_in(SNAPSHOT, part, &lines);
}
