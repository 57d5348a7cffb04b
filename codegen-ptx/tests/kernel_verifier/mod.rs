//! What the verifier of kernel IR rejects: correct kernels, each changed in one place.

use ptx_gemm_codegen::kernel::verify::verify;
use ptx_gemm_codegen::kernel::{
    Address, Compare, Expr, Guard, Kernel, Math, Memory, Op, OriginId, Reg, Stmt, Type, Value,
};
use ptx_gemm_codegen::{lower, tile};
use ptx_gemm_dsl::Schedule;

const STAGED: &str = "tile(32, 32, 8); thread(4, 4); double_buffer;";
const WIDE: &str = "tile(32, 32, 8); thread(4, 4); vector(4); double_buffer;";
const ASYNC: &str = "tile(32, 32, 8); thread(4, 4); load(cp_async); stages(3);";
const DIRECT: &str = "tile(32, 32); thread(1, 1); shared(none);";
const PARTS: &str = "tile(32, 32, 8); thread(4, 4); split_k(4, reduce = workspace);";
const SERIAL: &str = "tile(32, 32, 8); thread(4, 4); split_k(4, reduce = serial);";
const EXACT: &str = "tile(32, 32, 8); thread(4, 4); tail(none); double_buffer;";
const PLAIN: &str = "tile(32, 32, 8); thread(4, 4); tail(none);";
const ODD: &str = "tile(3, 1, 1); thread(3, 1); tail(none);";
const ROUNDS: &str = "tile(1, 1, 16); thread(1, 1); shared(none); unroll(16); tail(none);";
const UNEVEN: &str = "tile(24, 32, 5); thread(4, 4);";
const SWIZZLED: &str =
    "tile(32, 32, 32); thread(4, 4); shared(a = mk + swizzle(128), b = nk + swizzle(128)); double_buffer;";
const WARPS: &str = "types(bf16); tile(32, 32, 32); warp(16, 16); atom(mma(16, 8, 16)); double_buffer;";
const WARPS_OUT: &str = "types(bf16); tile(32, 32, 32); warp(16, 16); atom(mma(16, 8, 16)); double_buffer; \
                         store(staged); target(sm_90);";
const GROUP: &str = "types(bf16); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(2);";
const GROUPS: &str = "types(f16); tile(128, 64, 32); atom(wgmma(64, 32, 16)); load(tma); stages(3); \
                      specialize(producers = 1); persistent;";
const LIST: &str = "tile(32, 32, 8); thread(4, 4); double_buffer; batch(grouped);";
const LIST_BOXED: &str = "tile(32, 32, 8); thread(4, 4); vector(4); load(tma); stages(3); specialize(producers = 1 warp); \
                          store(tma); batch(grouped);";
const SLOT: &str = "types(bf16); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma);";
const CLUSTER: &str = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                       specialize(producers = 1); cluster(2, 1); multicast(b);";
const ALL: [&str; 20] = [
    CLUSTER, ODD, ROUNDS, PLAIN, STAGED, WIDE, ASYNC, DIRECT, PARTS, SERIAL, EXACT, UNEVEN, SWIZZLED, WARPS, WARPS_OUT,
    GROUP, GROUPS, SLOT, LIST, LIST_BOXED,
];

fn kernels(clauses: &str) -> Vec<Kernel> {
    let schedule: Schedule = clauses.parse().unwrap_or_else(|e| panic!("{clauses}: {e}"));
    let plan = schedule.plan(None).unwrap_or_else(|e| panic!("{clauses}: {e}"));
    tile::build::build(&plan).entries.iter().map(|program| lower::lower(program).unwrap()).collect()
}

#[test]
fn what_the_compiler_makes_passes() {
    for clauses in ALL {
        for kernel in kernels(clauses) {
            verify(&kernel).unwrap_or_else(|v| panic!("{clauses}: {}", v.reason()));
        }
    }
}

/// Changes the kernel in one place and expects an error that contains `message`.
#[track_caller]
fn refused(clauses: &str, message: &str, change: impl FnOnce(&mut Kernel)) {
    let mut kernel = kernels(clauses).remove(0);
    let before = kernel.clone();
    change(&mut kernel);
    assert_ne!(before, kernel, "the kernel did not change");
    let violation = verify(&kernel).map(drop).expect_err("the change is accepted");
    assert!(violation.reason().contains(message), "{}", violation.reason());
    // The compiler has not made the change, and is not to blame.
    let said = violation.to_string();
    assert_eq!(said, format!("the kernel IR verifier found {}", violation.reason()));
}

/// Changes a statement if it matches the pattern.
macro_rules! edit {
    ($op:ident, $form:pat => $change:expr) => {
        match $op {
            $form => {
                $change;
                true
            }
            _ => false,
        }
    };
}

mod clusters;
mod products;
mod turns;

/// Visits the statements, including nested ones, each with its index in its block.
fn walk(stmts: &mut Vec<Stmt>, f: &mut impl FnMut(&mut Vec<Stmt>, usize) -> bool) -> bool {
    let mut at = 0;
    while at < stmts.len() {
        if f(stmts, at) {
            return true;
        }
        let found = match &mut stmts[at].op {
            Op::If { then, other, .. } => walk(then, f) || walk(other, f),
            Op::Loop { body, .. } => walk(body, f),
            _ => false,
        };
        if found {
            return true;
        }
        at += 1;
    }
    false
}

/// Changes the first statement for which `f` returns true.
#[track_caller]
fn first(kernel: &mut Kernel, mut f: impl FnMut(&mut Op) -> bool) {
    let found = walk(&mut kernel.body, &mut |stmts, at| f(&mut stmts[at].op));
    assert!(found, "no statement to change");
}

fn family(kernel: &Kernel, name: &str) -> usize {
    kernel.families.iter().position(|family| family.name == name).unwrap()
}

/// A new register of an index family.
fn fresh(kernel: &mut Kernel, name: &str) -> Reg {
    let family = family(kernel, name);
    let info = &mut kernel.families[family];
    info.count += 1;
    info.bounds.push(u64::MAX);
    Reg { family: ptx_gemm_codegen::kernel::Family(family as u16), index: info.count - 1 }
}

fn stmt(op: Op) -> Stmt {
    Stmt { op, origin: OriginId(0) }
}

/// Moves the statement that `which` finds under a branch on `condition`.
#[track_caller]
fn under(kernel: &mut Kernel, condition: Expr, which: impl Fn(&Op) -> bool) {
    let pred = fresh(kernel, "p");
    let found = walk(&mut kernel.body, &mut |stmts, at| {
        let found = which(&stmts[at].op);
        if found {
            let inner = stmts.remove(at);
            let cond = Guard { pred, expect: true };
            stmts.insert(at, stmt(Op::If { cond, then: vec![inner], other: Vec::new() }));
            stmts.insert(at, stmt(Op::Set { dst: pred, value: condition.clone() }));
        }
        found
    });
    assert!(found, "no statement to move under a branch");
}

fn below(kernel: &Kernel, limit: u32) -> Expr {
    Expr::Tid(kernel.threads).lt(limit)
}

fn register(kernel: &Kernel, name: &str, index: u32) -> Reg {
    Reg { family: ptx_gemm_codegen::kernel::Family(family(kernel, name) as u16), index }
}

/// Changes the reach of the first global access.
#[track_caller]
fn reach(kernel: &mut Kernel, mut f: impl FnMut(&mut ptx_gemm_codegen::kernel::Access)) {
    first(kernel, |op| match op {
        Op::Load { memory: Memory::Global(access), guard: None, .. } | Op::CopyAsync { access, guard: None, .. } => {
            f(access);
            true
        }
        _ => false,
    });
}

#[test]
fn structure() {
    refused(STAGED, "used before it is defined", |kernel| {
        kernel.body.remove(0);
    });
    refused(STAGED, "is U32, not Pred", |kernel| {
        let wrong = register(kernel, "r", 0);
        first(kernel, |op| edit!(op, Op::If { cond, .. } => cond.pred = wrong));
    });
    refused(STAGED, "cannot hold", |kernel| {
        first(kernel, |op| edit!(op, Op::Set { value, .. } => *value = Expr::Tid(64).lt(3u32)));
    });
    refused(STAGED, "an index expression that combines U64 and U32", |kernel| {
        let dst = fresh(kernel, "rd");
        kernel.body.push(stmt(Op::Set { dst, value: Expr::Tid(64).wide() + Expr::Tid(64) }));
    });
    refused(STAGED, "is F32, not U32", |kernel| {
        let wrong = register(kernel, "acc", 0);
        first(kernel, |op| edit!(op, Op::Load { memory: Memory::Shared, address, .. } => address.base = wrong));
    });
    refused(STAGED, "an access of 3 elements", |kernel| {
        first(kernel, |op| match op {
            Op::Load { memory: Memory::Shared, dst, .. } => {
                *dst = vec![dst[0]; 3];
                true
            }
            _ => false,
        });
    });
    refused(ASYNC, "an asynchronous copy of 12 bytes", |kernel| {
        first(kernel, |op| edit!(op, Op::CopyAsync { bytes, .. } => *bytes = 12));
    });
    refused(STAGED, "the accumulators of an outer product do not match", |kernel| {
        first(kernel, |op| edit!(op, Op::Outer { a, .. } => a.truncate(1)));
    });
    refused(STAGED, "an accumulator appears twice", |kernel| {
        first(kernel, |op| edit!(op, Op::Outer { acc, .. } => acc[1] = acc[0]));
    });
    refused(STAGED, "Fma with 2 operands", |kernel| {
        let acc = register(kernel, "acc", 0);
        let args = vec![Value::Reg(acc), Value::Reg(acc)];
        kernel.body.push(stmt(Op::Math { op: Math::Fma, dst: acc, args }));
    });
}

#[test]
fn control() {
    let barrier = |op: &Op| matches!(op, Op::Barrier);
    refused(STAGED, "a barrier of the block that only threads 0..7 reach", |kernel| {
        let condition = below(kernel, 7);
        under(kernel, condition, barrier);
    });
    refused(STAGED, "some of threads 0..64", |kernel| {
        let condition = (Expr::Tid(kernel.threads) / 32u32).compare(Compare::Eq, 0u32);
        under(kernel, condition, barrier);
    });
    // Two roles may each have their own barrier, but not the block's.
    let roles = |kernel: &mut Kernel, first: Op, second: Op| {
        let pred = fresh(kernel, "p");
        kernel.body.push(stmt(Op::Set { dst: pred, value: Expr::Tid(64).lt(32u32) }));
        let cond = Guard { pred, expect: true };
        kernel.body.push(stmt(Op::If { cond, then: vec![stmt(first)], other: vec![stmt(second)] }));
    };
    let meet = |number, threads| Op::NamedBarrier { number, threads };
    let mut kernel = kernels(STAGED).remove(0);
    roles(&mut kernel, meet(1, 32), meet(2, 32));
    verify(&kernel).map(drop).unwrap_or_else(|v| panic!("{}", v.reason()));
    refused(STAGED, "a barrier of the block that only threads 0..32 reach", |kernel| {
        roles(kernel, Op::Barrier, meet(2, 32))
    });
    refused(STAGED, "a barrier of 64 threads that threads 32..64 reach", |kernel| {
        roles(kernel, meet(1, 32), meet(2, 64))
    });
    refused(STAGED, "barrier 1 is used by threads 0..32 and threads 32..64", |kernel| {
        roles(kernel, meet(1, 32), meet(1, 32));
    });
    refused(STAGED, "a barrier of 32 threads that threads 0..64 reach", |kernel| {
        first(kernel, |op| edit!(op, Op::Barrier => *op = Op::NamedBarrier { number: 1, threads: 32 }));
    });
    refused(STAGED, "a block has no barrier 16", |kernel| {
        first(kernel, |op| edit!(op, Op::Barrier => *op = Op::NamedBarrier { number: 16, threads: 64 }));
    });
    // A loop that threads leave at different times.
    refused(STAGED, "some of threads 0..64", |kernel| {
        let (pred, left) = (fresh(kernel, "p"), fresh(kernel, "r"));
        let count = Expr::Reg(left, u64::MAX);
        let body = vec![
            stmt(Op::Barrier),
            stmt(Op::Set { dst: left, value: count.clone() / 2u32 }),
            stmt(Op::Set { dst: pred, value: count.ge(1u32) }),
        ];
        kernel.body.push(stmt(Op::Set { dst: left, value: Expr::Tid(64) }));
        kernel.body.push(stmt(Op::Loop { body, again: pred }));
    });
    // A value that was assigned where threads took different paths.
    refused(STAGED, "some of threads 0..64", |kernel| {
        let (some, pred, value) = (fresh(kernel, "p"), fresh(kernel, "p"), fresh(kernel, "r"));
        let set = |to: u32| stmt(Op::Set { dst: value, value: to.into() });
        kernel.body.push(stmt(Op::Set { dst: some, value: Expr::Tid(64).lt(7u32) }));
        let cond = Guard { pred: some, expect: true };
        kernel.body.push(stmt(Op::If { cond, then: vec![set(0)], other: vec![set(1)] }));
        kernel.body.push(stmt(Op::Set { dst: pred, value: Expr::Reg(value, u64::MAX).ge(1u32) }));
        let cond = Guard { pred, expect: true };
        kernel.body.push(stmt(Op::If { cond, then: vec![stmt(Op::Barrier)], other: Vec::new() }));
    });
}

#[test]
fn bounds() {
    refused(STAGED, "is declared with the bound 1, but can be", |kernel| {
        let family = family(kernel, "r");
        kernel.families[family].bounds.iter_mut().filter(|bound| **bound == 63).for_each(|bound| *bound = 1);
    });
    refused(STAGED, "is used with the bound 3, but can be", |kernel| {
        first(kernel, |op| match op {
            Op::Set { value: Expr::Div(x, _), .. } => match &mut **x {
                Expr::Reg(_, bound) => {
                    *bound = 3;
                    true
                }
                _ => false,
            },
            _ => false,
        });
    });
    refused(STAGED, "the thread's index is assumed to be below 32, but can be 63", |kernel| {
        first(kernel, |op| match op {
            Op::Set { value: Expr::Tid(threads), .. } => {
                *threads = 32;
                true
            }
            _ => false,
        });
    });
    let moved = |by: i64| {
        move |op: &mut Op| match op {
            Op::Store { memory: Memory::Shared, address: Address { offset, .. }, .. } => {
                *offset += by;
                true
            }
            _ => false,
        }
    };
    refused(STAGED, "a shared access up to byte", |kernel| first(kernel, moved(4096)));
    refused(SWIZZLED, "a shared access up to byte", |kernel| {
        kernel.shared_bytes -= 16;
    });
    refused(STAGED, "a misaligned shared access of 4 bytes at a multiple of", |kernel| first(kernel, moved(2)));
    refused(STAGED, "outside the block's shared memory", |kernel| {
        let wrong = fresh(kernel, "r");
        kernel.body.insert(0, stmt(Op::Set { dst: wrong, value: 0u32.into() }));
        first(kernel, |op| edit!(op, Op::Store { memory: Memory::Shared, address, .. } => address.base = wrong));
    });
    // Threads past the last chunk are excluded by their guard alone.
    refused(UNEVEN, "a shared access up to byte", |kernel| {
        while walk(&mut kernel.body, &mut |stmts, at| match &mut stmts[at].op {
            Op::Store { memory: Memory::Shared, guard, .. } => guard.take().is_some(),
            _ => false,
        }) {}
    });
    // A slot index that wraps around one slot too late.
    refused(ASYNC, "is declared with the bound", |kernel| {
        first(kernel, |op| match op {
            Op::Set { value: Expr::Select(wraps, first, _), .. } if first.is(0) => match &mut **wraps {
                Expr::Compare(Compare::Ge, _, last) => {
                    let Expr::Const(bytes) = **last else { return false };
                    **last = Expr::Const(bytes + 1);
                    true
                }
                _ => false,
            },
            _ => false,
        });
    });
}

/// Every way in which a global access can be out of bounds.
#[test]
fn extents() {
    refused(STAGED, "are known to be left", |kernel| {
        // The predicate of the interior becomes meaningless.
        first(kernel, |op| match op {
            Op::Set { value: value @ Expr::And(..), .. } => {
                *value = Expr::Block.ge(1u32);
                true
            }
            _ => false,
        });
    });
    for clauses in [STAGED, WIDE, ASYNC] {
        refused(clauses, "are known to be left", |kernel| {
            // The k required for a copy without guards, minus one.
            first(kernel, |op| match op {
                Op::Set { value: Expr::Select(_, need, most), .. } if most.is(u64::from(u32::MAX)) => {
                    let Expr::Const(c) = **need else { return false };
                    **need = Expr::Const(c - 1);
                    true
                }
                _ => false,
            });
        });
        refused(clauses, "are known to be left", |kernel| {
            // A K-tile at an edge of D requires only the largest k.
            first(kernel, |op| match op {
                Op::Set { value: Expr::Select(_, _, most), .. } if most.is(u64::from(u32::MAX)) => {
                    **most = Expr::Const(u64::from(u32::MAX) - 70_000);
                    true
                }
                _ => false,
            });
        });
        refused(clauses, "are known to be left", |kernel| {
            first(kernel, |op| match op {
                Op::If { then, other, .. } if global_loads(then) && global_loads(other) => {
                    std::mem::swap(then, other);
                    true
                }
                _ => false,
            });
        });
    }
    refused(STAGED, "an access up to m 33, where only 32 are known to be left", |kernel| {
        reach(kernel, |access| access.reach[0].as_mut().unwrap().end += 1);
    });
    refused(STAGED, "does not hold what is left of m", |kernel| {
        let mut other = None;
        first(kernel, |op| match op {
            Op::Load { memory: Memory::Global(access), .. } => {
                let n = access.reach.iter().flatten().find(|reach| reach.dim == ptx_gemm_codegen::kernel::Dim::N);
                other = n.map(|reach| reach.left);
                other.is_some()
            }
            _ => false,
        });
        reach(kernel, |access| access.reach[0].as_mut().unwrap().left = other.unwrap());
    });
    refused(STAGED, "states no extent along k", |kernel| reach(kernel, |access| access.reach[1] = None));
    refused(STAGED, "through a pointer that does not derive from it", |kernel| {
        let d = kernel.params.iter().position(|param| param.name.contains('d')).unwrap();
        reach(kernel, |access| access.param = d);
    });
    for clauses in [STAGED, WIDE, DIRECT] {
        refused(clauses, "are known to be left", |kernel| drop_guard(kernel, None));
        refused(clauses, "are known to be left", |kernel| drop_guard(kernel, Some(false)));
    }
    refused(ASYNC, "are known to be left", |kernel| {
        first(kernel, |op| match op {
            Op::CopyAsync { valid, .. } => valid.take().is_some(),
            _ => false,
        });
    });
    refused(DIRECT, "are known to be left", |kernel| {
        first(kernel, |op| match op {
            Op::Set { value, .. } => unclamp(value),
            _ => false,
        });
    });
    refused(EXACT, "are known to be left", |kernel| kernel.divides = None);
    refused(PLAIN, "are known to be left", |kernel| kernel.divides = Some([32, 32, 4]));
    refused(PARTS, "states no extent along", |kernel| {
        // A matrix accessed like a workspace.
        reach(kernel, |access| access.reach = [None, None]);
    });
    for clauses in [PARTS, SERIAL] {
        refused(clauses, "a flag that is not in a workspace", |kernel| {
            for param in &mut kernel.params {
                if param.ty == Type::U64 && param.name.contains("work") {
                    param.holds = ptx_gemm_codegen::kernel::Holds::Other;
                }
            }
            while walk(&mut kernel.body, &mut |stmts, at| {
                let workspace = match &stmts[at].op {
                    Op::Load { memory: Memory::Global(access), .. }
                    | Op::Store { memory: Memory::Global(access), .. } => access.reach == [None, None],
                    _ => false,
                };
                if workspace {
                    stmts.remove(at);
                }
                workspace
            }) {}
            define_all(kernel);
        });
    }
}

/// The fields of the records of a list.
#[test]
fn fields_are_read_from_records() {
    for clauses in [LIST, LIST_BOXED] {
        refused(clauses, "is a field of a record", |kernel| {
            first(kernel, |op| match op {
                Op::Field { dst, index, .. } => {
                    *op = Op::Param { dst: *dst, index: *index };
                    true
                }
                _ => false,
            });
        });
        refused(clauses, "is not a field of a record", |kernel| {
            first(kernel, |op| edit!(op, Op::Field { index, .. } => *index = 0));
        });
        refused(clauses, "the kernel has no parameter 99", |kernel| {
            first(kernel, |op| edit!(op, Op::Field { index, .. } => *index = 99));
        });
        refused(clauses, "is not the address of a record", |kernel| {
            for param in &mut kernel.params {
                if param.name == "problems" {
                    param.holds = ptx_gemm_codegen::kernel::Holds::Other;
                }
            }
        });
    }
    // A is read through a pointer from the field of B.
    refused(LIST, "through a pointer that does not derive from it", |kernel| {
        let place = |kernel: &Kernel, name: &str| kernel.params.iter().position(|param| param.name == name).unwrap();
        let (a, b) = (place(kernel, "a"), place(kernel, "b"));
        first(kernel, |op| match op {
            Op::Field { index, .. } if *index == a => {
                *index = b;
                true
            }
            _ => false,
        });
    });
    refused(LIST_BOXED, "is not the address of a tensor map", |kernel| {
        for param in &mut kernel.params {
            if param.name == "map_d" {
                param.holds = ptx_gemm_codegen::kernel::Holds::Other;
            }
        }
    });
}

/// True if global memory is accessed correctly in these statements.
fn global_loads(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| matches!(stmt.op, Op::Load { memory: Memory::Global(_), .. } | Op::CopyAsync { .. }))
}

/// Removes the guard from the first store of D at an edge, or inverts it.
#[track_caller]
fn drop_guard(kernel: &mut Kernel, expect: Option<bool>) {
    first(kernel, |op| match op {
        Op::Store { memory: Memory::Global(_), guard: guard @ Some(_), .. } => {
            match (expect, guard.as_mut()) {
                (Some(expect), Some(guard)) => guard.expect = expect,
                _ => *guard = None,
            }
            true
        }
        _ => false,
    });
}

/// Replaces the first clamped coordinate by the unclamped one.
fn unclamp(value: &mut Expr) -> bool {
    match value {
        Expr::Min(x, y) if matches!(&**y, Expr::Sub(_, one) if one.is(1)) => {
            *value = (**x).clone();
            true
        }
        Expr::Add(x, y) | Expr::Mul(x, y) => unclamp(x) || unclamp(y),
        Expr::Wide(x) => unclamp(x),
        _ => false,
    }
}

/// Clears all data registers first, so that statements may be removed.
fn define_all(kernel: &mut Kernel) {
    let data: Vec<Reg> = kernel
        .families
        .iter()
        .enumerate()
        .filter(|(_, family)| matches!(family.ty, Type::F32 | Type::F64 | Type::S32))
        .flat_map(|(at, family)| {
            (0..family.count).map(move |index| Reg { family: ptx_gemm_codegen::kernel::Family(at as u16), index })
        })
        .collect();
    kernel.body.insert(0, stmt(Op::Clear { dst: data }));
}
