//! The rules of tiles that have only the columns they need: those of `tail(even)`, and of groups, which do without where one
//! is broken.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Atom, Clause, LayoutClause, Roles, SpecializeClause, TileClause};
use crate::table::Key;
use crate::target::{GRAIN, SWIZZLED_ROWS};
use crate::terms::{Edges, Extent2, Fast, Load, Side, Store};
use crate::types::{Batch, Layout, Orientation};

/// Why the tiles of a schedule have all columns.
struct Obstacle {
    /// What it is about, and what else it depends on.
    depends: &'static [Key],
    why: String,
    /// Clauses without it, and what they do.
    fixes: Vec<(String, String)>,
}

/// Every rule about `tail(even)`.
pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let Some(clause) = settings.get(Key::Tail).filter(|_| settings.edges == Edges::Even) else { return };
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

/// Columns of a kernel's tile in multiples of which it has products: see [`Plan::grain`](crate::plan::Plan::grain).
///
/// Products of a group have few rows each, which are the columns of their transposes, and many edges. Elsewhere `tail` says
/// whether the edge pays for the loops.
pub(super) fn grain(settings: &Settings) -> Option<u32> {
    let of_group = settings.problem.batch == Batch::Grouped && settings.problem.orientation == Orientation::Transposed;
    let narrow = settings.edges == Edges::Even || settings.edges == Edges::Predicate && of_group;
    (narrow && obstacles(settings).is_empty()).then(|| least(settings))
}

/// Columns in multiples of which a tile can be narrower. Blocks of a cluster that share B copy equal parts of them.
fn least(settings: &Settings) -> u32 {
    let columns = if settings.edges == Edges::Even { SWIZZLED_ROWS } else { GRAIN };
    columns.max(SWIZZLED_ROWS * settings.sharers(Side::B))
}

/// What keeps tiles from having fewer columns.
fn obstacles(settings: &Settings) -> Vec<Obstacle> {
    let mut all = Vec::new();
    let mut add = |depends: &'static [Key], why: String, fixes: Vec<(String, &str)>| {
        let fixes = fixes.into_iter().map(|(fix, help)| (fix, help.to_string())).collect();
        all.push(Obstacle { depends, why, fixes });
    };
    let transposed = settings.problem.orientation == Orientation::Transposed;
    let Atom::Wgmma(rows, columns, depth) = settings.atom else {
        add(&[Key::Atom], "only atom(wgmma(...)) has instructions of every number of columns".into(), Vec::new());
        return all;
    };
    if settings.load != Load::Tma {
        let fix = ("load(tma)".to_string(), "does");
        add(&[Key::Load], "only load(tma) copies as many columns as a tile has".into(), vec![fix]);
    }
    if let Some(tile) = settings.tile {
        if columns != tile.n {
            let atom = Clause::Atom(Atom::Wgmma(rows, tile.n, depth)).to_string();
            let why = format!("the instruction has {columns} of the tile's {} columns, and would need all", tile.n);
            add(&[Key::Atom, Key::Tile], why, vec![(atom, "has all")]);
        }
        let grain = least(settings);
        if !tile.n.is_multiple_of(grain) || tile.n <= grain {
            let wider = TileClause { n: (tile.n + 1).next_multiple_of(grain).max(2 * grain), ..tile };
            let fixes = [wider]
                .map(|tile| (format!("{}; atom(wgmma({rows}, {}, {depth}))", Clause::Tile(tile), tile.n), "can"));
            let why = format!("{} columns of a tile cannot be fewer in multiples of {grain}", tile.n);
            add(&[Key::Tile, Key::Cluster, Key::Multicast], why, fixes.into());
        }
    }
    // In the terms of what is asked for.
    let asked = settings.asked.layouts;
    let all_asked = LayoutClause { a: Some(asked.a), b: Some(asked.b), c: Some(asked.c), d: Some(asked.d) };
    if settings.problem.layouts.b != Layout::Col || settings.shared.is_some_and(|(_, b)| b.fast != Fast::K) {
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
    if settings.store == Store::Tma && settings.problem.layouts.d != Layout::Col {
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
        let together = settings.specialize.map(|clause| {
            let text = Clause::Specialize(SpecializeClause { roles: Some(Roles::Cooperative), ..clause }).to_string();
            (text, "has one tile at a time")
        });
        let why = "warp groups that take turns would need tiles of the same columns".to_string();
        add(&[Key::Specialize], why, together.into_iter().collect());
    }
    if settings.cluster.n > 1 {
        let Extent2 { m, n } = settings.cluster;
        let why = format!("{n} blocks of a cluster along n would need tiles of the same columns");
        add(&[Key::Cluster], why, vec![(format!("cluster({}, 1)", m.max(2)), "has its blocks along m")]);
    }
    if settings.stream_k {
        let why = "the blocks that stream_k lets sum parts of a tile would need the same columns".to_string();
        add(&[Key::StreamK], why, Vec::new());
    }
    if let Some(emulation) = settings.get(Key::Emulate).filter(|_| settings.emulation.is_some()) {
        add(&[Key::Emulate], format!("the planes of {emulation} have all columns"), Vec::new());
    }
    all
}
