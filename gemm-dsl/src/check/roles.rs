//! The rules of `specialize`: producer warps, consumer warps, and their register budgets.

use crate::atoms::Unit;
use crate::atoms::WGMMA_ROWS;
use crate::check::finding::Findings;
use crate::check::geometry::group_parts;
use crate::check::settings::Settings;
use crate::clause::{Clause, Roles, SpecializeClause, WarpCount};
use crate::plan::Geometry;
use crate::suggest::count;
use crate::table::Key;
use crate::target::{MAX_THREADS, WARP, WARP_GROUP, registers_per_thread};
use crate::terms::{Extent2, Load};

/// Checks every rule about roles. `geometry` is `None` if it is unknown.
pub(super) fn check(settings: &Settings, geometry: Option<&Geometry>, findings: &mut Findings) {
    let Some(clause) = settings.roles.specialize else { return };
    if clause.roles == Some(Roles::Pingpong) {
        pingpong(settings, clause, findings);
    }
    copies(settings, clause, findings);
    if let Some(geometry) = geometry {
        // Ping-pong consumers each compute a whole tile, whatever their number.
        if settings.turns() == 1 && whole_warps(settings, geometry, findings) {
            consumers(settings, clause, geometry, findings);
        }
        block_size(settings, clause, geometry, findings);
    }
    budget(settings, clause, geometry, findings);
}

fn text(clause: SpecializeClause) -> String {
    Clause::Specialize(clause).to_string()
}

/// Ping-pong: warp groups take whole tiles in turn, so that one multiplies while another stores.
fn pingpong(settings: &Settings, clause: SpecializeClause, findings: &mut Findings) {
    let together = text(SpecializeClause { roles: None, ..clause });
    let Some(_) = settings.atom.of_group() else {
        let message = format!(
            "{}: pingpong hands the tensor cores from one warp group to the next, which {} does not use by warp groups",
            text(clause),
            settings.text(Key::Atom, "atom(fma)")
        );
        findings
            .error("pingpong-atom", Key::Specialize, &[Key::Atom], message)
            .set(&together, format!("{together} computes each tile together"));
        return;
    };
    let warps = clause.consumers.map_or(8, WarpCount::warps);
    let groups = |groups: u32| text(SpecializeClause { consumers: Some(WarpCount::Groups(groups)), ..clause });
    if !warps.is_multiple_of(4) {
        let message = format!("{}: a consumer that takes turns is a warp group of 4 warps", text(clause));
        let finding = findings.error("pingpong-groups", Key::Specialize, &[], message);
        for whole in [warps.div_ceil(4).max(2), 2] {
            finding.set(groups(whole), format!("{} has whole groups", groups(whole)));
        }
    } else if warps == 4 {
        let message = "specialize: pingpong takes turns, and there is one consumer";
        findings
            .error("pingpong", Key::Specialize, &[], message)
            .set(groups(2), format!("{} has two", groups(2)))
            .set(&together, format!("{together} computes every tile by it"));
    }
    // The conflict with a divided K explains more.
    let divides: Vec<&Clause> = [Key::SplitK, Key::StreamK].into_iter().filter_map(|key| settings.get(key)).collect();
    for divided in &divides {
        let message = format!(
            "{} conflicts with {divided}: a consumer passes over the K-tiles of the others' tiles, and parts of a sum differ \
             in their number",
            text(clause)
        );
        findings
            .error("pingpong-split", Key::Specialize, &[divided.key()], message)
            .remove(divided.name(), format!("leave {} out", divided.name()))
            .set(&together, format!("{together} goes with it"));
    }
    if divides.is_empty() && !settings.is_persistent() {
        let message = format!("{}: a block with one tile has none for a second consumer", text(clause));
        findings
            .error("pingpong-persistent", Key::Specialize, &[Key::Persistent, Key::Batch], message)
            .set("persistent", "persistent blocks compute several")
            .set(&together, format!("{together} computes one tile together"));
    }
}

/// Producers copy to shared memory and do not wait for their copies.
fn copies(settings: &Settings, clause: SpecializeClause, findings: &mut Findings) {
    if settings.staged.shared.is_none() || settings.staged.load != Load::Registers {
        return;
    }
    let message = format!(
        "{} needs load(cp_async) or load(tma): its producers start copies and do not wait for them",
        text(clause)
    );
    findings
        .error("specialize-load", Key::Specialize, &[Key::Load, Key::Shared], message)
        .set("load(cp_async)", "load(cp_async) copies that way")
        .set("load(tma)", "load(tma) copies that way")
        .remove("specialize", "leave specialize out");
}

/// A role consists of whole warps.
fn whole_warps(settings: &Settings, geometry: &Geometry, findings: &mut Findings) -> bool {
    if geometry.threads.is_multiple_of(WARP) {
        return true;
    }
    let (Some(tile), Some(thread)) = (settings.shape.tile, settings.shape.thread) else { return false };
    let message = format!(
        "{} / {} = {}, not a whole number of warps, which specialize needs",
        settings.text(Key::Tile, ""),
        settings.text(Key::Thread, ""),
        count(geometry.threads, "thread")
    );
    let finding = findings.error("specialize-warps", Key::Specialize, &[Key::Tile, Key::Thread, Key::Warp], message);
    for (m, n) in [(1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2), (4, 4), (8, 8)] {
        if thread.m.is_multiple_of(m) && thread.n.is_multiple_of(n) {
            let smaller = format!("thread({}, {})", thread.m / m, thread.n / n);
            finding.set(&smaller, format!("{smaller} gives {}", geometry.threads.saturating_mul(m * n)));
        }
    }
    // Keeps the number of threads along one dimension and rounds it up along the other to whole warps.
    let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
    let (rows, columns) = (tile.m / thread.m, tile.n / thread.n);
    let warps =
        |count: u32, other: u32| (count..=count.saturating_add(WARP)).find(|n| (n * other).is_multiple_of(WARP));
    for (rows, columns) in
        [(Some(rows), warps(columns, rows)), (warps(rows, columns), Some(columns)), (Some(8), Some(8))]
    {
        if let (Some(rows), Some(columns)) = (rows, columns) {
            let larger = format!("tile({}, {}{depth})", rows * thread.m, columns * thread.n);
            finding.set(&larger, format!("{larger} gives {}", rows * columns));
        }
    }
    finding.remove("specialize", "leave specialize out");
    false
}

/// A stated number of consumers must agree with the geometry.
fn consumers(settings: &Settings, clause: SpecializeClause, geometry: &Geometry, findings: &mut Findings) {
    let warps = geometry.threads / WARP;
    let Some(named) = clause.consumers.map(WarpCount::warps).filter(|named| *named != warps) else { return };
    let message = format!(
        "{} names {named} consumer {}, and {} / {} = {} are {warps}",
        text(clause),
        if named == 1 { "warp" } else { "warps" },
        settings.text(Key::Tile, ""),
        match settings.atom.tensor() {
            None => settings.text(Key::Thread, ""),
            Some((Unit::Warp, _)) => settings.text(Key::Warp, ""),
            Some((Unit::WarpGroup, _)) => settings.text(Key::Warp, "64 rows a warp group"),
        },
        count(geometry.threads, "thread")
    );
    let finding = findings.error(
        "specialize-consumers",
        Key::Specialize,
        &[Key::Tile, Key::Thread, Key::Warp, Key::Atom],
        message,
    );
    // Warp groups share the tile's rows, 64 at a time.
    let blocks = settings.shape.tile.map_or(0, |tile| tile.m / WGMMA_ROWS);
    if let (Some((_, columns, _)), Some(tile), Some(_)) =
        (settings.atom.of_group(), settings.shape.tile, settings.shape.warp)
    {
        for group in group_parts(tile, Extent2 { m: WGMMA_ROWS, n: columns }) {
            let groups = (tile.m / group.m).saturating_mul(tile.n / group.n);
            if groups.saturating_mul(4) == named {
                let warp = format!("warp({}, {})", group.m, group.n);
                finding.set(&warp, format!("{warp} makes {groups} warp groups"));
            }
        }
    } else if settings.atom.of_group().is_some() {
        for groups in (1..=blocks.min(7)).rev().filter(|groups| blocks.is_multiple_of(*groups)) {
            let shared = text(SpecializeClause { consumers: Some(WarpCount::Groups(groups)), ..clause });
            finding.set(&shared, format!("with {shared} each computes {} rows", blocks / groups * WGMMA_ROWS));
        }
    }
    let all = text(SpecializeClause { consumers: None, ..clause });
    finding.set(&all, format!("{all} takes what there is"));
}

/// Producers and consumers together are one block.
fn block_size(settings: &Settings, clause: SpecializeClause, geometry: &Geometry, findings: &mut Findings) {
    let (threads, multiply) = (settings.threads(geometry), settings.consumer_threads(geometry));
    if threads <= MAX_THREADS {
        return;
    }
    let message = format!(
        "{}: {} threads to multiply and {} to copy are {threads}, at most {MAX_THREADS}",
        text(clause),
        multiply,
        threads - multiply
    );
    let finding = findings.error("specialize-threads", Key::Specialize, &[Key::Tile, Key::Thread, Key::Warp], message);
    let left = (MAX_THREADS - multiply.min(MAX_THREADS)) / WARP;
    // Offer all the warps that fit, and fewer: all threads share the registers.
    for warps in [left, left / 2, 8, 4, 2, 1].into_iter().filter(|warps| (1..=left).contains(warps)) {
        let fewer = text(SpecializeClause { producers: WarpCount::Warps(warps), ..clause });
        finding.set(&fewer, format!("{fewer} fits"));
    }
    if settings.turns() > 2 {
        let fewer = text(SpecializeClause { consumers: Some(WarpCount::Groups(2)), ..clause });
        finding.set(&fewer, format!("{fewer} has two consumers"));
    }
    if let Some(thread) = settings.shape.thread {
        for (m, n) in [(1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4), (8, 8)] {
            let larger = format!("thread({}, {})", u64::from(thread.m) * m, u64::from(thread.n) * n);
            finding.set(&larger, format!("{larger} leaves room for producers"));
        }
    }
    finding.remove("specialize", "leave specialize out");
}

/// The rules of `registers`: whole warp groups that share the registers of a multiprocessor.
fn budget(settings: &Settings, clause: SpecializeClause, geometry: Option<&Geometry>, findings: &mut Findings) {
    let Some(Clause::Registers(registers)) = settings.get(Key::Registers) else { return };
    let made = || geometry.map(|geometry| warps_or_groups(settings.consumer_threads(geometry).div_ceil(WARP)));
    let Some(consumers) = clause.consumers.or_else(made) else { return };
    let (WarpCount::Groups(producers), WarpCount::Groups(consumers)) = (clause.producers, consumers) else {
        let message = format!(
            "{} needs whole warp groups, {} has {}",
            settings.text(Key::Registers, ""),
            text(clause),
            if let WarpCount::Groups(_) = clause.producers { consumers } else { clause.producers }
        );
        let whole = |count| if let WarpCount::Warps(n) = count { WarpCount::Groups(n.div_ceil(4)) } else { count };
        let fixed = text(SpecializeClause {
            producers: whole(clause.producers),
            consumers: clause.consumers.map(whole),
            ..clause
        });
        findings
            .error("warp-groups", Key::Registers, &[Key::Specialize, Key::Tile, Key::Thread, Key::Warp], message)
            .set(&fixed, format!("{fixed} has groups"))
            .remove("registers", "leave registers out");
        return;
    };
    // The registers of the block's threads at launch, which the groups share.
    let groups = producers.saturating_add(consumers);
    let threads = groups.saturating_mul(WARP_GROUP);
    let limit =
        u64::from(registers_per_thread(threads, settings.limits.blocks_per_sm.unwrap_or(1))) * u64::from(groups);
    let sum =
        u64::from(producers) * u64::from(registers.producer) + u64::from(consumers) * u64::from(registers.consumer);
    if sum > limit {
        let message = format!(
            "{}: the {groups} warp groups ask for {sum} registers per lane, and have {limit}",
            settings.text(Key::Registers, "")
        );
        let left = limit.saturating_sub(u64::from(producers) * 24) / u64::from(consumers).max(1) / 8 * 8;
        let text = format!("registers(producer = 24, consumer = {})", left.clamp(24, 240));
        findings
            .error(
                "register-budget",
                Key::Registers,
                &[Key::Specialize, Key::Tile, Key::Thread, Key::Warp, Key::BlocksPerSm],
                message,
            )
            .set(&text, format!("{text} fits"));
    }
}

fn warps_or_groups(warps: u32) -> WarpCount {
    if warps.is_multiple_of(4) { WarpCount::Groups(warps / 4) } else { WarpCount::Warps(warps) }
}
