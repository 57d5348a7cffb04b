//! The rules of `load(tma)`: the limits of a tensor map and its boxes (CUDA driver API, `cuTensorMapEncodeTiled`).

use crate::check::access::{Input, share_of_boxes, tma_width};
use crate::check::finding::{Finding, Findings};
use crate::check::output::Lines;
use crate::check::settings::Settings;
use crate::clause::{
    Clause, LayoutClause, PackClause, SharedClause, Skew, SpecializeClause, StagedOrder, TileClause, WarpCount,
};
use crate::table::Key;
use crate::target::{BOX_ALIGN, MAX_ACCESS_BYTES, MAX_BOX};
use crate::terms::{Fast, Load, Side, Store};
use crate::types::Layout;

/// The clauses that every rule about a box depends on.
const DEPENDS: [Key; 5] = [Key::Tile, Key::Shared, Key::Layout, Key::Types, Key::Load];

/// Checks every rule about `load(tma)` and `store(tma)`.
pub(super) fn check(settings: &Settings, inputs: Option<&[Input; 2]>, findings: &mut Findings) {
    stored(settings, findings);
    if settings.staged.load != Load::Tma {
        return;
    }
    producers(settings, findings);
    let transposes = |input: &Input| {
        let packed = if input.side == Side::A { settings.staged.pack.a } else { settings.staged.pack.b };
        !packed && order_of(settings, input.side).is_some_and(|order| order.fast != input.global_fast)
    };
    let both = inputs.filter(|inputs| inputs.iter().all(transposes));
    for input in inputs.into_iter().flatten() {
        let Some(order) = order_of(settings, input.side) else { continue };
        let before = findings.list.len();
        if transposes(input) {
            transposed(settings, input, both, findings);
        }
        match order.skew {
            Skew::None => {}
            Skew::Pad(_) => padded(settings, input, order, findings),
            Skew::Swizzle(span) => swizzled(settings, input, order, span, findings),
        }
        row(settings, input, order, findings);
        if findings.list.len() == before && settings.sharers(input.side) <= 1 {
            rows(settings, input, order, findings);
        }
    }
}

/// The rows of a tile must form one box, or several equal boxes that begin at legal TMA addresses.
fn rows(settings: &Settings, input: &Input, order: StagedOrder, findings: &mut Findings) {
    let Some(placement) = input.placement else { return };
    if share_of_boxes(&placement, input.dtype, 1, MAX_BOX).is_some() {
        return;
    }
    let (name, rows) = (letter(input.side), placement.slow_extent);
    let message = format!(
        "{name}'s tile has {rows} rows of {} B, which are not boxes of at most {MAX_BOX} rows that begin at multiples of {BOX_ALIGN} B",
        row_bytes(input, order)
    );
    let finding = findings.error("tma-box", Key::Tile, &DEPENDS, message).about(&name.to_lowercase());
    let across = StagedOrder { fast: if order.fast == Fast::K { Fast::Mn } else { Fast::K }, ..order };
    for extent in [rows.next_multiple_of(32), rows.next_multiple_of(64), 256, 128, 64] {
        if let Some(tile) = with_row(settings, input, across, extent) {
            let text = Clause::Tile(tile).to_string();
            finding.set(&text, format!("{text} has such boxes"));
        }
    }
    finding.set("load(cp_async)", "load(cp_async) copies no boxes");
    finding.set("load(registers)", "load(registers) copies no boxes");
}

/// A tile of D must consist of boxes of whole 16-byte pieces.
fn stored(settings: &Settings, findings: &mut Findings) {
    let Some(tile) = settings.shape.tile.filter(|_| settings.output.store == Store::Tma) else { return };
    let (lines, dtype) = (Lines::of(settings, tile), settings.problem.types.d);
    if lines.panels(dtype).is_some() {
        return;
    }
    let along = if settings.problem.layouts.d == Layout::Row { "n" } else { "m" };
    let why = match lines.elements.is_multiple_of(tma_width(dtype)) {
        false => format!("store(tma) copies lines in pieces of {MAX_ACCESS_BYTES} B"),
        true => format!(
            "{} such lines are not boxes of at most {MAX_BOX} x {MAX_BOX} elements that begin at multiples of {BOX_ALIGN} B",
            lines.count
        ),
    };
    let (elements, bytes) = (lines.elements, dtype.bytes());
    let message = format!("a line of D's tile has {elements} elements of {bytes} B along {along}, and {why}");
    let depends = [Key::Tile, Key::Warp, Key::Layout, Key::Types, Key::Store];
    let finding = findings.error("tma-line", Key::Store, &depends, message);
    finding.set("store(staged)", "store(staged) copies single elements");
    finding.set("store(direct)", "store(direct) stores single elements");
}

/// One thread starts all copies, and the rest of its warp is idle.
fn producers(settings: &Settings, findings: &mut Findings) {
    let Some(clause) = settings.roles.specialize else { return };
    if matches!(clause.producers, WarpCount::Warps(1) | WarpCount::Groups(1)) {
        return;
    }
    let text = |producers| Clause::Specialize(SpecializeClause { producers, ..clause }).to_string();
    let message = format!("{}: with load(tma) one thread starts every copy", Clause::Specialize(clause));
    let finding = findings.error("tma-producers", Key::Specialize, &[Key::Load], message);
    let one = text(WarpCount::Warps(1));
    finding.set(&one, format!("{one} suffices"));
    let group = text(WarpCount::Groups(1));
    finding.set(&group, format!("{group} suffices"));
    finding.set("load(cp_async)", "load(cp_async) copies with all of them");
}

fn letter(side: Side) -> &'static str {
    match side {
        Side::A => "A",
        Side::B => "B",
    }
}

fn order_of(settings: &Settings, side: Side) -> Option<StagedOrder> {
    let (a, b) = settings.staged.shared?;
    Some(if side == Side::A { a } else { b })
}

/// The `shared` clause with another order for one operand.
fn shared(settings: &Settings, side: Side, order: StagedOrder) -> Option<String> {
    let (a, b) = settings.staged.shared?;
    let (a, b) = if side == Side::A { (order, b) } else { (a, order) };
    Some(Clause::Shared(SharedClause::Orders { a: Some(a), b: Some(b) }).to_string())
}

fn words(side: Side, fast: Fast) -> (&'static str, &'static str) {
    match (side, fast) {
        (Side::A, Fast::K) => ("mk", "k"),
        (Side::A, Fast::Mn) => ("km", "m"),
        (Side::B, Fast::K) => ("nk", "k"),
        (Side::B, Fast::Mn) => ("kn", "n"),
    }
}

/// A box keeps the order of the matrix in memory.
fn transposed(settings: &Settings, input: &Input, both: Option<&[Input; 2]>, findings: &mut Findings) {
    let Some((a, b)) = settings.staged.shared else { return };
    let order = if input.side == Side::A { a } else { b };
    let (_, along) = words(input.side, input.global_fast);
    let (written, _) = words(input.side, order.fast);
    let name = letter(input.side);
    let lower = name.to_lowercase();
    let message = format!(
        "load(tma) does not transpose: {name} is contiguous along {along} in memory, and shared({lower} = {written}) is not"
    );
    let finding = findings.error("tma-order", Key::Shared, &DEPENDS, message).about(&lower);
    // A fix for one operand leaves the error of the other one.
    if let Some([one, other]) = both {
        for (a_skew, b_skew) in [(a.skew, b.skew), (Skew::None, Skew::None)] {
            let a = Some(StagedOrder { fast: one.global_fast, skew: a_skew });
            let b = Some(StagedOrder { fast: other.global_fast, skew: b_skew });
            let text = Clause::Shared(SharedClause::Orders { a, b }).to_string();
            finding.set(&text, format!("{text} has both in the orders in memory"));
        }
        let pack = Clause::Pack(PackClause { a: true, b: true });
        finding.set(pack.to_string(), format!("{pack} transposes both first"));
    }
    // Also without the skew: a span that fits one order rarely fits the other.
    for skew in [order.skew, Skew::None] {
        if let Some(text) = shared(settings, input.side, StagedOrder { fast: input.global_fast, skew }) {
            finding.set(&text, format!("{text} has {name} in its order in memory"));
        }
    }
    let pack = match input.side {
        Side::A => PackClause { a: true, ..settings.staged.pack },
        Side::B => PackClause { b: true, ..settings.staged.pack },
    };
    let pack = Clause::Pack(pack);
    finding.set(pack.to_string(), format!("{pack} transposes it first"));
    let layouts = settings.problem.layouts;
    let other = |layout: Layout| if layout == Layout::Row { Layout::Col } else { Layout::Row };
    let all = LayoutClause { a: Some(layouts.a), b: Some(layouts.b), c: Some(layouts.c), d: Some(layouts.d) };
    let flipped = match input.side {
        Side::A => LayoutClause { a: Some(other(layouts.a)), ..all },
        Side::B => LayoutClause { b: Some(other(layouts.b)), ..all },
    };
    finding.set(Clause::Layout(flipped), format!("or let {name} lie that way in memory: {}", Clause::Layout(flipped)));
    finding.set("load(cp_async)", "load(cp_async) transposes");
    finding.set("load(registers)", "load(registers) transposes");
}

fn padded(settings: &Settings, input: &Input, order: StagedOrder, findings: &mut Findings) {
    let name = letter(input.side);
    let message =
        format!("load(tma) writes the rows of {name} without gaps, and {} has a pad", settings.text(Key::Shared, ""));
    let finding = findings.error("tma-pad", Key::Shared, &DEPENDS, message).about(&name.to_lowercase());
    for skew in [span_of_row(input, order).map(Skew::Swizzle), Some(Skew::None)].into_iter().flatten() {
        if let Some(text) = shared(settings, input.side, StagedOrder { skew, ..order }) {
            finding.set(&text, format!("{text} is legal"));
        }
    }
    finding.set("load(cp_async)", "load(cp_async) pads");
}

/// Bytes of a row of the staged tile.
fn row_bytes(input: &Input, order: StagedOrder) -> u64 {
    let elements = if order.fast == Fast::K { input.depth } else { input.extent };
    u64::from(elements) * u64::from(input.dtype.bytes())
}

/// The swizzle with a span of exactly one row.
fn span_of_row(input: &Input, order: StagedOrder) -> Option<u32> {
    [32u32, 64, 128].into_iter().find(|span| u64::from(*span) == row_bytes(input, order))
}

/// The tile with another extent along the contiguous dimension of one operand.
fn with_row(settings: &Settings, input: &Input, order: StagedOrder, elements: u32) -> Option<TileClause> {
    let tile = settings.shape.tile?;
    Some(match (order.fast, input.side) {
        (Fast::K, _) => TileClause { k: Some(elements), ..tile },
        (Fast::Mn, Side::A) => TileClause { m: elements, ..tile },
        (Fast::Mn, Side::B) => TileClause { n: elements, ..tile },
    })
}

fn set_row(finding: &mut Finding, settings: &Settings, input: &Input, order: StagedOrder, elements: u32) {
    if let Some(tile) = with_row(settings, input, order, elements) {
        let text = Clause::Tile(tile).to_string();
        finding.set(&text, format!("{text} has such rows"));
    }
}

/// TMA permutes within spans. A row is one span, or several side by side if tensor cores read it.
fn swizzled(settings: &Settings, input: &Input, order: StagedOrder, span: u32, findings: &mut Findings) {
    let bytes = row_bytes(input, order);
    let panels = settings.atom.of_group().is_some();
    // The last panel of a row along k would reach into the next K-tile.
    let partly = order.fast == Fast::Mn && bytes > u64::from(span);
    if u64::from(span) == bytes || (panels && bytes > 0 && (partly || bytes.is_multiple_of(u64::from(span)))) {
        return;
    }
    let name = letter(input.side);
    let needed = if panels { format!("rows of multiples of {span} B") } else { format!("rows of {span} B") };
    let message = format!(
        "load(tma) with swizzle({span}) needs {needed} in shared memory, and a row of {name}'s tile has {bytes} B"
    );
    let finding = findings.error("tma-swizzle", Key::Shared, &DEPENDS, message).about(&name.to_lowercase());
    let parts = [128, 64, 32].into_iter().filter(|span| panels && bytes.is_multiple_of(u64::from(*span)));
    let skews = span_of_row(input, order).into_iter().chain(parts).map(Skew::Swizzle);
    for skew in skews.chain([Skew::None]) {
        if let Some(text) = shared(settings, input.side, StagedOrder { skew, ..order }) {
            finding.set(&text, format!("{text} is legal"));
        }
    }
    set_row(finding, settings, input, order, span / input.dtype.bytes());
}

/// A row of a box has at most 256 elements, and whole 16-byte pieces.
fn row(settings: &Settings, input: &Input, order: StagedOrder, findings: &mut Findings) {
    // Each panel is copied separately.
    let elements = match (order.skew, if order.fast == Fast::K { input.depth } else { input.extent }) {
        (Skew::Swizzle(span), elements) if settings.atom.of_group().is_some() => {
            elements.min(span / input.dtype.bytes())
        }
        (_, elements) => elements,
    };
    let (name, width) = (letter(input.side), tma_width(input.dtype));
    let (_, along) = words(input.side, order.fast);
    let what = format!("a row of {name}'s tile has {elements} elements along {along}");
    if elements > MAX_BOX {
        let message = format!("{what}, and a box of load(tma) has at most {MAX_BOX}");
        let finding = findings.error("tma-box", Key::Tile, &DEPENDS, message).about(&name.to_lowercase());
        for extent in [256, 128, 64, 32] {
            set_row(finding, settings, input, order, extent);
        }
        finding.set("load(cp_async)", "load(cp_async) has no such limit");
    } else if !elements.is_multiple_of(width) {
        let message =
            format!("{what} of {} B, and load(tma) copies rows in pieces of {MAX_ACCESS_BYTES} B", input.dtype.bytes());
        let finding = findings.error("tma-row", Key::Tile, &DEPENDS, message).about(&name.to_lowercase());
        for extent in [elements.next_multiple_of(width), 8, 16, 32, 64, 128] {
            set_row(finding, settings, input, order, extent);
        }
        finding.set("load(cp_async)", "load(cp_async) copies single elements");
        finding.set("load(registers)", "load(registers) copies single elements");
    }
}
