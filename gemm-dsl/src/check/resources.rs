//! Checks a target's limits (instructions, shared memory, occupancy) and chooses the default target.

use crate::check::finding::{Finding, Findings};
use crate::check::requirements::{self, Requirement};
use crate::check::settings::Settings;
use crate::check::staging::{self, Staging};
use crate::clause::{Clause, PromoteClause, SharedClause, Skew, StagedOrder, StoreClause, TileClause};
use crate::keys::KeySet;
use crate::limits;
use crate::plan::Geometry;
use crate::suggest;
use crate::table::Key;
use crate::target::{Target, WARP, registers_per_thread};
use crate::terms::StageMemory;
use crate::words::Word;

/// The clauses that determine the size of a stage.
const STAGE: [Key; 8] =
    [Key::Tile, Key::Types, Key::Shared, Key::Stages, Key::Pace, Key::Specialize, Key::Store, Key::Layout];

/// The schedule's needs, to compare with the limits.
pub(super) struct Needs<'a> {
    settings: &'a Settings<'a>,
    requirements: Vec<Requirement<'a>>,
    geometry: Option<&'a Geometry>,
    staging: Option<&'a Staging>,
}

impl<'a> Needs<'a> {
    pub fn new(settings: &'a Settings, geometry: Option<&'a Geometry>, staging: Option<&'a Staging>) -> Needs<'a> {
        Needs { settings, requirements: requirements::all(settings), geometry, staging }
    }

    /// The target to compile for; unsupported needs become errors.
    ///
    /// A target that the schedule or the caller names is used as it is. Otherwise it is the first target of the list
    /// that suffices, or, if none does, the most capable one.
    pub fn target(&self, requested: Option<Target>, unknown: KeySet, findings: &mut Findings) -> Target {
        if let (Some(requested), Some(stated)) = (requested, self.settings.target)
            && requested != stated
        {
            let message = format!("target({stated}) conflicts with the requested {requested}");
            let finding = findings.error("target-conflict", Key::Target, &[], message);
            finding.set(format!("target({requested})"), format!("target({requested}) agrees"));
            finding.remove("target", "leave target out");
        }
        if let Some(requested) = requested.filter(|target| !Target::ALL.contains(target)) {
            let names = suggest::list(Target::TABLE.iter().map(|(name, _)| *name));
            let finding = findings.error("target-unknown", Key::Target, &[], format!("{requested} is not a target"));
            finding.otherwise(format!("one of {names}"));
        }
        let known = if unknown.contains(Key::Target) { None } else { self.settings.target };
        if let Some(target) = requested.or(known) {
            self.check(target, Choice::Stated, findings);
            return target;
        }
        let errors_on = |target: Target| {
            let mut trial = Findings::default();
            self.check(target, Choice::Default, &mut trial);
            trial.list.len()
        };
        // Fewest errors; then the most shared memory; then the oldest.
        let target = Target::ALL.into_iter().find(|t| errors_on(*t) == 0).unwrap_or_else(|| {
            let rank = |t: &Target| (errors_on(*t), u32::MAX - t.max_shared_bytes());
            Target::ALL.into_iter().min_by_key(rank).unwrap_or(Target::SM_90)
        });
        self.check(target, Choice::Default, findings);
        target
    }

    fn check(&self, target: Target, choice: Choice, findings: &mut Findings) {
        self.instructions(target, choice, findings);
        self.shared(target, choice, findings);
        self.occupancy(target, choice, findings);
    }

    fn instructions(&self, target: Target, choice: Choice, findings: &mut Findings) {
        for need in self.requirements.iter().filter(|need| !need.holds(target)) {
            let what = match choice {
                Choice::Stated => format!("{} needs {}, target is {target}", need.what, need.least),
                Choice::Default => format!("{} needs {}, and another clause needs {target}", need.what, need.least),
            };
            let finding = findings.error("instruction", need.key, choice.depends(), what);
            // `cp_async` in place of a refused `tma` is a different error, and therefore not a fix.
            finding.subject = need.what.clone();
            let newer = format!("target({})", need.least);
            // The same GPUs with their own features: that is probably the intended target.
            if need.least.capability == target.capability {
                finding.set(&newer, format!("{newer} has it, on the same GPUs"));
            }
            for text in (need.instead)() {
                let verb = if text.contains(';') { "run" } else { "runs" };
                finding.set(&text, format!("{text} {verb} there"));
            }
            finding.set(&newer, format!("{newer} has it"));
            if let Some(clause) = self.settings.get(need.key) {
                finding.remove(clause.name(), format!("leave {} out", clause.name()));
            }
        }
    }

    fn shared(&self, target: Target, choice: Choice, findings: &mut Findings) {
        let Some(staging) = self.staging else { return };
        let limit = u64::from(target.max_shared_bytes());
        if staging.shared_bytes <= limit {
            return;
        }
        let stages = self.settings.staged.stages;
        let (key, subject) = match self.settings.get(Key::Stages) {
            Some(clause) if stages > 1 => (Key::Stages, clause.to_string()),
            _ => (Key::Tile, self.settings.text(Key::Tile, "")),
        };
        let allowed = match choice {
            Choice::Stated => format!("{target} allows {limit}"),
            Choice::Default => format!("no target allows more than {limit}"),
        };
        let barriers = match staging.barrier_bytes {
            0 => String::new(),
            bytes => format!(" + mbarriers {bytes}"),
        };
        let d = match (staging.d_bytes, self.settings.turns()) {
            (0, _) => String::new(),
            (bytes, 1) => format!("; a tile of D {bytes}"),
            (bytes, turns) => format!("; {turns} tiles of D {bytes}"),
        };
        let planes =
            self.settings.shape.tile.and_then(|tile| tile.k).map_or(1, |depth| self.settings.planes_in_slot(depth));
        let of_planes = if planes > 1 { format!("{planes} planes of ") } else { String::new() };
        let message = format!(
            "{subject} needs {} B of shared memory, {allowed} ({of_planes}A {} + {of_planes}B {}{barriers} per stage{d})",
            staging.shared_bytes, staging.a_bytes, staging.b_bytes
        );
        let finding = findings.error("shared-limit", key, choice.depends(), message);
        STAGE.iter().for_each(|key| finding.depends.insert(*key));
        if planes > 1 {
            [Key::Emulate, Key::Promote].iter().for_each(|key| finding.depends.insert(*key));
        }
        // The tile of D exists once, whatever the number of stages.
        for fewer in (1..stages).rev().filter(|fewer| staging.bytes_of(*fewer) <= limit) {
            finding.set(format!("stages({fewer})"), format!("stages({fewer}) fits: {}", staging.bytes_of(fewer)));
        }
        if planes > 1 {
            let now = self.settings.promotion().map_or(0, |promotion| promotion.every);
            for every in limits::EVERY.iter().filter(|every| **every > now) {
                let rounding = self.settings.sums.promote.and_then(|promote| promote.rounding);
                let promote = PromoteClause { every: Some(*every), rounding };
                let text = Clause::Promote(promote).to_string();
                finding.set(&text, format!("{text} has one plane of each in a stage"));
            }
        }
        if staging.d_bytes > 0 && self.settings.roles.specialize.is_some() {
            let text = Clause::Store(StoreClause { way: self.settings.output.store, memory: Some(StageMemory::Ring) })
                .to_string();
            finding.set(&text, format!("{text} has the tile of D in slots"));
        }
        if staging.d_bytes > 0 {
            finding.set("store(direct)", "store(direct) stages no tile of D");
        }
        if let Some(Clause::Shared(SharedClause::Orders { a, b })) = self.settings.get(Key::Shared) {
            let plain = |order: StagedOrder| StagedOrder { skew: Skew::None, ..order };
            let text = Clause::Shared(SharedClause::Orders { a: a.map(plain), b: b.map(plain) }).to_string();
            finding.set(&text, format!("{text} pads nothing"));
        }
        self.smaller_tiles(finding);
        for target in [Target::SM_86, Target::SM_80, Target::SM_90] {
            finding.set(format!("target({target})"), format!("target({target}) allows {}", target.max_shared_bytes()));
        }
    }

    /// Tiles with a smaller depth, then smaller tiles, that may fit.
    fn smaller_tiles(&self, finding: &mut Finding) {
        let Some(tile) = self.settings.shape.tile else { return };
        let Some(depth) = tile.k else { return };
        let shallower = (1..12).map(|shift| (tile.m, tile.n, depth >> shift));
        let smaller = (1..8).map(|shift| (tile.m >> shift, tile.n >> shift, depth));
        for (m, n, k) in shallower.chain(smaller).filter(|(m, n, k)| *m > 0 && *n > 0 && *k > 0) {
            let Some(staging) = staging::of(self.settings, TileClause { m, n, k: Some(k) }) else { continue };
            let text = format!("tile({m}, {n}, {k})");
            finding.set(&text, format!("{text} needs {}", staging.shared_bytes));
        }
    }

    /// `blocks_per_sm(n)`: n blocks fit into one multiprocessor.
    fn occupancy(&self, target: Target, choice: Choice, findings: &mut Findings) {
        let Some(blocks) = self.settings.limits.blocks_per_sm.map(u64::from).filter(|&blocks| blocks > 1) else {
            return;
        };
        let (mut most, mut problem) = (u64::from(target.sm_blocks()), None);
        if blocks > most {
            problem = Some(format!("{target} holds {most} blocks per multiprocessor"));
        }
        if let Some(geometry) = self.geometry {
            let threads = u64::from(self.settings.threads(geometry).next_multiple_of(WARP));
            let limit = u64::from(target.sm_threads());
            if blocks * threads > limit && limit / threads < most {
                most = limit / threads;
                problem = Some(format!(
                    "{blocks} x {threads} threads = {}, {target} holds {limit} per multiprocessor",
                    blocks * threads
                ));
            }
        }
        if let Some(staging) = self.staging.filter(|s| s.shared_bytes > 0) {
            let each = staging.shared_bytes + u64::from(target.reserved_shared_bytes());
            let limit = u64::from(target.sm_shared_bytes());
            if blocks * each > limit && limit / each < most {
                most = limit / each;
                problem = Some(format!(
                    "{blocks} x {each} B of shared memory = {}, {target} holds {limit} per multiprocessor",
                    blocks * each
                ));
            }
        }
        let least = self.settings.atom.row(self.settings.problem.types.a).map_or(0, |row| row.least_registers);
        if let Some(geometry) = self.geometry {
            let threads = self.settings.threads(geometry);
            let given = |blocks: u64| registers_per_thread(threads, blocks as u32);
            if blocks <= most && given(blocks) < least {
                most = (1..blocks).rev().find(|blocks| given(*blocks) >= least).unwrap_or(1);
                problem = Some(format!(
                    "a thread has {} registers then, and {} needs {least}",
                    given(blocks),
                    self.settings.atom
                ));
            }
        }
        let Some(problem) = problem else { return };
        let message = format!("blocks_per_sm({blocks}) is not possible: {problem}");
        let finding = findings.error("occupancy", Key::BlocksPerSm, choice.depends(), message);
        [Key::Thread, Key::Warp].iter().for_each(|key| finding.depends.insert(*key));
        STAGE.iter().for_each(|key| finding.depends.insert(*key));
        if most > 1 {
            finding.set(format!("blocks_per_sm({most})"), format!("blocks_per_sm({most}) fits"));
        }
        finding.remove("blocks_per_sm", "leave blocks_per_sm out");
        for target in Target::ALL {
            finding.set(format!("target({target})"), format!("target({target}) holds more"));
        }
    }
}

/// Where the target comes from.
#[derive(Clone, Copy, PartialEq)]
enum Choice {
    /// The schedule or the caller named it.
    Stated,
    /// It is the most capable target: no other one does more.
    Default,
}

impl Choice {
    fn depends(self) -> &'static [Key] {
        match self {
            Choice::Stated => &[Key::Target],
            Choice::Default => &[],
        }
    }
}
