//! The register rule, and its form with `blocks_per_sm`.

use crate::atoms::Unit;
use crate::atoms::WGMMA_ROWS;
use crate::check::finding::{Finding, Findings};
use crate::check::geometry::parts;
use crate::check::settings::Settings;
use crate::clause::{Clause, SpecializeClause, Spills, WarpCount};
use crate::occupancy::besides;
use crate::plan::{Geometry, Plan};
use crate::suggest::count;
use crate::table::Key;
use crate::target::{MAX_REGISTERS, MAX_THREADS, WARP_GROUP, registers_per_thread};
use crate::terms::Extent2;

/// The clauses that fix the limit and the accumulators.
const DEPENDS: [Key; 7] = [Key::Thread, Key::Tile, Key::Warp, Key::Types, Key::Spills, Key::Specialize, Key::Registers];

/// The clauses that fix the registers of one instruction.
const INSTRUCTION_DEPENDS: [Key; 6] = [Key::Atom, Key::Tile, Key::Warp, Key::Types, Key::Specialize, Key::BlocksPerSm];

/// Accumulators and overhead registers ([`besides`]) must fit into a thread's limit, unless the schedule has
/// `spills(allow)`. Those of one `wgmma` must fit in any case: ptxas cannot spill them.
pub(super) fn check(settings: &Settings, geometry: &Geometry, findings: &mut Findings) {
    let acc = settings.problem.types.acc;
    // f16 accumulators pack two into a register.
    let words = |part: Extent2| (part.m * part.n * acc.bytes()).div_ceil(4) * settings.sums();
    let kept = words(geometry.thread);
    let threads = settings.threads(geometry);
    let limit =
        settings.roles.registers.map_or(registers_per_thread(threads, 1), |(_, consumer)| consumer.min(MAX_REGISTERS));
    // Too many threads for a block is reported separately.
    if threads > MAX_THREADS || !instruction(settings, geometry, findings) || settings.limits.spills == Spills::Allow {
        return;
    }
    let besides = besides(settings.atom);
    if kept + besides <= limit {
        return;
    }
    let message = format!(
        "{} keeps {} {acc} accumulators: with the {besides} registers that everything else needs that is {}, each of {} gets at most {limit}",
        match settings.atom.tensor() {
            None => settings.text(Key::Thread, ""),
            Some((Unit::WarpGroup, _)) if settings.turns() > 1 => {
                format!("pingpong, where one warp group computes {},", settings.text(Key::Tile, ""))
            }
            Some(_) => format!("a thread of {}", settings.text(Key::Tile, "")),
        },
        geometry.thread.m * geometry.thread.n * settings.sums(),
        kept + besides,
        count(threads, "thread")
    );
    let key = if settings.atom.by_threads() { Key::Thread } else { Key::Tile };
    let finding = findings.error("registers", key, &DEPENDS, message);
    // Smaller thread tiles make more threads, each with fewer registers. The trial of fixes finds which of them suit
    // the other clauses.
    let fits = |part: &Extent2| words(*part) + besides <= limit;
    let smaller = if settings.atom.by_threads() { parts(geometry.thread) } else { Vec::new() };
    for Extent2 { m, n } in smaller.into_iter().filter(fits).take(12) {
        let text = format!("thread({m}, {n})");
        finding.set(&text, format!("{text} keeps {}", m * n));
    }
    if let (Some(_), Some(warp)) = (settings.atom.tensor(), settings.shape.warp) {
        for (m, n) in [(2, 1), (1, 2), (2, 2), (4, 2), (4, 4)] {
            let text = format!("warp({}, {})", warp.m / m, warp.n / n);
            finding.set(
                &text,
                format!("{text} keeps {}", geometry.thread.m * geometry.thread.n * settings.sums() / (m * n)),
            );
        }
    }
    smaller_tiles(settings, geometry, finding);
    if let Some(specialize) = settings.roles.specialize {
        for warps in [4, 2, 1].into_iter().filter(|warps| *warps < settings.producer_warps()) {
            let fewer = Clause::Specialize(SpecializeClause { producers: WarpCount::Warps(warps), ..specialize });
            finding.set(&fewer, format!("{fewer} leaves more to each"));
        }
        finding.remove("specialize", "leave specialize out");
    }
    finding.set("spills(allow)", "spills(allow) accepts that ptxas spills");
}

/// Whether one `wgmma` fits into a thread's registers at launch. The assembler demands this wherever the instruction
/// is, whatever `setmaxnreg` gives the thread later.
fn instruction(settings: &Settings, geometry: &Geometry, findings: &mut Findings) -> bool {
    let Some((WGMMA_ROWS, columns, _)) = settings.atom.of_group() else { return true };
    let acc = settings.problem.types.acc;
    // The 128 threads of a warp group share its accumulators. A column count that no instruction has is reported
    // separately.
    let needed = columns.min(256) * acc.bytes() / 4 * WGMMA_ROWS / WARP_GROUP + besides(settings.atom);
    let threads = settings.threads(geometry);
    let share = |blocks| registers_per_thread(threads, blocks);
    let blocks = settings.limits.blocks_per_sm.unwrap_or(1);
    if needed <= share(blocks) {
        return true;
    }
    let of_blocks = if blocks > 1 { format!("{blocks} blocks of ") } else { String::new() };
    let message = format!(
        "{} needs {needed} registers of a thread, of {of_blocks}{} each has {}: ptxas refuses it",
        settings.text(Key::Atom, ""),
        count(threads, "thread"),
        share(blocks)
    );
    let key = if blocks > 1 { Key::BlocksPerSm } else { Key::Atom };
    let finding = findings.error("registers-instruction", key, &INSTRUCTION_DEPENDS, message);
    if let Some(fewer) = (1..blocks).rev().find(|&fewer| needed <= share(fewer)) {
        finding.set(format!("blocks_per_sm({fewer})"), format!("blocks_per_sm({fewer}) leaves {}", share(fewer)));
    }
    smaller_tiles(settings, geometry, finding);
    false
}

/// Fixes: tiles with fewer accumulators, or with fewer threads of more registers each.
fn smaller_tiles(settings: &Settings, geometry: &Geometry, finding: &mut Finding) {
    if let Some(tile) = settings.shape.tile {
        let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
        // Each ping-pong warp group computes a whole tile.
        let rows =
            [2, 3, 4].into_iter().filter(|part| settings.turns() > 1 && tile.m.is_multiple_of(WGMMA_ROWS * part));
        for part in rows {
            let text = format!("tile({}, {}{depth})", tile.m / part, tile.n);
            finding.set(&text, format!("{text} keeps {}", geometry.thread.m * geometry.thread.n / part));
        }
        // A warp group computes at least 64 rows, so fewer columns mean fewer accumulators.
        if let Some((rows, columns, k)) = settings.atom.of_group() {
            for part in [2, 3, 4].into_iter().filter(|part| tile.n.is_multiple_of(8 * part)) {
                let n = tile.n / part;
                let text = format!("tile({}, {n}{depth})", tile.m);
                let help = |text: &str| {
                    format!("{text} keeps {}", geometry.thread.m * geometry.thread.n * settings.sums() / part)
                };
                finding.set(&text, help(&text));
                let both = format!("{text}; atom(wgmma({rows}, {}, {k}))", n.min(columns));
                finding.set(&both, help(&both));
            }
        }
        for (m, n) in [(2, 1), (1, 2), (2, 2)] {
            let text = format!("tile({}, {}{depth})", tile.m / m, tile.n / n);
            let fewer = Geometry { threads: geometry.threads / (m * n), ..*geometry };
            if n > 1 && !settings.atom.by_threads() {
                continue;
            }
            finding.set(&text, format!("{text} takes {}", count(settings.threads(&fewer), "thread")));
        }
    }
}

/// Several blocks share the register file: legal, but ptxas may have to spill.
pub(super) fn occupancy(settings: &Settings, plan: &Plan, findings: &mut Findings) {
    let stated = settings.roles.registers.is_some() || settings.limits.spills == Spills::Allow;
    let Some(blocks) = settings.limits.blocks_per_sm.filter(|_| !stated) else { return };
    let spills = plan.variants.iter().filter(|variant| blocks > 1 && !plan.fits(variant, blocks));
    let Some(live) = spills.map(|variant| plan.live_registers(variant)).max() else { return };
    let share = plan.registers_per_thread(blocks);
    let message = format!(
        "blocks_per_sm({blocks}) leaves {share} registers a thread, which holds {live} at once: ptxas will spill"
    );
    findings.note("registers-occupancy", Key::BlocksPerSm, &DEPENDS, message);
}
