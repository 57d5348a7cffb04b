//! A tile around its sum: accumulators are cleared before it, and D is stored after it.

use ptx_gemm_dsl::terms::{Load, Reduce};

use super::super::{Op, ReadC, Stager, Statement, Writer};
use super::{Builder, at, note};

impl Builder<'_> {
    /// A tile, from clearing its accumulators to its store. A persistent block has no copies in flight at the end.
    pub(super) fn with_store(&self, sum: Vec<Statement>) -> Vec<Statement> {
        let (plan, clauses) = (self.plan, &self.plan.clauses);
        let mut body = self.skip();
        body.extend(self.prefetch_c());
        body.push(at(Op::Clear { acc: 0 }, &clauses.thread));
        if plan.sums.promote.is_some() {
            body.push(at(Op::Clear { acc: self.summed() }, &clauses.promote));
        }
        body.extend(self.rest().map(|acc| at(Op::Clear { acc }, &clauses.promote)));
        if self.returns_late() {
            let back = [at(Op::Settle, &clauses.store)].into_iter().chain(self.give_back()).collect();
            body.push(at(Op::AfterFirst { body: back }, &clauses.store));
        }
        let staged = matches!(sum.first(), Some(Statement { op: Op::IfAnyK { .. }, .. }));
        body.extend(self.take());
        body.extend(sum);
        body.extend(self.rest().map(|rest| at(Op::AddRest { rest, into: 0 }, &clauses.promote)));
        let layouts = self.problem.layouts;
        let width = self.variant.d_width;
        // A C with the other layout than D is read element by element.
        let c_width = if self.problem.epilogue.uses_c() && layouts.c == layouts.d { self.variant.c_width } else { 1 };
        let store = match (self.variant.staged, &plan.sums.exchange) {
            (None, Some(exchange)) => {
                body.extend(self.drain(&clauses.split_k));
                body.push(Statement { note: note(&clauses.split_k), ..self.meet_to_store() });
                vec![at(Op::Share { acc: 0, width: exchange.write_width }, &clauses.split_k)]
            }
            (None, None) => vec![at(Op::Store { acc: 0, width, c_width }, &clauses.epilogue)],
            (Some(staged), _) => {
                body.extend(self.drain(&clauses.store));
                let settle = || at(Op::Settle, &clauses.store);
                if self.settles_late() && !staged.holds_c {
                    body.push(settle());
                }
                body.extend(staged.holds_c.then(|| at(Op::AwaitC, &clauses.load)));
                match staged.lent {
                    // C has been copied there, so no thread reads the last tile any more.
                    None if staged.holds_c && self.problem.epilogue.dropping_c().is_empty() => {}
                    None => body.push(self.meet_to_store()),
                    // The producer that lends the slots knows that all threads have read them.
                    Some(_) => body.push(at(Op::Borrow { ring: 0 }, &clauses.store)),
                }
                let writer = match staged.box_lines {
                    Some(rows) => Writer::Tma { rows },
                    None => Writer::Registers { width },
                };
                let by = match staged.matrices {
                    true => Stager::Matrices,
                    false => Stager::Registers { width: staged.width },
                };
                let c = if staged.holds_c { ReadC::Stage } else { ReadC::Global { width: c_width } };
                let mut store = vec![
                    at(Op::Stage { acc: 0, by, c }, &clauses.epilogue),
                    self.meet_to_store(),
                    at(Op::Write { by: writer }, &clauses.store),
                ];
                if staged.box_lines.is_some() && !self.settles_late() && !self.returns_late() {
                    store.push(settle());
                }
                store
            }
        };
        let reduce = plan.scheduler.split_k.map(|split| split.reduce).filter(|reduce| *reduce != Reduce::Cluster);
        let how = reduce.or(plan.scheduler.stream_k.then_some(Reduce::Workspace));
        match how {
            None => body.extend(store),
            Some(how) => body.push(at(Op::Reduce { acc: 0, how, body: store }, &clauses.split_k)),
        }
        if self.lends() && !self.returns_late() {
            body.extend(self.give_back());
        }
        if plan.scheduler.persistent.is_some() && staged {
            if plan.roles.producer_warps == 0 && self.variant.load == Load::CpAsync && self.variant.staged.is_none() {
                body.push(at(Op::Drain, &clauses.persistent));
            }
            // If the phases of mbarriers continue, the next tile's first slots differ from those that are still read. A
            // tile of D in their memory is read by all threads, or by the one that also starts the next copies.
            let carried = plan.barrier_offset(self.variant).is_some();
            let one_thread =
                self.variant.load == Load::Tma && self.variant.staged.is_some_and(|staged| staged.box_lines.is_some());
            let free = self.variant.staged.is_none() || plan.roles.producer_warps > 0 || one_thread;
            if !(carried && free) {
                body.push(at(Op::Sync, &clauses.persistent));
            }
        }
        body
    }

    /// The memory of the slots is free once all threads have read the last one, and the zeros copied past the end of k
    /// have arrived.
    fn drain(&self, clause: &str) -> Option<Statement> {
        let copies = self.plan.roles.producer_warps == 0 && self.variant.load == Load::CpAsync;
        copies.then(|| at(Op::Drain, clause))
    }

    /// Starts the copies of C to the stage of D, as soon as the last tile has been read there.
    fn prefetch_c(&self) -> Vec<Statement> {
        let clauses = &self.plan.clauses;
        let Some(rows) = self.variant.staged.filter(|staged| staged.holds_c).and_then(|staged| staged.box_lines) else {
            return Vec::new();
        };
        let settle = self.settles_late().then(|| at(Op::Settle, &clauses.store));
        settle.into_iter().chain([at(Op::PrefetchC { rows }, &clauses.load)]).collect()
    }

    /// Whether TMA reads a tile of D while the next one is computed, because the tile has its own memory.
    pub(super) fn settles_late(&self) -> bool {
        let by_tma = self.variant.staged.is_some_and(|staged| staged.box_lines.is_some());
        by_tma && !self.lends() && self.plan.roles.producer_warps > 0 && self.plan.scheduler.persistent.is_some()
    }

    /// Returns the slots of the tile of D, which nothing reads any more.
    fn give_back(&self) -> impl Iterator<Item = Statement> {
        // If tensor cores read the slots, one thread of a warp group returns them.
        let meet = self.multiplies_asynchronously().then(|| self.meet_to_store());
        meet.into_iter().chain([at(Op::Return { ring: 0 }, &self.plan.clauses.store)])
    }

    /// Whether a block that computes several tiles returns the slots of one after the start of the next: TMA reads them
    /// meanwhile.
    pub(super) fn returns_late(&self) -> bool {
        let plan = self.plan;
        let by_tma = self.variant.staged.is_some_and(|staged| staged.box_lines.is_some());
        let divided = plan.scheduler.split_k.is_some() || plan.scheduler.stream_k;
        self.lends() && by_tma && plan.scheduler.persistent.is_some() && plan.roles.turns == 1 && !divided
    }

    /// Whether the tile of D is in slots that producers lend.
    pub(super) fn lends(&self) -> bool {
        self.variant.staged.is_some_and(|staged| staged.lent.is_some())
    }
}
