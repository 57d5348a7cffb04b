//! Modules, entries and the statements of a body.

use crate::instruction::{Instruction, Note, Operand};
use crate::types::{Space, Type};

/// One PTX file.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Comment lines at the top of the file, without their slashes.
    pub header: Vec<String>,
    /// `.version`.
    pub version: (u32, u32),
    /// `.target`, its words as written: `sm_90a`.
    pub target: String,
    /// Module-scope variables (`.extern .shared .align 16 .b8 smem[];`).
    pub variables: Vec<Variable>,
    /// Entries, in order.
    pub entries: Vec<Entry>,
}

/// A variable of the module or of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// `.extern`.
    pub is_extern: bool,
    /// State space.
    pub space: Space,
    /// Alignment in bytes, if stated.
    pub align: Option<u32>,
    /// Element type.
    pub ty: Type,
    /// Name.
    pub name: String,
    /// Elements: `None` for a scalar, `Some(0)` for `name[]`.
    pub count: Option<u64>,
    /// Initial values of its first elements: numbers, or variables ([`Operand::Symbol`], [`Operand::SymbolOffset`]),
    /// which mean their generic addresses, or as an [`Operand::Address`] the one within their space. The remaining elements are zero. Empty without an initialiser.
    pub init: Vec<Operand>,
    /// The note about the origin, printed after it.
    pub note: Option<Note>,
}

impl Variable {
    /// Size in bytes; saturates if it does not fit.
    pub fn bytes(&self) -> u64 {
        u64::from(self.ty.bytes()).saturating_mul(self.count.unwrap_or(1))
    }

    /// The initialiser as bytes; addresses are zero.
    pub fn initial_bytes(&self) -> Vec<u8> {
        let width = self.ty.bytes() as usize;
        let mut out = Vec::new();
        for element in &self.init {
            let bits = match *element {
                Operand::Int(value) if self.ty == Type::F32 => u64::from((value as f32).to_bits()),
                Operand::Int(value) if self.ty == Type::F64 => (value as f64).to_bits(),
                Operand::Int(value) => value as u64,
                Operand::F32(bits) => bits.into(),
                Operand::F64(bits) => bits,
                _ => 0,
            };
            out.extend(bits.to_le_bytes().iter().chain(&[0; 8]).take(width));
        }
        out
    }
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Type.
    pub ty: Type,
    /// Alignment in bytes, if stated.
    pub align: Option<u32>,
    /// Name.
    pub name: String,
    /// Array length (`.param .align 64 .b8 map[128]`).
    pub count: Option<u64>,
    /// What the parameter is, printed as a comment after it.
    pub comment: Option<String>,
}

/// A performance directive of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Directive {
    Reqntid(Vec<u32>),
    Maxntid(Vec<u32>),
    MinNctaPerSm(u32),
    MaxNreg(u32),
    ReqNctaPerCluster(Vec<u32>),
    MaxClusterRank(u32),
    ExplicitCluster,
    /// Any other directive, as written.
    Other(String),
}

/// Registers that share a prefix, `.reg .f32 %acc<64>;`, or a single one, `.reg .b32 %x;`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterFamily {
    /// Type.
    pub ty: Type,
    /// Name or prefix, with its `%`.
    pub prefix: String,
    /// Registers in the family; `None` for a register declared on its own.
    pub count: Option<u32>,
    /// What they hold, printed as a comment.
    pub comment: Option<String>,
}

/// A `.visible .entry`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Directives in order.
    pub directives: Vec<Directive>,
    /// Register families, indexed by [`crate::instruction::Reg::family`].
    pub registers: Vec<RegisterFamily>,
    /// Variables of the entry (static shared memory).
    pub variables: Vec<Variable>,
    /// The body.
    pub body: Vec<Statement>,
}

/// A line of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// An instruction.
    Instruction(Instruction),
    /// `name:`
    Label(String),
    /// `name: .branchtargets labels;`, the labels that a `brx.idx` chooses from.
    Targets {
        /// Name of the list.
        name: String,
        /// Its labels, in order.
        labels: Vec<String>,
    },
    /// `// text` on a line of its own.
    Comment(String),
    /// `.pragma "text";`
    Pragma(String),
}
