//! Barriers for a part of the block: `bar.sync` and `bar.arrive` with a number and a count. Each kernel runs under
//! every order of warps, and again with each of its synchronisations missing or weakened.

use ptx_gemm_interp::Checks;
use ptx_gemm_interp::ViolationKind::{self, BarrierMismatch, BarrierMisuse, Deadlock, Race, Uninitialised};

use crate::ring::{PASS, STAGE, STORE, check, check_broken, check_found, everywhere, mutate, prologue, run};

type Mutant = (&'static str, &'static [ViolationKind], &'static str, &'static str);

/// Replaces one line at a time; every mutant must be found.
fn check_mutants(kernel: &str, body: &str, mutants: &[Mutant]) {
    for (name, kinds, from, to) in mutants {
        check_found(&format!("{kernel}: {name}"), kinds, &mutate(body, from, to), 96);
    }
}

/// The values of `%r0` of all threads; the producer's threads have 0.
fn sums(of: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..96).map(|t| if t < 32 { 0 } else { of(t - 32) }).collect()
}

/// Warp 0 fills three stages with `cp.async`, eleven times; mbarriers signal when one is full and when it is empty. Two
/// warps read words that the producer copied, exchange them through `scratch`, and synchronise at barrier 1 before and
/// after. Because of the first synchronisation, a single thread may signal that the stage is empty.
fn copies_and_mbarriers() -> String {
    // All lanes let their copies arrive at `full`; one thread arrives at `empty`.
    let one =
        |text: String, stage: u32| text.replace(&format!("[empty+{stage}], 32;"), &format!("[empty+{stage}], 1;"));
    let prologue = [0, 8, 16].into_iter().fold(prologue(32), one);
    format!(
        "{prologue}mov.u32 %r4, 0;
         setp.ge.u32 %p1, %t, 32;
         @%p1 bra CONSUMER;
         PRODUCER: {STAGE}
         WAIT_EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r9;
         @!%p2 bra WAIT_EMPTY;
         mad.lo.u32 %r11, %r4, 64, %t;
         add.u32 %r11, %r11, %t;
         mul.wide.u32 %rd1, %r11, 4;
         add.u64 %rd1, %in, %rd1;
         mad.lo.u32 %r12, %t, 8, %r5;
         cp.async.ca.shared.global [%r12], [%rd1], 8;
         cp.async.mbarrier.arrive.noinc.shared.b64 [%r6];
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra PRODUCER;
         bra END;
         CONSUMER: sub.u32 %r13, %t, 32;
         mov.u32 %r16, scratch;
         mad.lo.u32 %r15, %r13, 4, %r16;
         STEP: {STAGE}
         WAIT_FULL: mbarrier.try_wait.parity.shared.b64 %p2, [%r6], %r8;
         @!%p2 bra WAIT_FULL;
         mad.lo.u32 %r12, %r13, 4, %r5;
         ld.shared.u32 %r11, [%r12];
         st.shared.u32 [%r15], %r11;
         bar.sync 1, 64; // exchanged
         setp.eq.u32 %p4, %r13, 0;
         @%p4 mbarrier.arrive.shared::cta.b64 _, [%r7];
         sub.u32 %r12, 63, %r13;
         mad.lo.u32 %r12, %r12, 4, %r16;
         ld.shared.u32 %r11, [%r12];
         add.u32 %r0, %r0, %r11;
         bar.sync 1, 64; // read
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra STEP;
         END: {STORE}"
    )
}

#[test]
fn copies_fill_what_a_part_of_the_block_reads() {
    let body = copies_and_mbarriers();
    let want = sums(|u| (0..11).map(|step| 64 * step + 63 - u + 1).sum());
    check("copies and mbarriers", &body, 96, &want);
    // The same with the other spelling, which does not require a warp to arrive converged.
    check("barrier.sync", &body.replace("bar.sync 1", "barrier.sync 1"), 96, &want);
    check("barrier.cta.sync", &body.replace("bar.sync 1", "barrier.cta.sync.aligned 1"), 96, &want);
    // Two alternating barriers work as well as one.
    check("two barriers", &mutate(&body, "bar.sync 1, 64; // read", "bar.sync 2, 64;"), 96, &want);
}

#[test]
fn every_synchronisation_of_copies_matters() {
    let (exchanged, read) = ("bar.sync 1, 64; // exchanged", "bar.sync 1, 64; // read");
    let wait_full = "mbarrier.try_wait.parity.shared.b64 %p2, [%r6], %r8;";
    let wait_empty = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r9;";
    let track = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r6];";
    let release = "@%p4 mbarrier.arrive.shared::cta.b64 _, [%r7];";
    let mutants: [Mutant; 25] = [
        ("no_meeting_before", &[Race, Uninitialised], exchanged, ""),
        ("no_meeting_after", &[Race], read, ""),
        ("own_warp_before", &[Race, Uninitialised], exchanged, "bar.sync 1, 32;"),
        ("own_warp_after", &[Race], read, "bar.sync 1, 32;"),
        ("lanes_only_before", &[Race, Uninitialised], exchanged, "bar.warp.sync -1;"),
        ("lanes_only_after", &[Race], read, "bar.warp.sync -1;"),
        ("arrival_before", &[Race, Uninitialised], exchanged, "bar.arrive 1, 64;"),
        ("arrival_after", &[Race], read, "bar.arrive 1, 64;"),
        ("count_too_large", &[Deadlock], exchanged, "bar.sync 1, 96;"),
        ("count_of_no_warps", &[BarrierMismatch], exchanged, "bar.sync 1, 48;"),
        ("count_of_the_block", &[Deadlock], exchanged, "bar.sync 0;"),
        ("barriers_apart", &[Deadlock], exchanged, "shr.u32 %r14, %t, 5;\nbar.sync %r14, 64;"),
        ("no_wait_for_data", &[Race, Uninitialised], wait_full, PASS),
        (
            "wrong_parity_of_data",
            &[Race, Uninitialised, Deadlock],
            wait_full,
            "mbarrier.try_wait.parity.shared.b64 %p2, [%r6], %r9;",
        ),
        (
            "relaxed_wait_for_data",
            &[Race],
            wait_full,
            "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p2, [%r6], %r8;",
        ),
        ("no_wait_for_room", &[Race], wait_empty, PASS),
        (
            "relaxed_wait_for_room",
            &[Race],
            wait_empty,
            "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p2, [%r7], %r9;",
        ),
        ("wrong_parity_of_room", &[Deadlock], wait_empty, "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r8;"),
        ("no_arrival_of_copies", &[Deadlock], track, ""),
        ("plain_arrival_of_copies", &[Race, Uninitialised], track, "mbarrier.arrive.shared::cta.b64 _, [%r6];"),
        ("arrival_of_copies_added", &[Deadlock], track, "cp.async.mbarrier.arrive.shared.b64 [%r6];"),
        ("no_arrival_of_room", &[Deadlock], release, ""),
        ("relaxed_arrival_of_room", &[Race], release, "@%p4 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r7];"),
        ("count_of_data_too_small", &[Race, Uninitialised], "[full+8], 32;", "[full+8], 31;"),
        ("no_initial_barrier", &[Race, BarrierMisuse], "bar.sync 0; // init", ""),
    ];
    check_mutants("copies", &copies_and_mbarriers(), &mutants);
    // The stage is released before the other warp has read it.
    let early = mutate(&copies_and_mbarriers(), release, "");
    let early = mutate(&early, exchanged, &format!("setp.eq.u32 %p4, %r13, 0;\n{release}\n{exchanged}"));
    check_found("copies: arrival of room too early", &[Race], &early, 96);
}

/// The same without mbarriers. Each of two stages has two barriers: 1 or 2 for being full, and 3 or 4 for being empty.
/// The producer stores two words per lane, and arrives at the barriers that consumers wait at; they arrive at those that
/// it waits at.
fn barriers_alone() -> String {
    format!(
        "mov.u32 %r0, 0;
         mov.u32 %r1, ring;
         mov.u32 %r4, 0;
         setp.ge.u32 %p1, %t, 32;
         @%p1 bra CONSUMER;
         PRODUCER: and.b32 %r5, %r4, 1;
         add.u32 %r6, %r5, 1;
         add.u32 %r7, %r5, 3;
         bar.sync %r7, 96; // room
         mad.lo.u32 %r8, %r5, 256, %r1;
         mad.lo.u32 %r8, %t, 4, %r8;
         mad.lo.u32 %r9, %r4, 100, %t;
         st.shared.u32 [%r8], %r9;
         add.u32 %r9, %r9, 32;
         st.shared.u32 [%r8+128], %r9;
         bar.arrive %r6, 96; // filled
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra PRODUCER;
         bra END;
         CONSUMER: sub.u32 %r13, %t, 32;
         bar.arrive 3, 96; // first
         bar.arrive 4, 96; // second
         STEP: and.b32 %r5, %r4, 1;
         add.u32 %r6, %r5, 1;
         add.u32 %r7, %r5, 3;
         bar.sync %r6, 96; // data
         mad.lo.u32 %r8, %r5, 256, %r1;
         mad.lo.u32 %r8, %r13, 4, %r8;
         ld.shared.u32 %r9, [%r8];
         add.u32 %r0, %r0, %r9;
         setp.lt.u32 %p2, %r4, 9;
         @!%p2 bra NEXT;
         bar.arrive %r7, 96; // emptied
         NEXT: add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra STEP;
         END: {STORE}"
    )
}

#[test]
fn arrivals_let_a_producer_run_ahead() {
    let want = sums(|u| (0..11).map(|step| 100 * step + u).sum());
    check("barriers alone", &barriers_alone(), 96, &want);
    let unaligned = barriers_alone().replace("bar.sync", "barrier.sync").replace("bar.arrive", "barrier.arrive");
    check("barriers alone, unaligned", &unaligned, 96, &want);
    // A producer that also waits is slower, but correct.
    let slow = mutate(&barriers_alone(), "bar.arrive %r6, 96; // filled", "bar.sync %r6, 96;");
    check("a producer that waits", &slow, 96, &want);
}

#[test]
fn every_arrival_matters() {
    let mutants: [Mutant; 14] = [
        ("no_wait_for_room", &[Race, BarrierMismatch], "bar.sync %r7, 96; // room", ""),
        ("arrival_for_room", &[Race], "bar.sync %r7, 96; // room", "bar.arrive %r7, 96;"),
        ("fewer_for_room", &[BarrierMismatch], "bar.sync %r7, 96; // room", "bar.sync %r7, 64;"),
        ("wrong_barrier_for_room", &[Race, Deadlock], "bar.sync %r7, 96; // room", "bar.sync %r6, 96;"),
        ("not_filled", &[Deadlock], "bar.arrive %r6, 96; // filled", ""),
        ("fewer_filled", &[BarrierMismatch], "bar.arrive %r6, 96; // filled", "bar.arrive %r6, 64;"),
        ("no_wait_for_data", &[Race, Uninitialised], "bar.sync %r6, 96; // data", ""),
        ("arrival_for_data", &[Race, Uninitialised], "bar.sync %r6, 96; // data", "bar.arrive %r6, 96;"),
        (
            "wrong_barrier_for_data",
            &[Race, Uninitialised, Deadlock, BarrierMismatch],
            "bar.sync %r6, 96; // data",
            "bar.sync %r7, 96;",
        ),
        ("whole_block_for_data", &[Deadlock], "bar.sync %r6, 96; // data", "bar.sync 0;"),
        ("not_emptied", &[Deadlock], "bar.arrive %r7, 96; // emptied", ""),
        ("fewer_emptied", &[BarrierMismatch, Deadlock], "bar.arrive %r7, 96; // emptied", "bar.arrive %r7, 64;"),
        ("first_room_missing", &[Deadlock], "bar.arrive 3, 96; // first", ""),
        ("second_room_missing", &[Deadlock], "bar.arrive 4, 96; // second", ""),
    ];
    check_mutants("barriers", &barriers_alone(), &mutants);
    // The data are signalled before they are stored.
    let filled = "bar.arrive %r6, 96; // filled";
    let early = mutate(&barriers_alone(), filled, "");
    let early = mutate(&early, "st.shared.u32 [%r8], %r9;", &format!("{filled}\nst.shared.u32 [%r8], %r9;"));
    check_found("barriers: filled too early", &[Race, Uninitialised], &early, 96);
    // The stage is released before it is read.
    let (load, emptied) = ("ld.shared.u32 %r9, [%r8];", "bar.arrive %r7, 96; // emptied");
    let early = mutate(&barriers_alone(), emptied, "");
    let early = mutate(&early, load, &format!("setp.lt.u32 %p2, %r4, 9;\n@%p2 {emptied}\n{load}"));
    check_found("barriers: emptied too early", &[Race], &early, 96);
}

#[test]
fn an_arrival_orders_nothing_for_the_warp_that_arrives() {
    let body = format!(
        "mov.u32 %r1, scratch;
         mad.lo.u32 %r2, %t, 4, %r1;
         sub.u32 %r3, 31, %t;
         mad.lo.u32 %r3, %r3, 4, %r1;
         mov.u32 %r0, 0;
         setp.ge.u32 %p1, %t, 32;
         @%p1 bra WAIT;
         st.shared.u32 [%r2], %t;
         bar.arrive 1, 64;
         bar.warp.sync -1; // lanes
         ld.shared.u32 %r0, [%r3];
         bra END;
         WAIT: bar.sync 1, 64;
         END: {STORE}"
    );
    let want: Vec<u32> = (0..64).map(|t| if t < 32 { 31 - t } else { 0 }).collect();
    check("arrival", &body, 64, &want);
    check_found("arrival: lanes have not met", &[Race], &mutate(&body, "bar.warp.sync -1; // lanes", ""), 64);
}

#[test]
fn who_waits_for_whom_is_reported() {
    // Every warp waits or has exited; the report has the barrier's counts.
    let body = "setp.ge.u32 %p0, %t, 64;
        @%p0 bra END;
        bar.sync 3, 96;
        END:";
    check_broken("named_too_few", &[Deadlock], body, 96);
    let apart = "shr.u32 %r0, %t, 5;
        add.u32 %r0, %r0, 5;
        bar.sync %r0, 64;";
    check_broken("named_apart", &[Deadlock], apart, 96);
    // Some warps poll, some wait.
    let mixed = format!(
        "{}setp.ge.u32 %p1, %t, 32;
         @%p1 bra WAIT;
         bar.sync 7, 64;
         WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;
         @!%p2 bra WAIT;",
        prologue(32)
    );
    check_broken("named_and_mbarrier", &[Deadlock], &mixed, 96);
}

#[test]
fn operands_of_barriers() {
    let kinds = &[BarrierMismatch];
    check_broken("named_lanes_that_differ", kinds, "and.b32 %r0, %t, 1;\nbar.sync %r0, 96;", 96);
    check_broken("named_arrivals_that_differ", kinds, "and.b32 %r0, %t, 1;\nbar.arrive %r0, 96;", 96);
    check_broken("named_number_undefined", &[Uninitialised], "bar.sync %r0, 96;", 96);
    check_broken("named_count_undefined", &[Uninitialised], "bar.arrive 1, %r0;", 96);
    check_broken("named_count_too_large", kinds, "bar.sync 1, 128;", 96);
    check_broken("named_count_0", kinds, "mov.u32 %r0, 0;\nbar.sync 1, %r0;", 96);
}

/// Barriers that also count predicates, of the block and of a part of it; every thread has the result.
#[test]
fn barriers_that_reduce() {
    let body = format!(
        "setp.lt.u32 %p0, %t, 50;
         bar.red.popc.u32 %r1, 0, %p0; // count
         barrier.cta.red.and.aligned.pred %p1, 1, 96, %p0;
         bar.red.or.pred %p2, 2, 96, !%p0;
         selp.u32 %r2, 100, 0, %p1;
         selp.u32 %r3, 1000, 0, %p2;
         mov.u32 %r4, scratch;
         st.shared.u32 [%r4], %r1;
         add.u32 %r0, %r1, %r2;
         add.u32 %r0, %r0, %r3;
         {STORE}"
    )
    .replace("st.shared.u32 [%r4], %r1;\n", "");
    check("a reduction", &body, 96, &[1050; 96]);
    // The barrier of the reduction orders like any other.
    let ordered = format!(
        "mov.u32 %r4, scratch;
         mad.lo.u32 %r5, %t, 4, %r4;
         @!%p7 mov.u32 %r0, 0;
         st.shared.u32 [%r5], %t;
         setp.eq.u32 %p0, %t, %t;
         bar.red.popc.u32 %r1, 0, %p0; // count
         xor.b32 %r6, %t, 32;
         mad.lo.u32 %r6, %r6, 4, %r4;
         ld.shared.u32 %r0, [%r6];
         {STORE}"
    )
    .replace("@!%p7 mov.u32 %r0, 0;\n", "");
    check("ordered", &ordered, 64, &(0..64).map(|t| t ^ 32).collect::<Vec<u32>>());
    check_found(
        "unordered",
        &[Race, Uninitialised],
        &mutate(&ordered, "bar.red.popc.u32 %r1, 0, %p0; // count", ""),
        64,
    );
    check_found(
        "one warp",
        &[BarrierMismatch, Deadlock],
        &mutate(&body, "bar.red.popc.u32 %r1, 0,", "setp.lt.u32 %p6, %t, 32;\n@%p6 bar.red.popc.u32 %r1, 0,"),
        96,
    );
    check_found(
        "undefined",
        &[Uninitialised],
        &mutate(
            &body,
            "bar.red.or.pred %p2, 2, 96, !%p0;",
            "bar.red.or.pred %p2, 2, 96, !%p7;\n@%p2 st.global.u32 [%out], %t;",
        ),
        96,
    );
}

/// A warp polls for space that the others would free if they did not wait at different barriers. The report is about
/// the barriers, which no other thread can complete, and not about the poll.
#[test]
fn a_deadlock_at_barriers_is_reported_there() {
    let body = format!(
        "{}setp.ge.u32 %p1, %t, 64;
         @%p1 bra POLL;
         shr.u32 %r4, %t, 5;
         add.u32 %r4, %r4, 1;
         bar.sync %r4, 64; // apart
         setp.eq.u32 %p2, %t, 0;
         @%p2 mbarrier.arrive.shared::cta.b64 _, [empty];
         bra END;
         POLL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], 0;
         @!%p2 bra POLL;
         END: {STORE}",
        prologue(1)
    );
    let together = body.replace("add.u32 %r4, %r4, 1;", "mov.u32 %r4, 1;");
    check("together", &together, 96, &[0; 96]);
    // Of two mbarriers that no thread completes, the one that lacks an arrival is the cause.
    let few = mutate(
        &together.replace("[empty+0], 1;", "[empty+0], 2;"),
        "bra END;\n",
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;\n@!%p2 bra WAIT;\nbra END;\n",
    );
    for (kernel, instruction) in [(&body, "bar.sync %r4, 64; // apart"), (&few, "POLL:")] {
        everywhere(&[Checks::Full], |options| {
            let violation = run(kernel, 96, options).expect_err("a deadlock");
            assert_eq!(violation.kind, Deadlock, "{violation}");
            assert!(
                instruction.starts_with(violation.site.instruction.split(' ').next().unwrap_or("?")),
                "{violation}"
            );
        });
    }
}
