//! Checks each clause on its own: its numbers must be in their legal range.

use std::ops::RangeInclusive;

use crate::check::contracts;
use crate::check::finding::Findings;
use crate::clause::{
    Clause, Expectation, PrefetchClause, PromoteClause, RasterClause, RegistersClause, ShapeClause, SharedClause, Skew,
    SpecializeClause, SplitKClause, StagedOrder, TileClause, VectorClause, WarpCount,
};
use crate::limits;
use crate::schedule::Schedule;
use crate::suggest;
use crate::target::Target;
use crate::terms::{Along, Extent2};

/// Checks every number of every clause.
pub(super) fn check(schedule: &Schedule, findings: &mut Findings) {
    for (index, (clause, span)) in schedule.spans().enumerate() {
        let mut values = Values { clause, index, findings };
        values.check();
        if span.is_none() {
            values.readable();
        }
    }
}

struct Values<'a> {
    clause: &'a Clause,
    index: usize,
    findings: &'a mut Findings,
}

impl Values<'_> {
    fn check(&mut self) {
        match self.clause {
            Clause::Tile(t) => self.tile(*t, Clause::Tile),
            Clause::Warp(t) => self.tile(*t, Clause::Warp),
            Clause::Thread(t) => self.extent(*t, limits::EXTENT, Clause::Thread),
            Clause::Fragment(t) => self.extent(*t, limits::EXTENT, Clause::Fragment),
            Clause::Cluster(t) => self.cluster(*t),
            Clause::Vector(v) => self.vector(*v),
            Clause::Shared(SharedClause::Orders { a, b }) => self.orders(*a, *b),
            Clause::Stages(n) => self.range("n", *n, limits::STAGES, Clause::Stages),
            Clause::Unroll(n) => self.range("n", *n, limits::UNROLL, Clause::Unroll),
            Clause::Prefetch(p) => {
                self.range("n", p.steps, limits::PREFETCH, |steps| Clause::Prefetch(PrefetchClause { steps, ..*p }));
            }
            Clause::BlocksPerSm(n) => self.range("n", *n, limits::BLOCKS, Clause::BlocksPerSm),
            Clause::Raster(RasterClause { group: Some(group), along }) => {
                self.range("group", *group, limits::GROUP, |n| {
                    Clause::Raster(RasterClause { group: Some(n), along: *along })
                });
            }
            Clause::Persistent(Some(n)) => self.range("n", *n, limits::WAVE, |n| Clause::Persistent(Some(n))),
            Clause::SplitK(s) => {
                self.range("n", s.parts, limits::PARTS, |parts| Clause::SplitK(SplitKClause { parts, ..*s }));
            }
            Clause::Promote(p) if p.every.is_some_and(|every| !limits::EVERY.contains(&every)) => self.every(*p),
            Clause::Strassen(n) => self.range("levels", *n, limits::LEVELS, Clause::Strassen),
            Clause::Registers(r) => self.registers(*r),
            Clause::Specialize(s) => self.specialize(*s),
            Clause::Expect(list) => self.contracts(list),
            Clause::Shape(s) => self.shape(*s),
            _ => {}
        }
    }

    /// Checks that data given to a builder can also be written as text.
    fn readable(&mut self) {
        let problem = match self.clause {
            Clause::Target(target) if !Target::ALL.contains(target) => format!("{target} is not a target"),
            Clause::Raster(RasterClause { along: Some(Along::Z), .. }) => "tiles run along n or m, not z".into(),
            Clause::Gpu(name) => {
                let again = Schedule::read(&format!("gpu({name})"));
                match again.items.first().map(|item| &item.clause) {
                    Some(Clause::Gpu(read)) if read == name => return,
                    _ => format!("`{name}` is not a name"),
                }
            }
            Clause::Epilogue(epilogue) => {
                let again = Schedule::read(&format!("epilogue({epilogue})"));
                match again.items.first().map(|item| &item.clause) {
                    Some(Clause::Epilogue(read)) if read == epilogue => return,
                    _ => "the expression does not read back from its text".into(),
                }
            }
            _ => return,
        };
        let message = format!("{}: {problem}", self.clause);
        let finding = self.findings.error("unreadable", self.clause.key(), &[], message);
        finding.item = Some(self.index);
        finding.remove(self.clause.name(), format!("leave {} out", self.clause.name()));
    }

    /// Checks that a number is in a range; the fix may propose any value inside.
    fn range(&mut self, name: &str, value: u32, range: RangeInclusive<u32>, rebuild: impl Fn(u32) -> Clause) {
        if range.contains(&value) {
            return;
        }
        let (low, high) = (*range.start(), *range.end());
        let limit = if value < low { format!("at least {low}") } else { format!("at most {high}") };
        let message = format!("{}: {name} = {value}, {limit}", self.clause);
        let finding = self.findings.error("range", self.clause.key(), &[], message);
        finding.item = Some(self.index);
        let mut near: Vec<u32> = (0..16).rev().map(|shift| 1 << shift).filter(|n| range.contains(n)).collect();
        if value < low {
            // Small numbers first, but 1 after the common divisors.
            near.retain(|n| *n <= 128);
            near.sort_by_key(|n| (*n).abs_diff(8));
            near.insert(0, low);
        }
        for n in near {
            let text = rebuild(n).to_string();
            finding.set(&text, format!("write {text}, for example"));
        }
    }

    fn extent(&mut self, e: Extent2, range: RangeInclusive<u32>, rebuild: impl Fn(Extent2) -> Clause) {
        self.range("m", e.m, range.clone(), |m| rebuild(Extent2 { m, ..e }));
        self.range("n", e.n, range, |n| rebuild(Extent2 { n, ..e }));
    }

    fn tile(&mut self, t: TileClause, rebuild: impl Fn(TileClause) -> Clause) {
        self.range("m", t.m, limits::EXTENT, |m| rebuild(TileClause { m, ..t }));
        self.range("n", t.n, limits::EXTENT, |n| rebuild(TileClause { n, ..t }));
        if let Some(k) = t.k {
            self.range("k", k, limits::EXTENT, |k| rebuild(TileClause { k: Some(k), ..t }));
        }
    }

    fn shape(&mut self, s: ShapeClause) {
        self.range("m", s.m, limits::PRODUCT, |m| Clause::Shape(ShapeClause { m, ..s }));
        self.range("n", s.n, limits::PRODUCT, |n| Clause::Shape(ShapeClause { n, ..s }));
        self.range("k", s.k, limits::PRODUCT, |k| Clause::Shape(ShapeClause { k, ..s }));
        if let Some(batch) = s.batch {
            self.range("batch", batch, limits::PRODUCT, |n| Clause::Shape(ShapeClause { batch: Some(n), ..s }));
        }
    }

    fn cluster(&mut self, e: Extent2) {
        let blocks = u64::from(e.m) * u64::from(e.n);
        self.extent(e, limits::CLUSTER, Clause::Cluster);
        let most = *limits::CLUSTER.end();
        if e.m <= most && e.n <= most && blocks > u64::from(most) {
            let message = format!("{}: {blocks} blocks, a cluster has at most {most}", self.clause);
            let finding = self.findings.error("range", self.clause.key(), &[], message);
            finding.item = Some(self.index);
            // Shapes with as many blocks as possible, in any proportions; `multicast` needs several blocks along one
            // dimension.
            let powers = || (0..=most.ilog2()).rev().map(|shift| 1 << shift).filter(|n| *n <= most);
            let shapes = powers().flat_map(|m| powers().map(move |n| Extent2 { m, n }));
            let mut smaller: Vec<Extent2> =
                shapes.filter(|s| s.m <= e.m && s.n <= e.n && (2..=most).contains(&(s.m * s.n))).collect();
            smaller.sort_by_key(|s| std::cmp::Reverse(s.m * s.n));
            for shape in smaller {
                let text = Clause::Cluster(shape).to_string();
                finding.set(&text, format!("{text} has {}", suggest::count(shape.m * shape.n, "block")));
            }
            finding.remove("cluster", "leave cluster out");
        }
    }

    fn vector(&mut self, v: VectorClause) {
        if let Some(n) = v.all {
            self.width("n", n, |n| Clause::Vector(VectorClause { all: Some(n), ..v }));
        }
        for (name, width) in [("a", v.a), ("b", v.b), ("c", v.c), ("d", v.d)] {
            if let Some(width) = width {
                self.width(name, width, |n| Clause::Vector(v.with(name, n)));
            }
        }
    }

    /// The width of an access: a power of two.
    fn width(&mut self, name: &str, width: u32, rebuild: impl Fn(u32) -> Clause) {
        let range = limits::WIDTH;
        if !range.contains(&width) || width.is_power_of_two() {
            return self.range(name, width, range, rebuild);
        }
        let (below, above) = (1 << width.ilog2(), 2 << width.ilog2());
        let subject = self.clause.to_string();
        // No access moves more than 16 elements, whatever their type.
        let nearest =
            if name == "n" || above > 16 { "".into() } else { format!(": {name} = {below} or {name} = {above}") };
        let message = format!("{subject}: no access moves {width} elements, only powers of two{nearest}");
        let finding = self.findings.error("width", self.clause.key(), &[], message);
        finding.item = Some(self.index);
        if name == "n" {
            // An upper bound is never too wide, so both are legal if one is.
            finding.set(rebuild(below), format!("{} or {}", rebuild(below), rebuild(above)));
        }
        // A named width is a demand, which other clauses may forbid.
        for n in [below, above].into_iter().chain((0..width.ilog2()).rev().map(|shift| 1 << shift)) {
            finding.set(rebuild(n), format!("write {}, for example", rebuild(n)));
        }
    }

    /// Checks that a figure can reach the limits.
    fn contracts(&mut self, list: &[Expectation]) {
        for contract in list {
            let Some(problem) = contracts::nonsense(contract) else { continue };
            let message = format!("expect {contract}: {problem}");
            let finding = self.findings.error("limit", self.clause.key(), &[], message);
            finding.item = Some(self.index);
            if let Some((text, help)) = contracts::units(list, contract) {
                finding.set(text, help);
            }
            let rest: Vec<Expectation> = list.iter().filter(|other| *other != contract).copied().collect();
            let kept = Clause::Expect(rest.clone());
            match rest.is_empty() {
                true => finding.remove("expect", "leave expect out"),
                false => finding.set(&kept, format!("leave it out: {kept}")),
            };
        }
    }

    fn orders(&mut self, a: Option<StagedOrder>, b: Option<StagedOrder>) {
        let with_a = |skew| Clause::Shared(SharedClause::Orders { a: a.map(|order| StagedOrder { skew, ..order }), b });
        let with_b = |skew| Clause::Shared(SharedClause::Orders { a, b: b.map(|order| StagedOrder { skew, ..order }) });
        self.skew("a", a, with_a);
        self.skew("b", b, with_b);
    }

    fn skew(&mut self, name: &str, order: Option<StagedOrder>, rebuild: impl Fn(Skew) -> Clause) {
        match order.map(|order| order.skew) {
            Some(Skew::Pad(elements)) => {
                self.range(&format!("the pad of {name}"), elements, limits::PAD, |n| rebuild(Skew::Pad(n)));
            }
            Some(Skew::Swizzle(span)) if !limits::SWIZZLES.contains(&span) => {
                let message = format!("{}: the swizzle of {name} spans {span} B, one of 32, 64, 128", self.clause);
                let finding = self.findings.error("range", self.clause.key(), &[], message);
                finding.item = Some(self.index);
                let text = rebuild(Skew::Swizzle(128)).to_string();
                finding.set(&text, format!("write {text}, for example"));
            }
            _ => {}
        }
    }

    /// `setmaxnreg` takes multiples of 8 from 24 to 256 (PTX ISA, setmaxnreg).
    fn registers(&mut self, r: RegistersClause) {
        for (name, value) in [("producer", r.producer), ("consumer", r.consumer)] {
            if limits::REGISTERS.contains(&value) && value.is_multiple_of(8) {
                continue;
            }
            let message = format!("{}: {name} = {value}, a multiple of 8 from 24 to 256 is needed", self.clause);
            let finding = self.findings.error("range", self.clause.key(), &[], message);
            finding.item = Some(self.index);
            let valid = |n: u32| n.clamp(*limits::REGISTERS.start(), *limits::REGISTERS.end()) / 8 * 8;
            let fixed = RegistersClause { producer: valid(r.producer), consumer: valid(r.consumer) };
            let text = Clause::Registers(fixed).to_string();
            finding.set(&text, format!("write {text}, for example"));
            // The largest value may exceed a multiprocessor's registers.
            let text = Clause::Registers(RegistersClause { consumer: fixed.consumer.min(240), ..fixed }).to_string();
            finding.set(&text, format!("write {text}, for example"));
        }
    }

    fn every(&mut self, promote: PromoteClause) {
        let message = format!("{}: sums are promoted every 16, 32, 64, 128 or 256 of k", self.clause);
        let finding = self.findings.error("range", self.clause.key(), &[], message);
        finding.item = Some(self.index);
        for every in [128, 64, 32, 16, 256] {
            let text = Clause::Promote(PromoteClause { every: Some(every), ..promote }).to_string();
            finding.set(&text, format!("write {text}, for example"));
        }
    }

    fn specialize(&mut self, s: SpecializeClause) {
        let (name, count) = ("producers", s.producers);
        self.warp_count(name, count, |producers| Clause::Specialize(SpecializeClause { producers, ..s }));
        if let Some(count) = s.consumers {
            self.warp_count("consumers", count, |count| {
                Clause::Specialize(SpecializeClause { consumers: Some(count), ..s })
            });
        }
    }

    fn warp_count(&mut self, name: &str, count: WarpCount, rebuild: impl Fn(WarpCount) -> Clause) {
        match count {
            WarpCount::Warps(n) => self.range(name, n, limits::WARPS, |n| rebuild(WarpCount::Warps(n))),
            WarpCount::Groups(n) => self.range(name, n, limits::GROUPS, |n| rebuild(WarpCount::Groups(n))),
        }
    }
}
