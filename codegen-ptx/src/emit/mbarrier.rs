//! mbarriers in shared memory.

use ptx_gemm_ptx::asynchronous::{Arrival as Carries, Pending, Phase, Wait};
use ptx_gemm_ptx::instruction::{Opcode, Operand, Order};
use ptx_gemm_ptx::types::{Space, Type};

use super::Emitter;
use crate::kernel::{Arrival, Op};

impl Emitter<'_> {
    pub(super) fn mbarrier(&mut self, op: &Op) {
        let space = Space::Shared;
        match op {
            Op::InitBarrier { address, arrivals } => {
                self.entry.emit(Opcode::MbarrierInit { space }, [self.address(address), Operand::from(*arrivals)]);
            }
            Op::Arrive { address, when: Arrival::Now } => {
                // The state names the phase; parities do here.
                let state = self.scratch(Type::U64);
                let op = Opcode::MbarrierArrive { arrival: Carries::Plain, order: Order::Weak, space };
                self.entry.emit(op, [state.into(), self.address(address)]);
            }
            Op::Arrive { address, when: Arrival::WhenCopied } => {
                // The arrival is one of those the barrier was told to expect.
                let op = Opcode::CpAsyncArrive { pending: Pending::Noinc, space };
                self.entry.emit(op, [self.address(address)]);
            }
            Op::TestBarrier { dst, address, parity } => {
                // From sm_90 on a thread may sleep while it waits (PTX ISA, mbarrier.try_wait).
                let wait = if self.target.capability >= 90 { Wait::Try } else { Wait::Test };
                let op = Opcode::MbarrierWait { wait, phase: Phase::Parity, order: Order::Weak, space };
                let operands = vec![self.reg(*dst).into(), self.address(address), self.reg(*parity).into()];
                self.entry.emit(op, operands);
            }
            _ => {}
        }
    }
}
