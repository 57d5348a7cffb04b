//! Tensor-core atoms: shapes and types.

use crate::atoms::{Columns, Multiply, Unit, WGMMA_COLUMNS};
use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, Emulation, SharedClause, Skew, StagedOrder, TileClause};
use crate::instead;
use crate::table::Key;
use crate::target::MAX_ACCESS_BYTES;
use crate::terms::{Fast, Load, Side};
use crate::types::DType;

/// The maximum number of other tiles to try for a shape.
const MAX_TILES: usize = 12;

pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    // A shape that does not exist says nothing about the tile.
    match settings.atom.tensor() {
        None => {}
        Some((Unit::Warp, shape)) => {
            if mma(settings, shape, findings) {
                whole_depth(settings, shape.2, findings);
            }
            from_rows(settings, findings);
        }
        Some((Unit::WarpGroup, (m, n, k))) => {
            let shape = wgmma(settings, (m, n, k), findings).then_some((n, k));
            let whole = shape.map(|(_, depth)| whole_depth(settings, depth, findings));
            from_shared(settings, shape.map(|(columns, _)| columns), whole == Some(true), findings);
        }
    }
}

/// Checks `mma.sync` shapes (PTX ISA, "Matrix multiply-accumulate operation using mma"). True if the shape exists.
fn mma(settings: &Settings, shape: (u32, u32, u32), findings: &mut Findings) -> bool {
    let dtype = settings.factor(Side::A);
    if !multiplies(Unit::Warp, settings, findings) {
        return false;
    }
    let legal = Multiply::of(Unit::Warp, dtype).any(|row| row.has(shape));
    if !legal {
        let texts = Multiply::of(Unit::Warp, dtype).map(|row| Clause::Atom(row.atom()).to_string());
        let shapes: Vec<String> = Multiply::of(Unit::Warp, dtype)
            .map(|row| {
                let (_, (m, n, k)) = row.atom().tensor().unwrap_or((row.unit, shape));
                format!("{m} x {n} x {k}")
            })
            .collect();
        let atom = settings.text(Key::Atom, "");
        let message = format!("{atom}: no such shape for {dtype}; it is {}", shapes.join(" or "));
        let finding = findings.error("atom-shape", Key::Atom, &[Key::Types], message);
        for text in texts {
            finding.set(&text, format!("{text} exists"));
        }
        for text in instead::by_threads(settings.shape.warp) {
            finding.last_resort(&text, format!("threads multiply {dtype}: {text}"));
        }
    }
    legal
}

/// Checks `wgmma` shapes: m64, n from 8 to 256 by 8 (integers 8, 16, 24, 32, then by 16), k of 32 bytes. True if the
/// shape exists.
fn wgmma(settings: &Settings, shape: (u32, u32, u32), findings: &mut Findings) -> bool {
    let dtype = settings.factor(Side::A);
    if !multiplies(Unit::WarpGroup, settings, findings) {
        return false;
    }
    let Some(row) = Multiply::of(Unit::WarpGroup, dtype).next() else { return false };
    if row.has(shape) {
        return true;
    }
    let (depth, step) = (row.depth, row.columns.step(shape.1));
    let message = format!(
        "{}: no such shape for {dtype}; it is 64 x N x {depth} with N a multiple of {step} from {} to {}",
        settings.text(Key::Atom, ""),
        WGMMA_COLUMNS.start(),
        WGMMA_COLUMNS.end()
    );
    let finding = findings.error("atom-shape", Key::Atom, &[Key::Types], message);
    // The nearest shapes first; the tile stays if they divide it.
    let mut columns: Vec<u32> = WGMMA_COLUMNS.filter(|n| Columns::Many(16).has(*n)).collect();
    columns.sort_by_key(|n| (n.abs_diff(shape.1), std::cmp::Reverse(*n)));
    let divides = |n: &u32| settings.shape.tile.is_none_or(|tile| tile.n.is_multiple_of(*n));
    for columns in columns.iter().filter(|n| divides(n)) {
        let text = format!("atom(wgmma(64, {columns}, {depth}))");
        finding.set(&text, format!("{text} exists"));
    }
    if let Some(tile) = settings.shape.tile {
        let k = tile.k.map(|k| k.next_multiple_of(depth));
        let of = |columns: &u32| {
            [tile.n.next_multiple_of(*columns), *columns].map(|n| (*columns, TileClause { n, k, ..tile }))
        };
        let mut both: Vec<(u32, TileClause)> = columns.iter().flat_map(of).collect();
        both.sort_by_key(|(_, changed)| changed.n.abs_diff(tile.n));
        // A tile wider than any instruction may need too many accumulators.
        let narrow = [256, 128, 64].map(|n| (n, TileClause { n, k, ..tile }));
        let others = both.into_iter().filter(|(_, changed)| *changed != tile).take(MAX_TILES);
        for (columns, tile) in others.chain(narrow) {
            let text = format!("atom(wgmma(64, {columns}, {depth})); {}", Clause::Tile(tile));
            finding.set(&text, format!("{text} exist"));
        }
    }
    for text in instead::by_threads(settings.shape.warp) {
        finding.last_resort(&text, format!("threads multiply {dtype}: {text}"));
    }
    false
}

/// The staged depth must be a multiple of the instruction's depth.
fn whole_depth(settings: &Settings, depth: u32, findings: &mut Findings) -> bool {
    let Some(tile) = settings.shape.tile else { return true };
    let Some(k) = tile.k.filter(|k| depth > 0 && !k.is_multiple_of(depth)) else { return true };
    let message = format!(
        "the depth {k} of {} is not a multiple of {depth}, which {} multiplies at once",
        settings.text(Key::Tile, ""),
        settings.text(Key::Atom, "")
    );
    let finding = findings.error("atom-depth", Key::Tile, &[Key::Atom], message);
    let multiples = [4, 2, 1].map(|n: u32| Some(n.saturating_mul(depth)));
    for k in [k.checked_next_multiple_of(depth)].into_iter().chain(multiples).flatten() {
        let text = Clause::Tile(TileClause { k: Some(k), ..tile }).to_string();
        finding.set(&text, format!("{text} is"));
    }
    false
}

/// The requirements of `ldmatrix` on the tiles that it reads: rows of whole 16-byte pieces, at multiples of 16 bytes.
fn from_rows(settings: &Settings, findings: &mut Findings) {
    let Some((a, b)) = settings.staged.shared else {
        return nothing_staged(settings, findings);
    };
    along_k(settings, findings);
    let Some(tile) = settings.shape.tile else { return };
    let [of_a, of_b] = [Side::A, Side::B].map(|side| settings.factor(side));
    for (name, order, extent, dtype) in [("A", a, tile.m, of_a), ("B", b, tile.n, of_b)] {
        let row = if order.fast == Fast::K { tile.k.unwrap_or(0) } else { extent };
        let pad = if let Skew::Pad(elements) = order.skew { elements } else { 0 };
        let bytes = (u64::from(row) + u64::from(pad)) * u64::from(dtype.bytes());
        if !bytes.is_multiple_of(u64::from(MAX_ACCESS_BYTES)) {
            let message = format!(
                "{} reads pieces of {MAX_ACCESS_BYTES} B, and the rows of {name}'s tile are {bytes} B apart",
                settings.text(Key::Atom, "")
            );
            findings
                .error("atom-rows", Key::Shared, &[Key::Atom, Key::Tile, Key::Types, Key::Layout], message)
                .remove("shared", "leave shared out: rows are then shifted by 16 B, or swizzled");
        }
    }
}

/// Tensor cores transpose tiles of 16-bit elements alone; others must be contiguous along k. True if they are.
fn along_k(settings: &Settings, findings: &mut Findings) -> bool {
    let Some((a, b)) = settings.staged.shared else { return true };
    let across = |(side, order): &(Side, StagedOrder)| order.fast == Fast::Mn && !settings.reads_any_order(*side);
    let Some((side, _)) = [(Side::A, a), (Side::B, b)].into_iter().find(across) else { return true };
    let (atom, dtype) = (settings.text(Key::Atom, ""), settings.factor(side));
    let (name, along) = if side == Side::A { ("A", "m") } else { ("B", "n") };
    let message = format!("{atom} reads {dtype} along k, and {name}'s tile is contiguous along {along}");
    findings
        .error("atom-order", Key::Shared, &[Key::Atom, Key::Types], message)
        .remove("shared", "leave shared out: tiles are then contiguous along k")
        .set("shared(a = mk, b = nk)", "shared(a = mk, b = nk) are contiguous along k");
    false
}

fn nothing_staged(settings: &Settings, findings: &mut Findings) {
    let message = format!("{} reads operands from shared memory, and nothing is staged", settings.text(Key::Atom, ""));
    findings
        .error("atom-shared", Key::Shared, &[Key::Atom], message)
        .remove("shared", "leave shared out: operands are staged as they are in memory, free of bank conflicts");
}

/// The requirements of `wgmma` on the tiles that it reads from shared memory.
fn from_shared(settings: &Settings, columns: Option<u32>, whole_depth: bool, findings: &mut Findings) {
    if settings.staged.load != Load::Tma {
        let load = settings.text(Key::Load, "load(registers)");
        let message = format!(
            "{} reads what TMA has copied, and {load} writes shared memory by threads, which tensor cores see only after \
             a fence",
            settings.text(Key::Atom, "")
        );
        findings
            .error("atom-load", Key::Atom, &[Key::Load], message)
            .set("load(tma)", "load(tma) copies for it")
            .set("load(tma); stages(3)", "load(tma); stages(3) copy for it")
            .set("load(tma); stages(2)", "load(tma); stages(2) copy for it");
    }
    let Some((a, b)) = settings.staged.shared else {
        return nothing_staged(settings, findings);
    };
    if !along_k(settings, findings) {
        return;
    }
    // The rows are meaningless for a shape that does not exist, or for a wrong depth.
    let Some(bytes) = columns.filter(|_| whole_depth).map(|columns| columns * settings.factor(Side::B).bytes()) else {
        return;
    };
    let depends = [Key::Atom, Key::Tile, Key::Types, Key::Layout];
    let atom = settings.text(Key::Atom, "");
    if b.fast == Fast::Mn && !bytes.is_multiple_of(32) {
        let message = format!("{atom} reads {bytes} B of a row of B's tile, which no swizzle of 32 B or more divides");
        let finding = findings.error("atom-row", Key::Atom, &depends, message);
        // Or rows along k, for any number of columns: `pack` transposes B, or B has that order in memory.
        let along_k = StagedOrder { fast: Fast::K, skew: Skew::Swizzle(128) };
        let shared = Clause::Shared(SharedClause::Orders { a: Some(a), b: Some(along_k) });
        finding.set(&shared, format!("{shared} has rows along k"));
        if let (Some((_, n, _)), Some(tile)) = (settings.atom.of_group(), settings.shape.tile) {
            for columns in [n.next_multiple_of(16), 2 * n, 16].into_iter().filter(|n| WGMMA_COLUMNS.contains(n)) {
                let wider = Clause::Atom(settings.atom.with_columns(columns));
                finding.set(&wider, format!("{wider} reads {} B", columns * settings.factor(Side::B).bytes()));
                let n = tile.n.next_multiple_of(columns);
                let both = format!("{wider}; {}", Clause::Tile(TileClause { n, ..tile }));
                finding.set(&both, format!("{both} read {} B", columns * settings.factor(Side::B).bytes()));
            }
        }
        return;
    }
    let plain = [("A", a), ("B", b)].into_iter().find(|(_, order)| !matches!(order.skew, Skew::Swizzle(_)));
    if let Some((name, _)) = plain {
        let message = format!("{atom} reads swizzled tiles, and that of {name} is not");
        let finding = findings.error("atom-swizzle", Key::Shared, &depends, message);
        finding.remove("shared", "leave shared out: tiles are then swizzled as wide as their rows allow");
        // The same orders, as far as rows have a swizzle.
        let rows =
            settings.shape.tile.map(|tile| [tile.m, bytes / settings.factor(Side::B).bytes()].map(|own| (own, tile.k)));
        let swizzled = |order: StagedOrder, side: Side, (own, depth): (u32, Option<u32>)| {
            let row = if order.fast == Fast::K { depth? } else { own } * settings.factor(side).bytes();
            let span = [128, 64, 32].into_iter().find(|span| row.is_multiple_of(*span))?;
            Some(StagedOrder { skew: Skew::Swizzle(span), ..order })
        };
        let both = rows.and_then(|[of_a, of_b]| Some((swizzled(a, Side::A, of_a)?, swizzled(b, Side::B, of_b)?)));
        if let Some((a, b)) = both {
            let text = Clause::Shared(SharedClause::Orders { a: Some(a), b: Some(b) });
            finding.set(&text, format!("{text} swizzles them"));
        }
        return;
    }
    if let (Fast::Mn, Skew::Swizzle(span)) = (b.fast, b.skew)
        && span > 0
        && !bytes.is_multiple_of(span)
        && settings.shape.tile.is_none_or(|tile| columns != Some(tile.n))
    {
        let message = format!("{atom} reads {bytes} B of a row of B's tile, and swizzle({span}) permutes {span} B");
        let finding = findings.error("atom-panel", Key::Shared, &depends, message);
        for span in [64, 32] {
            let narrow = StagedOrder { skew: Skew::Swizzle(span), ..b };
            let text = Clause::Shared(SharedClause::Orders { a: Some(a), b: Some(narrow) });
            finding.set(&text, format!("{text} is legal"));
        }
        finding.remove("shared", "leave shared out: tiles are then swizzled as wide as their rows allow");
    }
}

/// True if the unit multiplies the schedule's types.
fn multiplies(unit: Unit, settings: &Settings, findings: &mut Findings) -> bool {
    let types = settings.problem.types;
    let of_unit = |dtype: &DType| Multiply::of(unit, *dtype).next().is_some();
    // The atom multiplies the types of planes.
    if settings.sums.emulation.is_some() {
        return true;
    }
    let Some(other) = [types.a, types.b].into_iter().find(|dtype| !of_unit(dtype)) else {
        return pairs(unit, settings, findings);
    };
    let names: Vec<&str> = DType::ALL.into_iter().filter(of_unit).map(DType::name).collect();
    let atom = unit.name();
    let message = format!("{atom} does not multiply {other}: it has {}", names.join(", "));
    let finding = findings.error("atom-types", Key::Atom, &[Key::Types, Key::Emulate], message);
    if [types.a, types.b] == [Emulation::OF; 2] {
        for text in emulated(settings) {
            let verb = if text.contains(';') { "multiply" } else { "multiplies" };
            finding.set(&text, format!("{text} {verb} f32 on tensor cores, as several products of bf16"));
        }
    }
    let types = [DType::Tf32, DType::Bf16, DType::F16, DType::I8].into_iter();
    let types = types.flat_map(|dtype| instead::with_type(dtype, settings.atom, settings.shape.tile));
    for text in types.chain(instead::by_threads(settings.shape.warp)) {
        finding.set(&text, format!("write {text}, for example"));
    }
    false
}

/// Changes that let tensor cores multiply f32, smallest first: `emulate`, instructions that multiply 16-bit planes, a
/// tile depth that these divide, and a tile that leaves registers for the promoted sums.
fn emulated(settings: &Settings) -> Vec<String> {
    let unit = settings.atom.tensor().map_or(Unit::Warp, |(unit, _)| unit);
    let of_planes = Multiply::of(unit, Emulation::Bf16x6.factor()).next().map_or(settings.atom, Multiply::atom);
    let atom = |columns: u32| Clause::Atom(of_planes.with_columns(columns));
    let of_tile = |tile: TileClause| {
        let columns = if let Some((_, n, _)) = settings.atom.of_group() { n.min(tile.n) } else { 8 };
        let atom = atom(columns);
        if atom == Clause::Atom(settings.atom) { String::new() } else { format!("; {atom}") }
    };
    let mut changes = vec![String::new()];
    if let Some(tile) = settings.shape.tile {
        let deeper = [tile.k.unwrap_or(0), 16, 32, 64].map(|k| TileClause { k: Some(k), ..tile });
        let smaller =
            [(128, 128), (64, 64)].map(|(m, n)| TileClause { m: tile.m.min(m), n: tile.n.min(n), k: Some(32) });
        for changed in deeper.into_iter().chain(smaller) {
            let text = if changed == tile { String::new() } else { format!("; {}", Clause::Tile(changed)) };
            changes.push(format!("{}{text}", of_tile(changed)));
        }
    }
    // Other needs of the instructions: `mma` a warp tile, `wgmma` copies by TMA.
    let needs: &[&str] = match unit {
        Unit::WarpGroup => &["", "; load(tma)"],
        Unit::Warp => &["", "; warp(64, 32)", "; warp(32, 32)"],
    };
    changes.iter().flat_map(|change| needs.iter().map(move |more| format!("emulate(bf16x6){change}{more}"))).collect()
}

/// Both operands must share a width and a family of types.
fn pairs(unit: Unit, settings: &Settings, findings: &mut Findings) -> bool {
    let types = settings.problem.types;
    let together = Multiply::of_unit(unit).any(|row| row.takes(types.a, types.b));
    if !together {
        let message = format!("{} does not multiply {} by {}", unit.name(), types.a, types.b);
        let finding = findings.error("atom-types", Key::Atom, &[Key::Types], message);
        for dtype in [types.a, types.b] {
            for text in instead::with_type(dtype, settings.atom, settings.shape.tile) {
                finding.set(&text, format!("{text} {} legal", if text.contains(';') { "are" } else { "is" }));
            }
        }
    }
    together
}
