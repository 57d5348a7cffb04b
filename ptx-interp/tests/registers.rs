//! `setmaxnreg`, clusters of one block, and elections.

use ptx_gemm_interp::ViolationKind::{BarrierMismatch, Deadlock, OutOfBounds, Registers, UnknownInstruction};

use ptx_gemm_interp::Violation;

use crate::copies::{Case, change, text};
use crate::run::Device;

/// Warp group 0 releases the registers that warp group 1 requests.
fn resized() -> String {
    "setp.lt.u32 %p1, %t, 128;
@%p1 bra GIVE;
setmaxnreg.inc.sync.aligned.u32 152;
bra END;
GIVE: setmaxnreg.dec.sync.aligned.u32 40;
END: shl.b32 %r0, %t, 2;
cvt.u64.u32 %rd0, %r0;
add.u64 %rd0, %out, %rd0;
st.global.u32 [%rd0], %t;"
        .into()
}

#[test]
fn registers_go_from_warps_to_warps() {
    let want: Vec<u32> = (0..256).collect();
    let case = |body: &str, registers| {
        let body = body.to_owned();
        move |f: &dyn Fn(&Case)| f(&Case { registers, ..Case::new(&body, 256) })
    };
    // With 96 each, 56 released registers allow 56 more.
    case(&resized(), Some(96))(&|case| case.gives("enough", &want));
    case(&resized(), None)(&|case| case.gives("unknown", &want));
    let greedy = change(&resized(), "u32 152", "u32 160");
    case(&greedy, Some(96))(&|case| case.breaks("starved", &[Deadlock], "setmaxnreg.inc"));
    case(&greedy, None)(&|case| case.gives("unknown", &want));
    // An increase to fewer registers, and a decrease to more.
    case(&resized(), Some(160))(&|case| case.breaks("inc to less", &[Registers], "setmaxnreg.inc"));
    case(&resized(), Some(32))(&|case| case.breaks("dec to more", &[Registers], "setmaxnreg.dec"));
    let odd = change(&resized(), "u32 152", "u32 150");
    case(&odd, None)(&|case| case.breaks("no multiple of 8", &[UnknownInstruction], "setmaxnreg.inc"));
    let huge = change(&resized(), "u32 40", "u32 16");
    case(&huge, None)(&|case| case.breaks("below 24", &[UnknownInstruction], "setmaxnreg.dec"));
}

/// Three warp groups; the first one releases registers that the others request.
fn declared(directives: &str, released: u32, requested: u32) -> Result<(), Violation> {
    let device = Device::new(&format!(
        ".version 8.0\n.target sm_90a\n.address_size 64
         .visible .entry k() {directives} {{
         .reg .b32 %t; .reg .pred %p;
         mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 128; @%p bra GIVE;
         setmaxnreg.inc.sync.aligned.u32 {requested};
         bra END;
         GIVE: setmaxnreg.dec.sync.aligned.u32 {released};
         END: ret; }}"
    ));
    device.launch([1; 3], [384, 1, 1], &[]).map(|_| ())
}

/// A warp group waits for registers, and another one waits at an mbarrier for what the first would do with them.
#[test]
fn starvation_is_the_cause_of_what_waits_for_it() {
    let device = Device::new(
        ".version 8.0\n.target sm_90a\n.address_size 64
         .visible .entry k() .maxntid 384 {
         .reg .b32 %t; .reg .pred %p; .shared .align 8 .b64 bar;
         mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra START;
         mbarrier.init.shared.b64 [bar], 1;
         START: bar.sync 0;
         setp.lt.u32 %p, %t, 128; @%p bra GIVE;
         setmaxnreg.inc.sync.aligned.u32 248;
         setp.ne.u32 %p, %t, 128; @%p bra END;
         mbarrier.arrive.shared.b64 _, [bar];
         bra END;
         GIVE: setmaxnreg.dec.sync.aligned.u32 24;
         AGAIN: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
         @!%p bra AGAIN;
         END: ret; }",
    );
    let violation = device.launch([1; 3], [384, 1, 1], &[]).map(|_| ()).unwrap_err();
    assert_eq!(violation.kind, Deadlock, "{violation}");
    assert!(violation.site.instruction.contains("setmaxnreg.inc"), "{violation}");
}

/// The registers that threads start with follow from the directives, as in ptxas: 168 for 384 threads.
#[test]
fn starvation_is_seen_where_the_number_of_threads_is_declared() {
    let starves = |directives: &str, released: u32, requested: u32| {
        let violation = declared(directives, released, requested).expect_err(directives);
        assert_eq!(violation.kind, Deadlock, "{directives}: {violation}");
        assert!(violation.site.instruction.contains("setmaxnreg.inc"), "{directives}: {violation}");
    };
    for directives in [".maxntid 384", ".reqntid 384", ".maxntid 384, 1, 1 .minnctapersm 1", ".maxntid 128, 3"] {
        declared(directives, 24, 240).unwrap_or_else(|violation| panic!("{directives}: {violation}"));
        starves(directives, 24, 248);
        starves(directives, 40, 240);
    }
    declared(".maxntid 384 .minnctapersm 2", 24, 104).expect("80 each leave 56 for two more groups");
    starves(".maxntid 384 .minnctapersm 2", 24, 112);
    // Never more than the largest request: all threads start with 56.
    declared(".maxntid 384", 24, 56).expect("nothing is missing");
    starves(".maxntid 384 .maxnreg 96", 56, 120);
    declared(".maxntid 384 .maxnreg 96", 56, 112).expect("40 are enough for 16 and 16");
    // Without a number of threads, ptxas ignores the instruction.
    declared("", 40, 256).expect("unknown");
    assert_eq!(declared(".maxntid 384", 24, 20).expect_err("below 24").kind, UnknownInstruction);
}

#[test]
fn warp_groups_resize_together() {
    let half = change(&resized(), "%t, 128", "%t, 64");
    Case::new(&half, 256).breaks("two warps of a group each way", &[Registers], "setmaxnreg");
    let part = change(&resized(), "GIVE: set", "GIVE: setp.lt.u32 %p2, %t, 96;\n@%p2 set");
    Case::new(&part, 256).breaks("three warps of a group", &[Registers], "setmaxnreg.dec");
    let lanes = change(&resized(), "GIVE: set", "GIVE: and.b32 %r1, %t, 1;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 set");
    Case::new(&lanes, 256).breaks("half of a warp", &[BarrierMismatch, Registers], "");
}

#[test]
fn a_block_is_its_own_cluster() {
    let body = "@%p0 st.shared.u32 [a], 5;
        mov.u32 %r8, %cluster_ctarank;
        mov.u32 %r9, %cluster_nctarank;
        barrier.cluster.arrive.release.aligned;
        barrier.cluster.wait.acquire.aligned;
        mapa.shared::cluster.u32 %r0, a, %r8;
        getctarank.shared::cluster.u32 %r1, %r0;
        ld.shared::cluster.u32 %r2, [%r0];
        mov.u64 %rd1, a;
        cvta.shared.u64 %rd1, %rd1;
        mapa.u64 %rd2, %rd1, 0;
        ld.u32 %r3, [%rd2];
        add.u32 %r2, %r2, %r3;
        add.u32 %r2, %r2, %r1;
        add.u32 %r2, %r2, %r9;
        shl.b32 %r0, %t, 2;
        cvt.u64.u32 %rd0, %r0;
        add.u64 %rd0, %out, %rd0;
        st.global.u32 [%rd0], %r2;";
    Case::new(body, 96).gives("cluster", &[11; 96]);
    let relaxed = change(body, "arrive.release", "arrive.relaxed");
    Case::new(&relaxed, 96).breaks("a relaxed arrival", &[ptx_gemm_interp::ViolationKind::Race], "ld");
    let other = change(body, "a, %r8;", "a, 1;");
    Case::new(&other, 96).breaks("another rank", &[OutOfBounds], "ld.shared::cluster");
    let alone = change(body, "barrier.cluster.arrive.release.aligned;", "");
    Case::new(&alone, 96).breaks("a wait alone", &[BarrierMismatch], "cluster.wait");
    let twice = change(body, "barrier.cluster.wait.acquire.aligned;", "barrier.cluster.arrive.aligned;");
    Case::new(&twice, 96).breaks("two arrivals", &[BarrierMismatch], "cluster.arrive");
    let few = change(
        body,
        "barrier.cluster.arrive",
        "setp.ge.u32 %p1, %t, 32;\n@%p1 bra AGAIN;\nAGAIN: barrier.cluster.arrive",
    );
    Case::new(&few, 96).gives("by two ways", &[11; 96]);
}

#[test]
fn the_lowest_lane_is_elected() {
    let body = "and.b32 %r1, %t, 31;
        setp.lt.u32 %p1, %r1, 5;
        @%p1 bra END;
        elect.sync %r2|%p2, 0xffffffe0;
        selp.u32 %r3, 1, 0, %p2;
        mad.lo.u32 %r3, %r2, 10, %r3;
        shl.b32 %r0, %t, 2;
        cvt.u64.u32 %rd0, %r0;
        add.u64 %rd0, %out, %rd0;
        st.global.u32 [%rd0], %r3;
        END:";
    let want: Vec<u32> = (0..32).map(|lane| if lane < 5 { 7 } else { 50 + u32::from(lane == 5) }).collect();
    Case::new(body, 32).gives("elect", &want);
    assert!(text(body).contains("elect.sync"));
}
