//! The K-loop of one thread: its unrolling, its prefetch distance, and the resulting code size.

use crate::check::assemble;
use crate::check::finding::Findings;
use crate::check::geometry::parts;
use crate::check::settings::Settings;
use crate::suggest::count;
use crate::table::Key;
use crate::target::{MAX_REGISTERS, WARP};
use crate::terms::Extent2;

/// The maximum number of multiply-adds in one unrolled body: far more than any instruction cache holds, few enough to
/// compile.
const MAX_BODY: u64 = 32_768;

/// The maximum number of elements of a K-tile that one thread copies.
const MAX_COPIES: u64 = 8192;

pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let Some(block) = assemble::block(settings).filter(|block| block.k > 0) else { return };
    let unroll = settings.steps.unroll.unwrap_or(block.k);
    if unroll == 0 {
        return;
    }
    // `wgmma` multiplies whole K-tiles and takes no `unroll`.
    let is_unrolled = settings.atom.of_group().is_none();
    if is_unrolled && settings.staged.shared.is_some() && !block.k.is_multiple_of(unroll) {
        let message = format!(
            "unroll({unroll}) does not divide the {} of {}",
            count(block.k, "step"),
            settings.text(Key::Tile, "")
        );
        let finding = findings.error("unroll", Key::Unroll, &[Key::Tile, Key::Shared, Key::Atom], message);
        let mut divisors: Vec<u32> = (1..=block.k).filter(|d| block.k.is_multiple_of(*d)).collect();
        divisors.sort_by_key(|d| (d.abs_diff(unroll), *d));
        for divisor in divisors.into_iter().take(8) {
            finding.set(format!("unroll({divisor})"), format!("unroll({divisor}) does"));
        }
    }
    if let Some(prefetch) = settings.steps.prefetch.filter(|n| *n > 1 && *n >= unroll) {
        let message =
            format!("prefetch({prefetch}) reaches no farther than the {unroll} unrolled steps: {} ahead", unroll - 1);
        findings.note("prefetch", Key::Prefetch, &[Key::Unroll, Key::Tile, Key::Shared], message);
    }
    body(settings, unroll, findings);
}

fn body(settings: &Settings, unroll: u32, findings: &mut Findings) {
    let (Some(tile), Some(thread), true) = (settings.shape.tile, settings.shape.thread, settings.atom.by_threads())
    else {
        return;
    };
    let products = u64::from(thread.m) * u64::from(thread.n) * u64::from(unroll);
    let depends = [Key::Thread, Key::Tile, Key::Shared, Key::Atom];
    if products > MAX_BODY {
        let (key, text) = match settings.get(Key::Unroll) {
            Some(clause) => (Key::Unroll, clause.to_string()),
            None => (Key::Thread, settings.text(Key::Thread, "")),
        };
        let message = format!("{text}: {products} multiply-adds in one unrolled body, at most {MAX_BODY}");
        let finding = findings.error("body", key, &depends, message);
        finding.depends.insert(Key::Unroll);
        for n in (0..8).rev().map(|shift| 1 << shift) {
            if n < unroll {
                let text = format!("unroll({n})");
                finding.set(&text, format!("{text} makes {}", products / u64::from(unroll) * n as u64));
            }
        }
        for size in [32, 16, 8] {
            finding.set(format!("thread({size}, {size})"), format!("write thread({size}, {size}), for example"));
        }
        // Only thread tiles that a thread's registers can hold.
        let fits = |part: &Extent2| part.m * part.n < MAX_REGISTERS;
        for Extent2 { m, n } in parts(thread).into_iter().filter(fits).take(12) {
            finding.set(format!("thread({m}, {n})"), format!("write thread({m}, {n}), for example"));
        }
    }
    let (Some(_), Some(depth)) = (settings.staged.shared, tile.k) else { return };
    if thread.m == 0 || thread.n == 0 {
        return;
    }
    let threads = match settings.producer_warps() {
        0 => (u64::from(tile.m / thread.m) * u64::from(tile.n / thread.n)).max(1),
        warps => u64::from(warps) * u64::from(WARP),
    };
    let copies = (u64::from(tile.m) + u64::from(tile.n)) * u64::from(depth) / threads;
    if copies > MAX_COPIES {
        let message = format!(
            "{}: each of {} copies {copies} elements of a K-tile, at most {MAX_COPIES}",
            settings.text(Key::Tile, ""),
            count(threads, "thread")
        );
        let finding = findings.error("copies", Key::Tile, &depends, message);
        finding.depends.insert(Key::Specialize);
        for size in [8, 4, 2, 1] {
            finding.set(format!("thread({size}, {size})"), format!("write thread({size}, {size}), for example"));
        }
        finding.remove("specialize", "leave specialize out");
    }
}
