//! Comparisons that compared nothing.

use crate::cli::gemmc;

/// A comparison that compared nothing is not right, whatever left it nothing to compare.
#[test]
fn what_was_not_compared_is_not_right() {
    let divides = "types(i32); tile(16, 16, 8); thread(2, 2); epilogue(|acc, x| acc / x)";
    let run = |clauses: &str, more: &[&str]| {
        gemmc(&[&["run", "-e", clauses, "-m", "9", "-n", "8", "--device", "interp"], more].concat())
    };
    let called =
        run(divides, &["-k", "4", "--set", "x=0"]).exits(3).says("NOT COMPARED: 72 of 72: the epilogue divides");
    assert!(
        called.stdout.contains("help: other scalars (--set NAME=X)") && !called.stdout.contains("right"),
        "{}",
        called.stdout
    );
    let json = run(divides, &["-k", "4", "--set", "x=0", "--json"]).exits(3).json();
    assert_eq!(
        (&json["ok"], &json["verdict"], &json["compared"]),
        (&false.into(), &"uncompared".into(), &0.into()),
        "{json}"
    );
    run(divides, &["-k", "4", "--set", "x=2"]).exits(0).says("\nright\n");
    // Some elements are divided by 0, the others are compared.
    let vector = divides.replace("|acc, x| acc / x", "|acc, v, w| acc / (v[n] - w[m])");
    run(&vector, &["-k", "4"]).exits(0).says("right, where compared").says("not compared ");
    // The bound of a long sum in f16 excludes nothing.
    let half = "types(f16, acc = f16); tile(32, 32, 16); warp(32, 32); atom(mma(16, 8, 16))";
    run(half, &["-k", "4096"]).exits(3).says("the bound on rounding errors excludes no result");
    run(half, &["-k", "512"]).exits(0).says("\nright\n");
    // A product without elements says what it is.
    gemmc(&["run", "-e", divides, "-m", "0", "-n", "8", "-k", "4"]).exits(0).says("empty: D has no elements");

    gemmc(&["profile", "-e", &divides.replace('x', "beta"), "--wait", "0"]).exits(3).says("the result is NOT COMPARED");
    gemmc(&["fuzz", "--count", "0"]).exits(3).says("NOT COMPARED");
    let large = ["large", "run", "--interp", "1", "--check", "-m", "40", "-n", "40", "-k", "40", "-e"];
    gemmc(&[&large[..], &[&divides.replace("acc, x| acc / x", "acc| acc / 0")]].concat()).exits(3).says("NOT COMPARED");
    let times = divides.replace("acc, x| acc / x", "acc| 2 * acc");
    gemmc(&[&large[..], &[&times]].concat()).exits(0).says("checked    1024 elements").says("right");
}
