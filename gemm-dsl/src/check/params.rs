//! The parameters of entries, in ABI order.

use crate::check::settings::Settings;
use crate::clause::Emulation;
use crate::plan::StagedTile;
use crate::terms::{Load, Operand, Param, Reduce};
use crate::types::Batch;

/// The parameters of an entry that copies K-tiles by `load` and stages D as said.
pub(super) fn params(settings: &Settings, load: Load, staged: Option<&StagedTile>) -> Vec<Param> {
    let by_tma = |operand: Operand| match operand {
        Operand::A | Operand::B => load == Load::Tma,
        Operand::C => staged.is_some_and(|staged| staged.holds_c),
        Operand::D => staged.is_some_and(|staged| staged.box_lines.is_some()),
    };
    let emulates = settings.sums.emulation.is_some();
    let in_planes = |operand: Operand| emulates && load != Load::Tma && matches!(operand, Operand::A | Operand::B);
    let with_map = |param: &Param| match *param {
        Param::Matrix(operand) if by_tma(operand) => Some(Param::Map(operand)),
        Param::Matrix(operand) if in_planes(operand) => Some(Param::Packed(operand)),
        Param::Ld(operand) | Param::BatchStride(operand) if by_tma(operand) || in_planes(operand) => None,
        ref other => Some(other.clone()),
    };
    without_maps(settings).iter().filter_map(with_map).collect()
}

/// The parameters of an entry without tensor maps. They follow the product that the caller asks for. Per-product parameters
/// of a group are in the group's list.
fn without_maps(settings: &Settings) -> Vec<Param> {
    let (problem, scheduler) = (&settings.problem, &settings.scheduler);
    let scalars = (0..problem.epilogue.scalars.len()).map(Param::Scalar);
    if problem.batch == Batch::Grouped {
        let streamed = [Param::Tiles, Param::Workspace].into_iter().filter(|_| scheduler.stream_k);
        return [Param::Problems, Param::Batch].into_iter().chain(scalars).chain(streamed).collect();
    }
    let c = problem.epilogue.uses_c().then_some(Operand::C);
    let matrices: Vec<Operand> =
        [Some(Operand::A), Some(Operand::B), c, Some(Operand::D)].into_iter().flatten().collect();
    let mut params: Vec<Param> = matrices.iter().map(|m| Param::Matrix(*m)).collect();
    params.extend((0..problem.epilogue.vectors.len()).map(Param::Vector));
    params.extend([Param::M, Param::N, Param::K]);
    params.extend(matrices.iter().map(|m| Param::Ld(*m)));
    params.extend(scalars);
    if problem.batch == Batch::Strided {
        params.push(Param::Batch);
        params.extend(matrices.iter().map(|m| Param::BatchStride(*m)));
    }
    if scheduler.split_k.is_some_and(|split| split.reduce != Reduce::Cluster) || scheduler.stream_k {
        params.push(Param::Workspace);
    }
    if settings.sums.emulation.is_some_and(Emulation::scales) {
        params.extend([Operand::A, Operand::B].map(Param::Scales));
    }
    params.iter().map(|param| problem.asked_param(param)).collect()
}
