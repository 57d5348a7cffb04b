//! What strong reads may not return, although nothing orders them after a write: litmus tests of the memory model (PTX ISA,
//! "Axioms").

use ptx_gemm_interp::{Arg, BlockOrder, Options};

use crate::ring::ORDERS;
use crate::run::Device;

const BLOCK_ORDERS: [BlockOrder; 4] =
    [BlockOrder::Forward, BlockOrder::Backward, BlockOrder::Interleaved, BlockOrder::Seeded(5)];

/// Runs a kernel with the words `%x` and `%y` that are 0, and returns the value of `%r0` of each thread at the end.
fn run(body: &str, blocks: u32, threads: u32, options: Options) -> Vec<u32> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 flags, .param .u64 out) {{
.reg .b64 %x;\n.reg .b64 %y;\n.reg .b64 %out;\n.reg .b64 %rd<8>;\n.reg .b32 %r<16>;\n.reg .b32 %t;\n.reg .b32 %c;\n.reg .pred %p<8>;
ld.param.u64 %x, [flags];\nld.param.u64 %out, [out];\nadd.u64 %y, %x, 64;\nmov.u32 %r0, 0;
mov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\nsetp.eq.u32 %p0, %t, 0;
{body}
END: mov.u32 %r15, %ntid.x;\nmad.lo.u32 %r15, %c, %r15, %t;\nmul.wide.u32 %rd7, %r15, 4;\nadd.u64 %rd7, %out, %rd7;
st.global.u32 [%rd7], %r0;\nret;\n}}\n"
    );
    let mut device = Device::new(&text);
    device.options = options;
    let flags = device.upload("flags", &[0u32; 32]);
    let out = device.reserve("out", u64::from(blocks * threads) * 4);
    let ran = device.launch([blocks, 1, 1], [threads, 1, 1], &[Arg::U64(flags), Arg::U64(out)]);
    ran.unwrap_or_else(|violation| panic!("{options:?}: {violation}\n{body}"));
    device.words(out, (blocks * threads) as usize)
}

/// Runs it in many orders; returns whether any of them shows `seen`.
fn ever(body: &str, blocks: u32, threads: u32, seen: impl Fn(&[u32]) -> bool) -> bool {
    let orders = ORDERS.iter().flat_map(|order| BLOCK_ORDERS.map(|blocks| (*order, blocks)));
    let options = |(order, blocks)| Options {
        order,
        blocks,
        threads: Some(1),
        max_instructions: Some(1 << 20),
        ..Options::default()
    };
    orders.map(options).any(|options| seen(&run(body, blocks, threads, options)))
}

/// Block 0 writes `x`, and block 1 reads it twice: the tens digit, then the ones digit.
fn twice(one: &str, other: &str) -> bool {
    let body = format!(
        "setp.eq.u32 %p1, %c, 0;
         @%p1 st.relaxed.gpu.global.u32 [%x], 1;
         @%p1 bra END;
         {one}
         {other}
         mad.lo.u32 %r0, %r1, 10, %r2;"
    );
    ever(&body, 2, 1, |words| words[1] == 10)
}

#[test]
fn a_thread_that_has_seen_a_value_does_not_see_an_older_one() {
    let relaxed = "ld.relaxed.gpu.global.u32 %r2, [%x];";
    for one in [
        "ld.relaxed.gpu.global.u32 %r1, [%x];",
        "ld.acquire.gpu.global.u32 %r1, [%x];",
        "ld.volatile.global.u32 %r1, [%x];",
        "ld.volatile.global.v2.u32 {%r1, %r3}, [%x];",
        "ld.relaxed.gpu.global.u64 %rd0, [%x];\ncvt.u32.u64 %r1, %rd0;",
        "atom.relaxed.gpu.global.or.b32 %r1, [%x], 0;",
    ] {
        assert!(!twice(one, relaxed), "{one}");
    }
    // The other way round, both values are possible, and the older one comes first.
    assert!(ever(
        "setp.eq.u32 %p1, %c, 0;\n@%p1 st.relaxed.gpu.global.u32 [%x], 1;\n@%p1 bra END;
        ld.relaxed.gpu.global.u32 %r1, [%x];\nld.relaxed.gpu.global.u32 %r2, [%x];\nmad.lo.u32 %r0, %r1, 10, %r2;",
        2,
        1,
        |words| words[1] == 1
    ));
}

/// Thread 0 of block 1 waits for `x`, and all threads read it after a barrier.
fn met(wait: &str, meet: &str) -> bool {
    let body = format!(
        "setp.eq.u32 %p1, %c, 0;
         @!%p1 bra READ;
         @%p0 st.relaxed.gpu.global.u32 [%x], 1;
         mov.u32 %r0, 1;
         bra END;
         READ: @!%p0 bra MEET;
         WAIT: {wait}
         setp.eq.u32 %p2, %r1, 0;
         @%p2 bra WAIT;
         MEET: {meet}
         ld.relaxed.gpu.global.u32 %r0, [%x];"
    );
    ever(&body, 2, 64, |words| words[64..].contains(&0))
}

#[test]
fn what_a_thread_has_seen_those_that_it_meets_see() {
    for wait in ["ld.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32", "ld.volatile.global.u32"] {
        let wait = format!("{wait} %r1, [%x];");
        assert!(!met(&wait, "bar.sync 0;"), "{wait}");
        assert!(met(&wait, ""), "nothing lets them meet");
    }
}

#[test]
fn what_a_thread_has_seen_those_see_that_see_its_flag() {
    let third = |fences: [&str; 2]| {
        format!(
            "setp.eq.u32 %p1, %c, 0;
             setp.eq.u32 %p2, %c, 1;
             @%p1 st.relaxed.gpu.global.u32 [%x], 1;
             @%p1 bra END;
             @%p2 bra PASS;
             LAST: ld.relaxed.gpu.global.u32 %r1, [%y];
             setp.eq.u32 %p3, %r1, 0;
             @%p3 bra LAST;
             {}
             ld.relaxed.gpu.global.u32 %r0, [%x];
             bra END;
             PASS: ld.relaxed.gpu.global.u32 %r1, [%x];
             setp.eq.u32 %p3, %r1, 0;
             @%p3 bra PASS;
             {}
             st.relaxed.gpu.global.u32 [%y], 1;",
            fences[1], fences[0]
        )
    };
    let stale = |fences| ever(&third(fences), 3, 1, |words| words[2] == 0);
    let fence = "fence.acq_rel.gpu;";
    assert!(!stale([fence, fence]));
    assert!(stale([fence, ""]), "without a fence of the reader");
    assert!(stale(["", fence]), "without a fence of the writer");
    assert!(stale(["fence.acq_rel.cta;", fence]), "a fence for the block alone");
}

#[test]
fn one_of_two_threads_sees_the_others_write_before_its_fence() {
    let both = |fence: &str| {
        let body = format!(
            "setp.eq.u32 %p1, %c, 0;
             selp.b64 %rd0, %x, %y, %p1;
             selp.b64 %rd1, %y, %x, %p1;
             st.relaxed.gpu.global.u32 [%rd0], 1;
             {fence}
             ld.relaxed.gpu.global.u32 %r0, [%rd1];"
        );
        ever(&body, 2, 1, |words| words == [0, 0])
    };
    assert!(!both("fence.sc.gpu;"));
    assert!(!both("membar.gl;"));
    assert!(both(""));
    assert!(both("fence.acq_rel.gpu;"), "acquire and release order nothing of this kind");
    // In shared memory, for two warps.
    let shared = |fence: &str| {
        let body = format!(
            ".shared .b32 a; .shared .b32 b;
             @%p0 st.shared.u32 [a], 0;
             @%p0 st.shared.u32 [b], 0;
             bar.sync 0;
             and.b32 %r1, %t, 31;
             setp.ne.u32 %p2, %r1, 0;
             mov.u32 %r0, 7;
             @%p2 bra END;
             mov.u32 %r3, a;
             mov.u32 %r4, b;
             selp.b32 %r5, %r3, %r4, %p0;
             selp.b32 %r6, %r4, %r3, %p0;
             st.relaxed.cta.shared.u32 [%r5], 1;
             {fence}
             ld.relaxed.cta.shared.u32 %r0, [%r6];"
        );
        ever(&body, 1, 64, |words| words[0] == 0 && words[32] == 0)
    };
    assert!(!shared("fence.sc.cta;"));
    assert!(shared(""));
}
