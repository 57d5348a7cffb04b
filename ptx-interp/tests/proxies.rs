//! A slot that is read and refilled: the proxy_war rule, and knowledge of copies that propagates from thread to thread.

use ptx_gemm_interp::ViolationKind::{Proxy, ProxyInit, ProxyWar, Race};

use ptx_gemm_interp::{Options, Severity};

use crate::copies::{Case, INIT, WAIT, change, runs};

/// Thread 0 fills a slot three times; all threads read it, and signal that through a barrier.
fn refilled() -> String {
    format!(
        "{INIT}mov.u32 %r4, 0;
mov.u32 %r5, 0;
mov.u32 %r1, a;
shl.b32 %r0, %t, 2;
add.u32 %r1, %r1, %r0;
mov.u64 %rd1, %in;
NEXT: @!%p0 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%rd1], 256, [bar];
WAIT: and.b32 %r6, %r4, 1;
WAIT2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r6;
@!%p1 bra WAIT2;
ld.shared.u32 %r2, [%r1];
add.u32 %r5, %r5, %r2;
fence.proxy.async; // war
bar.sync 0; // read
add.u64 %rd1, %rd1, 256;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, 3;
@%p2 bra NEXT;
cvt.u64.u32 %rd0, %r0;
add.u64 %rd0, %out, %rd0;
st.global.u32 [%rd0], %r5;"
    )
}

#[test]
fn reads_before_asynchronous_writes() {
    let want: Vec<u32> = (0..64).map(|t| 3 * (t + 1) + 192).collect();
    Case::new(&refilled(), 64).gives("fenced", &want);
    let wrong = change(&refilled(), "fence.proxy.async; // war", "");
    Case::new(&wrong, 64).warns("not fenced", ProxyWar, "cp.async.bulk");
    let wrong = change(&refilled(), "bar.sync 0; // read", "");
    Case::new(&wrong, 64).breaks("refilled before it was read", &[Race], "");
    // A missing fence after a write is more than a warning.
    let wrong = change(&refilled(), "fence.proxy.async; // war", "st.shared.u32 [%r1], 0;");
    Case::new(&wrong, 64).breaks("written without a fence", &[Proxy], "cp.async.bulk");
}

/// The same, with a second mbarrier instead of the barrier.
fn signalled() -> String {
    let text = change(
        &refilled(),
        "NEXT: @!%p0 bra WAIT;",
        "NEXT: @!%p0 bra WAIT;\nxor.b32 %r7, %r4, 1;\nand.b32 %r7, %r7, 1;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], %r7;\n@!%p1 bra EMPTY;",
    );
    let text = change(&text, "bar.sync 0; // read", "mbarrier.arrive.shared::cta.b64 %rd2, [bar+8]; // read");
    format!("@%p0 mbarrier.init.shared::cta.b64 [bar+8], 64;\n{text}")
}

#[test]
fn an_arrival_at_an_mbarrier_may_overtake_a_read() {
    let want: Vec<u32> = (0..64).map(|t| 3 * (t + 1) + 192).collect();
    Case::new(&signalled(), 64).gives("fenced", &want);
    let fenced = |by: &str| change(&signalled(), "fence.proxy.async; // war", by);
    let strict = || runs().into_iter().map(|options| Options { overtaken: Severity::Deny, ..options });
    // A fence within the generic proxy, and a barrier, wait for the read.
    for by in ["fence.acq_rel.cta;", "bar.sync 0;"] {
        Case::new(&fenced(by), 64).warns(by, ProxyWar, "cp.async.bulk");
        for options in strict() {
            let run = Case::new(&fenced(by), 64).run(&options);
            assert_eq!(run.unwrap_or_else(|violation| panic!("{by} ({options:?}): {violation}")).0[..64], want);
        }
    }
    let late = change(&fenced(""), "// read", "\nfence.acq_rel.cta;");
    let half = fenced("setp.ge.u32 %p3, %t, 32;\n@%p3 fence.proxy.async;");
    for (name, wrong) in [("no fence", fenced("")), ("after the arrival", late), ("in one warp", half)] {
        for options in strict() {
            let violation = Case::new(&wrong, 64).run(&options).expect_err(name);
            assert_eq!(violation.kind, ProxyWar, "{name} ({options:?}): {violation}");
            assert!(violation.to_string().contains("may overtake a read"), "{name} ({options:?}): {violation}");
        }
    }
}

#[test]
fn what_a_copy_has_read_needs_no_fence() {
    // Thread 0 fills a slot, copies it to global memory, waits until it has been read, and fills it again.
    let fill = |from: u32| {
        format!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%in+{from}], 16, [bar];
W{from}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], {};
@!%p1 bra W{from};
cp.async.bulk.global.shared::cta.bulk_group [%out+{from}], [a], 16;
cp.async.bulk.commit_group;
",
            from / 16
        )
    };
    let body = format!(
        "{INIT}@!%p0 bra END;\n{}cp.async.bulk.wait_group.read 0; // read\n{}cp.async.bulk.wait_group 0;\nEND:",
        fill(0),
        fill(16)
    );
    Case::new(&body, 64).gives("waited for", &[1, 2, 3, 4, 5, 6, 7, 8]);
    let wrong = change(&body, "cp.async.bulk.wait_group.read 0; // read", "");
    Case::new(&wrong, 64).breaks("not waited for", &[Race], "cp.async.bulk.shared");
}

#[test]
fn what_a_thread_knows_goes_on_with_barriers() {
    // Only warp 0 waits for the mbarrier; warp 1 learns through the barrier.
    let told = change(
        &refilled(),
        "WAIT: and.b32 %r6, %r4, 1;",
        "WAIT: and.b32 %r6, %r4, 1;\nsetp.ge.u32 %p3, %t, 32;\n@%p3 bra TOLD;",
    );
    let told = change(&told, "ld.shared.u32 %r2", "TOLD: bar.sync 1; // told\nld.shared.u32 %r2");
    let want: Vec<u32> = (0..64).map(|t| 3 * (t + 1) + 192).collect();
    Case::new(&told, 64).gives("told", &want);
    let wrong = change(&told, "bar.sync 1; // told", "");
    Case::new(&wrong, 64).breaks("not told", &[Race], "");
    // A barrier of all threads does not order a copy that no thread has waited for.
    let wrong = change(&told, "WAIT2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r6;\n@!%p1 bra WAIT2;", "");
    Case::new(&wrong, 64).breaks("no thread waits", &[Race], "ld.shared");
}

#[test]
fn a_wait_at_one_mbarrier_says_nothing_of_another() {
    // Two copies, each with its own mbarrier; a thread waits only for the second one.
    let body = format!(
        "@%p0 mbarrier.init.shared::cta.b64 [bar+8], 1;
{INIT}@!%p0 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%in], 16, [bar];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [b], [%in+16], 16, [bar+8];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
@!%p1 bra WAIT;
WAIT2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
@!%p1 bra WAIT2;
@!%p0 bra END;
ld.shared.u32 %r0, [a];
st.global.u32 [%out], %r0;
END:"
    );
    Case::new(&body, 64).gives("both", &[1]);
    let wrong =
        change(&body, "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\n@!%p1 bra WAIT;", "WAIT:");
    Case::new(&wrong, 64).breaks("the other one", &[Race], "");
}

/// Triton's kernels initialise an mbarrier and start a copy by the same thread, with only a barrier in between.
#[test]
fn an_own_mbarrier_without_a_fence() {
    let copy = |starter: u32| {
        format!(
            "@%p0 mbarrier.init.shared::cta.b64 [bar], 1;
bar.sync 0;
setp.eq.u32 %p2, %t, {starter};
@!%p2 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%in], 256, [bar];
{WAIT}"
        )
    };
    let lenient = |options| Options { proxy_init_own: Severity::Warn, ..options };
    for options in runs() {
        let strict = Case::new(&copy(0), 64).run(&options).expect_err("an error by default");
        assert!(strict.kind == ProxyInit && strict.message.contains("the same thread"), "{strict}");
        let (_, report) = Case::new(&copy(0), 64).run(&lenient(options)).expect("a warning");
        let kinds: Vec<_> = report.warnings.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [ProxyInit]);
        // Another thread of the warp, or of another one.
        for starter in [1, 40] {
            let other = Case::new(&copy(starter), 64).run(&lenient(options)).expect_err("an error");
            assert_eq!(other.kind, ProxyInit, "{other}");
        }
    }
}
