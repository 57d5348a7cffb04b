//! Generates every edit of a module that makes a mutant.

use ptx_gemm_runtime::ptx::asynchronous::{Arrival, Phase};
use ptx_gemm_runtime::ptx::instruction::{Base, Compare, Guard, Instruction, Opcode, Operand, Order, Reg, Scope};
use ptx_gemm_runtime::ptx::module::{Entry, Module, RegisterFamily, Statement};
use ptx_gemm_runtime::ptx::print;
use ptx_gemm_runtime::ptx::types::{Space, Type};

use super::{Mutant, MutantKind};

/// Register families for the temporaries of an edit, appended to those of the mutated entry.
pub(super) fn scratch() -> [RegisterFamily; 3] {
    let family = |prefix: &str, ty| RegisterFamily { ty, prefix: prefix.into(), count: Some(1), comment: None };
    [family("%mutant_f", Type::F32), family("%mutant_d", Type::F64), family("%mutant_r", Type::B32)]
}

/// All of them, in the order of the text.
pub fn mutants(module: &Module) -> Vec<Mutant> {
    let mut all = Vec::new();
    for (index, entry) in module.entries.iter().enumerate() {
        let registers = entry.registers.iter().cloned().chain(scratch()).collect();
        let (name, params, directives) = (entry.name.clone(), Vec::new(), Vec::new());
        let declared = Entry { name, params, directives, registers, variables: Vec::new(), body: Vec::new() };
        let mut maker = Maker { entry, declared, index, at: 0, all: &mut all };
        for at in 0..entry.body.len() {
            maker.at = at;
            if let Statement::Instruction(instruction) = &entry.body[at] {
                maker.instruction(instruction);
            }
        }
    }
    all
}

struct Maker<'a> {
    entry: &'a Entry,
    /// Its registers with those of the edits, and no instructions, for printing.
    declared: Entry,
    index: usize,
    at: usize,
    all: &'a mut Vec<Mutant>,
}

impl Maker<'_> {
    /// Replaces one statement by others.
    fn push(&mut self, kind: MutantKind, by: Vec<Instruction>) {
        self.replace(kind, 1, by.into_iter().map(Statement::Instruction).collect());
    }

    fn replace(&mut self, kind: MutantKind, replaced: usize, by: Vec<Statement>) {
        let told = |statements: &[Statement]| {
            let texts = statements.iter().filter_map(|statement| match statement {
                Statement::Instruction(instruction) => Some(print::instruction(instruction, &self.declared)),
                Statement::Label(name) => Some(format!("{name}:")),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("; ")
        };
        let old = &self.entry.body[self.at..self.at + replaced];
        // A moved instruction is reported with its own text.
        let (before, after) = match kind {
            MutantKind::MovedSync => {
                let up = by.first() == old.last();
                let moved = if up { old.last() } else { old.first() };
                let past =
                    format!("{} {} instructions", if up { "moved up past" } else { "moved down past" }, replaced - 1);
                (told(moved.map(std::slice::from_ref).unwrap_or_default()), past)
            }
            _ => (told(old), told(&by)),
        };
        let op = old.iter().find_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction.op.clone()),
            _ => None,
        });
        let note = old.iter().find_map(|statement| match statement {
            Statement::Instruction(instruction) => instruction.note.as_ref(),
            _ => None,
        });
        let note = note.map_or_else(String::new, |note| format!("{}: {}", note.clause, note.what));
        self.all.push(Mutant {
            kind,
            entry: self.index,
            at: self.at,
            op: op.unwrap_or(Opcode::Ret),
            before,
            after,
            note,
            replaced,
            by,
        });
    }

    fn scratch_register(&self, ty: Type) -> Option<Reg> {
        let place = scratch().iter().position(|family| family.ty == ty)?;
        Some(Reg { family: (self.entry.registers.len() + place) as u16, index: 0 })
    }

    fn instruction(&mut self, instruction: &Instruction) {
        if matches!(instruction.op, Opcode::Ret | Opcode::Exit | Opcode::Unknown(_)) {
            return;
        }
        self.synchronisation(instruction);
        self.guards(instruction);
        self.numbers(instruction);
        self.operations(instruction);
        self.registers(instruction);
        if !is_synchronisation(&instruction.op) && !matches!(instruction.op, Opcode::Bra { .. }) {
            self.push(MutantKind::Deleted, Vec::new());
            self.swapped_accesses(instruction);
        }
    }

    fn synchronisation(&mut self, instruction: &Instruction) {
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
            Opcode::CpAsyncWait | Opcode::BulkWait(_) => {
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
        let groups = matches!(&body[at], Statement::Instruction(Instruction { op: Opcode::CpAsyncCommit, .. }));
        let ordered = |statement: &Statement| match statement {
            Statement::Instruction(Instruction { op, .. }) if groups => matches!(op, Opcode::CpAsync { .. }),
            statement => touches_memory(statement),
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

    fn guards(&mut self, instruction: &Instruction) {
        let Some(guard) = instruction.guard else { return };
        let opposite = Guard { negated: !guard.negated, ..guard };
        self.push(MutantKind::OppositeGuard, vec![Instruction { guard: Some(opposite), ..instruction.clone() }]);
        if !matches!(instruction.op, Opcode::Bra { .. }) {
            self.push(MutantKind::NoGuard, vec![Instruction { guard: None, ..instruction.clone() }]);
        }
    }

    fn numbers(&mut self, instruction: &Instruction) {
        let edited = |index: usize, operand: Operand| {
            let mut edited = instruction.clone();
            edited.operands[index] = operand;
            vec![edited]
        };
        let counts_itself = is_synchronisation(&instruction.op)
            || matches!(instruction.op, Opcode::MbarrierInit { .. } | Opcode::CpAsync { .. } | Opcode::Shfl(_));
        for (index, operand) in instruction.operands.iter().enumerate() {
            match operand {
                Operand::Int(value) if !counts_itself => {
                    let bound = matches!(instruction.op, Opcode::Setp { .. });
                    let kind = if bound { MutantKind::Bound } else { MutantKind::Constant };
                    self.push(kind, edited(index, Operand::Int(value + 1)));
                    if *value > 0 {
                        self.push(kind, edited(index, Operand::Int(value - 1)));
                    }
                    if !bound && *value > 1 {
                        self.push(kind, edited(index, Operand::Int(value * 2)));
                    }
                }
                Operand::Address(address) if !matches!(address.0, Base::Symbol(_)) && address.0 != Base::None => {
                    let (base, offset) = &**address;
                    let element = element_bytes(&instruction.op);
                    for step in [element, -element] {
                        let moved = Operand::address(base.clone(), offset + step);
                        self.push(MutantKind::Offset, edited(index, moved));
                    }
                }
                // `ld.param` of another parameter of the same type.
                Operand::Address(address) => {
                    let (Base::Symbol(name), offset) = (&address.0, address.1) else { continue };
                    let params = &self.entry.params;
                    let Some(place) = params.iter().position(|param| param.name == **name) else { continue };
                    let next = (1..params.len()).map(|step| &params[(place + step) % params.len()]);
                    if let Some(other) = next.into_iter().find(|param| param.ty == params[place].ty) {
                        let other = Operand::address(other.name.as_str(), offset);
                        self.push(MutantKind::OtherParameter, edited(index, other));
                    }
                }
                _ => {}
            }
        }
    }

    fn operations(&mut self, instruction: &Instruction) {
        let with = |op: Opcode| vec![Instruction { op, ..instruction.clone() }];
        let narrower = |vector: u8| if vector > 2 { vector / 2 } else { 1 };
        let other = match &instruction.op {
            Opcode::Add { rnd, ty } => Some(Opcode::Sub { rnd: *rnd, ty: *ty }),
            Opcode::Sub { rnd, ty } => Some(Opcode::Add { rnd: *rnd, ty: *ty }),
            Opcode::Min { nan, ty } => Some(Opcode::Max { nan: *nan, ty: *ty }),
            Opcode::Max { nan, ty } => Some(Opcode::Min { nan: *nan, ty: *ty }),
            Opcode::And(ty) => Some(Opcode::Or(*ty)),
            Opcode::Or(ty) => Some(Opcode::And(*ty)),
            Opcode::Xor(ty) if *ty != Type::Pred => Some(Opcode::Or(*ty)),
            Opcode::Shl(ty) => Some(Opcode::Shr(*ty)),
            Opcode::Shr(ty) => Some(Opcode::Shl(bits(*ty))),
            _ => None,
        };
        if let Some(op) = other {
            self.push(MutantKind::OtherOperation, with(op));
        }
        match &instruction.op {
            Opcode::Setp { cmp, ty } => {
                for cmp in other_comparisons(*cmp) {
                    self.push(MutantKind::Comparison, with(Opcode::Setp { cmp, ty: *ty }));
                }
            }
            Opcode::Ld { vector, .. } | Opcode::St { vector, .. } if *vector > 1 => {
                let mut edited = instruction.clone();
                if let Opcode::Ld { vector, .. } | Opcode::St { vector, .. } = &mut edited.op {
                    *vector = narrower(*vector);
                    let left = usize::from(*vector);
                    for operand in &mut edited.operands {
                        if let Operand::Vector(elements) = operand {
                            elements.truncate(left);
                            if let ([one], 1) = (elements.as_slice(), left) {
                                *operand = one.clone();
                            }
                        }
                    }
                }
                self.push(MutantKind::NarrowVector, vec![edited]);
            }
            Opcode::Fma { rnd, ty } => {
                if let ([d, a, b, c], Some(product)) = (instruction.operands.as_slice(), self.scratch_register(*ty)) {
                    let product = Operand::Reg(product);
                    let multiply = Instruction {
                        op: Opcode::Mul { rnd: *rnd, ty: *ty },
                        operands: vec![product.clone(), a.clone(), b.clone()],
                        ..instruction.clone()
                    };
                    let add = Instruction {
                        op: Opcode::Add { rnd: *rnd, ty: *ty },
                        operands: vec![d.clone(), product, c.clone()],
                        ..instruction.clone()
                    };
                    self.push(MutantKind::RoundedTwice, vec![multiply, add]);
                }
            }
            _ => {}
        }
    }

    fn registers(&mut self, instruction: &Instruction) {
        let edited = |index: usize, operand: Operand| {
            let mut edited = instruction.clone();
            edited.operands[index] = operand;
            vec![edited]
        };
        let stores = matches!(instruction.op, Opcode::St { .. } | Opcode::Red { .. });
        let first_source = usize::from(!stores);
        for (index, operand) in instruction.operands.iter().enumerate().skip(first_source) {
            let Operand::Reg(reg) = operand else { continue };
            let count = self.entry.registers.get(usize::from(reg.family)).and_then(|family| family.count).unwrap_or(1);
            if count > 1 {
                let next = Reg { index: (reg.index + 1) % count, ..*reg };
                self.push(MutantKind::OtherRegister, edited(index, Operand::Reg(next)));
            }
        }
        let ordered = matches!(
            instruction.op,
            Opcode::Sub { .. } | Opcode::Setp { .. } | Opcode::Selp(_) | Opcode::Div { .. } | Opcode::Rem(_)
        );
        let swaps = [(1, 2), (2, 3)].into_iter().filter(|(a, b)| match &instruction.op {
            // The addend for a factor; factors commute.
            Opcode::Fma { .. } | Opcode::MadInt { .. } => (*a, *b) == (2, 3),
            _ => ordered && (*a, *b) == (1, 2),
        });
        for (a, b) in swaps {
            if instruction.operands.len() > b && instruction.operands[a] != instruction.operands[b] {
                let mut edited = instruction.clone();
                edited.operands.swap(a, b);
                self.push(MutantKind::SwappedOperands, vec![edited]);
            }
        }
    }

    /// Two neighbours, at least one of which writes memory.
    fn swapped_accesses(&mut self, instruction: &Instruction) {
        let body = &self.entry.body;
        let Some(Statement::Instruction(next)) = body.get(self.at + 1) else { return };
        let writes = |op: &Opcode| matches!(op, Opcode::St { .. } | Opcode::Red { .. } | Opcode::CpAsync { .. });
        let orders = |op: &Opcode| is_synchronisation(op) || matches!(op, Opcode::Atom { .. });
        if (writes(&instruction.op) && orders(&next.op)) || (orders(&instruction.op) && writes(&next.op)) {
            let by = vec![body[self.at + 1].clone(), body[self.at].clone()];
            self.replace(MutantKind::SwappedAccesses, 2, by);
        }
    }
}

/// Instructions whose only effect is to order others.
fn is_synchronisation(op: &Opcode) -> bool {
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
    )
}

fn touches_memory(statement: &Statement) -> bool {
    let Statement::Instruction(instruction) = statement else { return false };
    match &instruction.op {
        Opcode::Ld { space, .. } => *space != Space::Param,
        Opcode::St { .. } | Opcode::Atom { .. } | Opcode::Red { .. } | Opcode::CpAsync { .. } => true,
        Opcode::BulkCopy { .. } | Opcode::TensorLoad { .. } | Opcode::TensorStore { .. } => true,
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
        Opcode::Fence { acq_rel, scope } if *scope != Scope::Cta => {
            vec![Opcode::Fence { acq_rel: *acq_rel, scope: Scope::Cta }]
        }
        _ => Vec::new(),
    }
}

/// Comparisons that differ for one number, and for many.
fn other_comparisons(cmp: Compare) -> Vec<Compare> {
    match cmp {
        Compare::Lt => vec![Compare::Le, Compare::Ge],
        Compare::Le => vec![Compare::Lt, Compare::Gt],
        Compare::Gt => vec![Compare::Ge, Compare::Le],
        Compare::Ge => vec![Compare::Gt, Compare::Lt],
        Compare::Eq => vec![Compare::Ne],
        Compare::Ne => vec![Compare::Eq],
        _ => Vec::new(),
    }
}

/// Bytes of one element of an access.
fn element_bytes(op: &Opcode) -> i64 {
    match op {
        Opcode::Ld { ty, .. } | Opcode::St { ty, .. } | Opcode::Atom { ty, .. } | Opcode::Red { ty, .. } => {
            i64::from(ty.bits() / 8).max(1)
        }
        _ => 16,
    }
}

fn bits(ty: Type) -> Type {
    match ty.bits() {
        64 => Type::B64,
        16 => Type::B16,
        _ => Type::B32,
    }
}
