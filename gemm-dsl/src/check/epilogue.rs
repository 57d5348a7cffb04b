//! The code size of an epilogue, which is emitted for each element of D that a thread holds.

use crate::atoms::Unit;
use crate::check::finding::Findings;
use crate::check::geometry::parts;
use crate::check::settings::Settings;
use crate::limits::EPILOGUE;
use crate::plan::Geometry;
use crate::table::Key;
use crate::terms::Extent2;

/// The clauses that fix a thread's elements.
const DEPENDS: [Key; 6] = [Key::Thread, Key::Tile, Key::Warp, Key::Atom, Key::Specialize, Key::Types];

/// A thread's epilogue must be small enough for the assembler and the interpreter.
pub(super) fn check(settings: &Settings, geometry: &Geometry, findings: &mut Findings) {
    let each = settings.problem.epilogue.instructions();
    let total = |part: Extent2| u64::from(part.m) * u64::from(part.n) * u64::from(each);
    let Extent2 { m, n } = geometry.thread;
    if total(geometry.thread) <= EPILOGUE.into() {
        return;
    }
    let message = format!(
        "epilogue: {each} instructions for each of a thread's {} elements are {} in all, at most {EPILOGUE}",
        u64::from(m) * u64::from(n),
        total(geometry.thread)
    );
    let finding = findings.error("epilogue-size", Key::Epilogue, &DEPENDS, message);
    let fits = |part: &Extent2| total(*part) <= EPILOGUE.into();
    let smaller = if settings.atom.by_threads() { parts(geometry.thread) } else { Vec::new() };
    for part in smaller.into_iter().filter(fits).take(12) {
        let text = format!("thread({}, {})", part.m, part.n);
        finding.set(&text, format!("{text} takes {}", total(part)));
    }
    let share = |part: u32| total(geometry.thread) / u64::from(part);
    match (settings.atom.tensor(), settings.shape.warp, settings.shape.tile) {
        (Some(_), Some(warp), _) => {
            for (m, n) in [(1, 2), (2, 1), (2, 2), (4, 2), (4, 4)] {
                let text = format!("warp({}, {})", warp.m / m, warp.n / n);
                finding.set(&text, format!("{text} takes {}", share(m * n)));
            }
        }
        (Some((Unit::WarpGroup, (rows, columns, k))), _, Some(tile)) => {
            let depth = tile.k.map_or(String::new(), |k| format!(", {k}"));
            for part in [2, 4, 8] {
                let n = tile.n / part;
                let text = format!("tile({}, {n}{depth}); atom(wgmma({rows}, {}, {k}))", tile.m, n.min(columns));
                finding.set(&text, format!("{text} take {}", share(part)));
            }
        }
        _ => {}
    }
    finding.otherwise("write a shorter expression, or let a thread hold fewer elements");
}
