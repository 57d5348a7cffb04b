//! The pass that removes dead index computations.

use ptx_gemm_codegen::kernel::{Expr, Guard, Kernel, Op, OriginId, Reg, Stmt, dead, verify::verify};
use ptx_gemm_codegen::{lower, tile};
use ptx_gemm_dsl::Schedule;

fn kernel(clauses: &str) -> Kernel {
    let plan = clauses.parse::<Schedule>().unwrap().plan(None).unwrap();
    lower::lower(&tile::build::build(&plan).entries[0]).unwrap()
}

fn index(kernel: &mut Kernel, name: &str) -> Reg {
    let family = kernel.families.iter().position(|family| family.name == name).unwrap();
    let info = &mut kernel.families[family];
    info.count += 1;
    info.bounds.push(u64::MAX);
    Reg { family: ptx_gemm_codegen::kernel::Family(family as u16), index: info.count - 1 }
}

fn stmt(op: Op) -> Stmt {
    Stmt { op, origin: OriginId(0) }
}

#[test]
fn a_second_run_finds_nothing() {
    for clauses in [
        "tile(32, 32, 32); thread(4, 4); shared(a = mk + swizzle(128), b = nk + swizzle(128)); double_buffer;",
        "tile(32, 32); thread(1, 1); shared(none);",
        "tile(32, 32, 8); thread(4, 4); split_k(4, reduce = workspace); persistent(2);",
    ] {
        let mut once = kernel(clauses);
        dead::run(&mut once);
        verify(&once).unwrap();
        let mut twice = once.clone();
        dead::run(&mut twice);
        assert_eq!(once, twice, "{clauses}");
    }
}

#[test]
fn chains_go_and_what_is_read_stays() {
    let mut base = kernel("tile(32, 32, 8); thread(4, 4);");
    dead::run(&mut base);
    let mut changed = base.clone();
    let (x, y, p) = (index(&mut changed, "r"), index(&mut changed, "r"), index(&mut changed, "p"));
    let families = changed.families.clone();
    let read = |reg| Expr::Reg(reg, u64::MAX);
    // Only the dead x of the next iteration reads y.
    let turn = vec![
        stmt(Op::Set { dst: x, value: read(y) + 1u32 }),
        stmt(Op::Set { dst: y, value: read(x) }),
        stmt(Op::Set { dst: p, value: Expr::Block.lt(1u32) }),
    ];
    changed.body.push(stmt(Op::Set { dst: x, value: 0u32.into() }));
    changed.body.push(stmt(Op::Set { dst: y, value: read(x) }));
    changed.body.push(stmt(Op::Set { dst: x, value: read(y) }));
    changed.body.push(stmt(Op::Set { dst: p, value: Expr::Block.lt(1u32) }));
    let cond = Guard { pred: p, expect: true };
    let unread = vec![stmt(Op::Set { dst: y, value: read(x) })];
    changed.body.push(stmt(Op::If { cond, then: unread, other: vec![stmt(Op::CommitCopies)] }));
    dead::run(&mut changed);
    let added = &changed.body[base.body.len()..];
    assert!(matches!(&added[0].op, Op::Set { dst, .. } if *dst == p), "{added:?}");
    assert!(matches!(&added[1].op, Op::If { then, other, .. } if then.is_empty() && other.len() == 1), "{added:?}");
    assert_eq!(added.len(), 2);

    // A value that a loop carries to its condition is kept.
    let mut looped = base.clone();
    looped.families = families;
    looped.body.push(stmt(Op::Set { dst: y, value: 0u32.into() }));
    let mut body = turn;
    body[2] = stmt(Op::Set { dst: p, value: read(y).lt(4u32) });
    looped.body.push(stmt(Op::Loop { body, again: p }));
    let before = looped.clone();
    dead::run(&mut looped);
    assert_eq!(before, looped);
}
