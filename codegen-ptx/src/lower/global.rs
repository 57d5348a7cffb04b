//! `shared(none)`: every thread reads its operands from global memory, step by step over all of k.
//!
//! Fragments are also prefetched from one round of the unrolled loop to the next. Otherwise each round waits for its
//! own loads (`naive` on an H200 at 4096: 4.7 instead of 6.5 TFLOP/s).
//!
//! Tiles at an edge clamp the coordinates that they read to the last row or column, so that no load needs a guard. The
//! results there are not stored. If a thread's elements can share one pointer (or one vector access) in the interior,
//! interior tiles get a separate loop.

use ptx_gemm_dsl::terms::{Fast, Param, Side, Tail};

use super::extent::register;
use super::outer::OuterProducts;
use super::stream::{Fragments, GlobalSource, Stream};
use super::{Lowered, Lowering, WorkTile, broken, letter, misplaced};
use crate::kernel::{Dim, Expr, Guard, Op as KernelOp, Reach as Extent};
use crate::origin::Site;
use crate::tile::{Fetch, Note, Op, Source, Span, Statement};

/// How reads beyond the edge are avoided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// There are no such reads.
    Inside,
    /// Clamped to the last row or column.
    Clamped,
}

fn global(stream: &mut Stream) -> Lowered<&mut GlobalSource> {
    match &mut stream.from {
        Fragments::Global(global) => Ok(global),
        Fragments::Slot(_) => Err(broken("one operand is fetched from global memory and the other from a slot")),
    }
}

impl<'a> Lowering<'a> {
    /// Lowers the K-steps of a block without shared memory.
    pub(super) fn direct(&mut self, work_tile: &WorkTile, statement: &'a Statement) -> Lowered<()> {
        let Op::Steps { span: Span::All, fetches, .. } = &statement.op else { return Err(misplaced(statement)) };
        let mut own_loop = false;
        for (fetch, _) in fetches {
            let shares = self.program.problem.layouts.fast(fetch.side) == Fast::Mn;
            own_loop |= shares && self.positions(fetch.side)?.len() > 1;
        }
        match (self.program.tail, work_tile.interior) {
            (Tail::Predicate, Some(interior)) if own_loop => {
                self.b.open();
                self.direct_loop(work_tile, statement, Reach::Inside)?;
                let inside = self.b.close();
                self.b.open();
                self.direct_loop(work_tile, statement, Reach::Clamped)?;
                let clamped = self.b.close();
                self.b.origin(&self.program.tail_note, "tiles inside D share pointers");
                self.b.branch(interior, inside, clamped);
                Ok(())
            }
            (Tail::Predicate, _) => self.direct_loop(work_tile, statement, Reach::Clamped),
            (Tail::None, _) => self.direct_loop(work_tile, statement, Reach::Inside),
        }
    }

    fn direct_loop(&mut self, work_tile: &WorkTile, statement: &'a Statement, reach: Reach) -> Lowered<()> {
        let Op::Steps { unroll, fetches, multiply, multiply_note, .. } = &statement.op else {
            return Err(misplaced(statement));
        };
        let note = &statement.note;
        let products = OuterProducts::of(self, multiply, multiply_note)?;
        let mut streams = fetches
            .iter()
            .map(|(fetch, own)| self.global_stream(work_tile, *fetch, own, note, *unroll, reach))
            .collect::<Lowered<Vec<_>>>()?;
        self.b.origin(note, "K left");
        let left = self.b.variable(work_tile.k.clone(), work_tile.k.bound());
        if *unroll > 1 {
            self.rounds(&products, &mut streams, &left, note, *unroll)?;
        }
        for stream in &mut streams {
            // The remainder of k is read element by element, into the same registers.
            if global(stream)?.fast == Fast::K {
                (stream.width, stream.group) = (1, 1);
            }
            stream.ahead = 0;
        }
        self.rounds(&products, &mut streams, &left, note, 1)
    }

    /// Runs whole rounds of `steps` steps while enough are left.
    fn rounds(
        &mut self,
        products: &OuterProducts,
        streams: &mut [Stream],
        left: &Expr,
        note: &Note,
        steps: u32,
    ) -> Lowered<()> {
        self.b.origin_at(Site::Rounds, note, &format!("{steps} K-steps per round"));
        let some = self.b.set_reg(left.clone().ge(steps));
        self.b.open();
        for stream in streams.iter_mut() {
            let ahead = stream.ahead;
            self.begin(stream)?;
            (global(stream)?.left, global(stream)?.before) = (Some(register(left)?), 0);
            self.first_groups(products, stream, 0)?;
            self.step_on(stream, ahead)?;
        }
        self.b.open();
        self.b.origin_at(Site::KAfterRound, note, "K left after this round");
        self.b.assign(left, left.clone() - steps);
        let again = self.b.set_reg(left.clone().ge(steps));
        for stream in streams.iter_mut() {
            self.begin(stream)?;
            global(stream)?.before = steps;
        }
        self.step_loop(products, streams, 0..steps, Some(again))?;
        streams.iter_mut().try_for_each(|stream| self.step_on(stream, steps))?;
        let body = self.b.close();
        self.b.origin_at(Site::Rounds, note, &format!("{steps} K-steps per round"));
        self.b.push(KernelOp::Loop { body, again });
        for stream in streams.iter_mut().filter(|stream| stream.ahead > 0) {
            let (side, ahead) = (stream.side, stream.ahead);
            self.b.origin(note, &format!("{}: back to the step that is multiplied next", letter(side)));
            let source = global(stream)?;
            let back = source.distance(ahead);
            for pointer in &source.pointers {
                self.b.assign(pointer, pointer.clone() - back.clone());
            }
        }
        let then = self.b.close();
        self.b.branch(some, then, Vec::new());
        Ok(())
    }

    fn global_stream(
        &mut self,
        work_tile: &WorkTile,
        fetch: Fetch,
        note: &Note,
        steps_note: &Note,
        unroll: u32,
        reach: Reach,
    ) -> Lowered<Stream> {
        if fetch.from != Source::Global {
            return Err(broken("a loop over K-tiles cannot read from global memory"));
        }
        let Fetch { side, width, ahead, hold, .. } = fetch;
        let positions = self.positions(side)?;
        let (row, col) = work_tile.thread()?;
        let local = match side {
            Side::A => row,
            Side::B => col,
        };
        let (start, rem) = work_tile.own(side);
        let fast = self.program.problem.layouts.fast(side);
        let bytes = self.bytes(side.operand());
        self.b.origin_at(Site::PartInGlobal, note, &format!("addresses of this thread's part of {}", letter(side)));
        let base = self.matrix(work_tile, side.operand())?;
        let ld = self.wide_arg(&Param::Ld(side.operand()))?;
        let ld_bytes = self.b.set(ld * bytes);
        let pitch = match fast {
            Fast::K => ld_bytes.clone(),
            Fast::Mn => Expr::Const(u64::from(bytes)),
        };
        let first_k = match fast {
            Fast::K => work_tile.k0.clone().wide() * bytes,
            Fast::Mn => work_tile.k0.clone().wide() * ld_bytes.clone(),
        };
        let base = self.b.set(base + first_k);
        let (mut pointers, mut elements) = (Vec::new(), Vec::new());
        for (i, position) in positions.iter().enumerate() {
            let shared_pointer = reach == Reach::Inside && fast == Fast::Mn && i > 0;
            if !shared_pointer {
                let coordinate = local.clone() + *position;
                let coordinate = match reach {
                    Reach::Inside => coordinate,
                    Reach::Clamped => coordinate.min(rem.clone() - 1u32),
                };
                let coordinate = start.clone() + coordinate;
                let address = base.clone() + coordinate.wide() * pitch.clone();
                pointers.push(self.b.variable_wide(address));
            }
            let constant = if shared_pointer { position * bytes } else { 0 };
            elements.push((pointers.len() - 1, constant));
        }
        // A vector along m or n may cross an edge, so it is used in the interior only.
        let width = if fast == Fast::Mn && reach == Reach::Clamped { 1 } else { width };
        let group = if fast == Fast::K { width } else { 1 };
        // A round has one register set per group, so groups that are prefetched never overwrite groups still to be
        // multiplied.
        let ring = if ahead > 0 { (unroll / group).max(1) } else { 1 };
        let each = positions.len() as u32 * group;
        let sets = (0..ring).map(|set| self.rotating(side, set * each, each, false)).collect();
        let same = self.types.side(side) == self.types.acc;
        let converted = if same { Vec::new() } else { self.rotating(side, 0, positions.len() as u32, true) };
        let locality = self.locality(side);
        let at = pointers.clone();
        let source = GlobalSource {
            fast,
            elements,
            pointers,
            at,
            ld_bytes,
            bytes,
            own: self.own_reach(work_tile, side)?,
            left: None,
            before: 0,
            locality,
            note: steps_note.clone(),
        };
        let from = Fragments::Global(source);
        Ok(Stream { side, positions, width, group, ahead, hold, sets, converted, from, note: note.clone() })
    }

    /// Returns to the pointers of a round's first step.
    fn begin(&mut self, stream: &mut Stream) -> Lowered<()> {
        let source = global(stream)?;
        source.at = source.pointers.clone();
        Ok(())
    }

    /// Advances the pointers, which the round has stepped through, to `steps` after their start.
    fn step_on(&mut self, stream: &mut Stream, steps: u32) -> Lowered<()> {
        if steps == 0 {
            return Ok(());
        }
        let side = stream.side;
        let source = global(stream)?;
        self.b.origin_at(Site::NextSteps, &source.note, &format!("{}: advance to the next steps", letter(side)));
        let step = match source.fast {
            Fast::K => source.distance(steps),
            Fast::Mn => source.distance(1),
        };
        for (pointer, at) in source.pointers.iter().zip(&source.at) {
            self.b.assign(pointer, at.clone() + step.clone());
        }
        Ok(())
    }

    /// Reads a group during step `step`, relative to the current position of the pointers, as step `of` of the round.
    pub(super) fn fetch_global(
        &mut self,
        stream: &mut Stream,
        (step, of): (u32, u32),
        guard: Option<Guard>,
    ) -> Lowered<()> {
        let (group, width, set) = (stream.group as usize, stream.width, stream.set(of));
        self.b.origin_at(
            Site::LoadStep,
            &stream.note,
            &format!("{} from global memory, step {of}", letter(stream.side)),
        );
        let dst_set = stream.sets[set].clone();
        let source = global(stream)?;
        if source.fast == Fast::Mn && step > 0 {
            for pointer in source.at.iter_mut() {
                *pointer = self.b.set(pointer.clone() + source.ld_bytes.clone());
            }
        }
        let (per_read, k_offset) = match source.fast {
            Fast::K => (1, step * source.bytes),
            Fast::Mn => (width, 0),
        };
        let left = source.left.ok_or_else(|| broken("a fetch outside the rounds"))?;
        // Prefetches for the next round count from there.
        let before = if guard.is_some() { 0 } else { source.before };
        let k = Extent { dim: Dim::K, left, before, end: of + group as u32 };
        let (own, side) = (source.own, stream.side);
        let access = self.operand_access(side, own, k)?;
        let source = global(stream)?;
        for i in (0..source.elements.len()).step_by(per_read as usize) {
            let (pointer, constant) = source.elements[i];
            let first = i * group;
            let dst = dst_set[first..first + width as usize].to_vec();
            let offset = i64::from(constant + k_offset);
            self.b.load_global(dst, &source.at[pointer], offset, guard, (access, source.locality));
        }
        Ok(())
    }
}
