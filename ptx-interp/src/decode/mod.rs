//! Decodes a parsed entry into [`Code`].
//!
//! Every instruction of the text becomes exactly one decoded instruction, so that labels, lines and counters need no
//! translation. An instruction that cannot be executed becomes [`Op::Refused`], which is an error only when it is
//! reached: a module may contain entries for other machines.

mod alu;
mod bits;
mod bulk;
mod collective;
mod compare;
mod control;
mod extended;
mod mbarrier;
mod memory;
mod operand;
mod pointers;
mod rare;
mod symbols;
mod system;
mod tensor_core;
mod wmma;

use std::collections::HashMap;

use ptx_gemm_ptx::asynchronous::Prefetched;
use ptx_gemm_ptx::hints;
use ptx_gemm_ptx::instruction::{Instruction, Opcode, Operand};
use ptx_gemm_ptx::module::{Entry, Module, Statement};
use ptx_gemm_ptx::target::Target;
use ptx_gemm_ptx::verify::{lacking, refusal};
use ptx_gemm_ptx::warp::GridDependency;

pub(crate) use self::pointers::point;
pub(crate) use self::symbols::{GlobalVariable, MAX_CONST, Symbols};
use crate::op::{Bulk, Code, Constant, Guard, Instr, Op, Origin, P, Quad, R64, Slot, Un64};

/// Decodes one entry of a module. `lines` is parallel to the body; `text` returns the text of a line.
pub(crate) fn decode(
    module: &Module,
    entry: &Entry,
    lines: &[u32],
    text: impl Fn(u32) -> String,
    symbols: &Symbols,
) -> Code {
    let mut decoder = Decoder::new(entry, symbols);
    let (target, version) = (Target::from_words(&module.target), module.version);
    for (index, statement) in entry.body.iter().enumerate() {
        if let Statement::Instruction(instruction) = statement {
            let line = lines.get(index).copied().unwrap_or(0);
            let lacking = || {
                let (needs, (major, minor)) = (lacking(instruction, target, version)?, version);
                Some(format!("it {needs}, and the module is for {} by .version {major}.{minor}", module.target))
            };
            let refusal = refusal(instruction).or_else(lacking);
            decoder.push(instruction, refusal);
            decoder.code.origins.push(Origin { line, text: text(line), note: instruction.note.clone() });
        }
    }
    decoder.finish()
}

/// State of decoding one entry.
struct Decoder<'a> {
    entry: &'a Entry,
    symbols: &'a Symbols,
    code: Code,
    /// Slots assigned to registers so far; registers that are declared but never used take none.
    registers: HashMap<(u16, u32), Slot>,
    /// The halves of registers of 128 bits.
    registers128: HashMap<(u16, u32), [R64; 2]>,
    constants: HashMap<(Constant, Width), Slot>,
    labels: HashMap<&'a str, u32>,
    /// Lists of labels, with their numbers once an instruction has named them.
    lists: HashMap<&'a str, (&'a [String], Option<u32>)>,
    names32: Vec<String>,
    names64: Vec<String>,
    names_pred: Vec<String>,
    /// A slot for results that are discarded.
    sink: P,
    /// Whether shared memory may hold flags.
    shared_flags: bool,
}

/// The register file of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Width {
    Narrow,
    Wide,
}

impl<'a> Decoder<'a> {
    fn new(entry: &'a Entry, symbols: &'a Symbols) -> Decoder<'a> {
        let (mut labels, mut lists) = (HashMap::new(), HashMap::new());
        let mut next = 0;
        for statement in &entry.body {
            match statement {
                Statement::Instruction(_) => next += 1,
                Statement::Label(name) => {
                    labels.insert(name.as_str(), next);
                }
                Statement::Targets { name, labels } => {
                    lists.insert(name.as_str(), (labels.as_slice(), None));
                }
                _ => {}
            }
        }
        Decoder {
            entry,
            symbols,
            code: Code::default(),
            registers: HashMap::new(),
            registers128: HashMap::new(),
            constants: HashMap::new(),
            labels,
            lists,
            names32: Vec::new(),
            names64: Vec::new(),
            names_pred: vec!["_".into()],
            sink: P(0),
            shared_flags: memory::stores_shared_flags(entry),
        }
    }

    fn push(&mut self, instruction: &Instruction, refusal: Option<String>) {
        let op = match refusal.map_or_else(|| self.op(instruction), Err) {
            Ok(op) => op,
            Err(reason) => self.refuse(reason),
        };
        let guard = match instruction.guard {
            None => Ok(Guard::Always),
            Some(guard) => match self.register(guard.pred) {
                Ok(Slot::P(pred)) if guard.negated => Ok(Guard::Unless(pred)),
                Ok(Slot::P(pred)) => Ok(Guard::If(pred)),
                Ok(_) => Err("the guard is not a predicate register".into()),
                Err(reason) => Err(reason),
            },
        };
        let instr = match guard {
            Ok(guard) => Instr { guard, op },
            Err(reason) => Instr { guard: Guard::Always, op: self.refuse(reason) },
        };
        self.code.instrs.push(instr);
    }

    fn refuse(&mut self, reason: String) -> Op {
        self.code.refusals.push(reason);
        Op::Refused { index: self.code.refusals.len() as u32 - 1 }
    }

    fn op(&mut self, instruction: &Instruction) -> Result<Op, String> {
        let operands = instruction.operands.as_slice();
        match &instruction.op {
            Opcode::Ld { .. }
            | Opcode::St { .. }
            | Opcode::Atom { .. }
            | Opcode::Red { .. }
            | Opcode::AtomVector { .. }
            | Opcode::RedVector { .. }
            | Opcode::CpAsync { .. } => self.memory(&instruction.op, operands),
            Opcode::Bra { .. }
            | Opcode::BraIndexed { .. }
            | Opcode::BarSync
            | Opcode::BarArrive
            | Opcode::BarrierSync
            | Opcode::BarrierArrive
            | Opcode::BarWarpSync
            | Opcode::Trap
            | Opcode::Ret
            | Opcode::Exit
            | Opcode::CpAsyncCommit
            | Opcode::CpAsyncWait
            | Opcode::CpAsyncWaitAll
            | Opcode::Fence { .. } => self.control(&instruction.op, operands),
            Opcode::Bfe(_)
            | Opcode::Bfi(_)
            | Opcode::Popc(_)
            | Opcode::Clz(_)
            | Opcode::Brev(_)
            | Opcode::Prmt
            | Opcode::PrmtMode(_)
            | Opcode::Bfind { .. }
            | Opcode::Lop3
            | Opcode::Shf { .. }
            | Opcode::Bmsk(_)
            | Opcode::Szext { .. }
            | Opcode::IsSpaceP(_) => self.bits(&instruction.op, operands),
            Opcode::Shfl(_)
            | Opcode::ShflActive(_)
            | Opcode::Vote(_)
            | Opcode::VoteActive(_)
            | Opcode::ActiveMask
            | Opcode::Redux { .. }
            | Opcode::Elect
            | Opcode::MovMatrix
            | Opcode::Match { .. } => self.collective(&instruction.op, operands),
            Opcode::MbarrierInit { .. }
            | Opcode::MbarrierInval { .. }
            | Opcode::MbarrierArrive { .. }
            | Opcode::MbarrierArriveDrop { .. }
            | Opcode::MbarrierTx { .. }
            | Opcode::MbarrierWait { .. }
            | Opcode::CpAsyncArrive { .. } => self.mbarrier(&instruction.op, operands),
            Opcode::FenceMbarrierInit
            | Opcode::FenceProxyAsync { .. }
            | Opcode::FenceProxyTensormap { .. }
            | Opcode::TensormapReplace { .. }
            | Opcode::TensormapCopy { .. }
            | Opcode::BulkCopy { .. }
            | Opcode::BulkReduce { .. }
            | Opcode::BulkReduceShared { .. }
            | Opcode::StAsync { .. }
            | Opcode::RedAsync { .. }
            | Opcode::BulkPrefetch { .. }
            | Opcode::BulkCommit
            | Opcode::BulkWait(_)
            | Opcode::TensorLoad { .. }
            | Opcode::TensorStore { .. }
            | Opcode::TensorReduce { .. }
            | Opcode::TensorPrefetch { .. }
            | Opcode::Prefetch { what: Prefetched::Tensormap, .. }
            | Opcode::Mapa { .. }
            | Opcode::GetCtaRank { .. } => self.bulk(&instruction.op, operands),
            Opcode::ClusterArrive { .. } | Opcode::ClusterWait { .. } | Opcode::SetMaxNReg(_) => {
                self.together(&instruction.op, operands)
            }
            Opcode::Mma { .. }
            | Opcode::WmmaLoad { .. }
            | Opcode::WmmaStore { .. }
            | Opcode::WmmaMultiply { .. }
            | Opcode::WmmaBits { .. }
            | Opcode::Wgmma { .. }
            | Opcode::WgmmaFence
            | Opcode::WgmmaCommit
            | Opcode::WgmmaWait
            | Opcode::LdMatrix { .. }
            | Opcode::StMatrix { .. } => self.tensor_core(&instruction.op, operands),
            // Hints to the hardware, which have no effect here.
            Opcode::Nanosleep | Opcode::Prefetch { .. } | Opcode::GridDepControl(GridDependency::LaunchDependents) => {
                Ok(Op::Nop)
            }
            Opcode::GridDepControl(GridDependency::Wait) => Ok(Op::AwaitGrids),
            Opcode::CreatePolicy { .. } => self.policy(operands),
            Opcode::Modified { .. }
            | Opcode::Hinted { .. }
            | Opcode::Carry { .. }
            | Opcode::CopySign(_)
            | Opcode::Sad(_)
            | Opcode::Dp4a { .. }
            | Opcode::Dp2a { .. }
            | Opcode::TestP { .. }
            | Opcode::Cnot(_)
            | Opcode::XorSign { .. }
            | Opcode::Video { .. }
            | Opcode::VideoSet { .. }
            | Opcode::CvtFinite { .. } => self.extended(instruction),
            Opcode::SetpWith { .. }
            | Opcode::Lop3With(_)
            | Opcode::Set { .. }
            | Opcode::Slct { .. }
            | Opcode::Fns
            | Opcode::Mul24 { .. }
            | Opcode::Mad24 { .. }
            | Opcode::CvtPack { .. }
            | Opcode::MbarrierPendingCount
            | Opcode::BarRed { .. } => self.rare(&instruction.op, operands),
            Opcode::Unknown(word) if hints::is_hint(word) => Ok(Op::Nop),
            Opcode::Unknown(word) if hints::is_policy(word) => self.policy(operands),
            Opcode::Unknown(word) if word.starts_with("call") => self.call(word, operands),
            Opcode::Unknown(mnemonic) => Err(format!("`{mnemonic}` is not supported")),
            other => self.alu(other, operands),
        }
    }

    /// A cache policy, which has no effect here.
    fn policy(&mut self, operands: &[Operand]) -> Result<Op, String> {
        let [d, ..] = operands else { return Err("the destination is missing".into()) };
        let a = self.constant64(Constant::Value(0));
        Ok(Op::Un64 { f: Un64::Mov, d: self.d64(d)?, a })
    }

    /// Finishes the code: adds the exit after the last instruction, and forms runs of multiply-adds.
    fn finish(mut self) -> Code {
        let text = "} (the end of the entry)".into();
        let line = self.code.origins.last().map_or(0, |origin| origin.line + 1);
        self.code.instrs.push(Instr { guard: Guard::Always, op: Op::Exit });
        self.code.origins.push(Origin { line, text, note: None });
        let mut targets = vec![false; self.code.instrs.len() + 1];
        for &target in self.labels.values() {
            targets[target as usize] = true;
        }
        self.code.group_registers = self.group_registers();
        fuse_runs(&mut self.code, &targets);
        self.code.copies_from_global = self.code.bulks.iter().any(Bulk::reads_global);
        self.code.slots32 = self.names32.len() as u32;
        self.code.slots64 = self.names64.len() as u32;
        self.code.preds = self.names_pred.len() as u32;
        self.code.names = self.names32.into_iter().chain(self.names64).chain(self.names_pred).collect();
        self.code
    }
}

/// Combines consecutive multiply-adds without a guard or a label into runs, which need one dispatch each: a GEMM spends
/// most of its time there. Each position of a run also holds the rest of the run, so that execution can stop and
/// continue anywhere in it.
fn fuse_runs(code: &mut Code, targets: &[bool]) {
    for index in (0..code.instrs.len()).rev() {
        let Instr { guard: Guard::Always, op } = code.instrs[index] else { continue };
        let (quad, kind) = match op {
            Op::Fma32 { d, a, b, c } => (Quad { d: d.0, a: a.0, b: b.0, c: c.0 }, Run::Fma32),
            Op::Fma64 { d, a, b, c } => (Quad { d: d.0, a: a.0, b: b.0, c: c.0 }, Run::Fma64),
            Op::Mad32 { d, a, b, c } => (Quad { d: d.0, a: a.0, b: b.0, c: c.0 }, Run::Mad32),
            _ => continue,
        };
        // When walking backwards, a run grows at its front. Its quads are therefore stored back to front, and reversed
        // below through their index.
        let rest = match code.instrs.get(index + 1).map(|next| next.op) {
            Some(next) if !targets[index + 1] => run_length(next, kind),
            _ => 0,
        };
        code.quads.push(quad);
        let start = code.quads.len() as u32 - 1;
        code.instrs[index].op = kind.op(start, rest + 1);
    }
    // Reverse the quads once, so that a run reads forwards.
    code.quads.reverse();
    let last = code.quads.len() as u32;
    for instr in &mut code.instrs {
        if let Op::FmaRun32 { start, .. } | Op::FmaRun64 { start, .. } | Op::MadRun32 { start, .. } = &mut instr.op {
            *start = last - 1 - *start;
        }
    }
}

/// Kinds of runs.
#[derive(Clone, Copy)]
enum Run {
    Fma32,
    Fma64,
    Mad32,
}

impl Run {
    fn op(self, start: u32, len: u32) -> Op {
        match self {
            Run::Fma32 => Op::FmaRun32 { start, len },
            Run::Fma64 => Op::FmaRun64 { start, len },
            Run::Mad32 => Op::MadRun32 { start, len },
        }
    }
}

fn run_length(op: Op, kind: Run) -> u32 {
    match (op, kind) {
        (Op::FmaRun32 { len, .. }, Run::Fma32) => len,
        (Op::FmaRun64 { len, .. }, Run::Fma64) => len,
        (Op::MadRun32 { len, .. }, Run::Mad32) => len,
        _ => 0,
    }
}
