//! Compares the contracts of `expect` with figures: the figures that a plan knows, and the wording for all of them.
//!
//! A figure belongs to an entry. Averages and bank conflicts describe the first entry, which runs for aligned operands:
//! a contract about them is a statement about the fast path. Occupancy and the assembler's figures apply to every
//! entry.

use std::fmt;

use crate::clause::{Emulation, Expectation, Knower, Metric};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::figure::Figure;
use crate::limits;
use crate::occupancy::Resource;
use crate::plan::{Emulate, Plan, Promotion, Variant};
use crate::schedule::Schedule;
use crate::suggest::count;
use crate::table::Key;
use crate::target::{Target, WARP};
use crate::terms::Extent3;
use crate::words::Word;

/// The error of one rounding to f32.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// A contract and its figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The contract as stated.
    pub contract: Expectation,
    /// The figure found.
    pub figure: Figure,
    /// The entry that the figure belongs to; `None`: all entries.
    pub entry: Option<String>,
    /// Where the figure comes from.
    pub source: FigureSource,
    /// The clauses that determine the figure.
    pub look_at: String,
}

/// The origin of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FigureSource {
    /// The plan, for a target.
    Plan(Target),
    /// The accesses of the mainloop in a product of these extents, counted from the plan.
    Sample(Extent3),
    /// The assembler, by name.
    Assembler(String),
    /// A product of these extents on a device, by name.
    Run(Extent3, String),
}

impl Measured {
    /// Whether the figure satisfies the contract.
    pub fn holds(&self) -> bool {
        self.figure.is_number() && self.contract.relation.holds(self.figure, self.contract.limit)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { contract, figure, entry, source, look_at } = self;
        let (name, unit) = (contract.metric.name(), contract.metric.unit());
        let state = if self.holds() { "holds" } else { "is broken" };
        write!(f, "expect {contract} {state}: {name} is {figure}{unit}")?;
        if let Some(entry) = entry {
            write!(f, " in {entry}")?;
        }
        match source {
            // The same on every target.
            FigureSource::Plan(_) if matches!(contract.metric, Metric::Shared | Metric::Threads) => {}
            FigureSource::Plan(target) => write!(f, " on {target}")?,
            FigureSource::Sample(Extent3 { m, n, k }) => write!(f, ", counted at {m} x {n} x {k}")?,
            FigureSource::Assembler(who) => write!(f, ", says {who}")?,
            FigureSource::Run(Extent3 { m, n, k }, device) => write!(f, ", measured at {m} x {n} x {k} on {device}")?,
        }
        if self.holds() { Ok(()) } else { write!(f, "; look at {look_at}") }
    }
}

impl Plan {
    /// The contracts that the plan decides, each with its figure.
    pub fn measured(&self) -> Vec<Measured> {
        self.known_by(Knower::Plan).flat_map(|contract| self.measure(contract)).collect()
    }

    /// The contracts that need the assembled PTX.
    pub fn unmeasured(&self) -> impl Iterator<Item = &Expectation> {
        self.known_by(Knower::Assembler)
    }

    /// The contracts that need a run on a device.
    pub fn unrun(&self) -> impl Iterator<Item = &Expectation> {
        self.known_by(Knower::Device)
    }

    fn known_by(&self, knower: Knower) -> impl Iterator<Item = &Expectation> {
        self.resources.expect.iter().filter(move |contract| contract.metric.knower() == knower)
    }

    /// A contract's figure, if the plan knows it.
    pub(crate) fn measure(&self, contract: &Expectation) -> Vec<Measured> {
        let metric = contract.metric;
        let measured = |figure, entry: Option<&Variant>, source| Measured {
            contract: *contract,
            figure,
            entry: entry.map(|variant| variant.entry.clone()),
            source,
            look_at: self.look_at(metric),
        };
        let planned = FigureSource::Plan(self.target);
        let first = self.variants.first();
        let sampled = |figure: fn(&crate::sample::Sample) -> Figure| {
            let source = FigureSource::Sample(self.sample_extents());
            first.map(|variant| measured(figure(&self.sample(variant)), first, source)).into_iter().collect()
        };
        let of_entries = |figure: &dyn Fn(u32) -> Figure| {
            let entry = |variant| measured(figure(self.resident_blocks(variant)), Some(variant), planned.clone());
            self.variants.iter().map(entry).collect()
        };
        match metric {
            Metric::Shared => vec![measured(u64::from(self.resources.shared_bytes).into(), None, planned)],
            Metric::Threads => vec![measured(u64::from(self.threads()).into(), None, planned)],
            Metric::BankConflicts => sampled(|sample| sample.bank_conflicts()),
            Metric::SectorsPerLoad => sampled(|sample| sample.sectors_per_load()),
            Metric::LoadsPerFma => sampled(|sample| sample.loads_per_fma()),
            Metric::Occupancy => of_entries(&|blocks| u64::from(blocks).into()),
            Metric::OccupancyPercent => of_entries(&|blocks| {
                let warps = u64::from(blocks) * u64::from(self.threads().div_ceil(WARP));
                Figure::ratio(100 * warps, u64::from(self.target.sm_threads() / WARP))
            }),
            Metric::Spills | Metric::Registers | Metric::CodeBytes | Metric::MaxError => Vec::new(),
        }
    }

    /// The clauses that most directly determine a figure.
    pub fn look_at(&self, metric: Metric) -> String {
        let clauses = &self.clauses;
        let (tile, thread, shared) = (&clauses.tile, &clauses.thread, &clauses.shared);
        let staged = self.ring.a.placement.is_some();
        match metric {
            Metric::Shared if staged => format!("{tile}, {shared} and {}", clauses.stages),
            Metric::Threads => format!("{tile} and {thread}"),
            Metric::Occupancy | Metric::OccupancyPercent => self.limits_occupancy(),
            Metric::BankConflicts => {
                let sample = self.variants.first().map(|variant| self.sample(variant)).unwrap_or_default();
                let fragment = self.geometry.fragment;
                let reads = format!(
                    "the fragments of {} x {} of {thread} ({} passes are lost in reading them)",
                    fragment.m, fragment.n, sample.reads.conflicts
                );
                let stores = format!("{shared} ({} passes are lost in storing K-tiles)", sample.stores.conflicts);
                let staged = sample.d_writes.conflicts + sample.d_reads.conflicts;
                let d = format!("{} ({staged} passes are lost where D is staged)", clauses.store);
                let culprits = [(sample.reads.conflicts, &reads), (sample.stores.conflicts, &stores), (staged, &d)];
                let found: Vec<&str> =
                    culprits.iter().filter(|(lost, _)| *lost > 0).map(|(_, who)| who.as_str()).collect();
                match found[..] {
                    [] => format!("{reads} and {shared}"),
                    [only] if only == reads => format!("{reads} and {shared}"),
                    _ => found.join(" and "),
                }
            }
            Metric::SectorsPerLoad if staged => format!("{}, {} and {tile}", clauses.layout, clauses.vector),
            Metric::SectorsPerLoad => format!("{}, {} and {}", clauses.layout, clauses.vector, clauses.lanes),
            Metric::LoadsPerFma => format!("{thread} and {}", clauses.vector),
            Metric::CodeBytes => format!("{thread} and {}", clauses.unroll),
            Metric::Spills | Metric::Registers => match self.resources.blocks_per_sm {
                Some(blocks) => format!("{thread}, {} and blocks_per_sm({blocks})", clauses.prefetch),
                None => format!("{thread}, {} and {}", clauses.unroll, clauses.prefetch),
            },
            Metric::Shared => shared.clone(),
            Metric::MaxError => match (self.sums.emulate, self.atom.tensor()) {
                (Some(emulate), _) => self.more_exact(emulate, self.sums.promote),
                (None, None) => clauses.types.clone(),
                (None, _) => format!("{} and {thread}", clauses.types),
            },
        }
    }

    /// Suggestions that reduce the error of an emulated product: modes that drop less of each elementary product, if
    /// the current mode drops more than one f32 rounding, and shorter or more exact sums.
    fn more_exact(&self, emulate: Emulate, promote: Option<Promotion>) -> String {
        let clauses = &self.clauses;
        let lacks = |emulation: Emulation| emulation.promise().relative();
        let least = lacks(emulate.by);
        let better = Emulation::TABLE.iter().filter(|(_, other)| least > ROUNDING && lacks(*other) < least);
        let modes: Vec<String> = better.map(|(word, _)| format!("emulate({word})")).collect();
        let sums = promote.and_then(|Promotion { every, compensated }| {
            let shorter = limits::EVERY.iter().find(|other| **other < every && other.is_multiple_of(self.block.k));
            let rounding = if compensated { ", compensated" } else { "" };
            match shorter {
                Some(every) => Some(format!("promote(every = {every}{rounding})")),
                None if compensated => None,
                None => Some(format!("promote(every = {every}, compensated)")),
            }
        });
        let instead = |other: String, clause: &str| format!("{other} in place of {clause}");
        let products = (!modes.is_empty()).then(|| instead(modes.join(" or "), &clauses.pack));
        let all: Vec<String> = products.into_iter().chain(sums.map(|sums| instead(sums, &clauses.promote))).collect();
        if all.is_empty() { clauses.types.clone() } else { all.join(", and ") }
    }

    /// The resource that limits the blocks per multiprocessor.
    fn limits_occupancy(&self) -> String {
        let clauses = &self.clauses;
        let resident = self.variants.first().map_or(1, |variant| self.resident_blocks(variant));
        if let Some(blocks) = self.resources.blocks_per_sm {
            return format!("blocks_per_sm({blocks})");
        }
        let room = self.target.residency(self.threads(), self.resources.shared_bytes, None);
        if room.blocks > resident {
            format!(
                "{}: {} of a thread for accumulators",
                clauses.thread,
                count(self.resources.accumulator_registers, "register")
            )
        } else if room.limit == Resource::Shared {
            format!(
                "{} and {}: {} B of shared memory a block",
                clauses.tile, clauses.stages, self.resources.shared_bytes
            )
        } else {
            format!("{} and {}: {} a block", clauses.tile, clauses.thread, count(self.threads(), "thread"))
        }
    }
}

impl Schedule {
    /// The diagnostics of broken contracts, at the schedule's `expect`.
    pub fn broken(&self, broken: &[Measured]) -> Diagnostics {
        let item = self.spans().find(|(clause, _)| clause.key() == Key::Expect);
        let diagnostic = |measured: &Measured| {
            let help = format!("look at {}, or state what is meant", measured.look_at);
            let diagnostic = Diagnostic::error("expect", "expect", measured.to_string()).help(help);
            Diagnostic { span: item.and_then(|(_, span)| span), ..diagnostic }
        };
        Diagnostics::new(broken.iter().map(diagnostic).collect()).in_text(self.source.clone())
    }
}
