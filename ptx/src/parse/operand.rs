//! Operands and the numbers in them.

use thin_vec::ThinVec;

use super::scope::Names;
use super::{Parser, Result, shortened};
use crate::instruction::{Base, Opcode, Operand, Reg, Special};
use crate::lexer::TokenKind;

/// Most operands of an instruction, and most elements of a vector: wgmma has 128 accumulators.
const MAX_OPERANDS: usize = 512;

impl<'a> Parser<'a> {
    /// Operands up to the semicolon, which is consumed.
    pub(super) fn operands(&mut self, op: &Opcode, mnemonic: &str, names: &Names<'a>) -> Result<Vec<Operand>> {
        let mut operands = Vec::new();
        if self.eat(b';')? {
            return Ok(operands);
        }
        // A decimal float literal is a double; the instruction's type says what it becomes.
        let single = mnemonic.ends_with(".f32") || mnemonic.starts_with("createpolicy");
        loop {
            if operands.len() == MAX_OPERANDS {
                return Err(self.error(&format!("more than {MAX_OPERANDS} operands")));
            }
            let operand = self.operand(op, names)?;
            operands.push(if single { narrowed(operand) } else { operand });
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b';')?;
        Ok(operands)
    }

    pub(super) fn operand(&mut self, op: &Opcode, names: &Names<'a>) -> Result<Operand> {
        match self.token.kind {
            TokenKind::Punct(b'{') => {
                self.next()?;
                let mut elements = self.elements(op, names)?;
                // Braces around a single register are what Triton prints.
                Ok(match elements.len() {
                    1 if is_access(op) || matches!(op, Opcode::Mov(_)) => elements.remove(0),
                    _ => Operand::Vector(elements),
                })
            }
            TokenKind::Punct(b'[') => self.address(op, names),
            _ => {
                let first = self.scalar(op, names)?;
                if self.eat(b'|')? {
                    let second = self.scalar(op, names)?;
                    return Ok(Operand::Pair(Box::new((first, second))));
                }
                Ok(first)
            }
        }
    }

    /// Elements of a vector up to its closing brace; the opening brace has been consumed. Vectors do not nest.
    pub(super) fn elements(&mut self, op: &Opcode, names: &Names<'a>) -> Result<ThinVec<Operand>> {
        let mut elements = ThinVec::new();
        if self.eat(b'}')? {
            return Ok(elements);
        }
        loop {
            if elements.len() == MAX_OPERANDS {
                return Err(self.error(&format!("more than {MAX_OPERANDS} elements in a vector")));
            }
            elements.push(self.scalar(op, names)?);
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b'}')?;
        Ok(elements)
    }

    /// A register, a number, or a name.
    fn scalar(&mut self, op: &Opcode, names: &Names<'a>) -> Result<Operand> {
        if self.token.kind == TokenKind::Punct(b'!') && is_name_start(self.lexer.upcoming()) {
            self.next()?;
            return Ok(Operand::NotReg(self.register(names)?));
        }
        match self.token.kind {
            _ if self.at_expression() => self.expression(),
            TokenKind::Word => self.name(op, names),
            _ => Err(self.unexpected("an operand")),
        }
    }

    fn name(&mut self, op: &Opcode, names: &Names<'a>) -> Result<Operand> {
        let name = self.token.text;
        let operand = if let Some(reg) = names.find_register(name) {
            Operand::Reg(reg)
        } else if let Some(vector) = names.find_vector(name) {
            Operand::Vector(vector.map(Operand::Reg).collect())
        } else if name == "_" {
            Operand::Sink
        } else if name.starts_with('%') {
            Operand::Special(Special::from_name(name).ok_or_else(|| self.undeclared("register"))?)
        } else if matches!(op, Opcode::Bra { .. } | Opcode::BraIndexed { .. }) {
            Operand::Label(Box::new(name.to_owned()))
        } else if let Some(symbol) = self.symbol(names) {
            let element = self.element_of(names);
            self.next()?;
            if self.token.kind == TokenKind::Punct(b'[') && is_access(op) {
                let offset = self.index(element)?;
                return Ok(Operand::Address(Box::new((Base::Symbol(Box::new(symbol)), offset))));
            }
            return Ok(match self.index(element)? {
                0 => Operand::Symbol(Box::new(symbol)),
                offset => Operand::SymbolOffset(Box::new((symbol, offset))),
            });
        } else if let Some(address) = self.functions.addresses.get(name) {
            Operand::Int(*address)
        } else if matches!(op, Opcode::Unknown(_)) {
            // An undeclared name in an unknown instruction is most likely a label.
            Operand::Label(Box::new(name.to_owned()))
        } else {
            return Err(self.undeclared("name"));
        };
        self.next()?;
        Ok(operand)
    }

    /// The module's name for the variable that the current token names.
    fn symbol(&self, names: &Names<'a>) -> Option<String> {
        let name = self.token.text;
        names.find_symbol(name).or_else(|| self.symbols.get_key_value(name).map(|(name, _)| *name)).map(str::to_owned)
    }

    fn undeclared(&self, what: &str) -> super::ParseError {
        self.error(&format!("the {what} `{}` is not declared", shortened(self.token.text)))
    }

    pub(super) fn register(&mut self, names: &Names<'a>) -> Result<Reg> {
        if self.token.kind != TokenKind::Word {
            return Err(self.unexpected("a register"));
        }
        let reg = names.find_register(self.token.text).ok_or_else(|| self.undeclared("register"))?;
        self.next()?;
        Ok(reg)
    }

    /// `[base]`, `[base+offset]`, `[number]`, or `[map, {coordinates}]`.
    fn address(&mut self, op: &Opcode, names: &Names<'a>) -> Result<Operand> {
        self.expect_punct(b'[')?;
        let (base, mut offset) = match self.token.kind {
            _ if self.at_expression() => (Base::None, self.integer_expression("an address")?),
            _ => (self.base(names)?, 0),
        };
        // `-4` without a plus is accepted in addresses only.
        if self.token.kind == TokenKind::Punct(b'-') {
            offset = self.integer_expression("an offset")?;
        }
        offset = offset.wrapping_add(self.offsets()?);
        let operand = if self.eat(b',')? {
            if offset != 0 {
                return Err(self.error("a tensor map has no offset"));
            }
            self.expect_punct(b'{')?;
            Operand::TensorAddress(Box::new((base, self.elements(op, names)?)))
        } else {
            Operand::Address(Box::new((base, offset)))
        };
        self.expect_punct(b']')?;
        Ok(operand)
    }

    fn base(&mut self, names: &Names<'a>) -> Result<Base> {
        let base = match names.find_register(self.token.text) {
            Some(reg) => Base::Reg(reg),
            None => Base::Symbol(Box::new(self.symbol(names).ok_or_else(|| self.undeclared("name"))?)),
        };
        self.next()?;
        Ok(base)
    }

    /// An expression after a plus, or nothing, which is 0.
    pub(super) fn offsets(&mut self) -> Result<i64> {
        if self.eat(b'+')? { self.integer_expression("an offset") } else { Ok(0) }
    }

    /// `[2]` after the name of a variable with elements of this size, or an offset.
    fn index(&mut self, element: u32) -> Result<i64> {
        if !self.eat(b'[')? {
            return self.offsets();
        }
        let index = self.integer_expression("an index")?;
        self.expect_punct(b']')?;
        Ok(index.wrapping_mul(element.into()))
    }

    /// Bytes of an element of the variable that the current token names.
    fn element_of(&self, names: &Names<'a>) -> u32 {
        let name = self.token.text;
        names.find_element(name).or_else(|| Some(self.symbols.get(name)?.1)).unwrap_or(1)
    }
}

/// Whether an opcode takes `name[2]` for `[name+8]`.
fn is_access(op: &Opcode) -> bool {
    match op {
        Opcode::Ld { .. } | Opcode::St { .. } | Opcode::Atom { .. } | Opcode::Red { .. } => true,
        Opcode::Hinted { op, .. } => is_access(op),
        _ => false,
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

/// An integer or float as PTX writes it.
pub(super) fn literal(text: &str) -> Option<Operand> {
    let hexadecimal = |digits: &str, length: usize| {
        (digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| u64::from_str_radix(digits, 16).ok())
            .flatten()
    };
    match text.get(..2) {
        Some("0f" | "0F") => hexadecimal(&text[2..], 8).map(|bits| Operand::F32(bits as u32)),
        Some("0d" | "0D") => hexadecimal(&text[2..], 16).map(Operand::F64),
        Some("0x" | "0X") => integer(text).map(|value| Operand::Int(value as i64)),
        _ if text.contains(['.', 'e', 'E']) => text.parse().ok().map(|value: f64| Operand::F64(value.to_bits())),
        _ => integer(text).map(|value| Operand::Int(value as i64)),
    }
}

/// An unsigned integer: decimal, `0x`, `0b` or octal, with or without `U`.
pub(super) fn integer(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('U').unwrap_or(text);
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // `from_str_radix` would accept a sign.
    if digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) { u64::from_str_radix(digits, radix).ok() } else { None }
}

/// Converts doubles to single-precision constants where the instruction takes those.
pub(super) fn narrowed(operand: Operand) -> Operand {
    match operand {
        Operand::F64(bits) => Operand::F32((f64::from_bits(bits) as f32).to_bits()),
        Operand::Vector(elements) => Operand::Vector(elements.into_iter().map(narrowed).collect()),
        other => other,
    }
}
