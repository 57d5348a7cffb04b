//! Writes a module as PTX text. No other code in the project does.
//!
//! The text is laid out for people: registers by family with what they hold, one parameter per line, labels flush left,
//! and after each instruction, in a column of its own, the clause that it came from. [`crate::parse::parse`] reads all
//! of it back.

use std::ops::Range;

use crate::instruction::{Base, Instruction, Note, Opcode, Operand, Reg};
use crate::mnemonic;
use crate::module::{Directive, Entry, Module, Param, RegisterFamily, Statement, Variable};
use crate::text::{Piece, Text};

/// Column of the notes after instructions.
const NOTE_COLUMN: usize = 64;
/// Column of the comments after parameters, registers and variables.
const COMMENT_COLUMN: usize = 40;
const INDENT: &str = "    ";

/// The PTX text of a module. The output is deterministic: equal modules give equal texts.
///
/// Text inside comments and notes is made to fit one line. Nothing else is checked here, see [`crate::verify::verify`].
pub fn print(module: &Module) -> String {
    let statements: usize = module.entries.iter().map(|entry| entry.body.len()).sum();
    // About 110 bytes per line, so that printing a large kernel does not reallocate.
    let mut printer = Printer { text: Text::with_capacity(4096 + 110 * statements), ..Printer::default() };
    printer.module(module);
    printer.text.finish()
}

/// The text of one instruction of an entry, without note and semicolon, for messages.
pub fn instruction(instruction: &Instruction, entry: &Entry) -> String {
    let mut printer = Printer::default();
    printer.bare_instruction(instruction, &Names::of(&entry.registers));
    printer.text.finish()
}

/// The text of one operand of an entry's instructions, for messages.
pub fn operand(operand: &Operand, entry: &Entry) -> String {
    let mut printer = Printer::default();
    printer.operand(operand, &Names::of(&entry.registers));
    printer.text.finish()
}

/// The prefix of each register family, and whether a number follows it.
struct Names<'a>(Vec<(Piece<'a>, bool)>);

impl<'a> Names<'a> {
    fn of(registers: &'a [RegisterFamily]) -> Self {
        Names(registers.iter().map(|family| (Piece::new(&family.prefix), family.count.is_some())).collect())
    }
}

#[derive(Default)]
struct Printer<'a> {
    text: Text,
    /// Start of the current line.
    line: usize,
    /// The last opcode and the last note, and where their texts are: long runs share one.
    last_op: Option<(&'a Opcode, Range<usize>)>,
    last_note: Option<(&'a Note, Range<usize>)>,
}

impl<'a> Printer<'a> {
    fn push(&mut self, text: &str) {
        self.text.push(text);
    }

    fn newline(&mut self) {
        self.push("\n");
        self.line = self.text.len();
    }

    /// Pads with spaces up to a column, with at least two.
    fn column(&mut self, column: usize) {
        let used = self.text.len() - self.line;
        self.text.blanks(column.saturating_sub(used).max(2));
    }

    /// A piece of a comment. Line ends would end the comment and become spaces.
    fn comment_text(&mut self, text: &str) {
        if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some() {
            self.push(&text.replace(['\n', '\r'], " "));
        } else {
            self.push(text);
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

    fn trailing_note(&mut self, note: Option<&'a Note>) {
        if let Some(note) = note {
            self.column(NOTE_COLUMN);
            if let Some((last, text)) = &self.last_note
                && last.is_same(note)
            {
                self.text.again(text.clone());
                return self.newline();
            }
            let start = self.text.len();
            self.push("//@ ");
            self.comment_text(&note.clause);
            if !note.what.is_empty() {
                self.push(": ");
                self.comment_text(&note.what);
            }
            self.last_note = Some((note, start..self.text.len()));
        }
        self.newline();
    }

    fn module(&mut self, module: &'a Module) {
        for line in &module.header {
            self.comment(line);
            self.newline();
        }
        if !module.header.is_empty() {
            self.newline();
        }
        self.push(".version ");
        self.text.unsigned(module.version.0.into());
        self.push(".");
        self.text.unsigned(module.version.1.into());
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

    fn variable(&mut self, variable: &'a Variable) {
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
                self.initial_value(one);
            }
            several => {
                self.push(" = {");
                for (index, value) in several.iter().enumerate() {
                    self.push(if index == 0 { "" } else { ", " });
                    self.initial_value(value);
                }
                self.push("}");
            }
        }
        self.push(";");
        self.trailing_note(variable.note.as_ref());
    }

    /// A number, or the address of a variable: a generic one, or one of its space.
    fn initial_value(&mut self, value: &Operand) {
        let (name, offset, generic) = match value {
            Operand::Symbol(name) => (name.as_str(), 0, true),
            Operand::SymbolOffset(symbol) => (symbol.0.as_str(), symbol.1, true),
            Operand::Address(address) => match &**address {
                (Base::Symbol(name), offset) => (name.as_str(), *offset, false),
                _ => return,
            },
            number => return self.operand(number, &Names(Vec::new())),
        };
        self.push(if generic { "generic(" } else { "" });
        self.push(name);
        self.push(if generic { ")" } else { "" });
        if offset != 0 {
            self.push("+");
            self.text.signed(offset);
        }
    }

    fn align(&mut self, align: Option<u32>) {
        if let Some(align) = align {
            self.push(" .align ");
            self.text.unsigned(align.into());
        }
    }

    fn extent(&mut self, count: Option<u64>) {
        match count {
            None => {}
            Some(0) => self.push("[]"),
            Some(count) => {
                self.push("[");
                self.text.unsigned(count);
                self.push("]");
            }
        }
    }

    fn entry(&mut self, entry: &'a Entry) {
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
        let names = Names::of(&entry.registers);
        for statement in &entry.body {
            self.statement(statement, &names);
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
            Directive::MaxClusterRank(most) => self.extents(".maxclusterrank ", &[*most]),
            Directive::ExplicitCluster => self.push(".explicitcluster"),
            Directive::Other(text) => self.push(text),
        }
        self.newline();
    }

    fn extents(&mut self, word: &str, extents: &[u32]) {
        self.push(word);
        for (i, extent) in extents.iter().enumerate() {
            self.push(if i == 0 { "" } else { ", " });
            self.text.unsigned((*extent).into());
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
            self.text.unsigned(count.into());
            self.push(">");
        }
        self.push(";");
        self.trailing_comment(family.comment.as_deref());
    }

    fn statement(&mut self, statement: &'a Statement, names: &Names<'_>) {
        match statement {
            Statement::Instruction(instruction) => self.instruction(instruction, names),
            Statement::Label(name) => {
                self.push(name);
                self.push(":");
                self.newline();
            }
            Statement::Targets { name, labels } => {
                self.push(name);
                self.push(": .branchtargets");
                for (i, label) in labels.iter().enumerate() {
                    self.push(if i == 0 { " " } else { ", " });
                    self.push(label);
                }
                self.push(";");
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

    fn instruction(&mut self, instruction: &'a Instruction, names: &Names<'_>) {
        self.push(INDENT);
        self.bare_instruction(instruction, names);
        self.push(";");
        self.trailing_note(instruction.note.as_ref());
    }

    fn bare_instruction(&mut self, instruction: &'a Instruction, names: &Names<'_>) {
        if let Some(guard) = &instruction.guard {
            self.push(if guard.negated { "@!" } else { "@" });
            self.register(guard.pred, names);
            self.push(" ");
        }
        match &self.last_op {
            Some((last, text)) if **last == instruction.op => self.text.again(text.clone()),
            _ => {
                let start = self.text.len();
                mnemonic::write(&instruction.op, &mut self.text);
                self.last_op = Some((&instruction.op, start..self.text.len()));
            }
        }
        self.list(&instruction.operands, " ", names);
    }

    /// Operands with commas between them, the first after `open`.
    fn list(&mut self, operands: &[Operand], open: &str, names: &Names<'_>) {
        for (i, operand) in operands.iter().enumerate() {
            self.push(if i == 0 { open } else { ", " });
            self.operand(operand, names);
        }
    }

    #[inline]
    fn register(&mut self, reg: Reg, names: &Names<'_>) {
        // The verifier reports a missing family; the text shows the gap.
        let Some((prefix, numbered)) = names.0.get(usize::from(reg.family)) else {
            self.push("%?");
            self.text.unsigned(reg.family.into());
            return;
        };
        self.text.piece(prefix);
        if *numbered {
            self.text.unsigned(reg.index.into());
        }
    }

    #[inline]
    fn operand(&mut self, operand: &Operand, names: &Names<'_>) {
        // Nearly all operands are registers.
        if let Operand::Reg(reg) = operand { self.register(*reg, names) } else { self.other_operand(operand, names) }
    }

    #[inline(never)]
    fn other_operand(&mut self, operand: &Operand, names: &Names<'_>) {
        match operand {
            Operand::Reg(reg) => self.register(*reg, names),
            Operand::NotReg(reg) => {
                self.push("!");
                self.register(*reg, names);
            }
            Operand::Int(value) => self.text.signed(*value),
            Operand::F32(bits) => self.hex("0f", u64::from(*bits) << 32, 8),
            Operand::F64(bits) => self.hex("0d", *bits, 16),
            Operand::Vector(elements) => {
                self.push("{");
                self.list(elements, "", names);
                self.push("}");
            }
            Operand::Address(address) => self.address(&address.0, address.1, names),
            Operand::TensorAddress(tensor) => {
                let (base, coordinates) = &**tensor;
                self.push("[");
                self.base(base, names);
                self.push(", {");
                self.list(coordinates, "", names);
                self.push("}]");
            }
            Operand::Label(name) | Operand::Symbol(name) => self.push(name),
            Operand::SymbolOffset(symbol) => {
                self.push(&symbol.0);
                self.offset(symbol.1);
            }
            Operand::Special(special) => self.push(special.name()),
            Operand::Pair(pair) => {
                let (first, second) = &**pair;
                self.operand(first, names);
                self.push("|");
                self.operand(second, names);
            }
            Operand::Sink => self.push("_"),
        }
    }

    fn base(&mut self, base: &Base, names: &Names<'_>) {
        match base {
            Base::Reg(reg) => self.register(*reg, names),
            Base::Symbol(name) => self.push(name),
            Base::None => {}
        }
    }

    fn address(&mut self, base: &Base, offset: i64, names: &Names<'_>) {
        self.push("[");
        self.base(base, names);
        match (base, offset) {
            (Base::None, offset) => self.text.signed(offset),
            (_, 0) => {}
            (_, offset) => self.offset(offset),
        }
        self.push("]");
    }

    /// A negative offset is written `+-4`, as in the PTX of other compilers.
    fn offset(&mut self, offset: i64) {
        self.push("+");
        self.text.signed(offset);
    }

    /// `digits` hexadecimal digits from the top of `bits`.
    fn hex(&mut self, prefix: &str, bits: u64, digits: u32) {
        self.push(prefix);
        for digit in 0..digits {
            let nibble = (bits >> (60 - 4 * digit)) & 0xF;
            self.push(&"0123456789ABCDEF"[nibble as usize..][..1]);
        }
    }
}
