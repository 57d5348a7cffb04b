//! `st.async` and `red.async`: stores to another block's shared memory that its mbarrier counts.

use ptx_gemm_interp::ViolationKind::{self, BarrierMisuse, Deadlock, Misaligned, OutOfBounds, Race, Uninitialised};
use ptx_gemm_interp::{Counting, Options};

use crate::copies::{Case, change, runs};

/// Two blocks of 64 threads. Every thread stores a value asynchronously to its own word of the other block, and the
/// mbarrier of that block expects the bytes of all of them. Then it waits at the mbarrier of its own block, and writes
/// the value that it got to the output.
fn exchange() -> String {
    "mov.u32 %r8, %cluster_ctarank; xor.b32 %r9, %r8, 1; shl.b32 %r0, %t, 2;
mov.u32 %r1, a; add.u32 %r1, %r1, %r0; mov.u32 %r2, bar;
mapa.shared::cluster.u32 %r3, %r1, %r9; mapa.shared::cluster.u32 %r4, %r2, %r9;
mov.u32 %r10, %ctaid.x; mad.lo.u32 %r5, %r10, 100, %t;
// before
@%p0 mbarrier.init.shared::cta.b64 [bar], 1;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r3], %r5, [%r4]; // store
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [bar], 0;
@!%p1 bra WAIT; // waited
ld.shared.u32 %r20, [%r1]; // read
mad.lo.u32 %r21, %r10, 64, %t; mul.wide.u32 %rd15, %r21, 4; add.u64 %rd15, %out, %rd15;
st.global.u32 [%rd15], %r20;"
        .to_owned()
}

fn words(f: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    (0..4).flat_map(|block| (0..64).map(move |t| (block, t))).map(|(block, t)| f(block, t)).collect()
}

const STORE: &str = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r3], %r5, [%r4]; // store";

#[test]
fn blocks_store_to_each_other() {
    let want = words(|block, t| (block ^ 1) * 100 + t);
    Case::new(&exchange(), 64).clusters(4, 2).gives("words", &want);
    let generic = change(
        &exchange(),
        STORE,
        "cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd1, %rd1; mapa.u64 %rd1, %rd1, %r9;
        cvt.u64.u32 %rd2, %r2; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd2, %rd2, %r9;
        st.async.mbarrier::complete_tx::bytes.u32 [%rd1], %r5, [%rd2];",
    );
    Case::new(&generic, 64).clusters(4, 2).gives("generic", &want);
    // Every fourth thread stores a vector.
    let vectors = change(
        &exchange(),
        STORE,
        "and.b32 %r6, %t, 3; setp.eq.u32 %p2, %r6, 0; add.u32 %r6, %r5, 1; add.u32 %r7, %r5, 2; add.u32 %r11, %r5, 3;
        @%p2 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r3], {%r5, %r6, %r7, %r11}, [%r4];",
    );
    Case::new(&vectors, 64).clusters(4, 2).gives("vectors", &want);
    let long = change(
        &exchange(),
        STORE,
        "and.b32 %r6, %t, 3; setp.eq.u32 %p2, %r6, 0; add.u32 %r6, %r5, 1; add.u32 %r7, %r5, 2; add.u32 %r11, %r5, 3;
        mov.b64 %rd3, {%r5, %r6}; mov.b64 %rd4, {%r7, %r11};
        @%p2 st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r3], {%rd3, %rd4}, [%r4];",
    );
    Case::new(&long, 64).clusters(4, 2).gives("long", &want);
    let options = Options { counting: Counting::On, ..runs()[0] };
    let (_, report) = Case::new(&exchange(), 64).clusters(4, 2).run(&options).expect("right");
    assert_eq!(report.cost.expect("counted").shared_stores.accesses, 8);
}

/// `red.async` combines a value with the word in memory, in any order.
#[test]
fn blocks_reduce_into_each_other() {
    let reduce = |op: &str, ty: &str, first: u32, value: &str| {
        let body = change(
            &exchange(),
            STORE,
            &format!(
                "{value} red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{ty} [%r6], %r5, [%r4];"
            ),
        );
        let body = change(
            &body,
            "// before",
            &format!("mov.u32 %r7, a; mapa.shared::cluster.u32 %r6, %r7, %r9; @%p0 st.shared.u32 [a], {first};"),
        );
        change(&body, "ld.shared.u32 %r20, [%r1];", "ld.shared.u32 %r20, [a];")
    };
    let gives = |op: &str, ty: &str, first: u32, value: &str, want: u32| {
        Case::new(&reduce(op, ty, first, value), 64).clusters(2, 2).gives(op, &[want; 128]);
    };
    gives("add", "u32", 5, "mov.u32 %r5, %t;", 5 + 64 * 63 / 2);
    gives("min", "s32", 5, "sub.u32 %r5, 0, %t;", 0u32.wrapping_sub(63));
    gives("max", "u32", 5, "mov.u32 %r5, %t;", 63);
    gives("or", "b32", 128, "mov.u32 %r5, %t;", 128 + 63);
    gives("xor", "b32", 7, "mov.u32 %r5, 3;", 7);
    gives("and", "b32", 0xff, "or.b32 %r5, %t, 64;", 64);
    gives("inc", "u32", 0, "mov.u32 %r5, 9;", 4);
    gives("dec", "u32", 3, "mov.u32 %r5, 9;", 9);
    let breaks = |name: &str, from: &str, to: &str, kinds: &[ViolationKind], at: &str| {
        let body = change(&reduce("add", "u32", 5, "mov.u32 %r5, %t;"), from, to);
        Case::new(&body, 64).clusters(2, 2).breaks(name, kinds, at);
    };
    breaks("no wait", "@!%p1 bra WAIT; // waited", "", &[Race], "");
    breaks("never written", "@%p0 st.shared.u32 [a], 5;", "", &[Uninitialised], "st.global");
    breaks("undefined operand", "mov.u32 %r5, %t;", "mov.u32 %r5, %r19;", &[Uninitialised], "red.async");
    let stored = "mov.u32 %r5, %t; setp.eq.u32 %p3, %t, 9;
        @%p3 st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6], %r5, [%r4]; @!%p3";
    breaks("with a store", "mov.u32 %r5, %t;", stored, &[Race], "async");
}

#[test]
fn broken_exchanges() {
    let breaks = |name: &str, kinds: &[ViolationKind], from: &str, to: &str, at: &str| {
        Case::new(&change(&exchange(), from, to), 64).clusters(2, 2).breaks(name, kinds, at);
    };
    let waited = "@!%p1 bra WAIT; // waited";
    breaks("no wait", &[Race, Uninitialised], waited, "", "");
    let unwaited = change(&exchange(), waited, "");
    let found = runs().into_iter().filter_map(|options| Case::new(&unwaited, 64).clusters(2, 2).run(&options).err());
    assert!(found.into_iter().any(|found| found.kind == Race && found.site.instruction.contains("ld.shared")));
    breaks(
        "wait of a narrow scope",
        &[Race],
        "try_wait.parity.acquire.cluster",
        "try_wait.parity.acquire.cta",
        "ld.shared",
    );
    breaks("relaxed wait", &[Race], "try_wait.parity.acquire.cluster", "try_wait.parity.relaxed.cluster", "ld.shared");
    let alone = "@%p0 bra WAIT;\nbra READ;\nWAIT: mbarrier";
    let body = change(&exchange(), "WAIT: mbarrier", alone);
    let body = change(&body, "ld.shared.u32 %r20, [%r1]; // read", "READ: ld.shared.u32 %r20, [%r1];");
    Case::new(&body, 64).clusters(2, 2).breaks("one thread waits", &[Race, Uninitialised], "");
    breaks("too many bytes expected", &[Deadlock], "_, [bar], 256;", "_, [bar], 260;", "");
    breaks("too few bytes expected", &[BarrierMisuse, Race], "_, [bar], 256;", "_, [bar], 252;", "");
    let to = |text: &str| change(STORE, "[%r3], %r5, [%r4]", text);
    breaks("own mbarrier", &[BarrierMisuse], STORE, &to("[%r3], %r5, [%r2]"), "st.async");
    breaks("no mbarrier", &[BarrierMisuse], STORE, &to("[%r3], %r5, [%r4+8]"), "st.async");
    breaks("onto the mbarrier", &[BarrierMisuse], STORE, &to("[%r4], %r5, [%r4]"), "st.async");
    breaks("misaligned", &[Misaligned], STORE, &to("[%r3+2], %r5, [%r4]"), "st.async");
    breaks("out of bounds", &[OutOfBounds], STORE, &to("[%r3+1048576], %r5, [%r4]"), "st.async");
    breaks(
        "all to one word",
        &[Race],
        "mapa.shared::cluster.u32 %r3, %r1, %r9;",
        "mov.u32 %r6, a; mapa.shared::cluster.u32 %r3, %r6, %r9;",
        "st.async",
    );
    breaks("undefined address", &[Uninitialised], STORE, &to("[%r19], %r5, [%r4]"), "st.async");
    breaks("undefined value", &[Uninitialised], STORE, &to("[%r3], %r19, [%r4]"), "st.global");
    let twice = format!("{STORE}\n{}", STORE.replace("// store", "// again"));
    breaks("twice", &[Race], STORE, &twice, "st.async");
    // The other block uses the word while the store is in flight, or the store comes before that block is done with it.
    breaks("written by its owner", &[Race], "WAIT: mbarrier", "st.shared.u32 [%r1], 5;\nWAIT: mbarrier", "");
    let early =
        change(&exchange(), "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n", "");
    let early = format!("{early}\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
    Case::new(&early, 64).clusters(2, 2).breaks("no barrier before", &[Race, BarrierMisuse], "async");
}
