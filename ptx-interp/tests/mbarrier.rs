//! mbarriers: rings guarded by them, under every order of warps, and the effect of leaving out a part of one.

use ptx_gemm_interp::ViolationKind::{self, BarrierMisuse, Deadlock, Misaligned, Race, Uninitialised};

use crate::ring::{PASS, STAGE, STORE, check, check_broken, check_found, mutate, prologue};

fn broken(name: &str, kinds: &[ViolationKind], body: &str, block: u32) {
    check_broken(&format!("mbarrier_{name}"), kinds, body, block);
}

/// Warp 0 fills the ring, warp 1 empties it, eleven times.
pub fn two_warps() -> String {
    format!(
        "{}mov.u32 %r4, 0;
         setp.ge.u32 %p1, %t, 32;
         @%p1 bra CONSUMER;
         PRODUCER: {STAGE}
         WAIT_EMPTY: mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r7], %r9;
         @!%p2 bra WAIT_EMPTY;
         mad.lo.u32 %r11, %r4, 100, %t;
         mad.lo.u32 %r12, %t, 4, %r5;
         st.shared.u32 [%r12], %r11;
         mbarrier.arrive.shared::cta.b64 _, [%r6];
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra PRODUCER;
         bra END;
         CONSUMER: {STAGE}
         WAIT_FULL: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r6], %r8;
         @%p2 bra FULL;
         bra WAIT_FULL;
         FULL: sub.u32 %r12, 63, %t;
         mad.lo.u32 %r12, %r12, 4, %r5;
         ld.shared.u32 %r11, [%r12];
         add.u32 %r0, %r0, %r11;
         mbarrier.arrive.release.cta.shared::cta.b64 %rd1, [%r7];
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p3, %r4, 11;
         @%p3 bra CONSUMER;
         END: {STORE}",
        prologue(32)
    )
}

/// In every step, each thread copies into the stage of two steps ahead and reads what its opposite thread copied.
pub fn free_running() -> String {
    let copy = "mad.lo.u32 %r11, %r4, 64, %t;
        mul.wide.u32 %rd1, %r11, 4;
        add.u64 %rd1, %in, %rd1;
        mad.lo.u32 %r12, %t, 4, %r5;
        cp.async.ca.shared.global [%r12], [%rd1], 4;
        cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r6];";
    let early: String = (0..2).map(|step| format!("mov.u32 %r4, {step};\n{STAGE}{copy} // early {step}\n")).collect();
    format!(
        "{}{early}mov.u32 %r13, 0;
         STEP: add.u32 %r4, %r13, 2;
         setp.ge.u32 %p1, %r4, 11;
         @%p1 bra READ;
         {STAGE}
         WAIT_EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r9;
         @!%p2 bra WAIT_EMPTY;
         {copy} // ahead
         READ: mov.u32 %r4, %r13;
         {STAGE}
         WAIT_FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], %r8, 100;
         @!%p2 bra WAIT_FULL;
         sub.u32 %r12, 63, %t;
         mad.lo.u32 %r12, %r12, 4, %r5;
         ld.shared.u32 %r11, [%r12];
         add.u32 %r0, %r0, %r11;
         mbarrier.arrive.shared::cta.b64 _, [%r7];
         add.u32 %r13, %r13, 1;
         setp.lt.u32 %p3, %r13, 11;
         @%p3 bra STEP;
         {STORE}",
        prologue(64)
    )
}

#[test]
fn rings() {
    let sums = |t: u32| if t < 32 { 0 } else { (0..11).map(|step| 100 * step + 63 - t).sum() };
    check("two warps", &two_warps(), 64, &(0..64).map(sums).collect::<Vec<u32>>());
    let sums = |t: u32| (0..11).map(|step| 64 * step + 63 - t + 1).sum();
    check("free running", &free_running(), 64, &(0..64).map(sums).collect::<Vec<u32>>());
    // Arrivals that add to the count: the threads have to arrive as well.
    let arrive = "cp.async.mbarrier.arrive.shared::cta.b64 [%r6];\nmbarrier.arrive.shared::cta.b64 _, [%r6];";
    let added = free_running().replace("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r6];", arrive);
    check("arrivals added", &added, 64, &(0..64).map(sums).collect::<Vec<u32>>());
    // An mbarrier still counts copies that were also waited for by group.
    let drained = mutate(&free_running(), "// ahead", "\ncp.async.wait_all;");
    check("drained", &drained, 64, &(0..64).map(sums).collect::<Vec<u32>>());
}

#[test]
fn broken_rings_of_two_warps() {
    let ring = two_warps();
    let cases: [(&str, &[ViolationKind], &str, &str); 6] = [
        (
            "ring_without_wait_for_room",
            &[Race, Deadlock],
            "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r7], %r9;",
            PASS,
        ),
        (
            "ring_without_wait_for_data",
            &[Race, Uninitialised],
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r6], %r8;",
            PASS,
        ),
        ("ring_without_arrival_of_data", &[Deadlock], "mbarrier.arrive.shared::cta.b64 _, [%r6];", ""),
        ("ring_without_arrival_of_room", &[Deadlock], "mbarrier.arrive.release.cta.shared::cta.b64 %rd1, [%r7];", ""),
        ("ring_with_relaxed_wait", &[Race], "try_wait.parity.acquire", "try_wait.parity.relaxed"),
        ("ring_with_relaxed_arrival", &[Race], "mbarrier.arrive.release", "mbarrier.arrive.relaxed"),
    ];
    for (name, kinds, from, to) in cases {
        broken(name, kinds, &mutate(&ring, from, to), 64);
    }
}

#[test]
fn broken_rings_that_run_freely() {
    let ring = free_running();
    let track = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r6]; // ahead";
    let cases: [(&str, &[ViolationKind], &str, &str); 10] = [
        ("free_ring_without_wait_for_room", &[Race], "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r9;", PASS),
        (
            "free_ring_without_wait_for_data",
            &[Race],
            "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], %r8, 100;",
            PASS,
        ),
        ("free_ring_without_arrival_of_data", &[Deadlock], track, ""),
        ("free_ring_without_arrival_of_room", &[Deadlock], "mbarrier.arrive.shared::cta.b64 _, [%r7];", ""),
        ("free_ring_with_counts_added", &[Deadlock], track, "cp.async.mbarrier.arrive.shared::cta.b64 [%r6];"),
        ("free_ring_with_wrong_parity_of_data", &[Race, Deadlock], "[%r6], %r8, 100;", "[%r6], %r9, 100;"),
        ("free_ring_with_wrong_parity_of_room", &[Deadlock], "[%r7], %r9;", "[%r7], %r8;"),
        ("free_ring_with_count_too_small", &[Race], "[full+0], 64;", "[full+0], 63;"),
        ("free_ring_with_count_too_large", &[Deadlock], "[empty+16], 64;", "[empty+16], 65;"),
        ("free_ring_without_initial_barrier", &[Race, BarrierMisuse], "bar.sync 0; // init", ""),
    ];
    for (name, kinds, from, to) in cases {
        broken(name, kinds, &mutate(&ring, from, to), 64);
    }
    // An ordinary arrival does not include the copy.
    let plain = mutate(&ring, track, "mbarrier.arrive.shared::cta.b64 _, [%r6];");
    broken("free_ring_with_plain_arrival", &[Race], &plain, 64);
}

#[test]
fn phases_by_state_and_counts() {
    let body = format!(
        "{}mbarrier.arrive.shared::cta.b64 %rd1, [full];
         mov.u64 %rd2, full;
         cvta.shared.u64 %rd2, %rd2;
         WAIT: mbarrier.test_wait.b64 %p1, [%rd2], %rd1;
         @!%p1 bra WAIT;
         setp.eq.u32 %p2, %t, 5;
         @%p2 mbarrier.arrive.shared::cta.b64 _, [empty], 40;
         WAIT_40: mbarrier.try_wait.parity.shared.b64 %p1, [empty], 0;
         @!%p1 bra WAIT_40;
         selp.u32 %r0, 3, 4, %p1;
         bar.sync 0;
         @%p0 mbarrier.inval.shared::cta.b64 [full];
         @%p0 st.shared.u32 [full], 8;
         @%p0 ld.shared.u32 %r0, [full];
         {STORE}",
        prologue(40)
    );
    let mut want = [3; 40];
    want[0] = 8;
    check("state", &body, 40, &want);
}

#[test]
fn bytes_that_are_announced() {
    // Warp 1 counts the bytes: the phase waits for the arrival and for all bytes.
    let body = format!(
        "{}setp.ge.u32 %p1, %t, 32;
         @%p1 bra BRING;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
         bra WAIT;
         BRING: mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [full], 16;
         WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
         @!%p2 bra WAIT;
         add.u32 %r0, %t, 1;
         {STORE}",
        prologue(32)
    );
    check("bytes", &body, 64, &(1..=64).collect::<Vec<u32>>());
    broken("bytes_missing", &[Deadlock], &mutate(&body, "[full], 16;\n         bra", "[full], 24;\n         bra"), 64);
}

#[test]
fn misuse() {
    let kind = &[BarrierMisuse];
    let init = "setp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init.shared::cta.b64 [full], 8;\nbar.sync 0;\n";
    let cases: [(&str, &[ViolationKind], String); 17] = [
        ("arrival_at_none", kind, "mbarrier.arrive.shared::cta.b64 _, [full];".into()),
        ("wait_at_none", kind, "mbarrier.test_wait.parity.shared::cta.b64 %p1, [full], 0;".into()),
        ("copies_at_none", kind, "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [full];".into()),
        ("inval_of_none", kind, "mbarrier.inval.shared::cta.b64 [full];".into()),
        ("count_0", kind, "mbarrier.init.shared::cta.b64 [full], 0;".into()),
        ("count_2_to_20", kind, "mbarrier.init.shared::cta.b64 [full], 1048576;".into()),
        ("second_init", kind, format!("{init}@%p0 mbarrier.init.shared::cta.b64 [full], 8;")),
        ("too_many_arrivals", kind, format!("{init}@%p0 mbarrier.arrive.shared::cta.b64 _, [full], 9;")),
        ("arrivals_of_two_phases", kind, format!("{}mbarrier.arrive.b64 _, [full];", init.replace("8;", "63;"))),
        ("arrivals_of_four_phases", kind, format!("{init}mbarrier.arrive.b64 _, [full];")),
        ("no_arrivals", kind, format!("{init}@%p0 mbarrier.arrive.shared::cta.b64 _, [full], 0;")),
        ("old_state", kind, format!("{init}mov.u64 %rd1, -1;\nmbarrier.test_wait.shared::cta.b64 %p1, [full], %rd1;")),
        ("parity_2", kind, format!("{init}mbarrier.test_wait.parity.shared::cta.b64 %p1, [full], 2;")),
        ("plain_store", kind, format!("{init}@%p0 st.shared.u32 [full+4], 8;")),
        ("plain_load", kind, format!("{init}@%p0 ld.shared.u8 %r1, [full+3];")),
        ("in_global_memory", kind, "mbarrier.arrive.b64 _, [%in];".into()),
        ("misaligned", &[Misaligned], "mbarrier.init.shared::cta.b64 [full+4], 8;".into()),
    ];
    for (name, kinds, body) in cases {
        broken(name, kinds, &body, 64);
    }
}

/// A state counts the arrivals that its phase lacks. `.noComplete` promises that some remain. Later phases do not
/// expect a thread that drops out.
#[test]
fn arrivals_that_count_and_drop() {
    let body = format!(
        "{}mov.u32 %r4, 0;
         setp.eq.u32 %p1, %t, 5;
         @%p1 mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [full], 1; // early
         @%p1 mbarrier.pending_count.b64 %r4, %rd1;
         bar.sync 0;
         @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];
         FIRST: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
         @!%p2 bra FIRST;
         bar.sync 0;
         @%p1 mbarrier.arrive_drop.shared::cta.b64 _, [full]; // drop
         @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];
         SECOND: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 1;
         @!%p2 bra SECOND;
         bar.sync 0;
         @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];
         THIRD: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
         @!%p2 bra THIRD;
         mov.u32 %r0, %r4;
         {STORE}",
        prologue(64)
    );
    let want: Vec<u32> = (0..64).map(|t| if t == 5 { 64 } else { 0 }).collect();
    check("count and drop", &body, 64, &want);
    let stays = mutate(
        &body,
        "mbarrier.arrive_drop.shared::cta.b64 _, [full]; // drop",
        "mbarrier.arrive.shared::cta.b64 _, [full];",
    );
    check_found("stays", &[Deadlock], &stays, 64);
    let all = mutate(
        &body,
        "arrive.noComplete.shared::cta.b64 %rd1, [full], 1; // early",
        "arrive.noComplete.shared::cta.b64 %rd1, [full], 64;",
    );
    check_found("completes", &[BarrierMisuse], &all, 64);
}

/// With relaxed arrivals and waits, the fences before and after them determine what is ordered.
#[test]
fn fences_next_to_relaxed_arrivals_and_waits() {
    let body = |release: &str, arrive: &str, wait: &str, acquire: &str| {
        format!(
            "setp.eq.u32 %p0, %t, 0;
             @%p0 mbarrier.init.shared::cta.b64 [full], 32;
             bar.sync 0;
             setp.ge.u32 %p1, %t, 32;
             mov.u32 %r1, ring;
             mad.lo.u32 %r2, %t, 4, %r1;
             mov.u32 %r0, 0;
             @%p1 bra WAIT;
             st.shared.u32 [%r2], %t;
             {release}
             mbarrier.arrive.{arrive}.cta.shared::cta.b64 _, [full];
             bra END;
             WAIT: mbarrier.try_wait.parity.{wait}.cta.shared::cta.b64 %p2, [full], 0;
             @!%p2 bra WAIT;
             {acquire}
             ld.shared.u32 %r0, [%r2+-128];
             END: {STORE}"
        )
    };
    let want: Vec<u32> = (0..64).map(|t| u32::saturating_sub(t, 32)).collect();
    let fence = "fence.acq_rel.cta;";
    for (name, release, arrive, wait, acquire) in [
        ("neither is relaxed", "", "release", "acquire", ""),
        ("a relaxed arrival", fence, "relaxed", "acquire", ""),
        ("a relaxed wait", "", "release", "relaxed", fence),
        ("both", fence, "relaxed", "relaxed", fence),
        ("wide fences", "fence.release.gpu;", "relaxed", "relaxed", "fence.acquire.cluster;"),
    ] {
        check(name, &body(release, arrive, wait, acquire), 64, &want);
    }
    for (name, release, arrive, wait, acquire) in [
        ("no fence before a relaxed arrival", "", "relaxed", "acquire", fence),
        ("no fence after a relaxed wait", fence, "release", "relaxed", ""),
        ("fences that only acquire and only release", "fence.acquire.cta;", "relaxed", "relaxed", "fence.release.cta;"),
    ] {
        check_found(name, &[Race, Uninitialised], &body(release, arrive, wait, acquire), 64);
    }
}

/// Triton waits for parity -1, which is 1: right, and a warning.
#[test]
fn the_lowest_bit_is_the_parity() {
    let body = |parity: &str| {
        format!(
            "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [full], 64; bar.sync 0;
             mbarrier.arrive.shared::cta.b64 _, [full];
             WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p1, [full], {parity}; @!%p1 bra WAIT;
             mov.u32 %r0, %t; {STORE}"
        )
    };
    let want: Vec<u32> = (0..64).collect();
    for parity in ["0", "2", "-2"] {
        check("lowest bit", &body(parity), 64, &want);
    }
    check_found("lowest bit, denied", &[BarrierMisuse], &body("-2"), 64);
}
