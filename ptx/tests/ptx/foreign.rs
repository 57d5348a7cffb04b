//! PTX from other compilers: what is accepted, and what it becomes.

use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::module::{Directive, Statement};
use ptx_gemm_ptx::parse::{parse, parse_with_lines};
use ptx_gemm_ptx::print::print;
use ptx_gemm_ptx::verify::verify;

/// The printed form of a body, in an entry with a few registers.
fn printed(body: &str) -> Vec<String> {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .b8 smem[];\n.entry k(.param .u64 a) {{\n\
         .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .pred %p<4>; .reg .b32 x;\n{body}\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
    let text = print(&module);
    assert_eq!(parse(&text).as_ref(), Ok(&module), "{text}");
    // The body starts after the empty line that follows the registers.
    let body = text.split_once(";\n\n").and_then(|(_, entry)| entry.split_once(";\n\n")).map_or("", |(_, body)| body);
    body.lines().filter(|line| *line != "}").map(|line| line.trim().to_owned()).collect()
}

/// The parser's error for a body.
fn complaint(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn a_file_of_nvcc() {
    let text = include_str!("../foreign/nvcc.ptx");
    let parsed = parse_with_lines(text).unwrap_or_else(|error| panic!("{error}"));
    let module = &parsed.module;
    assert_eq!(module.target, "sm_80");
    assert!(module.header.iter().any(|line| line.contains("NVVM 7.0.1")));
    assert_eq!(module.variables[2].count, Some(12));
    let [entry, second] = module.entries.as_slice() else { panic!("two entries") };
    assert_eq!(second.name, "second");
    assert_eq!(entry.params.iter().map(|param| param.count).collect::<Vec<_>>(), [None, None, Some(16), None]);
    assert_eq!(entry.directives[2], Directive::ExplicitCluster);

    // The resulting text is stable, and reads as the same module.
    let printed = print(module);
    assert_eq!(parse(&printed).as_ref(), Ok(module));
    assert_eq!(print(&parse(&printed).unwrap()), printed);

    // Nothing that was not understood was dropped.
    for kept in [
        "one more remark",
        "add.ftz.f32",
        "add.sat.f32",
        "ld.global.L1::no_allocate.v2.f32",
        "tex.2d.v4.f32.f32",
        "brx.idx",
    ] {
        assert!(printed.contains(kept), "{kept} is kept");
    }
    // Statements know their lines, also after a scope that was flattened.
    let store = entry.body.iter().position(|statement| {
        matches!(statement, Statement::Instruction(instruction) if matches!(instruction.op, Opcode::St { .. }))
    });
    let line = parsed.lines[0][store.expect("a store")] as usize;
    assert!(text.lines().nth(line - 1).unwrap().contains("st.global.f32"));
}

#[test]
fn spellings() {
    for (body, wanted) in [
        ("mov.b32 x, 0x10;", vec!["mov.b32 x, 16;"]),
        ("mov.f32 %f0, 1.5;", vec!["mov.f32 %f0, 0f3FC00000;"]),
        ("mov.f32 %f0, -1.5;", vec!["mov.f32 %f0, 0fBFC00000;"]),
        ("mov.b64 %rd0, -0x1;", vec!["mov.b64 %rd0, -1;"]),
        ("mov.b64 %rd0, 18446744073709551615;", vec!["mov.b64 %rd0, -1;"]),
        ("ld.shared.f32 %f0, [%r1-4];", vec!["ld.shared.f32 %f0, [%r1+-4];"]),
        ("ld.shared.f32 %f0, [%r1 + 0x10];", vec!["ld.shared.f32 %f0, [%r1+16];"]),
        ("ld.shared.f32 %f0, [smem+4+4];", vec!["ld.shared.f32 %f0, [smem+8];"]),
        ("mov.u32 %r0, smem+0x10;", vec!["mov.u32 %r0, smem+16;"]),
        ("mov.u32 %r0, smem + 16 + -16;", vec!["mov.u32 %r0, smem;"]),
        ("ld.weak.shared.f32 %f0, [smem];", vec!["ld.shared.f32 %f0, [smem];"]),
        ("membar.sys;", vec!["fence.sc.sys;"]),
        ("mov.u32 %r0, %envreg2;", vec!["mov.u32 %r0, %envreg2;"]),
        (
            "wmma.store.d.sync.aligned.m16n16k16.col.f16 [%rd0], {%r0, %r1, %r2, %r3};",
            vec!["wmma.store.d.sync.aligned.col.m16n16k16.f16 [%rd0], {%r0, %r1, %r2, %r3};"],
        ),
        (
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r0], 1, [%r1];",
            vec!["st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r0], 1, [%r1];"],
        ),
        (
            "{ t: .branchtargets a, b; brx.idx.uni %r0, t; a: b: } t: ret;",
            vec!["t_s1_: .branchtargets a_s2_, b_s3_;", "brx.idx.uni %r0, t_s1_;", "a_s2_:", "b_s3_:", "t:", "ret;"],
        ),
        ("barrier.cta.sync.aligned 0;", vec!["bar.sync 0;"]),
        ("barrier.cta.sync 0;", vec!["barrier.sync 0;"]),
        ("cp.async.ca.shared::cta.global [%r0], [%rd0], 4;", vec!["cp.async.ca.shared.global [%r0], [%rd0], 4;"]),
        ("cp.async.bulk.commit_group ; ;", vec!["cp.async.bulk.commit_group;"]),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes\n .multicast::cluster [%r0], \
             [%rd0, {%r1, %r2}], [%r3], 1;",
            vec![
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster \
                 [%r0], [%rd0, {%r1, %r2}], [%r3], 1;",
            ],
        ),
        (
            "@%p0 mov.v4.u32 {%r0, %r1, _, %r3}, %ctaid;",
            vec!["@%p0 mov.u32 %r0, %ctaid.x;", "@%p0 mov.u32 %r1, %ctaid.y;", "@%p0 mov.u32 %r3, 0;"],
        ),
        ("max.ftz.NaN.xorsign.abs.f32 %f0, %f1, %f2;", vec!["max.ftz.NaN.xorsign.abs.f32 %f0, %f1, %f2;"]),
        ("min.s16x2.relu %r0, %r1, %r2;", vec!["min.relu.s16x2 %r0, %r1, %r2;"]),
        ("cvt.rn.relu.satfinite.bf16x2.f32 %r0, %f0, %f1;", vec!["cvt.rn.satfinite.relu.bf16x2.f32 %r0, %f0, %f1;"]),
        ("ret; // why", vec!["// why", "ret;"]),
        ("ret; //@ tile(1, 1): leave", vec![&*format!("{:<60}//@ tile(1, 1): leave", "ret;")]),
        ("L: bra L;", vec!["L:", "bra L;"]),
        ("{ .reg .b32 x; mov.b32 x, 1; } mov.b32 x, 2;", vec!["mov.b32 x_s1_, 1;", "mov.b32 x, 2;"]),
        ("{ .reg .b32 y; mov.b32 y, 1; }", vec!["mov.b32 y, 1;"]),
        ("{ .reg .b32 %r<9>; mov.b32 %r8, 1; }", vec!["mov.b32 %r_s1_8, 1;"]),
        ("{ L: bra L; } { L: bra L; }", vec!["L_s1_:", "bra L_s1_;", "L_s2_:", "bra L_s2_;"]),
        ("{ { bra L; } L: } bra L; L:", vec!["bra L_s1_;", "L_s1_:", "bra L;", "L:"]),
        ("ld.global.b32 { %r0 }, [ %rd0 + 0 ];", vec!["ld.global.b32 %r0, [%rd0];"]),
        (
            "@%p0 st.shared.b32 [%r1], {%r0}; mov.b32 %r0, {%r1};",
            vec!["@%p0 st.shared.b32 [%r1], %r0;", "mov.b32 %r0, %r1;"],
        ),
        ("wmma.load.a.sync {%r0}, [%rd0], %r1;", vec!["wmma.load.a.sync {%r0}, [%rd0], %r1;"]),
        ("setp.lt.and.s32 %p0|_, %r0, 1, !%p1;", vec!["setp.lt.and.s32 %p0|_, %r0, 1, !%p1;"]),
    ] {
        let wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
        assert_eq!(printed(body), wanted, "{body}");
    }
}

/// ptxas accepts most modifiers in any order, and hints to the caches among them. Text in another order is the same
/// instruction.
#[test]
fn modifiers_in_other_orders() {
    for (body, wanted) in [
        ("ld.global.acquire.gpu.b32 %r0, [%rd0];", "ld.acquire.gpu.global.b32 %r0, [%rd0];"),
        ("ld.b32.global.v2 {%r0, %r1}, [%rd0];", "ld.global.v2.b32 {%r0, %r1}, [%rd0];"),
        ("ld.mmio.relaxed.sys.global.u32 %r0, [%rd0];", "ld.relaxed.sys.global.u32 %r0, [%rd0];"),
        ("ldu.global.u32 %r0, [%rd0];", "ld.global.u32 %r0, [%rd0];"),
        ("st.global.release.gpu.b32 [%rd0], %r0;", "st.release.gpu.global.b32 [%rd0], %r0;"),
        ("atom.add.release.gpu.u32 %r0, [%rd0], 1;", "atom.release.gpu.add.u32 %r0, [%rd0], 1;"),
        ("atom.global.gpu.acq_rel.add.u32 %r0, [%rd0], 1;", "atom.acq_rel.gpu.global.add.u32 %r0, [%rd0], 1;"),
        ("atom.global.gpu.add.u32 %r0, [%rd0], 1;", "atom.relaxed.gpu.global.add.u32 %r0, [%rd0], 1;"),
        ("red.global.gpu.relaxed.add.f32 [%rd0], %f0;", "red.relaxed.gpu.global.add.f32 [%rd0], %f0;"),
        (
            "ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%r0, %r1}, [%r2];",
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%r2];",
        ),
        (
            "stmatrix.sync.aligned.x2.m8n8.shared.b16 [%r2], {%r0, %r1};",
            "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r2], {%r0, %r1};",
        ),
        (
            "mbarrier.try_wait.parity.shared::cta.acquire.cta.b64 %p0, [%r0], 0;",
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p0, [%r0], 0;",
        ),
        ("fma.ftz.rn.f32 %f0, %f1, %f2, %f3;", "fma.rn.ftz.f32 %f0, %f1, %f2, %f3;"),
        ("mad.rn.f32 %f0, %f1, %f2, %f3;", "fma.rn.f32 %f0, %f1, %f2, %f3;"),
        ("barrier.cta.red.popc.aligned.u32 %r0, 0, %p0;", "bar.red.popc.u32 %r0, 0, %p0;"),
        ("barrier.cta.red.or.pred %p1, 0, 64, !%p0;", "barrier.red.or.pred %p1, 0, 64, !%p0;"),
        (
            "ld.global.nc.L2::128B.L1::no_allocate.v2.b32 {%r0, %r1}, [%rd0];",
            "ld.global.nc.L1::no_allocate.L2::128B.v2.b32 {%r0, %r1}, [%rd0];",
        ),
        (
            "ld.global.L1::evict_last.L2::cache_hint.b32 %r0, [%rd0], %rd1;",
            "ld.global.L1::evict_last.L2::cache_hint.b32 %r0, [%rd0], %rd1;",
        ),
        (
            "cp.async.cg.shared::cta.global.L2::cache_hint.L2::256B [%r0], [%rd0], 16, %r1, %rd1;",
            "cp.async.cg.shared.global.L2::cache_hint.L2::256B [%r0], [%rd0], 16, %r1, %rd1;",
        ),
        ("red.global.add.L2::cache_hint.u32 [%rd0], 1, %rd1;", "red.global.add.L2::cache_hint.u32 [%rd0], 1, %rd1;"),
        // The two state spaces of a copy are not modifiers in any order.
        ("cp.async.cg.global.shared [%r0], [%rd0], 16;", "cp.async.cg.global.shared [%r0], [%rd0], 16;"),
    ] {
        assert_eq!(printed(body), [wanted], "{body}");
    }
    let opcode = |body: &str| match &parse(&format!(
        ".version 8.0\n.target sm_90\n.entry k() {{ .reg .b32 %r<2>; .reg .b64 %rd<2>; {body} }}"
    ))
    .unwrap()
    .entries[0]
        .body[0]
    {
        Statement::Instruction(instruction) => instruction.op.clone(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(opcode("cp.async.cg.global.shared [%r0], [%rd0], 16;"), Opcode::Unknown(_)));
    assert!(matches!(opcode("ld.shared.L1::no_allocate.b32 %r0, [%r1];"), Opcode::Unknown(_)), "shared has no hints");
    assert!(matches!(opcode("ld.global.L2::evict_first.b32 %r0, [%rd0];"), Opcode::Hinted { .. }));
}

#[test]
fn unknown_instructions_keep_their_operands() {
    let text = ".version 8.0\n.target sm_90\n.entry k() { .reg .b32 %r<2>; frob.x %r1, 3, [%r0], THERE; }";
    let module = parse(text).unwrap();
    let Statement::Instruction(instruction) = &module.entries[0].body[0] else { panic!("an instruction") };
    assert_eq!(instruction.op, Opcode::Unknown("frob.x".to_owned()));
    assert_eq!(instruction.operands.len(), 4);
    assert_eq!(instruction.operands[3], Operand::Label(Box::new("THERE".to_owned())));
}

#[test]
fn refusals() {
    let body = |body: &str| format!(".version 8.0\n.target sm_90\n.entry k() {{\n{body}\n}}\n");
    for (text, wanted) in [
        (String::new(), "line 1, column 1: expected `.version`, found the end of the text"),
        (".version 8".to_owned(), "line 1, column 10: expected a version such as 8.0"),
        (".version 8.0\n.target sm_90\n.address_size 32\n".to_owned(), "only .address_size 64 is supported"),
        (
            ".version 8.0\n.target sm_90\n.const .u32 x = y;".to_owned(),
            "an address needs a variable of type .u64 or .s64",
        ),
        (".version 8.0\n.target sm_90\n.global .u64 x = y;".to_owned(), "the name `y` is not declared"),
        (".version 8.0\n.target sm_90\n.global .u64 x = generic(x);".to_owned(), "the name `x` is not declared"),
        (
            ".version 8.0\n.target sm_90\n.shared .u32 y; .global .u64 x = y;".to_owned(),
            "an address in .shared memory is not supported here",
        ),
        (
            ".version 8.0\n.target sm_90\n.global .u32 y; .global .u8 x = 0xff(y);".to_owned(),
            "`y` is not a function, and a part of another address is not supported",
        ),
        (
            ".version 8.0\n.target sm_90\n.const .u32 x[1] = {1, 2};".to_owned(),
            "the initialiser has 2 values for 1 elements",
        ),
        (
            ".version 8.0\n.target sm_90\n.func f(.shared .u32 x) { ret; }".to_owned(),
            "expected `.param`, found `.shared`",
        ),
        (".version 8.0\n.target sm_90\n.alias f, g;".to_owned(), "the function `f` is not declared"),
        (".version 8.0\n.target sm_90\n.entry k();".to_owned(), "an entry needs a body"),
        (body("add.s32 %r1, %r2, 3;"), "line 4, column 9: the register `%r1` is not declared"),
        (body(".reg .b32 %r<4>; mov.b32 %r4, 1;"), "the register `%r4` is not declared"),
        (body(".reg .b32 %r<4>; mov.b32 %r01, 1;"), "the register `%r01` is not declared"),
        (body(".reg .b32 %r<4>; mov.b32 %r1, %envreg32;"), "the register `%envreg32` is not declared"),
        (body(".reg .b32 %r<4>; mov.b32 %r1, nothing;"), "the name `nothing` is not declared"),
        (body(".reg .b32 %r<4>, %r<3>;"), "`%r` is declared twice"),
        (body(".reg .b32 %r<4294967296>;"), "the number does not fit 32 bits"),
        (body(".reg .v4 .f64 %r;"), "4 .f64 registers do not make a vector of at most 16 bytes"),
        (body(".reg .v2 .pred %r;"), "2 .pred registers do not make a vector of at most 16 bytes"),
        (
            body(".reg .b32 %r<4>; mov.v4.u32 {%r0, %r1, %r2, %r3}, %laneid;"),
            "a move of a vector needs 4 registers, and as many values or a special register of three components",
        ),
        (body(".reg .b32 %r<4>; mov.b32 %r0, 1/(2-2);"), "the expression divides by zero"),
        (body(".reg .b32 %r<4>; mov.b32 %r0, 1.5 + 1;"), "the operator takes two integers, or two numbers like 1.5"),
        (body(".reg .b32 %r<4>; mov.b32 %r0, (.f64)1;"), "expected `.s64` or `.u64`, found `.f64`"),
        (body(".reg .b32 %r<4>; mov.b32 %r0, (1;"), "expected `)`, found `;`"),
        (
            ".version 8.0\n.target sm_90\n.global .u32 x[2][2] = {{1, 2, 3}};".to_owned(),
            "more than 2 values for a part of the variable",
        ),
        (body("call.uni (1), f;"), "expected the name of a parameter, found `1`"),
        (body("mov.b32 \"x\";"), "expected an operand, found `x`"),
        (body("ret"), "line 5, column 1: expected an operand, found `}`"),
        (body("ret;\n#"), "expected a statement, found `#`"),
        (body("ret; \u{e9}"), "unexpected character 'é'"),
        (body("/* ret;"), "unclosed comment"),
        (body(".pragma \"x;"), "unclosed quotation mark"),
        (body("ret;").replace('}', ""), "expected `}`, found the end of the text"),
    ] {
        let complaint = complaint(&text);
        assert!(complaint.ends_with(wanted), "{text}\n  wanted: {wanted}\n  got: {complaint}");
    }
}

#[test]
fn functions_are_part_of_who_calls_them() {
    let text = ".version 8.0
.target sm_75
.global .align 4 .b8 table[8] = {1, 2, 255};
.const .f32 scale = 0f3E800000;
.func (.param .b32 result) twice(.param .b32 value);
.func (.param .b32 result) twice(.param .b32 value)
{
    .reg .b32 %r<3>;
    .reg .pred %p;
    ld.param.b32 %r1, [value];
    setp.eq.s32 %p, %r1, 0;
    @%p bra out;
    add.cc.u32 %r2, %r1, %r1;
    st.param.b32 [result+0], %r2;
    ret;
out:
    st.param.b32 [result+0], %r1;
    ret;
}
.entry k(.param .b32 n)
{
    .reg .b32 %r<3>;
    .reg .pred %q;
    ld.param.b32 %r1, [n];
    setp.ne.s32 %q, %r1, 3;
    {
        .param .b32 a;
        .param .b32 b;
        st.param.b32 [a], %r1;
        @%q call.uni (b), twice, (a);
        ld.param.b32 %r2, [b];
    }
    call.uni elsewhere, (n);
    add.ftz.sat.f32 %r2, %r2, %r1;
}
";
    let module = parse(text).unwrap();
    let printed = print(&module);
    assert_eq!(parse(&printed).as_ref(), Ok(&module), "{printed}");
    assert_eq!(verify(&module), Ok(()), "{printed}");
    assert_eq!(module.variables[0].initial_bytes(), [1, 2, 255]);
    for line in [
        ".global .align 4 .b8 table[8] = {1, 2, 255};",
        ".const .f32 scale = 0f3E800000;",
        "@!%q bra return_f",
        "ld.local.b32 %r_f",
        "[a];",
        "st.local.b32 [b], %r_f",
        "bra return_f",
        "ld.local.b32 %r2, [b];",
        "call.uni elsewhere;",
        "add.ftz.sat.f32 %r2, %r2, %r1;",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    assert!(!printed.contains(" ret;"), "{printed}");
}

#[test]
fn addresses_in_initial_values() {
    let text = ".version 8.0
.target sm_75
.func one();
.global .u32 numbers[4];
.const .u32 fixed[4];
.global .u64 pointers[6] = {numbers, generic(numbers)+4, generic(fixed)+-8, fixed+4, one, 7};
.global .u8 bytes[3] = {0xff(one), 0xFF0000000000(one), 3};
.global .u64 single = generic(numbers);
.func one() { ret; }
.entry k() { ret; }
";
    let module = parse(text).unwrap();
    let printed = print(&module);
    assert_eq!(parse(&printed).as_ref(), Ok(&module), "{printed}");
    assert_eq!(verify(&module), Ok(()), "{printed}");
    for line in [
        "pointers[6] = {generic(numbers), generic(numbers)+4, generic(fixed)+-8, fixed+4, 16492674416640, 7};",
        "bytes[3] = {0, 15, 3};",
        "single = generic(numbers);",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    let mut swapped = module.clone();
    swapped.variables.swap(0, 2);
    let complaints = verify(&swapped).expect_err("a variable is used before it is declared");
    assert!(complaints[0].message.contains("`pointers` has the address of a variable"), "{complaints:?}");
}

#[test]
fn calls_by_address_compare_it() {
    let text = ".version 8.0
.target sm_75
.func (.param .b32 r) one(.param .b32 x) { ret; }
.func two(.param .b32 x, .param .b32 y, .param .b32 z) { ret; }
.entry k(.param .b64 n)
{
    .reg .b64 %f;
    .param .b32 a;
    .param .b32 b;
    mov.u64 %f, one;
    table: .calltargets one, two;
    call (b), %f, (a), table;
    call (b), %f, (a, a, a), table;
}
";
    let module = parse(text).unwrap();
    let printed = print(&module);
    assert_eq!(parse(&printed).as_ref(), Ok(&module), "{printed}");
    assert_eq!(verify(&module), Ok(()), "{printed}");
    // One function has the numbers of parameters and results of the first call, none has those of the second.
    assert_eq!(printed.matches("setp.ne.u64").count(), 1, "{printed}");
    assert_eq!(printed.matches("call %f;").count(), 2, "{printed}");
}

/// The values are those of ptxas 13.0, which the file's digits come from.
#[test]
fn constant_expressions() {
    for (text, value) in [
        ("((128 >> 4) << 16) | 3", 0x80003),
        ("~7", -8),
        ("1 ? 2 : 3", 2),
        ("1 ? 0 ? 5 : 6 : 7", 6),
        ("WARP_SZ*2-1", 63),
        ("-(-5)", 5),
        ("-~5", 6),
        ("+-5", -5),
        ("!5", 0),
        ("!!7", 1),
        ("1+2*3", 7),
        ("5 - 3 - 1", 1),
        ("8 / 2 / 2", 2),
        ("2 * 3 % 4", 2),
        ("-8/3", -2),
        ("(.u64)-8/3", 0x5555_5555_5555_5552),
        ("-8 % 3", 2),
        ("8 % -3", 8),
        ("-1 >> 60", -1),
        ("-1U >> 60", 15),
        ("~0 >> 60", 15),
        ("0xffffffffffffffff >> 60", 15),
        ("(.s64)0xffffffffffffffff >> 60", -1),
        ("(1 ? -1 : 2U) >> 60", -1),
        ("1 - 2U >> 60", 15),
        ("1<<65", 2),
        ("1<<-1", i64::MIN),
        ("-1 < 1U", 0),
        ("-1 > 0U", 1),
        ("-1 == 0xffffffffffffffff", 1),
        ("1 < 2 < 3", 1),
        ("1 == 1 ? 4 : 5", 4),
        ("6 & 3 == 3", 0),
        ("1 | 2 ^ 3 & 4", 3),
        ("1 << 2 + 1", 8),
        ("1 && 2", 1),
        ("2 || 0", 1),
        ("6|3", 7),
        ("6 != 3", 1),
        ("2 >= 2", 1),
        ("2 <= 1", 0),
        ("1.0 < 2.0", 1),
        ("0b101 << 1", 10),
        ("-9223372036854775808 / -1", 0),
    ] {
        let wanted = vec![format!("mov.b64 %rd0, {value};")];
        assert_eq!(printed(&format!("mov.b64 %rd0, {text};")), wanted, "{text}");
    }
    for (body, wanted) in [
        ("mov.f32 %f0, 1.0/4.0;", "mov.f32 %f0, 0f3E800000;"),
        ("mov.f32 %f0, -(1.5);", "mov.f32 %f0, 0fBFC00000;"),
        ("ld.global.b32 %r0, [%rd0 + 4*(2+1)];", "ld.global.b32 %r0, [%rd0+12];"),
        ("ld.global.b32 %r0, [%rd0+5 - 3];", "ld.global.b32 %r0, [%rd0+2];"),
        ("st.shared.b32 [smem+WARP_SZ*4], ~0;", "st.shared.b32 [smem+128], -1;"),
        ("setp.eq.u32 %p0, %r0, 1 << 4;", "setp.eq.u32 %p0, %r0, 16;"),
        ("lop3.b32 %r0, %r1, %r2, %r3, (0xF0 & 0xCC) ^ 0xAA;", "lop3.b32 %r0, %r1, %r2, %r3, 106;"),
        ("bar.sync 1+1, 32*2;", "bar.sync 2, 64;"),
        ("mov.b64 %rd0, {1+1, 2*3};", "mov.b64 %rd0, {2, 6};"),
        ("mov.u32 %r0, smem[2+1];", "mov.u32 %r0, smem+3;"),
    ] {
        assert_eq!(printed(body), [wanted], "{body}");
    }
    let deep = format!("mov.b64 %rd0, {}1{};", "(".repeat(5000), ")".repeat(5000));
    let signs = format!("mov.b64 %rd0, {}1;", "- ".repeat(5000));
    let choices = format!("mov.b64 %rd0, {}1;", "1 ? 1 : ".repeat(5000));
    for text in [deep, signs, choices] {
        let entry = format!(".version 8.0\n.target sm_90\n.entry k() {{ .reg .b64 %rd<2>; {text} }}");
        assert!(complaint(&entry).contains("expressions nest deeper than 64"));
    }
}

#[test]
fn vectors_and_arrays() {
    let text = ".version 8.0
.target sm_90
.global .v4 .f32 quads[2] = {{1.0, 2.0}, {3.0+1.0}};
.global .u32 rows[2][3] = {{1}, {2*2, 5}};
.global .u16 open[] = {1, 2, 3};
.entry k(.param .u64 a)
{
    .reg .v4 .b32 %v, %u;
    .reg .v2 .b32 %w<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    mov.u64 %rd0, quads[1];
    mov.u64 %rd1, rows[4];
    ld.global.v4.b32 %v, [%rd0];
    mov.v4.b32 %u, %v;
    mov.v4.b32 %v, {%r0, %v.x, %v.g, 7};
    mov.v4.u32 %v, %tid;
    mov.b32 %w2.y, %v.a;
    mov.b64 %rd2, %w2;
    st.global.v4.b32 [%rd0], %v;
    ld.global.u32 %r0, rows[2];
    ret;
}
";
    let module = parse(text).unwrap();
    let printed = print(&module);
    assert_eq!(parse(&printed).as_ref(), Ok(&module), "{printed}");
    assert_eq!(verify(&module), Ok(()), "{printed}");
    for line in [
        ".global .align 16 .f32 quads[8] = {0f3F800000, 0f40000000, 0, 0, 0f40800000};",
        ".global .u32 rows[6] = {1, 0, 0, 4, 5};",
        ".global .u16 open[3] = {1, 2, 3};",
        "mov.u64 %rd0, quads+16;",
        "mov.u64 %rd1, rows+16;",
        "ld.global.v4.b32 {%v_x_s1_, %v_y_s2_, %v_z_s3_, %v_w_s4_}, [%rd0];",
        "mov.b32 %u_y_s6_, %v_y_s2_;",
        "mov.u32 %v_z_s3_, %tid.z;",
        "mov.b32 %w_y_s10_2, %v_w_s4_;",
        "mov.b64 %rd2, {%w_x_s9_2, %w_y_s10_2};",
        "ld.global.u32 %r0, [rows+8];",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    // Registers that are exchanged.
    let text = ".version 8.0\n.target sm_90\n.entry k() { .reg .b32 %r<4>; mov.v2.b32 {%r0, %r1}, {%r1, %r0}; }";
    let exchanged = print(&parse(text).unwrap());
    let lines = ["mov.b32 %moved_s1_, %r1;", "mov.b32 %r1, %r0;", "mov.b32 %r0, %moved_s1_;"];
    let places = lines.map(|line| exchanged.find(line).unwrap_or_else(|| panic!("{line}\n{exchanged}")));
    assert!(places.is_sorted(), "{exchanged}");
    // A register is written after it was read.
    let order = [
        "mov.b32 %v_w_s4_, 7;",
        "mov.b32 %v_z_s3_, %v_y_s2_;",
        "mov.b32 %v_y_s2_, %v_x_s1_;",
        "mov.b32 %v_x_s1_, %r0;",
    ];
    let at = order.map(|line| printed.find(line).unwrap_or_else(|| panic!("{line}\n{printed}")));
    assert!(at[1] < at[2] && at[2] < at[3], "{printed}");
}
