//! The rules of edge tiles that multiply only the columns they need, for `tail(even)` and for groups. A group that
//! breaks a rule multiplies full tiles.

use crate::atoms::{Multiply, Unit, WGMMA_COLUMNS};
use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, LayoutClause, PromoteClause, Roles, SpecializeClause, TileClause};
use crate::table::Key;
use crate::target::{BOX_ALIGN, GRAIN, SWIZZLED_ROWS};
use crate::terms::{Edges, Extent2, Fast, Load, Side, Store};
use crate::types::{Batch, Layout, Orientation};

/// A reason that a schedule's edge tiles keep all columns.
struct Obstacle {
    /// The clause it is about, and the others that it depends on.
    depends: &'static [Key],
    why: String,
    /// Clauses that avoid it, and their help texts.
    fixes: Vec<(String, String)>,
}

/// Checks every rule about `tail(even)`.
pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let Some(clause) = settings.get(Key::Tail).filter(|_| settings.output.edges == Edges::Even) else { return };
    for Obstacle { depends, why, fixes } in obstacles(settings) {
        let finding = findings
            .error("tail-even", Key::Tail, depends, format!("{clause}: {why}"))
            .about(depends.first().map_or("", |key| crate::table::of(*key).name));
        for (fix, help) in fixes {
            finding.set(&fix, format!("{fix} {help}"));
        }
        finding.set("tail(predicate)", "tail(predicate) multiplies zeros beyond the edge");
    }
}

/// Granularity of an edge tile's MMA width: see [`Plan::grain`](crate::plan::Plan::grain).
///
/// Products of a group are often skinny and have many edges; transposed, their few rows become columns. Elsewhere
/// `tail` decides whether the narrower loops pay off.
pub(super) fn grain(settings: &Settings) -> Option<u32> {
    let of_group = settings.problem.batch == Batch::Grouped && settings.problem.orientation == Orientation::Transposed;
    let narrow = settings.output.edges == Edges::Even || settings.output.edges == Edges::Predicate && of_group;
    (narrow && obstacles(settings).is_empty()).then(|| least(settings))
}

/// Granularity of a narrower tile, in columns. Blocks of a cluster that share B copy equal parts of it, in whole lines of
/// [`BOX_ALIGN`] bytes.
fn least(settings: &Settings) -> u32 {
    let columns = if settings.output.edges == Edges::Even { SWIZZLED_ROWS } else { GRAIN };
    // Beyond 32 columns, instructions of integers exist in steps of 16.
    let steps =
        Multiply::of(Unit::WarpGroup, settings.factor(Side::B)).map(|row| row.columns.step(*WGMMA_COLUMNS.end()));
    let columns = columns.max(steps.max().unwrap_or(columns));
    let depth = settings.shape.tile.and_then(|tile| tile.k).unwrap_or(0);
    let lines = BOX_ALIGN.div_ceil((depth * settings.factor(Side::B).bytes()).max(1));
    let least = lines * settings.sharers(Side::B);
    (columns..).step_by(columns as usize).find(|columns| columns.is_multiple_of(least)).unwrap_or(least)
}

/// The reasons that edge tiles keep all columns.
fn obstacles(settings: &Settings) -> Vec<Obstacle> {
    let mut all = Vec::new();
    let mut add = |depends: &'static [Key], why: String, fixes: Vec<(String, &str)>| {
        let fixes = fixes.into_iter().map(|(fix, help)| (fix, help.to_string())).collect();
        all.push(Obstacle { depends, why, fixes });
    };
    let transposed = settings.problem.orientation == Orientation::Transposed;
    let Some((rows, columns, _)) = settings.atom.of_group() else {
        add(&[Key::Atom], "only atom(wgmma(...)) has instructions of every number of columns".into(), Vec::new());
        return all;
    };
    if settings.staged.load != Load::Tma {
        let fix = ("load(tma)".to_string(), "does");
        add(&[Key::Load], "only load(tma) copies as many columns as a tile has".into(), vec![fix]);
    }
    if let Some(tile) = settings.shape.tile {
        if columns != tile.n {
            let mut atom = Clause::Atom(settings.atom.with_columns(tile.n)).to_string();
            if let Some(warp) = settings.shape.warp.filter(|warp| warp.n != tile.n) {
                // The same number of warp groups, along m, if there are as many rows.
                let groups = (tile.n / warp.n.max(1)).max(1);
                let m = if warp.m.is_multiple_of(rows.saturating_mul(groups)) { warp.m / groups } else { warp.m };
                atom = format!("{atom}; {}", Clause::Warp(TileClause { m, n: tile.n, ..warp }));
            }
            let why = format!("the instruction has {columns} of the tile's {} columns, and would need all", tile.n);
            let has = if settings.shape.warp.is_some() { "have all" } else { "has all" };
            add(&[Key::Atom, Key::Tile, Key::Warp], why, vec![(atom, has)]);
        }
        let grain = least(settings);
        if !tile.n.is_multiple_of(grain) || tile.n <= grain {
            let wider = TileClause { n: (tile.n + 1).next_multiple_of(grain).max(2 * grain), ..tile };
            let fixes = [wider].map(|tile| {
                (format!("{}; {}", Clause::Tile(tile), Clause::Atom(settings.atom.with_columns(tile.n))), "can")
            });
            let why = format!("{} columns of a tile cannot be fewer in multiples of {grain}", tile.n);
            add(&[Key::Tile, Key::Cluster, Key::Multicast], why, fixes.into());
        }
    }
    // In the orientation that the user asked for.
    let asked = settings.asked.layouts;
    let all_asked = LayoutClause { a: Some(asked.a), b: Some(asked.b), c: Some(asked.c), d: Some(asked.d) };
    if settings.problem.layouts.b != Layout::Col || settings.staged.shared.is_some_and(|(_, b)| b.fast != Fast::K) {
        let (line, along_k) = match transposed {
            true => ("row of A", LayoutClause { a: Some(Layout::Row), ..all_asked }),
            false => ("column of B", LayoutClause { b: Some(Layout::Col), ..all_asked }),
        };
        let why = format!("boxes begin at any {line} only where these are contiguous in memory");
        add(
            &[Key::Layout, Key::Shared, Key::Types, Key::Transposed],
            why,
            vec![(Clause::Layout(along_k).to_string(), "has them contiguous")],
        );
    }
    if settings.output.store == Store::Tma && settings.problem.layouts.d != Layout::Col {
        let lines = match transposed {
            true => LayoutClause { d: Some(Layout::Row), ..all_asked },
            false => LayoutClause { d: Some(Layout::Col), ..all_asked },
        };
        let why = "store(tma) copies whole lines of D's tile, which have its columns".to_string();
        let fixes = vec![
            (Clause::Layout(lines).to_string(), "has lines of the other dimension"),
            ("store(staged)".to_string(), "copies parts of lines"),
        ];
        add(&[Key::Store, Key::Layout, Key::Transposed], why, fixes);
    }
    if settings.turns() > 1 {
        let together = settings.roles.specialize.map(|clause| {
            let text = Clause::Specialize(SpecializeClause { roles: Some(Roles::Cooperative), ..clause }).to_string();
            (text, "has one tile at a time")
        });
        let why = "warp groups that take turns would need tiles of the same columns".to_string();
        add(&[Key::Specialize], why, together.into_iter().collect());
    }
    if settings.scheduler.cluster.n > 1 {
        let Extent2 { m, n } = settings.scheduler.cluster;
        let why = format!("{n} blocks of a cluster along n would need tiles of the same columns");
        add(&[Key::Cluster], why, vec![(format!("cluster({}, 1)", m.max(2)), "has its blocks along m")]);
    }
    if settings.scheduler.stream_k {
        let why = "the blocks that stream_k lets sum parts of a tile would need the same columns".to_string();
        add(&[Key::StreamK], why, Vec::new());
    }
    if let (None, Some(promotion)) = (settings.sums.emulation, settings.promotion()) {
        let every = Some(promotion.every);
        let clause = Clause::Promote(PromoteClause { every, rounding: None });
        add(&[Key::Promote, Key::Types], format!("the sums of {clause} have all columns"), Vec::new());
    }
    if let Some(emulation) = settings.get(Key::Emulate).filter(|_| settings.sums.emulation.is_some()) {
        add(&[Key::Emulate], format!("the planes of {emulation} have all columns"), Vec::new());
    }
    all
}
