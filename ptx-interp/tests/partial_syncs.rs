//! `bar.warp.sync` with a mask that leaves out lanes: it orders the lanes that it names, and no others.

use ptx_gemm_interp::ViolationKind::{BarrierMismatch, Race};

use crate::ring::{STORE, check, check_found, mutate};

/// Each thread stores its number, and reads that of the thread with an index that differs in these bits.
fn exchange(sync: &str, bits: u32) -> String {
    format!(
        "mov.u32 %r1, scratch;
         mad.lo.u32 %r2, %t, 4, %r1;
         st.shared.u32 [%r2], %t; // store
         and.b32 %r5, %t, 31;
         setp.lt.u32 %p0, %r5, 16;
         {sync}
         xor.b32 %r3, %t, {bits};
         mad.lo.u32 %r3, %r3, 4, %r1;
         ld.shared.u32 %r0, [%r3];
         {STORE}"
    )
}

/// The same in global memory, in the words of the results.
fn exchange_in_global_memory(sync: &str, bits: u32) -> String {
    format!(
        "mov.u32 %r0, %t;
         {STORE}
         and.b32 %r5, %t, 31;
         setp.lt.u32 %p0, %r5, 16;
         {sync}
         xor.b32 %r3, %t, {bits};
         mul.wide.u32 %rd1, %r3, 4;
         add.u64 %rd1, %out, %rd1;
         ld.global.u32 %r0, [%rd1];
         bar.sync 0;
         {STORE}"
    )
}

fn exchanged(threads: u32, bits: u32) -> Vec<u32> {
    (0..threads).map(|t| t ^ bits).collect()
}

const HALF: &str = "@%p0 bar.warp.sync 0xffff;";
/// Both halves at two instructions.
const HALVES: &str = "@%p0 bar.warp.sync 0xffff;\n@!%p0 bar.warp.sync 0xffff0000;";
/// Both halves at one instruction, as a tile of 16 threads synchronises.
const TILES: &str = "selp.b32 %r6, 0xffff, 0xffff0000, %p0;\nbar.warp.sync %r6;";
/// The same, but the halves reach it one after the other.
const DIVERGENT_TILES: &str = "selp.b32 %r6, 0xffff, 0xffff0000, %p0;
    @%p0 bra SYNC;
    mov.u32 %r7, 1;
    SYNC: bar.warp.sync %r6;";
const WHOLE: &str = "bar.warp.sync -1;";
/// The whole warp, in two groups that synchronise at different instructions.
const DIVERGENT: &str = "@%p0 bra LOW;\nbar.warp.sync -1;\nbra MET;\nLOW: bar.warp.sync -1;\nMET:";
/// A chain of pairs, after which all lanes know of each other.
const CHAIN: &str = "bar.warp.sync -1;\n@%p0 bar.warp.sync 0xffff;\nbar.warp.sync -1;";

#[test]
fn the_half_that_is_not_named_is_not_ordered() {
    for exchange in [exchange, exchange_in_global_memory] {
        for threads in [32, 64] {
            for sync in
                [HALF, HALVES, TILES, DIVERGENT_TILES, "", "@%p0 bar.warp.sync 0x0000ffff;\n@%p0 bar.warp.sync 0xffff;"]
            {
                check_found(&format!("across: {sync}"), &[Race], &exchange(sync, 16), threads);
            }
            for sync in [WHOLE, DIVERGENT, CHAIN, "bar.sync 0;"] {
                check(&format!("across: {sync}"), &exchange(sync, 16), threads, &exchanged(threads, 16));
            }
            for sync in [HALVES, TILES, DIVERGENT_TILES, WHOLE, DIVERGENT, CHAIN] {
                for bits in [1, 8, 15] {
                    check(&format!("within: {sync}"), &exchange(sync, bits), threads, &exchanged(threads, bits));
                }
            }
            // Only one half synchronises, but the other half exchanges words too.
            check_found("within: half", &[Race], &exchange(HALF, 8), threads);
        }
    }
    // The last warp has 16 threads: the mask names all of them.
    check("a part of a warp", &exchange("bar.warp.sync 0xffff;", 8), 16, &exchanged(16, 8));
    check_found("one lane too few", &[BarrierMismatch], &exchange("bar.warp.sync 0x7fffffff;", 8), 32);
    let wrong = TILES.replace("0xffff0000", "0xfffe0000");
    check_found("one lane too few in a half", &[BarrierMismatch], &exchange(&wrong, 8), 32);
}

#[test]
fn two_lanes_synchronise() {
    let within = |bits: u32| {
        format!(
            "mov.u32 %r0, 40;
             mov.u32 %r1, scratch;
             mad.lo.u32 %r2, %t, 4, %r1;
             st.shared.u32 [%r2], %t;
             setp.ge.u32 %p0, %t, 2;
             @%p0 bra END;
             bar.warp.sync 0x3; // pair
             xor.b32 %r3, %t, {bits};
             mad.lo.u32 %r3, %r3, 4, %r1;
             ld.shared.u32 %r0, [%r3];
             END: {STORE}"
        )
    };
    let in_global_memory = |bits: u32| {
        format!(
            "mov.u32 %r0, %t;
             {STORE}
             setp.ge.u32 %p0, %t, 2;
             @%p0 bra END;
             bar.warp.sync 0x3; // pair
             xor.b32 %r3, %t, {bits};
             mul.wide.u32 %rd1, %r3, 4;
             add.u64 %rd1, %out, %rd1;
             ld.global.u32 %r0, [%rd1];
             bar.warp.sync 0x3;
             {STORE}
             END:"
        )
    };
    let want =
        |others: &dyn Fn(u32) -> u32| (0..32).map(|t| if t < 2 { t ^ 1 } else { others(t) }).collect::<Vec<u32>>();
    check("a pair", &within(1), 32, &want(&|_| 40));
    check("a pair, global", &in_global_memory(1), 32, &want(&|t| t));
    let bodies: [&dyn Fn(u32) -> String; 2] = [&within, &in_global_memory];
    for body in bodies {
        check_found("no pair", &[Race], &mutate(&body(1), "bar.warp.sync 0x3; // pair", ""), 32);
        // Each of the two reads a word that a third lane has stored.
        check_found("a third lane", &[Race], &body(2), 32);
    }
}

/// A lane passes on in one part of its warp what it has learnt in the part before.
#[test]
fn knowledge_is_passed_on_between_parts() {
    let body = |second: &str| {
        format!(
            "mov.u32 %r0, 7;
             setp.eq.u32 %p0, %t, 0;
             setp.lt.u32 %p1, %t, 2;
             add.u32 %r5, %t, -1;
             setp.lt.u32 %p2, %r5, 2;
             setp.eq.u32 %p3, %t, 2;
             @%p0 st.shared.u32 [scratch], 5;
             @%p1 bar.warp.sync 0x3; // first
             {second}
             @%p3 ld.shared.u32 %r0, [scratch];
             {STORE}"
        )
    };
    let chain = body("@%p2 bar.warp.sync 0x6;");
    check("chain", &chain, 32, &(0..32).map(|t| if t == 2 { 5 } else { 7 }).collect::<Vec<u32>>());
    check_found("no first", &[Race], &mutate(&chain, "@%p1 bar.warp.sync 0x3; // first", ""), 32);
    check_found("no second", &[Race], &body(""), 32);
    check_found("the second one names others", &[Race], &body("@%p1 bar.warp.sync 0x3;"), 32);
}

/// A reader stays recorded when lanes of its warp synchronise without it.
#[test]
fn reads_of_lanes_that_have_not_met() {
    let body = |sync: &str| {
        format!(
            "setp.eq.u32 %p0, %t, 0;
             setp.eq.u32 %p1, %t, 1;
             setp.lt.u32 %p2, %t, 16;
             @%p0 st.shared.u32 [scratch], 5;
             bar.sync 0;
             ld.shared.u32 %r0, [scratch];
             {sync}
             @%p1 ld.shared.u32 %r0, [scratch];
             @%p0 st.shared.u32 [scratch], 6;
             {STORE}"
        )
    };
    let whole = body("bar.warp.sync -1;").replace("@%p1 ld.shared.u32 %r0, [scratch];", "");
    check("whole", &whole, 32, &[5; 32]);
    let half = "@%p2 bar.warp.sync 0xffff;";
    check_found("half", &[Race], &whole.replace("bar.warp.sync -1;", half), 32);
    check_found("half, and one reads again", &[Race], &body(half), 32);
    check_found("whole, and one reads again", &[Race], &body("bar.warp.sync -1;"), 32);
}

/// Lanes of warp 0 write, some of them synchronise, and lane 0 releases a flag or arrives at an mbarrier for them.
#[test]
fn what_a_half_releases() {
    let body = |sync: &str, reads: u32| {
        format!(
            "mov.u32 %r0, 0;
             mov.u32 %r1, ring;
             setp.eq.u32 %p0, %t, 0;
             @%p0 st.shared.u32 [scratch], 0;
             @%p0 mbarrier.init.shared::cta.b64 [full], 1;
             bar.sync 0;
             mad.lo.u32 %r2, %t, 4, %r1;
             setp.ge.u32 %p1, %t, 32;
             @%p1 bra WAIT;
             st.shared.u32 [%r2], %t;
             setp.lt.u32 %p2, %t, 16;
             {sync}
             @%p0 st.release.cta.shared.u32 [scratch], 1; // signal
             bra END;
             WAIT: ld.acquire.cta.shared.u32 %r3, [scratch]; // wait
             setp.eq.u32 %p3, %r3, 0;
             @%p3 bra WAIT;
             and.b32 %r4, %t, {reads};
             mad.lo.u32 %r4, %r4, 4, %r1;
             ld.shared.u32 %r0, [%r4];
             END: {STORE}"
        )
    };
    let by_mbarrier = |body: &str| {
        let body = mutate(
            body,
            "@%p0 st.release.cta.shared.u32 [scratch], 1; // signal",
            "@%p0 mbarrier.arrive.shared::cta.b64 _, [full];",
        );
        let body = mutate(
            &body,
            "ld.acquire.cta.shared.u32 %r3, [scratch]; // wait",
            "mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;",
        );
        mutate(&body, "setp.eq.u32 %p3, %r3, 0;\n             @%p3 bra WAIT;", "@!%p3 bra WAIT;")
    };
    let by_fence = |body: &str| mutate(body, "@%p0 st.release.cta", "@%p0 fence.acq_rel.cta;\n@%p0 st.relaxed.cta");
    let same = |body: &str| body.to_owned();
    let want = |reads: u32| (0..64).map(|t| if t < 32 { 0 } else { t & reads }).collect::<Vec<u32>>();
    type Signal<'a> = (&'a str, &'a dyn Fn(&str) -> String);
    let signals: [Signal; 3] = [("release", &same), ("fence", &by_fence), ("mbarrier", &by_mbarrier)];
    for (name, signal) in signals {
        let half = "@%p2 bar.warp.sync 0xffff;";
        check(&format!("{name}, whole"), &signal(&body("bar.warp.sync -1;", 31)), 64, &want(31));
        check(&format!("{name}, half"), &signal(&body(half, 15)), 64, &want(15));
        check_found(&format!("{name}, across"), &[Race], &signal(&body(half, 31)), 64);
        check_found(&format!("{name}, nothing"), &[Race], &signal(&body("", 15)), 64);
    }
}
