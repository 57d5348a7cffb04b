//! Bulk copies of one block that interact with other blocks: global memory has one order for all, and each side has a
//! proxy.

use ptx_gemm_interp::ViolationKind::{Proxy, Race, Uninitialised};
use ptx_gemm_interp::{MomentKind, Options};

use crate::copies::{Case, INIT, WAIT, change};

/// Block 0 writes 64 words and raises a flag, block 1 waits for the flag and copies them to the start of the output.
fn passed_on(write: &str, read: &str) -> String {
    format!(
        "{INIT}mov.u32 %r20, %ctaid.x;
setp.ne.u32 %p3, %r20, 0;
shl.b32 %r0, %t, 2;
cvt.u64.u32 %rd0, %r0;
add.u64 %rd0, %out, %rd0;
mov.u32 %r1, a;
add.u32 %r1, %r1, %r0;
add.u32 %r2, %t, 100;
@%p3 bra READ;
{write}
@!%p0 bra END;
st.release.gpu.global.u32 [%out+4092], 8; // flag
bra END;
READ: @!%p0 bra READY;
FLAG: ld.acquire.gpu.global.u32 %r4, [%out+4092];
setp.ne.u32 %p2, %r4, 8;
@%p2 bra FLAG;
{read}
st.global.u32 [%rd0], %r2;
END:"
    )
}

const GENERIC_WRITE: &str = "st.global.u32 [%rd0+2048], %r2;
fence.proxy.async.global; // to the copy
bar.sync 0; // written";

const BULK_WRITE: &str = "st.shared.u32 [%r1], %r2;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p0 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%out+2048], [a], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; // done";

const GENERIC_READ: &str = "READY: bar.sync 0; // told
ld.global.u32 %r2, [%rd0+2048];";

fn bulk_read() -> String {
    format!(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%out+2048], 256, [bar];
READY: {WAIT}ld.shared.u32 %r2, [%r1];"
    )
}

fn want() -> Vec<u32> {
    (100..164).collect()
}

fn breaks(name: &str, body: &str, kinds: &[ptx_gemm_interp::ViolationKind], at: &str) {
    Case::new(body, 64).blocks(2).breaks(name, kinds, at);
}

#[test]
fn either_proxy_passes_words_to_either() {
    for (name, write, read) in [
        ("generic, generic", GENERIC_WRITE, GENERIC_READ),
        ("generic, bulk", GENERIC_WRITE, &bulk_read()),
        ("bulk, generic", BULK_WRITE, GENERIC_READ),
        ("bulk, bulk", BULK_WRITE, &bulk_read()),
    ] {
        Case::new(&passed_on(write, read), 64).blocks(2).gives(name, &want());
    }
}

#[test]
fn copies_are_ordered_across_blocks() {
    let flag = "st.release.gpu.global.u32 [%out+4092], 8; // flag";
    for (name, write, read, at) in [
        ("generic, bulk", GENERIC_WRITE, bulk_read(), "cp.async.bulk.shared"),
        ("bulk, generic", BULK_WRITE, GENERIC_READ.to_owned(), "ld.global"),
        ("bulk, bulk", BULK_WRITE, bulk_read(), "cp.async.bulk.shared"),
    ] {
        let right = passed_on(write, &read);
        let relaxed = change(&right, flag, "st.relaxed.gpu.global.u32 [%out+4092], 8;");
        breaks(&format!("{name}: a relaxed flag"), &relaxed, &[Race], at);
        let relaxed = change(&right, "ld.acquire.gpu", "ld.relaxed.gpu");
        breaks(&format!("{name}: a relaxed wait"), &relaxed, &[Race], at);
        let narrow = change(&right, "ld.acquire.gpu", "ld.acquire.cta");
        breaks(&format!("{name}: a wait of the block"), &narrow, &[Race], "");
    }
    let unfenced = change(&passed_on(GENERIC_WRITE, &bulk_read()), "fence.proxy.async.global; // to the copy", "");
    breaks("no proxy fence", &unfenced, &[Proxy], "cp.async.bulk.shared");
    let late = change(&unfenced, "bar.sync 0; // written", "bar.sync 0;\nfence.proxy.async.global;");
    breaks("fences after the barrier", &late, &[Proxy], "cp.async.bulk.shared");
}

#[test]
fn a_copy_that_has_only_been_read_is_not_there_yet() {
    for (read, at) in [(GENERIC_READ.to_owned(), "ld.global"), (bulk_read(), "cp.async.bulk.shared")] {
        let right = passed_on(BULK_WRITE, &read);
        let early = change(&right, "wait_group 0; // done", "wait_group.read 0;");
        breaks("read alone", &early, &[Race], at);
        let never = change(&right, "cp.async.bulk.wait_group 0; // done", "");
        breaks("no wait", &never, &[Race], "");
    }
}

#[test]
fn what_a_copy_reads_is_not_overwritten() {
    // Block 0 reads with a copy, and block 1 overwrites the words once the flag is raised.
    let right = |wait: &str| {
        format!(
            "{INIT}mov.u32 %r20, %ctaid.x;
setp.ne.u32 %p3, %r20, 0;
@!%p0 bra END;
@%p3 bra FLAG;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [%out+2048], 256, [bar];
{wait}st.release.gpu.global.u32 [%out+4092], 8;
{WAIT}bra END;
FLAG: ld.acquire.gpu.global.u32 %r4, [%out+4092];
setp.ne.u32 %p2, %r4, 8;
@%p2 bra FLAG;
st.global.u32 [%out+2048], 5;
END:"
        )
    };
    let wait = WAIT.replace("WAIT", "FIRST");
    Case::new(&right(&wait), 64).blocks(2).gives("after the copy", &[7]);
    breaks("while it copies", &right(""), &[Race], "st.global");
}

#[test]
fn reductions_go_with_each_other_alone() {
    // Each block adds to the same words; the last one to finish reads them.
    let sums = "shl.b32 %r0, %t, 2;
cvt.u64.u32 %rd0, %r0;
add.u64 %rd0, %out, %rd0;
mov.u32 %r1, a;
add.u32 %r1, %r1, %r0;
st.shared.u32 [%r1], %t;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.u32 %r4, 0;
@!%p0 bra COUNTED;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [a], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; // done
atom.acq_rel.gpu.global.add.u32 %r4, [%out+4092], 1;
st.shared.u32 [b], %r4;
COUNTED: bar.sync 0;
ld.shared.u32 %r4, [b];
setp.ne.u32 %p2, %r4, 9;
@%p2 bra END;
ld.global.u32 %r5, [%rd0];
st.global.u32 [%rd0+2048], %r5;
END:";
    let mut want = vec![7; 512];
    want.extend((0..64).map(|t| 7 + 3 * t));
    want.splice(..64, (0..64).map(|t| 7 + 3 * t));
    Case::new(sums, 64).blocks(3).gives("sums", &want);
    let blocks = |body: &str, name: &str, at: &str| Case::new(body, 64).blocks(3).breaks(name, &[Race], at);
    blocks(&change(sums, "wait_group 0; // done", "wait_group.read 0;"), "read alone", "ld.global");
    let plain = change(
        sums,
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
        "cp.async.bulk.global.shared::cta.bulk_group",
    );
    blocks(&plain, "copies instead", "cp.async.bulk.global");
}

#[test]
fn blocks_that_copy_to_the_same_place() {
    let body = change(&passed_on(BULK_WRITE, GENERIC_READ), "@%p3 bra READ;", "");
    let body = change(&body, "st.release.gpu.global.u32 [%out+4092], 8; // flag", "");
    let body = &body[..body.find("READ: ").expect("there")].replace("bra END;\n", "");
    let body = body.replace("@!%p0 bra END;\n", "").replace("cp.async.bulk.global", "@%p0 cp.async.bulk.global");
    let body = body.replace("@!%p0 ", "");
    breaks("two copies", &body, &[Race], "cp.async.bulk.global");
    let reports: Vec<String> = (0..20)
        .map(|turn| {
            let options = Options { threads: Some(1 + turn % 3), ..Options::default() };
            let violation = Case::new(&body, 64).blocks(8).run(&options).expect_err("a race");
            assert!(violation.site.timeline.iter().any(|moment| moment.kind == MomentKind::SecondAccess));
            violation.to_string()
        })
        .collect();
    assert!(reports.iter().all(|report| *report == reports[0]), "{reports:#?}");
}

#[test]
fn words_are_there_when_the_flag_is() {
    // In the forward order the writer is done before the reader starts; the missing wait is found nevertheless.
    let body = change(&passed_on(BULK_WRITE, &bulk_read()), "@%p2 bra FLAG;", "");
    breaks("a flag that is looked at once", &body, &[Race, Uninitialised], "");
}
