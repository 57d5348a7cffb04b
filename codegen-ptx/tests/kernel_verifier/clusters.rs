//! Blocks of a cluster that access each other's shared memory.

use super::*;

/// Changes the first statement that matches.
macro_rules! of_blocks {
    ($message:expr, $form:pat => $change:expr) => {
        refused(CLUSTER, $message, |kernel| {
            walk(&mut kernel.body, &mut |stmts, at| {
                let op = &mut stmts[at].op;
                edit!(op, $form => $change)
            });
        })
    };
}

#[test]
fn blocks_are_reached_between_two_barriers_of_the_cluster() {
    of_blocks!("before a barrier of the cluster", op @ Op::ClusterBarrier => *op = Op::Barrier);
    refused(CLUSTER, "blocks may end while others reach their shared memory", |kernel| {
        kernel.body.pop();
    });
    refused(CLUSTER, "and there are no clusters", |kernel| kernel.cluster = 1);
    of_blocks!("a barrier of the block that only threads 0..1 reach", Op::If { then, .. } => {
        let origin = then[0].origin;
        then.push(Stmt { op: Op::ClusterBarrier, origin });
    });
}

#[test]
fn arrivals_and_copies_have_ranks_and_places() {
    let truth = |kernel: &Kernel| {
        let family = kernel.families.iter().position(|family| family.ty == Type::Pred && family.count > 0).unwrap();
        Reg { family: ptx_gemm_codegen::kernel::Family(family as u16), index: 0 }
    };
    let of = truth(&kernels(CLUSTER)[0]);
    of_blocks!("is Pred, not U32", Op::CopyBox { blocks: Some(blocks), .. } => *blocks = of);
    of_blocks!("is Pred, not U32", Op::ArriveAt { block, .. } => *block = of);
    of_blocks!("a shared access up to byte", Op::ArriveAt { address, .. } => address.offset += 1 << 20);
    of_blocks!("a misaligned shared access of 8 bytes", Op::ArriveAt { address, .. } => address.offset -= 4);
}
