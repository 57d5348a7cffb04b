//! What the verifier rejects, and its messages.

use ptx_gemm_ptx::parse::parse;
use ptx_gemm_ptx::verify::verify;

/// Puts statements into an entry with registers of every kind.
fn module_text(target: &str, version: &str, body: &str) -> String {
    format!(
        ".version {version}
.target {target}
.address_size 64
.extern .shared .align 16 .b8 smem[];
.global .u32 counter;
.visible .entry k(.param .u64 a, .param .align 64 .b8 map[128]) {{
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .f32 %f<16>; .reg .f64 %fd<4>;
    .reg .s32 %s<4>; .reg .f16 %hf<4>;
    {body}
}}
"
    )
}

/// The verifier's messages on a body.
fn messages(target: &str, version: &str, body: &str) -> Vec<String> {
    let module = parse(&module_text(target, version, body)).unwrap_or_else(|error| panic!("{body}: {error}"));
    match verify(&module) {
        Ok(()) => Vec::new(),
        Err(violations) => violations.into_iter().map(|violation| violation.to_string()).collect(),
    }
}

/// Each body has exactly one violation, which ends with the given text.
fn check(target: &str, version: &str, cases: &[(&str, &str)]) {
    for (body, wanted) in cases {
        let messages = messages(target, version, body);
        assert!(
            messages.len() == 1 && messages[0].ends_with(wanted),
            "{body}\n  expected one violation: … {wanted}\n  got: {messages:#?}"
        );
    }
}

#[test]
fn wrong_instructions_on_sm_90a() {
    check(
        "sm_90a",
        "8.0",
        &[
            ("add.f32 %f0, %f1, 1;", "operand 3 (`1`): is not a .f32 value"),
            ("add.f32 %f0, %f1;", "has 2 operands, needs 3"),
            ("add.f32 %f0, %f1, %f2, %f3;", "has 4 operands, needs 3"),
            ("add.f32 %f0, %f1, %fd0;", "operand 3 (`%fd0`): is .f64, expected .f32"),
            ("add.s32 %r0, %r1, %f0;", "operand 3 (`%f0`): is .f32, expected .s32"),
            ("add.s32 5, %r1, %r2;", "operand 1 (`5`): expected a .s32 register"),
            ("add.s32 %r0, %r1, 0x100000000;", "operand 3 (`4294967296`): does not fit .s32"),
            ("add.b32 %r0, %r1, %r2;", "`add` has no .b32 form"),
            ("add.rn.s32 %r0, %r1, %r2;", "this rounding mode is not available for this type"),
            ("ex2.approx.bf16 %h0, %h1;", "ex2 of bf16 needs .ftz"),
            ("set.eq.f16.bf16 %h0, %h1, %h2;", "set does not have these types"),
            ("set.eq.u16.f32 %h0, %f1, %f2;", "set does not have these types"),
            ("set.eq.f16x2.u32 %r0, %r1, %r2;", "set does not have these types"),
            ("vadd4.u32.u16.u32 %r0, %r1, %r2, %r3;", "the types of a video instruction are .u32 and .s32"),
            ("vset2.u32.u32.lo %r0, %r1, %r2, %r3;", "this comparison is not available for this type"),
            ("vadd4.u32.u32.u32.add %r0, %r1, %r2;", "has 3 operands, needs 4"),
            ("testp.finite.f16 %p0, %h0;", "`testp` has no .f16 form"),
            ("lop3.or.b32 %r0, %r1, %r2, %r3, 128, %p1;", "needs .version 8.2"),
            ("max.xorsign.abs.f64 %fd0, %fd1, %fd2;", "`max` has no .f64 form"),
            ("cvt.rn.satfinite.f16.f32 %h0, %f0;", "needs .version 8.1"),
            ("max.f32 %f0, %f1, %f2, %f3;", "needs sm_100 or later"),
            ("max.ftz.f32 %f0, %f1, %f2, %f3;", "needs sm_100 or later"),
            ("max.s32 %r0, %r1, %r2, %r3;", "has 4 operands, needs 3"),
            ("rcp.approx.f64 %fd0, %fd1;", "rcp.approx.f64 needs .ftz"),
            ("add.rz.f16 %hf0, %hf1, %hf2;", "this rounding mode is not available for this type"),
            ("fma.f32 %f0, %f1, %f2, %f3;", "fma needs a rounding mode"),
            ("div.f32 %f0, %f1, %f2;", "div of floats needs a rounding mode"),
            ("mul.wide.u64 %rd0, %rd1, %rd2;", "`mul` has no .u64 form"),
            ("mul.wide.s32 %r0, %r1, %r2;", "operand 1 (`%r0`): is .b32, expected .s64"),
            ("mov.f16 %hf0, %hf1;", "`mov` has no .f16 form"),
            ("mov.u64 %rd0, %envreg1;", "operand 2 (`%envreg1`): cannot be read as .u64"),
            ("mov.u32 %r0, %clock64;", "operand 2 (`%clock64`): cannot be read as .u32"),
            ("mov.b64 %rd0, {%r0, %r1, %r2};", "only untyped values of 2 or 4 elements can be packed"),
            ("mov.u64 %rd0, {%r0, %r1};", "only untyped values of 2 or 4 elements can be packed"),
            ("mov.b64 %rd0, {%h0, %h1};", "operand 2 (`{%h0, %h1}`): is .b16, expected .b32"),
            ("mov.f32 %f0, smem+4;", "operand 2 (`smem+4`): is not a .f32 value"),
            ("mov.u32 %r0, smem+4294967296;", "the offset does not fit 32 bits"),
            ("cvta.global.u64 %rd0, smem+4;", "operand 2 (`smem+4`): is in .shared memory"),
            ("red.global.add.v2.f32 [%rd0], {%f0, %f1};", "needs .version 8.1"),
            ("t: .branchtargets a; brx.idx %rd0, t; a: ret;", "operand 1 (`%rd0`): is .b64, expected .u32"),
            ("t: .branchtargets a; brx.idx %r0, a; a: ret;", "operand 2 (`a`): expected the name of a list of labels"),
            ("t: .branchtargets a, b; brx.idx %r0, t; a: ret;", "the label `b` of the list `t` is not bound"),
            ("t: .branchtargets a; a: t: ret;", "the list `t` is empty, or its name is also a label"),
            ("t: .branchtargets a; t: .branchtargets a; a: ret;", "the list `t` is defined again"),
            ("t: .branchtargets a; a: bra t;", "operand 1 (`t`): the label is not bound"),
            ("add.u32 %r0, %tid.x, 1;", "operand 2 (`%tid.x`): is not a .u32 value"),
            ("ld.global.v4.f64 {%fd0, %fd1, %fd2, %fd3}, [%rd0];", "needs sm_100 or later"),
            ("ld.shared.v4.f64 {%fd0, %fd1, %fd2, %fd3}, [%r0];", "a vector has at most 16 bytes"),
            ("add.rn.f32x2 %rd0, %rd1, %rd2;", "needs sm_100 or later"),
            ("shfl.idx.b32 %r0, %r1, 0, 31;", "exists before sm_70 or before .version 6.4 only: use shfl.sync"),
            ("vote.all.pred %p0, %p1;", "exists before sm_70 or before .version 6.4 only: use vote.sync"),
            ("ld.global.v8.f32 {%f0, %f1}, [%rd0];", "needs sm_100 or later"),
            ("ld.global.v2.f32 {%f0, %f1, %f2, %f3}, [%rd0];", "expected a vector of 2"),
            ("ld.global.v2.u16 {%r0, %h1}, [%rd0];", "operand 1 (`{%r0, %h1}`): its registers differ in width"),
            ("ld.global.f32 {%f0, %f1}, [%rd0];", "operand 1 (`{%f0, %f1}`): expected a scalar"),
            ("ld.global.f32 %f0, [%r0];", "operand 2 (`[%r0]`): a .b32 register cannot be an address here"),
            ("ld.shared.f32 %f0, [%f1];", "operand 2 (`[%f1]`): a .f32 register cannot be an address here"),
            ("ld.global.f32 %f0, [smem];", "operand 2 (`[smem]`): is in .shared memory"),
            ("ld.shared.f32 %f0, [counter];", "operand 2 (`[counter]`): is in .global memory"),
            ("ld.shared.f32 %f0, %r0;", "operand 2 (`%r0`): expected an address"),
            ("ld.shared.f32 %f0, [%r0+4294967296];", "the offset does not fit 32 bits"),
            ("ld.global.f32 %fd0, [%rd0];", "operand 1 (`%fd0`): is .f64, expected .f32"),
            ("ld.shared.nc.f32 %f0, [%r0];", ".nc is for global memory"),
            ("ld.global.wb.f32 %f0, [%rd0];", "this cache operator is for stores"),
            ("ld.release.gpu.global.f32 %f0, [%rd0];", "a load cannot be a release"),
            ("st.acquire.gpu.global.f32 [%rd0], %f0;", "a store cannot be an acquire"),
            ("add.rn.u32 %r0, %r1, %r2;", "this rounding mode is not available for this type"),
            ("barrier.cluster.arrive.acquire;", "an arrival must be .release or .relaxed"),
            ("barrier.cluster.wait.relaxed;", "a wait must be .acquire"),
            ("st.const.f32 [%rd0], %f0;", "this state space is read-only"),
            ("st.global.f16 [%rd0], %hf0;", "`st` has no .f16 form"),
            ("setp.lt.b32 %p0, %r0, %r1;", "this comparison is not available for this type"),
            ("setp.lo.s32 %p0, %r0, %r1;", "this comparison is not available for this type"),
            ("setp.lt.s32 %r2, %r0, %r1;", "operand 1 (`%r2`): is .b32, expected .pred"),
            ("selp.b32 %r0, %r1, %r2, %r3;", "operand 4 (`%r3`): is .b32, expected .pred"),
            ("cvt.f16.f32 %hf0, %f0;", "this rounding or saturation is not available for these types"),
            ("cvt.rn.f32.f16 %f0, %hf0;", "this rounding or saturation is not available for these types"),
            ("cvt.rn.s32.f32 %r0, %f0;", "this rounding or saturation is not available for these types"),
            ("cvt.rna.tf32.f32 %f1, %f0;", "operand 1 (`%f1`): is .f32, expected .tf32"),
            ("cvt.rn.bf16x2.f32 %r0, %f0;", "has 2 operands, needs 3"),
            ("min.NaN.s32 %r0, %r1, %r2;", ".NaN is for f32, f16 and bf16"),
            ("shl.b64 %rd0, %rd1, %rd2;", "operand 3 (`%rd2`): is .b64, expected .u32"),
            ("bra NOWHERE;", "operand 1 (`NOWHERE`): the label is not bound"),
            ("ld.volatile.local.f32 %f0, [%rd0];", "an ordering is only for generic, global and shared memory"),
            ("L: L: ret;", "the label `L` is bound again"),
            ("bar.sync 16;", "operand 1 (`16`): expected 0 to 15"),
            ("bar.sync 0, 100;", "operand 2 (`100`): expected a multiple of 32"),
            ("bar.arrive 0;", "has 1 operands, needs 2"),
            ("barrier.sync 1, 48;", "operand 2 (`48`): expected a multiple of 32"),
            ("bar.sync 1, 64, 2;", "has 3 operands, needs 1 to 2"),
            ("cp.async.cg.shared.global [%r0], [%rd0], 8;", "cp.async.cg copies 16 bytes"),
            ("cp.async.ca.shared.global [%r0], [%rd0], 12;", "cp.async copies 4, 8 or 16 bytes"),
            ("cp.async.ca.shared.global [%r0], [%rd0], 4, 8;", "cp.async cannot read more than it copies"),
            ("cp.async.wait_group %r0;", "operand 1 (`%r0`): expected an integer constant"),
            ("atom.global.add.b32 %r0, [%rd0], 1;", "`atom` has no .b32 form"),
            ("atom.local.add.u32 %r0, [%r1], 1;", "atomics are for global and shared memory"),
            ("red.acquire.gpu.global.add.u32 [%rd0], 1;", "red must be .relaxed or .release"),
            ("red.global.exch.b32 [%rd0], %r0;", "`red` has no .b32 form"),
            ("@%r0 ret;", "the guard is not a predicate"),
            (".reg .b32 %r3;", "`%r3` is also a register of `%r<…>`"),
        ],
    );
}

#[test]
fn wrong_matrix_and_asynchronous_instructions() {
    check(
        "sm_90a",
        "8.4",
        &[
            (
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f0}, {%r0}, {%r1}, {%f1};",
                "mma does not support these operand types",
            ),
            (
                "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r1}, {%f1};",
                "mma does not support this shape for these types",
            ),
            (
                "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32 {%r8}, {%r0}, {%r1}, {%f1};",
                "mma does not support this accumulator type for these operands",
            ),
            (
                "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {%f8}, {%r0}, {%r1}, {%f1};",
                ".satfinite is only for integers",
            ),
            (
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r4, %r5}, \
                 {%f4, %f5, %f6, %f7};",
                "operand 2 (`{%r0, %r1}`): expected a vector of 4",
            ),
            (
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%f0, %f1, %f2, %f3}, \
                 {%r4, %r5}, {%f4, %f5, %f6, %f7};",
                "operand 2 (`{%f0, %f1, %f2, %f3}`): is .f32, expected .u32",
            ),
            (
                "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f0}, %rd0, %rd1, %p0, 1, 1, 0, 0;",
                "wgmma does not support this shape for these types",
            ),
            (
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1}, %rd0, %rd1, %p0, 1, 1, 0, 0;",
                "operand 1 (`{%f0, %f1}`): expected a vector of 4",
            ),
            (
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 0, 0, 0;",
                "operand 6 (`0`): expected 1 or -1",
            ),
            (
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0;",
                "needs trans-b, preceded by trans-a if A is a descriptor",
            ),
            (
                "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;",
                "has 8 operands, needs 6",
            ),
            ("wgmma.wait_group.sync.aligned 8;", "operand 1 (`8`): expected 0 to 7"),
            ("setmaxnreg.dec.sync.aligned.u32 41;", "operand 1 (`41`): expected a multiple of 8"),
            ("setmaxnreg.dec.sync.aligned.u32 16;", "operand 1 (`16`): expected 24 to 256"),
            (
                "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r0, %r1, %r2}, [%r3];",
                "it moves 1, 2 or 4 matrices at a time",
            ),
            ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%r3];", "operand 1 (`%r0`): expected a vector of 1"),
            ("ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%rd3];", "works only on the block's own shared memory"),
            ("elect.sync %r0, -1;", "expected a register and a predicate with `|` between them"),
            ("mapa.u32 %r0, %r1, 0;", "a 32-bit address needs .shared::cluster"),
            ("mbarrier.init.shared::cluster.b64 [%r0], 1;", "works only on the block's own shared memory"),
            ("mbarrier.arrive.acquire.cta.shared.b64 %rd0, [%r0];", "an arrival must be .release or .relaxed"),
            ("mbarrier.try_wait.parity.release.cta.shared.b64 %p0, [%r0], 0;", "a wait must be .acquire or .relaxed"),
            ("mbarrier.test_wait.release.cta.shared.b64 %p0, [%r0], %rd0;", "a wait must be .acquire or .relaxed"),
            ("fence.proxy.async.local;", "takes .global, .shared::cta, .shared::cluster or no state space"),
            ("fence.proxy.async.shared;", "takes .global, .shared::cta, .shared::cluster or no state space"),
            ("mbarrier.arrive.release.gpu.shared.b64 %rd0, [%r0];", "an mbarrier's scope must be .cta or .cluster"),
            (
                "mbarrier.arrive.release.cluster.shared::cluster.b64 %rd0, [%r0];",
                "an arrival at another block's barrier returns no state",
            ),
            ("mbarrier.arrive.expect_tx.shared.b64 %rd0, [%r0];", "has 2 operands, needs 3"),
            ("mbarrier.test_wait.shared.b64 %p0, [%r0], %rd0, 100;", "has 4 operands, needs 3"),
            ("mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p0, [%r0], 1;", "needs .version 8.6"),
            (
                "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%r0], [%rd0], 16, [%r1], 1;",
                "a bulk copy cannot connect these state spaces",
            ),
            (
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0], 24, [%r1];",
                "operand 3 (`24`): expected a multiple of 16",
            ),
            (
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd0, {%r1}], [%r2];",
                "operand 2 (`[%rd0, {%r1}]`): expected 2 coordinates",
            ),
            (
                "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [map, {%r1}], [%r2];",
                "operand 2 (`[map, {%r1}]`): expected the map's generic address in a register",
            ),
            (
                "cp.async.bulk.tensor.6d.global.shared::cta.tile.bulk_group [%rd0, {0, 0, 0, 0, 0, 0}], [%r2];",
                "a tensor has 1 to 5 dimensions",
            ),
            (
                "cp.async.bulk.tensor.2d.global.shared::cta.im2col_no_offs.bulk_group [%rd0, {0, 0}], [%r2];",
                "an image tensor has 3 to 5 dimensions",
            ),
            (
                "createpolicy.fractional.L2::evict_last.b64 %rd0, 2.0;",
                "expected a single-precision constant between 0 and 1",
            ),
            ("cvt.rp.satfinite.f16.f32 %h0, %f0;", "this rounding is not available for this type"),
            (
                "wmma.load.a.sync.aligned.col.m8n8k32.s4 {%r0}, [%rd0];",
                "less than a byte are in rows of A and columns of B",
            ),
            ("wmma.load.a.sync.aligned.row.m8n8k128.s4 {%r0}, [%rd0];", "this type for this matrix"),
            (
                "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r0, %r1}, {%r2}, {%r3}, {%r0, %r1};",
                "elements of less than a byte is not supported here",
            ),
            ("cvt.rn.satfinite.tf32.f32 %r0, %f0;", "needs sm_100 or later"),
            ("lop3.or.b32 %r0, %r1, %r2, %r3, 128, %p1;", "expected a register and a predicate with `|` between them"),
            ("lop3.b32 %r0, %r1, %r2, %r3, 256;", "operand 5 (`256`): expected 0 to 255"),
        ],
    );
    check(
        "sm_90",
        "8.1",
        &[
            (
                "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%r0], {%rd0, %rd1, %rd2, %rd3}, [%r1];",
                "a vector has at most 16 bytes",
            ),
            (
                "st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%r0], %h0, [%r1];",
                "`st.async` has no .b16 form",
            ),
            ("st.async.global.mbarrier::complete_tx::bytes.b32 [%rd0], %r0, [%rd1];", "works only on shared memory"),
            (
                "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.s64 [%r0], %rd0, [%r1];",
                "`red.async.relaxed.cluster` has no .s64 form",
            ),
            (
                "red.async.relaxed.cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, [%r2];",
                "works only on the shared memory of the cluster",
            ),
        ],
    );
    check(
        "sm_75",
        "6.3",
        &[
            ("wmma.load.a.sync.aligned.row.m16n16k16.bf16 {%r0, %r1, %r2, %r3}, [%rd0];", "needs sm_80 or later"),
            (
                "wmma.load.a.sync.aligned.row.m16n16k8.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%rd0];",
                "wmma does not support this type for this matrix",
            ),
            (
                "wmma.load.a.sync.aligned.row.m16n8k16.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%rd0];",
                "wmma does not support this shape",
            ),
            (
                "wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0, %f1, %f2, %f3}, [%rd0];",
                "operand 1 (`{%f0, %f1, %f2, %f3}`): expected a vector of 8",
            ),
            (
                "wmma.load.a.sync.aligned.row.m16n16k16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%rd0];",
                "wmma does not support this type for this matrix",
            ),
            (
                "wmma.mma.sync.aligned.row.col.m16n16k16.f16.bf16.bf16.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, \
                 {%r0, %r1, %r2, %r3}, {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
                "wmma does not support these types",
            ),
        ],
    );
    check("sm_90", "8.4", &[("wgmma.fence.sync.aligned;", "needs sm_90a")]);
    check("sm_100a", "8.6", &[("wgmma.fence.sync.aligned;", "needs sm_90a")]);
    check("sm_100", "8.6", &[("setmaxnreg.dec.sync.aligned.u32 40;", "needs sm_90a or a later target with a letter")]);
}

#[test]
fn older_targets_and_versions() {
    check(
        "sm_75",
        "6.3",
        &[
            ("cp.async.wait_all;", "needs sm_80 or later"),
            ("fma.rn.bf16 %h0, %h1, %h2, %h3;", "needs sm_80 or later"),
            ("min.NaN.f32 %f0, %f1, %f2;", "needs sm_80 or later"),
            ("tanh.approx.f32 %f0, %f1;", "needs .version 7.0"),
            ("ld.shared::cta.f32 %f0, [%r0];", "needs .version 7.8"),
            ("mov.u32 %r0, %cluster_ctarank;", "needs sm_90 or later"),
            ("ld.acquire.cluster.global.u32 %r0, [%rd0];", "needs sm_90 or later"),
        ],
    );
    check(
        "sm_80",
        "8.0",
        &[
            ("mbarrier.arrive.shared.b64 %rd0, [%r0], 2;", "needs sm_90 or later"),
            ("mbarrier.try_wait.shared.b64 %p0, [%r0], %rd0;", "needs sm_90 or later"),
            ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0}, {%r0}, {%r1}, {%f1};", "needs sm_89 or later"),
        ],
    );
    check("sm_89", "8.0", &[("cvt.rn.f16x2.e4m3x2 %r0, %h0;", "needs .version 8.1")]);
    let narrow = "cvt.rn.satfinite.e4m3x2.f32 %h0, %f0, %f1; cvt.rn.f16x2.e5m2x2 %r0, %h0;";
    assert_eq!(messages("sm_90", "7.8", narrow), [""; 0]);
    let text = module_text("sm_80", "7.7", "bar.cta.sync 0;");
    let error = parse(&text).expect_err("too old");
    assert!(error.message.ends_with("`bar.cta.sync` needs .version 7.8"), "{error}");
    assert!(parse(&text.replace("7.7", "7.8")).is_ok() && parse(&text.replace(".cta", "")).is_ok());
    check("sm_80", "6.5", &[("ret;", "sm_80 needs .version 7.0")]);
    check("sm_abc", "8.0", &[("ret;", "`sm_abc` is not a known target")]);
}
