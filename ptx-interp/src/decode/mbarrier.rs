//! Instructions on mbarriers.

use ptx_gemm_ptx::asynchronous::{Arrival, Phase};
use ptx_gemm_ptx::instruction::{Opcode, Operand, Order};
use ptx_gemm_ptx::types::{Space, Type};

use super::Decoder;
use super::memory::state_space;
use crate::flags::Scope;
use crate::op::{Action, MbarrierOp, Op, Ordering, PhaseSlot, scope};

impl Decoder<'_> {
    pub(super) fn mbarrier(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        match (opcode, operands) {
            (&Opcode::MbarrierInit { space }, [at, count]) => {
                let count = self.r32(count, Type::U32)?;
                self.on_mbarrier(at, space, Action::Init { count })
            }
            (&Opcode::MbarrierInval { space }, [at]) => self.on_mbarrier(at, space, Action::Inval),
            (
                &Opcode::MbarrierArrive { arrival, order, space }
                | &Opcode::MbarrierArriveDrop { arrival, order, space },
                [state, at, rest @ ..],
            ) => {
                let drops = matches!(opcode, Opcode::MbarrierArriveDrop { .. });
                let amount = match rest {
                    [] if arrival != Arrival::ExpectTx => None,
                    [amount] => Some(self.r32(amount, Type::U32)?),
                    _ => return Err("the operands do not fit the instruction".into()),
                };
                let state = self.destination(state)?;
                self.on_mbarrier(at, space, Action::Arrive { arrival, state, amount, drops, ordering: ordering(order) })
            }
            (&Opcode::MbarrierTx { transaction, space, .. }, [at, bytes]) => {
                let bytes = self.r32(bytes, Type::U32)?;
                self.on_mbarrier(at, space, Action::Transact { transaction, bytes })
            }
            // The time limit of a wait is only a hint.
            (&Opcode::MbarrierWait { phase, order, space, .. }, [done, at, awaited] | [done, at, awaited, _]) => {
                let done = self.dp(done)?;
                let phase = match phase {
                    Phase::Parity => PhaseSlot::Parity(self.r32(awaited, Type::U32)?),
                    Phase::State => PhaseSlot::State(self.r64(awaited, Type::B64)?),
                };
                self.on_mbarrier(at, space, Action::Wait { done, phase, ordering: ordering(order) })
            }
            (&Opcode::CpAsyncArrive { pending, space }, [at]) => self.on_mbarrier(at, space, Action::Track { pending }),
            _ => Err("the operands do not fit the instruction".into()),
        }
    }

    fn on_mbarrier(&mut self, at: &Operand, space: Space, action: Action) -> Result<Op, String> {
        let space = state_space(space);
        let (base, offset) = self.address(at, space)?;
        self.code.ends_mbarriers |= matches!(action, Action::Inval);
        self.code.mbarriers.push(MbarrierOp { space, base, offset, action });
        Ok(Op::Mbarrier { index: self.code.mbarriers.len() as u32 - 1 })
    }
}

/// An arrival is a release and a wait is an acquire, unless marked relaxed.
///
/// The ISA gives both the scope `.cta` if none is stated. Widely used kernels omit the scope on both sides when they
/// pass stages between the blocks of a cluster (CUTLASS's `ClusterBarrier`), and rely on the hardware, which orders
/// them. So an omitted scope counts as that of the cluster; `.cta` counts only if it is written.
fn ordering(order: Order) -> Ordering {
    match order {
        Order::Relaxed(_) => Ordering::Relaxed,
        Order::Weak | Order::Volatile => Ordering::Synchronises(Scope::Cluster),
        Order::Acquire(of) | Order::Release(of) | Order::AcqRel(of) => Ordering::Synchronises(scope(of)),
    }
}
