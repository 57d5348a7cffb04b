//! Initial values of variables: numbers, and addresses of functions and of other variables.

use super::operand::narrowed;
use super::{Parser, Result, shortened};
use crate::instruction::{Base, Operand};
use crate::lexer::TokenKind;
use crate::types::{Space, Type};

impl<'a> Parser<'a> {
    /// Several values in braces, or a single one, of a variable in this space and of this type.
    pub(super) fn initialiser(&mut self, space: Space, ty: Type, extents: &[u64]) -> Result<Vec<Operand>> {
        let mut values = Vec::new();
        if self.token.kind == TokenKind::Punct(b'{') {
            self.initial_list(space, ty, extents, &mut values)?;
        } else {
            self.count_statement()?;
            values.push(self.initial_value(space, ty)?);
        }
        Ok(values)
    }

    /// Values in braces, each of which may be such a list if the variable has several extents. A list that is too short
    /// is filled up with zeros as soon as another one follows.
    fn initial_list(&mut self, space: Space, ty: Type, extents: &[u64], values: &mut Vec<Operand>) -> Result<()> {
        self.expect_punct(b'{')?;
        let inner = extents.get(1..).unwrap_or_default();
        let each = inner.iter().product::<u64>();
        let first = values.len() as u64;
        let mut lists = 0;
        while self.token.kind != TokenKind::Punct(b'}') {
            if self.token.kind == TokenKind::Punct(b'{') {
                if inner.is_empty() {
                    return Err(self.unexpected("a value"));
                }
                while (values.len() as u64) < first.saturating_add(each.saturating_mul(lists)) {
                    self.count_statement()?;
                    values.push(Operand::Int(0));
                }
                self.initial_list(space, ty, inner, values)?;
                lists += 1;
                if values.len() as u64 > first.saturating_add(each.saturating_mul(lists)) {
                    return Err(self.error(&format!("more than {each} values for a part of the variable")));
                }
            } else {
                self.count_statement()?;
                values.push(self.initial_value(space, ty)?);
            }
            if !self.eat(b',')? {
                break;
            }
        }
        self.expect_punct(b'}')
    }

    fn initial_value(&mut self, space: Space, ty: Type) -> Result<Operand> {
        if self.token.kind == TokenKind::Word && !self.at_expression() {
            if !matches!(ty, Type::U64 | Type::S64) {
                return Err(self.error("an address needs a variable of type .u64 or .s64"));
            }
            return self.initial_address(space);
        }
        let number = self.expression()?;
        let number = if ty == Type::F32 { narrowed(number) } else { number };
        match number {
            Operand::Int(mask) if self.eat(b'(')? => self.masked(mask as u64),
            number => Ok(number),
        }
    }

    /// `name` of a function, which is a number, or `name` or `generic(name)` of a variable, with an offset.
    fn initial_address(&mut self, space: Space) -> Result<Operand> {
        let mut name = self.next()?;
        let generic = name.text == "generic" && self.eat(b'(')?;
        if generic {
            name = self.expect(TokenKind::Word, "a variable's name")?;
            self.expect_punct(b')')?;
        }
        let found = self.symbols.get(name.text).map(|(space, _)| *space);
        if let (None, false, Some(address)) = (found, generic, self.functions.addresses.get(name.text)) {
            return Ok(Operand::Int(*address));
        }
        let reason = match found {
            None => format!("the name `{}` is not declared", shortened(name.text)),
            Some(_) if !matches!(space, Space::Global | Space::Const) => {
                "addresses of variables are only supported in .global and .const memory".to_owned()
            }
            // In global memory, an address is the same with `generic` and without. In constant memory it is not.
            Some(Space::Global) => String::new(),
            Some(Space::Const) => String::new(),
            Some(space) => format!("an address in .{} memory is not supported here", space.name()),
        };
        if !reason.is_empty() {
            return Err(self.error_at(name.position, reason));
        }
        let (name, of_space) = (name.text.to_owned(), found == Some(Space::Const) && !generic);
        Ok(match self.offsets()? {
            // An address within constant memory.
            offset if of_space => Operand::Address(Box::new((Base::Symbol(Box::new(name)), offset))),
            0 => Operand::Symbol(Box::new(name)),
            offset => Operand::SymbolOffset(Box::new((name, offset))),
        })
    }

    /// `0xFF00(name)`, up to the closing parenthesis: a byte of a function's address.
    fn masked(&mut self, mask: u64) -> Result<Operand> {
        let name = self.expect(TokenKind::Word, "a function's name")?;
        let Some(address) = self.functions.addresses.get(name.text).copied() else {
            let message =
                format!("`{}` is not a function, and a part of another address is not supported", shortened(name.text));
            return Err(self.error_at(name.position, message));
        };
        self.expect_punct(b')')?;
        let lowest = mask.trailing_zeros().min(63);
        Ok(Operand::Int(((address as u64 & mask) >> lowest) as i64))
    }
}
