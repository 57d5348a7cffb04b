//! Faults in what orders accesses: barriers, fences, mbarriers, groups of copies, and the order of an access itself.

use ptx_gemm_runtime::ptx::asynchronous::{Arrival, Phase};
use ptx_gemm_runtime::ptx::instruction::{Instruction, Opcode, Operand, Order, Scope};
use ptx_gemm_runtime::ptx::module::Statement;
use ptx_gemm_runtime::ptx::types::{Space, Type};

use super::Maker;
use crate::mutants::MutantKind;

impl Maker<'_> {
    pub(super) fn synchronisation(&mut self, instruction: &Instruction) {
        if is_synchronisation(&instruction.op) {
            self.push(MutantKind::DeletedSync, Vec::new());
            self.moved();
        }
        let with = |op: Opcode| vec![Instruction { op, ..instruction.clone() }];
        let edited = |index: usize, operand: Operand| {
            let mut edited = instruction.clone();
            edited.operands[index] = operand;
            vec![edited]
        };
        match &instruction.op {
            Opcode::BarSync | Opcode::BarArrive | Opcode::BarrierSync | Opcode::BarrierArrive => {
                if let Some(Operand::Int(number)) = instruction.operands.first() {
                    self.push(MutantKind::OtherBarrier, edited(0, Operand::Int((number + 1) % 16)));
                }
                if let Some(Operand::Int(threads)) = instruction.operands.get(1) {
                    self.push(MutantKind::OtherBarrier, edited(1, Operand::Int(threads + 32)));
                    self.push(MutantKind::OtherBarrier, edited(1, Operand::Int((threads - 32).max(32))));
                }
            }
            Opcode::CpAsyncWait | Opcode::BulkWait(_) | Opcode::WgmmaWait => {
                if let Some(Operand::Int(groups)) = instruction.operands.first() {
                    self.push(MutantKind::WaitGroup, edited(0, Operand::Int(groups + 1)));
                    if *groups > 0 {
                        self.push(MutantKind::WaitGroup, edited(0, Operand::Int(groups - 1)));
                    }
                }
            }
            Opcode::MbarrierInit { .. } => {
                if let Some(Operand::Int(count)) = instruction.operands.get(1) {
                    self.push(MutantKind::ArriveCount, edited(1, Operand::Int(count + 1)));
                    if *count > 1 {
                        self.push(MutantKind::ArriveCount, edited(1, Operand::Int(count - 1)));
                    }
                }
            }
            Opcode::MbarrierArrive { arrival: Arrival::ExpectTx, .. } | Opcode::MbarrierTx { .. } => {
                let last = instruction.operands.len() - 1;
                if let Operand::Int(bytes) = instruction.operands[last] {
                    self.push(MutantKind::ExpectTx, edited(last, Operand::Int(bytes + 16)));
                    self.push(MutantKind::ExpectTx, edited(last, Operand::Int(bytes - 16)));
                }
            }
            Opcode::MbarrierWait { phase: Phase::Parity, .. } => {
                if let (Some(Operand::Reg(parity)), Some(other)) =
                    (instruction.operands.get(2), self.scratch_register(Type::B32))
                {
                    let flip = Instruction::new(
                        Opcode::Xor(Type::B32),
                        [Operand::Reg(other), Operand::Reg(*parity), Operand::Int(1)],
                    );
                    let wait = edited(2, Operand::Reg(other));
                    self.push(MutantKind::Parity, [flip].into_iter().chain(wait).collect());
                }
            }
            _ => {}
        }
        for op in weaker(&instruction.op) {
            self.push(MutantKind::WeakerOrder, with(op));
        }
        if let (Opcode::Bra { .. }, Some(_)) = (&instruction.op, instruction.guard)
            && self.closes_a_wait(instruction)
        {
            self.push(MutantKind::WaitOnce, Vec::new());
        }
    }

    /// A barrier up to the start of its run of instructions, and down to the end. It does not cross other barriers:
    /// around a loop it would reach a position where it has the same effect.
    fn moved(&mut self) {
        let body = &self.entry.body;
        let is_instruction = |statement: &Statement| match statement {
            Statement::Instruction(Instruction { op, .. }) => {
                !matches!(op, Opcode::Bra { .. } | Opcode::Ret) && !is_synchronisation(op)
            }
            _ => false,
        };
        let at = self.at;
        let start = body[..at].iter().rposition(|statement| !is_instruction(statement)).map_or(0, |edge| edge + 1);
        let behind = body[at + 1..].iter().position(|statement| !is_instruction(statement));
        let end = behind.map_or(body.len(), |edge| at + 1 + edge);
        // Its position matters only relative to the instructions that it orders: the copies before it belong to its
        // group.
        let own = match &body[at] {
            Statement::Instruction(Instruction { op, .. }) => Some(op),
            _ => None,
        };
        let ordered = |statement: &Statement| match (own, statement) {
            (Some(Opcode::CpAsyncCommit), Statement::Instruction(Instruction { op, .. })) => {
                matches!(op, Opcode::CpAsync { .. })
            }
            (Some(Opcode::WgmmaCommit | Opcode::WgmmaFence), Statement::Instruction(Instruction { op, .. })) => {
                matches!(op, Opcode::Wgmma { .. })
            }
            (_, statement) => touches_memory(statement),
        };
        let touches = |statements: &[Statement]| statements.iter().any(ordered);
        if touches(&body[start..at]) {
            let mut by = vec![body[at].clone()];
            by.extend_from_slice(&body[start..at]);
            self.at = start;
            self.replace(MutantKind::MovedSync, at + 1 - start, by);
            self.at = at;
        }
        if touches(&body[at + 1..end]) {
            let mut by = body[at + 1..end].to_vec();
            by.push(body[at].clone());
            self.replace(MutantKind::MovedSync, end - at, by);
        }
    }

    /// Whether a branch goes back to a wait: from a test of an mbarrier, or from a load of a flag.
    fn closes_a_wait(&self, branch: &Instruction) -> bool {
        let Some(Operand::Label(label)) = branch.operands.first() else { return false };
        let before = &self.entry.body[..self.at];
        let Some(top) = before.iter().rposition(|s| matches!(s, Statement::Label(name) if name == label.as_str()))
        else {
            return false;
        };
        // A short loop that reads memory and does not change it.
        let within = &before[top..];
        let looks = within.iter().any(|statement| match statement {
            Statement::Instruction(Instruction { op: Opcode::MbarrierWait { .. }, .. }) => true,
            Statement::Instruction(Instruction { op: Opcode::Ld { order, .. }, .. }) => *order != Order::Weak,
            _ => false,
        });
        looks && within.len() < 12
    }
}

/// Instructions whose only effect is to order others.
pub(super) fn is_synchronisation(op: &Opcode) -> bool {
    matches!(
        op,
        Opcode::BarSync
            | Opcode::BarArrive
            | Opcode::BarrierSync
            | Opcode::BarrierArrive
            | Opcode::BarWarpSync
            | Opcode::CpAsyncCommit
            | Opcode::CpAsyncWait
            | Opcode::CpAsyncWaitAll
            | Opcode::Fence { .. }
            | Opcode::MbarrierInit { .. }
            | Opcode::MbarrierArrive { .. }
            | Opcode::MbarrierTx { .. }
            | Opcode::CpAsyncArrive { .. }
            | Opcode::FenceMbarrierInit
            | Opcode::FenceProxyAsync { .. }
            | Opcode::BulkCommit
            | Opcode::BulkWait(_)
            | Opcode::ClusterArrive { .. }
            | Opcode::ClusterWait { .. }
            | Opcode::WgmmaFence
            | Opcode::WgmmaCommit
            | Opcode::WgmmaWait
    )
}

fn touches_memory(statement: &Statement) -> bool {
    let Statement::Instruction(instruction) = statement else { return false };
    match &instruction.op {
        Opcode::Ld { space, .. } => *space != Space::Param,
        Opcode::St { .. } | Opcode::Atom { .. } | Opcode::Red { .. } | Opcode::CpAsync { .. } => true,
        Opcode::AtomVector { .. } | Opcode::RedVector { .. } => true,
        Opcode::StAsync { .. } | Opcode::RedAsync { .. } => true,
        Opcode::WmmaLoad { .. } | Opcode::WmmaStore { .. } => true,
        Opcode::BulkCopy { .. } | Opcode::TensorLoad { .. } | Opcode::TensorStore { .. } => true,
        Opcode::Wgmma { .. } | Opcode::LdMatrix { .. } | Opcode::StMatrix { .. } => true,
        _ => false,
    }
}

/// The same access with less order, and with a smaller scope.
fn weaker(op: &Opcode) -> Vec<Opcode> {
    let orders = |order: Order, is_load_or_store: bool| -> Vec<Order> {
        let scope = |scope: Scope| (scope != Scope::Cta).then_some(Scope::Cta);
        match order {
            Order::AcqRel(s) => [Some(Order::Relaxed(s)), scope(s).map(Order::AcqRel)].into_iter().flatten().collect(),
            Order::Acquire(s) => {
                let plain = is_load_or_store.then_some(Order::Weak);
                [Some(Order::Relaxed(s)), plain, scope(s).map(Order::Acquire)].into_iter().flatten().collect()
            }
            Order::Release(s) => {
                let plain = is_load_or_store.then_some(Order::Weak);
                [Some(Order::Relaxed(s)), plain, scope(s).map(Order::Release)].into_iter().flatten().collect()
            }
            Order::Relaxed(s) => scope(s).map(Order::Relaxed).into_iter().collect(),
            _ => Vec::new(),
        }
    };
    match op {
        Opcode::Ld { order, .. } | Opcode::St { order, .. } => {
            let with = |order: Order| match op.clone() {
                Opcode::Ld { space, cache, prefetch, vector, ty, .. } => {
                    Opcode::Ld { order, space, cache, prefetch, vector, ty }
                }
                Opcode::St { space, cache, vector, ty, .. } => Opcode::St { order, space, cache, vector, ty },
                other => other,
            };
            orders(*order, true).into_iter().map(with).collect()
        }
        Opcode::Atom { order, space, op, ty } => {
            let with = |order| Opcode::Atom { order, space: *space, op: *op, ty: *ty };
            orders(*order, false).into_iter().map(with).collect()
        }
        Opcode::Red { order, space, op, ty } => {
            let with = |order| Opcode::Red { order, space: *space, op: *op, ty: *ty };
            orders(*order, false).into_iter().map(with).collect()
        }
        Opcode::Fence { order, scope } if *scope != Scope::Cta => {
            vec![Opcode::Fence { order: *order, scope: Scope::Cta }]
        }
        _ => Vec::new(),
    }
}
