//! Writes a module as PTX text: the only place in the project that does.
//!
//! The text is laid out for people: registers by family with what they hold, one parameter a line, labels flush left, and
//! behind each instruction, in a column of its own, the clause that it came from. [`crate::parse::parse`] reads all of it back.

use std::ops::Range;

use crate::instruction::{Base, Instruction, Note, Opcode, Operand, Reg};
use crate::mnemonic;
use crate::module::{Directive, Entry, Module, Param, RegisterFamily, Statement, Variable};

/// Column of the notes behind instructions.
const NOTE_COLUMN: usize = 64;
/// Column of the comments behind parameters, registers and variables.
const COMMENT_COLUMN: usize = 40;
const INDENT: &str = "    ";

/// The PTX text of a module. Deterministic: equal modules give equal texts.
///
/// Text inside comments and notes is made to fit one line; nothing else is checked here, see [`crate::verify::verify`].
pub fn print(module: &Module) -> String {
    let statements: usize = module.entries.iter().map(|entry| entry.body.len()).sum();
    // About 100 bytes a line, so that a large kernel is not copied while it grows.
    let mut printer = Printer { text: String::with_capacity(1024 + 100 * statements), ..Printer::default() };
    printer.module(module);
    printer.text
}

/// The text of one instruction of an entry, without note and semicolon: for messages.
pub fn instruction(instruction: &Instruction, entry: &Entry) -> String {
    let mut printer = Printer::default();
    printer.bare_instruction(instruction, &entry.registers);
    printer.text
}

/// The text of one operand of an entry's instructions: for messages.
pub fn operand(operand: &Operand, entry: &Entry) -> String {
    let mut printer = Printer::default();
    printer.operand(operand, &entry.registers);
    printer.text
}

#[derive(Default)]
struct Printer {
    text: String,
    /// Where the current line starts.
    line: usize,
    /// The last opcode and the last note, and where their texts are: runs of one are long.
    last_op: Option<(Opcode, Range<usize>)>,
    last_note: Option<(Note, Range<usize>)>,
}

impl Printer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn unsigned(&mut self, value: u64) {
        self.text.push_str(itoa::Buffer::new().format(value));
    }

    fn signed(&mut self, value: i64) {
        self.text.push_str(itoa::Buffer::new().format(value));
    }

    fn newline(&mut self) {
        self.text.push('\n');
        self.line = self.text.len();
    }

    /// Blanks up to a column, and two at least.
    fn column(&mut self, column: usize) {
        const BLANKS: &str = "                                                                ";
        let used = self.text.len() - self.line;
        let blanks = column.saturating_sub(used).max(2);
        self.text.push_str(&BLANKS[..blanks.min(BLANKS.len())]);
    }

    /// A piece of a comment: line ends would end the comment, and so become blanks.
    fn comment_text(&mut self, text: &str) {
        if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some() {
            self.text.extend(text.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }));
        } else {
            self.text.push_str(text);
        }
    }

    fn comment(&mut self, text: &str) {
        self.push("//");
        if !text.is_empty() {
            self.push(" ");
            self.comment_text(text);
        }
    }

    fn trailing_comment(&mut self, comment: Option<&str>) {
        if let Some(comment) = comment {
            self.column(COMMENT_COLUMN);
            self.comment(comment);
        }
        self.newline();
    }

    fn trailing_note(&mut self, note: Option<&Note>) {
        if let Some(note) = note {
            self.column(NOTE_COLUMN);
            if let Some((last, text)) = &self.last_note
                && last.is_same(note)
            {
                self.text.extend_from_within(text.clone());
                return self.newline();
            }
            let start = self.text.len();
            self.push("//@ ");
            self.comment_text(&note.clause);
            if !note.what.is_empty() {
                self.push(": ");
                self.comment_text(&note.what);
            }
            self.last_note = Some((note.clone(), start..self.text.len()));
        }
        self.newline();
    }

    fn module(&mut self, module: &Module) {
        for line in &module.header {
            self.comment(line);
            self.newline();
        }
        if !module.header.is_empty() {
            self.newline();
        }
        self.push(".version ");
        self.unsigned(module.version.0.into());
        self.push(".");
        self.unsigned(module.version.1.into());
        self.newline();
        self.push(".target ");
        self.push(&module.target);
        self.newline();
        self.push(".address_size 64");
        self.newline();
        if !module.variables.is_empty() {
            self.newline();
        }
        for variable in &module.variables {
            self.variable(variable);
        }
        for entry in &module.entries {
            self.newline();
            self.entry(entry);
        }
    }

    fn variable(&mut self, variable: &Variable) {
        if variable.is_extern {
            self.push(".extern ");
        }
        self.push(".");
        self.push(variable.space.name());
        self.align(variable.align);
        self.push(" .");
        self.push(variable.ty.name());
        self.push(" ");
        self.push(&variable.name);
        self.extent(variable.count);
        match variable.init.as_slice() {
            [] => {}
            [one] if variable.count.is_none() => {
                self.push(" = ");
                self.operand(one, &[]);
            }
            several => {
                self.push(" = {");
                self.list(several, "", &[]);
                self.push("}");
            }
        }
        self.push(";");
        self.trailing_note(variable.note.as_ref());
    }

    fn align(&mut self, align: Option<u32>) {
        if let Some(align) = align {
            self.push(" .align ");
            self.unsigned(align.into());
        }
    }

    fn extent(&mut self, count: Option<u64>) {
        match count {
            None => {}
            Some(0) => self.push("[]"),
            Some(count) => {
                self.push("[");
                self.unsigned(count);
                self.push("]");
            }
        }
    }

    fn entry(&mut self, entry: &Entry) {
        self.push(".visible .entry ");
        self.push(&entry.name);
        self.push("(");
        self.newline();
        for (i, param) in entry.params.iter().enumerate() {
            self.param(param, i + 1 == entry.params.len());
        }
        self.push(")");
        self.newline();
        for directive in &entry.directives {
            self.directive(directive);
        }
        self.push("{");
        self.newline();
        for family in &entry.registers {
            self.family(family);
        }
        for variable in &entry.variables {
            self.push(INDENT);
            self.variable(variable);
        }
        if !entry.body.is_empty() && (!entry.registers.is_empty() || !entry.variables.is_empty()) {
            self.newline();
        }
        for statement in &entry.body {
            self.statement(statement, &entry.registers);
        }
        self.push("}");
        self.newline();
    }

    fn param(&mut self, param: &Param, last: bool) {
        self.push(INDENT);
        self.push(".param");
        self.align(param.align);
        self.push(" .");
        self.push(param.ty.name());
        self.push(" ");
        self.push(&param.name);
        self.extent(param.count);
        if !last {
            self.push(",");
        }
        self.trailing_comment(param.comment.as_deref());
    }

    fn directive(&mut self, directive: &Directive) {
        match directive {
            Directive::Reqntid(extents) => self.extents(".reqntid ", extents),
            Directive::Maxntid(extents) => self.extents(".maxntid ", extents),
            Directive::MinNctaPerSm(count) => self.extents(".minnctapersm ", &[*count]),
            Directive::MaxNreg(count) => self.extents(".maxnreg ", &[*count]),
            Directive::ReqNctaPerCluster(extents) => self.extents(".reqnctapercluster ", extents),
            Directive::Other(text) => self.push(text),
        }
        self.newline();
    }

    fn extents(&mut self, word: &str, extents: &[u32]) {
        self.push(word);
        for (i, extent) in extents.iter().enumerate() {
            self.push(if i == 0 { "" } else { ", " });
            self.unsigned((*extent).into());
        }
    }

    fn family(&mut self, family: &RegisterFamily) {
        self.push(INDENT);
        self.push(".reg .");
        self.push(family.ty.name());
        self.push(" ");
        self.push(&family.prefix);
        if let Some(count) = family.count {
            self.push("<");
            self.unsigned(count.into());
            self.push(">");
        }
        self.push(";");
        self.trailing_comment(family.comment.as_deref());
    }

    fn statement(&mut self, statement: &Statement, registers: &[RegisterFamily]) {
        match statement {
            Statement::Instruction(instruction) => self.instruction(instruction, registers),
            Statement::Label(name) => {
                self.push(name);
                self.push(":");
                self.newline();
            }
            Statement::Comment(text) => {
                self.push(INDENT);
                self.comment(text);
                self.newline();
            }
            Statement::Pragma(text) => {
                self.push(INDENT);
                self.push(".pragma \"");
                self.push(text);
                self.push("\";");
                self.newline();
            }
        }
    }

    fn instruction(&mut self, instruction: &Instruction, registers: &[RegisterFamily]) {
        self.push(INDENT);
        self.bare_instruction(instruction, registers);
        self.push(";");
        self.trailing_note(instruction.note.as_ref());
    }

    fn bare_instruction(&mut self, instruction: &Instruction, registers: &[RegisterFamily]) {
        if let Some(guard) = &instruction.guard {
            self.push(if guard.negated { "@!" } else { "@" });
            self.register(guard.pred, registers);
            self.push(" ");
        }
        match &self.last_op {
            Some((last, text)) if *last == instruction.op => self.text.extend_from_within(text.clone()),
            _ => {
                let start = self.text.len();
                mnemonic::write(&instruction.op, &mut self.text);
                self.last_op = Some((instruction.op.clone(), start..self.text.len()));
            }
        }
        self.list(&instruction.operands, " ", registers);
    }

    /// Operands with commas between them, the first after `open`.
    fn list(&mut self, operands: &[Operand], open: &str, registers: &[RegisterFamily]) {
        for (i, operand) in operands.iter().enumerate() {
            self.push(if i == 0 { open } else { ", " });
            self.operand(operand, registers);
        }
    }

    fn register(&mut self, reg: Reg, registers: &[RegisterFamily]) {
        // A family that is not there is the verifier's to report; the text shows the hole.
        let Some(family) = registers.get(usize::from(reg.family)) else {
            self.push("%?");
            self.unsigned(reg.family.into());
            return;
        };
        self.push(&family.prefix);
        if family.count.is_some() {
            self.unsigned(reg.index.into());
        }
    }

    fn operand(&mut self, operand: &Operand, registers: &[RegisterFamily]) {
        match operand {
            Operand::Reg(reg) => self.register(*reg, registers),
            Operand::NotReg(reg) => {
                self.push("!");
                self.register(*reg, registers);
            }
            Operand::Int(value) => self.signed(*value),
            Operand::F32(bits) => self.hex("0f", u64::from(*bits) << 32, 8),
            Operand::F64(bits) => self.hex("0d", *bits, 16),
            Operand::Vector(elements) => {
                self.push("{");
                self.list(elements, "", registers);
                self.push("}");
            }
            Operand::Address(address) => self.address(&address.0, address.1, registers),
            Operand::TensorAddress(tensor) => {
                let (base, coordinates) = &**tensor;
                self.push("[");
                self.base(base, registers);
                self.push(", {");
                self.list(coordinates, "", registers);
                self.push("}]");
            }
            Operand::Label(name) | Operand::Symbol(name) => self.push(name),
            Operand::Special(special) => self.push(special.name()),
            Operand::Pair(pair) => {
                let (first, second) = &**pair;
                self.operand(first, registers);
                self.push("|");
                self.operand(second, registers);
            }
            Operand::Sink => self.push("_"),
        }
    }

    fn base(&mut self, base: &Base, registers: &[RegisterFamily]) {
        match base {
            Base::Reg(reg) => self.register(*reg, registers),
            Base::Symbol(name) => self.push(name),
            Base::None => {}
        }
    }

    fn address(&mut self, base: &Base, offset: i64, registers: &[RegisterFamily]) {
        self.push("[");
        self.base(base, registers);
        match (base, offset) {
            (Base::None, offset) => self.signed(offset),
            (_, 0) => {}
            (_, offset) => {
                // A negative offset is written `+-4`, as the other PTX writers do.
                self.push("+");
                self.signed(offset);
            }
        }
        self.push("]");
    }

    /// `digits` hexadecimal digits from the top of `bits`.
    fn hex(&mut self, prefix: &str, bits: u64, digits: u32) {
        self.push(prefix);
        for digit in 0..digits {
            let nibble = (bits >> (60 - 4 * digit)) & 0xF;
            self.text.push(char::from(b"0123456789ABCDEF"[nibble as usize]));
        }
    }
}
