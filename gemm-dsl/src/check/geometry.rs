//! The threads of a block: tile, warp, thread, fragment and lanes. With tensor cores the instructions fix them.

use crate::atoms::WGMMA_ROWS;
use crate::atoms::{Unit, WGMMA_COLUMNS};
use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, SpecializeClause, TileClause, WarpCount};
use crate::plan::Geometry;
use crate::table::Key;
use crate::target::{MAX_THREADS, WARP, WARP_GROUP};
use crate::terms::{Along, Extent2};

/// Derives the geometry; `None` if a rule is broken.
pub(super) fn derive(settings: &Settings, findings: &mut Findings) -> Option<Geometry> {
    match settings.atom.tensor() {
        None => threads(settings, findings),
        Some((Unit::Warp, (rows, columns, _))) => warps(settings, Extent2 { m: rows, n: columns }, findings),
        Some((Unit::WarpGroup, (_, columns, _))) => warp_groups(settings, columns, findings),
    }
}

/// A thread's share of one matrix instruction: two adjacent columns of every eighth row, repeated every eight columns
/// (PTX ISA, accumulators of `mma.m16n8` and of `wgmma.m64nN`).
const FRAGMENT: Extent2 = Extent2 { m: 1, n: 2 };
const LANES: Extent2 = Extent2 { m: 8, n: 4 };

/// The rows of a `wgmma` that one of its four warps holds.
pub(super) const WARP_ROWS: u32 = 16;

/// The geometry of warps that each compute `region` by matrix instructions. A warp group that computes 64 rows several
/// times gives each warp 16 rows each time; the warp's region is their union.
fn by_matrix(tile: TileClause, region: Extent2) -> Geometry {
    let thread = Extent2 { m: region.m / LANES.m, n: region.n / LANES.n };
    let regions = Extent2 { m: tile.m / region.m, n: tile.n / region.n };
    Geometry {
        threads: regions.m * regions.n * LANES.m * LANES.n,
        region,
        grid: LANES,
        regions,
        along: Along::N,
        thread,
        fragment: FRAGMENT,
        repeat: Extent2 { m: thread.m / FRAGMENT.m, n: thread.n / FRAGMENT.n },
        stride: Extent2 { m: LANES.m * FRAGMENT.m, n: LANES.n * FRAGMENT.n },
    }
}

/// Each warp computes its tile by instructions of the shape `atom`.
fn warps(settings: &Settings, atom: Extent2, findings: &mut Findings) -> Option<Geometry> {
    let before = findings.list.len();
    let tile = settings.shape.tile.filter(|tile| tile.m > 0 && tile.n > 0)?;
    let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
    let Some(warp) = settings.shape.warp else {
        let message = format!("no warp: with {} a schedule says what one warp computes", settings.text(Key::Atom, ""));
        let finding = findings.error("required", Key::Warp, &[Key::Atom, Key::Tile], message);
        for (m, n) in [(64, 64), (64, 32), (32, 64), (32, 32), (16, 32), (16, 16), (16, 8)] {
            let text = format!("warp({m}, {n})");
            finding.set(&text, format!("add {text}"));
        }
        return None;
    };
    if warp.m == 0 || warp.n == 0 || atom.m == 0 || atom.n == 0 {
        return None;
    }
    let warp2 = Extent2 { m: warp.m, n: warp.n };
    if !warp.m.is_multiple_of(atom.m) || !warp.n.is_multiple_of(atom.n) {
        not_of_atoms(settings, warp2, atom, findings);
    }
    divides(settings, (Key::Warp, warp2), (Key::Tile, Extent2 { m: tile.m, n: tile.n }), findings);
    warp_depth(settings, warp, tile, findings);
    if findings.list.len() > before {
        return None;
    }
    let count = u64::from(tile.m / warp.m) * u64::from(tile.n / warp.n);
    let threads = count * u64::from(LANES.m * LANES.n);
    if threads > u64::from(MAX_THREADS) {
        let message = format!(
            "{} / {} = {count} warps of 32 threads, and a block has at most {MAX_THREADS}",
            settings.text(Key::Tile, ""),
            settings.text(Key::Warp, "")
        );
        let finding = findings.error("threads", Key::Tile, &[Key::Warp], message);
        for (m, n) in [(2, 1), (1, 2), (2, 2), (4, 2), (4, 4)] {
            let text = format!("warp({}, {})", warp.m.saturating_mul(m), warp.n.saturating_mul(n));
            finding.set(&text, format!("{text} makes {}", count / u64::from(m * n)));
            let text = format!("tile({}, {}{depth})", tile.m / m, tile.n / n);
            finding.set(&text, format!("{text} has {}", count / u64::from(m * n)));
        }
        return None;
    }
    Some(by_matrix(tile, warp2))
}

/// The part of a warp or warp group must consist of whole instructions.
fn not_of_atoms(settings: &Settings, part: Extent2, atom: Extent2, findings: &mut Findings) {
    let message = format!(
        "{} is not made of {} x {}, which {} computes at once",
        settings.text(Key::Warp, ""),
        atom.m,
        atom.n,
        settings.text(Key::Atom, "")
    );
    let finding = findings.error("atom-warp", Key::Warp, &[Key::Atom], message);
    let near = part.m.checked_next_multiple_of(atom.m).zip(part.n.checked_next_multiple_of(atom.n));
    let others = match (settings.atom.of_group(), settings.shape.tile) {
        (Some(_), Some(tile)) => nearest_group_parts(tile, atom, part),
        _ => vec![(64, 64), (32, 32), (16, 16), (16, 8)],
    };
    for (m, n) in near.into_iter().chain(others) {
        let text = format!("warp({m}, {n})");
        finding.set(&text, format!("{text} is"));
    }
}

/// The parts of a tile that a warp group can compute by instructions of the shape `atom`: it divides them, and they divide
/// the tile.
pub(super) fn group_parts(tile: TileClause, atom: Extent2) -> Vec<Extent2> {
    // No block has more warp groups along one extent.
    let most = MAX_THREADS / WARP_GROUP;
    let parts = |whole: u32, atom: u32| {
        let part = move |count: &u32| whole.is_multiple_of(*count) && (whole / count).is_multiple_of(atom.max(1));
        (1..=most).filter(part).map(move |count| whole / count)
    };
    parts(tile.m, atom.m).flat_map(|m| parts(tile.n, atom.n).map(move |n| Extent2 { m, n })).collect()
}

/// The same, nearest to `part` first.
fn nearest_group_parts(tile: TileClause, atom: Extent2, part: Extent2) -> Vec<(u32, u32)> {
    let mut all = group_parts(tile, atom);
    all.sort_by_key(|of| u64::from(of.m.abs_diff(part.m)) + u64::from(of.n.abs_diff(part.n)));
    all.into_iter().map(|part| (part.m, part.n)).collect()
}

/// Each warp group computes what `warp` says; without it, 64 rows of the tile, or several blocks of 64 rows if there are
/// fewer consumers. Its instructions have `columns` columns.
fn warp_groups(settings: &Settings, columns: u32, findings: &mut Findings) -> Option<Geometry> {
    let before = findings.list.len();
    let tile = settings.shape.tile.filter(|tile| tile.m > 0 && tile.n > 0)?;
    let (whole, atom) = (Extent2 { m: tile.m, n: tile.n }, Extent2 { m: WGMMA_ROWS, n: columns });
    // For a shape that does not exist there is nothing more to report.
    if !WGMMA_COLUMNS.contains(&columns) || !columns.is_multiple_of(LANES.m) {
        return None;
    }
    if !whole.m.is_multiple_of(atom.m) || !whole.n.is_multiple_of(atom.n) {
        let message = format!(
            "{} is not made of {} x {}, which {} computes at once",
            settings.text(Key::Tile, ""),
            atom.m,
            atom.n,
            settings.text(Key::Atom, "")
        );
        let finding = findings.error("atom-tile", Key::Tile, &[Key::Atom], message);
        let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
        let (m, n) = (whole.m.next_multiple_of(atom.m), whole.n.next_multiple_of(atom.n));
        for (m, n) in [(m, n), (m.min(256), n), (atom.m, atom.n), (2 * atom.m, atom.n)] {
            let text = format!("tile({m}, {n}{depth})");
            finding.set(&text, format!("{text} is"));
        }
        let narrower = |n: &u32| whole.n.is_multiple_of(*n);
        if let (true, Some(n), Some((m, _, k))) =
            (whole.m.is_multiple_of(atom.m), (8..=256).rev().step_by(8).find(narrower), settings.atom.of_group())
        {
            let text = format!("atom(wgmma({m}, {n}, {k}))");
            finding.set(&text, format!("{text} divides it"));
        }
    }
    if findings.list.len() > before {
        return None;
    }
    let group = match settings.shape.warp {
        Some(warp) => divided(settings, warp, tile, atom, findings)?,
        None => Extent2 { m: tile.m / undivided(settings, tile.m / WGMMA_ROWS), n: tile.n },
    };
    let groups = u64::from(tile.m / group.m) * u64::from(tile.n / group.n);
    let threads = groups * u64::from(WARP_GROUP);
    if threads > u64::from(MAX_THREADS) {
        too_many_groups(settings, tile, groups, findings);
        return None;
    }
    let warps = WARP_GROUP / WARP;
    Some(by_matrix(tile, Extent2 { m: group.m / warps, n: group.n }))
}

/// The number of warp groups that share `blocks` blocks of 64 rows, in a schedule without `warp`.
fn undivided(settings: &Settings, blocks: u32) -> u32 {
    match settings.roles.specialize.and_then(|specialize| specialize.consumers).map(WarpCount::warps) {
        // A ping-pong consumer computes all of them.
        _ if settings.turns() > 1 => 1,
        // Another number is reported separately.
        Some(warps) if warps > 0 && warps.is_multiple_of(4) && blocks.is_multiple_of(warps / 4) => warps / 4,
        _ => blocks,
    }
}

/// What each warp group computes according to `warp`.
fn divided(
    settings: &Settings,
    warp: TileClause,
    tile: TileClause,
    atom: Extent2,
    findings: &mut Findings,
) -> Option<Extent2> {
    let before = findings.list.len();
    if warp.m == 0 || warp.n == 0 {
        return None;
    }
    let (group, whole) = (Extent2 { m: warp.m, n: warp.n }, Extent2 { m: tile.m, n: tile.n });
    if settings.turns() > 1 && group != whole {
        let message = format!(
            "{} conflicts with {}: a consumer that takes turns computes a whole tile, {}",
            settings.text(Key::Warp, ""),
            settings.text(Key::Specialize, ""),
            settings.text(Key::Tile, "")
        );
        let finding = findings.error("pingpong-warp", Key::Warp, &[Key::Specialize, Key::Tile], message);
        finding.remove("warp", "leave warp out");
        if let Some(clause) = settings.roles.specialize {
            let together = Clause::Specialize(SpecializeClause { roles: None, ..clause });
            finding.set(&together, format!("{together} computes each tile together"));
        }
        return None;
    }
    if !group.m.is_multiple_of(atom.m) || !group.n.is_multiple_of(atom.n) {
        not_of_atoms(settings, group, atom, findings);
    } else {
        divides(settings, (Key::Warp, group), (Key::Tile, whole), findings);
    }
    warp_depth(settings, warp, tile, findings);
    (findings.list.len() == before).then_some(group)
}

/// More warp groups than a block can have.
fn too_many_groups(settings: &Settings, tile: TileClause, groups: u64, findings: &mut Findings) {
    let threads = groups * u64::from(WARP_GROUP);
    let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
    let (m, n) = settings.shape.warp.map_or((WGMMA_ROWS, tile.n), |warp| (warp.m, warp.n));
    let message = match settings.shape.warp {
        Some(_) => format!(
            "{} / {} = {groups} warp groups: {threads} threads, at most {MAX_THREADS}",
            settings.text(Key::Tile, ""),
            settings.text(Key::Warp, "")
        ),
        None => format!(
            "{} has {groups} groups of 64 rows, each of a warp group: {threads} threads, at most {MAX_THREADS}",
            settings.text(Key::Tile, "")
        ),
    };
    let finding = findings.error("threads", Key::Tile, &[Key::Atom, Key::Warp], message);
    if settings.shape.warp.is_some() {
        for (by_m, by_n) in [(2, 1), (1, 2), (2, 2), (4, 1), (4, 2), (4, 4)] {
            let text = format!("warp({}, {})", m.saturating_mul(by_m), n.saturating_mul(by_n));
            finding.set(&text, format!("{text} makes {} warp groups", groups / u64::from(by_m * by_n)));
        }
    }
    for rows in [256_u32, 192, 128] {
        let text = format!("tile({rows}, {}{depth})", tile.n);
        let groups = u64::from(rows.div_ceil(m)) * u64::from(tile.n / n);
        finding.set(&text, format!("{text} takes {} threads", groups * u64::from(WARP_GROUP)));
    }
}

/// The geometry of `atom(fma)`.
fn threads(settings: &Settings, findings: &mut Findings) -> Option<Geometry> {
    let before = findings.list.len();
    let (tile, thread) = (settings.shape.tile?, settings.shape.thread?);
    let fragment = settings.shape.fragment.unwrap_or(thread);
    if [tile.m, tile.n, thread.m, thread.n, fragment.m, fragment.n].contains(&0) {
        return None;
    }
    divisions(settings, tile, thread, fragment, findings);
    let region = match settings.shape.warp {
        Some(warp) if warp.m == 0 || warp.n == 0 => return None,
        Some(warp) => Extent2 { m: warp.m, n: warp.n },
        None => Extent2 { m: tile.m, n: tile.n },
    };
    let grid = Extent2 { m: region.m / thread.m, n: region.n / thread.n };
    let regions = Extent2 { m: tile.m / region.m, n: tile.n / region.n };
    let threads = u64::from(tile.m / thread.m) * u64::from(tile.n / thread.n);
    if findings.list.len() > before {
        return None;
    }
    lanes(settings, region, grid, findings);
    block_size(tile, thread, threads, findings);
    if findings.list.len() > before {
        return None;
    }
    let repeat = Extent2 { m: thread.m / fragment.m, n: thread.n / fragment.n };
    Some(Geometry {
        threads: threads as u32,
        region,
        grid,
        regions,
        along: settings.shape.along,
        thread,
        fragment,
        repeat,
        stride: Extent2 { m: region.m / repeat.m, n: region.n / repeat.n },
    })
}

/// Each level must divide evenly into pieces of the next one.
fn divisions(settings: &Settings, tile: TileClause, thread: Extent2, fragment: Extent2, findings: &mut Findings) {
    let tile2 = Extent2 { m: tile.m, n: tile.n };
    if let Some(warp) = settings.shape.warp.filter(|warp| warp.m > 0 && warp.n > 0) {
        let warp2 = Extent2 { m: warp.m, n: warp.n };
        divides(settings, (Key::Warp, warp2), (Key::Tile, tile2), findings);
        warp_depth(settings, warp, tile, findings);
        divides(settings, (Key::Thread, thread), (Key::Warp, warp2), findings);
    } else {
        divides(settings, (Key::Thread, thread), (Key::Tile, tile2), findings);
    }
    divides(settings, (Key::Fragment, fragment), (Key::Thread, thread), findings);
}

/// The depth of a warp's tile must divide the staged depth.
fn warp_depth(settings: &Settings, warp: TileClause, tile: TileClause, findings: &mut Findings) {
    let (Some(part), Some(whole)) = (warp.k, tile.k) else { return };
    if whole.is_multiple_of(part) {
        return;
    }
    let message = format!(
        "the depth {part} of {} does not divide the depth {whole} of {}",
        settings.text(Key::Warp, ""),
        settings.text(Key::Tile, "")
    );
    let finding = findings.error("warp-depth", Key::Warp, &[Key::Tile], message);
    for k in divisors_near(whole, part) {
        let text = format!("warp({}, {}, {k})", warp.m, warp.n);
        finding.set(&text, format!("{text} does"));
    }
}

fn divides(settings: &Settings, part: (Key, Extent2), whole: (Key, Extent2), findings: &mut Findings) {
    let ((part_key, part), (whole_key, whole)) = (part, whole);
    let remainder = |dimension: char, whole: u32, part: u32| {
        (!whole.is_multiple_of(part))
            .then(|| format!("along {dimension} {whole} = {} x {part} + {}", whole / part, whole % part))
    };
    let problems: Vec<String> =
        [remainder('m', whole.m, part.m), remainder('n', whole.n, part.n)].into_iter().flatten().collect();
    if problems.is_empty() {
        return;
    }
    let message = format!(
        "{} does not divide {}: {}",
        settings.text(part_key, ""),
        settings.text(whole_key, ""),
        problems.join(", ")
    );
    let finding = findings.error("divide", part_key, &[whole_key], message);
    let name = crate::table::of(part_key).name;
    if let (Key::Warp, Some((_, columns, _)), Some(tile)) = (part_key, settings.atom.of_group(), settings.shape.tile) {
        for (m, n) in nearest_group_parts(tile, Extent2 { m: WGMMA_ROWS, n: columns }, part) {
            let text = format!("{name}({m}, {n})");
            finding.set(&text, format!("{text} does"));
        }
    }
    for m in divisors_near(whole.m, part.m) {
        for n in divisors_near(whole.n, part.n) {
            let text = format!("{name}({m}, {n})");
            finding.set(&text, format!("{text} does"));
        }
    }
    // If no smaller part is legal, a larger tile may be.
    if let (Key::Tile, Some(tile)) = (whole_key, settings.shape.tile) {
        let (m, n) = (tile.m.checked_next_multiple_of(part.m), tile.n.checked_next_multiple_of(part.n));
        if let (Some(m), Some(n)) = (m, n) {
            let text = Clause::Tile(TileClause { m, n, ..tile }).to_string();
            finding.set(&text, format!("it divides {text}"));
        }
    }
}

/// Smaller thread tiles that divide `thread`, and therefore everything it divides: largest first, then squarest.
pub(super) fn parts(thread: Extent2) -> Vec<Extent2> {
    let divisors = |whole: u32| (1..=whole.min(1024)).filter(move |d| whole.is_multiple_of(*d));
    let mut all: Vec<Extent2> =
        divisors(thread.m).flat_map(|m| divisors(thread.n).map(move |n| Extent2 { m, n })).collect();
    all.sort_by_key(|part| (std::cmp::Reverse(part.m * part.n), part.m.abs_diff(part.n), std::cmp::Reverse(part.m)));
    all
}

/// Up to four divisors of `whole`, nearest to `part` first.
fn divisors_near(whole: u32, part: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (1..=whole.min(1024)).filter(|d| whole.is_multiple_of(*d)).collect();
    all.sort_by_key(|d| (d.abs_diff(part), std::cmp::Reverse(*d)));
    all.truncate(4);
    all
}

fn lanes(settings: &Settings, region: Extent2, grid: Extent2, findings: &mut Findings) {
    let lanes = u64::from(grid.m) * u64::from(grid.n);
    let Some(thread) = settings.shape.thread else { return };
    if settings.shape.warp.is_some() {
        if lanes != 32 {
            let message = format!(
                "{} / {} = {} x {} = {lanes} lanes, a warp has 32",
                settings.text(Key::Warp, ""),
                settings.text(Key::Thread, ""),
                grid.m,
                grid.n
            );
            let finding = findings.error("lanes", Key::Warp, &[Key::Thread], message);
            for (m, n) in [(4, 8), (8, 4), (2, 16), (16, 2), (1, 32), (32, 1)] {
                let text = format!("warp({}, {})", m * u64::from(thread.m), n * u64::from(thread.n));
                finding.set(&text, format!("{text} has 32"));
            }
            for (m, n) in [(4, 8), (8, 4), (2, 16), (16, 2), (1, 32), (32, 1)] {
                if region.m.is_multiple_of(m) && region.n.is_multiple_of(n) {
                    let text = format!("thread({}, {})", region.m / m, region.n / n);
                    finding.set(&text, format!("{text} gives 32"));
                }
            }
        } else if settings.shape.along == Along::Z && (grid.m, grid.n) != (4, 8) {
            let message = format!(
                "lanes(along = z) numbers 4 x 8 lanes, {} has {} x {}",
                settings.text(Key::Warp, ""),
                grid.m,
                grid.n
            );
            let text = format!("warp({}, {})", 4 * u64::from(thread.m), 8 * u64::from(thread.n));
            findings
                .error("lanes-z", Key::Lanes, &[Key::Warp, Key::Thread], message)
                .set(&text, format!("{text} has 4 x 8"))
                .set("lanes(along = n)", "lanes(along = n) takes any shape");
        }
    } else if settings.shape.along == Along::Z {
        let text = format!("warp({}, {})", 4 * u64::from(thread.m), 8 * u64::from(thread.n));
        findings
            .error(
                "lanes-z",
                Key::Lanes,
                &[Key::Warp, Key::Thread],
                "lanes(along = z) is an order within a warp tile, and there is no warp clause",
            )
            .set(&text, format!("add {text}"))
            .set("lanes(along = n)", "lanes(along = n) needs none");
    }
}

fn block_size(tile: TileClause, thread: Extent2, threads: u64, findings: &mut Findings) {
    if threads <= u64::from(MAX_THREADS) {
        return;
    }
    let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
    let message = format!(
        "tile({}, {}{depth}) / thread({}, {}) = {threads} threads, at most {MAX_THREADS}",
        tile.m, tile.n, thread.m, thread.n
    );
    let finding = findings.error("threads", Key::Tile, &[Key::Thread], message);
    for (m, n) in [(1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4), (4, 8), (8, 4), (8, 8), (16, 16), (32, 32)] {
        let (m, n) = (u64::from(thread.m) * m, u64::from(thread.n) * n);
        let text = format!("thread({m}, {n})");
        let left = (u64::from(tile.m) / m) * (u64::from(tile.n) / n);
        finding.set(&text, format!("{text} gives {left}"));
    }
}
