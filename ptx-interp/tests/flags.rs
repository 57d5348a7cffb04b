//! Flags in global memory: blocks that pass on sums, with each synchronisation left out or weakened in turn. Every
//! mutant is found in the forward order, in which the values are correct.

use ptx_gemm_interp::ViolationKind::{self, Deadlock, NotZero, Race, Uninitialised};
use ptx_gemm_interp::{Arg, BlockOrder, Checks, Options, Violation, WarpOrder};

use crate::ring::{ORDERS, mutate};
use crate::run::Device;

/// Threads per block.
const THREADS: u32 = 64;
/// Number of blocks; all of them work on the same words.
const PARTS: u32 = 4;

const BLOCK_ORDERS: [BlockOrder; 5] =
    [BlockOrder::Forward, BlockOrder::Backward, BlockOrder::Interleaved, BlockOrder::Seeded(0), BlockOrder::Seeded(77)];

fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 flags, .param .u64 sums, .param .u64 out) {{
.reg .b64 %rd<16>;\n.reg .b32 %r<24>;\n.reg .b32 %t;\n.reg .b32 %part;\n.reg .pred %p<8>;\n.shared .b32 word;
ld.param.u64 %rd1, [flags];\nld.param.u64 %rd2, [sums];\nld.param.u64 %rd3, [out];
mov.u32 %t, %tid.x;\nmov.u32 %part, %ctaid.x;\nmul.wide.u32 %rd0, %t, 4;
add.u64 %rd4, %rd1, %rd0;\nadd.u64 %rd5, %rd2, %rd0;\nadd.u64 %rd6, %rd3, %rd0;\nmad.lo.u32 %r0, %part, 100, %t;
{body}\nret;\n}}\n"
    )
}

fn run(body: &str, options: Options) -> Result<Vec<u32>, Violation> {
    let mut device = Device::new(&text(body));
    device.options = options;
    let flags = device.upload("flags", &[0u32; THREADS as usize]);
    device.memory.set_zero_after(flags, u64::from(THREADS) * 4).expect("inside");
    let sums = device.reserve("sums", u64::from(PARTS * THREADS) * 4);
    let out = device.reserve("out", u64::from(THREADS) * 4);
    device.launch([PARTS, 1, 1], [THREADS, 1, 1], &[Arg::U64(flags), Arg::U64(sums), Arg::U64(out)])?;
    Ok(device.words(out, THREADS as usize))
}

fn everywhere(mut f: impl FnMut(Options)) {
    for order in ORDERS {
        for blocks in BLOCK_ORDERS {
            f(Options { order, blocks, threads: Some(2), max_instructions: Some(1 << 17), ..Options::default() });
        }
    }
}

fn want() -> Vec<u32> {
    (0..THREADS).map(|t| (0..PARTS).map(|part| 100 * part + t).sum()).collect()
}

/// Checks that it is correct under every order, with and without checks.
fn check(name: &str, body: &str) {
    everywhere(|options| {
        for checks in [Checks::Full, Checks::Off] {
            let options = Options { checks, ..options };
            match run(body, options) {
                Ok(words) => assert_eq!(words, want(), "{name} ({options:?})"),
                Err(violation) => panic!("{name} ({options:?}): {violation}"),
            }
        }
    });
}

/// Checks that the fault is found under every order.
fn check_found(name: &str, kinds: &[ViolationKind], body: &str) {
    everywhere(|options| {
        let Err(violation) = run(body, options) else { panic!("{name} ({options:?}): nothing was found") };
        assert!(kinds.contains(&violation.kind), "{name} ({options:?}): {violation}");
    });
}

/// Part p waits until the thread's flag is p, adds its number to the sum so far, and passes it on.
const SERIAL: &str = "
    setp.eq.u32 %p1, %part, 0;
    @%p1 bra ADDED;
    WAIT: ld.acquire.gpu.global.u32 %r1, [%rd4];
    setp.ne.u32 %p2, %r1, %part;
    @%p2 bra WAIT;
    ld.global.u32 %r2, [%rd5];
    add.u32 %r0, %r0, %r2;
    ADDED: setp.eq.u32 %p3, %part, 3;
    @%p3 bra LAST;
    add.u32 %r3, %part, 1;
    st.global.u32 [%rd5], %r0;
    st.release.gpu.global.u32 [%rd4], %r3;
    bra END;
    LAST: st.global.u32 [%rd4], 0; // reset
    st.global.u32 [%rd6], %r0;
    END:";

/// Every part stores its number; the thread that completes the count adds them up.
const GATHERED: &str = "
    mul.lo.u32 %r1, %part, 256;
    cvt.u64.u32 %rd7, %r1;
    add.u64 %rd7, %rd5, %rd7;
    st.global.u32 [%rd7], %r0;
    atom.acq_rel.gpu.global.add.u32 %r2, [%rd4], 1;
    setp.ne.u32 %p1, %r2, 3;
    @%p1 bra END;
    st.global.u32 [%rd4], 0; // reset
    ld.global.u32 %r0, [%rd5];
    ld.global.u32 %r3, [%rd5+256];
    add.u32 %r0, %r0, %r3;
    ld.global.u32 %r3, [%rd5+512];
    add.u32 %r0, %r0, %r3;
    ld.global.u32 %r3, [%rd5+768];
    add.u32 %r0, %r0, %r3;
    st.global.u32 [%rd6], %r0;
    END:";

/// The same with one flag per block: its threads synchronise before and after one of them counts.
const BY_BLOCK: &str = "
    mul.lo.u32 %r1, %part, 256;
    cvt.u64.u32 %rd7, %r1;
    add.u64 %rd7, %rd5, %rd7;
    st.global.u32 [%rd7], %r0;
    bar.sync 0; // before
    setp.ne.u32 %p0, %t, 0;
    @%p0 bra COUNTED;
    fence.acq_rel.gpu; // release
    atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 1;
    fence.acq_rel.gpu; // acquire
    st.shared.u32 [word], %r2;
    COUNTED: bar.sync 0; // after
    ld.shared.u32 %r2, [word];
    setp.ne.u32 %p1, %r2, 3;
    @%p1 bra END;
    @!%p0 st.global.u32 [%rd1], 0; // reset
    ld.global.u32 %r0, [%rd5];
    ld.global.u32 %r3, [%rd5+256];
    add.u32 %r0, %r0, %r3;
    ld.global.u32 %r3, [%rd5+512];
    add.u32 %r0, %r0, %r3;
    ld.global.u32 %r3, [%rd5+768];
    add.u32 %r0, %r0, %r3;
    st.global.u32 [%rd6], %r0;
    END:";

#[test]
fn sums_are_passed_on() {
    check("serial", SERIAL);
    check("gathered", GATHERED);
    check("by block", BY_BLOCK);
    // Equivalent spellings.
    check("serial, sys", &SERIAL.replace(".gpu", ".sys"));
    let fences = mutate(SERIAL, "st.release.gpu", "fence.acq_rel.gpu;\nst.relaxed.gpu");
    check("serial, fence before a relaxed store", &fences);
    let fences = mutate(&fences, "ld.acquire.gpu", "ld.relaxed.gpu");
    let fences = mutate(&fences, "ld.global.u32 %r2, [%rd5];", "membar.gl;\nld.global.u32 %r2, [%rd5];");
    check("serial, fences", &fences);
    check("serial, volatile", &fences.replace("relaxed.gpu", "volatile"));
    check("by block, membar", &BY_BLOCK.replace("fence.acq_rel.gpu", "membar.sys"));
}

#[test]
fn every_part_of_a_serial_reduction_matters() {
    let (wait, pass) = ("ld.acquire.gpu.global.u32 %r1", "st.release.gpu.global.u32 [%rd4], %r3;");
    let cases: [(&str, &[ViolationKind], &str, &str); 11] = [
        ("relaxed_wait", &[Race], wait, "ld.relaxed.gpu.global.u32 %r1"),
        ("volatile_wait", &[Race], wait, "ld.volatile.global.u32 %r1"),
        ("plain_wait", &[Race], wait, "ld.global.u32 %r1"),
        ("wait_of_the_block", &[Race], wait, "ld.acquire.cta.global.u32 %r1"),
        ("relaxed_flag", &[Race], pass, "st.relaxed.gpu.global.u32 [%rd4], %r3;"),
        ("plain_flag", &[Race], pass, "st.global.u32 [%rd4], %r3;"),
        ("flag_of_the_block", &[Race], pass, "st.release.cta.global.u32 [%rd4], %r3;"),
        ("no_wait", &[Race, Uninitialised], "ld.acquire.gpu.global.u32 %r1, [%rd4];", "mov.u32 %r1, %part;"),
        ("wait_that_looks_once", &[Race, Uninitialised], "@%p2 bra WAIT;", ""),
        ("no_flag", &[Deadlock], pass, ""),
        ("no_reset", &[NotZero], "st.global.u32 [%rd4], 0; // reset", ""),
    ];
    for (name, kinds, from, to) in cases {
        check_found(name, kinds, &mutate(SERIAL, from, to));
    }
    let early = mutate(SERIAL, pass, "");
    let early = mutate(&early, "st.global.u32 [%rd5], %r0;", &format!("{pass}\nst.global.u32 [%rd5], %r0;"));
    check_found("flag_before_the_sums", &[Race, Uninitialised], &early);
}

#[test]
fn every_part_of_a_gathered_reduction_matters() {
    let count = "atom.acq_rel.gpu.global.add.u32";
    let weaker =
        ["atom.acquire.gpu", "atom.release.gpu", "atom.relaxed.gpu", "atom", "atom.acq_rel.cta", "atom.relaxed.cta"];
    for weak in weaker {
        check_found(weak, &[Race], &mutate(GATHERED, count, &format!("{weak}.global.add.u32")));
    }
    check_found("no_reset", &[NotZero], &mutate(GATHERED, "st.global.u32 [%rd4], 0; // reset", ""));
    let store = "st.global.u32 [%rd7], %r0;";
    let (atom, late) = ("@%p1 bra END;", "st.global.u32 [%rd7], %r0;\n@%p1 bra END;");
    check_found("count_before_the_sums", &[Race, Uninitialised], &mutate(&mutate(GATHERED, store, ""), atom, late));
    // Without the count, the last part does not wait for the others.
    check_found(
        "no_count",
        &[Race, Uninitialised],
        &mutate(GATHERED, "setp.ne.u32 %p1, %r2, 3;", "setp.ne.u32 %p1, %part, 3;")
            .replace(count, "mov.u32 %r2, 0; //"),
    );
}

#[test]
fn every_part_of_a_flag_for_the_block_matters() {
    let cases: [(&str, &[ViolationKind], &str); 4] = [
        ("no_barrier_before", &[Race, Uninitialised], "bar.sync 0; // before"),
        ("no_barrier_after", &[Race, Uninitialised], "bar.sync 0; // after"),
        ("no_release", &[Race], "fence.acq_rel.gpu; // release"),
        ("no_acquire", &[Race], "fence.acq_rel.gpu; // acquire"),
    ];
    for (name, kinds, line) in cases {
        check_found(name, kinds, &mutate(BY_BLOCK, line, ""));
        if line.starts_with("fence") {
            let narrow = line.replace("gpu", "cta");
            check_found(&format!("{name}: fence of the block"), &[Race], &mutate(BY_BLOCK, line, &narrow));
        }
    }
    check_found("no_reset", &[NotZero], &mutate(BY_BLOCK, "@!%p0 st.global.u32 [%rd1], 0; // reset", ""));
    check_found("weak_count", &[Race], &mutate(BY_BLOCK, "atom.relaxed.gpu", "atom.relaxed.cta"));
}

/// Part p writes its numbers, and all parts wait at a barrier of the grid, as cooperative groups build it. Each thread
/// adds up the numbers of all parts, and all parts wait again: the counter's highest bit flips when the last part has
/// arrived.
fn grid_barrier() -> String {
    let meet = |n: u32| {
        format!(
            "bar.sync 0; // before
    @%p1 bra MET{n};
    fence.acq_rel.gpu; // release {n}
    atom.global.add.u32 %r5, [%rd1], %r4;
    WAIT{n}: ld.acquire.gpu.global.u32 %r6, [%rd1];
    xor.b32 %r6, %r6, %r5;
    setp.ge.s32 %p2, %r6, 0;
    @%p2 bra WAIT{n};
    MET{n}: bar.sync 0; // after
    "
        )
    };
    format!(
        "mad.lo.u32 %r1, %part, {THREADS}, %t;
    mul.wide.u32 %rd7, %r1, 4;
    add.u64 %rd7, %rd2, %rd7;
    st.global.u32 [%rd7], %r0;
    setp.ne.u32 %p1, %t, 0;
    setp.eq.u32 %p0, %part, 0;
    selp.b32 %r4, {first}, 1, %p0;
    {one}
    mov.u32 %r7, 0;
    mov.u32 %r8, 0;
    ADD: ld.global.u32 %r9, [%rd5];
    add.u32 %r7, %r7, %r9;
    add.u64 %rd5, %rd5, {row};
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, {PARTS};
    @%p3 bra ADD;
    {two}
    st.global.u32 [%rd7], %r7;
    @%p0 st.global.u32 [%rd6], %r7;",
        first = 0x8000_0000 - (PARTS - 1),
        row = 4 * THREADS,
        one = meet(1),
        two = meet(2),
    )
}

/// A block may be in the second barrier while another one still waits in the first. That block then reads the value
/// before the newest write, with what that value publishes.
#[test]
fn a_barrier_of_the_grid() {
    let body = grid_barrier();
    check("grid barrier", &body);
    check_found("no_release", &[Race], &mutate(&body, "fence.acq_rel.gpu; // release 1", ""));
    check_found("no_acquire", &[Race], &mutate(&body, "WAIT1: ld.acquire.gpu", "WAIT1: ld.relaxed.gpu"));
}

/// Every thread fences its own part, the block synchronises, and one thread counts it with a relaxed atomic
/// (`__threadfence()`, then `__syncthreads()`). The last block reads all parts after fences of its own.
const FENCED_BY_EACH: &str = "
    mad.lo.u32 %r1, %part, 64, %t;
    mul.wide.u32 %rd7, %r1, 4;
    add.u64 %rd7, %rd2, %rd7;
    st.global.u32 [%rd7], %r0;
    membar.gl; // release
    bar.sync 0; // meet
    setp.ne.u32 %p0, %t, 0;
    @%p0 bra COUNTED;
    atom.global.inc.u32 %r2, [%rd1], 3;
    st.shared.u32 [word], %r2;
    COUNTED: bar.sync 0; // after
    ld.shared.u32 %r2, [word];
    setp.ne.u32 %p1, %r2, 3;
    @%p1 bra END;
    membar.gl; // acquire
    mov.u32 %r7, 0;
    mov.u32 %r8, 0;
    ADD: ld.global.u32 %r9, [%rd5];
    add.u32 %r7, %r7, %r9;
    add.u64 %rd5, %rd5, 256;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, 4;
    @%p3 bra ADD;
    st.global.u32 [%rd6], %r7;
    END:";

/// `fence.sc` are ordered among each other, so the counting thread need not fence the writes of other threads.
#[test]
fn fences_of_threads_that_do_not_write_the_flag() {
    let body = FENCED_BY_EACH;
    check("every thread fences", body);
    for (name, line) in [
        ("no_release", "membar.gl; // release"),
        ("no_barrier", "bar.sync 0; // meet"),
        ("no_acquire", "membar.gl; // acquire"),
        ("no_barrier_after", "COUNTED: bar.sync 0; // after"),
    ] {
        let without = if line.starts_with("COUNTED") { "COUNTED:" } else { "" };
        check_found(name, &[Race, Uninitialised], &mutate(body, line, without));
    }
    check_found("narrow release", &[Race], &mutate(body, "membar.gl; // release", "membar.cta;"));
    check_found("narrow acquire", &[Race], &mutate(body, "membar.gl; // acquire", "membar.cta;"));
    check_found("release of another kind", &[Race], &mutate(body, "membar.gl; // release", "fence.acq_rel.gpu;"));
    // The reader's fence is of another kind: nothing orders it after those of the writers.
    check_found("acquire of another kind", &[Race], &mutate(body, "membar.gl; // acquire", "fence.acq_rel.gpu;"));
}

/// Parts run in the order of a semaphore, as in CUTLASS: one thread reads it, and the block decides at a barrier that
/// reduces whether to read it again.
const SEMAPHORE: &str = "
    setp.ne.u32 %p1, %t, 0;
    mov.u32 %r4, %part;
    @%p1 bra WAIT;
    FETCH: ld.global.acquire.gpu.b32 %r4, [%rd1];
    WAIT: setp.ne.u32 %p2, %r4, %part;
    bar.red.or.pred %p3, 0, %p2;
    @!%p3 bra GO;
    @%p1 bra WAIT;
    bra FETCH;
    GO: bar.sync 0; // go
    mov.u32 %r7, 0;
    setp.eq.u32 %p0, %part, 0;
    @!%p0 ld.global.u32 %r7, [%rd5];
    add.u32 %r7, %r7, %r0;
    st.global.u32 [%rd5], %r7;
    setp.eq.u32 %p4, %part, 3;
    @%p4 st.global.u32 [%rd6], %r7;
    bar.sync 0; // done
    add.u32 %r4, %part, 1;
    selp.u32 %r4, 0, %r4, %p4;
    @!%p1 st.global.release.gpu.b32 [%rd1], %r4;";

/// A block that polls with barriers in between lets the others run.
#[test]
fn a_semaphore_for_the_block() {
    check("semaphore", SEMAPHORE);
    check_found("no_release", &[Race], &mutate(SEMAPHORE, "st.global.release.gpu", "st.global.relaxed.gpu"));
    check_found("no_acquire", &[Race], &mutate(SEMAPHORE, "ld.global.acquire.gpu", "ld.global.relaxed.gpu"));
    check_found("no_barrier", &[Race], &mutate(SEMAPHORE, "bar.sync 0; // done", ""));
}

#[test]
fn blocks_that_share_words() {
    // One word for all: writing different values is a race, and so is reading it.
    check_found("write and write", &[Race], "add.u32 %r1, %t, %part;\nst.global.u32 [%rd6], %r1;");
    let mixed = "setp.eq.u32 %p0, %part, 2;\n@%p0 st.global.u32 [%rd6], %t;\n@!%p0 ld.global.u32 %r1, [%rd6];";
    check_found("write and read", &[Race, Uninitialised], mixed);
    check_found("weak and atomic", &[Race], "red.global.add.u32 [%rd4], 1;\nld.global.u32 %r1, [%rd4];");
    check_found("threads of a block", &[Race], "st.global.u32 [%rd4], 0;\nld.global.u32 %r1, [%rd1+252];");
    // The two halves of a word belong to two threads.
    check_found(
        "halves",
        &[Race],
        "shl.b32 %r1, %part, 1;\nand.b32 %r1, %r1, 2;\ncvt.u64.u32 %rd7, %r1;\nadd.u64 %rd7, %rd6, %rd7;\nst.global.u16 [%rd7], %r0;",
    );
}

#[test]
fn a_race_does_not_depend_on_the_host() {
    let body =
        "setp.eq.u32 %p0, %part, 1;\n@%p0 bra END;\nst.global.u32 [%rd6], %part;\nld.global.u32 %r1, [%rd3+128];\nEND:";
    let reports: Vec<String> = (0..40)
        .map(|turn| {
            let options = Options { threads: Some(1 + turn % 3), ..Options::default() };
            run(body, options).expect_err("a race").to_string()
        })
        .collect();
    assert!(reports.iter().all(|report| *report == reports[0]), "{reports:#?}");
}

/// The order in which blocks reach a counter.
fn tickets(blocks: BlockOrder, grid: u32) -> Vec<u32> {
    let mut device = Device::new(&text(
        "setp.ne.u32 %p0, %t, 0;
         @%p0 bra END;
         atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 1;
         mul.wide.u32 %rd7, %part, 4;
         add.u64 %rd7, %rd3, %rd7;
         st.global.u32 [%rd7], %r1;
         END:",
    ));
    device.options = Options { blocks, ..Options::default() };
    let flags = device.upload("flags", &[0u32]);
    let out = device.reserve("out", u64::from(grid) * 4);
    let args = [Arg::U64(flags), Arg::U64(flags), Arg::U64(out)];
    device.launch([grid, 1, 1], [32, 1, 1], &args).unwrap_or_else(|violation| panic!("{blocks:?}: {violation}"));
    device.words(out, grid as usize)
}

#[test]
fn blocks_take_turns_in_an_order() {
    let forward: Vec<u32> = (0..30).collect();
    assert_eq!(tickets(BlockOrder::Forward, 30), forward);
    assert_eq!(tickets(BlockOrder::Backward, 30), (0..30).rev().collect::<Vec<u32>>());
    let mut seen = vec![forward];
    for seed in 0..6 {
        let order = tickets(BlockOrder::Seeded(seed), 30);
        assert_eq!(tickets(BlockOrder::Seeded(seed), 30), order, "seed {seed}");
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, seen[0], "every block, once");
        assert!(!seen.contains(&order), "seed {seed} repeats another order");
        seen.push(order);
    }
    for grid in [1, 2, 7] {
        assert_eq!(tickets(BlockOrder::Seeded(u64::MAX), grid).len() as u32, grid);
    }
}

/// Two launches may be in flight on one memory; a launch ignores the flags of the other one.
#[test]
fn flags_of_another_launch_are_its_own() {
    let mut device = Device::new(&text("st.global.u32 [%rd4], 1;"));
    let others = device.upload("flags of another launch", &[1u32; 4]);
    device.memory.set_zero_after(others, 16).expect("inside");
    let flags = device.reserve("flags", u64::from(THREADS) * 4);
    let launch = |device: &mut Device, flags: u64| {
        let args = [Arg::U64(flags), Arg::U64(0), Arg::U64(0)];
        device.launch([1; 3], [4, 1, 1], &args).map(drop).map_err(|violation| violation.kind)
    };
    assert_eq!(launch(&mut device, flags), Ok(()));
    assert_eq!(launch(&mut device, others), Err(ViolationKind::NotZero));
}

/// The same seed finds the same violation, with the same report.
#[test]
fn a_seed_is_a_report() {
    let body = mutate(SERIAL, "ld.acquire.gpu", "ld.relaxed.gpu");
    for blocks in BLOCK_ORDERS {
        let report = || {
            let options = Options { blocks, order: WarpOrder::Seeded(3), ..Options::default() };
            run(&body, options).expect_err("a race").to_string()
        };
        assert_eq!(report(), report(), "{blocks:?}");
    }
    let violation = run(&body, Options::default()).expect_err("a race");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("race_past_a_relaxed_flag", violation.to_string());
    });
}
