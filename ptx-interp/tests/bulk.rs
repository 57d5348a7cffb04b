//! Bulk copies of flat memory: both directions, reductions, groups, and every part that can be missing.

use ptx_gemm_interp::ViolationKind::{
    BarrierMisuse, Deadlock, Misaligned, OutOfBounds, Proxy, ProxyInit, Race, Uninitialised,
};
use ptx_gemm_interp::{Checks, Options};

use crate::copies::{Case, INIT, WAIT, change};

/// Thread 0 loads 256 bytes; every thread stores its word.
fn load() -> String {
    format!(
        "{INIT}@!%p0 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%in], 256, [bar];
{WAIT}shl.b32 %r0, %t, 2;
mov.u32 %r1, a;
add.u32 %r1, %r1, %r0;
ld.shared.u32 %r2, [%r1];
cvt.u64.u32 %rd0, %r0;
add.u64 %rd0, %out, %rd0;
st.global.u32 [%rd0], %r2;"
    )
}

/// Every thread writes a word to shared memory, and thread 0 stores them all.
fn store() -> String {
    "shl.b32 %r0, %t, 2;
mov.u32 %r1, a;
add.u32 %r1, %r1, %r0;
add.u32 %r2, %t, 100;
st.shared.u32 [%r1], %r2;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p0 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%out], [a], 256; // store
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
END:"
        .into()
}

#[test]
fn loads() {
    let want: Vec<u32> = (1..=64).collect();
    Case::new(&load(), 64).gives("load", &want);
    let plain = change(&load(), "fence.mbarrier_init.release.cluster", "fence.proxy.async");
    Case::new(&plain, 64).gives("a proxy fence after the initialisation", &want);
    // Bytes announced in two parts, after the copy has started.
    let apart = change(&load(), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;", "");
    let apart = change(
        &apart,
        WAIT,
        &format!(
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 56;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 200;\n{WAIT}"
        ),
    );
    Case::new(&apart, 64).gives("announced late", &want);
    // The block is its own cluster.
    let remote = change(
        &load(),
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;",
        "mapa.shared::cluster.u32 %r9, bar, 0;
        mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r9], 256;",
    );
    Case::new(&remote, 64).gives("an arrival by a cluster address", &want);
    let multicast = load()
        .replace(
            "complete_tx::bytes [a], [%in], 256, [bar];",
            "complete_tx::bytes.multicast::cluster [a], [%in], 256, [bar], %h0;",
        )
        .replace("@!%p0 bra WAIT;", "mov.b16 %h0, 1;\n@!%p0 bra WAIT;");
    Case::new(&multicast, 64).gives("multicast to itself", &want);
    let others = change(&multicast, "mov.b16 %h0, 1;", "mov.b16 %h0, 3;");
    Case::new(&others, 64).breaks("multicast to others", &[OutOfBounds], "multicast");
}

#[test]
fn broken_loads() {
    let breaks = |name: &str, kinds: &[_], from: &str, to: &str, at: &str| {
        Case::new(&change(&load(), from, to), 64).breaks(name, kinds, at);
    };
    let expect = "[bar], 256;\ncp";
    breaks("no wait", &[Race, Uninitialised], WAIT, "WAIT:", "ld.shared");
    breaks("the other parity", &[Race, Uninitialised, Deadlock], "[bar], 0;", "[bar], 1;", "");
    breaks("a relaxed wait", &[Race], "try_wait.parity.shared", "try_wait.parity.relaxed.cta.shared", "ld.shared");
    breaks("16 bytes too few announced", &[BarrierMisuse], expect, "[bar], 240;\ncp", "expect_tx");
    breaks("16 bytes too many announced", &[Deadlock], expect, "[bar], 272;\ncp", "try_wait");
    breaks(
        "nothing announced",
        &[BarrierMisuse, Race],
        ".expect_tx.shared::cta.b64 _, [bar], 256;",
        ".shared::cta.b64 _, [bar];",
        "",
    );
    breaks(
        "no fence after the initialisation",
        &[ProxyInit],
        "@%p0 fence.mbarrier_init.release.cluster; // fence of init",
        "",
        "cp.async.bulk",
    );
    breaks("no mbarrier", &[BarrierMisuse], "256, [bar];", "256, [bar+8];", "cp.async.bulk");
    breaks("17 bytes", &[Misaligned], "[%in], 256", "[%in], 17", "cp.async.bulk");
    breaks("a misaligned source", &[Misaligned], "[%in], 256", "[%in+8], 256", "cp.async.bulk");
    breaks("a misaligned destination", &[Misaligned], "[a], [%in]", "[a+8], [%in]", "cp.async.bulk");
    breaks("a misaligned mbarrier", &[Misaligned], "256, [bar];", "256, [bar+4];", "cp.async.bulk");
    breaks("beyond the source", &[OutOfBounds], "[%in], 256", "[%in+3856], 256", "cp.async.bulk");
    breaks("beyond the destination", &[OutOfBounds], "[a], [%in], 256", "[a], [%in], 1000000", "cp.async.bulk");
    breaks("onto the mbarrier", &[BarrierMisuse], "[a], [%in], 256", "[bar], [%in], 16", "cp.async.bulk");
    // Two copies to the same bytes.
    let twice = "[a], [%in], 256, [bar];\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%in], 256, [bar];";
    breaks("twice", &[Race], "[a], [%in], 256, [bar];", twice, "cp.async.bulk");
    // A generic write that the copy overwrites, fenced and not.
    let before = "@%p0 st.shared.u32 [a], 1;\nbar.sync 0; // init";
    breaks("a write before it", &[Proxy], "bar.sync 0; // init", before, "cp.async.bulk");
    let fenced = "@%p0 st.shared.u32 [a], 1;\nfence.proxy.async;\nbar.sync 0; // init";
    Case::new(&change(&load(), "bar.sync 0; // init", fenced), 64).gives("a fenced write", &[1, 2, 3]);
    // Fenced by the thread that starts the copy instead of the one that wrote.
    let late = "setp.eq.u32 %p2, %t, 1;\n@%p2 st.shared.u32 [a], 1;\nbar.sync 0; // init\nfence.proxy.async;";
    let late = change(&load(), "bar.sync 0; // init", late);
    Case::new(&late, 64).warns("a late fence", Proxy, "cp.async.bulk");
    let other = change(&late, "fence.proxy.async;", "@!%p0 fence.proxy.async;");
    Case::new(&other, 64).breaks("a late fence of others", &[Proxy], "cp.async.bulk");
}

#[test]
fn a_block_does_not_exit_before_its_copies() {
    let body =
        change(&load(), "WAIT: mbarrier", "WAIT: ret;\nNEVER: mbarrier").replace("bra WAIT;\nshl", "bra NEVER;\nshl");
    let violation = Case::new(&body, 64).run(&Options::default()).expect_err("the copy is in flight");
    assert_eq!(violation.kind, Race, "{violation}");
    assert!(violation.site.instruction.contains("cp.async.bulk"), "{violation}");
}

#[test]
fn global_memory_has_two_proxies_too() {
    let write = "@%p0 st.global.u32 [%in], 9;\nfence.proxy.async.global;\nbar.sync 0; // init";
    let right = change(&load(), "bar.sync 0; // init", write);
    Case::new(&right, 64).gives("fenced", &[9, 2, 3]);
    let wrong = change(&right, "fence.proxy.async.global;", "");
    Case::new(&wrong, 64).breaks("not fenced", &[Proxy], "cp.async.bulk");
    let write = "setp.eq.u32 %p3, %t, 1;\n@%p3 st.global.u32 [%in], 9;\nbar.sync 0; // init\nfence.proxy.async.global;";
    let late = change(&load(), "bar.sync 0; // init", write);
    Case::new(&late, 64).warns("fenced by the thread that copies", Proxy, "cp.async.bulk");
    let wrong = change(&right, "fence.proxy.async.global;", "fence.proxy.async.shared::cta;");
    Case::new(&wrong, 64).breaks("the other fence", &[Proxy], "cp.async.bulk");
    // The last thread writes after the barrier, unordered with the copy.
    let during = "setp.eq.u32 %p3, %t, 63;\n@%p3 st.global.u32 [%in+252], 9;\n";
    let wrong = change(&load(), WAIT, &format!("WAIT0: {during}{WAIT}").replace("WAIT0: ", ""));
    for options in crate::copies::runs() {
        // The second access is reported, whichever it is.
        let wrong =
            change(&wrong, "@!%p0 bra WAIT;", "@!%p0 bra NOT;").replace("setp.eq.u32 %p3", "NOT: setp.eq.u32 %p3");
        let violation = Case::new(&wrong, 64).run(&options);
        if let Err(violation) = violation {
            assert_eq!(violation.kind, Race, "{options:?}: {violation}");
        }
    }
}

#[test]
fn stores() {
    let want: Vec<u32> = (100..164).collect();
    Case::new(&store(), 64).gives("store", &want);
    let breaks = |name: &str, kinds: &[_], from: &str, to: &str, at: &str| {
        Case::new(&change(&store(), from, to), 64).breaks(name, kinds, at);
    };
    breaks("no proxy fence", &[Proxy], "fence.proxy.async.shared::cta;", "", "cp.async.bulk");
    breaks("the other fence", &[Proxy], "fence.proxy.async.shared::cta;", "fence.proxy.async.global;", "cp.async.bulk");
    let fence = "fence.proxy.async.shared::cta;\nbar.sync 0;";
    let after = change(&store(), fence, "bar.sync 0;\nfence.proxy.async.shared::cta;");
    Case::new(&after, 64).warns("a fence after the barrier", Proxy, "cp.async.bulk");
    breaks(
        "a fence of one thread",
        &[Proxy],
        fence,
        "@%p0 fence.proxy.async.shared::cta;\nbar.sync 0;",
        "cp.async.bulk",
    );
    breaks("no barrier", &[Race, Uninitialised], "bar.sync 0;", "", "");
    breaks("no wait", &[Race], "cp.async.bulk.wait_group.read 0;", "", "cp.async.bulk");
    breaks("no group", &[Race], "cp.async.bulk.commit_group;", "", "cp.async.bulk");
    breaks("a wait for all but one", &[Race], "wait_group.read 0", "wait_group.read 1", "cp.async.bulk");
    breaks("what was never written", &[Uninitialised], "[a], 256;", "[b], 256;", "cp.async.bulk");
    breaks("beyond the destination", &[OutOfBounds], "[%out], [a]", "[%out+3856], [a]", "cp.async.bulk");
    breaks("a misaligned destination", &[Misaligned], "[%out], [a]", "[%out+4], [a]", "cp.async.bulk");
    // The source may be overwritten after a wait for the reads; the destination may only be read after a complete wait.
    let again = "wait_group.read 0;\nst.shared.u32 [a], 5;";
    Case::new(&change(&store(), "wait_group.read 0;", again), 64).gives("overwritten after the wait", &want);
    breaks(
        "overwritten before the wait",
        &[Race],
        "cp.async.bulk.wait_group.read 0;",
        "st.shared.u32 [a], 5;\ncp.async.bulk.wait_group.read 0;",
        "st.shared",
    );
    let read = "cp.async.bulk.wait_group 0;\nld.global.u32 %r5, [%out];\nst.global.u32 [%out+1024], %r5;";
    let body = change(&store(), "cp.async.bulk.wait_group.read 0;", read);
    Case::new(&body, 64).gives("read after the wait", &want);
    let body = change(&body, "wait_group 0", "wait_group.read 0");
    Case::new(&body, 64).breaks("read after half a wait", &[Race], "ld.global");
}

#[test]
fn groups_are_waited_for_in_order() {
    let body = "@!%p0 bra END;
        st.shared.v4.u32 [a], {1, 2, 3, 4};
        st.shared.v4.u32 [b], {5, 6, 7, 8};
        fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [a], 16;
        cp.async.bulk.commit_group;
        cp.async.bulk.global.shared::cta.bulk_group [%out+16], [b], 16;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 1;
        st.shared.u32 [a], 9;
        cp.async.bulk.wait_group 0;
        END:";
    Case::new(body, 32).gives("two groups", &[1, 2, 3, 4, 5, 6, 7, 8]);
    let wrong = change(body, "st.shared.u32 [a], 9;", "st.shared.u32 [b], 9;");
    Case::new(&wrong, 32).breaks("the newer group", &[Race], "st.shared.u32 [b], 9");
}

#[test]
fn reductions() {
    let one = |op: &str, words: &str| {
        format!(
            "@!%p0 bra END;
            st.shared.v4.b32 [a], {words};
            fence.proxy.async;
            cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [%out], [a], 16;
            cp.async.bulk.commit_group;
            cp.async.bulk.wait_group 0;
            END:"
        )
    };
    let sevens = 7 << 32 | 7u64;
    let wide = |value: u64| [value as u32, (value >> 32) as u32];
    let cases: [(&str, &str, [u32; 4]); 8] = [
        ("add.u32", "{1, 2, 3, -1}", [8, 9, 10, 6]),
        ("min.s32", "{1, -2, 8, 7}", [1, -2i32 as u32, 7, 7]),
        ("max.u32", "{1, -2, 8, 7}", [7, -2i32 as u32, 8, 7]),
        ("inc.u32", "{7, 8, 3, 0}", [0, 8, 0, 0]),
        ("dec.u32", "{7, 3, 8, 0}", [6, 3, 6, 0]),
        ("and.b32", "{1, 2, 5, 8}", [1, 2, 5, 0]),
        ("xor.b32", "{1, 2, 5, 8}", [6, 5, 2, 15]),
        ("add.noftz.f16", "{1006632960, 0, 0, 0}", [0x3c00 << 16 | 7, 7, 7, 7]),
    ];
    for (op, words, want) in cases {
        Case::new(&one(op, words), 32).gives(op, &want);
    }
    let [low, high] = wide(sevens.wrapping_add(u64::from(u32::MAX)));
    Case::new(&one("add.u64", "{-1, 0, 0, 0}"), 32).gives("add.u64", &[low, high, 7, 7]);
    // In shared memory, counted by an mbarrier.
    let body = format!(
        "@%p0 st.shared.v4.b32 [a], {{1, 2, 3, 4}};
        @%p0 st.shared.v4.b32 [b], {{10, 20, 30, 40}};
        @%p0 fence.proxy.async;
        {INIT}@!%p0 bra WAIT;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32;
        cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [b], [a], 16, [bar];
        cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [c], [a], 16, [bar];
        {WAIT}@!%p0 bra END;
        ld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [b];
        ld.shared.u32 %r4, [c+12];
        st.global.v4.u32 [%out], {{%r0, %r1, %r2, %r3}};
        st.global.u32 [%out+16], %r4;
        END:"
    );
    Case::new(&body, 32).gives("within shared memory", &[11, 22, 33, 44, 4]);
    let overwritten = change(&body, "WAIT: mb", "@%p0 st.shared.u32 [a], 1;\nWAIT: mb");
    Case::new(&overwritten, 32).breaks("a source that is being read", &[Race], "");
}

#[test]
fn many_copies_do_not_pile_up() {
    let body = "@!%p0 bra END;
        st.shared.v4.u32 [a], {1, 2, 3, 4};
        fence.proxy.async;
        MORE: cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [a], 16;
        bra MORE;
        END:";
    for checks in [Checks::Full, Checks::Off] {
        let options = Options { checks, max_instructions: Some(100_000), ..Options::default() };
        let violation = Case::new(body, 32).run(&options).expect_err("it never ends");
        assert_eq!(violation.kind, ptx_gemm_interp::ViolationKind::InstructionLimit, "{violation}");
    }
}

#[test]
fn a_loop_may_wait_for_reads_alone() {
    let body = "@!%p0 bra END;
        mov.u32 %r1, 0;
        MORE: st.shared.v4.u32 [a], {%r1, 2, 3, 4};
        fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [a], 16;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
        add.u64 %out, %out, 16;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, 250;
        @%p1 bra MORE;
        END:";
    let want: Vec<u32> = (0..250).flat_map(|i| [i, 2, 3, 4]).collect();
    Case::new(body, 32).gives("reads alone", &want);
}
