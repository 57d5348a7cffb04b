//! Addresses of variables plus constants as operands.

use ptx_gemm_interp::ViolationKind::{self, Misaligned, OutOfBounds, Uninitialised};
use ptx_gemm_interp::{Arg, Launch, Program, Violation, launch};

use crate::run::Device;

/// One thread; `%o` is the address of 16 words.
fn run(body: &str) -> Result<Vec<u32>, Violation> {
    let mut device = Device::new(&format!(
        ".version 8.0\n.target sm_90\n.address_size 64
         .global .align 8 .u32 table[4] = {{10, 11, 12, 13}};
         .const .align 4 .u32 fixed[4] = {{20, 21, 22, 23}};
         .const .u64 pointers[4] = {{7, table, generic(fixed)+4, fixed+8}};
         .visible .entry k(.param .u64 out, .param .u32 seven, .param .u32 eight) {{
         .shared .align 8 .b8 before[16]; .shared .align 8 .b8 s[16];
         .local .align 8 .b8 l[16];
         .reg .b64 %rd<8>; .reg .b64 %o; .reg .b32 %r<8>; .reg .pred %p;
         ld.param.u64 %o, [out];
         {body}
         ret; }}"
    ));
    let out = device.reserve("out", 64);
    device.launch([1, 1, 1], [1, 1, 1], &[Arg::U64(out), Arg::U32(7), Arg::U32(8)])?;
    Ok(device.words(out, 4))
}

#[test]
fn addresses_plus_constants() {
    for (name, body, want) in [
        ("shared", "mov.u32 %r0, s+8; st.shared.u32 [s+8], 5; ld.shared.u32 %r1, [%r0];", 5),
        ("before", "mov.u32 %r0, s+-4; st.shared.u32 [s+4], 6; ld.shared.u32 %r1, [%r0+8];", 6),
        ("twice", "mov.b32 %r0, s+4+4; st.shared.u32 [s+4+4], 5; ld.shared.u32 %r1, [%r0];", 5),
        ("wide", "mov.u64 %rd0, s+12; st.shared.u32 [s+12], 4; ld.shared.u32 %r1, [%rd0];", 4),
        ("global", "mov.u64 %rd0, table+8; ld.global.u32 %r1, [%rd0+-4];", 11),
        ("constant", "mov.b64 %rd0, fixed+12; ld.const.u32 %r1, [%rd0];", 23),
        ("in constant memory", "ld.const.u64 %rd0, [pointers+8]; ld.global.u32 %r1, [%rd0+8];", 12),
        ("of constant memory", "ld.const.u64 %rd0, [pointers+16]; ld.u32 %r1, [%rd0+4];", 22),
        ("within constant memory", "ld.const.u64 %rd0, [pointers+24]; ld.const.u32 %r1, [%rd0+4];", 23),
        ("an element", "mov.u64 %rd0, table[2]; ld.global.u32 %r1, [%rd0];", 12),
        ("an element as an operand", "ld.const.u32 %r1, fixed[3];", 23),
        ("local", "mov.u64 %rd0, l+4; st.local.u32 [l+4], 3; ld.local.u32 %r1, [%rd0];", 3),
        ("parameter", "mov.b64 %rd0, seven+4; ld.param.u32 %r1, [%rd0];", 8),
        ("generic shared", "cvta.shared.u64 %rd0, s+4; st.shared.u32 [s+4], 9; ld.u32 %r1, [%rd0];", 9),
        ("generic global", "cvta.global.u64 %rd0, table+12; ld.u32 %r1, [%rd0];", 13),
        (
            "own block",
            "mapa.shared::cluster.u32 %r0, s+4, 0; st.shared.u32 [s+4], 2; ld.shared::cluster.u32 %r1, [%r0];",
            2,
        ),
        ("rank", "getctarank.shared::cluster.u32 %r1, s+4;", 0),
    ] {
        let words = run(&format!("{body} st.global.u32 [%o], %r1;")).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(words[0], want, "{name}");
    }
}

#[test]
fn faults_at_such_addresses() {
    let breaks = |body: &str, kind: ViolationKind| {
        let violation = run(&format!("{body} st.global.u32 [%o], %r1;")).map(|_| ()).expect_err(body);
        assert_eq!(violation.kind, kind, "{body}: {violation}");
    };
    breaks("mov.u32 %r0, s+16; ld.shared.u32 %r1, [%r0];", OutOfBounds);
    breaks("mov.u32 %r0, s+-2147483648; ld.shared.u32 %r1, [%r0];", OutOfBounds);
    breaks("mov.u64 %rd0, table+16; ld.global.u32 %r1, [%rd0];", OutOfBounds);
    breaks("mov.u32 %r0, s+2; ld.shared.u32 %r1, [%r0];", Misaligned);
    breaks("mov.u64 %rd0, table+2; ld.global.u32 %r1, [%rd0];", Misaligned);
    breaks("mov.u32 %r0, s+4; ld.shared.u32 %r1, [%r0];", Uninitialised);
}

/// On a GPU, variables in shared memory are adjacent, and an index past the end of one reads or overwrites the next.
#[test]
fn shared_variables_end_where_they_end() {
    let one = |declarations: &str, body: &str, dynamic: u32| {
        let device = Device::new(&format!(
            ".version 8.0\n.target sm_90\n.address_size 64
             {declarations}
             .visible .entry k(.param .u64 out) {{
             .shared .align 4 .b8 a[12]; .shared .align 16 .b8 b[64];
             .reg .b64 %rd<8>; .reg .b64 %o; .reg .b32 %r<8>;
             ld.param.u64 %o, [out];
             mov.u32 %r1, a; mov.u32 %r2, b;
             st.shared.u32 [a], 1; st.shared.u32 [a+4], 2; st.shared.u32 [a+8], 3;
             {body}
             ret; }}"
        ));
        let out = device.upload("out", &[0u32; 4]);
        let args = [Arg::U64(out)];
        let shape = Launch { entry: "k", grid: [1, 1, 1], block: [1, 1, 1], args: &args, ..Launch::default() };
        let shape = Launch { dynamic_shared_bytes: dynamic, ..shape };
        launch(&device.program, &device.memory, &shape, &device.options).map(|_| device.words(out, 4))
    };
    let past = |declarations: &str, body: &str, dynamic: u32, says: &str| {
        let violation = one(declarations, body, dynamic).expect_err(body);
        assert_eq!(violation.kind, OutOfBounds, "{body}: {violation}");
        assert!(violation.to_string().contains(says), "{body}: {violation}");
    };
    let end = "which ends 4 bytes past the end of `a`";
    past("", "st.shared.u32 [%r1+12], 5;", 0, end);
    past("", "ld.shared.u32 %r3, [a+12];", 0, end);
    past("", "ld.shared.v2.u32 {%r3, %r4}, [%r1+8];", 0, end);
    past("", "st.shared.u8 [%r1+12], 5;", 0, "which ends 1 byte past");
    past("", "cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd1, %rd1; st.u32 [%rd1+12], 5;", 0, end);
    past("", "ld.shared.u32 %r3, [%r2+-4];", 0, "4 bytes before the variable that follows `a`");
    past("", "st.shared.u32 [b+64], 5;", 0, "its shared memory is");
    past(
        ".extern .shared .align 16 .b8 d[];",
        "st.shared.u32 [b+64], 5;",
        64,
        "which ends 4 bytes past the end of `b`",
    );
    past(".extern .shared .align 16 .b8 d[];", "st.shared.u32 [d+-4], 5;", 64, "4 bytes before");
    past("", "cp.async.ca.shared.global [%r1+12], [%o], 4;", 0, end);
    // Sizes, alignments and banks are those of a GPU.
    let layout = "mov.u32 %r3, %total_smem_size; sub.u32 %r4, %r2, %r1; and.b32 %r4, %r4, 127; and.b32 %r5, %r2, 15;
         st.global.u32 [%o], %r3; st.global.u32 [%o+4], %r4; st.global.u32 [%o+8], %r5;";
    assert_eq!(one("", layout, 0), Ok(vec![80, 16, 0, 0]));
    assert_eq!(one(".extern .shared .align 16 .b8 d[];", layout, 100), Ok(vec![180, 16, 0, 0]));
    let program = Program::from_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { .shared .align 4 .b8 a[12]; .shared .align 16 .b8 b[64]; ret; }",
    );
    assert_eq!(program.map(|program| program.shared_bytes("k")), Ok(Some(80)));
}
