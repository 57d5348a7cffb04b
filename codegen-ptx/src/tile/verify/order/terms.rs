//! Accumulators: the number of times that each term of the sum was added to them.

use super::super::Check;
use super::{Block, Products, READING};
use crate::tile::{Division, Instruction, Op, Span};
use ptx_gemm_dsl::terms::Reduce;

impl Block<'_> {
    /// Terms of a K-tile: one for each of its segments and each pair of planes that is multiplied in it.
    pub(super) fn per_tile(&self) -> usize {
        (self.segments.len() - 1) * super::pairs_of(self.program)
    }

    pub(super) fn multiply(
        &mut self,
        t: usize,
        acc: usize,
        (span, pair): (&Span, Option<usize>),
        kt: Option<u32>,
    ) -> Check {
        let (per_tile, segments) = (self.per_tile(), self.segments.len() - 1);
        let pair = match pair {
            None if self.program.planes_together() => {
                return Err(self.fault("planes are multiplied that are no pair of the `walk`"));
            }
            pair => pair.unwrap_or(0),
        };
        let covered: Vec<usize> = match (span, kt) {
            (Span::All, None) => (0..per_tile * self.k_tiles as usize).collect(),
            (Span::Tile(range), Some(kt)) => {
                let inside =
                    |segment: &usize| self.segments[*segment] >= range.start && self.segments[segment + 1] <= range.end;
                let first = kt as usize * per_tile + pair * segments;
                (0..segments).filter(inside).map(|segment| first + segment).collect()
            }
            _ => return Err(self.fault("the steps of a K-tile must be inside the loop, and those of all of k outside")),
        };
        let name = &self.program.accumulators[acc].name;
        if let (Some(chunk), Some(kt), Some(terms)) = (self.program.k_tiles_of_chunk(), kt, &self.threads[t].terms[acc])
        {
            let first = (kt / chunk * chunk) as usize * per_tile;
            if terms[..first].iter().any(|count| *count > 0) {
                return Err(self.fault(format_args!(
                    "{name} has products of the chunk before this one: `promote` adds them to others when it ends"
                )));
            }
        }
        let ascending =
            |terms: &Vec<u32>| covered.iter().all(|term| *term % per_tile < segments || terms[term - segments] > 0);
        if !self.threads[t].terms[acc].as_ref().is_none_or(ascending) {
            return Err(self.fault(format_args!(
                "{name} has no products of the pair of planes before this one: the `walk` says in which order they are added"
            )));
        }
        let Some(terms) = &mut self.threads[t].terms[acc] else {
            return Err(self.fault(format_args!("{name} is added to before it is cleared")));
        };
        covered.into_iter().for_each(|term| terms[term] += 1);
        self.threads[t].stale[acc] = false;
        Ok(())
    }

    pub(super) fn promote(&mut self, t: usize, from: usize, into: usize) -> Check {
        self.fresh(t, into)?;
        let terms = &mut self.threads[t].terms;
        match (terms[from].clone(), &mut terms[into]) {
            (Some(added), Some(sum)) => {
                sum.iter_mut().zip(&added).for_each(|(sum, added)| *sum += added);
                terms[from] = Some(vec![0; added.len()]);
                // Accumulators of tensor cores keep their values until the next products overwrite them.
                self.threads[t].stale[from] = self.program.overwrites(from);
                Ok(())
            }
            _ => Err(self.fault("a set of accumulators is promoted before it is cleared")),
        }
    }

    /// A set gets the rounding errors of a promotion into another one.
    pub(super) fn keep_rest(&mut self, t: usize, rest: Option<usize>, into: usize) -> Check {
        let Some(rest) = rest else { return Ok(()) };
        self.empty(t, rest)?;
        match self.threads[t].rests[rest].replace(into) {
            Some(other) if other != into => {
                Err(self.fault("a set of accumulators has the rounding errors of two sums"))
            }
            _ => Ok(()),
        }
    }

    /// The rounding errors of the promotions into a set are added to it.
    pub(super) fn add_rest(&mut self, t: usize, rest: usize, into: usize) -> Check {
        self.empty(t, rest)?;
        if self.threads[t].rests[rest].take().is_some_and(|other| other != into) {
            return Err(self.fault("the rounding errors of another sum are added"));
        }
        self.fresh(t, into)?;
        // They must not be added a second time.
        self.threads[t].terms[rest] = None;
        Ok(())
    }

    /// Checks that a set has not been promoted since its last products were added: it still holds them.
    fn fresh(&self, t: usize, acc: usize) -> Check {
        if !self.threads[t].stale[acc] {
            return Ok(());
        }
        let name = &self.program.accumulators[acc].name;
        Err(self.fault(format_args!("{name} has been promoted, and holds its old products until the next ones")))
    }

    /// Checks that rounding errors of a set are not lost.
    pub(super) fn clear(&mut self, t: usize, acc: usize) -> Check {
        let name = &self.program.accumulators[acc].name;
        if self.threads[t].rests[acc].is_some() {
            return Err(self.fault(format_args!("{name} is cleared before its rounding errors are added")));
        }
        self.threads[t].stale[acc] = false;
        Ok(())
    }

    /// Checks that a set was cleared, and has no products.
    fn empty(&self, t: usize, acc: usize) -> Check {
        self.settled(t, acc)?;
        self.fresh(t, acc)?;
        let name = &self.program.accumulators[acc].name;
        match &self.threads[t].terms[acc] {
            Some(terms) if terms.iter().all(|count| *count == 0) => Ok(()),
            Some(_) => Err(self.fault(format_args!("{name} has products, and is to have rounding errors alone"))),
            None => Err(self.fault(format_args!("{name} is used before it is cleared"))),
        }
    }

    /// Tensor cores start to add products, and to read what they multiply.
    pub(super) fn start(&mut self, t: usize, products: Products, follows: bool) {
        products.reads.iter().for_each(|(buffer, slot)| self.slots[*buffer][*slot].read[t] = READING);
        match self.threads[t].flight.last_mut().filter(|last| follows && last.acc == products.acc) {
            Some(last) => last.reads.extend(products.reads),
            None => self.threads[t].flight.push(products),
        }
    }

    /// Waits for products, except those of the newest `steps` groups.
    pub(super) fn retire(&mut self, t: usize, steps: usize) -> Check {
        let thread = &mut self.threads[t];
        if !thread.nodes.iter().any(|node| is_asynchronous(node.op)) {
            return Err(self.fault("the role starts no products that it could wait for"));
        }
        let now = thread.clock[t];
        let ended = thread.flight.len().saturating_sub(steps);
        let retired: Vec<Products> = thread.flight.drain(..ended).collect();
        for (buffer, slot) in retired.into_iter().flat_map(|products| products.reads) {
            let again = self.threads[t].flight.iter().any(|products| products.reads.contains(&(buffer, slot)));
            if !again {
                self.slots[buffer][slot].read[t] = now;
            }
        }
        Ok(())
    }

    /// Checks that no product in flight is added to an accumulator that a thread uses.
    pub(super) fn settled(&self, t: usize, acc: usize) -> Check {
        if self.threads[t].flight.iter().all(|products| products.acc != acc) {
            return Ok(());
        }
        let name = &self.program.accumulators[acc].name;
        Err(self.fault(format_args!("{name} is used while products are added to it: `retire` waits for them")))
    }

    /// Checks that every term was added exactly once.
    pub(super) fn complete(&self, t: usize, acc: usize) -> Check {
        self.settled(t, acc)?;
        let name = &self.program.accumulators[acc].name;
        let Some(terms) = &self.threads[t].terms[acc] else {
            return Err(self.fault(format_args!("{name} is read before it is cleared")));
        };
        if self.threads[t].rests.contains(&Some(acc)) {
            return Err(self.fault(format_args!("the rounding errors of {name} have not been added to it")));
        }
        let per_tile = self.per_tile();
        match terms.iter().position(|count| *count != 1) {
            None => Ok(()),
            Some(term) => {
                let (kt, segment) = (term / per_tile, term % per_tile % (self.segments.len() - 1));
                let (first, end, count) = (self.segments[segment], self.segments[segment + 1], terms[term]);
                Err(self.fault(format_args!(
                    "{name} has the products of steps {first}..{end} of K-tile {kt} {count} times instead of once"
                )))
            }
        }
    }

    pub(super) fn reduce(&mut self, t: usize, acc: usize, how: Reduce) -> Check {
        match (self.program.scheduler.division, how) {
            (Division::Cluster(_), _) | (_, Reduce::Cluster) => {
                return Err(self.fault("the blocks of a cluster `share` their sums, and an `exchange` adds them up"));
            }
            (Division::Whole, _) => {
                return Err(self.fault("k is not divided among blocks: there is nothing to reduce"));
            }
            (Division::Stream, Reduce::Serial) => {
                return Err(self.fault("blocks of stream_k add up their sums in the `workspace`"));
            }
            (Division::Parts(_), _) | (Division::Stream, Reduce::Workspace) => {}
        }
        self.complete(t, acc)?;
        self.threads[t].reduced = Some(acc);
        Ok(())
    }

    /// The thread leaves its partial sums to the blocks of the cluster. Each block stores its share of the tile
    /// afterwards.
    pub(super) fn share(&mut self, t: usize, acc: usize) -> Check {
        self.complete(t, acc)?;
        self.threads[t].stores += 1;
        self.take_slots(t, "sums are written")
    }

    pub(super) fn store(&mut self, t: usize, acc: usize) -> Check {
        self.complete(t, acc)?;
        self.threads[t].stores += 1;
        self.whole(t, acc, "stored")
    }

    /// Checks that the parts of the sum have been added up, if there are any.
    pub(super) fn whole(&self, t: usize, acc: usize, done: &str) -> Check {
        let whole = !self.program.scheduler.divides_k() || self.threads[t].reduced == Some(acc);
        match whole {
            true => Ok(()),
            false => Err(self.fault(format_args!("the tile is {done} before the parts of its sum are added up"))),
        }
    }
}

/// Whether a statement starts asynchronous products.
fn is_asynchronous(op: &Op) -> bool {
    matches!(op, Op::Steps { multiply, .. } if matches!(multiply.by, Instruction::Wgmma { .. }))
}
