//! Synchronisation by single threads: elected lanes that arrive and wait for their warp, waits that test only once,
//! counts that are off by one, readers beyond the second, and the operands of copies.

use ptx_gemm_interp::ViolationKind::{self, BarrierMisuse, Deadlock, InvalidOperand, Race, Uninitialised};

use crate::mbarrier::{free_running, two_warps};
use crate::ring::{STAGE, STORE, check, check_broken, check_found, mutate, prologue};

/// Warp 0 fills the ring, warp 1 empties it, eleven times; lane 0 of each waits and arrives for its warp.
fn elected() -> String {
    format!(
        "{}mov.u32 %r4, 0;
         and.b32 %r13, %t, 31;
         setp.ne.u32 %p5, %r13, 0;
         setp.ge.u32 %p1, %t, 32;
         @%p1 bra CONSUMER;
         PRODUCER: {STAGE}
         @%p5 bra ROOM;
         WAIT_EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r9;
         @!%p2 bra WAIT_EMPTY;
         ROOM: bar.warp.sync -1; // room
         mad.lo.u32 %r11, %r4, 100, %t;
         mad.lo.u32 %r12, %t, 4, %r5;
         st.shared.u32 [%r12], %r11;
         bar.warp.sync -1; // filled
         @!%p5 mbarrier.arrive.shared::cta.b64 _, [%r6];
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra PRODUCER;
         bra END;
         CONSUMER: {STAGE}
         @%p5 bra DATA;
         WAIT_FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], %r8;
         @!%p2 bra WAIT_FULL;
         DATA: bar.warp.sync -1; // data
         sub.u32 %r12, 63, %t;
         mad.lo.u32 %r12, %r12, 4, %r5;
         ld.shared.u32 %r11, [%r12];
         add.u32 %r0, %r0, %r11;
         bar.warp.sync -1; // emptied
         @!%p5 mbarrier.arrive.shared::cta.b64 _, [%r7];
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra CONSUMER;
         END: {STORE}",
        prologue(1)
    )
}

#[test]
fn elected_lanes_act_for_their_warp() {
    let sums = |t: u32| if t < 32 { 0 } else { (0..11).map(|step| 100 * step + 63 - t).sum() };
    check("elected", &elected(), 64, &(0..64).map(sums).collect::<Vec<u32>>());
    for line in ["room", "filled", "data", "emptied"] {
        let without = mutate(&elected(), &format!("bar.warp.sync -1; // {line}"), "");
        check_found(&format!("lanes have not met: {line}"), &[Race], &without, 64);
    }
}

#[test]
fn a_wait_that_looks_once_is_found() {
    let found = |name: &str, ring: &str, line: &str| {
        check_found(name, &[Race, Uninitialised, Deadlock], &mutate(ring, line, ""), 64);
    };
    found("two warps, room", &two_warps(), "@!%p2 bra WAIT_EMPTY;");
    found("two warps, data", &two_warps(), "bra WAIT_FULL;");
    found("free running, room", &free_running(), "@!%p2 bra WAIT_EMPTY;");
    found("free running, data", &free_running(), "@!%p2 bra WAIT_FULL;");
    found("elected, room", &elected(), "@!%p2 bra WAIT_EMPTY;");
    found("elected, data", &elected(), "@!%p2 bra WAIT_FULL;");
}

#[test]
fn counts_that_are_one_off_are_found() {
    let rings = [("two warps", two_warps(), 32), ("free running", free_running(), 64)];
    for (name, ring, count) in rings {
        for barrier in ["full", "empty"] {
            for stage in [0, 8, 16] {
                let init = format!("[{barrier}+{stage}], {count};");
                for (wrong, kinds) in [(count - 1, &[Race, BarrierMisuse][..]), (count + 1, &[Deadlock][..])] {
                    let body = mutate(&ring, &init, &format!("[{barrier}+{stage}], {wrong};"));
                    check_found(&format!("{name}: {init} {wrong}"), kinds, &body, 64);
                }
            }
        }
    }
    // Eight lanes arrive for their warps, and a ninth warp waits. Without a wait for its arrival, a reader may read
    // overwritten data.
    let body = |count: u32| {
        format!(
            "{}mov.u32 %r5, ring;
             mad.lo.u32 %r12, %t, 4, %r5;
             ld.shared.u32 %r0, [scratch];
             setp.ge.u32 %p6, %t, 256;
             @%p6 bra WAIT;
             and.b32 %r13, %t, 31;
             setp.eq.u32 %p5, %r13, 0;
             bar.warp.sync -1;
             @%p5 mbarrier.arrive.shared::cta.b64 _, [full];
             bra END;
             WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
             @!%p2 bra WAIT;
             setp.eq.u32 %p6, %t, 256;
             bar.warp.sync -1;
             @%p6 st.shared.u32 [scratch], 7;
             END: {STORE}",
            prologue(1)
                .replace("[full+0], 1;", &format!("[full], {count};"))
                .replace("bar.sync 0; // init", "@%p0 st.shared.u32 [scratch], 5;\nbar.sync 0;")
        )
    };
    check("eight of eight", &body(8), 288, &[5; 288]);
    check_found("seven of eight", &[Race], &body(7), 288);
    check_found("nine of eight", &[Deadlock], &body(9), 288);
}

#[test]
fn every_reader_counts() {
    // Three warps read; the barrier before the write only includes the first two and the writer.
    let body = |meeting: &str| {
        format!(
            "mov.u32 %r0, 3;
             setp.eq.u32 %p0, %t, 0;
             @%p0 st.shared.u32 [scratch], 5;
             bar.sync 0;
             setp.ge.u32 %p1, %t, 96;
             @%p1 bra MEET;
             ld.shared.u32 %r0, [scratch];
             setp.ge.u32 %p2, %t, 64;
             @%p2 bra THIRD;
             MEET: {meeting}
             @!%p1 bra END;
             setp.eq.u32 %p3, %t, 96;
             @%p3 st.shared.u32 [scratch], 6;
             bra END;
             THIRD: bar.arrive 2, 64;
             END: {STORE}"
        )
    };
    let meet_all = "bar.sync 1, 96;\n@%p1 bar.sync 2, 64;";
    check("all readers", &body(meet_all), 128, &(0..128).map(|t| if t < 96 { 5 } else { 3 }).collect::<Vec<u32>>());
    let meet_two = "bar.sync 1, 96;";
    check_found("the third reader", &[Race, Deadlock], &body(meet_two), 128);
    check_broken("race_with_the_third_reader", &[Race], &body(meet_two).replace("bar.arrive 2, 64;", ""), 128);
}

#[test]
fn copies_read_at_most_what_they_copy() {
    let copy = |setup: &str, size: &str| {
        format!("mov.u32 %r1, ring;\n{setup}\ncp.async.ca.shared.global [%r1], [%in], 8, {size};\ncp.async.wait_all;")
    };
    let broken: [(&str, &[ViolationKind], String); 3] = [
        ("copy_source_too_large", &[InvalidOperand], copy("mov.u32 %r2, 12;", "%r2")),
        ("copy_source_undefined", &[Uninitialised], copy("", "%r2")),
        ("copy_ignore_undefined", &[Uninitialised], copy("", "%p4")),
    ];
    for (name, kinds, body) in broken {
        check_broken(name, kinds, &body, 1);
    }
    // A predicate that ignores the source, which may then be anywhere.
    let ignored = format!(
        "mov.u32 %r1, ring;
         setp.eq.u32 %p4, %t, %t;
         mov.u64 %rd1, 64;
         cp.async.ca.shared.global [%r1], [%rd1], 8, %p4;
         setp.ne.u32 %p4, %t, %t;
         cp.async.ca.shared.global [%r1+8], [%in], 8, %p4;
         cp.async.wait_all;
         ld.shared.u32 %r0, [%r1+4];
         ld.shared.u32 %r2, [%r1+12];
         mad.lo.u32 %r0, %r0, 100, %r2;
         {STORE}"
    );
    check("ignored source", &ignored, 1, &[2]);
}

#[test]
fn flags_in_shared_memory_need_more_than_relaxed_accesses() {
    let body = |store: &str, load: &str, fence: &str| {
        format!(
            "mov.u32 %r0, 1;
             setp.eq.u32 %p0, %t, 0;
             @%p0 st.shared.u32 [scratch], 0;
             bar.sync 0;
             setp.ge.u32 %p1, %t, 32;
             @%p1 bra WAIT;
             @%p0 st.shared.u32 [ring], 9;
             @%p0 {store}.shared.u32 [scratch], 1;
             bra END;
             WAIT: {load}.shared.u32 %r2, [scratch];
             setp.eq.u32 %p2, %r2, 0;
             @%p2 bra WAIT;
             {fence}
             ld.shared.u32 %r0, [ring];
             END: {STORE}"
        )
    };
    let want: Vec<u32> = (0..64).map(|t| if t < 32 { 1 } else { 9 }).collect();
    check("acquire", &body("st.release.cta", "ld.acquire.cta", ""), 64, &want);
    let fenced = body("fence.acq_rel.cta;\n@%p0 st.relaxed.cta", "ld.relaxed.cta", "membar.cta;");
    check("fences", &fenced, 64, &want);
    check_found("relaxed store", &[Race], &body("st.relaxed.cta", "ld.acquire.cta", ""), 64);
    check_found("relaxed load", &[Race], &body("st.release.cta", "ld.relaxed.cta", ""), 64);
    check_found("volatile", &[Race], &body("st.volatile", "ld.volatile", ""), 64);
    check_found("plain load", &[Race], &body("st.release.cta", "ld", ""), 64);
    check_found("misplaced fence", &[Race], &body("st.release.cta", "membar.cta;\nld.relaxed.cta", ""), 64);
}

#[test]
fn waits_that_never_end() {
    // A wait that counts its rounds has different registers each time.
    let counting = |wait: &str| {
        format!(
            "{}mov.u32 %r4, 0;
             WAIT: {wait}
             add.u32 %r4, %r4, 1;
             @!%p2 bra WAIT;",
            prologue(33)
        )
    };
    let mbarrier = "mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;";
    check_broken("livelock_counting_at_an_mbarrier", &[Deadlock], &counting(mbarrier), 64);
    let flag = "ld.acquire.gpu.global.u32 %r5, [%in+8];\nsetp.eq.u32 %p2, %r5, 77;";
    check_broken("livelock_counting_at_a_flag", &[Deadlock], &counting(flag), 64);
    let shared = "ld.volatile.shared.u32 %r5, [scratch];\nsetp.eq.u32 %p2, %r5, 77;";
    let init = "@%p0 st.volatile.shared.u32 [scratch], 5;\nbar.sync 0;\nmov.u32 %r4, 0;";
    let body = mutate(&counting(shared), "mov.u32 %r4, 0;", init);
    check_broken("livelock_counting_at_a_word", &[Deadlock], &body, 64);
    // One warp polls, another has exited, and the rest of the block waits at a barrier.
    let others = format!(
        "{}\nbar.sync 0;",
        counting(flag).replace("WAIT: ", "setp.ge.u32 %p3, %t, 32;\n@%p3 bra MEET;\nWAIT: ")
    );
    check_found("livelock before a barrier", &[Deadlock], &format!("{others}\nMEET: bar.sync 0;"), 64);
}
