//! Tensor maps as operands of bulk copies: reading one, the box at given coordinates, and reductions of its elements.

use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::types::Type;

use super::{Reduce, Start};
use crate::address::StateSpace;
use crate::env::BlockMemory;
use crate::exec::tensormap;
use crate::op::{Coordinates, Pointer};
use crate::shared::load_words;
use crate::tensor::{Interleave, TensorElement, TensorMap, Tile};
use crate::violation::{Checked, Fault, ViolationKind};

impl Start<'_, '_> {
    /// The tensor map at an address.
    pub(super) fn map(&self, block: &mut BlockMemory, pointer: Pointer) -> Checked<TensorMap> {
        let (space, address) = self.target(pointer)?;
        if !address.is_multiple_of(64) {
            return Err(self.misaligned(address, 64));
        }
        let mut bytes = [0; 128];
        let found = match space {
            StateSpace::Param if address.checked_add(128).is_some_and(|end| end <= self.env.param_bytes as u64) => {
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = load_words(&self.env.params, address as usize + index, 1) as u8;
                }
                true
            }
            StateSpace::Global => match self.env.global.find(address, 128, &mut block.last) {
                Some(mapped) => {
                    mapped.buffer.read(address, &mut bytes);
                    tensormap::used(block, self.env, self.starter, address)?;
                    true
                }
                None => false,
            },
            _ => false,
        };
        let map = if found { TensorMap::decode(&bytes) } else { None };
        let reason = match map {
            Some(Ok(map)) => {
                if space == StateSpace::Global {
                    tensormap::is_acquired(block, self.env, self.starter, address)?;
                }
                return Ok(map);
            }
            Some(Err(reason)) => format!("which its fields do not describe: {reason}"),
            None => "but no map is there".into(),
        };
        let message = format!("{{thread}} uses {} address {address:#x} as a tensor map, {reason}", space.name());
        Err(self.fault(ViolationKind::TensorMap, address, message))
    }

    /// The box of a tensor map at given coordinates.
    pub(super) fn tile(&self, block: &mut BlockMemory, pointer: Pointer, coordinates: Coordinates) -> Checked<Tile> {
        let map = self.map(block, pointer)?;
        let (rank, count) = (map.rank(), usize::from(coordinates.count));
        let wrong = if rank != count {
            Some(format!("{{thread}} gives {count} coordinates for a tensor map of {rank} dimensions"))
        } else if map.interleave() != Interleave::None {
            Some("interleaved tensor maps are not supported".to_owned())
        } else {
            None
        };
        if let Some(message) = wrong {
            return Err(Fault::new(ViolationKind::TensorMap, 1 << self.starter.lane, message));
        }
        let mut at = [0; 5];
        for (at, slot) in at.iter_mut().zip(&coordinates.at[..count]) {
            *at = self.value(*slot, "is a coordinate")? as i32;
        }
        // On an H200 any other value is an illegal instruction.
        let along = i64::from(at[0]) * map.element().bytes() as i64;
        if along % 16 != 0 {
            let message = format!(
                "{{thread}} gives {} as the innermost coordinate, {along} bytes from the tensor's start, which is not a multiple \
                 of 16 bytes",
                at[0]
            );
            return Err(Fault::new(ViolationKind::Misaligned, 1 << self.starter.lane, message));
        }
        // A box that is too large for shared memory is not traversed; its copy is rejected for its bounds.
        Ok(Tile { map, coordinates: at })
    }

    /// Checks that a copy to global memory does not begin before the tensor, which is an illegal instruction on an
    /// H200. It may end after it.
    pub(super) fn not_before(&self, tile: &Tile) -> Checked {
        let Some(coordinate) = tile.coordinates.iter().find(|coordinate| **coordinate < 0) else { return Ok(()) };
        let message = format!(
            "{{thread}} gives {coordinate} as a coordinate of a copy to global memory; only loads take negative ones"
        );
        Err(Fault::new(ViolationKind::OutOfBounds, 1 << self.starter.lane, message))
    }

    /// The element type of a tensor reduction.
    pub(super) fn reduction(&self, op: Atomic, element: TensorElement) -> Checked<Reduce> {
        use TensorElement as E;
        let ty = match (op, element) {
            (Atomic::And | Atomic::Or | Atomic::Xor, E::U32 | E::I32) => Some(Type::B32),
            (Atomic::And | Atomic::Or | Atomic::Xor, E::U64 | E::I64) => Some(Type::B64),
            (Atomic::And | Atomic::Or | Atomic::Xor, _) => None,
            (Atomic::Inc | Atomic::Dec, E::U32) => Some(Type::U32),
            (Atomic::Add, E::F32 | E::F32Ftz | E::Tf32 | E::Tf32Ftz) => Some(Type::F32),
            (Atomic::Add, E::F64) => Some(Type::F64),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::U32) => Some(Type::U32),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::I32) => Some(Type::S32),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::U64) => Some(Type::U64),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::I64) => Some(Type::S64),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::F16) => Some(Type::F16),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::Bf16) => Some(Type::Bf16),
            _ => None,
        };
        ty.map(|ty| (op, ty)).ok_or_else(|| {
            let message = format!("the reduction `{}` does not exist for a tensor of {element:?}", op.name());
            Fault::new(ViolationKind::TensorMap, 1 << self.starter.lane, message)
        })
    }
}
