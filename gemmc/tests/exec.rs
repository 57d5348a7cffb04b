//! `gemmc exec`: PTX files run as described by their launch files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ptx_gemm_check::exec::Orders;
use ptx_gemm_check::part::Part;
use serde_json::{Value, json};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exec").join(name)
}

fn exec(ptx: &Path, launch: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
    command.arg("exec").arg(ptx).arg("--launch").arg(launch).args(more);
    command.output().expect("gemmc starts")
}

#[track_caller]
fn answer(output: &Output, status: i32) -> Value {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A file of the folder with some text replaced, in a new folder.
fn edited(folder: &Path, name: &str, from: &str, to: &str) -> PathBuf {
    let text = fs::read_to_string(file(name)).unwrap();
    assert!(text.contains(from), "{name} has no `{from}`");
    let path = folder.join(name);
    fs::write(&path, text.replace(from, to)).unwrap();
    path
}

#[test]
fn buffers_come_back() {
    let (ptx, launch) = (file("scale.ptx"), file("scale.json"));
    let all = answer(&exec(&ptx, &launch, &["--json", "--order", "all"]), 0);
    let halves: Vec<f64> = (0..40).map(|i| f64::from(i) / 2.0).collect();
    assert_eq!(all["ok"], json!(true));
    assert_eq!(all["buffers"]["x"], json!({ "type": "f32", "shape": [40], "values": halves }));
    assert_eq!(all["violations"], json!([]));
    assert_eq!(all["counters"]["bytes_read"], json!(160));
    let text = exec(&ptx, &launch, &[]);
    assert_eq!(
        String::from_utf8_lossy(&text.stdout),
        "x f32 [40]: 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, …\n\
         30 instructions, 0 multiply-adds\n"
    );
}

#[test]
fn runaways_are_stopped() {
    let (ptx, launch) = (file("scale.ptx"), file("scale.json"));
    let limited =
        |count: &str, status: i32| answer(&exec(&ptx, &launch, &["--json", "--max-instructions", count]), status);
    assert_eq!(limited("10", 2)["violations"][0]["rule"], json!("instruction-limit"));
    assert_eq!(limited("1000", 0)["ok"], json!(true));
    let text = exec(&ptx, &launch, &["--max-instructions", "10"]);
    assert!(
        String::from_utf8_lossy(&text.stdout)
            .contains("help: a loop that ends later may do so with --max-instructions 160")
    );
}

/// `write_once` is exactly once, unless the buffer had values before.
#[test]
fn what_is_written_once_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = edited(folder.path(), "scale.ptx", "ld.global.f32 %f1, [%rd2];", "mov.f32 %f1, 0f3F800000;");
    let once = |elements: &str, init: &str| {
        let launch = edited(folder.path(), "scale.json", "\"u32\": 40", &format!("\"u32\": {elements}"));
        let text = fs::read_to_string(&launch).unwrap();
        fs::write(&launch, text.replace(", \"init\": \"iota\"", &format!(", \"write_once\": true{init}"))).unwrap();
        launch
    };
    assert_eq!(answer(&exec(&ptx, &once("40", ""), &["--json"]), 0)["ok"], json!(true));
    let found = answer(&exec(&ptx, &once("39", ""), &["--json"]), 2);
    assert_eq!(found["violations"][0]["rule"], json!("not-written"));
    assert_eq!(found["violations"][0]["message"], json!("byte 156 of `x` is not written by the launch"));
    assert_eq!(answer(&exec(&ptx, &once("39", ""), &["--json", "--checks", "race"]), 0)["ok"], json!(true));
    assert_eq!(answer(&exec(&ptx, &once("39", ", \"init\": \"iota\""), &["--json"]), 0)["ok"], json!(true));
}

/// A rule that is only a warning among all others is denied by its name.
#[test]
fn all_rules_and_one_by_name() {
    let (ptx, launch) = (file("scale.ptx"), file("scale.json"));
    assert_eq!(answer(&exec(&ptx, &launch, &["--json", "--checks", "all,proxy-war"]), 0)["ok"], json!(true));
    assert!(!exec(&ptx, &launch, &["--checks", "all,nothing"]).status.success());
}

#[test]
fn a_broken_rule_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    // One element too many.
    let launch = edited(folder.path(), "scale.json", "\"u32\": 40", "\"u32\": 41");
    let found = answer(&exec(&file("scale.ptx"), &launch, &["--json"]), 2);
    let violation = &found["violations"][0];
    assert_eq!(violation["rule"], json!("out-of-bounds"));
    assert_eq!(violation["instruction"], json!("ld.global.f32 %f1, [%rd2];"));
    assert_eq!(violation["threads"], json!([[8, 0, 0]]));
    assert_eq!(violation["allocation"], json!("x"));
    let text = fs::read_to_string(file("scale.ptx")).unwrap();
    let line = violation["line"].as_u64().unwrap() as usize;
    assert!(text.lines().nth(line - 1).unwrap().contains("ld.global.f32 %f1"));
}

#[test]
fn blocks_of_a_cluster_read_each_others_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (ptx, launch) = (file("neighbours.ptx"), file("neighbours.json"));
    let all = answer(&exec(&ptx, &launch, &["--json", "--order", "all"]), 0);
    assert_eq!(all["buffers"]["out"]["values"], json!([1, 0, 3, 2]));
    // A block that may exit while its neighbour reads its memory.
    let early =
        edited(folder.path(), "neighbours.ptx", "    barrier.cluster.arrive.release.aligned; // before the exit\n", "");
    let text = fs::read_to_string(&early).unwrap();
    fs::write(&early, text.replace("    barrier.cluster.wait.acquire.aligned; // before the exit\n", "")).unwrap();
    for order in ["forward", "backward", "random:3"] {
        let found = answer(&exec(&early, &launch, &["--json", "--order", order]), 2);
        assert_eq!(found["violations"][0]["rule"], json!("race"));
        assert_eq!(found["violations"][0]["instruction"], json!("ld.shared::cluster.u32 %r4, [%r3];"));
    }
    // Three blocks do not make clusters of two.
    let odd = edited(folder.path(), "neighbours.json", "[4, 1, 1]", "[3, 1, 1]");
    let refused = answer(&exec(&ptx, &odd, &["--json"]), 1);
    assert_eq!(refused["violations"][0]["rule"], json!("launch-refused"));
}

#[test]
fn a_missing_barrier_is_a_race_in_every_order() {
    let folder = tempfile::tempdir().unwrap();
    let launch = file("passed_on.json");
    answer(&exec(&file("passed_on.ptx"), &launch, &["--json", "--order", "all"]), 0);
    let ptx = edited(folder.path(), "passed_on.ptx", "    bar.sync 0;\n", "");
    for order in ["forward", "backward", "random:3"] {
        let found = answer(&exec(&ptx, &launch, &["--json", "--order", order]), 2);
        // A read before any write is reported as such.
        let rule = found["violations"][0]["rule"].as_str().unwrap();
        assert!(rule == "race" || (rule == "uninitialised" && order != "forward"), "{order}: {rule}");
        assert_eq!(found["violations"][0]["order"], json!(order));
    }
    // With the same rule disabled, the result depends on the order, and that is reported.
    for checks in ["none", "out-of-bounds,barrier-mismatch"] {
        let found = answer(&exec(&ptx, &launch, &["--json", "--order", "all", "--checks", checks]), 2);
        assert_eq!(found["violations"][0]["rule"], json!("order-dependent"), "{checks}");
    }
    let found = answer(&exec(&ptx, &launch, &["--json", "--checks", "race"]), 2);
    assert_eq!(found["violations"][0]["rule"], json!("race"));
    assert_eq!(found["violations"][0]["timeline"][0]["what"], json!("first access"));
    let refused = exec(&ptx, &launch, &["--checks", "races"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`races` is not a rule; all, none, or some of "));
}

/// An example at the root of the repository, with some text replaced.
fn tma_gemm(folder: &Path, edits: &[(&str, &str)]) -> (PathBuf, PathBuf) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ptx");
    let mut text = fs::read_to_string(examples.join("tma_gemm.ptx")).unwrap();
    for (from, to) in edits {
        assert!(text.contains(from), "tma_gemm.ptx has no `{from}`");
        text = text.replace(from, to);
    }
    let path = folder.join("tma_gemm.ptx");
    fs::write(&path, text).unwrap();
    (path, examples.join("tma_gemm.json"))
}

fn elements(buffer: &Value) -> Vec<f32> {
    buffer["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect()
}

#[test]
fn a_pipeline_fed_by_tma_is_right_in_every_order() {
    let folder = tempfile::tempdir().unwrap();
    let (m, n, k, lda, ldb) = (45, 52, 301, 304, 56);
    let (ptx, launch) = tma_gemm(folder.path(), &[]);
    let found = answer(&exec(&ptx, &launch, &["--json", "--order", "all"]), 0);
    assert_eq!((&found["ok"], &found["violations"]), (&json!(true), &json!([])));
    let [a, b, d] = ["a", "b", "d"].map(|name| elements(&found["buffers"][name]));
    for (i, j) in (0..m).flat_map(|i| (0..ldb).map(move |j| (i, j))) {
        let sum = (0..k).fold(0.0f32, |sum, l| a[i * lda + l].mul_add(b[l * ldb + j], sum));
        let want = if j < n { sum + j as f32 } else { -1.0 };
        assert_eq!(d[i * ldb + j], want, "D[{i}, {j}]");
    }
    assert_eq!(found["warnings"], json!([]));
    // Without the fence, an arrival at an mbarrier may overtake the read before it: a warning, and an error if that rule was
    // requested.
    let (ptx, launch) = tma_gemm(folder.path(), &[("fence.proxy.async.shared::cta; // war", "")]);
    let found = answer(&exec(&ptx, &launch, &["--json", "--order", "all"]), 0);
    assert_eq!((&found["ok"], &found["warnings"][0]["rule"]), (&json!(true), &json!("proxy-war")));
    let asked = answer(&exec(&ptx, &launch, &["--json", "--checks", "proxy-war"]), 2);
    assert_eq!(asked["violations"][0]["rule"], json!("proxy-war"));
}

#[test]
fn products_of_tensor_cores_are_right_in_every_order() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ptx");
    for (name, m, n, k) in [("wgmma_gemm", 128, 64, 360), ("mma_gemm", 64, 32, 160)] {
        let [ptx, launch] = ["ptx", "json"].map(|kind| examples.join(format!("{name}.{kind}")));
        let found = answer(&exec(&ptx, &launch, &["--json", "--order", "all"]), 0);
        assert_eq!((&found["ok"], &found["violations"], &found["warnings"]), (&json!(true), &json!([]), &json!([])));
        let [a, b, d] = ["a", "b", "d"].map(|name| elements(&found["buffers"][name]));
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let want: f64 = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[j * k + l])).sum();
            let found = f64::from(d[i * n + j]);
            // Sums of 16 products stay below 32: each is cut off at its last bit, and its 17 terms two bits further down.
            let bound = (k as f64 / 16.0).ceil() * (1.0 + 17.0 / 4.0) * 16.0 * 2f64.powi(-23);
            assert!((found - want).abs() <= bound, "{name}: D[{i}, {j}] is {found}, not {want}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let faults = [
        ("wgmma_gemm", "wgmma.wait_group.sync.aligned 0; // drain", "warp-group"),
        ("mma_gemm", "bar.warp.sync 0xffffffff; // filled", "race"),
        ("mma_gemm", "bar.warp.sync 0xffffffff; // read", "race"),
    ];
    for (name, line, rule) in faults {
        let text = fs::read_to_string(examples.join(format!("{name}.ptx"))).unwrap();
        assert!(text.contains(line), "{name}: {line}");
        let path = folder.path().join("fault.ptx");
        fs::write(&path, text.replace(line, "")).unwrap();
        let found = answer(&exec(&path, &examples.join(format!("{name}.json")), &["--json"]), 2);
        assert_eq!(found["violations"][0]["rule"], json!(rule), "{name} without {line}");
    }
}

/// A module that ptxas refuses does not run, also if the wrong instruction would not be reached.
#[test]
fn what_the_target_lacks_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ptx");
    let text = fs::read_to_string(example.join("wgmma_gemm.ptx")).unwrap();
    let launch = example.join("wgmma_gemm.json");
    let message = |from: &str, to: &str| {
        assert!(text.contains(from), "no `{from}`");
        let ptx = folder.path().join("edited.ptx");
        fs::write(&ptx, text.replace(from, to)).unwrap();
        let found = answer(&exec(&ptx, &launch, &["--json"]), 1);
        let messages = found["errors"].as_array().unwrap().iter().map(|error| error["message"].as_str().unwrap());
        messages.collect::<Vec<_>>().join("\n")
    };
    assert!(message("sm_90a", "sm_90").contains("`wgmma.fence.sync.aligned`: needs sm_90a"));
    assert!(message("sm_90a", "sm_120a").contains("needs sm_90a"));
    assert!(message(".version 8", ".version 7").contains("sm_90a needs .version 8.0"));
    assert!(message("%p3, 1, 1, 0, 0;", "%p3, 2, 1, 0, 0;").contains("operand 5 (`2`): expected 1 or -1"));
    assert!(message("%p3, 1, 1, 0, 0;", "%p3, 1, 1, 0, 2;").contains("operand 8 (`2`): expected 0 to 1"));
}

#[test]
fn faults_planted_in_the_pipeline_are_named() {
    /// A name, a replacement, rules (one of them is broken), and instructions (one of them is named).
    type Fault<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);
    let third = "mov.u32 %parity, %phase;\nsetp.ge.u32 %p3, %kt, 6;\n@%p3 xor.b32 %parity, %parity, 1;";
    let release = "mbarrier.arrive.shared::cta.b64 _, [%empties]; // release";
    let early = "mbarrier.arrive.shared::cta.b64 _, [%empties];";
    let ids = "shr.u32 %r2, %t, 5;\nsetp.ge.u32 %p3, %r2, 2;\nselp.u32 %r2, 2, 1, %p3;";
    let fence = "fence.proxy.async.shared::cta; // before the store";
    let faults: [Fault<'_>; 6] = [
        (
            "a parity that is wrong from the third round on",
            &[("mov.u32 %parity, %phase; // parity", third)],
            &["race", "deadlock", "uninitialised"],
            &["ld.shared", "mbarrier.try_wait"],
        ),
        (
            "a slot refilled before its last read",
            &[(release, ""), ("// early", early)],
            &["race"],
            &["ld.shared", "cp.async.bulk.tensor"],
        ),
        (
            "16 bytes too few expected",
            &[("[%fulls], 8192;", "[%fulls], 8176;")],
            &["barrier-misuse"],
            &["mbarrier.arrive.expect_tx"],
        ),
        (
            "warps on different barriers",
            &[("mov.u32 %r2, 1; // id", ids)],
            &["deadlock", "barrier-mismatch"],
            &["bar.sync"],
        ),
        ("no fence before the store", &[(fence, "")], &["missing-proxy-fence"], &["cp.async.bulk.tensor.2d.global"]),
        (
            "a bound that the last block shows",
            &[("setp.lt.u32 %p1, %r1, %n; // bound 4", "setp.le.u32 %p1, %r1, %n;")],
            &["out-of-bounds"],
            &["ld.global"],
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, edits, rules, instructions) in faults {
        let (ptx, launch) = tma_gemm(folder.path(), edits);
        let found = answer(&exec(&ptx, &launch, &["--json", "--order", "all"]), 2);
        assert_eq!(found["ok"], json!(false), "{name}");
        let violations = found["violations"].as_array().unwrap();
        let orders = violations.iter().flat_map(|violation| violation["orders"].as_array().unwrap());
        let orders: BTreeSet<String> = orders.map(|order| order.as_str().unwrap().into()).collect();
        let all: BTreeSet<String> = Orders::All.list().iter().map(|order| order.to_string()).collect();
        assert_eq!(orders, all, "{name}: found in each order");
        let places = violations.iter().map(|one| format!("{} {} {}", one["rule"], one["line"], one["timeline"]));
        assert_eq!(places.collect::<BTreeSet<_>>().len(), violations.len(), "{name}: each is reported once");
        for violation in violations {
            assert!(rules.contains(&violation["rule"].as_str().unwrap()), "{name}: {violation}");
            // Either of two racing accesses may come second; both are in the timeline.
            let told = violation.to_string();
            assert!(instructions.iter().any(|instruction| told.contains(instruction)), "{name}: {violation}");
        }
    }
}

/// What CUDA's guide allows raises no alarm. What merely works is a warning, which naming its check turns into an error.
#[test]
fn alarms_agree_with_the_guide() {
    let folder = tempfile::tempdir().unwrap();
    let [ptx, launch] = ["k.ptx", "k.json"].map(|name| folder.path().join(name));
    let run = |body: &str, more: &[&str], status: i32| {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x) {{\n.reg .b64 %x; .reg .b32 %t; \
             .reg .pred %p<3>;\n.shared .align 128 .b8 s[128]; .shared .b64 bar;\nld.param.u64 %x, [x];\nmov.u32 %t, %tid.x;\n\
             setp.eq.u32 %p0, %t, 0;\n{body}\nret;\n}}\n"
        );
        fs::write(&ptx, text).unwrap();
        answer(&exec(&ptx, &launch, &[&["--json", "--order", "all"], more].concat()), status)
    };
    fs::write(
        &launch,
        r#"{"grid": [1, 1, 1], "block": [64, 1, 1], "args": [{"buffer": "x"}],
        "buffers": {"x": {"type": "u32", "shape": [64], "init": "iota"}}}"#,
    )
    .unwrap();
    let lanes = "setp.lt.u32 %p1, %t, 32;\n@%p1 st.shared.u32 [s], 5;\n@%p1 st.global.u32 [%x], 5;";
    assert_eq!(run(lanes, &[], 0)["warnings"], json!([]));
    let warps = "st.shared.u32 [s], 5;";
    assert_eq!(run(warps, &[], 0)["warnings"][0]["rule"], json!("race"));
    assert_eq!(run(warps, &["--checks", "race"], 2)["violations"][0]["rule"], json!("race"));
    assert_eq!(run("st.shared.u32 [s], %t;", &[], 2)["violations"][0]["rule"], json!("race"));
    let copy = "@%p0 mbarrier.init.shared::cta.b64 [bar], 1;\nbar.sync 0;\n@!%p0 bra W;\n\
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%x], 128, [bar];\n\
        W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra W;";
    assert_eq!(run(copy, &[], 0)["warnings"][0]["rule"], json!("mbarrier-not-fenced"));
    assert_eq!(run(copy, &["--checks", "mbarrier-not-fenced"], 2)["ok"], json!(false));
    let other = copy.replace("@!%p0 bra W", "setp.eq.u32 %p1, %t, 1;\n@!%p1 bra W");
    assert_eq!(run(&other, &[], 2)["violations"][0]["rule"], json!("mbarrier-not-fenced"));
}

/// A barrier of the whole grid, on more blocks than the GPU holds at once.
#[test]
fn blocks_that_are_not_resident() {
    let folder = tempfile::tempdir().unwrap();
    let [ptx, launch] = ["k.ptx", "k.json"].map(|name| folder.path().join(name));
    let text =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x) DIRECTIVES {\n.reg .b64 %x;
        .reg .b32 %r<4>; .reg .pred %p<3>;\n.shared .b8 s[SHARED];\nld.param.u64 %x, [x];\nmov.u32 %r0, %tid.x;
        mov.u32 %r1, %nctaid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra END;\nWAIT\nEND: ret;\n}\n";
    let waits = "red.release.gpu.global.add.u32 [%x], 1;\nPOLL: ld.acquire.gpu.global.u32 %r2, [%x];
        setp.lt.u32 %p1, %r2, %r1;\n@%p1 bra POLL;";
    let run =
        |(directives, wait): (&str, &str), shared: u32, (grid, block): (u32, u32), stated: &str, more: &[&str]| {
            let text = text.replace("DIRECTIVES", directives).replace("SHARED", &shared.to_string());
            fs::write(&ptx, text.replace("WAIT", wait)).unwrap();
            let buffers = r#""buffers": {"x": {"type": "u32", "shape": [1], "init": {"constant": 0}}}"#;
            let grid = format!(r#""grid": [{grid}, 1, 1], "block": [{block}, 1, 1], "args": [{{"buffer": "x"}}]"#);
            fs::write(&launch, format!("{{{stated} {grid}, {buffers}}}")).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
            command.arg("exec").arg(&ptx).arg("--launch").arg(&launch).arg("--json").args(more);
            let output = command.env("PTXAS", "").env("PATH", "").output().expect("gemmc starts");
            let json: Value =
                serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
            let message = json["violations"][0]["message"].as_str().unwrap_or_default().to_owned();
            (json["resident"].as_u64(), message)
        };
    // The launch file states it.
    let (resident, message) = run(("", waits), 4, (100_000, 32), r#""resident": 4,"#, &[]);
    assert!(resident == Some(4) && message.contains("99996 blocks of the grid have not started"), "{message}");
    assert_eq!(run(("", waits), 4, (5, 32), r#""resident": 5,"#, &[]), (Some(5), String::new()));
    // It follows from the GPU: one block of 256 threads with 255 registers on each of 132 multiprocessors.
    let (resident, message) = run((".maxnreg 255", waits), 4, (133, 256), "", &[]);
    assert!(resident == Some(132) && message.contains("1 blocks of the grid have not started"), "{message}");
    assert_eq!(run((".maxnreg 255", waits), 4, (132, 256), "", &[]), (Some(132), String::new()));
    // An H200 has 132 multiprocessors, with 32 blocks, 2048 threads, 228 KiB and 65536 registers each.
    for (directives, shared, block, most) in [
        ("", 4, 32, 32 * 132),
        ("", 40_000, 32, 5 * 132),
        ("", 4, 1024, 2 * 132),
        (".maxnreg 128", 4, 128, 4 * 132),
        (".maxntid 256 .minnctapersm 3", 4, 256, 3 * 132),
    ] {
        let found = run((directives, ""), shared, (140, block), "", &[]);
        assert_eq!(found, (Some(most), String::new()), "{directives} {shared}");
    }
    // Another GPU, of the launch file or of the command; a B200 has 148 multiprocessors.
    assert_eq!(run(("", ""), 40_000, (149, 32), r#""gpu": "b200","#, &[]), (Some(5 * 148), String::new()));
    assert_eq!(run(("", ""), 40_000, (149, 32), "", &["--gpu", "b200"]), (Some(5 * 148), String::new()));
}

/// What `gemmc ptx --launch-file` writes runs, and its product is right.
#[test]
fn launch_files_of_schedules() {
    let folder = tempfile::tempdir().unwrap();
    let [ptx, launch] = ["k.ptx", "k.json"].map(|name| folder.path().join(name));
    let gemmc = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
        command.args(arguments).env("PTXAS", "").env("PATH", "").output().expect("gemmc starts")
    };
    let path = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let all = [
        ("double_buffered", (40, 50, 33)),
        ("tma_snake", (64, 128, 48)),
        ("wgmma", (100, 64, 96)),
        ("tma_stream_k", (100, 140, 300)),
    ];
    // One of them in each run, all of them in `.ci/full`.
    let own: Vec<_> = match Part::of_this_run() {
        Part::Tenth(number) => vec![all[number % all.len()]],
        Part::All => all.to_vec(),
    };
    for (name, (m, n, k)) in own {
        let extents = [m, n, k].map(|extent: usize| extent.to_string());
        let made = gemmc(&["ptx", name, "-o", &path(&ptx)]);
        assert!(made.status.success(), "{name}: {made:?}");
        let [em, en, ek] = &extents;
        let made = gemmc(&["ptx", name, "--launch-file", "-m", em, "-n", en, "-k", ek, "-o", &path(&launch)]);
        assert!(made.status.success(), "{name}: {made:?}");
        let mut file: Value = serde_json::from_str(&fs::read_to_string(&launch).unwrap()).unwrap();
        // The epilogue of these schedules is alpha * acc + beta * c, with both scalars 1.
        let adds_c = file["buffers"].get("c").is_some();
        file["print"] = if adds_c { json!(["a", "b", "c", "d"]) } else { json!(["a", "b", "d"]) };
        fs::write(&launch, file.to_string()).unwrap();
        let found = answer(&exec(&ptx, &launch, &["--json"]), 0);
        assert_eq!((&found["ok"], &found["violations"]), (&json!(true), &json!([])), "{name}");
        let [a, b, d] = ["a", "b", "d"].map(|name| elements(&found["buffers"][name]));
        let c = if adds_c { elements(&found["buffers"]["c"]) } else { Vec::new() };
        let ld = |name: &str| found["buffers"][name]["shape"][1].as_u64().unwrap() as usize;
        // m, n and k differ, so the number of rows in memory tells the layout.
        let runs = |name: &str| found["buffers"][name]["shape"][0].as_u64().unwrap() as usize;
        let (a_is_col, b_is_col) = (runs("a") == k, runs("b") == n);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let of_b = |l: usize| if b_is_col { b[j * ld("b") + l] } else { b[l * ld("b") + j] };
            let of_a = |l: usize| if a_is_col { a[l * ld("a") + i] } else { a[i * ld("a") + l] };
            let want: f64 = (0..k).map(|l| f64::from(of_a(l)) * f64::from(of_b(l))).sum();
            let want = if adds_c { want + f64::from(c[i * ld("c") + j]) } else { want };
            let got = f64::from(d[i * ld("d") + j]);
            assert!((got - want).abs() < 0.02 * (1.0 + want.abs()), "{name}: D[{i}, {j}] is {got}, not {want}");
        }
    }
    let refused = |arguments: &[&str]| String::from_utf8_lossy(&gemmc(arguments).stderr).into_owned();
    assert!(refused(&["ptx", "tma_snake", "--launch-file", "-m", "3"]).contains("-n <N>"));
    assert!(refused(&["ptx", "tma_snake", "-m", "3"]).contains("--launch-file"));
}

/// A second opinion without a compared element is a failure.
#[test]
fn a_second_opinion_compares_something() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("k.ptx", ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n");
    let opinion = |shape: u32| {
        let buffer = format!(r#"{{"x": {{"type": "f32", "shape": [{shape}]}}}}"#);
        write("k.json", &format!(r#"{{"grid": [1, 1, 1], "block": [1, 1, 1], "buffers": {buffer}}}"#));
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemmc"));
        command.arg("second-opinion").arg(folder.path()).output().expect("gemmc starts")
    };
    assert_eq!(opinion(4).status.code(), Some(0));
    let nothing = opinion(0);
    let said = String::from_utf8_lossy(&nothing.stdout).into_owned();
    assert!(nothing.status.code() == Some(3) && said.contains("NOT COMPARED: 1 of them"), "{said}");
}

/// `exec` and `check` refuse the same text in the same words, at the same places.
#[test]
fn illegal_text_is_refused_before_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = edited(folder.path(), "scale.ptx", "%p0, %r3", "%p0, %rd3");
    let executed = answer(&exec(&ptx, &file("scale.json"), &["--json"]), 1);
    let mut check = Command::new(env!("CARGO_BIN_EXE_gemmc"));
    let checked = answer(&check.arg("check").arg(&ptx).arg("--json").output().unwrap(), 1);
    assert_eq!(executed["errors"], checked["errors"]);
    let error = &checked["errors"][0];
    assert!(error["span"]["line"] == 16 && error["clause"] == "ptx", "{error}");
    let fine = Command::new(env!("CARGO_BIN_EXE_gemmc")).arg("check").arg(file("scale.ptx")).output().unwrap();
    assert!(String::from_utf8_lossy(&fine.stdout).starts_with("legal for sm_"), "{fine:?}");
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (ptx, launch) = (file("scale.ptx"), file("scale.json"));
    for (name, from, to, words) in [
        ("scale.json", "\"scale\"", "\"scales\"", "there is no entry `scales`; the module has scale"),
        ("scale.json", "[32, 1, 1]", "[2048, 1, 1]", "a block has [2048, 1, 1] threads, and must have 1 to 1024"),
        ("scale.json", "{\"f32\": 0.5}", "{\"f64\": 0.5}", "parameter `by` has 4 bytes, but its argument has 8"),
        ("scale.json", "\"iota\"", "\"ota\"", "unknown variant `ota`"),
        ("scale.json", "\"buffer\": \"x\"", "\"buffer\": \"y\"", "the file has no buffer `y`; the buffers are x"),
        ("scale.ptx", "setp.ge.u32 %p0", "setp.ge.u32 %q0", ":16:17: the register `%q0` is not declared"),
    ] {
        let path = edited(folder.path(), name, from, to);
        let (ptx, launch) = if name == "scale.ptx" { (&path, &launch) } else { (&ptx, &path) };
        let output = exec(ptx, launch, &[]);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(words), "{said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!said.contains("x f32"), "nothing ran: {said}");
    }
}
