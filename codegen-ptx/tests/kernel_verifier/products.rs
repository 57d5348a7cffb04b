//! Matrices of warps, and products of warps and warp groups.

use ptx_gemm_codegen::kernel::Factor;
use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::atoms::{Multiply, Unit};

use super::*;

/// Changes the first statement of a warp's matrices that matches.
macro_rules! of_warps {
    ($message:expr, $form:pat => $change:expr) => {
        refused(WARPS, $message, |kernel| {
            walk(&mut kernel.body, &mut |stmts, at| {
                let op = &mut stmts[at].op;
                edit!(op, $form => $change)
            });
        })
    };
}

#[test]
fn matrices_and_products_of_warps_have_their_shape() {
    of_warps!("3 matrices at once", Op::LoadMatrices { dst, .. } => dst.truncate(3));
    of_warps!("another shape than 16 x 8", Op::TensorProduct { a: Factor::Registers(a), .. } => a.truncate(3));
    of_warps!("a product of [F32, F32]", Op::TensorProduct { shape, .. } => shape.factors = [DType::F32; 2]);
    of_warps!("a misaligned shared access of 16 bytes", Op::LoadMatrices { address, .. } => address.offset += 4);
}

#[test]
fn matrices_that_warps_write_have_their_shape() {
    macro_rules! of_output {
        ($message:expr, $form:pat => $change:expr) => {
            refused(WARPS_OUT, $message, |kernel| {
                walk(&mut kernel.body, &mut |stmts, at| {
                    let op = &mut stmts[at].op;
                    edit!(op, $form => $change)
                });
            })
        };
    }
    of_output!("3 matrices at once", Op::StoreMatrices { src, .. } => src.truncate(3));
    of_output!("a misaligned shared access of 16 bytes", Op::StoreMatrices { address, .. } => address.offset += 4);
    of_output!("a shared access up to byte", Op::StoreMatrices { address, .. } => address.offset += 1 << 20);
    of_output!("is Pred, not Word", Op::StoreMatrices { src, .. } => src[0] = Reg { family: ptx_gemm_codegen::kernel::Family(0), index: 0 });
    of_output!("ConvertPair(F32) of Word", Op::Math { op: Math::ConvertPair(to), .. } => *to = Type::F32);
    of_output!("operands", Op::Math { op: Math::ConvertPair(_), args, .. } => args.truncate(1));
    of_output!("a conversion of a constant", Op::Math { op: Math::ConvertPair(_), args, .. } => args[0] = Value::Const(1.0));
}

#[test]
fn whole_warps_read_and_multiply_matrices() {
    // Seven threads do, and the others of their warp do not.
    refused(WARPS, "which are not whole warps", |kernel| {
        let family = kernel.families.iter().position(|family| family.ty == Type::Pred).unwrap();
        let index = kernel.families[family].count;
        kernel.families[family].count += 1;
        kernel.families[family].bounds.push(1);
        let pred = Reg { family: ptx_gemm_codegen::kernel::Family(family as u16), index };
        let threads = kernel.threads;
        walk(&mut kernel.body, &mut |stmts, at| {
            if !matches!(stmts[at].op, Op::TensorProduct { .. }) {
                return false;
            }
            let origin = stmts[at].origin;
            let few = Expr::Compare(Compare::Lt, Box::new(Expr::Tid(threads)), Box::new(Expr::Const(7)));
            let product = stmts.remove(at);
            let cond = Guard { pred, expect: true };
            stmts.insert(at, Stmt { op: Op::If { cond, then: vec![product], other: Vec::new() }, origin });
            stmts.insert(at, Stmt { op: Op::Set { dst: pred, value: few }, origin });
            true
        });
    });
}

/// Products of warp groups: which threads take part, and what separates the products from the threads' own use of
/// accumulators.
#[test]
fn products_of_warp_groups() {
    let replace = |from: fn(&Op) -> bool, to: Op| {
        move |kernel: &mut Kernel| {
            first(kernel, |op| {
                let found = from(op);
                if found {
                    *op = to.clone();
                }
                found
            })
        }
    };
    let fence: fn(&Op) -> bool = |op| matches!(op, Op::FenceProducts);
    let commit: fn(&Op) -> bool = |op| matches!(op, Op::CommitProducts);
    let wait: fn(&Op) -> bool = |op| matches!(op, Op::WaitProducts(_));
    for schedule in [GROUP, GROUPS] {
        refused(schedule, "the accumulators of a product are not fenced", replace(fence, Op::CommitProducts));
        refused(schedule, "a wait for products that are in no group", replace(commit, Op::FenceProducts));
        refused(schedule, "a wait that leaves 8 groups of products in flight", replace(wait, Op::WaitProducts(8)));
        for threads in [64, 96, 120] {
            for which in [fence, commit, wait] {
                refused(schedule, "which are not whole warp groups", |kernel| {
                    let few = below(kernel, threads);
                    under(kernel, few, which);
                });
            }
        }
    }
    // The last wait of GROUPS, after its loop, leaves nothing in flight.
    refused(GROUP, "an accumulator is used while products are in flight", replace(wait, Op::WaitProducts(1)));
    let last: fn(&Op) -> bool = |op| matches!(op, Op::WaitProducts(0));
    refused(GROUPS, "an accumulator is used while products are in flight", replace(last, Op::WaitProducts(1)));
    refused(GROUPS, "an accumulator is used while products are in flight", replace(last, Op::FenceProducts));
    refused(GROUP, "products are in flight at the end", |kernel| {
        let mut product = None;
        first(kernel, |op| {
            product = Some(op.clone());
            matches!(op, Op::TensorProduct { .. })
        });
        let Some(Op::TensorProduct { acc, shape, .. }) = product else { panic!("no product") };
        let (a, b, add) = (fresh(kernel, "rd"), fresh(kernel, "rd"), fresh(kernel, "p"));
        let set = |dst, value| stmt(Op::Set { dst, value });
        kernel.body.extend([
            set(a, Expr::Const(0)),
            set(b, Expr::Const(0)),
            set(add, Expr::Const(0).lt(1u32)),
            stmt(Op::FenceProducts),
            stmt(Op::TensorProduct { acc, a: Factor::Descriptor(a), b: Factor::Descriptor(b), add: Some(add), shape }),
        ]);
    });
    refused(GROUP, "operands of a product that differ between the threads of a warp group", |kernel| {
        let own = fresh(kernel, "rd");
        let threads = kernel.threads;
        let found = walk(&mut kernel.body, &mut |stmts, at| {
            let Op::TensorProduct { a: Factor::Descriptor(a), .. } = &mut stmts[at].op else { return false };
            let value = Expr::Reg(*a, u64::MAX) + Expr::Tid(threads).wide();
            *a = own;
            stmts.insert(at, stmt(Op::Set { dst: own, value }));
            true
        });
        assert!(found);
    });
}

/// The shape of a product: its registers and their types.
#[test]
fn shapes_of_products() {
    let product = |change: fn(&mut Op)| {
        move |kernel: &mut Kernel| {
            first(kernel, |op| {
                let found = matches!(op, Op::TensorProduct { .. });
                if found {
                    change(op);
                }
                found
            })
        }
    };
    refused(
        GROUP,
        "31 accumulators of a product with 64 columns",
        product(|op| {
            edit!(op, Op::TensorProduct { acc, .. } => { acc.pop(); });
        }),
    );
    refused(
        GROUP,
        "over 8 of k",
        product(|op| {
            edit!(op, Op::TensorProduct { shape, .. } => {
                shape.row = Multiply::find(Unit::WarpGroup, [DType::Tf32; 2], (64, 8)).unwrap();
            });
        }),
    );
    refused(
        GROUP,
        "a product of [F32, F32] over 16 of k",
        product(|op| {
            edit!(op, Op::TensorProduct { shape, .. } => shape.factors = [DType::F32; 2]);
        }),
    );
    for at in 0..3 {
        let change: fn(&mut Op) = match at {
            0 => |op| {
                edit!(op, Op::TensorProduct { a: Factor::Descriptor(a), add: Some(add), .. } => *a = *add);
            },
            1 => |op| {
                edit!(op, Op::TensorProduct { b: Factor::Descriptor(b), add: Some(add), .. } => *b = *add);
            },
            _ => |op| {
                edit!(op, Op::TensorProduct { a: Factor::Descriptor(a), add: Some(add), .. } => *add = *a);
            },
        };
        refused(GROUP, "", product(change));
    }
}
