//! The list of `batch(grouped)`: one record for each product, in device memory.
//!
//! ```text
//! byte    0  m              u32
//!         4  n              u32
//!         8  k              u32
//!        12  (unused)
//!        16  a, b, c, d     u64 each: the address of element (0, 0)
//!        48  lda ... ldd    u64 each: the leading dimension in elements
//!        80  vectors        u64 each: their addresses, in the order of the epilogue
//! ```
//!
//! If an entry copies by TMA, a tensor map follows for each matrix that it copies so, in the order a, b, d, from the
//! next multiple of [`RECORD_ALIGN`] on. The host encodes it ([`super::interface::TensorMap`]).
//!
//! A record is padded to whole multiples of [`RECORD_ALIGN`] bytes, and the list begins at one. Fields that the kernel
//! does not read (c and ldc without a C) may have any value. Extents are at most [`MAX_EXTENT`] and may be 0, and all
//! products together have fewer than 2^31 tiles of D. A product with m or n of 0 has no tiles, and its addresses are
//! never read.
//!
//! [`MAX_EXTENT`]: crate::kernel::MAX_EXTENT

use ptx_gemm_dsl::target::MAP_BYTES;
use ptx_gemm_dsl::terms::{Operand, Param};
use ptx_gemm_dsl::types::{Batch, Problem};

use super::Program;
use super::tensor_map::TensorMap;

/// Alignment of the list, and of each record in it, in bytes: a line of the L2 cache.
pub const RECORD_ALIGN: u32 = 128;

/// First bytes of the addresses, of the leading dimensions, and of the addresses of vectors.
const ADDRESSES: u32 = 16;
const LEADING: u32 = ADDRESSES + 4 * 8;
const VECTORS: u32 = LEADING + 4 * 8;

/// A record of a problem's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its fields, each with its first byte.
    pub fields: Vec<(Param, u32)>,
    /// Bytes from one record to the next.
    pub bytes: u32,
}

impl Record {
    /// The record of a program; `None` if it has no list.
    pub fn of(program: &Program) -> Option<Record> {
        let mapped = [Operand::A, Operand::B, Operand::D].into_iter();
        let mapped = mapped.filter(|operand| TensorMap::of(program, *operand).is_some());
        Record::with_maps(&program.problem, mapped)
    }

    /// The record of a problem for an entry that copies these matrices by TMA; `None` if there is no list.
    pub fn with_maps(problem: &Problem, mapped: impl IntoIterator<Item = Operand>) -> Option<Record> {
        if problem.batch != Batch::Grouped {
            return None;
        }
        // The order is that of the product that a caller asks for.
        let mut fields = vec![(Param::M, 0), (Param::N, 4), (Param::K, 8)];
        for operand in problem.matrices() {
            let place = 8 * position(operand);
            fields.extend([(Param::Matrix(operand), ADDRESSES + place), (Param::Ld(operand), LEADING + place)]);
        }
        let vectors = problem.epilogue.vectors.len();
        fields.extend((0..vectors).map(|index| (Param::Vector(index), VECTORS + 8 * index as u32)));
        let mut bytes = (VECTORS + 8 * vectors as u32).next_multiple_of(RECORD_ALIGN);
        let mut mapped: Vec<Operand> = mapped.into_iter().map(|operand| problem.asked_operand(operand)).collect();
        mapped.sort_by_key(|operand| position(*operand));
        for operand in mapped {
            fields.push((Param::Map(operand), bytes));
            bytes += MAP_BYTES.next_multiple_of(RECORD_ALIGN);
        }
        let fields = fields.into_iter().map(|(param, byte)| (problem.asked_param(&param), byte)).collect();
        Some(Record { fields, bytes })
    }

    /// The record in the terms of the problem that a caller of kernels of `problem` asks for.
    pub(super) fn asked(self, problem: &Problem) -> Record {
        let fields = self.fields.iter().map(|(param, byte)| (problem.asked_param(param), *byte)).collect();
        Record { fields, ..self }
    }

    /// Whether a record has tensor maps, which only the host encodes.
    pub fn has_maps(&self) -> bool {
        self.fields.iter().any(|(param, _)| matches!(param, Param::Map(_)))
    }

    /// First byte of a tensor map, if there is one.
    pub fn map_offset(&self, operand: Operand) -> Option<usize> {
        let found = self.fields.iter().find(|(param, _)| *param == Param::Map(operand));
        found.map(|(_, offset)| *offset as usize)
    }

    /// The record of one product as bytes; `value` gives what each field holds. Tensor maps and bytes between fields are
    /// zero.
    pub fn encode(&self, mut value: impl FnMut(&Param) -> u64) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes as usize];
        for (param, offset) in self.fields.iter().filter(|(param, _)| !matches!(param, Param::Map(_))) {
            let size = if matches!(param, Param::M | Param::N | Param::K) { 4 } else { 8 };
            bytes[*offset as usize..][..size].copy_from_slice(&value(param).to_le_bytes()[..size]);
        }
        bytes
    }
}

fn position(operand: Operand) -> u32 {
    match operand {
        Operand::A => 0,
        Operand::B => 1,
        Operand::C => 2,
        Operand::D => 3,
    }
}
