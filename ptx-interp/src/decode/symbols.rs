//! The layout of variables and parameters in their spaces.

use std::collections::HashMap;

use ptx_gemm_ptx::module::{Entry, Module, Variable};
use ptx_gemm_ptx::types::Space;

use crate::address::{SHARED_START, StateSpace};
use crate::op::Constant;
use crate::shared::Gap;

/// Where a variable in global memory contains an address, in bytes from its start, and which address.
pub(crate) type Pointer = (u64, Constant);

/// A named address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) space: StateSpace,
    /// Address within the space; for a variable in global memory, its index.
    pub(crate) address: u64,
}

/// Bytes that are inserted between two variables in shared memory, in addition to the distance that they have on a GPU.
/// An access to these bytes is past the end of a variable, or before the beginning of one. The gap is a multiple of all
/// swizzle patterns, so that it changes neither the bank nor the swizzle of an address.
const GAP: u64 = 1024;
/// Total size of the gaps after which no more are inserted.
const MAX_GAPS: u64 = 256 << 10;

/// Largest supported variable in global memory.
const MAX_GLOBAL: u64 = 64 << 20;
/// Size of a module's constant memory.
pub(crate) const MAX_CONST: u64 = 64 << 10;

/// One kernel parameter.
#[derive(Clone, Debug)]
pub(crate) struct ParamSlot {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Every named address of an entry, and the sizes of its spaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    names: HashMap<String, Symbol>,
    pub(crate) params: Vec<ParamSlot>,
    pub(crate) param_bytes: u64,
    /// Static shared memory.
    pub(crate) shared_bytes: u64,
    /// How far the gaps between the variables move everything that follows in shared memory.
    pub(crate) shared_shift: u64,
    pub(crate) shared_gaps: Vec<Gap>,
    /// The variable that was laid out last in shared memory.
    last_shared: Option<String>,
    /// Whether the entry sees `.extern .shared` memory, which starts after the static part.
    pub(crate) dynamic_shared: bool,
    pub(crate) local_bytes: u64,
    pub(crate) const_bytes: u64,
    /// Initial contents of constant memory, in words, up to the last one that is not zero.
    pub(crate) constants: Vec<u32>,
    /// The addresses in constant memory, each with its own address there.
    pub(crate) constant_pointers: Vec<Pointer>,
    /// The module's variables in global memory that the entry sees.
    pub(crate) globals: Vec<GlobalVariable>,
}

/// A variable of the module in global memory.
#[derive(Clone, Debug)]
pub(crate) struct GlobalVariable {
    pub(crate) name: String,
    pub(crate) align: u64,
    pub(crate) bytes: u64,
    /// Its initial bytes; the rest are zero.
    pub(crate) initial: Vec<u8>,
    /// The addresses among them.
    pub(crate) pointers: Vec<Pointer>,
}

impl Symbols {
    /// Lays out the parameters and variables that `entry` sees.
    pub(crate) fn lay_out(module: &Module, entry: &Entry) -> Symbols {
        let mut symbols = Symbols::default();
        for param in &entry.params {
            let bytes = u64::from(param.ty.bytes()).saturating_mul(param.count.unwrap_or(1));
            let offset = align_up(symbols.param_bytes, param.align.unwrap_or(param.ty.bytes()));
            symbols.param_bytes = offset.saturating_add(bytes);
            symbols.params.push(ParamSlot { name: param.name.clone(), offset, bytes });
            symbols.add(&param.name, StateSpace::Param, offset);
        }
        let variables = || module.variables.iter().chain(&entry.variables);
        for variable in variables().filter(|variable| !is_dynamic(variable)) {
            symbols.lay_out_variable(variable);
        }
        // Dynamic shared memory follows all static variables; all its names denote the same address.
        let dynamic: Vec<&Variable> = variables().filter(|variable| is_dynamic(variable)).collect();
        let align = dynamic.iter().map(|variable| variable.align.unwrap_or(16)).max().unwrap_or(16).max(16);
        symbols.dynamic_shared = !dynamic.is_empty();
        if symbols.dynamic_shared {
            symbols.shared_bytes = symbols.begin_shared(align);
        }
        for variable in dynamic {
            let address = symbols.shared_bytes.saturating_add(symbols.shared_shift).saturating_add(SHARED_START.into());
            symbols.add(&variable.name, StateSpace::Shared, address);
        }
        symbols
    }

    /// Where the next variable in shared memory begins on a GPU. Here, a gap separates it from the variables before it.
    fn begin_shared(&mut self, align: u32) -> u64 {
        let (end, begin) = (self.shared_bytes, align_up(self.shared_bytes, align));
        if let Some(after) = self.last_shared.take().filter(|_| self.shared_shift < MAX_GAPS) {
            let start = end.saturating_add(self.shared_shift);
            self.shared_shift = align_up(self.shared_shift.saturating_add(GAP), align.max(GAP as u32));
            self.shared_gaps.push(Gap { start, end: begin.saturating_add(self.shared_shift), after });
        }
        begin
    }

    fn lay_out_variable(&mut self, variable: &Variable) {
        let align = variable.align.unwrap_or(variable.ty.bytes());
        let bytes = variable.bytes();
        if variable.space == Space::Global && !variable.is_extern && bytes <= MAX_GLOBAL {
            let number = self.globals.len() as u64;
            let (name, initial) = (variable.name.clone(), variable.initial_bytes());
            self.globals.push(GlobalVariable {
                name,
                align: align.max(1).into(),
                bytes,
                initial,
                pointers: Vec::new(),
            });
            return self.add(&variable.name, StateSpace::Global, number);
        }
        if variable.space.is_shared() {
            let begin = self.begin_shared(align);
            let address = begin.saturating_add(self.shared_shift).saturating_add(SHARED_START.into());
            (self.shared_bytes, self.last_shared) = (begin.saturating_add(bytes), Some(variable.name.clone()));
            return self.add(&variable.name, StateSpace::Shared, address);
        }
        let (space, size, start) = match variable.space {
            Space::Local => (StateSpace::Local, &mut self.local_bytes, 0),
            Space::Const => (StateSpace::Const, &mut self.const_bytes, 0),
            // Omitted: an instruction that uses the name is an error when it runs.
            _ => return,
        };
        let address = align_up(*size, align);
        *size = address.saturating_add(bytes);
        if space == StateSpace::Const && !variable.init.is_empty() && *size <= MAX_CONST {
            let end = (*size).div_ceil(4) as usize;
            self.constants.resize(self.constants.len().max(end), 0);
            for (at, byte) in (address..).zip(variable.initial_bytes()) {
                self.constants[at as usize / 4] |= u32::from(byte) << (8 * (at % 4));
            }
        }
        self.add(&variable.name, space, address.saturating_add(start));
    }

    fn add(&mut self, name: &str, space: StateSpace, address: u64) {
        self.names.insert(name.into(), Symbol { space, address });
    }

    pub(crate) fn get(&self, name: &str) -> Option<Symbol> {
        self.names.get(name).copied()
    }
}

/// The next multiple; sizes from hostile text saturate and are rejected later.
fn align_up(size: u64, align: u32) -> u64 {
    let align = u64::from(align.max(1));
    size.checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

fn is_dynamic(variable: &Variable) -> bool {
    variable.space.is_shared() && (variable.is_extern || variable.count == Some(0))
}
