//! `brx.idx`: branches to one of the labels of a list.

use ptx_gemm_interp::ViolationKind::{self, BarrierMismatch, OutOfBounds, Uninitialised};
use ptx_gemm_interp::{Arg, Checks, Options, Violation};

use crate::run::Device;

/// `%t` is the thread, `%o` the address of its word of the output, and `%r0` what is written there at the end.
fn run(body: &str, checks: Checks) -> Result<Vec<u32>, Violation> {
    let mut device = Device::new(&format!(
        ".version 8.0\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 out) {{
         .reg .b64 %o; .reg .b64 %rd<4>; .reg .b32 %t; .reg .b32 %r<8>; .reg .pred %p<4>;
         ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o; mov.u32 %r0, 0;
         {body}
         END: st.global.u32 [%o], %r0;
         ret; }}"
    ));
    device.options = Options { checks, ..Options::default() };
    let out = device.reserve("out", 256);
    device.launch([1, 1, 1], [64, 1, 1], &[Arg::U64(out)])?;
    Ok(device.words(out, 64))
}

fn gives(body: &str, want: impl Fn(u32) -> u32) {
    for checks in [Checks::Full, Checks::Off] {
        let words = run(body, checks).unwrap_or_else(|violation| panic!("{body}: {violation}"));
        assert_eq!(words, (0..64).map(&want).collect::<Vec<u32>>(), "{body} ({checks:?})");
    }
}

fn breaks(body: &str, kind: ViolationKind, words: &[&str]) {
    let violation = run(body, Checks::Full).map(|_| ()).expect_err(body);
    assert_eq!(violation.kind, kind, "{body}: {violation}");
    words.iter().for_each(|word| assert!(violation.to_string().contains(word), "{body}: {violation}"));
}

/// Three paths that reconverge at a barrier.
const WAYS: &str = "A: mov.u32 %r0, 10; bra MEET;
B: mov.u32 %r0, 20; bra MEET;
C: mov.u32 %r0, 30;
MEET: bar.sync 0; add.u32 %r0, %r0, 1;";

#[test]
fn threads_take_different_ways_and_meet_again() {
    let body = |branch: &str| format!("list: .branchtargets C, A, B, A;\n{branch}\n{WAYS}");
    gives(&body("and.b32 %r1, %t, 3; brx.idx %r1, list;"), |thread| [31, 11, 21, 11][thread as usize % 4]);
    gives(&body("shr.u32 %r1, %t, 5; brx.idx.uni %r1, list;"), |thread| [31, 11][thread as usize / 32]);
    gives(&body("brx.idx 2, list;"), |_| 21);
    // Without the guard, the branch falls through to the first path.
    let guarded = "and.b32 %r1, %t, 3; setp.eq.u32 %p0, %r1, 2; @%p0 brx.idx %r1, list;";
    gives(&body(guarded), |thread| if thread % 4 == 2 { 21 } else { 11 });
}

/// A state machine with labels as states: it counts down from the thread's number in steps of one or two.
#[test]
fn branches_back() {
    let body = "states: .branchtargets END, ONE, TWO;
mov.u32 %r1, %t;
TOP: min.u32 %r2, %r1, 2; brx.idx %r2, states;
ONE: sub.u32 %r1, %r1, 1; add.u32 %r0, %r0, 100; bra TOP;
TWO: sub.u32 %r1, %r1, 2; add.u32 %r0, %r0, 1; min.u32 %r2, %r1, 2; brx.idx %r2, states;";
    gives(body, |thread| thread / 2 + 100 * (thread % 2));
}

/// Lanes that wait for other lanes of their warp let them run, also at a branch of this kind.
#[test]
fn polls() {
    let body = ".shared .align 4 .u32 flag; list: .branchtargets WAIT, GO, RAISE;
setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [flag], 0; bar.sync 0;
setp.eq.u32 %p0, %t, 31; selp.u32 %r1, 2, 0, %p0; brx.idx %r1, list;
WAIT: ld.acquire.cta.shared.u32 %r1, [flag]; brx.idx %r1, list;
RAISE: st.release.cta.shared.u32 [flag], 1;
GO: mov.u32 %r0, 5;";
    gives(body, |_| 5);
}

#[test]
fn faults() {
    let body = |branch: &str| format!("list: .branchtargets A, B, C;\n{branch}\n{WAYS}");
    breaks(&body("brx.idx %t, list;"), OutOfBounds, &["thread (3,0,0)", "target 3 of a list of 3"]);
    breaks(&body("brx.idx -1, list;"), OutOfBounds, &["target 4294967295"]);
    breaks(&body("brx.idx %r7, list;"), Uninitialised, &["%r7 is the index of a branch's target"]);
    breaks(&body("and.b32 %r1, %t, 1; brx.idx.uni %r1, list;"), BarrierMismatch, &["16 of 32 threads", "uniform"]);
}
