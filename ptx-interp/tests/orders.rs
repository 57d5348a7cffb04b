//! Orders of warps: faults that are found in each of them, and faults that are found only in some.

use ptx_gemm_interp::{Arg, Checks, Options, ViolationKind, WarpOrder};

use crate::ring::{ORDERS, STORE, check, check_found, mutate, text};
use crate::run::Device;

/// Each thread stores a word for its opposite thread, in another warp.
fn exchange() -> String {
    format!(
        "mov.u32 %r1, ring;
         mad.lo.u32 %r2, %t, 4, %r1;
         st.shared.u32 [%r2], %t;
         bar.sync 0; // stored
         sub.u32 %r2, 95, %t;
         mad.lo.u32 %r2, %r2, 4, %r1;
         ld.shared.u32 %r0, [%r2];
         {STORE}"
    )
}

#[test]
fn a_missing_barrier_is_found_in_each_order() {
    check("exchange", &exchange(), 96, &(0..96).rev().collect::<Vec<u32>>());
    let kinds = &[ViolationKind::Race, ViolationKind::Uninitialised];
    check_found("missing barrier", kinds, &mutate(&exchange(), "bar.sync 0; // stored", ""), 96);
}

/// Runs a kernel of 96 threads under one order, with all checks on.
fn results(body: &str, order: WarpOrder) -> Vec<u32> {
    let mut device = Device::new(&text(body));
    device.options = Options { checks: Checks::Full, order, ..Options::default() };
    let out = device.upload("out", &[0u32; 96]);
    let input = device.upload("in", &[0u32; 96]);
    device.launch([1; 3], [96, 1, 1], &[Arg::U64(input), Arg::U64(out)]).unwrap_or_else(|v| panic!("{order:?}: {v}"));
    device.words(out, 96)
}

/// Warps draw numbers from a counter, and use them as the warp's own. Atomics do not race, so only the results show the
/// fault.
fn tickets() -> String {
    format!(
        "mov.u32 %r1, ring;
         setp.eq.u32 %p0, %t, 0;
         @%p0 st.shared.u32 [%r1], 0;
         bar.sync 0;
         and.b32 %r2, %t, 31;
         setp.eq.u32 %p1, %r2, 0;
         mov.u32 %r3, 0;
         @%p1 atom.shared.add.u32 %r3, [%r1], 1;
         shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;
         mad.lo.u32 %r0, %r3, 32, %r2;
         {STORE}"
    )
}

#[test]
fn a_bug_that_the_forward_order_hides() {
    let body = tickets();
    let want: Vec<u32> = (0..96).collect();
    assert_eq!(results(&body, WarpOrder::RunToBarrier), want);
    assert_eq!(results(&body, WarpOrder::Forward), want);
    assert_ne!(results(&body, WarpOrder::Backward), want);
    let found = (0..16).filter(|seed| results(&body, WarpOrder::Seeded(*seed)) != want).count();
    // One in six orders of three warps is the forward order.
    assert!(found >= 10, "found in {found} of 16 random orders");
}

#[test]
fn a_seed_is_an_order() {
    // 96 threads draw numbers one by one, in the order in which they reach the counter.
    let body = format!(
        "mov.u32 %r1, ring;
         setp.eq.u32 %p0, %t, 0;
         @%p0 st.shared.u32 [%r1], 0;
         bar.sync 0;
         mov.u32 %r4, 0;
         mov.u32 %r0, 0;
         AGAIN: atom.shared.add.u32 %r3, [%r1], 1;
         mad.lo.u32 %r0, %r0, 31, %r3;
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p1, %r4, 40;
         @%p1 bra AGAIN;
         {STORE}"
    );
    let mut seen = Vec::new();
    for seed in 0..8 {
        let words = results(&body, WarpOrder::Seeded(seed));
        assert_eq!(results(&body, WarpOrder::Seeded(seed)), words, "seed {seed}");
        assert!(!seen.contains(&words), "seed {seed} repeats another order");
        seen.push(words);
    }
    // Turns also end between barriers: no warp draws all its numbers before another one begins.
    assert!(!seen.contains(&results(&body, WarpOrder::RunToBarrier)));
}

#[test]
fn orders_are_drawn() {
    let drawn: Vec<WarpOrder> = (0..64).map(WarpOrder::drawn).collect();
    assert!(ORDERS[..3].iter().all(|order| drawn.contains(order)));
    let random = drawn.iter().filter(|order| matches!(order, WarpOrder::Seeded(_))).count();
    assert_eq!(random, 24);
    assert!(drawn.iter().any(|order| matches!(order, WarpOrder::Late(_))));
}

/// A ring of two slots with one producer, a warp that reads and releases them, and a warp that only waits for them, but
/// that no thread waits for. `meet` comes between the wait and the release.
fn ring_with_a_follower(meet: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 8 .b64 full[2];\n.shared .align 8 .b64 empty[2];
         .visible .entry k() {{
         .reg .b32 %r<8>; .reg .pred %p<6>;
         mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
         @%p0 mbarrier.init.shared.b64 [full], 1; @%p0 mbarrier.init.shared.b64 [full+8], 1;
         @%p0 mbarrier.init.shared.b64 [empty], 1; @%p0 mbarrier.init.shared.b64 [empty+8], 1;
         bar.sync 0;
         and.b32 %r1, %r0, 31; setp.eq.u32 %p1, %r1, 0;
         setp.ge.u32 %p2, %r0, 64; setp.ge.u32 %p3, %r0, 32;
         mov.u32 %r2, 0;
         NEXT:
         and.b32 %r3, %r2, 1; shl.b32 %r3, %r3, 3;
         mov.u32 %r4, full; add.u32 %r4, %r4, %r3; mov.u32 %r5, empty; add.u32 %r5, %r5, %r3;
         shr.u32 %r6, %r2, 1; and.b32 %r6, %r6, 1;
         @%p2 bra PRODUCE;
         FULL: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], %r6; @!%p4 bra FULL;
         {meet}
         @%p3 bra DONE;
         @%p1 mbarrier.arrive.shared.b64 _, [%r5];
         bra DONE;
         PRODUCE: xor.b32 %r6, %r6, 1;
         EMPTY: mbarrier.try_wait.parity.shared.b64 %p4, [%r5], %r6; @!%p4 bra EMPTY;
         @%p1 mbarrier.arrive.shared.b64 _, [%r4];
         DONE: add.u32 %r2, %r2, 1; setp.lt.u32 %p5, %r2, 16; @%p5 bra NEXT;
         ret;
         }}\n"
    )
}

#[test]
fn a_warp_that_misses_a_phase_is_found_where_it_is_held_up() {
    let run = |meet: &str, order| {
        let mut device = Device::new(&ring_with_a_follower(meet));
        device.options = Options { order, max_instructions: Some(1_000_000), ..Options::default() };
        device.launch([1, 1, 1], [96, 1, 1], &[])
    };
    for order in ORDERS {
        let met = run("bar.sync 1, 64;", order);
        assert!(met.is_ok(), "{order:?}: {met:?}");
    }
    let late = (0..8).map(|seed| run("", WarpOrder::Late(seed)));
    let kinds: Vec<_> = late.map(|run| run.err().map(|violation| violation.kind)).collect();
    assert!(kinds.iter().all(|kind| *kind == Some(ViolationKind::Deadlock)), "{kinds:?}");
    // If every warp has its turn in each round, none falls behind by more than a phase.
    assert!(run("", WarpOrder::RunToBarrier).is_ok());
}
