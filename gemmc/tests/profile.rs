//! `gemmc profile`, `diff` and `ablate`: the figures of a case, of clauses and of a tile program; why two differ; what
//! a clause contributes.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Without an assembler, unless a test brings one.
fn gemmc(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
    command.args(args).env("PTXAS", "").env("PATH", "").output().expect("gemmc starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = gemmc(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn a_case_has_its_figures() {
    let output = gemmc(&["profile", "vectorized_km"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let text = text(&output);
    for said in [
        "256 x 256 x 32",
        "As stores",
        "Bs loads",
        "D stores",
        "sectors of 32 B",
        "by the formula",
        "per FMA",
        "barriers per K-tile",
        "of 32 warps",
        "no ptxas",
        "bank conflicts of As",
        "shared(a = km",
    ] {
        assert!(text.contains(said), "{said}:\n{text}");
    }
}

/// Five seconds on an idle machine, for the case that has the most multiply-adds and takes ptxas most of a minute.
#[test]
fn nobody_waits_for_the_largest_case() {
    let begun = Instant::now();
    let output =
        Command::new(env!("CARGO_BIN_EXE_gemmc")).args(["profile", "direct_64x64"]).output().expect("gemmc starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    assert!(text(&output).contains("registers          unknown"), "{}", text(&output));
}

#[test]
fn the_json_is_that_of_the_ladder() {
    let profile = json(&["profile", "conflict_free"]);
    assert_eq!(
        (&profile["ok"], &profile["bank_conflicts"], &profile["name"]),
        (&true.into(), &0.into(), &"conflict_free".into())
    );
    assert_eq!(profile["bytes"], profile["formula_bytes"]);
    assert_eq!(profile["buffers"].as_array().map(Vec::len), Some(2));
    assert!(profile["operands"][0]["loads"]["sectors"].as_u64() > Some(0));
    assert!(profile["main_loop"]["instructions_per_fma"].as_f64() > Some(1.0));
}

#[test]
fn clauses_sizes_and_tile_programs() {
    let clauses = "tile(32, 32, 8); thread(2, 2);";
    let sized = json(&["profile", "-e", clauses, "-m", "33", "-k", "16"]);
    assert_eq!(sized["size"], serde_json::json!([33, 64, 16]));
    // A count that would take minutes is replaced by whole tiles.
    let large = text(&gemmc(&["profile", "-e", clauses, "-m", "100000", "-n", "100000"]));
    assert!(large.contains("64 x 64 x 32") && large.contains("would take minutes"), "{large}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.tile");
    let tile = gemmc(&["ir", "-e", clauses, "--level", "tile"]);
    std::fs::write(&path, &tile.stdout).expect("a file");
    let name = path.to_str().expect("text");
    let (own, schedule) = (json(&["profile", name]), json(&["profile", "-e", clauses]));
    for figure in ["bank_conflicts", "instructions", "bytes", "occupancy", "buffers", "operands", "main_loop"] {
        assert_eq!(own[figure], schedule[figure], "{figure}");
    }
    // The tile program of a schedule does not differ from the schedule.
    let diff = json(&["diff", clauses, name]);
    assert_eq!(diff["equal"], true, "{diff}");
}

#[test]
fn what_is_asked_in_vain_is_said() {
    for (args, said) in [
        (&["profile"][..], "required"),
        (&["profile", "naive", "shared_32"], "one schedule at a time"),
        (&["profile", "naive", "-m", "0"], "extent of 0"),
        (&["profile", "naive", "--device", "interp"], "--device cuda:0"),
        (&["profile", "--ncu", "naive"], "ncu was found neither"),
        (&["profile", "-e", "tile(0)"], "tile"),
        (&["profile", "-e", "tile(0)", "--device", "cuda:0"], "tile(0)"),
        (&["ablate", "naive", "--device", "cuda:64"], "cuda"),
        (&["diff", "naive", "no_such_case"], "no_such_case"),
        (&["diff", "naive", "no/such.ptx"], "no/such.ptx"),
        (&["ablate", "-e", "tile(0)"], "tile"),
    ] {
        let output = gemmc(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{args:?}: {}", text(&output));
    }
}

#[test]
fn the_difference_of_two_cases_is_told_level_by_level() {
    let output = gemmc(&["diff", "vectorized", "vectorized_km"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let told = text(&output);
    for said in ["- vectorized", "+ shared(a = km", "clauses  ", "ptx      ", "bank conflicts", "change"] {
        assert!(told.contains(said), "{said}:\n{told}");
    }
    assert!(!told.contains("\nkernel\n") && !told.contains('\u{1b}'), "the highest levels, and no colours:\n{told}");
    let kernel = text(&gemmc(&["diff", "vectorized", "vectorized_km", "--level", "kernel"]));
    assert!(kernel.contains("\nkernel\n") && !kernel.contains("\nclauses\n"), "{kernel}");
    assert_eq!(gemmc(&["diff", "naive", "shared_32", "--exit-code"]).status.code(), Some(1));
    assert_eq!(gemmc(&["diff", "naive", "naive", "--exit-code"]).status.code(), Some(0));
}

#[test]
fn clauses_and_ptx_files_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_string()
    };
    let ptx = gemmc(&["ptx", "naive"]).stdout;
    let renamed = String::from_utf8_lossy(&ptx).replace("%rd", "%address").replace("//@", "// as before:");
    let (own, other) = (file("own.ptx", &ptx), file("other.ptx", renamed.as_bytes()));
    assert_eq!(json(&["diff", &own, &other])["equal"], true);
    assert_eq!(json(&["diff", &own, &other, "--comments"])["equal"], false);
    assert_eq!(json(&["diff", "naive", &own])["levels"].as_array().map(Vec::len), Some(1));
    // Another order of the same multiply-adds is a difference of the PTX.
    let clauses = "tile(16, 16, 4); thread(2, 2);";
    let snake = json(&["diff", clauses, &format!("{clauses} order(snake);")]);
    let levels = snake["levels"].as_array().expect("a list");
    assert!(levels.iter().any(|level| level["level"] == "ptx" && level["added"].as_u64() > Some(0)), "{snake}");
}

#[test]
fn each_clause_is_dropped_and_changed() {
    let ablated = json(&["ablate", "conflict_free"]);
    let variants = ablated["variants"].as_array().expect("a list");
    let clauses: Vec<&str> = variants.iter().filter_map(|one| one["clause"].as_str()).collect();
    for clause in ["tile(", "thread(", "vector(", "shared(", "double_buffer"] {
        assert!(clauses.iter().any(|known| known.starts_with(clause)), "{clause}: {clauses:?}");
    }
    let own = &ablated["schedule"]["figures"];
    let dropped = |clause: &str| {
        let of =
            |one: &&Value| one["changed"].is_null() && one["clause"].as_str().is_some_and(|c| c.starts_with(clause));
        variants.iter().find(of).expect("each is dropped")
    };
    let scalar = dropped("vector(")["figures"]["loads_per_fma"].as_f64();
    assert!(scalar > own["loads_per_fma"].as_f64());
    assert!(dropped("fragment(")["figures"]["bank_conflicts"].as_u64() > Some(0));
    assert!(dropped("thread(")["illegal"].is_string() && dropped("thread(")["figures"].is_null());
    assert_eq!(Path::new(ablated["name"].as_str().unwrap_or_default()), Path::new("conflict_free"));
}

/// A replacement for ncu: it writes a table with 7 for each requested metric, unless it does not know one of them.
#[cfg(unix)]
const NCU: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --log-file) log=$2; shift;;
    --kernel-name) kernel=$2; shift;;
    --metrics) metrics=$2; shift;;
    run) shift; child="$*"; break;;
  esac
  shift
done
case "$child" in *"-m 64 -n 64 -k 128 --device cuda:0"*) ;; *) echo "==ERROR== launched $child"; exit 1;; esac
case "$metrics" in *UNKNOWN*) echo '==ERROR== Failed to find metric' > "$log"; exit 1;; esac
names='"ID","Kernel Name"' units='"",""' values="\"0\",\"$kernel\""
IFS=,
for metric in $metrics; do names="$names,\"$metric\"" units="$units,\"inst\"" values="$values,\"1,024\""; done
printf '%s\n' '==PROF== Profiling' "$names" "$units" "$values" > "$log"
"#;

#[cfg(unix)]
#[test]
fn the_hardware_s_counters_are_next_to_the_interpreter_s() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    let answers = |script: &str| {
        let path = folder.path().join("ncu");
        std::fs::write(&path, script).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its own");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
        command.args(["profile", "--ncu", "shared_32", "--json"]).env("PTXAS", "").env("PATH", folder.path());
        let output = command.output().expect("gemmc starts");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
        (output.status.code(), json)
    };
    let (code, json) = answers(NCU);
    assert_eq!((code, &json["ok"]), (Some(0), &true.into()), "{json}");
    let figures = json["cases"][0]["figures"].as_array().expect("a list");
    assert!(figures.len() >= 10 && figures.iter().all(|figure| figure["hardware"] == 1024.0), "{json}");
    let profile = self::json(&["profile", "shared_32"]);
    let counted = figures.iter().find(|figure| figure["metric"] == "smsp__inst_executed.sum").expect("it is there");
    assert_eq!(counted["interpreter"], profile["instructions"]);
    let deviation = (profile["instructions"].as_f64().unwrap_or_default() - 1024.0) / 1024.0;
    assert_eq!(counted["deviation"].as_f64(), Some(deviation));
    // A version that does not know all of the metrics is asked for those that matter.
    let older = NCU.replace("*UNKNOWN*", "*smsp__inst_executed_op*");
    let (code, json) = answers(&older);
    let known = |figure: &&Value| figure["hardware"] == 1024.0;
    assert_eq!(
        (code, json["cases"][0]["figures"].as_array().map(|all| all.iter().filter(known).count())),
        (Some(0), Some(5))
    );
    // And one without permission to count reports that.
    let (code, json) = answers("#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM - no permission'\nexit 1\n");
    assert_eq!((code, &json["ok"]), (Some(1), &false.into()), "{json}");
    assert!(json["cases"][0]["error"].as_str().is_some_and(|error| error.contains("ERR_NVGPUCTRPERM")), "{json}");
}
