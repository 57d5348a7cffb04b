//! Patterns from kernels that use CUDA's own libraries: parts of a warp that exchange values by themselves, tests of an
//! index before an element that may not exist, reads through the read-only cache.

use ptx_gemm_interp::ViolationKind::{self, BarrierMismatch, Race, Uninitialised};
use ptx_gemm_interp::{Arg, Launch, Options, WarpOrder, launch};

use crate::ring::{STORE, check, check_found, text};
use crate::run::Device;

/// `%r4` is the mask of a thread's part of eight lanes.
const PARTS: &str = "and.b32 %r1, %t, 24; mov.u32 %r2, 255; shl.b32 %r4, %r2, %r1;";

#[test]
fn parts_of_a_warp_exchange_values() {
    let want = |of: &dyn Fn(u32) -> u32| (0..64).map(of).collect::<Vec<u32>>();
    let neighbours = format!("{PARTS} shfl.sync.bfly.b32 %r0, %t, 1, 0x181f, %r4; {STORE}");
    check("shuffle", &neighbours, 64, &want(&|t| t ^ 1));
    let votes = format!("{PARTS} setp.lt.u32 %p0, %t, 13; vote.sync.ballot.b32 %r0, %p0, %r4; {STORE}");
    check(
        "vote",
        &votes,
        64,
        &want(&|t| match t {
            0..8 => 0xff,
            8..16 => 0x1f00,
            _ => 0,
        }),
    );
    let sums = format!("{PARTS} redux.sync.add.u32 %r0, %t, %r4; {STORE}");
    check("reduction", &sums, 64, &want(&|t| (0..8).map(|lane| (t & !7) + lane).sum()));
    let alike = format!("{PARTS} and.b32 %r3, %t, 1; match.any.sync.b32 %r0, %r3, %r4; {STORE}");
    check("match", &alike, 64, &want(&|t| (0x55 << (t & 1)) << (t & 24)));
    let leaders = format!(
        "{PARTS} mov.u32 %r3, 0; elect.sync %r0|%p0, %r4; @%p0 mov.u32 %r3, 100; add.u32 %r0, %r0, %r3; {STORE}"
    );
    check("election", &leaders, 64, &want(&|t| (t & 24) + if t % 8 == 0 { 100 } else { 0 }));
}

/// Lanes 4 to 7 reach the exchange later than the other lanes of their part, in all parts or in one of them.
#[test]
fn parts_wait_for_their_own_lanes() {
    let late = |condition: &str| {
        format!(
            "{PARTS} mov.u32 %r3, %t; {condition} @!%p0 bra MEET; add.u32 %r3, %r3, 1000; MEET:
             shfl.sync.bfly.b32 %r0, %r3, 4, 0x181f, %r4; {STORE}"
        )
    };
    let value = |t: u32, later: bool| t + if later { 1000 } else { 0 };
    let in_all: Vec<u32> = (0..64).map(|t| value(t ^ 4, (t ^ 4) & 4 != 0)).collect();
    check("in all parts", &late("and.b32 %r5, %t, 4; setp.ne.u32 %p0, %r5, 0;"), 64, &in_all);
    let in_one: Vec<u32> = (0..64).map(|t| value(t ^ 4, (16..24).contains(&(t ^ 4)) && t & 4 == 0)).collect();
    let one = "and.b32 %r5, %t, 4; setp.ge.u32 %p0, %t, 16; setp.lt.and.u32 %p0, %t, 24, %p0; setp.ne.and.u32 %p0, %r5, 0, %p0;";
    check("in one part", &late(one), 64, &in_one);
    // Each lane of a part names one lane fewer than the part has, possibly leaving itself out.
    let without = format!("{PARTS} shr.u32 %r4, %r4, 1; shfl.sync.bfly.b32 %r0, %t, 1, 0x181f, %r4; {STORE}");
    check_found("a lane that leaves itself out", &[BarrierMismatch, Uninitialised], &without, 64);
    // A lane of a part that never arrives.
    let missing = format!(
        "{PARTS} setp.eq.u32 %p0, %t, 13; @%p0 bra OUT; shfl.sync.bfly.b32 %r0, %t, 1, 0x181f, %r4; OUT: bar.sync 0; {STORE}"
    );
    check_found("a lane that is not there", &[BarrierMismatch], &missing, 64);
}

/// `%r1` is 5, and `%r2` was never written.
const ELEMENTS: &str = "mov.u32 %r0, 0; mov.u32 %r1, 5; setp.lt.u32 %p0, %r1, 3; setp.lt.u32 %p1, %r2, %r1;";

#[test]
fn what_does_not_decide_need_not_be_known() {
    let all = |value: u32| vec![value; 32];
    for (combine, value) in [
        ("and.pred %p2, %p0, %p1;", 0),
        ("and.pred %p2, %p1, %p0;", 0),
        ("not.pred %p3, %p0; or.pred %p2, %p3, %p1;", 1),
        ("not.pred %p3, %p0; or.pred %p2, %p1, %p3;", 1),
        ("setp.lt.and.u32 %p2, %r2, %r1, %p0;", 0),
        ("setp.lt.or.u32 %p2, %r2, %r1, !%p0;", 1),
        ("setp.lt.and.u32 %p2, %r1, 3, %p1;", 0),
        ("setp.lt.or.u32 _|%p2, %r1, 3, %p1;", 1),
    ] {
        let body = format!("{ELEMENTS} {combine} @%p2 mov.u32 %r0, 1; {STORE}");
        check(combine, &body, 32, &all(value));
    }
    for combine in [
        "or.pred %p2, %p0, %p1;",
        "or.pred %p2, %p1, %p0;",
        "not.pred %p3, %p0; and.pred %p2, %p3, %p1;",
        "xor.pred %p2, %p0, %p1;",
        "and.pred %p2, %p1, %p1;",
        "setp.lt.or.u32 %p2, %r2, %r1, %p0;",
        "setp.lt.and.u32 %p2, %r2, %r1, !%p0;",
        "setp.lt.xor.u32 %p2, %r1, 3, %p1;",
        // The opposite comparison, with the value that decided the other one.
        "setp.lt.and.u32 _|%p2, %r1, 3, %p1;",
        "setp.lt.or.u32 %p2, %r1, 3, %p1;",
    ] {
        let body = format!("{ELEMENTS} {combine} @%p2 mov.u32 %r0, 1; {STORE}");
        check_found(combine, &[Uninitialised], &body, 32);
    }
}

/// Each thread writes a word of `%out` and reads its neighbour's word with `load`.
fn through(load: &str) -> String {
    text(&format!(
        "xor.b32 %r1, %t, 1;
         mul.wide.u32 %rd0, %t, 4; add.u64 %rd1, %out, %rd0;
         mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %out, %rd2; add.u64 %rd4, %in, %rd2;
         st.global.u32 [%rd1], %t; // write
         bar.sync 0;
         {load}
         bar.sync 0;
         st.global.u32 [%rd1], %r0;"
    ))
}

#[test]
fn the_read_only_cache_does_not_see_what_a_launch_writes() {
    let run = |load: &str, order: WarpOrder| {
        let mut device = Device::new(&through(load));
        device.options = Options { order, ..Options::default() };
        let input = device.upload("in", &(100..164).collect::<Vec<u32>>());
        let out = device.upload("out", &[0u32; 64]);
        device.launch([1, 1, 1], [64, 1, 1], &[Arg::U64(input), Arg::U64(out)]).map(|_| device.words(out, 64))
    };
    for order in [WarpOrder::RunToBarrier, WarpOrder::Backward, WarpOrder::Seeded(3)] {
        let coherent = run("ld.global.u32 %r0, [%rd3];", order);
        assert_eq!(coherent, Ok((0..64).map(|t| t ^ 1).collect()), "{order:?}");
        let of_the_host = run("ld.global.nc.u32 %r0, [%rd4];", order);
        assert_eq!(of_the_host, Ok((0..64).map(|t| 100 + (t ^ 1)).collect()), "{order:?}");
        for load in ["ld.global.nc.u32 %r0, [%rd3];", "ld.global.nc.L1::no_allocate.u32 %r0, [%rd3];"] {
            let violation = run(load, order).expect_err("the cache may have zeros");
            assert_eq!(violation.kind, Race, "{order:?}: {violation}");
            assert!(violation.site.instruction.contains(".nc"), "{violation}");
            assert!(violation.to_string().contains("(`st.global.u32 [%rd1], %t;`)"), "{violation}");
        }
    }
}

#[test]
fn registers_of_the_system() {
    let names = ["begin", "end", "cap", "0", "1"].map(|name| format!("mov.u32 %r1, %reserved_smem_offset_{name};"));
    let body = format!(
        "mov.u32 %r0, 7; {} mov.u32 %r1, %aggr_smem_size; mov.u64 %rd0, %current_graph_exec; {STORE}",
        names.concat()
    );
    check("registers", &body, 32, &[7; 32]);
    // Cooperative groups find the barrier of a grid through two of the registers that the driver fills.
    let body = format!("mov.u32 %r0, %envreg0; mov.b32 %r1, %envreg31; add.u32 %r0, %r0, %r1; {STORE}");
    check("registers of the driver", &body, 32, &[0; 32]);
}

/// Text that ptxas rejects too, although some of it would have a meaning.
#[test]
fn what_is_not_ptx_does_not_run() {
    for (body, wanted) in [
        ("barrier.cluster.arrive.aligned; barrier.cluster.wait.relaxed.aligned;", "a wait must be .acquire"),
        ("barrier.cluster.arrive.acquire;", "an arrival must be .release or .relaxed"),
        ("ld.release.gpu.global.u32 %r1, [%in];", "a load cannot be a release"),
        ("st.acquire.gpu.global.u32 [%out], %t;", "a store cannot be an acquire"),
        ("mbarrier.test_wait.parity.release.cta.shared.b64 %p0, [spare], 0;", "a wait must be .acquire or .relaxed"),
        ("mbarrier.try_wait.parity.release.cta.shared.b64 %p0, [spare], 0;", "a wait must be .acquire or .relaxed"),
        ("mbarrier.arrive.acquire.cta.shared.b64 _, [spare];", "an arrival must be .release or .relaxed"),
        ("add.rn.u32 %r1, %t, %t;", "this rounding mode is not available for this type"),
        ("fence.proxy.async.local;", "takes .global, .shared::cta, .shared::cluster or no state space"),
        ("wgmma.wait_group.sync.aligned 8;", "expected 0 to 7"),
        ("add.b32 %r1, %t, %t;", "`add` has no .b32 form"),
    ] {
        let device = Device::new(&text(body));
        let buffer = device.upload("in", &[0u32; 64]);
        let violation = device.launch([1; 3], [32, 1, 1], &[Arg::U64(buffer), Arg::U64(buffer)]).expect_err(body);
        assert_eq!(violation.kind, ViolationKind::UnknownInstruction, "{body}: {violation}");
        assert!(violation.message.contains(wanted), "{body}: {violation}");
    }
}

#[test]
fn an_arrival_that_is_refused_is_named() {
    let device = Device::new(&text("mov.u32 %r0, 1;\nbar.arrive 1, 128;\nadd.u32 %r0, %r0, 1;"));
    let buffer = device.upload("in", &[0u32; 64]);
    let violation = device.launch([1, 1, 1], [64, 1, 1], &[Arg::U64(buffer), Arg::U64(buffer)]).expect_err("too many");
    assert_eq!(violation.kind, ViolationKind::BarrierMismatch);
    assert_eq!(violation.site.instruction, "bar.arrive 1, 128;");
}

/// The last warp that has waited invalidates the mbarrier, as in libcu++. One lane of each warp represents all of them.
#[test]
fn an_mbarrier_ends_after_the_tests_of_all() {
    let body = |count: &str| {
        format!(
            "setp.eq.u32 %p0, %t, 0;
             @%p0 mbarrier.init.shared::cta.b64 [full], 64;
             @%p0 st.shared.u32 [scratch], 0;
             bar.sync 0;
             mbarrier.arrive.shared::cta.b64 %rd1, [full];
             WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p1, [full], 0;
             @!%p1 bra WAIT;
             and.b32 %r1, %t, 31;
             mov.u32 %r0, 0;
             setp.ne.u32 %p2, %r1, 0;
             @%p2 bra END;
             {count} %r0, [scratch], 1;
             setp.eq.u32 %p3, %r0, 1;
             @%p3 mbarrier.inval.shared::cta.b64 [full];
             mov.u32 %r0, 0;
             END: {STORE}"
        )
    };
    check("counted", &body("atom.acq_rel.cta.shared.add.u32"), 64, &[0; 64]);
    for count in
        ["atom.relaxed.cta.shared.add.u32", "atom.acquire.cta.shared.add.u32", "atom.release.cta.shared.add.u32"]
    {
        check_found(count, &[Race], &body(count), 64);
    }
}

/// CUDA accepts it, and the entry may find the memory by its size.
#[test]
fn dynamic_shared_memory_need_not_be_declared() {
    let device = Device::new(&text("mov.u32 %r0, %dynamic_smem_size; st.global.u32 [%out], %r0;"));
    let buffer = device.upload("out", &[7u32; 8]);
    let args = [Arg::U64(buffer), Arg::U64(buffer)];
    let what = Launch { entry: "k", args: &args, dynamic_shared_bytes: 4096, ..Launch::default() };
    launch(&device.program, &device.memory, &what, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(device.words(buffer, 1), [4096]);
}
