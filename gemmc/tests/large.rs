//! `gemmc large`: plans without a device, and products on interpreters.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn large(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gemmc")).arg("large").args(args).output().expect("gemmc starts")
}

#[track_caller]
fn answers(args: &[&str]) -> String {
    let output = large(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn refused(args: &[&str], words: &str) {
    let output = large(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert!(stderr.contains(words), "{args:?} does not say `{words}`: {stderr}");
}

const SIZES: [&str; 6] = ["-m", "65536", "-n", "65536", "-k", "65536"];
const SMALL: [&str; 8] = ["-e", "tile(16, 16, 8); thread(2, 2);", "-m", "60", "-n", "50", "-k", "70"];

#[test]
fn a_plan_says_what_binds() {
    let plan = |more: &[&str]| answers(&[&["plan", "tma_snake"], &SIZES[..], more].concat());
    let text = plan(&["--devices", "4"]);
    assert!(text.starts_with("65536 x 65536 x 65536 on 4 devices\n") && text.contains("the products bind"), "{text}");
    let json: Value = serde_json::from_str(&plan(&["--devices", "4", "--json"])).expect("one object");
    assert_eq!(
        (&json["ok"], &json["grid"], &json["binds"]),
        (&true.into(), &vec![2, 2].into(), &"the products".into())
    );
    // Each device gets a half of its slabs from the host: 65536 x 65536 x 4 B of A and of B, divided among four.
    assert_eq!(json["up_bytes"][0], 2u64 * (1 << 32));
    assert_eq!(json["peer_bytes"][3], 2u64 * (1 << 32));
    let total = json["total"].as_f64().expect("a number");
    assert!((2.56..2.7).contains(&total), "{total}");
    let alone: Value = serde_json::from_str(&plan(&["--devices", "4", "--no-links", "--json"])).expect("one object");
    assert_eq!((&alone["up_bytes"][0], &alone["peer_bytes"][0]), (&(4u64 * (1 << 32)).into(), &0.into()));
    // C is read as well if beta is not 0.
    let with_c: Value =
        serde_json::from_str(&plan(&["--devices", "4", "--set", "beta=1", "--json"])).expect("one object");
    assert_eq!(with_c["up_bytes"][0], 3u64 * (1 << 32));
    // Tensor cores would be faster than the bus.
    let fast: Value =
        serde_json::from_str(&plan(&["--devices", "4", "--tflops", "5000", "--json"])).expect("one object");
    assert_ne!(fast["binds"], "the products");
    let eight = plan(&["--budget", "8GiB"]);
    assert!(eight.contains("of 8.00 GiB per device"), "{eight}");
}

#[test]
fn a_plan_needs_no_schedule_and_says_what_it_assumes() {
    let plan = |more: &[&str]| answers(&[&["plan", "--devices", "4"], &SIZES[..], more].concat());
    assert_eq!(plan(&[]), plan(&["nn_128x256_tma"]));
    for (schedule, tflops) in [("nn_128x256_tma", "55"), ("bf16_128x256", "700"), ("f16x3_128x128", "267 TFLOP/s")] {
        let text = plan(&[schedule]);
        assert!(text.contains(&format!("assumed    {tflops}")), "{schedule}: {text}");
    }
    let text = plan(&["--tflops", "12"]);
    assert!(text.contains("assumed    12 TFLOP/s of each device"), "{text}");
}

#[test]
fn arguments_without_a_meaning_are_refused() {
    let huge = "18446744073709551615";
    for (argument, value, allowed) in [
        ("--devices", huge, "up to 64"),
        ("--ring", "1000000", "up to 64"),
        ("--strips", "1000000", "up to 4096"),
        ("--tflops", "0", "above 0"),
        ("--tflops", "-3", "above 0"),
        ("--tflops", "nan", "above 0"),
    ] {
        let output = large(&[&["plan", argument, value], &SIZES[..]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(allowed), "{argument} {value}: {stderr}");
    }
    for argument in ["--inside", "--between", "--tflops"] {
        let output = large(&["scale", "naive", "-m", "64", "-n", "64", "-k", "64", argument, "-4"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains("above 0"), "{argument}: {stderr}");
    }
}

#[test]
fn broadcasts_may_take_no_time_but_not_less() {
    let scale = ["scale", "naive", "-m", "64", "-n", "64", "-k", "64", "--latency"];
    answers(&[&scale[..], &["0"]].concat());
    for wrong in ["-4", "nan", "inf"] {
        let output = large(&[&scale[..], &[wrong]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains("0 or above"), "{wrong}: {stderr}");
    }
}

#[test]
fn nothing_to_sum_is_checked_too() {
    let text = answers(&["run", "-e", SMALL[1], "-m", "10", "-n", "50", "-k", "0", "--interp", "2", "--check"]);
    assert!(text.contains("right"), "{text}");
}

#[test]
fn operations_are_listed() {
    let text = answers(&[&["plan", "--operations", "--devices", "2", "--depth", "32"], &SMALL[..]].concat());
    assert!(text.contains("device 1 exchange  copy") && text.contains("device 0 download  copy sums"), "{text}");
}

#[test]
fn interpreters_multiply_and_are_checked() {
    let run = |more: &[&str]| {
        answers(&[&["run", "--interp", "3", "--check", "--budget", "24KiB"], &SMALL[..], more].concat())
    };
    let text = run(&[]);
    assert!(text.ends_with("right\n") && text.contains("120 of them sums by random vectors"), "{text}");
    assert!(!text.contains("\nbounds "), "only if asked for: {text}");
    let bounded = run(&["--bounds"]);
    assert!(bounded.contains("\nbounds     products alone ") && bounded.contains(" x the larger\n"), "{bounded}");
    let json: Value = serde_json::from_str(&run(&["--json", "--bounds"])).expect("one object");
    assert_eq!(json["closed"], serde_json::json!([]));
    assert!(["products", "copies"].iter().all(|half| json["bounds"][half].as_f64().is_some_and(|time| time > 0.0)));
    assert!(json["max_error"].as_f64().expect("a number") <= 1.0);
    assert_eq!(json["devices"], 3);
    for clauses in [
        "tile(16, 16, 8); thread(2, 2); epilogue(|acc, c, alpha, bias| relu(alpha * acc + c + bias[n]));",
        "types(f64); tile(16, 16, 8); thread(2, 2); layout(a = col, d = col);",
        "types(i32); tile(16, 16, 8); thread(2, 2);",
    ] {
        let sizes = ["-m", "60", "-n", "50", "-k", "70"];
        let text =
            answers(&[&["run", "--interp", "2", "--check", "--budget", "48KiB", "-e", clauses], &sizes[..]].concat());
        assert!(text.ends_with("right\n"), "{clauses}: {text}");
    }
}

#[test]
fn a_scalar_that_does_not_exist_is_refused_before_the_plan() {
    for command in [&["plan"][..], &["run", "--interp", "1"]] {
        let output = large(&[command, &SMALL[..], &["--set", "gamma=2"]].concat());
        let (stdout, stderr) = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text")).into();
        assert_eq!((output.status.code(), stdout.as_str()), (Some(1), ""), "{stderr}");
        assert!(stderr.contains("no scalar `gamma`"), "{stderr}");
    }
}

#[test]
fn a_run_prints_its_plan_before_it_multiplies() {
    // A product that takes much longer than ending the process.
    let sizes = ["-m", "400", "-n", "400", "-k", "400", "--interp", "1"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_gemmc"))
        .args(["large", "run", "-e", SMALL[1]])
        .args(sizes)
        .stdout(Stdio::piped())
        .spawn()
        .expect("gemmc starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let plan: Vec<String> = lines.by_ref().take_while(|line| !line.starts_with("time ")).collect();
    child.kill().and_then(|()| child.wait()).expect("it ends");
    assert!(plan.first().is_some_and(|line| line.starts_with("400 x 400 x 400 on 1 device")), "{plan:?}");
    let rest: Vec<String> = lines.collect();
    assert!(!rest.iter().any(|line| line.starts_with("measured")), "{rest:?}");
}

#[test]
fn products_across_processes_are_extrapolated() {
    let scale = |more: &[&str]| answers(&[&["scale", "tma_snake"], &SIZES[..], more].concat());
    let text = scale(&[]);
    assert!(text.contains("\nassumed    55 TFLOP/s and 4800 GB/s of memory for each GPU, "), "{text}");
    let json: Value = serde_json::from_str(&scale(&["--json"])).expect("one object");
    let processes = json["processes"].as_array().expect("a list");
    assert_eq!(
        processes.iter().map(|one| one["count"].as_u64().expect("a number")).collect::<Vec<_>>()[..3],
        [1, 2, 4]
    );
    assert_eq!(
        (processes.len(), &processes[10]["count"], &processes[10]["grid"]),
        (11, &1024.into(), &vec![32, 32].into())
    );
    let number = |index: usize, name: &str| processes[index][name].as_f64().expect("a number");
    // 2 x 65536^3 at 55 TFLOP/s, and 16 GiB for each matrix; then a quarter of it, over NVLink.
    assert!((10.2..10.5).contains(&number(0, "seconds")) && number(0, "exchange") == 0.0, "{json}");
    assert!((2.5..2.7).contains(&number(2, "seconds")) && number(2, "exchange") < 0.15, "{json}");
    assert!(number(2, "device_bytes") < 0.3 * number(0, "device_bytes"));
    // In the end the network binds.
    assert!(number(10, "exchange") > number(10, "products") && number(10, "efficiency") < 0.6, "{json}");
    // A slower network takes longer, and a single process has nothing to exchange.
    let slow: Value = serde_json::from_str(&scale(&["--json", "--between", "5"])).expect("one object");
    assert!(slow["processes"][6]["exchange"].as_f64() > processes[6]["exchange"].as_f64());
    assert!(processes.iter().all(|one| one["fits"] == true));
    let four = ["-m", "262144", "-n", "262144", "-k", "262144", "--most", "8"];
    let huge = answers(&[&["scale", "tma_snake"], &four[..]].concat());
    assert_eq!(huge.lines().filter(|line| line.ends_with("does not fit")).count(), 3, "{huge}");
    let small = ["scale", "-e", "tile(16, 16, 8); thread(2, 2);", "-m", "60", "-n", "50", "-k", "70"];
    let listed = answers(&[&small[..], &["--most", "4", "--operations"]].concat());
    assert!(listed.contains("device 3 exchange  broadcast panel 0 of A from device 2: own A panel 0"), "{listed}");
    refused(&["scale", "naive", "-m", "5000000000", "-n", "1", "-k", "1"], "M = 5000000000 is too large");
    refused(&[&small[..], &["--depth", "0"]].concat(), "the depth of panels = 0");
}

#[test]
fn what_cannot_be_done_says_why() {
    refused(&[&["plan", "--budget", "100"], &SMALL[..]].concat(), "a budget of 100 bytes per device is too small");
    refused(&[&["plan", "--devices", "0"], &SMALL[..]].concat(), "no device to plan for");
    refused(&[&["plan", "--budget", "8 apples"], &SMALL[..]].concat(), "KiB, MiB, GiB or TiB");
    refused(&[&["run", "--interp", "0"], &SMALL[..]].concat(), "no device to plan for");
    let run = |size: &str| {
        let sizes = ["-m", size, "-n", size, "-k", size];
        large(&[&["run", "--interp", "1", "-e", SMALL[1], "--budget", "64GiB"], &sizes[..]].concat())
    };
    // The error comes before anything is filled, and no number overflows.
    for (size, words) in [
        ("3000000000", "A, 3000000000 x 3000000000 of f32, takes 36000000000000000000 bytes"),
        ("2000000", "the matrices of a product of 2000000 x 2000000 x 2000000 take 48000000000000 bytes"),
    ] {
        let output = run(size);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains(words), "{size}: {stderr}");
        assert!(output.stdout.is_empty());
    }
    refused(&[&["run", "--interp", "1", "--set", "beta=2"], &SMALL[..]].concat(), "beta");
}
