//! Loops that wait for an event that never happens, although they pass barriers or store in each iteration; and loops
//! that do the same things and end, because they count.

use ptx_gemm_interp::ViolationKind::Deadlock;
use ptx_gemm_interp::{Arg, Checks, Options, Violation, WarpOrder};

use crate::ring::{ORDERS, STORE, check, text};
use crate::run::Device;

/// Runs a kernel on two blocks. `%in` is a flag that is 0, followed by words that are 5.
fn run(body: &str, threads: u32, options: Options) -> Result<Vec<u32>, Violation> {
    let mut device = Device::new(&text(body));
    device.options = options;
    let input = device.upload("in", &[0, 5, 5, 5]);
    let out = device.upload("out", &vec![0u32; 2 * threads as usize]);
    device.launch([2, 1, 1], [threads, 1, 1], &[Arg::U64(input), Arg::U64(out)])?;
    Ok(device.words(out, 2 * threads as usize))
}

/// Checks that a kernel is found to wait forever at a line, under every order.
fn waits(name: &str, body: &str, threads: u32, line: &str) {
    for order in ORDERS {
        for checks in [Checks::Full, Checks::Off] {
            for host in [1, 2] {
                let max_instructions = Some(1 << 16);
                let options = Options { order, checks, threads: Some(host), max_instructions, ..Options::default() };
                let Err(violation) = run(body, threads, options) else { panic!("{name} ({options:?}) ends") };
                assert_eq!(violation.kind, Deadlock, "{name} ({options:?}): {violation}");
                let message = violation.to_string();
                assert!(message.contains("waits for a change of 4 bytes at"), "{name} ({options:?}): {message}");
                assert!(violation.site.instruction.contains(line), "{name} ({options:?}): {message}");
            }
        }
    }
}

/// A loop that reads the flag, and ends when it is not 0.
fn wait(before: &str, after: &str) -> String {
    format!(
        "mov.u32 %r6, 0;
         setp.eq.u32 %p0, %t, 0;
         @%p0 st.shared.u32 [scratch], 5;
         bar.sync 0;
         WAIT: {before}
         ld.volatile.global.u32 %r5, [%in];
         {after}
         setp.eq.u32 %p2, %r5, 0;
         @%p2 bra WAIT;"
    )
}

const FLAG: &str = "ld.volatile.global";
/// Stores the value that is already there.
const SAME: &str = "@%p0 st.shared.u32 [scratch], 5;";
const SAME_GLOBAL: &str = "@%p0 st.global.u32 [%out], 0;";

#[test]
fn waits_with_barriers_in_between() {
    waits("barrier", &wait("bar.sync 0;", ""), 64, FLAG);
    waits("barrier after the read", &wait("", "bar.sync 0;"), 64, FLAG);
    waits("barrier and store", &wait("bar.sync 0;", SAME), 96, FLAG);
    waits("barrier and store to global memory", &wait("bar.sync 0;", SAME_GLOBAL), 96, FLAG);
    waits("two barriers", &wait("bar.sync 0;", "bar.sync 1;"), 64, FLAG);
    // The stage index of a ring: the registers repeat after three iterations.
    let ring = "add.u32 %r6, %r6, 1;\nsetp.eq.u32 %p3, %r6, 3;\nselp.b32 %r6, 0, %r6, %p3;\nbar.sync 0;";
    waits("ring", &wait(ring, ""), 64, FLAG);
    // Two warps poll together; a third one waits for them, or has exited.
    let part = |rest: &str| {
        let skip = "setp.ge.u32 %p4, %t, 64;\n@%p4 bra REST;\nWAIT:";
        format!("{}\nREST: {rest}", wait("bar.sync 1, 64;", "").replace("WAIT:", skip))
    };
    waits("a part, the rest waits", &part("bar.sync 0;"), 96, FLAG);
    waits("a part, the rest exits", &part(""), 96, FLAG);
    // One thread reads, and the block decides at a barrier.
    let semaphore = "setp.ne.u32 %p1, %t, 0;
         mov.u32 %r4, 0;
         @%p1 bra WAIT;
         FETCH: ld.acquire.gpu.global.b32 %r4, [%in];
         WAIT: setp.ne.u32 %p2, %r4, 7;
         bar.red.or.pred %p3, 0, %p2;
         @!%p3 bra GO;
         @%p1 bra WAIT;
         bra FETCH;
         GO:";
    waits("semaphore", &semaphore.replace("mov.u32 %r4, 0;", "mov.u32 %r4, 7;"), 64, "ld.acquire");
}

/// A weak read may poll as well. That is a race once the flag is written, and an endless loop without a report if it
/// never is.
#[test]
fn weak_waits_with_barriers_in_between() {
    let weak = wait("", "bar.sync 0;").replace("ld.volatile.global", "ld.global.cg");
    for order in ORDERS {
        for checks in [Checks::Full, Checks::Off] {
            let options = Options { order, checks, max_instructions: Some(1 << 16), ..Options::default() };
            let Err(violation) = run(&weak, 64, options) else { panic!("{options:?} ends") };
            assert_eq!(violation.kind, Deadlock, "{options:?}: {violation}");
        }
    }
}

#[test]
fn waits_that_store() {
    waits("store", &wait("", SAME), 32, FLAG);
    waits("store to global memory", &wait("", SAME_GLOBAL), 32, FLAG);
    waits("store of the flag's value", &wait("", "@%p0 st.volatile.global.u32 [%out], %r5;"), 1, FLAG);
    let row = "mad.lo.u32 %r8, %t, 4, %r7;\nst.shared.u32 [%r8], 5;";
    waits("store of a row", &wait("mov.u32 %r7, ring;", row), 64, FLAG);
    let bytes = "@%p0 st.shared.u16 [scratch+2], 0;\n@%p0 st.shared.u8 [scratch], -251;";
    waits("store of bytes", &wait("", bytes), 32, FLAG);
}

/// One loop for each kind of wait, ended by a counter. `{count}` is replaced by the number of iterations.
#[test]
fn loops_that_end() {
    let counted = |text: &str| format!("{text}\nadd.u32 %r6, %r6, 1;\nsetp.eq.u32 %p4, %r6, {{count}};\n@%p4 bra END;");
    let end = format!("\nEND: mov.u32 %r0, 9;\n{STORE}");
    // The counter is in memory, or is a clock, and is in no register when the threads synchronise.
    let local = "ld.local.u32 %r9, [local];\nadd.u32 %r9, %r9, 1;\nst.local.u32 [local], %r9;
         setp.eq.u32 %p4, %r9, {count};\nmov.u32 %r9, 0;\n@%p4 bra END;";
    let shared = "@%p0 atom.shared.add.u32 %r9, [scratch+8], 1;\nbar.sync 0;\nld.volatile.shared.u32 %r9, [scratch+8];
         setp.eq.u32 %p4, %r9, {count};\nmov.u32 %r9, 0;\nbar.sync 0;\n@%p4 bra END;";
    let clock = "mov.u32 %r9, %clock;\nsetp.gt.u32 %p4, %r9, {count}0;\nmov.u32 %r9, 0;\nbar.red.or.pred %p4, 0, %p4;\n@%p4 bra END;";
    let local_memory =
        |body: String| format!(".local .align 4 .b32 local;\nst.local.u32 [local], 0;\nmov.u32 %r9, 0;\n{body}");
    let initial = "@%p0 st.shared.u32 [scratch], 5;\n@%p0 st.shared.u32 [scratch+8], 0;";
    let in_shared = wait("", shared).replacen("@%p0 st.shared.u32 [scratch], 5;", initial, 1);
    let loops = [
        ("barrier", wait("bar.sync 0;", &counted("")), 64),
        ("barrier and store", wait("bar.sync 0;", &counted(SAME)), 64),
        ("barrier and store to global memory", wait("bar.sync 0;", &counted(SAME_GLOBAL)), 64),
        ("store", wait("", &counted(SAME)), 32),
        ("store to global memory", wait("", &counted(SAME_GLOBAL)), 32),
        ("barrier, counter in local memory", local_memory(wait("bar.sync 0;", local)), 64),
        ("store, counter in local memory", local_memory(wait(SAME, local)), 32),
        ("barriers, counter in shared memory", in_shared, 64),
        ("barriers, clock", wait("bar.sync 0;", clock), 64),
    ];
    for (index, (name, body, threads)) in loops.into_iter().enumerate() {
        let body = body + &end;
        for order in ORDERS.into_iter().take(4) {
            for checks in [Checks::Full, Checks::Off] {
                let options = Options { order, checks, threads: Some(1), ..Options::default() };
                let long = order == WarpOrder::RunToBarrier && checks == Checks::Full;
                // A barrier, a store and a counter in memory, for as long as an endless loop could look like one that ends.
                let count = if !long {
                    "1000"
                } else if index % 3 == 0 {
                    "100000"
                } else {
                    "20000"
                };
                let body = body.replace("{count}", count);
                match run(&body, threads, options) {
                    Ok(words) => assert!(words.iter().all(|word| *word == 9), "{name} ({options:?}): {words:?}"),
                    Err(violation) => panic!("{name} ({options:?}): {violation}"),
                }
            }
        }
    }
}

/// A wait that ends: another warp sets the flag after a while, and stores the same value many times before.
#[test]
fn waits_that_another_warp_ends() {
    let body = |between: &str| {
        format!(
            "mov.u32 %r0, 0;
             mov.u32 %r6, 0;
             setp.eq.u32 %p0, %t, 0;
             @%p0 st.shared.u32 [scratch], 0;
             bar.sync 0;
             setp.ge.u32 %p1, %t, 64;
             @%p1 bra SET;
             WAIT: {between}
             ld.acquire.cta.shared.u32 %r0, [scratch];
             setp.eq.u32 %p2, %r0, 0;
             bar.red.or.pred %p2, 1, 64, %p2;
             @%p2 bra WAIT;
             bra END;
             SET: setp.eq.u32 %p3, %t, 64;
             DELAY: @%p3 st.release.cta.shared.u32 [scratch], 0;
             add.u32 %r6, %r6, 1;
             setp.lt.u32 %p4, %r6, 120;
             @%p4 bra DELAY;
             @%p3 st.release.cta.shared.u32 [scratch], 8;
             END: {STORE}"
        )
    };
    let want: Vec<u32> = (0..96).map(|t| if t < 64 { 8 } else { 0 }).collect();
    check("barriers", &body(""), 96, &want);
    check("barriers and stores", &body("@%p0 st.shared.u32 [spare], 3;"), 96, &want);
}
