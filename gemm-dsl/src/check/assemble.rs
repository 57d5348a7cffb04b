//! Assembles the plan once every rule holds.

use crate::check::access;
use crate::check::even;
use crate::check::exchange;
use crate::check::settings::Settings;
use crate::check::staging::{Staging, clamp};
use crate::clause::{Clause, PromoteClause, SharedClause};
use crate::plan::{Body, EdgePlan, Emulate, Geometry, Plan, Provenance, Resources, Ring, RolePlan, Scheduler, Sums};
use crate::table::Key;
use crate::target::Target;
use crate::terms::{Extent3, Operands, Pace, Side, Wave};
use crate::types::Batch;

/// Default unrolled K-steps without staging: less work per step means more unrolled steps.
fn direct_unroll(settings: &Settings) -> u32 {
    match settings.shape.thread.map_or(1, |thread| thread.m.saturating_mul(thread.n)) {
        ..=1 => 16,
        2..=4 => 8,
        _ => 4,
    }
}

/// Default registers for fragments prefetched from global memory: `naive` runs best with 12 (6 steps).
const DIRECT_AHEAD: u32 = 12;

/// Threads per block from which other warps hide shared-memory latency, so that prefetching only costs registers
/// (`lab3_4x4` on an H200 at 4096: 21.9 TFLOP/s without, 21.2 with).
const CROWDED: u32 = 1024;

/// Default prefetch distance of fragments, in steps.
fn default_prefetch(settings: &Settings, geometry: &Geometry) -> u32 {
    match settings.staged.shared {
        None => (DIRECT_AHEAD / (geometry.thread.m + geometry.thread.n)).max(1),
        Some(_) if geometry.threads >= CROWDED => 0,
        Some(_) => 1,
    }
}

/// Collects every number.
pub(super) fn plan(settings: &Settings, geometry: Geometry, staging: Option<Staging>, target: Target) -> Option<Plan> {
    let block = block(settings)?;
    let unroll = settings.steps.unroll.unwrap_or(block.k);
    let inputs = access::inputs(settings, block, &geometry, staging.as_ref());
    let variants = access::variants(settings, &inputs, &geometry, staging.as_ref(), target);
    let prefetch = match settings.steps.operands {
        // No thread reads fragments.
        _ if settings.atom.of_group().is_some() => 0,
        Operands::Registers => {
            settings.steps.prefetch.unwrap_or_else(|| default_prefetch(settings, &geometry)).min(unroll - 1)
        }
        Operands::Shared => 0,
    };
    let accumulators = geometry.thread.m * geometry.thread.n;
    let scheduler = &settings.scheduler;
    Some(Plan {
        problem: settings.problem.clone(),
        target,
        block,
        atom: settings.atom,
        geometry,
        roles: RolePlan {
            turns: settings.turns(),
            producer_warps: settings.producer_warps(),
            registers: settings.roles.registers,
        },
        ring: Ring {
            a: inputs[0].plan(settings, unroll),
            b: inputs[1].plan(settings, unroll),
            load: settings.staged.load,
            pack: [(Side::A, settings.staged.pack.a), (Side::B, settings.staged.pack.b)]
                .into_iter()
                .filter_map(|(side, packed)| packed.then_some(side))
                .collect(),
            stages: settings.staged.stages,
            pace: settings.staged.pace,
            planes_in_slot: settings.planes_in_slot(block.k),
            stage_bytes: clamp(staging.map_or(0, |s| s.stage_bytes)),
            slots_bytes: clamp(staging.map_or(0, |s| s.slots_bytes(settings.staged.stages))),
        },
        body: Body {
            unroll,
            order: settings.steps.order,
            prefetch,
            reads: settings.steps.reads,
            operands: settings.steps.operands,
        },
        scheduler: Scheduler {
            // Stream-K divides the work among one wave of blocks; one wave also processes the list of a group.
            persistent: scheduler.persistent.or(settings.implies_wave().then_some(Wave::Device)),
            ..*scheduler
        },
        edges: EdgePlan { tail: settings.output.edges.tail(), grain: even::grain(settings) },
        sums: Sums {
            emulate: settings.sums.emulation.map(|by| Emulate { by }),
            promote: settings.promotion(),
            strassen: settings.sums.levels,
            exchange: exchange::plan(settings, &geometry),
        },
        resources: Resources {
            expect: settings.limits.expect.clone(),
            // Registers that one role gives up go to the other role of the same block.
            blocks_per_sm: settings.limits.blocks_per_sm.or(settings.roles.registers.map(|_| 1)),
            shared_bytes: clamp(staging.map_or(0, |s| s.shared_bytes)),
            accumulator_registers: (accumulators * settings.problem.types.acc.bytes()).div_ceil(4) * settings.sums(),
        },
        variants,
        clauses: provenance(settings, unroll, prefetch),
        filled: None,
    })
}

/// The block tile; its depth is the staged depth, or the unrolled steps without staging.
pub(super) fn block(settings: &Settings) -> Option<Extent3> {
    let tile = settings.shape.tile?;
    let k = match settings.staged.shared {
        Some(_) => tile.k?,
        None => settings.steps.unroll.unwrap_or_else(|| direct_unroll(settings)),
    };
    Some(Extent3 { m: tile.m, n: tile.n, k })
}

/// Maximum characters of a clause in a program's lines; an epilogue can be as long as a page.
const SHOWN: usize = 64;

/// A clause as a program's lines show it: all of it, or its beginning.
fn shown(clause: String) -> String {
    match clause.char_indices().nth(SHOWN) {
        Some(_) => clause.chars().take(SHOWN - 3).chain("...".chars()).collect(),
        None => clause,
    }
}

/// The promotion that a schedule has without saying so.
fn default_promote(settings: &Settings) -> String {
    let every = settings.promotion().map(|promotion| promotion.every);
    Clause::Promote(PromoteClause { every, rounding: None }).to_string()
}

fn provenance(settings: &Settings, unroll: u32, prefetch: u32) -> Provenance {
    let lanes =
        settings.get(Key::Warp).map_or_else(|| settings.text(Key::Lanes, "lanes(along = n)"), |c| c.to_string());
    let stream_k = settings.text(Key::StreamK, "one tile a block");
    let persistent = match settings.problem.batch {
        Batch::Grouped => settings.text(Key::Batch, &stream_k),
        Batch::One | Batch::Strided => stream_k.clone(),
    };
    Provenance {
        types: settings.text(Key::Types, "types(f32)"),
        layout: settings.text(Key::Layout, "layout(a = row, b = row, c = row, d = row)"),
        epilogue: shown(settings.text(Key::Epilogue, "epilogue(|acc| acc)")),
        tile: settings.text(Key::Tile, ""),
        thread: settings.text(if settings.atom.by_threads() { Key::Thread } else { Key::Atom }, ""),
        lanes,
        vector: settings.text(Key::Vector, "vector(1)"),
        shared: settings.get(Key::Shared).map_or_else(
            || {
                let orders = settings.staged.shared.map(|(a, b)| SharedClause::Orders { a: Some(a), b: Some(b) });
                Clause::Shared(orders.unwrap_or(SharedClause::None)).to_string()
            },
            Clause::to_string,
        ),
        stages: settings.text(Key::Stages, "stages(1)"),
        load: settings.text(Key::Load, "load(registers)"),
        transposed: settings.text(Key::Transposed, ""),
        pack: match settings.get(Key::Emulate) {
            Some(emulate) => emulate.to_string(),
            None => {
                settings.text(Key::Pack, if settings.staged.pack.a { "pack(a, b)" } else { "operands as they are" })
            }
        },
        promote: settings.text(Key::Promote, &default_promote(settings)),
        raster: settings.text(Key::Raster, &format!("raster(group = {}, along = n)", settings.scheduler.raster.group)),
        tail: settings.text(Key::Tail, "tail(predicate)"),
        unroll: settings.text(Key::Unroll, &format!("unroll({unroll})")),
        order: settings.text(Key::Order, "order(row)"),
        prefetch: settings.text(Key::Prefetch, &format!("prefetch({prefetch})")),
        batch: settings.text(Key::Batch, "one product"),
        pace: settings.text(Key::Pace, if settings.staged.pace == Pace::Tile { "pace(tile)" } else { "pace(free)" }),
        split_k: settings.text(Key::SplitK, &stream_k),
        persistent: settings.text(Key::Persistent, &persistent),
        cluster: settings.text(Key::Cluster, ""),
        store: settings.text(Key::Store, "store(direct)"),
        specialize: settings.text(Key::Specialize, "one role"),
        registers: settings.text(Key::Registers, "the same registers for all"),
    }
}
