//! `barrier.sync` without `.aligned`: the threads of a warp reach one barrier along different paths.

use ptx_gemm_interp::ViolationKind::{BarrierMismatch, Deadlock, Race, Uninitialised};

use crate::ring::{STORE, check, check_found};

/// Of 96 threads, each of the first `count` stores a number, waits for the others, and reads that of its opposite
/// thread, three times; the rest have exited. `meet` and `leave` are the barriers; `%p0` divides each warp, `%p1`
/// separates one warp from the others.
fn exchange(count: u32, meet: &str, leave: &str) -> String {
    format!(
        "setp.ge.u32 %p3, %t, {count};
         @%p3 exit;
         mov.u32 %r1, ring;
         mad.lo.u32 %r2, %t, 4, %r1;
         sub.u32 %r3, {}, %t;
         mad.lo.u32 %r3, %r3, 4, %r1;
         and.b32 %r5, %t, 3;
         setp.lt.u32 %p0, %r5, 2;
         setp.lt.u32 %p1, %t, 32;
         mov.u32 %r0, 0;
         mov.u32 %r4, 0;
         AGAIN: mad.lo.u32 %r6, %r4, 100, %t;
         st.shared.u32 [%r2], %r6;
         {meet}
         ld.shared.u32 %r6, [%r3];
         add.u32 %r0, %r0, %r6;
         {leave}
         add.u32 %r4, %r4, 1;
         setp.lt.u32 %p2, %r4, 3;
         @%p2 bra AGAIN;
         {STORE}",
        count - 1
    )
}

/// The sum of what each of the 96 threads has read.
fn exchanged(count: u32) -> Vec<u32> {
    let sum = |t: u32| (0..3).map(|step| 100 * step + count - 1 - t).sum();
    (0..96).map(|t| if t < count { sum(t) } else { 0 }).collect()
}

/// One half of each warp waits here, the other half there.
fn paths(one: &str, other: &str, label: &str) -> String {
    format!("@%p0 bra {label};\n{one}\nmov.u32 %r7, 1;\nbra MET_{label};\n{label}: {other}\nMET_{label}:")
}

#[test]
fn a_warp_meets_others_along_two_paths() {
    for barrier in ["barrier.sync 0;", "barrier.cta.sync 2;", "barrier.sync 1, 96;"] {
        let (meet, leave) = (paths(barrier, barrier, "IN"), paths(barrier, barrier, "OUT"));
        check(barrier, &exchange(96, &meet, &leave), 96, &exchanged(96));
        // One side waits at one instruction, the other side at another: only the barrier's number counts.
        check("aligned as well", &exchange(96, &meet, &barrier.replace("sync", "sync.aligned")), 96, &exchanged(96));
        let predicated = format!("@%p0 {barrier}\n@!%p0 {barrier}");
        check("by predicates", &exchange(96, &predicated, &predicated), 96, &exchanged(96));
        // One warp is divided, and the others are not.
        let one_warp = format!("@!%p1 bra REST;\n{meet}\nbra ALL;\nREST: {barrier}\nALL:");
        check("one warp", &exchange(96, &one_warp, &leave), 96, &exchanged(96));
    }
}

#[test]
fn each_path_needs_its_barrier() {
    let barrier = "barrier.sync 0;";
    let both = paths(barrier, barrier, "OUT");
    // A half that arrives too late takes part in the following barrier.
    for meet in [paths(barrier, "", "IN"), paths("", barrier, "IN"), String::new()] {
        check_found(&meet, &[Race, Uninitialised, BarrierMismatch, Deadlock], &exchange(96, &meet, &both), 96);
    }
    for leave in [paths(barrier, "", "OUT"), paths("", barrier, "OUT"), String::new()] {
        let meet = paths(barrier, barrier, "IN");
        check_found(&leave, &[Race, BarrierMismatch, Deadlock], &exchange(96, &meet, &leave), 96);
    }
    for (one, other) in [
        // Two barriers, and two numbers of threads.
        (barrier, "barrier.sync 1;"),
        ("barrier.sync 0, 96;", "barrier.sync 0, 64;"),
        // Aligned barriers are for whole warps.
        ("bar.sync 0;", "bar.sync 0;"),
        (barrier, "bar.sync 0;"),
    ] {
        let meet = paths(one, other, "IN");
        check_found(&meet, &[BarrierMismatch], &exchange(96, &meet, &both), 96);
    }
}

#[test]
fn threads_that_have_exited_are_not_waited_for() {
    for barrier in ["barrier.sync 0;".to_string(), paths("barrier.sync 0;", "barrier.sync 0;", "IN")] {
        check(&barrier, &exchange(91, &barrier, &barrier.replace("IN", "OUT")), 96, &exchanged(91));
    }
    check_found("aligned", &[BarrierMismatch], &exchange(91, "bar.sync 0;", "bar.sync 0;"), 96);
}
