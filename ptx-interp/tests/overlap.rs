//! Kernels that start while the ones before them still run: they touch no global memory until `griddepcontrol.wait`.

use ptx_gemm_interp::ViolationKind::Race;
use ptx_gemm_interp::{Arg, Launch, Violation, launch};

use crate::run::Device;

/// `y[i] = x[i] + 1` for 64 threads, with text before the accesses, and between the load and the store.
fn kernel(before: &str, between: &str) -> String {
    format!(
        ".version 8.0
         .target sm_90
         .address_size 64
         .visible .entry add(.param .u64 x, .param .u64 y)
         {{
             .reg .pred %p<2>;
             .reg .u32 %r<4>;
             .reg .u64 %rd<8>;
             .shared .align 8 .b64 done;
             mov.u32 %r0, %tid.x;
             mul.wide.u32 %rd0, %r0, 4;
             ld.param.u64 %rd1, [x];
             ld.param.u64 %rd2, [y];
             add.u64 %rd1, %rd1, %rd0;
             add.u64 %rd2, %rd2, %rd0;
             setp.eq.u32 %p0, %r0, 40;
             {before}
             ld.global.u32 %r1, [%rd1];
             add.u32 %r1, %r1, 1;
             {between}
             st.global.u32 [%rd2], %r1;
             ret;
         }}"
    )
}

fn run(text: &str, overlaps: bool) -> Result<Vec<u32>, Violation> {
    let device = Device::new(text);
    let x = device.upload("x", &(0..64u32).collect::<Vec<_>>());
    let y = device.upload("y", &[0u32; 64]);
    let args = [Arg::U64(x), Arg::U64(y)];
    let what = Launch { entry: "add", block: [64, 1, 1], args: &args, overlaps, ..Launch::default() };
    launch(&device.program, &device.memory, &what, &device.options)?;
    Ok(device.words(y, 64))
}

#[track_caller]
fn right(before: &str) {
    assert_eq!(run(&kernel(before, ""), true).unwrap(), (1..=64).collect::<Vec<_>>());
}

/// Expects a report of an instruction with this text, by this thread.
#[track_caller]
fn early((before, between): (&str, &str), instruction: &str, thread: u32) {
    let text = kernel(before, between);
    run(&text, false).expect("without an overlap it is right");
    let violation = run(&text, true).expect_err("an access comes too early");
    let text = violation.to_string();
    assert_eq!(violation.kind, Race, "{text}");
    assert!(text.contains(instruction) && text.contains("launched before may still run"), "{text}");
    assert!(text.contains(&format!("thread ({thread},0,0)")), "{text}");
}

#[test]
fn threads_that_have_waited_access_memory() {
    right("griddepcontrol.wait;");
    right("griddepcontrol.launch_dependents; griddepcontrol.wait;");
}

#[test]
fn one_thread_waits_and_a_barrier_orders_the_others_after_it() {
    right("@%p0 griddepcontrol.wait; bar.sync 0;");
}

#[test]
fn an_access_without_a_wait_is_too_early() {
    early(("", ""), "ld.global", 0);
    early(("griddepcontrol.launch_dependents;", ""), "ld.global", 0);
    early(("", "griddepcontrol.wait;"), "ld.global", 0);
}

#[test]
fn the_wait_of_one_thread_orders_nothing_for_others() {
    early(("@%p0 griddepcontrol.wait;", ""), "ld.global", 0);
    // Threads 32 to 63 wait.
    early(("setp.ge.u32 %p1, %r0, 32; @%p1 griddepcontrol.wait;", ""), "ld.global", 0);
    // All but one wait.
    early(("@!%p0 griddepcontrol.wait;", ""), "ld.global", 40);
    // The barrier comes before the wait.
    early(("bar.sync 0; @%p0 griddepcontrol.wait;", ""), "ld.global", 0);
}

#[test]
fn bulk_copies_start_after_the_wait() {
    let copy = "setp.eq.u32 %p1, %r0, 0;
                @!%p1 bra OVER;
                mov.u32 %r2, done;
                mbarrier.init.shared.b64 [%r2], 1;
                fence.proxy.async.shared::cta;
                WAIT
                cp.async.bulk.prefetch.L2.global [%rd1], 256;
                cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 256, [%r2];
                mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
                AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0;
                @!%p1 bra AGAIN;
                OVER: griddepcontrol.wait;";
    let text = |wait: &str| {
        let text = kernel(&copy.replace("WAIT", wait), "");
        text.replace(".shared .align 8 .b64 done;", ".shared .align 8 .b64 done;\n.shared .align 128 .b8 tile[256];")
    };
    assert_eq!(run(&text("griddepcontrol.wait;"), true).unwrap(), (1..=64).collect::<Vec<_>>());
    let violation = run(&text(""), true).expect_err("the copy starts too early");
    assert_eq!(violation.kind, Race, "{violation}");
    assert!(violation.to_string().contains("cp.async.bulk.shared"), "{violation}");
}
