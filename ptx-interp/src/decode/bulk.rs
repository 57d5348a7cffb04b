//! Bulk copies, fences between proxies, addresses within a cluster, and instructions that a block or a cluster executes
//! together.

use ptx_gemm_ptx::asynchronous::{BulkDone, Multicast, Prefetched, TensorMode};
use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::types::{Space, Type};
use ptx_gemm_ptx::warp::ClusterOrder;

use super::Decoder;
use super::memory::state_space;
use crate::address::StateSpace;
use crate::op::{Bulk, Constant, Coordinates, Op, Pointer, R32, Reduce, Slot};

const UNFIT: &str = "the operands do not fit the instruction";

impl Decoder<'_> {
    pub(super) fn bulk(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        let shared = Some(StateSpace::Shared);
        let cluster = Some(StateSpace::Cluster);
        let global = Some(StateSpace::Global);
        let bulk = match (opcode, operands) {
            (&Opcode::BulkCopy { to: Space::Global, .. }, [to, from, bytes, ..]) => {
                let (to, from) = (self.pointer(to, global)?, self.pointer(from, shared)?);
                Bulk::Store { to, from, bytes: self.r32(bytes, Type::U32)?, reduce: None }
            }
            (&Opcode::BulkCopy { to: into, from: space, multicast, .. }, [to, from, bytes, barrier, rest @ ..]) => {
                let into = state_space(into);
                let (to, barrier) = (self.pointer(to, into)?, self.pointer(barrier, into)?);
                let from = self.pointer(from, state_space(space))?;
                let multicast = self.multicast(multicast, rest)?;
                Bulk::Load { to, from, bytes: self.r32(bytes, Type::U32)?, barrier, multicast, reduce: None }
            }
            (&Opcode::BulkReduce { op, ty, .. }, [to, from, bytes, ..]) => {
                let (to, from) = (self.pointer(to, global)?, self.pointer(from, shared)?);
                Bulk::Store { to, from, bytes: self.r32(bytes, Type::U32)?, reduce: Some((op, ty)) }
            }
            (&Opcode::BulkReduceShared { op, ty }, [to, from, bytes, barrier]) => {
                let (to, from, barrier) =
                    (self.pointer(to, cluster)?, self.pointer(from, shared)?, self.pointer(barrier, cluster)?);
                let bytes = self.r32(bytes, Type::U32)?;
                Bulk::Load { to, from, bytes, barrier, multicast: None, reduce: Some((op, ty)) }
            }
            (&Opcode::StAsync { space, ty, .. }, [to, values, barrier]) => {
                self.values((to, barrier), space, values, ty, None)?
            }
            (&Opcode::RedAsync { space, op, ty }, [to, value, barrier]) => {
                self.values((to, barrier), space, value, ty, Some((op, ty)))?
            }
            (Opcode::BulkPrefetch { .. }, [from, bytes, ..]) => {
                Bulk::Prefetch { from: self.pointer(from, global)?, bytes: self.r32(bytes, Type::U32)? }
            }
            (&Opcode::TensorLoad { dimensions, to: into, mode, multicast, .. }, [to, map, barrier, rest @ ..]) => {
                let into = state_space(into);
                let (to, barrier) = (self.pointer(to, into)?, self.pointer(barrier, into)?);
                let (map, coordinates) = self.tensor(map, dimensions, mode)?;
                Bulk::TensorLoad { to, map, coordinates, barrier, multicast: self.multicast(multicast, rest)? }
            }
            (&Opcode::TensorStore { dimensions, mode, .. }, [map, from, ..]) => {
                let (map, coordinates) = self.tensor(map, dimensions, mode)?;
                Bulk::TensorStore { map, coordinates, from: self.pointer(from, shared)?, reduce: None }
            }
            (&Opcode::TensorReduce { dimensions, op, mode, .. }, [map, from, ..]) => {
                let (map, coordinates) = self.tensor(map, dimensions, mode)?;
                Bulk::TensorStore { map, coordinates, from: self.pointer(from, shared)?, reduce: Some(op) }
            }
            (&Opcode::TensorPrefetch { dimensions, mode, .. }, [map, ..]) => {
                let (map, coordinates) = self.tensor(map, dimensions, mode)?;
                Bulk::TensorPrefetch { map, coordinates }
            }
            (&Opcode::Prefetch { space, what: Prefetched::Tensormap }, [map]) => {
                Bulk::PrefetchMap { map: self.pointer(map, state_space(space))? }
            }
            (Opcode::BulkCommit, []) => Bulk::Commit,
            (&Opcode::BulkWait(done), &[Operand::Int(pending)]) => {
                let pending = u32::try_from(pending).map_err(|_| "a negative number of groups")?;
                Bulk::Wait { pending, read: done == BulkDone::Read }
            }
            (&Opcode::FenceProxyAsync { space }, []) => Bulk::FenceProxy {
                shared: space == Space::Generic || space.is_shared(),
                global: matches!(space, Space::Generic | Space::Global),
            },
            (Opcode::FenceMbarrierInit, []) => Bulk::FenceInit,
            (&Opcode::TensormapReplace { field, space }, [map, rest @ ..]) => {
                let (ordinal, value) = match rest {
                    [value] if !field.has_ordinal() => (0, value),
                    [Operand::Int(ordinal @ 0..=4), value] if field.has_ordinal() => (*ordinal as u8, value),
                    _ => return Err(UNFIT.into()),
                };
                let ty = if field.is_wide() { Type::B64 } else { Type::B32 };
                let (map, value) = (self.pointer(map, state_space(space))?, self.source(value, ty)?);
                Bulk::ReplaceField { map, field, ordinal, value }
            }
            (&Opcode::TensormapCopy { scope }, [to, from, _]) => {
                let (to, from) = (self.pointer(to, global)?, self.pointer(from, shared)?);
                Bulk::CopyMap { to, from, scope: crate::op::scope(scope) }
            }
            (&Opcode::FenceProxyTensormap { scope, .. }, rest) => {
                let acquired = rest.first().map(|map| self.pointer(map, None)).transpose()?;
                Bulk::FenceMap { scope: crate::op::scope(scope), acquired }
            }
            (&Opcode::Mapa { space, ty }, [d, a, rank]) => {
                let (d, a) = (self.destination(d)?, self.cluster_address(a, space, ty)?);
                Bulk::Map { d, a, rank: self.r32(rank, Type::U32)?, space: state_space(space) }
            }
            (&Opcode::GetCtaRank { space, ty }, [d, a]) => {
                Bulk::Rank { d: self.d32(d)?.into(), a: self.cluster_address(a, space, ty)?, space: state_space(space) }
            }
            _ => return Err(UNFIT.into()),
        };
        self.code.bulks.push(bulk);
        Ok(Op::Bulk { index: self.code.bulks.len() as u32 - 1 })
    }

    /// Values that are stored asynchronously.
    fn values(
        &mut self,
        (to, barrier): (&Operand, &Operand),
        space: Space,
        values: &Operand,
        ty: Type,
        reduce: Option<Reduce>,
    ) -> Result<Bulk, String> {
        let space = state_space(space);
        let (to, barrier) = (self.pointer(to, space)?, self.pointer(barrier, space)?);
        let given = match values {
            Operand::Vector(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let bytes = ty.bytes() as usize;
        if !matches!(given.len(), 1 | 2 | 4) || !matches!(bytes, 4 | 8) || given.len() * bytes > 16 {
            return Err(UNFIT.into());
        }
        let first = self.source(&given[0], ty)?;
        let mut values = [first; 4];
        for (slot, value) in values.iter_mut().zip(given) {
            *slot = self.source(value, ty)?;
        }
        Ok(Bulk::Values { to, barrier, values, count: given.len() as u8, bytes: bytes as u8, reduce })
    }

    /// Instructions that the warps of a block or a cluster execute together.
    pub(super) fn together(&mut self, opcode: &Opcode, operands: &[Operand]) -> Result<Op, String> {
        match (opcode, operands) {
            (&Opcode::ClusterArrive { order, .. }, []) => {
                Ok(Op::ClusterArrive { relaxed: order == ClusterOrder::Relaxed })
            }
            (Opcode::ClusterWait { .. }, []) => Ok(Op::ClusterWait),
            (&Opcode::SetMaxNReg(resize), &[Operand::Int(count)]) => {
                if !(24..=256).contains(&count) || count % 8 != 0 {
                    return Err(format!("setmaxnreg takes a multiple of 8 from 24 to 256, not {count}"));
                }
                Ok(Op::SetMaxNReg { resize, count: count as u16 })
            }
            _ => Err(UNFIT.into()),
        }
    }

    fn pointer(&mut self, operand: &Operand, space: Option<StateSpace>) -> Result<Pointer, String> {
        let (base, offset) = self.address(operand, space)?;
        Ok(Pointer { space, base, offset })
    }

    fn multicast(&mut self, multicast: Multicast, rest: &[Operand]) -> Result<Option<R32>, String> {
        match (multicast, rest) {
            (Multicast::None, _) => Ok(None),
            (Multicast::Cluster, [mask, ..]) => Ok(Some(self.r32(mask, Type::U16)?)),
            (Multicast::Cluster, []) => Err(UNFIT.into()),
        }
    }

    /// `[map, {c0, c1}]`.
    fn tensor(
        &mut self,
        operand: &Operand,
        dimensions: u8,
        mode: TensorMode,
    ) -> Result<(Pointer, Coordinates), String> {
        if mode != TensorMode::Tile {
            return Err("tensor maps of images (im2col) are not supported".into());
        }
        let Operand::TensorAddress(tensor) = operand else { return Err(UNFIT.into()) };
        let (base, given) = &**tensor;
        if given.len() != usize::from(dimensions) || given.len() > 5 {
            return Err(format!("{} coordinates for {dimensions} dimensions", given.len()));
        }
        let mut at = [self.constant32(Constant::Value(0)); 5];
        for (slot, coordinate) in at.iter_mut().zip(given) {
            *slot = self.r32(coordinate, Type::S32)?;
        }
        let map = self.pointer(&Operand::address(base.clone(), 0), None)?;
        Ok((map, Coordinates { count: dimensions, at }))
    }

    /// A shared-memory address as a value: a register, or the name of a variable.
    fn cluster_address(&mut self, operand: &Operand, space: Space, ty: Type) -> Result<Slot, String> {
        match operand {
            Operand::Symbol(name) => self.symbol_in(name, 0, state_space(space)),
            Operand::SymbolOffset(symbol) => self.symbol_in(&symbol.0, symbol.1, state_space(space)),
            operand => self.source(operand, ty),
        }
    }
}
