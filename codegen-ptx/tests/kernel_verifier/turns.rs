//! Warp groups that compute a tile each: the threads of a barrier and of products are those of one group.

use super::*;

const TURNS: &str = "types(bf16); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(3); persistent; \
                     specialize(producers = 1, pingpong); store(tma);";

/// Changes every statement that matches.
fn every(kernel: &mut Kernel, change: impl Fn(&mut Op) -> bool) {
    walk(&mut kernel.body, &mut |stmts, at| {
        change(&mut stmts[at].op);
        false
    });
}

fn numbered(of: u32) -> impl Fn(&Op) -> bool {
    move |op| matches!(op, Op::NamedBarrier { number, .. } if *number == of)
}

#[test]
fn each_group_meets_at_its_own_barrier() {
    for kernel in kernels(TURNS) {
        verify(&kernel).map(drop).unwrap_or_else(|v| panic!("{}", v.reason()));
    }
    refused(TURNS, "barrier 1 is used by threads 0..128 and threads 128..256", |kernel| {
        every(kernel, |op| edit!(op, Op::NamedBarrier { number, .. } => *number = 1));
    });
    refused(TURNS, "a barrier of 256 threads that threads 0..128 reach", |kernel| {
        first(kernel, |op| edit!(op, Op::NamedBarrier { threads, .. } => *threads = 256));
    });
    refused(TURNS, "a barrier of the block that only threads 0..128 reach", |kernel| {
        first(kernel, |op| edit!(op, Op::NamedBarrier { .. } => *op = Op::Barrier));
    });
    // Some of a group's threads.
    refused(TURNS, "some of threads 0..128 reach", |kernel| {
        let odd = Expr::Mod(Box::new(Expr::Tid(256)), Box::new(2u32.into())).lt(1u32);
        under(kernel, odd, numbered(1));
    });
    refused(TURNS, "a barrier of 128 threads that threads 0..64 reach", |kernel| {
        under(kernel, Expr::Tid(256).lt(64u32), numbered(1));
    });
    // The groups are not at the same tile.
    refused(TURNS, "a barrier of 256 threads that some of threads 0..256 reach", |kernel| {
        let both = stmt(Op::NamedBarrier { number: 3, threads: 256 });
        walk(&mut kernel.body, &mut |stmts, at| {
            let meets = matches!(&stmts[at].op, Op::If { then, .. } if then.iter().any(|stmt| numbered(1)(&stmt.op)));
            if meets {
                stmts.insert(at, both.clone());
            }
            meets
        });
    });
}

#[test]
fn a_group_is_one_warp_group() {
    // Values that the threads of a group share follow from `Tid / 128`.
    let direct = TURNS.replace(" store(tma);", "");
    for (clauses, by, message) in [
        (TURNS, 64u64, "some of threads 0..128 reach"),
        (TURNS, 96, "some of threads 0..128 reach"),
        (direct.as_str(), 64, "which are not whole warp groups"),
    ] {
        refused(clauses, message, |kernel| {
            let other = Expr::Div(Box::new(Expr::Tid(256)), Box::new(Expr::Const(by)));
            first(kernel, |op| match op {
                Op::Set { value, .. } if matches!(&*value, Expr::Div(x, _) if **x == Expr::Tid(256)) => {
                    *value = other.clone();
                    true
                }
                _ => false,
            });
        });
    }
}
