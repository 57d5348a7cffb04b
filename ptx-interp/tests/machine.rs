//! Control flow, memory spaces, barriers, atomics and asynchronous copies: small kernels with known results. Each runs
//! under every order of warps, with the checks on and off.

use ptx_gemm_interp::{Arg, Checks, Options, WarpOrder};

use crate::run::Device;

/// Runs `body` on blocks of `block` threads and compares `out`, which starts as zeros. The registers are declared;
/// `%out` holds the address and `%t` the thread's index.
fn check(name: &str, declarations: &str, body: &str, grid: u32, block: u32, want: &[u32]) {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n{declarations}\n\
         .reg .b64 %rd<16>;\n.reg .b64 %out;\n.reg .b32 %r<16>;\n.reg .b32 %t;\n.reg .b16 %h<4>;\n.reg .f32 %f<8>;\n\
         .reg .pred %p<4>;\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n{body}\nret;\n}}\n"
    );
    let orders = [WarpOrder::RunToBarrier, WarpOrder::Forward, WarpOrder::Backward, WarpOrder::Seeded(7)];
    for order in orders {
        for checks in [Checks::Full, Checks::Off] {
            for threads in [1, 2] {
                let mut device = Device::new(&text);
                device.options = Options { checks, order, threads: Some(threads), ..Options::default() };
                let out = device.upload("out", &vec![0u32; want.len()]);
                let report = device.launch([grid, 1, 1], [block, 1, 1], &[Arg::U64(out)]);
                report.unwrap_or_else(|violation| panic!("{name} ({order:?}, {checks:?}): {violation}"));
                assert_eq!(device.words(out, want.len()), want, "{name} ({order:?}, {checks:?}, {threads} threads)");
            }
        }
    }
}

/// `st.global` of `%r0` to `out[%tid]`.
const STORE: &str = "mul.wide.u32 %rd0, %t, 4;\nadd.u64 %rd0, %out, %rd0;\nst.global.u32 [%rd0], %r0;";

fn words(count: u32, f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..count).map(f).collect()
}

#[test]
fn divergent_branches_meet_again() {
    let body = format!(
        "setp.lt.u32 %p0, %t, 10;
         @%p0 bra LOW;
         and.b32 %r1, %t, 1;
         setp.eq.u32 %p1, %r1, 0;
         @%p1 bra EVEN;
         mov.u32 %r0, 300;
         bra JOIN;
         EVEN: mov.u32 %r0, 200;
         bra JOIN;
         LOW: mov.u32 %r0, 100;
         JOIN: add.u32 %r0, %r0, %t;
         {STORE}"
    );
    let want = words(40, |t| {
        t + if t < 10 {
            100
        } else if t % 2 == 0 {
            200
        } else {
            300
        }
    });
    check("if, else", "", &body, 1, 40, &want);
}

#[test]
fn each_lane_leaves_a_loop_in_its_own_time() {
    let body = format!(
        "mov.u32 %r0, 0;
         mov.u32 %r1, 0;
         LOOP: setp.gt.u32 %p0, %r1, %t;
         @%p0 bra DONE;
         add.u32 %r0, %r0, %r1;
         add.u32 %r1, %r1, 1;
         bra LOOP;
         DONE: {STORE}"
    );
    check("loop", "", &body, 1, 50, &words(50, |t| t * (t + 1) / 2));
}

#[test]
fn some_lanes_exit_early() {
    let body = format!("mov.u32 %r0, 7;\nsetp.ge.u32 %p0, %t, 20;\n@%p0 exit;\n{STORE}");
    check("exit", "", &body, 1, 40, &words(40, |t| if t < 20 { 7 } else { 0 }));
}

#[test]
fn a_barrier_in_a_loop_that_lanes_continue_out_of_order() {
    // Odd lanes take a detour after the end of the loop; all lanes must have converged again at the barrier.
    let body = format!(
        "and.b32 %r1, %t, 1;
         setp.eq.u32 %p0, %r1, 1;
         mov.u32 %r0, 0;
         mov.u32 %r2, 0;
         LOOP: bar.sync 0;
         add.u32 %r2, %r2, 1;
         setp.gt.u32 %p1, %r2, 3;
         @%p1 bra DONE;
         @%p0 bra DETOUR;
         add.u32 %r0, %r0, 1;
         bra LOOP;
         DONE: {STORE}
         ret;
         DETOUR: add.u32 %r0, %r0, 100;
         bra LOOP;"
    );
    check("detour", "", &body, 1, 64, &words(64, |t| if t % 2 == 1 { 300 } else { 3 }));
}

#[test]
fn shared_memory_through_a_barrier() {
    let body = format!(
        "mov.u32 %r1, buffer;
         mad.lo.u32 %r2, %t, 4, %r1;
         st.shared.u32 [%r2], %t;
         bar.sync 0;
         sub.u32 %r3, 95, %t;
         mad.lo.u32 %r4, %r3, 4, %r1;
         ld.shared.u32 %r0, [%r4];
         {STORE}"
    );
    check("reverse", ".shared .align 4 .b8 buffer[384];", &body, 1, 96, &words(96, |t| 95 - t));
}

#[test]
fn named_barriers_and_arrivals() {
    // Warp 0 produces and does not wait; warp 1 waits for it.
    let body = format!(
        "mov.u32 %r1, buffer;
         setp.ge.u32 %p0, %t, 32;
         @%p0 bra CONSUMER;
         mad.lo.u32 %r2, %t, 4, %r1;
         add.u32 %r3, %t, 1000;
         st.shared.u32 [%r2], %r3;
         bar.arrive 3, 64;
         mov.u32 %r0, 1;
         bra END;
         CONSUMER: bar.sync 3, 64;
         sub.u32 %r2, %t, 32;
         mad.lo.u32 %r2, %r2, 4, %r1;
         ld.shared.u32 %r0, [%r2];
         END: {STORE}"
    );
    check("arrive", ".shared .b32 buffer[32];", &body, 1, 64, &words(64, |t| if t < 32 { 1 } else { 968 + t }));
}

#[test]
fn warp_synchronisation_waits_for_diverged_lanes() {
    let body = format!(
        "mov.u32 %r1, buffer;
         mov.u32 %r0, 5;
         setp.ne.u32 %p0, %t, 0;
         @%p0 bra WAIT;
         mov.u32 %r2, 42;
         st.shared.u32 [%r1], %r2;
         WAIT: bar.warp.sync 4294967295;
         ld.shared.u32 %r0, [%r1];
         {STORE}"
    );
    check("bar.warp.sync", ".shared .b32 buffer[1];", &body, 1, 32, &[42; 32]);
}

#[test]
fn warp_synchronisation_in_two_places() {
    let body = format!(
        "mov.u32 %r1, buffer;
         mad.lo.u32 %r2, %t, 4, %r1;
         xor.b32 %r3, %t, 16;
         mad.lo.u32 %r3, %r3, 4, %r1;
         setp.lt.u32 %p0, %t, 16;
         @%p0 bra LOW;
         st.shared.u32 [%r2], %t;
         bar.warp.sync 4294967295;
         ld.shared.u32 %r0, [%r3];
         bra END;
         LOW: st.shared.u32 [%r2], %t;
         bar.warp.sync 4294967295;
         ld.shared.u32 %r0, [%r3];
         END: {STORE}"
    );
    check("two places", ".shared .b32 buffer[32];", &body, 1, 32, &words(32, |t| t ^ 16));
}

#[test]
fn blocks_wait_for_each_other() {
    // Each block waits for its successor's number: the last one proceeds first, whichever was started first.
    let body = "mov.u32 %r1, %ctaid.x;
         mov.u32 %r2, %nctaid.x;
         sub.u32 %r3, %r2, 1;
         sub.u32 %r3, %r3, %r1;
         setp.ne.u32 %p0, %t, 0;
         @%p0 bra END;
         WAIT: ld.acquire.gpu.global.u32 %r4, [%out];
         setp.ne.u32 %p1, %r4, %r3;
         @%p1 bra WAIT;
         add.u32 %r5, %r3, 1;
         mul.wide.u32 %rd1, %r5, 4;
         add.u64 %rd1, %out, %rd1;
         st.global.u32 [%rd1], %r1;
         fence.acq_rel.gpu;
         st.release.gpu.global.u32 [%out], %r5;
         END:";
    check("chain", "", body, 8, 40, &[8, 7, 6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn warps_and_lanes_spin_on_shared_memory() {
    let body = format!(
        "mov.u32 %r1, flag;
         mov.u32 %r2, 1;
         mov.u32 %r3, 0;
         setp.eq.u32 %p0, %t, 0;
         @%p0 st.shared.u32 [%r1], %r3;
         bar.sync 0;
         setp.ne.u32 %p1, %t, 39;
         @%p1 bra WAIT;
         st.volatile.shared.u32 [%r1], %r2;
         bra DONE;
         WAIT: ld.volatile.shared.u32 %r4, [%r1];
         setp.eq.u32 %p2, %r4, 0;
         @%p2 bra WAIT;
         DONE: mov.u32 %r0, 9;
         {STORE}"
    );
    check("spin", ".shared .b32 flag[1];", &body, 1, 40, &[9; 40]);
}

#[test]
fn a_lane_takes_a_lock_that_its_neighbour_holds() {
    // The lanes of one warp alternate: the loser must not keep the winner from releasing the lock.
    let body = "TRY: atom.global.cas.b32 %r1, [%out], 0, 1;
         setp.ne.u32 %p0, %r1, 0;
         @%p0 bra TRY;
         ld.volatile.global.u32 %r2, [%out+4];
         add.u32 %r2, %r2, 1;
         st.volatile.global.u32 [%out+4], %r2;
         atom.global.exch.b32 %r1, [%out], 0;";
    check("lock", "", body, 2, 40, &[0, 80]);
}

#[test]
fn atomics() {
    let body = "cvt.rn.f32.u32 %f0, %t;
         red.global.add.u32 [%out], 1;
         red.global.max.u32 [%out+4], %t;
         red.global.or.b32 [%out+8], %t;
         red.global.add.f32 [%out+12], %f0;
         atom.global.inc.u32 %r1, [%out+16], 6;
         cvt.u64.u32 %rd1, %t;
         red.global.add.u64 [%out+24], %rd1;
         atom.global.min.s32 %r1, [%out+32], -5;
         atom.global.xor.b32 %r1, [%out+36], %t;";
    let xor = (0..64).fold(0, |all, t| all ^ t);
    let want = [128, 63, 63, (2.0 * 2016.0f32).to_bits(), 128 % 7, 0, 4032, 0, (-5i32) as u32, xor ^ xor];
    check("atomics", "", body, 2, 64, &want);
}

#[test]
fn widths_and_vectors() {
    let body = "setp.ne.u32 %p0, %t, 0;
         @%p0 bra END;
         mov.u32 %r1, 0x80ff7f01;
         st.global.u32 [%out], %r1;
         ld.global.s8 %r2, [%out+2];
         ld.global.u8 %r3, [%out+3];
         ld.global.s16 %r4, [%out+2];
         st.global.v4.u32 [%out+16], {%r1, %r2, %r3, %r4};
         ld.global.v2.u64 {%rd1, %rd2}, [%out+16];
         st.global.v2.u64 [%out+32], {%rd2, %rd1};
         st.global.u8 [%out+5], %r1;
         st.global.u16 [%out+6], %r1;
         ld.global.u16 %h0, [%out];
         st.global.u16 [%out+8], %h0;
         END:";
    let (a, b, c, d) = (0x80ff_7f01, u32::MAX, 0x80, 0xffff_80ff);
    check("widths", "", body, 1, 32, &[a, 0x7f01_0100, 0x7f01, 0, a, b, c, d, c, d, a, b]);
}

#[test]
fn local_constant_and_generic_memory() {
    let body = format!(
        "mov.u64 %rd1, mine;
         cvta.local.u64 %rd2, %rd1;
         st.u32 [%rd2+4], %t;
         ld.local.u32 %r1, [mine+4];
         mov.u64 %rd3, ours;
         cvta.shared.u64 %rd4, %rd3;
         mul.wide.u32 %rd5, %t, 4;
         add.u64 %rd4, %rd4, %rd5;
         st.u32 [%rd4], %r1;
         cvta.to.shared.u64 %rd6, %rd4;
         ld.shared.u32 %r2, [%rd6];
         cvta.global.u64 %rd7, %out;
         ld.u32 %r3, [%rd7+12];
         add.u32 %r0, %r2, %r3;
         bar.sync 0;
         {STORE}"
    );
    check("spaces", ".local .b32 mine[4];\n.shared .b32 ours[64];", &body, 1, 64, &words(64, |t| t));
}

#[test]
fn copies_land_when_waited_for() {
    // The wait covers only the first of two stages; the remainder of the second 16 bytes is filled with zeros.
    let body = "setp.ne.u32 %p0, %t, 0;
         @%p0 bra END;
         st.global.v4.u32 [%out+32], {1, 2, 3, 4};
         mov.u32 %r1, ring;
         add.u64 %rd1, %out, 32;
         cp.async.cg.shared.global [%r1], [%rd1], 16;
         cp.async.commit_group;
         mov.u32 %r2, 8;
         cp.async.cg.shared.global [%r1+16], [%rd1], 16, %r2;
         cp.async.commit_group;
         cp.async.wait_group 1;
         ld.shared.v2.u32 {%r3, %r4}, [%r1];
         st.global.v2.u32 [%out], {%r3, %r4};
         cp.async.wait_group 0;
         ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r1+16];
         st.global.v4.u32 [%out+16], {%r3, %r4, %r5, %r6};
         END:";
    check("cp.async", ".shared .align 16 .b8 ring[32];", body, 1, 32, &[1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 3, 4]);
}

#[test]
fn lanes_exchange_values() {
    let body = format!(
        "mul.lo.u32 %r1, %t, 3;
         shfl.sync.down.b32 %r2|%p0, %r1, 1, 31, -1;
         shfl.sync.bfly.b32 %r3, %r1, 16, 31, -1;
         shfl.sync.up.b32 %r4|%p1, %r1, 2, 0, -1;
         shfl.sync.idx.b32 %r5, %r1, 5, 0x181f, -1;
         and.b32 %r6, %t, 1;
         setp.eq.u32 %p2, %r6, 1;
         vote.sync.ballot.b32 %r7, %p2, -1;
         redux.sync.max.u32 %r8, %t, -1;
         add.u32 %r0, %r2, %r3;
         add.u32 %r0, %r0, %r4;
         add.u32 %r0, %r0, %r5;
         selp.u32 %r9, 1000, 0, %p0;
         add.u32 %r0, %r0, %r9;
         shr.u32 %r7, %r7, 16;
         add.u32 %r0, %r0, %r7;
         add.u32 %r0, %r0, %r8;
         {STORE}"
    );
    let want = words(32, |t| {
        let down = if t < 31 { 3 * (t + 1) + 1000 } else { 3 * t };
        let up = if t >= 2 { 3 * (t - 2) } else { 3 * t };
        down + 3 * (t ^ 16) + up + 3 * (t / 8 * 8 + 5) + 0xaaaa + 31
    });
    check("exchange", "", &body, 1, 32, &want);
    // Diverged lanes converge for it.
    let body = format!(
        "setp.lt.u32 %p0, %t, 11;
         mov.u32 %r1, 1;
         @%p0 bra TAKEN;
         add.u32 %r1, %t, 100;
         TAKEN: elect.sync %r2|%p1, -1;
         selp.u32 %r3, 500, 0, %p1;
         redux.sync.add.u32 %r0, %r1, -1;
         add.u32 %r0, %r0, %r3;
         {STORE}"
    );
    let sum: u32 = (0..32).map(|t| if t < 11 { 1 } else { t + 100 }).sum();
    check("diverged exchange", "", &body, 1, 32, &words(32, |t| sum + if t == 0 { 500 } else { 0 }));
}

#[test]
fn threads_may_share_a_word_byte_by_byte() {
    let body = "mov.u32 %r1, word;
         add.u32 %r1, %r1, %t;
         st.shared.u8 [%r1], %t;
         bar.sync 0;
         setp.ne.u32 %p0, %t, 0;
         @%p0 bra END;
         ld.shared.u32 %r2, [word];
         st.global.u32 [%out], %r2;
         END:";
    check("bytes", ".shared .b32 word;", body, 1, 4, &[0x0302_0100]);
}

#[test]
fn special_registers() {
    let body = format!(
        "mov.u32 %r1, %laneid;
         mov.u32 %r2, %warpid;
         mov.u32 %r3, %ntid.x;
         mov.u32 %r4, %nctaid.x;
         mov.u32 %r5, %lanemask_lt;
         popc.b32 %r6, %r5;
         shl.b32 %r2, %r2, 8;
         add.u32 %r0, %r6, %r2;
         shl.b32 %r3, %r3, 16;
         add.u32 %r0, %r0, %r3;
         {STORE}"
    );
    check("special", "", &body, 1, 40, &words(40, |t| t % 32 + ((t / 32) << 8) + (40 << 16)));
}
