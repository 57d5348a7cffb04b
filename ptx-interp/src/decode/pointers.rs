//! Addresses in the initial values of variables.

use ptx_gemm_ptx::instruction::{Base, Operand};
use ptx_gemm_ptx::module::{Entry, Module};

use super::symbols::{Pointer, Symbol, Symbols};
use crate::address::StateSpace;
use crate::op::Constant;

/// Resolves the addresses in the initial values of the variables that an entry sees, after all of them have been laid
/// out.
pub(crate) fn point(module: &Module, entry: &Entry, symbols: &mut Symbols) {
    for variable in module.variables.iter().chain(&entry.variables) {
        let Some(Symbol { space: of @ (StateSpace::Global | StateSpace::Const), address: number }) =
            symbols.get(&variable.name)
        else {
            continue;
        };
        let width = u64::from(variable.ty.bytes());
        let pointers = (0..).zip(&variable.init).filter_map(|(index, value)| {
            let (name, offset) = match value {
                Operand::Symbol(name) => (name.as_str(), 0),
                Operand::SymbolOffset(symbol) => (symbol.0.as_str(), symbol.1),
                Operand::Address(address) => {
                    let (Base::Symbol(name), offset) = &**address else { return None };
                    let Symbol { address, .. } = symbols.get(name)?;
                    return Some((index * width, Constant::Value(address.wrapping_add_signed(*offset))));
                }
                _ => return None,
            };
            let target = match symbols.get(name)? {
                Symbol { space: StateSpace::Global, address } => Constant::Global(address as u32, offset),
                Symbol { space, address } => {
                    Constant::Value(space.window().wrapping_add(address).wrapping_add_signed(offset))
                }
            };
            Some((index * width, target))
        });
        let pointers: Vec<Pointer> = pointers.collect();
        if of == StateSpace::Const {
            symbols.constant_pointers.extend(pointers.into_iter().map(|(at, target)| (number + at, target)));
        } else if let Some(global) = symbols.globals.get_mut(number as usize) {
            global.pointers = pointers;
        }
    }
}
