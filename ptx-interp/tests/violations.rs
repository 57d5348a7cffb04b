//! Every rule, broken once; the whole report is a snapshot.

use ptx_gemm_interp::{Arg, Launch, Options, Violation, ViolationKind, launch};

use crate::run::Device;

/// A kernel that breaks a rule. `%in` points at 64 initialised words, `%out` at 64 that were never written.
struct Case {
    declarations: &'static str,
    body: &'static str,
    grid: u32,
    block: u32,
}

fn run(case: &Case, device: &mut dyn FnMut(&mut Device, u64)) -> Violation {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         {}\n.reg .b64 %rd<8>;\n.reg .b64 %in;\n.reg .b64 %out;\n.reg .b32 %r<8>;\n.reg .b32 %t;\n\
         .reg .f32 %f<8>;\n.reg .pred %p<4>;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n{}\nret;\n}}\n",
        case.declarations, case.body
    );
    let mut at = Device::new(&text);
    let input = at.upload("in", &[1u32; 64]);
    let out = at.reserve("out", 256);
    device(&mut at, out);
    let args = [Arg::U64(input), Arg::U64(out)];
    let violation = at.launch([case.grid, 1, 1], [case.block, 1, 1], &args);
    violation.expect_err("this kernel breaks a rule")
}

/// Snapshots the report under `name`.
fn check(name: &str, kind: ViolationKind, case: Case) {
    check_on(name, kind, case, &mut |_, _| {});
}

fn check_on(name: &str, kind: ViolationKind, case: Case, device: &mut dyn FnMut(&mut Device, u64)) {
    let violation = run(&case, device);
    snapshot(name, kind, &violation);
}

fn snapshot(name: &str, kind: ViolationKind, violation: &Violation) {
    assert_eq!(violation.kind, kind, "{violation}");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, violation.to_string());
    });
}

/// `%rd1` is the thread's own word of `%out`.
const OWN_WORD: &str = "mul.wide.u32 %rd0, %t, 4;\nadd.u64 %rd1, %out, %rd0;\n";

macro_rules! case {
    ($declarations:expr, $grid:expr, $block:expr, $body:expr) => {
        Case { declarations: $declarations, body: $body, grid: $grid, block: $block }
    };
}

#[test]
fn out_of_bounds() {
    let kind = ViolationKind::OutOfBounds;
    let past = "mul.wide.u32 %rd0, %t, 8;
        add.u64 %rd1, %in, %rd0;
        ld.global.f32 %f0, [%rd1]; //@ vector(4): copy A";
    check("out_of_bounds_past_the_end", kind, case!("", 1, 64, past));
    check("out_of_bounds_across_the_end", kind, case!("", 1, 1, "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in+256];"));
    check("out_of_bounds_before_the_start", kind, case!("", 1, 1, "ld.global.f32 %f0, [%in+-16];"));
    check("out_of_bounds_null", kind, case!("", 1, 1, "mov.u64 %rd0, 0;\nst.global.u32 [%rd0], %t;"));
    let shared = "mov.u32 %r0, tile;\nmad.lo.u32 %r1, %t, 4, %r0;\nst.shared.u32 [%r1], %t;";
    check("out_of_bounds_shared", kind, case!(".shared .b32 tile[16];", 1, 32, shared));
    let generic = "mov.u64 %rd0, mine;\ncvta.local.u64 %rd0, %rd0;\nst.u32 [%rd0+8], %t;";
    check("out_of_bounds_local", kind, case!(".local .b32 mine[2];", 1, 1, generic));
    check("out_of_bounds_param", kind, case!("", 1, 1, "ld.param.u64 %rd0, [out+8];"));
}

#[test]
fn freed_memory_is_recognised() {
    let case = case!("", 1, 1, "st.global.u32 [%out], %t;");
    check_on("out_of_bounds_freed", ViolationKind::OutOfBounds, case, &mut |device, _| {
        let id = device.reserved.expect("reserved");
        device.memory.free(id).expect("live");
    });
}

#[test]
fn misaligned() {
    let body = "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%in+8];";
    check("misaligned", ViolationKind::Misaligned, case!("", 1, 1, body));
}

#[test]
fn uninitialised() {
    let kind = ViolationKind::Uninitialised;
    check("uninitialised_register", kind, case!("", 1, 1, "add.u32 %r1, %r0, 1;\nst.global.u32 [%out], %r1;"));
    check("uninitialised_address", kind, case!("", 1, 1, "add.u64 %rd1, %in, %rd0;\nld.global.u32 %r0, [%rd1];"));
    check("uninitialised_guard", kind, case!("", 1, 1, "setp.eq.u32 %p0, %r0, 0;\n@%p0 mov.u32 %r1, 1;"));
    let shared = "mov.u32 %r0, tile;
        setp.eq.u32 %p0, %t, 0;
        @%p0 st.shared.u32 [%r0], %t;
        bar.sync 0;
        mad.lo.u32 %r1, %t, 4, %r0;
        ld.shared.u32 %r2, [%r1];
        mul.wide.u32 %rd0, %t, 4;
        add.u64 %rd1, %out, %rd0;
        st.global.u32 [%rd1], %r2; //@ store(direct): D";
    check("uninitialised_shared_memory", kind, case!(".shared .b32 tile[32];", 1, 32, shared));
    let global = "ld.global.u32 %r0, [%out+4];\nst.global.u32 [%out], %r0;";
    check("uninitialised_global_memory", kind, case!("", 1, 1, global));
    check("uninitialised_reduction", kind, case!("", 1, 1, "red.global.add.u32 [%out], 1;"));
}

#[test]
fn barrier_mismatch() {
    let kind = ViolationKind::BarrierMismatch;
    let divergent = "setp.lt.u32 %p0, %t, 7;\n@%p0 bra ELSE;\nbar.sync 0;\nbra END;\nELSE: bar.sync 0;\nEND:";
    check("barrier_in_divergent_code", kind, case!("", 1, 32, divergent));
    check("barrier_under_a_guard", kind, case!("", 1, 32, "setp.lt.u32 %p0, %t, 7;\n@%p0 bar.sync 0;"));
    check("barrier_after_an_exit", kind, case!("", 1, 32, "setp.lt.u32 %p0, %t, 7;\n@%p0 exit;\nbar.sync 0;"));
    check("barrier_without_a_warp", kind, case!("", 1, 64, "setp.lt.u32 %p0, %t, 32;\n@%p0 exit;\nbar.sync 0;"));
    let different = "setp.lt.u32 %p0, %t, 32;\n@%p0 bra ELSE;\nbar.sync 0;\nbra END;\nELSE: bar.sync 1;\nEND:";
    check("barriers_that_differ", kind, case!("", 1, 64, different));
    let counts = "setp.lt.u32 %p0, %t, 32;\n@%p0 bra ELSE;\nbar.sync 1, 96;\nbra END;\nELSE: bar.sync 1, 64;\nEND:";
    check("barrier_counts_that_differ", kind, case!("", 1, 96, counts));
    check("barrier_count_of_no_warps", kind, case!("", 1, 64, "bar.sync 1, 40;"));
    check("barrier_that_does_not_exist", kind, case!("", 1, 64, "bar.sync 16;"));
    let arrive = "setp.lt.u32 %p0, %t, 7;\n@%p0 bar.arrive 1, 64;";
    check("arrival_of_a_part", kind, case!("", 1, 32, arrive));
    let uniform = "setp.lt.u32 %p0, %t, 7;\n@%p0 bra.uni END;\nEND:";
    check("branch_that_is_not_uniform", kind, case!("", 1, 32, uniform));
}

#[test]
fn deadlock() {
    let kind = ViolationKind::Deadlock;
    let poll = "WAIT: ld.acquire.gpu.global.u32 %r0, [%in];\nsetp.eq.u32 %p0, %r0, 1;\n@%p0 bra WAIT;";
    check("deadlock_polling_a_flag", kind, case!("", 3, 32, poll));
    check("deadlock_in_an_empty_loop", kind, case!("", 1, 32, "FOREVER: bra FOREVER;"));
}

#[test]
fn runaway_kernels_stop() {
    let case = case!("", 1, 32, "mov.u32 %r0, 0;\nFOREVER: add.u32 %r0, %r0, 1;\nbra FOREVER;");
    check_on("instruction_limit", ViolationKind::InstructionLimit, case, &mut |device, _| {
        device.options.max_instructions = Some(100_000);
    });
}

#[test]
fn races() {
    let kind = ViolationKind::Race;
    let tile = ".shared .align 16 .b8 tile[256];";
    let forward = "mov.u32 %r0, tile;
        mad.lo.u32 %r1, %t, 4, %r0;
        st.shared.u32 [%r1], %t; //@ double_buffer: store A
        sub.u32 %r2, 63, %t;
        mad.lo.u32 %r2, %r2, 4, %r0;
        ld.shared.u32 %r3, [%r2]; //@ thread(8, 8): fragment of A";
    check("race_read_after_write", kind, case!(tile, 1, 64, forward));
    // Reading vectors strongly makes no difference: the bytes that they read were stored weakly.
    macro_rules! vectors {
        ($read:literal, $flag:literal) => {
            concat!(
                "mov.u32 %r0, tile;\nmad.lo.u32 %r1, %t, 4, %r0;\nst.shared.u32 [%r1], %t;\n",
                $flag,
                "and.b32 %r2, %t, 15;\nmad.lo.u32 %r2, %r2, 16, %r0;\n",
                $read,
                ".v4.u32 {%r3, %r1, %r0, %r2}, [%r2]; //@ prefetch(1, volatile): fragment of A"
            )
        };
    }
    let room = ".shared .align 16 .b8 tile[260];";
    check("race_of_vectors", kind, case!(room, 1, 64, vectors!("ld.shared", "")));
    check("race_of_volatile_vectors", kind, case!(room, 1, 64, vectors!("ld.volatile.shared", "")));
    let next_to_a_flag = vectors!("ld.volatile.shared", "st.volatile.shared.u32 [%r0+256], 1;\n");
    check("race_of_volatile_vectors_next_to_a_flag", kind, case!(room, 1, 64, next_to_a_flag));
    let reused = "mov.u32 %r0, tile;
        mad.lo.u32 %r1, %t, 4, %r0;
        st.shared.u32 [%r1], %t;
        bar.sync 0;
        ld.shared.u32 %r3, [%r0];
        st.shared.u32 [%r1], %r3;";
    check("race_write_after_read", kind, case!(tile, 1, 64, reused));
    check("race_write_after_write", kind, case!(tile, 1, 64, "mov.u32 %r0, tile;\nst.shared.u32 [%r0], %t;"));
    let bytes = "mov.u32 %r0, tile;
        setp.eq.u32 %p0, %t, 0;
        @%p0 st.shared.u8 [%r0+3], 9;
        @%p0 st.shared.u8 [%r0+1], %t;
        @!%p0 st.shared.u8 [%r0], %t;
        @!%p0 st.shared.u16 [%r0+2], %t;";
    check("race_of_bytes", kind, case!(tile, 1, 2, bytes));
    let early = "mov.u32 %r0, tile;
        mov.u32 %r2, 0;
        setp.eq.u32 %p0, %t, 0;
        @%p0 cp.async.ca.shared.global [%r0], [%in], 16;
        cp.async.commit_group;
        cp.async.wait_group 1;
        bar.sync 0;
        ld.shared.u32 %r3, [%r0];";
    check("race_with_a_copy", kind, case!(tile, 1, 32, early));
    // Half of the block synchronises; the other half reads what it wrote.
    let partial = "mov.u32 %r0, tile;
        setp.ge.u32 %p0, %t, 64;
        @%p0 bra END;
        setp.eq.u32 %p1, %t, 0;
        @%p1 st.shared.u32 [%r0], 5;
        bar.sync 1, 64;
        ld.shared.u32 %r3, [%r0];
        END: ld.shared.u32 %r4, [%r0];";
    check("race_past_a_partial_barrier", kind, case!(tile, 1, 96, partial));
}

#[test]
fn write_once() {
    let kind = ViolationKind::WrittenTwice;
    let once: &mut dyn FnMut(&mut Device, u64) = &mut |device, _| {
        let id = device.reserved.expect("reserved");
        device.memory.set_write_once(id).expect("live");
        device.options.threads = Some(1);
    };
    let body = "mul.wide.u32 %rd0, %t, 4;\nadd.u64 %rd1, %out, %rd0;\nst.global.u32 [%rd1], %t; //@ tile(8, 8): D";
    check_on("written_twice", kind, case!("", 2, 32, body), once);
    let body = "setp.eq.u32 %p0, %t, 37;\n@%p0 st.global.u32 [%out], 1;\n@%p0 st.global.u32 [%out], 2;";
    assert_eq!(run(&case!("", 1, 64, body), once).site.threads, [[37, 0, 0]]);
}

#[test]
fn unknown_instructions_count_only_when_reached() {
    let body = "setp.gt.u32 %p0, %t, 100;\n@%p0 frobnicate.u32 %r0, %r1;\nfrobnicate.u32 %r0, %r1;";
    check("unknown_instruction", ViolationKind::UnknownInstruction, case!("", 1, 32, body));
}

#[test]
fn impossible_launches() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .visible .entry k(.param .u64 in, .param .u32 n) .reqntid 64, 1, 1 {\nret;\n}\n";
    let device = Device::new(text);
    let good = [Arg::U64(0), Arg::U32(0)];
    let start = Launch { entry: "k", grid: [1; 3], block: [64, 1, 1], args: &good, ..Launch::default() };
    let cases = [
        ("launch_entry", Launch { entry: "l", ..start }),
        ("launch_block", Launch { block: [32, 1, 1], ..start }),
        ("launch_threads", Launch { block: [2048, 1, 1], ..start }),
        ("launch_grid", Launch { grid: [0, 1, 1], ..start }),
        ("launch_arguments", Launch { args: &good[..1], ..start }),
        ("launch_argument_size", Launch { args: &[Arg::U64(0), Arg::U64(0)], ..start }),
        ("launch_shared_memory", Launch { dynamic_shared_bytes: (1 << 20) + 64, ..start }),
    ];
    for (name, what) in cases {
        let violation = launch(&device.program, &device.memory, &what, &Options::default()).expect_err(name);
        snapshot(name, ViolationKind::Launch, &violation);
    }
}

#[test]
fn a_violation_says_who_and_where() {
    let body = format!("{OWN_WORD}setp.eq.u32 %p0, %t, 5;\n@%p0 ld.global.u32 %r0, [%rd1+1020]; //@ tail(none): D");
    let body: &'static str = Box::leak(body.into_boxed_str());
    let violation = run(&case!("", 4, 32, body), &mut |device, _| device.options.threads = Some(2));
    assert_eq!(violation.site.block, Some([0, 0, 0]), "the first block in order, whichever host thread ran it");
    assert_eq!(violation.site.threads, [[5, 0, 0]]);
    assert_eq!(violation.site.label.as_deref(), Some("out"));
    assert_eq!(violation.site.line, Some(19));
    let note = violation.site.note.expect("the line has one");
    assert_eq!((&*note.clause, &*note.what), ("tail(none)", "D"));
}
