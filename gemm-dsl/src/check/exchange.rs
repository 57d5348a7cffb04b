//! `split_k(n, reduce = cluster)`: a cluster computes the parts of a tile's k. Its blocks exchange sums through
//! distributed shared memory.

use crate::check::finding::Findings;
use crate::check::output::Lines;
use crate::check::settings::Settings;
use crate::clause::{Clause, Spills, SplitKClause, TileClause};
use crate::limits;
use crate::occupancy::besides;
use crate::plan::{Exchange, Geometry};
use crate::table::Key;
use crate::target::MAX_ACCESS_BYTES;
use crate::terms::{Reduce, SplitK, Store};
use crate::types::Layout;

/// Checks every rule about it.
pub(super) fn check(settings: &Settings, geometry: Option<&Geometry>, findings: &mut Findings) {
    let Some(SplitK { parts, reduce: Reduce::Cluster }) = settings.scheduler.split_k else { return };
    let text = |parts, reduce| Clause::SplitK(SplitKClause { parts, reduce: Some(reduce) }).to_string();
    let (stated, serial) = (text(parts, Reduce::Cluster), text(parts, Reduce::Serial));
    let most = *limits::CLUSTER.end();
    if !(2..=most).contains(&parts) {
        let message = format!("{stated}: a cluster has 2 to {most} blocks");
        let finding = findings.error("cluster-parts", Key::SplitK, &[], message);
        let nearest = text(parts.clamp(2, most), Reduce::Cluster);
        finding.set(&nearest, format!("{nearest} is a cluster"));
        finding.set(&serial, format!("{serial} takes no cluster"));
    }
    if let Some(clause) = settings
        .get(Key::Cluster)
        .filter(|_| settings.scheduler.cluster.m.saturating_mul(settings.scheduler.cluster.n) > 1)
    {
        let message =
            format!("{stated} conflicts with {clause}: a cluster has the parts of one tile, or several tiles");
        findings
            .error("cluster-parts", Key::SplitK, &[Key::Cluster], message)
            .remove("cluster", "leave cluster out")
            .set(&serial, format!("{serial} goes with clusters of tiles"));
    }
    if let Some(clause) = settings.get(Key::Persistent) {
        let message =
            format!("{stated} conflicts with {clause}: a block's next tile would overwrite sums that others read");
        findings
            .error("cluster-parts", Key::SplitK, &[Key::Persistent], message)
            .remove("persistent", "leave persistent out")
            .set(&serial, format!("{serial} goes with it"));
    }
    if let Some(clause) = settings.get(Key::Store).filter(|_| settings.output.store != Store::Direct) {
        let message = format!(
            "{stated} conflicts with {clause}: the sums pass through shared memory, and lines of D come from there"
        );
        findings
            .error("cluster-parts", Key::SplitK, &[Key::Store], message)
            .remove("store", "leave store out")
            .set(&serial, format!("{serial} goes with it"));
    }
    if let Some(clause) = settings.get(Key::Shared).filter(|_| settings.staged.shared.is_none()) {
        let message = format!("{stated} conflicts with {clause}: sums take the place of K-tiles in shared memory");
        findings
            .error("cluster-parts", Key::SplitK, &[Key::Shared], message)
            .remove("shared", "leave shared out")
            .set(&serial, format!("{serial} goes through global memory"));
    }
    if let Some(geometry) = geometry {
        registers(settings, geometry, (parts, &stated, &serial), findings);
    }
}

/// All threads exchange sums after the mainloop, including warp groups that released registers.
fn registers(
    settings: &Settings,
    geometry: &Geometry,
    (parts, stated, serial): (u32, &str, &str),
    findings: &mut Findings,
) {
    let (Some((producer, _)), Some(exchange)) = (settings.roles.registers, plan(settings, geometry)) else { return };
    let (elements, besides) = (exchange.elements(), besides(settings.atom));
    let sums = elements.saturating_mul(Exchange::parts_at_once(elements, parts));
    let needed = sums.saturating_add(besides);
    if producer >= needed || settings.limits.spills == Spills::Allow {
        return;
    }
    let message = format!(
        "{stated}: all threads exchange sums after the roles, with {sums} of them on their way: with the {besides} registers that \
         everything else needs that is {needed}, and {} leaves a producer {producer}",
        settings.text(Key::Registers, "registers")
    );
    findings
        .error(
            "exchange-registers",
            Key::Registers,
            &[Key::SplitK, Key::Specialize, Key::Tile, Key::Warp, Key::Spills],
            message,
        )
        .remove("registers", "leave registers out")
        .set(serial, format!("{serial} exchanges none"))
        .set("spills(allow)", "spills(allow) accepts that ptxas spills");
}

/// Bytes of a block's exchanged sums of a tile; 0 without an exchange.
pub(super) fn bytes(settings: &Settings, tile: TileClause) -> u64 {
    let lines = Lines::of(settings, tile);
    pitch(settings, lines).map_or(0, |pitch| {
        let elements = u64::from(lines.count.saturating_sub(1)) * u64::from(pitch) + u64::from(lines.elements);
        elements * u64::from(settings.problem.types.acc.bytes())
    })
}

/// The pitch of a line. Its pad lets the lanes of a warp write tensor-core accumulators without bank conflicts. Lanes
/// that are neighbours along n hold pairs of columns: in row-major lines, eight sums of one row, then those of the next
/// row; in column-major lines, single sums of every second line.
fn pitch(settings: &Settings, lines: Lines) -> Option<u32> {
    let exchanged = settings.scheduler.split_k.is_some_and(|split| split.reduce == Reduce::Cluster);
    let width = MAX_ACCESS_BYTES / settings.problem.types.acc.bytes();
    let pad = if settings.problem.layouts.d == Layout::Row { 2 * width } else { width };
    exchanged.then(|| lines.elements.next_multiple_of(width) + pad)
}

/// The exchange of sums, if there is one.
pub(super) fn plan(settings: &Settings, geometry: &Geometry) -> Option<Exchange> {
    let tile = settings.shape.tile?;
    let (lines, element) = (Lines::of(settings, tile), settings.problem.types.acc.bytes());
    let pitch = pitch(settings, lines)?;
    let fits = |width: &u32| width * element <= MAX_ACCESS_BYTES && pitch.is_multiple_of(*width);
    let widest = |run: u32| [4, 2, 1].into_iter().filter(fits).find(|width| run.is_multiple_of(*width)).unwrap_or(1);
    let run = if settings.problem.layouts.d == Layout::Row { geometry.fragment.n } else { geometry.fragment.m };
    let chunk = widest(lines.elements);
    let in_line = lines.elements / chunk;
    let share = lines.count.div_ceil(settings.scheduler.split_k?.parts.max(1)).max(1);
    // Whole lines, or equal parts of one.
    let across = (1..=in_line.min(geometry.threads)).rev().find(|across| in_line.is_multiple_of(*across)).unwrap_or(1);
    let chunks = in_line / across;
    let at_once = if chunks == 1 { (geometry.threads / across).min(share).max(1) } else { 1 };
    let steps = share.div_ceil(at_once);
    let bytes = u32::try_from(bytes(settings, tile)).unwrap_or(u32::MAX);
    Some(Exchange { pitch, write_width: widest(run), chunk, across, chunks, at_once, steps, bytes })
}
