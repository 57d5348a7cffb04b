//! Clauses that are missing, given twice, or contradict each other.

use crate::check::finding::{Finding, Findings};
use crate::check::settings::Settings;
use crate::clause::{Clause, Emulation, TypesClause};
use crate::diagnostic::Diagnostic;
use crate::keys::KeySet;
use crate::schedule::Schedule;
use crate::table::Key;
use crate::terms::{Load, Operands, Reads, Reduce, SplitK, Store};
use crate::types::Batch;

pub(super) fn check(schedule: &Schedule, settings: &Settings, findings: &mut Findings) {
    twice(schedule, findings);
    missing(settings, findings);
    match settings.staged.shared {
        None => nothing_staged(settings, findings),
        Some(_) => staged(settings, findings),
    }
    if settings.steps.reads == Reads::Volatile {
        volatile_reads(settings, findings);
    }
    if !settings.atom.by_threads() {
        fma_only(settings, findings);
    }
    companions(settings, findings);
}

fn twice(schedule: &Schedule, findings: &mut Findings) {
    for (index, item) in schedule.items.iter().enumerate() {
        let key = item.clause.key();
        let Some(first) = schedule.items[..index].iter().find(|earlier| earlier.clause.key() == key) else { continue };
        let (name, first_name) = (item.clause.name(), first.clause.name());
        let message = if item.clause == first.clause {
            format!("{} is given twice", item.clause)
        } else if name == first_name {
            format!("{name} is given twice: {}, then {}", first.clause, item.clause)
        } else if item.clause == Clause::DoubleBuffer {
            format!("{} conflicts with {}", item.clause, first.clause)
        } else {
            format!("{} conflicts with {}", first.clause, item.clause)
        };
        let mut finding = Finding {
            diagnostic: Diagnostic::error("twice", name, message),
            anchor: Some(key),
            item: Some(index),
            subject: String::new(),
            depends: KeySet::default(),
            candidates: Vec::new(),
            last_resorts: Vec::new(),
        };
        finding.set(&first.clause, format!("keep one of them: {}", first.clause));
        finding.set(&item.clause, format!("keep one of them: {}", item.clause));
        findings.push(finding);
    }
}

fn missing(settings: &Settings, findings: &mut Findings) {
    if settings.shape.tile.is_none() {
        let finding =
            findings.error("required", Key::Tile, &[], "no tile: a schedule says what one thread block computes");
        let thread = settings.shape.thread.filter(|t| t.m > 0 && t.n > 0);
        if let Some(thread) = thread {
            let (m, n) = (u64::from(thread.m) * 16, u64::from(thread.n) * 16);
            for text in [format!("tile({m}, {n}, 8)"), format!("tile({m}, {n})")] {
                finding.set(&text, format!("add {text}"));
            }
        }
        for text in ["tile(128, 128, 8)", "tile(128, 128)", "tile(64, 64, 8)", "tile(32, 32, 8)", "tile(32, 32)"] {
            finding.set(text, format!("add {text}"));
        }
    }
    if settings.shape.thread.is_none() && settings.atom.by_threads() {
        let message = "no thread: with atom(fma) a schedule says what one thread computes";
        let finding = findings.error("required", Key::Thread, &[Key::Atom], message);
        for size in [8, 4, 2, 1, 16] {
            let text = format!("thread({size}, {size})");
            finding.set(&text, format!("add {text}"));
        }
    }
}

/// `shared(none)` leaves nothing to pipeline, reload or swizzle.
fn nothing_staged(settings: &Settings, findings: &mut Findings) {
    let mut contradiction = |key: Key, reason: &str| {
        let Some(clause) = settings.get(key) else { return };
        let message = format!("{clause} conflicts with shared(none): {reason}");
        let finding = findings.error("nothing-staged", key, &[Key::Shared], message);
        finding.remove(clause.name(), format!("leave {} out", clause.name()));
        finding.remove("shared", "leave shared(none) out");
    };
    if settings.staged.stages > 1 {
        contradiction(Key::Stages, "no tiles are staged, so there is no pipeline");
    }
    if settings.staged.load != Load::Registers {
        contradiction(Key::Load, "no tiles travel to shared memory");
    }
    if settings.output.store != Store::Direct {
        contradiction(Key::Store, "a tile of D passes through shared memory only where those of A and B do");
    }
    if settings.roles.specialize.is_some() {
        contradiction(Key::Specialize, "there is nothing for producers to copy");
    }
    if settings.steps.operands == Operands::Shared {
        contradiction(Key::Operands, "there is no shared memory to reload operands from");
    }
    if let Some(k) = settings.shape.tile.and_then(|tile| tile.k) {
        let message =
            format!("shared(none) stages nothing: the depth {k} of {} is not used", settings.text(Key::Tile, ""));
        findings.note("unused-depth", Key::Tile, &[Key::Shared], message);
    }
}

fn staged(settings: &Settings, findings: &mut Findings) {
    if let Some(tile) = settings.shape.tile
        && tile.k.is_none()
    {
        let message = format!("{} has no depth, and K-tiles are staged in shared memory", settings.text(Key::Tile, ""));
        let finding = findings.error("depth-missing", Key::Tile, &[Key::Shared], message);
        for k in [8, 16, 4, 32, 1] {
            let text = format!("tile({}, {}, {k})", tile.m, tile.n);
            finding.set(&text, format!("{text} stages {k} of K at a time"));
        }
        finding.set("shared(none)", "shared(none) stages nothing");
    }
    if settings.staged.load == Load::Registers && settings.staged.stages > 2 {
        let stages = settings.text(Key::Stages, "");
        let message = format!("{stages} is deeper than load(registers) allows: at most 2 stages");
        let finding = findings.error("register-stages", Key::Stages, &[Key::Load], message);
        finding.set("load(cp_async)", format!("load(cp_async) allows {stages}"));
        finding.set("load(tma)", format!("load(tma) allows {stages}"));
        finding.set("stages(2)", "stages(2) is legal");
        finding.set("stages(1)", "stages(1) is legal");
    }
    if settings.steps.operands == Operands::Shared
        && let Some(n) = settings.steps.prefetch.filter(|n| *n > 0)
    {
        let message =
            format!("prefetch({n}) conflicts with operands(shared): no fragments are held, so none are read ahead");
        findings
            .error("prefetch-operands", Key::Prefetch, &[Key::Operands], message)
            .remove("prefetch", "leave prefetch out")
            .set("operands(registers)", "operands(registers) holds them");
    }
}

/// Volatile reads require fragments that are read from shared memory and held in registers.
fn volatile_reads(settings: &Settings, findings: &mut Findings) {
    let (other, why) = match (settings.steps.operands, settings.steps.prefetch) {
        // The prefetched steps were reported.
        (Operands::Shared, Some(1..)) => return,
        (Operands::Shared, _) => (Key::Operands, "operands(shared), whose reads stay next to their products"),
        (Operands::Registers, _) if settings.staged.shared.is_some() => return,
        (Operands::Registers, _) => (Key::Shared, "shared(none): nothing is read from shared memory"),
    };
    let message = format!("{} conflicts with {why}", settings.text(Key::Prefetch, ""));
    let movable = format!("prefetch({})", settings.steps.prefetch.unwrap_or(0));
    findings
        .error("volatile", Key::Prefetch, &[other], message)
        .set(&movable, format!("{movable} lets the assembler move the reads"));
}

/// Tensor-core atoms fix the work of a thread, and `wgmma` reads its operands from shared memory itself.
fn fma_only(settings: &Settings, findings: &mut Findings) {
    let fixed = [Key::Thread, Key::Fragment, Key::Lanes].map(|key| (key, "fixes what a thread computes"));
    let steps = [Key::Operands, Key::Unroll, Key::Order].map(|key| (key, "multiplies whole K-tiles by matrices"));
    let read = [(Key::Prefetch, "multiplies tiles in shared memory, and reads no fragments")]
        .into_iter()
        .filter(|_| settings.atom.of_group().is_some());
    for (key, why) in fixed.into_iter().chain(steps).chain(read) {
        if let Some(clause) = settings.get(key) {
            let name = clause.name();
            // `mma` multiplies fragments, too.
            let atoms = if key == Key::Prefetch { "atom(fma) and atom(mma)" } else { "atom(fma)" };
            let message = format!("{clause} is for {atoms}: atom({}) {why}", settings.atom);
            // The atom may be the mistake: the fix that leaves fewer errors wins.
            findings
                .error("fma-only", key, &[Key::Atom], message)
                .remove(name, format!("leave {name} out"))
                .set("atom(fma)", format!("atom(fma) goes with {clause}"));
        }
    }
}

/// Clauses that need another clause.
fn companions(settings: &Settings, findings: &mut Findings) {
    let tensor = !settings.atom.by_threads();
    let f32_sums = settings.problem.types.acc == Emulation::OF;
    let lonely: [(Key, Key, bool, &str); 6] = [
        (Key::Multicast, Key::Cluster, settings.get(Key::Cluster).is_some(), "a cluster clause"),
        (Key::Multicast, Key::Load, settings.staged.load == Load::Tma, "load(tma)"),
        (Key::Pack, Key::Load, settings.staged.load == Load::Tma, "load(tma)"),
        (Key::Registers, Key::Specialize, settings.get(Key::Specialize).is_some(), "a specialize clause"),
        (Key::Promote, Key::Atom, tensor && f32_sums, "atom(mma(..)) or atom(wgmma(..)) and sums in f32"),
        (Key::Emulate, Key::Atom, tensor, "atom(mma(..)) or atom(wgmma(..))"),
    ];
    for (key, other, present, what) in lonely {
        if let Some(clause) = settings.get(key).filter(|_| !present) {
            let name = clause.name();
            let finding = findings.error("companion", key, &[other], format!("{clause} needs {what}"));
            finding.remove(name, format!("add it, or leave {name} out"));
        }
    }
    if let (Some(store), Some(SplitK { reduce: Reduce::Workspace, parts })) =
        (settings.get(Key::Store).filter(|_| settings.output.store != Store::Direct), settings.scheduler.split_k)
    {
        let serial = format!("split_k({parts}, reduce = serial)");
        let message = format!(
            "{store} conflicts with split_k({parts}, reduce = workspace): there each thread finishes what it finds complete, \
             and the threads of a block do not stage one tile together"
        );
        findings
            .error("store-split", Key::Store, &[Key::SplitK], message)
            .set(&serial, format!("{serial} lets the last block finish the whole tile"))
            .set("store(direct)", "store(direct) needs no other thread");
    }
    grouped(settings, findings);
    narrow_sums(settings, findings);
    if let (Some(split), Some(stream)) = (settings.get(Key::SplitK), settings.get(Key::StreamK)) {
        let message = format!("{split} conflicts with {stream}: both divide K among blocks");
        findings.error("conflict", Key::SplitK, &[Key::StreamK], message).remove("stream_k", "leave stream_k out");
    }
}

/// f16 accumulators stay in registers, two in each.
fn narrow_sums(settings: &Settings, findings: &mut Findings) {
    if !settings.problem.types.narrow_sums() {
        return;
    }
    for key in [Key::SplitK, Key::StreamK] {
        let Some(clause) = settings.get(key) else { continue };
        let types = settings.text(Key::Types, "");
        let message = format!("{clause} conflicts with {types}: blocks exchange sums of f32, and these are f16");
        let finding = findings.error("narrow-sums", key, &[Key::Types], message);
        finding.remove(clause.name(), format!("leave {} out", clause.name()));
        if let Some(Clause::Types(types)) = settings.get(Key::Types) {
            let wide = Clause::Types(TypesClause { acc: Some(settings.problem.types.epilogue()), ..*types });
            finding.set(&wide, format!("{wide} goes with {}", clause.name()));
        }
    }
}

/// `split_k` sums its parts in a workspace divided by the extents of one product; `stream_k` has a place for each
/// block.
fn grouped(settings: &Settings, findings: &mut Findings) {
    let Some(batch) = settings.get(Key::Batch).filter(|_| settings.problem.batch == Batch::Grouped) else { return };
    let Some(clause) = settings.get(Key::SplitK) else { return };
    let message = format!("{clause} conflicts with {batch}: the parts of k are of the extents of one product");
    findings
        .error("grouped", Key::SplitK, &[Key::Batch], message)
        .remove(clause.name(), format!("leave {} out", clause.name()))
        .set("batch(strided)", format!("batch(strided) goes with {}", clause.name()));
}
