//! mbarriers in shared memory.

use ptx_gemm_ptx::asynchronous::{Arrival as Carries, Pending, Phase, Wait};
use ptx_gemm_ptx::instruction::{Opcode, Operand, Order};
use ptx_gemm_ptx::types::Space;

use super::Emitter;
use crate::kernel::{Address, Arrival, Reg, Type};

const SPACE: Space = Space::Shared;

impl Emitter<'_> {
    pub(super) fn init_barrier(&mut self, address: &Address, arrivals: u32) {
        let operands = [self.address(address), Operand::from(arrivals)];
        self.entry.emit(Opcode::MbarrierInit { space: SPACE }, operands);
    }

    pub(super) fn arrive(&mut self, address: &Address, when: Arrival) {
        match when {
            Arrival::Now => {
                // The state identifies the phase; this compiler uses parities instead.
                let state = self.scratch(Type::U64);
                let op = Opcode::MbarrierArrive { arrival: Carries::Plain, order: Order::Weak, space: SPACE };
                self.entry.emit(op, [state.into(), self.address(address)]);
            }
            Arrival::WhenCopied => {
                // The arrival is one of those that the barrier was initialised to expect.
                let op = Opcode::CpAsyncArrive { pending: Pending::Noinc, space: SPACE };
                self.entry.emit(op, [self.address(address)]);
            }
        }
    }

    pub(super) fn test_barrier(&mut self, dst: Reg, address: &Address, parity: Reg) {
        // From sm_90 on a thread may sleep while it waits (PTX ISA, mbarrier.try_wait).
        let wait = if self.target.capability >= 90 { Wait::Try } else { Wait::Test };
        let op = Opcode::MbarrierWait { wait, phase: Phase::Parity, order: Order::Weak, space: SPACE };
        let operands = [self.reg(dst).into(), self.address(address), self.reg(parity).into()];
        self.entry.emit(op, operands);
    }
}
