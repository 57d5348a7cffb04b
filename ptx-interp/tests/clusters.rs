//! Clusters of several blocks: special registers, distributed shared memory, barriers of the cluster, arrivals at
//! mbarriers of other blocks, multicast, and the exit of a block while others use its memory. Each rule is broken once.

use ptx_gemm_interp::ViolationKind::{
    self, BarrierMisuse, Deadlock, Launch as Refused, Misaligned, OutOfBounds, ProxyInit, Race, Uninitialised,
};
use ptx_gemm_interp::{Arg, Counting, Launch, Memory, Options, Program, Violation, launch};

use crate::copies::{Case, change, runs};
use crate::{tma_gemm, wgmma_gemm};

/// `st.global` of `%r20` to the thread's own word.
const STORE: &str = "mov.u32 %r21, %ctaid.x;\nmov.u32 %r22, %ntid.x;\nmad.lo.u32 %r21, %r21, %r22, %t;
mul.wide.u32 %rd15, %r21, 4;\nadd.u64 %rd15, %out, %rd15;\nst.global.u32 [%rd15], %r20;\n";

/// A barrier of the cluster.
fn sync(name: &str) -> String {
    format!("barrier.cluster.arrive.release.aligned; // {name}\nbarrier.cluster.wait.acquire.aligned; // {name}\n")
}

/// Every thread writes a word of its block, and reads that of its peer in a cluster of two.
fn exchange() -> String {
    format!(
        "mov.u32 %r8, %cluster_ctarank;
xor.b32 %r9, %r8, 1;
shl.b32 %r0, %t, 2;
mov.u32 %r1, a;
add.u32 %r1, %r1, %r0;
mov.u32 %r10, %ctaid.x;
mad.lo.u32 %r2, %r10, 100, %t;
st.shared.u32 [%r1], %r2; // own
{}mapa.shared::cluster.u32 %r3, %r1, %r9; // map
ld.shared::cluster.u32 %r20, [%r3]; // peer
{}{STORE}",
        sync("first"),
        sync("last")
    )
}

/// The words of blocks of 40 threads.
fn words(blocks: u32, f: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    (0..blocks).flat_map(|block| (0..40).map(move |t| (block, t))).map(|(block, t)| f(block, t)).collect()
}

#[test]
fn blocks_read_each_others_memory() {
    let want = words(4, |block, t| (block ^ 1) * 100 + t);
    Case::new(&exchange(), 40).clusters(4, 2).gives("exchange", &want);
    let generic = change(
        &exchange(),
        "mapa.shared::cluster.u32 %r3, %r1, %r9; // map",
        "cvt.u64.u32 %rd1, %r1;
        cvta.shared.u64 %rd1, %rd1;
        mapa.u64 %rd2, %rd1, %r9;
        isspacep.shared::cta %p1, %rd1;
        isspacep.shared::cta %p2, %rd2;
        isspacep.shared::cluster %p3, %rd2;
        selp.u32 %r4, 0, 1000, %p1;
        selp.u32 %r5, 2000, 0, %p2;
        selp.u32 %r6, 0, 4000, %p3;
        add.u32 %r4, %r4, %r5;
        add.u32 %r4, %r4, %r6;
        getctarank.u64 %r7, %rd2;
        setp.ne.u32 %p1, %r7, %r9;
        @%p1 trap;",
    );
    let generic =
        change(&generic, "ld.shared::cluster.u32 %r20, [%r3];", "ld.u32 %r20, [%rd2];\nadd.u32 %r20, %r20, %r4;");
    Case::new(&generic, 40).clusters(4, 2).gives("generic addresses", &want);
    // Without the checks, and counting.
    let options = Options { counting: Counting::On, ..Options::default() };
    let (_, report) = Case::new(&exchange(), 40).clusters(4, 2).run(&options).expect("right");
    let cost = report.cost.expect("counted");
    assert_eq!((cost.shared_loads.accesses, cost.shared_stores.accesses), (8, 8));
    assert_eq!(cost.shared_loads.wavefronts, 8, "no bank conflicts in another block's memory");
}

/// Each lane computes the address in the block with its own number. Only the addresses of existing blocks are used.
#[test]
fn addresses_of_blocks_that_do_not_exist() {
    let body = change(
        &exchange(),
        "ld.shared::cluster.u32 %r20, [%r3]; // peer",
        "mapa.shared::cluster.u32 %r4, %r1, %t;
        setp.lt.u32 %p1, %t, 2;
        @%p1 ld.shared::cluster.u32 %r5, [%r4];
        ld.shared::cluster.u32 %r20, [%r3]; // peer",
    );
    Case::new(&body, 40).clusters(4, 2).gives("unused", &words(4, |block, t| (block ^ 1) * 100 + t));
    let used = change(&body, "setp.lt.u32 %p1, %t, 2;", "setp.lt.u32 %p1, %t, 3;");
    Case::new(&used, 40).clusters(4, 2).breaks("used", &[OutOfBounds], "ld.shared::cluster");
}

/// A relaxed arrival publishes nothing by itself; a fence before it does.
#[test]
fn fences_before_relaxed_arrivals() {
    let want = words(4, |block, t| (block ^ 1) * 100 + t);
    let relaxed = |fence: &str| {
        let arrival = format!("{fence}\nbarrier.cluster.arrive.relaxed.aligned;");
        change(&exchange(), "barrier.cluster.arrive.release.aligned; // first", &arrival)
    };
    for fence in ["fence.acq_rel.cluster;", "fence.release.gpu;", "fence.sc.cluster;"] {
        Case::new(&relaxed(fence), 40).clusters(4, 2).gives(fence, &want);
    }
    for fence in ["fence.acq_rel.cta;", "fence.acquire.cluster;", ""] {
        Case::new(&relaxed(fence), 40).clusters(4, 2).breaks(fence, &[Race], "ld.shared::cluster");
    }
    // A fence before the write publishes nothing of it.
    let early =
        change(&exchange(), "st.shared.u32 [%r1], %r2; // own", "fence.acq_rel.cluster;\nst.shared.u32 [%r1], %r2;");
    let early = change(&early, "arrive.release.aligned; // first", "arrive.relaxed.aligned;");
    Case::new(&early, 40).clusters(4, 2).breaks("a fence before the write", &[Race], "ld.shared::cluster");
}

/// Each thread writes to the other block, which may read that after the cluster's barrier, but has to have started
/// before.
#[test]
fn blocks_have_started_before_others_write_to_them() {
    let body = |before: &str| {
        format!(
            "mov.u32 %r8, %cluster_ctarank;
xor.b32 %r9, %r8, 1;
shl.b32 %r0, %t, 2;
mov.u32 %r1, a;
add.u32 %r1, %r1, %r0;
mapa.shared::cluster.u32 %r3, %r1, %r9;
{before}
st.shared::cluster.u32 [%r3], %r9; // to the peer
{}ld.shared.u32 %r20, [%r1];
{STORE}",
            sync("last")
        )
    };
    let want = words(4, |block, _| block & 1);
    let started = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;";
    // It is enough that one warp of the block knows it, if the other warps know of that.
    let one_arrives_late = format!("{started}\nbar.sync 0;");
    for before in [sync("first").as_str(), started, &one_arrives_late] {
        Case::new(&body(before), 40).clusters(4, 2).gives(before, &want);
    }
    for before in ["", "bar.sync 0;"] {
        Case::new(&body(before), 40).clusters(4, 2).breaks("not started", &[Race], "st.shared::cluster");
    }
}

#[test]
fn broken_exchanges() {
    let breaks = |name: &str, kinds: &[ViolationKind], from: &str, to: &str, at: &str| {
        Case::new(&change(&exchange(), from, to), 40).clusters(2, 2).breaks(name, kinds, at);
    };
    let first = sync("first");
    breaks("no barrier before the read", &[Race, Uninitialised], &first, "", "");
    breaks("a barrier of the block", &[Race, Uninitialised], &first, "bar.sync 0;", "");
    breaks("a relaxed arrival", &[Race], "arrive.release.aligned; // first", "arrive.relaxed.aligned;", "");
    breaks("no barrier before the exit", &[Race], &sync("last"), "", "ld.shared::cluster");
    breaks(
        "a relaxed arrival before the exit",
        &[Race],
        "arrive.release.aligned; // last",
        "arrive.relaxed.aligned;",
        "",
    );
    breaks("a third block", &[OutOfBounds], "%r1, %r9; // map", "%r1, 2;", "ld.shared::cluster");
    breaks(
        "as the own memory",
        &[OutOfBounds],
        "ld.shared::cluster.u32 %r20",
        "ld.shared::cta.u32 %r20",
        "ld.shared::cta",
    );
    breaks("beyond the peer's memory", &[OutOfBounds], "[%r3]; // peer", "[%r3+20480];", "ld.shared::cluster");
    breaks("past the peer's variable", &[OutOfBounds], "[%r3]; // peer", "[%r3+4096];", "ld.shared::cluster");
    breaks("before the peer's memory", &[OutOfBounds], "[%r3]; // peer", "[%r3+-1024];", "ld.shared::cluster");
    breaks("misaligned", &[Misaligned], "[%r3]; // peer", "[%r3+2];", "ld.shared::cluster");
    breaks("never written", &[Uninitialised], "[%r3]; // peer", "[%r3+160];", "st.global");
    breaks(
        "a write to the peer",
        &[Race],
        "ld.shared::cluster.u32 %r20, [%r3];",
        "st.shared::cluster.u32 [%r3], %r1;\nld.shared.u32 %r20, [%r1];",
        "",
    );
    let words = [
        (change(&exchange(), &sync("last"), ""), "block (", "no barrier of the cluster"),
        (change(&exchange(), "ld.shared::cluster.u32", "ld.shared.u32"), "needs .shared::cluster", "rank"),
        (change(&exchange(), &sync("first"), "bar.sync 0;"), "of block (", "may not have started"),
        (
            change(&exchange(), "arrive.release.aligned; // first", "arrive.relaxed.aligned;"),
            "of block (",
            "nothing orders",
        ),
    ];
    for (body, one, other) in words {
        let violation = Case::new(&body, 40).clusters(2, 2).run(&Options::default()).expect_err("broken").to_string();
        assert!(violation.contains(one) && violation.contains(other), "{violation}");
    }
}

#[test]
fn atomics_and_flags_reach_the_cluster() {
    // Every thread adds to a word of the first block, which then notifies the second block by a flag there.
    let body = format!(
        "mov.u32 %r8, %cluster_ctarank;
mov.u32 %r1, a;
mapa.shared::cluster.u32 %r2, %r1, 0;
mapa.shared::cluster.u32 %r3, %r1, 1;
@%p0 st.shared.v2.u32 [%r1], {{0, 0}};
{}red.relaxed.cluster.shared::cluster.add.u32 [%r2], 1; // red
{}setp.eq.u32 %p1, %r8, 1;
mov.u32 %r20, 5;
@%p1 bra WAIT;
@%p0 ld.shared.u32 %r20, [%r1];
@%p0 st.shared::cluster.u32 [%r3+8], %r20;
@%p0 st.release.cluster.shared::cluster.u32 [%r3+4], 1; // raise
bra END;
WAIT: ld.acquire.cluster.shared::cta.u32 %r4, [%r1+4]; // see
setp.eq.u32 %p2, %r4, 0;
@%p2 bra WAIT;
ld.shared.u32 %r20, [%r1+8]; // data
END: {}{STORE}",
        sync("init"),
        sync("sum"),
        sync("last")
    );
    let want = words(2, |block, t| if block == 1 || t == 0 { 80 } else { 5 });
    Case::new(&body, 40).clusters(2, 2).gives("flags", &want);
    let breaks = |name: &str, from: &str, to: &str, at: &str| {
        Case::new(&change(&body, from, to), 40).clusters(2, 2).breaks(name, &[Race], at);
    };
    breaks("an atomic of the block's scope", "red.relaxed.cluster", "red.relaxed.cta", "red");
    breaks("a release to the block", "st.release.cluster", "st.release.cta", "");
    breaks("an acquire from the block", "ld.acquire.cluster", "ld.acquire.cta", "");
    breaks("a relaxed store", "st.release.cluster", "st.relaxed.cluster", "ld.shared.u32");
    let fenced = change(&body, "@%p0 st.release.cluster", "@%p0 fence.acq_rel.cluster;\n@%p0 st.relaxed.cluster");
    Case::new(&fenced, 40).clusters(2, 2).gives("a fence of the cluster", &want);
    let narrow = change(&fenced, "fence.acq_rel.cluster", "fence.acq_rel.cta");
    Case::new(&narrow, 40).clusters(2, 2).breaks("a fence of the block", &[Race], "ld.shared.u32");
}

/// The second block writes words of the first and arrives at its mbarrier.
fn arrival() -> String {
    format!(
        "mov.u32 %r8, %cluster_ctarank;
mov.u32 %r1, a;
mad.lo.u32 %r1, %t, 4, %r1;
@%p0 mbarrier.init.shared::cta.b64 [bar], 40; // init
@%p0 fence.mbarrier_init.release.cluster; // fence
barrier.cluster.arrive.relaxed.aligned; // start
barrier.cluster.wait.acquire.aligned; // start
mov.u32 %r20, 3;
setp.eq.u32 %p1, %r8, 0;
@%p1 bra WAIT;
add.u32 %r2, %t, 60;
mapa.shared::cluster.u32 %r3, %r1, 0;
st.shared::cluster.u32 [%r3], %r2;
mov.u32 %r4, bar;
mapa.shared::cluster.u32 %r4, %r4, 0;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4]; // arrive
bra END;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0; // wait
@!%p2 bra WAIT;
ld.shared.u32 %r20, [%r1]; // read
END: {STORE}"
    )
}

#[test]
fn threads_arrive_at_barriers_of_other_blocks() {
    let want = words(2, |block, t| if block == 0 { t + 60 } else { 3 });
    Case::new(&arrival(), 40).clusters(2, 2).gives("remote arrivals", &want);
    // Kernels that omit the scope rely on the scope of the cluster.
    let unstated = change(&arrival(), "arrive.release.cluster", "arrive");
    let unstated = change(&unstated, "parity.acquire.cluster", "parity");
    Case::new(&unstated, 40).clusters(2, 2).gives("unstated scopes", &want);
    let counted = change(&arrival(), "_, [%r4];", "_, [%r4], 2;");
    let counted = change(&counted, "[bar], 40;", "[bar], 80;");
    Case::new(&counted, 40).clusters(2, 2).gives("with a count", &want);
    let breaks = |name: &str, kinds: &[ViolationKind], from: &str, to: &str, at: &str| {
        Case::new(&change(&arrival(), from, to), 40).clusters(2, 2).breaks(name, kinds, at);
    };
    breaks("a release to the block", &[Race], "release.cluster.shared", "release.cta.shared", "ld.shared");
    breaks("an acquire from the block", &[Race], "acquire.cluster.shared", "acquire.cta.shared", "ld.shared");
    breaks("a relaxed arrival", &[Race], "release.cluster.shared", "relaxed.cluster.shared", "ld.shared");
    breaks("no fence of the initialisation", &[Race], "@%p0 fence.mbarrier_init.release.cluster; // fence", "", "");
    let alone = "barrier.cluster.arrive.relaxed.aligned; // start\nbarrier.cluster.wait.acquire.aligned; // start";
    breaks("no barrier after it", &[Race, BarrierMisuse], alone, "bar.sync 0;", "");
    breaks(
        "nobody initialises",
        &[BarrierMisuse],
        "@%p0 mbarrier.init.shared::cta.b64 [bar], 40; // init",
        "",
        "mbarrier",
    );
    breaks("39 arrivals expected", &[BarrierMisuse, Race], "[bar], 40;", "[bar], 39;", "");
    breaks("41 arrivals expected", &[Deadlock], "[bar], 40;", "[bar], 41;", "try_wait");
    breaks("no wait", &[Race, Uninitialised], "@!%p2 bra WAIT;", "", "");
    let remote_wait = "mapa.shared::cluster.u32 %r4, %r4, 0;\nmbarrier.try_wait.parity.b64 %p2, [%rd1], 0;";
    let remote_wait = change(
        &arrival(),
        "mapa.shared::cluster.u32 %r4, %r4, 0;",
        &format!("cvt.u64.u32 %rd1, %r4;\ncvta.shared.u64 %rd1, %rd1;\nmapa.u64 %rd1, %rd1, 0;\n{remote_wait}"),
    );
    Case::new(&remote_wait, 40).clusters(2, 2).breaks("a wait at another block's", &[BarrierMisuse], "try_wait");
    let violation =
        Case::new(&change(&arrival(), "[bar], 40;", "[bar], 41;"), 40).clusters(2, 2).run(&Options::default());
    assert!(violation.expect_err("stuck").message.contains("of block (0,0,0) waits at the mbarrier"));
}

/// The first block copies 128 bytes from its own memory to that of the second.
fn between() -> String {
    format!(
        "mov.u32 %r8, %cluster_ctarank;
mov.u32 %r9, b;
mov.u32 %r1, a;
mad.lo.u32 %r1, %t, 4, %r1;
add.u32 %r2, %t, 60;
setp.eq.u32 %p1, %r8, 0;
@%p1 st.shared.u32 [%r1], %r2;
@%p1 fence.proxy.async.shared::cta; // proxy
@%p0 mbarrier.init.shared::cta.b64 [bar], 1;
@%p0 fence.mbarrier_init.release.cluster;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
{}mov.u32 %r20, 3;
@!%p1 bra WAIT;
@!%p0 bra END;
mov.u32 %r3, b;
mov.u32 %r4, bar;
mapa.shared::cluster.u32 %r3, %r3, 1;
mapa.shared::cluster.u32 %r4, %r4, 1; // its barrier
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [a], 128, [%r4];
bra END;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; // wait
@!%p2 bra WAIT;
mad.lo.u32 %r1, %t, 4, %r9;
ld.shared.u32 %r20, [%r1]; // read
END: {}{STORE}",
        sync("start"),
        sync("last")
    )
}

#[test]
fn copies_between_blocks() {
    let want: Vec<u32> = (0..64).map(|at| if at < 32 { 3 } else { at - 32 + 60 }).collect();
    Case::new(&between(), 32).clusters(2, 2).gives("a copy to the peer", &want);
    let breaks = |name: &str, kinds: &[ViolationKind], from: &str, to: &str, at: &str| {
        Case::new(&change(&between(), from, to), 32).clusters(2, 2).breaks(name, kinds, at);
    };
    breaks(
        "no proxy fence",
        &[ViolationKind::Proxy],
        "@%p1 fence.proxy.async.shared::cta; // proxy",
        "",
        "cp.async.bulk",
    );
    breaks("its own barrier", &[BarrierMisuse], "%r4, %r4, 1; // its barrier", "%r4, %r4, 0;", "cp.async.bulk");
    breaks("no wait", &[Race, Uninitialised], "@!%p2 bra WAIT;", "", "");
    // The sender's memory is being read until some thread knows that the copy is complete.
    breaks("an exit before it is read", &[Race], &sync("last"), "", "cp.async.bulk");
}

/// Eight steps of 256 bytes through two slots. The producer of each block of a cluster of two copies one half of every
/// slot to both blocks; consumers release a slot to both producers. Each consumer adds up one word of every slot.
fn pipeline() -> String {
    format!(
        "mov.u32 %r8, %cluster_ctarank;
mov.u32 %r20, 0;
@%p0 mbarrier.init.shared::cta.b64 [c], 1; // full
@%p0 mbarrier.init.shared::cta.b64 [c+8], 1;
@%p0 mbarrier.init.shared::cta.b64 [c+16], 128; // empty
@%p0 mbarrier.init.shared::cta.b64 [c+24], 128;
@%p0 fence.mbarrier_init.release.cluster; // fence
barrier.cluster.arrive.relaxed.aligned; // start
barrier.cluster.wait.acquire.aligned; // start
mov.b16 %h0, 3; // mask
mul.lo.u32 %r14, %r8, 128;
mov.u32 %r10, 0;
mov.u32 %r16, c;
setp.ge.u32 %p4, %t, 64;
@!%p4 bra STEP;
setp.ne.u32 %p5, %t, 64;
@%p5 bra END;
STEP: and.b32 %r11, %r10, 1;
shr.u32 %r12, %r10, 1;
and.b32 %r12, %r12, 1;
xor.b32 %r13, %r12, 1;
mad.lo.u32 %r15, %r11, 8, %r16;
mov.u32 %r17, a;
mad.lo.u32 %r17, %r11, 256, %r17;
@%p4 bra ROOM;
DATA: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r15], %r12; // data
@!%p2 bra DATA;
mad.lo.u32 %r17, %t, 4, %r17;
ld.shared.u32 %r18, [%r17]; // use
add.u32 %r20, %r20, %r18;
fence.proxy.async.shared::cta;
mapa.shared::cluster.u32 %r0, %r15, 0;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0+16]; // release to 0
mapa.shared::cluster.u32 %r1, %r15, 1;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1+16]; // release to 1
bra NEXT;
ROOM: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r15+16], %r13; // room
@!%p2 bra ROOM;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 256; // expect
add.u32 %r17, %r17, %r14;
mad.lo.u32 %r19, %r10, 256, %r14;
cvt.u64.u32 %rd0, %r19;
add.u64 %rd0, %in, %rd0;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r17], [%rd0], 128, [%r15], %h0;
NEXT: add.u32 %r10, %r10, 1;
setp.lt.u32 %p3, %r10, 8;
@%p3 bra STEP;
END: {}{STORE}",
        sync("last")
    )
}

#[test]
fn a_pipeline_with_multicast() {
    let one = (0..96).map(|t| if t < 64 { (0..8).map(|step| 64 * step + t + 1).sum() } else { 0 });
    let want: Vec<u32> = std::iter::repeat_n(one, 4).flatten().collect();
    Case::new(&pipeline(), 96).clusters(4, 2).gives("pipeline", &want);
    let unstated = change(&pipeline(), "parity.acquire.cluster", "parity").replace("arrive.release.cluster", "arrive");
    Case::new(&unstated, 96).clusters(2, 2).gives("unstated scopes", &want[..192]);
    let options = Options { counting: Counting::On, ..Options::default() };
    let (_, report) = Case::new(&pipeline(), 96).clusters(2, 2).run(&options).expect("right");
    assert_eq!(report.cost.expect("counted").traffic["in"].read, 2048, "a multicast reads its source once");
}

#[test]
fn planted_faults_of_the_pipeline() {
    let breaks = |name: &str, kinds: &[ViolationKind], from: &str, to: &str, at: &str| {
        Case::new(&change(&pipeline(), from, to), 96).clusters(2, 2).breaks(name, kinds, at);
    };
    let release = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1+16]; // release to 1";
    breaks("no release to the second block", &[Deadlock], release, "", "try_wait");
    breaks("a mask without the second block", &[Deadlock, BarrierMisuse, Race], "%h0, 3; // mask", "%h0, 1;", "");
    breaks("a mask with a third block", &[OutOfBounds], "%h0, 3; // mask", "%h0, 7;", "multicast");
    breaks("a mask of nobody", &[OutOfBounds], "%h0, 3; // mask", "%h0, 0;", "multicast");
    breaks(
        "one block's consumers expected",
        &[Race, BarrierMisuse, Deadlock],
        "[c+16], 128; // empty",
        "[c+16], 64;",
        "",
    );
    breaks("no barrier before the exit", &[Race], &sync("last"), "", "");
    let start = "barrier.cluster.arrive.relaxed.aligned; // start\nbarrier.cluster.wait.acquire.aligned; // start";
    breaks("no barrier after the initialisation", &[Race, BarrierMisuse], start, "bar.sync 0;", "");
    let fence = "@%p0 fence.mbarrier_init.release.cluster; // fence";
    breaks("no fence of the initialisation", &[Race, ProxyInit], fence, "", "");
    breaks("the other half not expected", &[BarrierMisuse, Race], "[%r15], 256; // expect", "[%r15], 128;", "");
    breaks("16 bytes too many expected", &[Deadlock], "[%r15], 256; // expect", "[%r15], 272;", "try_wait");
    breaks(
        "a release to the block",
        &[Race],
        release,
        &release.replace("release.cluster.shared", "release.cta.shared"),
        "multicast",
    );
    breaks("an acquire from the block", &[Race], "parity.acquire.cluster", "parity.acquire.cta", "multicast");
    breaks("no wait for room", &[Race, BarrierMisuse], "@!%p2 bra ROOM;", "", "");
    breaks("no wait for data", &[Race, Uninitialised], "@!%p2 bra DATA;", "", "");
    let short = change(&pipeline(), "[%r15], 256; // expect", "[%r15], 240;");
    let violation = Case::new(&short, 96).clusters(2, 2).run(&Options::default()).expect_err("short").to_string();
    assert!(violation.contains("16 bytes too few") && violation.contains(": mbarrier.arrive.expect_tx"), "{violation}");
}

#[test]
fn blocks_that_need_no_cluster_run_in_one() {
    // Barriers, roles, copies and warp groups of each block are its own.
    for options in runs() {
        for cluster in [[2, 1, 1], [1, 2, 1], [2, 2, 1]] {
            tma_gemm::check_in(&tma_gemm::text(), &options, cluster);
        }
        wgmma_gemm::check_in(&wgmma_gemm::text(), &options, [1, 2, 1]);
    }
}

#[test]
fn a_barrier_that_a_block_does_not_reach() {
    let body = format!(
        "mov.u32 %r8, %cluster_ctarank;
setp.eq.u32 %p1, %r8, 1;
setp.lt.u32 %p2, %t, 32;
mov.u32 %r20, 1;
@%p1 bra OTHER;
{}bra DONE;
OTHER: @!%p2 bra DONE;
bar.sync 1, 64; // never complete
DONE: {STORE}",
        sync("only the first")
    );
    for options in runs() {
        let violation = Case::new(&body, 96).clusters(2, 2).run(&options).expect_err("stuck");
        assert_eq!(violation.kind, Deadlock, "{violation}");
        let text = violation.to_string();
        assert!(text.contains("3 of 6 warps (3 of 3 of block (0,0,0), 0 of 3 of block (1,0,0))"), "{text}");
    }
    // Blocks that have exited need not arrive.
    let exits = change(&body, "bar.sync 1, 64; // never complete\n", "");
    Case::new(&exits, 96).clusters(2, 2).gives("an exit instead", &[1; 192]);
}

/// A launch of a kernel without parameters that stores its special registers.
fn shaped(directives: &str, grid: [u32; 3], cluster: [u32; 3]) -> Result<Vec<u32>, Violation> {
    let registers = [
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%clusterid.x",
        "%clusterid.y",
        "%nclusterid.x",
        "%nclusterid.y",
        "%cluster_ctaid.x",
        "%cluster_ctaid.y",
        "%cluster_nctaid.x",
        "%cluster_nctaid.y",
        "%warpid",
    ];
    let stores: String = (registers.iter().enumerate())
        .map(|(index, name)| format!("mov.u32 %r0, {name};\nst.global.u32 [%rd0+{}], %r0;\n", 4 * index))
        .collect();
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {directives} {{
.reg .b64 %rd<2>; .reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.u64 %rd0, [out];
mov.u32 %r0, %ctaid.y; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
mul.wide.u32 %rd1, %r0, 64; add.u64 %rd0, %rd0, %rd1;
{stores}
mov.pred %p0, %is_explicit_cluster; selp.u32 %r0, 1, 0, %p0; st.global.u32 [%rd0+44], %r0;
ret;\n}}\n"
    );
    let program = Program::from_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let memory = Memory::new();
    let blocks = grid.iter().product::<u32>() as usize;
    let out = memory.alloc_from("out", &vec![0; 64 * blocks], 256).expect("fits").address;
    let args = [Arg::U64(out)];
    let what = Launch { entry: "k", grid, cluster, args: &args, ..Launch::default() };
    launch(&program, &memory, &what, &Options::default())?;
    let mut bytes = vec![0; 64 * blocks];
    memory.read(out, &mut bytes).expect("inside");
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

#[test]
fn special_registers() {
    for (directives, cluster) in
        [("", [2, 2, 1]), (".reqnctapercluster 2, 2", [1; 3]), (".explicitcluster .maxclusterrank 4", [2, 2, 1])]
    {
        let words = shaped(directives, [4, 6, 1], cluster).unwrap_or_else(|violation| panic!("{violation}"));
        for (index, of_block) in words.chunks(16).enumerate() {
            let [x, y] = [index as u32 % 4, index as u32 / 4];
            let want = [y % 2 * 2 + x % 2, 4, x / 2, y / 2, 2, 3, x % 2, y % 2, 2, 2, 0, 1];
            assert_eq!(of_block[..12], want, "block {x}, {y}");
        }
    }
    let alone = shaped("", [2, 1, 1], [1; 3]).expect("runs");
    assert_eq!(alone[16..28], [0, 1, 1, 0, 2, 1, 0, 0, 1, 1, 0, 0]);
}

#[test]
fn shapes_that_are_refused() {
    for (directives, grid, cluster, word) in [
        ("", [4, 1, 1], [3, 1, 1], "4 is not a multiple of 3"),
        ("", [16, 1, 1], [16, 1, 1], "must have 1 to 8"),
        ("", [4, 1, 1], [0, 1, 1], "must have 1 to 8"),
        (".reqnctapercluster 2", [3, 1, 1], [1; 3], "3 is not a multiple of 2"),
        (".reqnctapercluster 4, 1, 1", [4, 1, 1], [2, 1, 1], "requires [4, 1, 1]"),
        (".maxclusterrank 2", [4, 1, 1], [4, 1, 1], ".maxclusterrank"),
        (".explicitcluster", [4, 1, 1], [1; 3], ".explicitcluster"),
    ] {
        let violation = shaped(directives, grid, cluster).expect_err(word);
        assert_eq!(violation.kind, Refused);
        assert!(violation.message.contains(word), "{violation}");
    }
    assert!(shaped(".reqnctapercluster 1, 1, 1", [4, 1, 1], [1; 3]).is_ok());
}
