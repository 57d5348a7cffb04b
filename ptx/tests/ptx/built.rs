//! Modules made with the builder: printed, read back, verified.

use ptx_gemm_ptx::asynchronous::PrefetchSize;
use ptx_gemm_ptx::build::EntryBuilder;
use ptx_gemm_ptx::instruction::{Cache, Compare, Guard, Opcode, Operand, Order, Rounding, Special};
use ptx_gemm_ptx::module::{Directive, Entry, Module, Variable};
use ptx_gemm_ptx::parse::parse;
use ptx_gemm_ptx::print::print;
use ptx_gemm_ptx::types::{Space, Type};
use ptx_gemm_ptx::verify::{required_version, verify};

/// A loop over shared memory with every kind of statement and operand.
fn entry() -> Entry {
    let mut entry = EntryBuilder::new("sum");
    entry.param(Type::U64, "a", "the matrix, row major");
    entry.param_bytes(64, 128, "map", "its tensor map");
    entry.directive(Directive::Reqntid(vec![256, 1, 1]));
    entry.variable(Variable {
        is_extern: false,
        space: Space::Shared,
        align: Some(16),
        ty: Type::B8,
        name: "tile".to_owned(),
        count: Some(1024),
        init: Vec::new(),
        note: None,
    });
    let words = entry.family("%r", Type::B32, "indices");
    let floats = entry.family("%f", Type::F32, "");
    let flags = entry.family("%p", Type::Pred, "conditions");
    let _ = entry.family("%unused", Type::B64, "none taken");

    entry.comment("before anything has a note");
    let tid = entry.define(words, Opcode::Mov(Type::U32), [Special::TidX.into()]);
    entry.note("tile(8, 8)", "the thread's index");
    let base = entry.define(words, Opcode::Mov(Type::U32), [Operand::symbol("tile")]);
    entry.note("shared(a = mk + pad(4))", "");
    let values = entry.regs(floats, 4);
    let again = entry.label("AGAIN");
    entry.pragma("nounroll");
    entry.bind(&again);
    let (cache, prefetch) = (Cache::None, PrefetchSize::None);
    let load = Opcode::Ld { order: Order::Weak, space: Space::Shared, cache, prefetch, vector: 4, ty: Type::F32 };
    entry.emit(load, [Operand::vector(&values), Operand::address(base, -16)]);
    let outer = entry.set_note(None);
    let sum = Opcode::Fma { rnd: Rounding::Rn, ty: Type::F32 };
    entry.emit(sum, [values[0].into(), values[1].into(), Operand::from(-0.0f32), values[0].into()]);
    entry.set_note(outer);
    let odd = entry.reg(flags);
    let setp = Opcode::Setp { cmp: Compare::Lt, ty: Type::S32 };
    entry.emit(setp, [Operand::pair(odd, Operand::Sink), tid.into(), Operand::Int(i32::MIN.into())]);
    entry.branch_if(Guard::unless(odd), &again);
    entry.emit_if(Guard::when(odd), Opcode::Mov(Type::U32), [tid.into(), Operand::from(u32::MAX)]);
    entry.emit(Opcode::Ret, []);
    entry.finish()
}

#[test]
fn a_built_module_comes_back() {
    let mut module = Module::new("sm_90a");
    assert_eq!(module.version, (8, 0));
    module.header = vec!["sum: made by hand".to_owned(), String::new(), "  indented".to_owned()];
    module.entries.push(entry());
    assert_eq!(verify(&module), Ok(()));
    let text = print(&module);
    assert_eq!(parse(&text).as_ref(), Ok(&module), "{text}");
    assert!(text.contains("AGAIN_0:\n"), "labels are flush left: {text}");
    let column = |line: &str| line.find("//@");
    let columns: Vec<_> = text.lines().filter_map(column).collect();
    assert!(columns.len() > 3 && columns.iter().all(|column| *column >= 64), "{columns:?}");
}

#[test]
fn barriers_of_a_part_of_the_block() {
    let mut entry = EntryBuilder::new("k");
    let words = entry.family("%r", Type::B32, "");
    let id = entry.define(words, Opcode::Mov(Type::U32), [Operand::from(3u32)]);
    for sync in [Opcode::BarSync, Opcode::BarrierSync] {
        entry.emit(sync.clone(), [Operand::from(0u32)]);
        entry.emit(sync.clone(), [Operand::from(1u32), Operand::from(64u32)]);
        entry.emit(sync, [id.into(), Operand::from(96u32)]);
    }
    for arrive in [Opcode::BarArrive, Opcode::BarrierArrive] {
        entry.emit(arrive, [id.into(), Operand::from(96u32)]);
    }
    let mut module = Module::new("sm_80");
    module.entries.push(entry.finish());
    assert_eq!(verify(&module), Ok(()));
    let text = print(&module);
    assert_eq!(parse(&text).as_ref(), Ok(&module), "{text}");
    for line in
        ["bar.sync 0;", "bar.sync 1, 64;", "barrier.sync %r0, 96;", "bar.arrive %r0, 96;", "barrier.arrive %r0, 96;"]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn the_version_follows_the_instructions() {
    for (target, op, version) in [
        ("sm_75", Opcode::Ret, (6, 3)),
        ("sm_80", Opcode::Ret, (7, 0)),
        ("sm_86", Opcode::Ret, (7, 1)),
        ("sm_89", Opcode::Ret, (7, 8)),
        ("sm_90", Opcode::Ret, (7, 8)),
        ("sm_90a", Opcode::WgmmaFence, (8, 0)),
        ("sm_90", Opcode::BulkCommit, (8, 0)),
        ("sm_100", Opcode::Ret, (8, 6)),
        ("sm_120", Opcode::Ret, (8, 7)),
        ("sm_80", Opcode::Cvta { to: false, space: Space::Param, ty: Type::U64 }, (7, 7)),
    ] {
        let mut entry = EntryBuilder::new("k");
        entry.emit(op.clone(), []);
        let mut module = Module::new(target);
        module.entries.push(entry.finish());
        assert_eq!(required_version(&module), version, "{op:?} on {target}");
    }
}

/// Violations that only the builder can cause, since the parser would reject the text.
#[test]
fn what_no_text_could_say() {
    let stray = Operand::Reg(ptx_gemm_ptx::instruction::Reg { family: 9, index: 0 });
    type Build<'a> = &'a dyn Fn(&mut EntryBuilder);
    let cases: [(&str, Build); 5] = [
        ("unknown register family 9", &|e| e.emit(Opcode::BarSync, [stray.clone()])),
        ("`a b` is not a valid name", &|e| e.param(Type::U32, "a b", "")),
        ("`%` is not a valid name", &|e| {
            let _ = e.family("%", Type::B32, "");
        }),
        ("a pragma's text cannot contain quotation marks or line ends", &|e| e.pragma("a\"b")),
        ("register 4 of 0 in `%r`", &|e| {
            let _ = e.family("%r", Type::B32, "");
            e.emit(Opcode::BarSync, [Operand::Reg(ptx_gemm_ptx::instruction::Reg { family: 0, index: 4 })]);
        }),
    ];
    for (wanted, build) in cases {
        let mut entry = EntryBuilder::new("k");
        build(&mut entry);
        let mut module = Module::new("sm_80");
        module.entries.push(entry.finish());
        // Nothing panics on the way to the message.
        let _ = print(&module);
        let violations = verify(&module).expect_err(wanted);
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].to_string().ends_with(wanted), "{}", violations[0]);
    }
}
