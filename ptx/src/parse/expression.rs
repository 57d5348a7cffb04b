//! Constant expressions: the operators of C on 64-bit integers and on doubles (PTX ISA, "Constant Expressions").
//!
//! A number is unsigned if it has a `U` or does not fit a signed integer. An operation on a signed and an unsigned number
//! is unsigned, and so are `~`, `%`, `&`, `|` and `^` on any integers, as the ISA's table has it.

use super::{MAX_NESTING, Parser, Result};
use crate::instruction::Operand;
use crate::lexer::{Token, TokenKind};

/// A value with its type.
#[derive(Clone, Copy, Debug)]
enum Value {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    /// A single-precision number by its bits, which no operator but a sign takes.
    Single(u32),
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Binary {
    /// Operators of a higher level bind tighter.
    fn level(self) -> u8 {
        use Binary::*;
        match self {
            Or => 1,
            And => 2,
            BitOr => 3,
            BitXor => 4,
            BitAnd => 5,
            Equal | Unequal => 6,
            Less | LessEqual | Greater | GreaterEqual => 7,
            ShiftLeft | ShiftRight => 8,
            Add | Subtract => 9,
            Multiply | Divide | Remainder => 10,
        }
    }

    /// Number of characters.
    fn length(self) -> usize {
        use Binary::*;
        match self {
            Or | And | Equal | Unequal | LessEqual | GreaterEqual | ShiftLeft | ShiftRight => 2,
            BitOr | BitXor | BitAnd | Less | Greater | Add | Subtract | Multiply | Divide | Remainder => 1,
        }
    }
}

const NOT_INTEGER: &str = "the operator takes integers";

impl<'a> Parser<'a> {
    /// Whether the current token starts an expression, apart from a name.
    pub(super) fn at_expression(&self) -> bool {
        matches!(self.token.kind, TokenKind::Number | TokenKind::Punct(b'-' | b'+' | b'~' | b'(' | b'!'))
            || self.token.text == "WARP_SZ"
    }

    /// A constant expression, as a number.
    pub(super) fn expression(&mut self) -> Result<Operand> {
        Ok(match self.conditional(0)? {
            Value::Signed(value) => Operand::Int(value),
            Value::Unsigned(value) => Operand::Int(value as i64),
            Value::Double(value) => Operand::F64(value.to_bits()),
            Value::Single(bits) => Operand::F32(bits),
        })
    }

    /// An integer expression.
    pub(super) fn integer_expression(&mut self, wanted: &str) -> Result<i64> {
        let position = self.token.position;
        match self.expression()? {
            Operand::Int(value) => Ok(value),
            _ => Err(self.error_at(position, format!("expected {wanted}, found a number with a fraction"))),
        }
    }

    fn conditional(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_NESTING {
            return Err(self.error(&format!("expressions nest deeper than {MAX_NESTING}")));
        }
        let condition = self.binary(depth, 1)?;
        if !self.eat(b'?')? {
            return Ok(condition);
        }
        let chosen = self.truth(condition)?;
        let first = self.conditional(depth + 1)?;
        self.expect_punct(b':')?;
        let second = self.conditional(depth + 1)?;
        if !matches!((first, second), (Value::Double(_), Value::Double(_))) {
            self.bits(first)?;
            self.bits(second)?;
        }
        // As in ptxas, the value keeps its own type.
        Ok(if chosen { first } else { second })
    }

    /// Operands with operators of this level and of higher ones between them.
    fn binary(&mut self, depth: usize, level: u8) -> Result<Value> {
        let mut left = self.unary(depth)?;
        while let Some(operator) = self.operator().filter(|operator| operator.level() >= level) {
            for _ in 0..operator.length() {
                self.next()?;
            }
            if depth > MAX_NESTING {
                return Err(self.error(&format!("expressions nest deeper than {MAX_NESTING}")));
            }
            // All operators associate to the left.
            let right = self.binary(depth + 1, operator.level() + 1)?;
            left = self.apply(operator, left, right)?;
        }
        Ok(left)
    }

    /// The operator that the current token is or starts.
    fn operator(&self) -> Option<Binary> {
        let punct = match (self.token.kind, self.token.text) {
            (TokenKind::Punct(punct), _) => punct,
            (TokenKind::Word, "%") => b'%',
            _ => return None,
        };
        Some(match (punct, self.lexer.upcoming()) {
            (b'|', b'|') => Binary::Or,
            (b'&', b'&') => Binary::And,
            (b'=', b'=') => Binary::Equal,
            (b'!', b'=') => Binary::Unequal,
            (b'<', b'<') => Binary::ShiftLeft,
            (b'<', b'=') => Binary::LessEqual,
            (b'>', b'>') => Binary::ShiftRight,
            (b'>', b'=') => Binary::GreaterEqual,
            (b'|', _) => Binary::BitOr,
            (b'^', _) => Binary::BitXor,
            (b'&', _) => Binary::BitAnd,
            (b'<', _) => Binary::Less,
            (b'>', _) => Binary::Greater,
            (b'+', _) => Binary::Add,
            (b'-', _) => Binary::Subtract,
            (b'*', _) => Binary::Multiply,
            (b'/', _) => Binary::Divide,
            (b'%', _) => Binary::Remainder,
            _ => return None,
        })
    }

    fn unary(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_NESTING {
            return Err(self.error(&format!("expressions nest deeper than {MAX_NESTING}")));
        }
        match self.token.kind {
            TokenKind::Punct(b'-') => {
                self.next()?;
                Ok(match self.unary(depth + 1)? {
                    Value::Signed(value) => Value::Signed(value.wrapping_neg()),
                    Value::Unsigned(value) => Value::Unsigned(value.wrapping_neg()),
                    Value::Double(value) => Value::Double(-value),
                    Value::Single(bits) => Value::Single(bits ^ 1 << 31),
                })
            }
            TokenKind::Punct(b'+') => {
                self.next()?;
                self.unary(depth + 1)
            }
            TokenKind::Punct(b'~') => {
                self.next()?;
                let value = self.unary(depth + 1)?;
                Ok(Value::Unsigned(!self.bits(value)?))
            }
            TokenKind::Punct(b'!') => {
                self.next()?;
                let value = self.unary(depth + 1)?;
                Ok(Value::Signed((!self.truth(value)?).into()))
            }
            TokenKind::Punct(b'(') => self.parenthesis(depth),
            TokenKind::Word if self.token.text == "WARP_SZ" => {
                self.next()?;
                Ok(Value::Signed(32))
            }
            TokenKind::Number => {
                let value = self.literal_value(self.token).ok_or_else(|| self.unexpected("a number"))?;
                self.next()?;
                Ok(value)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// A value in parentheses, or one with a cast before it.
    fn parenthesis(&mut self, depth: usize) -> Result<Value> {
        self.expect_punct(b'(')?;
        let cast = match (self.token.kind, self.token.text) {
            (TokenKind::Directive, ".s64" | ".u64") => Some(self.next()?.text),
            (TokenKind::Directive, _) => return Err(self.unexpected("`.s64` or `.u64`")),
            _ => None,
        };
        let Some(cast) = cast else {
            let value = self.conditional(depth + 1)?;
            self.expect_punct(b')')?;
            return Ok(value);
        };
        self.expect_punct(b')')?;
        let value = self.unary(depth + 1)?;
        let bits = self.bits(value)?;
        Ok(if cast == ".s64" { Value::Signed(bits as i64) } else { Value::Unsigned(bits) })
    }

    fn literal_value(&self, token: Token<'a>) -> Option<Value> {
        Some(match super::operand::literal(token.text)? {
            Operand::Int(value) if value < 0 || token.text.ends_with('U') => Value::Unsigned(value as u64),
            Operand::Int(value) => Value::Signed(value),
            Operand::F32(bits) => Value::Single(bits),
            Operand::F64(bits) => Value::Double(f64::from_bits(bits)),
            _ => return None,
        })
    }

    fn bits(&self, value: Value) -> Result<u64> {
        match value {
            Value::Signed(value) => Ok(value as u64),
            Value::Unsigned(value) => Ok(value),
            Value::Double(_) | Value::Single(_) => Err(self.error(NOT_INTEGER)),
        }
    }

    fn truth(&self, value: Value) -> Result<bool> {
        Ok(self.bits(value)? != 0)
    }

    fn apply(&self, operator: Binary, left: Value, right: Value) -> Result<Value> {
        match (left, right) {
            (Value::Double(a), Value::Double(b)) => doubles(operator, a, b).ok_or_else(|| self.error(NOT_INTEGER)),
            (Value::Double(_) | Value::Single(_), _) | (_, Value::Double(_) | Value::Single(_)) => {
                Err(self.error("the operator takes two integers, or two numbers like 1.5"))
            }
            (Value::Signed(a), Value::Signed(b)) => self.integers(operator, (a as u64, b as u64), true),
            (Value::Signed(a), Value::Unsigned(b)) if is_shift(operator) => {
                self.integers(operator, (a as u64, b), true)
            }
            _ => self.integers(operator, (self.bits(left)?, self.bits(right)?), false),
        }
    }

    fn integers(&self, operator: Binary, (a, b): (u64, u64), signed: bool) -> Result<Value> {
        let by_zero = || self.error("the expression divides by zero");
        let arithmetic = |bits: u64| if signed { Value::Signed(bits as i64) } else { Value::Unsigned(bits) };
        let truth = |holds: bool| Value::Signed(holds.into());
        let order = if signed { (a as i64).cmp(&(b as i64)) } else { a.cmp(&b) };
        Ok(match operator {
            Binary::Or => truth(a != 0 || b != 0),
            Binary::And => truth(a != 0 && b != 0),
            Binary::BitOr => Value::Unsigned(a | b),
            Binary::BitXor => Value::Unsigned(a ^ b),
            Binary::BitAnd => Value::Unsigned(a & b),
            Binary::Equal => truth(order.is_eq()),
            Binary::Unequal => truth(order.is_ne()),
            Binary::Less => truth(order.is_lt()),
            Binary::LessEqual => truth(order.is_le()),
            Binary::Greater => truth(order.is_gt()),
            Binary::GreaterEqual => truth(order.is_ge()),
            // As ptxas does, an amount counts modulo 64.
            Binary::ShiftLeft => arithmetic(a << (b & 63)),
            Binary::ShiftRight if signed => Value::Signed(a as i64 >> (b & 63)),
            Binary::ShiftRight => Value::Unsigned(a >> (b & 63)),
            Binary::Add => arithmetic(a.wrapping_add(b)),
            Binary::Subtract => arithmetic(a.wrapping_sub(b)),
            Binary::Multiply => arithmetic(a.wrapping_mul(b)),
            Binary::Divide if signed && b != 0 => Value::Signed((a as i64).wrapping_div(b as i64)),
            Binary::Divide => Value::Unsigned(a.checked_div(b).ok_or_else(by_zero)?),
            Binary::Remainder => Value::Unsigned(a.checked_rem(b).ok_or_else(by_zero)?),
        })
    }
}

fn is_shift(operator: Binary) -> bool {
    matches!(operator, Binary::ShiftLeft | Binary::ShiftRight)
}

/// An operation on doubles, if it exists.
fn doubles(operator: Binary, a: f64, b: f64) -> Option<Value> {
    let truth = |holds: bool| Some(Value::Signed(holds.into()));
    match operator {
        Binary::Add => Some(Value::Double(a + b)),
        Binary::Subtract => Some(Value::Double(a - b)),
        Binary::Multiply => Some(Value::Double(a * b)),
        Binary::Divide => Some(Value::Double(a / b)),
        Binary::Equal => truth(a == b),
        Binary::Unequal => truth(a != b),
        Binary::Less => truth(a < b),
        Binary::LessEqual => truth(a <= b),
        Binary::Greater => truth(a > b),
        Binary::GreaterEqual => truth(a >= b),
        Binary::Or
        | Binary::And
        | Binary::BitOr
        | Binary::BitXor
        | Binary::BitAnd
        | Binary::ShiftLeft
        | Binary::ShiftRight
        | Binary::Remainder => None,
    }
}
