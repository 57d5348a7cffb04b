//! Products of tensor cores.

use ptx_gemm_dsl::atoms::Multiply;
use ptx_gemm_dsl::types::DType;

use super::Reg;

/// One of the instructions of a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// The row: who executes it, its rows and its extent along k.
    pub row: &'static Multiply,
    /// Columns of B.
    pub columns: u32,
    /// Types of the elements of A and of B.
    pub factors: [DType; 2],
    /// Whether the tiles of A and of B in shared memory are contiguous along m and n instead of k.
    pub transposed: [bool; 2],
}

/// Where an instruction of tensor cores reads A or B.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// In registers of its threads, with the layout of the PTX ISA.
    Registers(Vec<Reg>),
    /// In a tile in shared memory, by a matrix descriptor.
    Descriptor(Reg),
}

impl Factor {
    /// The registers that it reads.
    pub fn registers(&self) -> &[Reg] {
        match self {
            Factor::Registers(regs) => regs,
            Factor::Descriptor(reg) => std::slice::from_ref(reg),
        }
    }
}
