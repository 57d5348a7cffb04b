//! mbarriers in shared memory, TMA copies that signal them, and TMA copies to global memory.

use ptx_gemm_dsl::target::MAP_BYTES;
use ptx_gemm_ptx::asynchronous::{Arrival as Carries, CacheHint, Multicast, Pending, Phase, TensorMode, Wait};
use ptx_gemm_ptx::instruction::{Base, Opcode, Operand, Order, Rounding, Scope};
use ptx_gemm_ptx::types::{Space, Type as PtxType};
use ptx_gemm_ptx::warp::{Alignment, ClusterOrder};

use super::Emitter;
use crate::kernel::{Address, Arrival, Guard, Reg, Type};

const SPACE: Space = Space::Shared;

impl Emitter<'_> {
    pub(super) fn init_barrier(&mut self, address: &Address, arrivals: u32) {
        let operands = [self.address(address), Operand::from(arrivals)];
        self.entry.emit(Opcode::MbarrierInit { space: SPACE }, operands);
    }

    pub(super) fn arrive(&mut self, address: &Address, when: Arrival, guard: Option<Guard>) {
        match when {
            Arrival::Now => {
                // The state identifies the phase; this compiler uses parities instead.
                let state = self.scratch(Type::U64);
                let op = Opcode::MbarrierArrive { arrival: Carries::Plain, order: Order::Weak, space: SPACE };
                self.emit(guard, op, [state.into(), self.address(address)]);
            }
            Arrival::Expecting(bytes) => {
                let op = Opcode::MbarrierArrive { arrival: Carries::ExpectTx, order: Order::Weak, space: SPACE };
                self.emit(guard, op, [Operand::Sink, self.address(address), Operand::from(bytes)]);
            }
            Arrival::ExpectingIn(bytes) => {
                let op = Opcode::MbarrierArrive { arrival: Carries::ExpectTx, order: Order::Weak, space: SPACE };
                let bytes = Operand::from(self.reg(bytes));
                self.emit(guard, op, [Operand::Sink, self.address(address), bytes]);
            }
            Arrival::WhenCopied => {
                // The arrival is one of those that the mbarrier was initialised to expect.
                let op = Opcode::CpAsyncArrive { pending: Pending::Noinc, space: SPACE };
                self.emit(guard, op, [self.address(address)]);
            }
        }
    }

    /// An arrival at an mbarrier of a block of the cluster. It has no qualifiers, as in CUTLASS: before
    /// `.release.cluster` the assembler inserts a fence of all memory, but the arrival only orders reads that are
    /// complete.
    pub(super) fn arrive_at(&mut self, block: Reg, address: &Address, guard: Option<Guard>) {
        let there = self.address_at(block, address, guard);
        let op = Opcode::MbarrierArrive { arrival: Carries::Plain, order: Order::Weak, space: Space::SharedCluster };
        self.emit(guard, op, [Operand::Sink, there]);
    }

    /// The address in another block of the cluster that corresponds to an address in this block's shared memory.
    pub(super) fn address_at(&mut self, block: Reg, address: &Address, guard: Option<Guard>) -> Operand {
        let there = self.scratch(Type::U32);
        let (base, block) = (self.reg(address.base), self.reg(block));
        self.emit(
            guard,
            Opcode::Mapa { space: Space::SharedCluster, ty: PtxType::U32 },
            [there, base, block].map(Operand::from),
        );
        Operand::address(there, address.offset)
    }

    /// The two halves of a cluster barrier: the first releases, the second acquires (PTX ISA, "barrier.cluster").
    pub(super) fn cluster_arrive(&mut self) {
        let (order, alignment) = (ClusterOrder::Unstated, Alignment::Aligned);
        self.entry.emit(Opcode::ClusterArrive { order, alignment }, []);
    }

    pub(super) fn cluster_wait(&mut self) {
        let (order, alignment) = (ClusterOrder::Unstated, Alignment::Aligned);
        self.entry.emit(Opcode::ClusterWait { order, alignment }, []);
    }

    /// Copies one box of a matrix to this block, or to several blocks of its cluster.
    pub(super) fn copy_box(
        &mut self,
        to: &Address,
        (map, at): (Reg, &[Reg]),
        barrier: &Address,
        blocks: Option<Reg>,
        guard: Option<Guard>,
    ) {
        let op = Opcode::TensorLoad {
            dimensions: at.len() as u8,
            to: Space::SharedCluster,
            mode: TensorMode::Tile,
            multicast: if blocks.is_some() { Multicast::Cluster } else { Multicast::None },
            hint: CacheHint::None,
        };
        let coordinates = at.iter().map(|reg| Operand::from(self.reg(*reg))).collect();
        let from = Operand::TensorAddress(Box::new((Base::Reg(self.reg(map)), coordinates)));
        let mut operands = vec![self.address(to), from, self.address(barrier)];
        if let Some(blocks) = blocks {
            // The mask has 16 bits.
            let (mask, blocks) = (self.scratch(Type::F16), self.reg(blocks).into());
            let halves = Operand::Vector(vec![mask.into(), Operand::Sink].into());
            self.entry.emit(Opcode::Mov(PtxType::B32), [halves, blocks]);
            operands.push(mask.into());
        }
        self.emit(guard, op, operands);
    }

    /// Stores a box from shared memory; elements outside the matrix are not written.
    pub(super) fn store_box(&mut self, from: &Address, map: Reg, at: &[Reg], guard: Option<Guard>) {
        let (mode, hint) = (TensorMode::Tile, CacheHint::None);
        let op = Opcode::TensorStore { dimensions: at.len() as u8, mode, hint };
        let coordinates = at.iter().map(|reg| Operand::from(self.reg(*reg))).collect();
        let to = Operand::TensorAddress(Box::new((Base::Reg(self.reg(map)), coordinates)));
        self.emit(guard, op, [to, self.address(from)]);
    }

    /// Orders the thread's accesses to shared memory before later accesses by the asynchronous proxy.
    pub(super) fn fence_copies(&mut self) {
        self.entry.emit(Opcode::FenceProxyAsync { space: Space::SharedCta }, []);
    }

    /// The generic address of a tensor map, which is a parameter.
    pub(super) fn map_address(&mut self, dst: Reg, name: &str) {
        let dst = self.reg(dst);
        self.entry.emit(Opcode::Mov(PtxType::U64), [dst.into(), Operand::Symbol(Box::new(name.into()))]);
        let op = Opcode::Cvta { to: false, space: Space::Param, ty: PtxType::U64 };
        self.entry.emit(op, [dst.into(), dst.into()]);
    }

    /// The generic address of a tensor map in global memory. The host wrote the map with a copy. The tensor map proxy
    /// sees it only after a fence of system scope (PTX ISA, "membar / fence").
    pub(super) fn map_of_record(&mut self, dst: Reg, record: Reg, offset: u32) {
        let (dst, record) = (self.reg(dst), self.reg(record));
        self.entry.emit(
            Opcode::Add { rnd: Rounding::None, ty: PtxType::U64 },
            [dst.into(), record.into(), Operand::from(offset)],
        );
        let op = Opcode::Cvta { to: false, space: Space::Global, ty: PtxType::U64 };
        self.entry.emit(op, [dst.into(), dst.into()]);
        let fence = Opcode::FenceProxyTensormap { acquire: true, scope: Scope::Sys };
        self.entry.emit(fence, [Operand::address(dst, 0), Operand::from(MAP_BYTES)]);
    }

    pub(super) fn test_barrier(&mut self, dst: Reg, address: &Address, parity: Reg) {
        // From sm_90 on, a thread may sleep while it waits (PTX ISA, mbarrier.try_wait).
        let wait = if self.target.capability >= 90 { Wait::Try } else { Wait::Test };
        let op = Opcode::MbarrierWait { wait, phase: Phase::Parity, order: Order::Weak, space: SPACE };
        let operands = [self.reg(dst).into(), self.address(address), self.reg(parity).into()];
        self.entry.emit(op, operands);
    }
}
