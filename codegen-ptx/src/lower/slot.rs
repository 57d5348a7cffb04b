//! Reads fragments from a slot in shared memory.

use ptx_gemm_dsl::terms::{Fast, Swizzle};

use super::shared::SharedAddress;
use super::stream::{Fragments, SlotSource, Stream, offset};
use super::{Lowered, Lowering, WorkTile, broken, letter};
use crate::kernel::{Expr, Reg};
use crate::origin::Site;
use crate::tile::{self, Buffer, Fetch, Hold, Note, Op, Source, Span, Statement};

/// The address at which a thread's part of a buffer begins in slot 0.
#[derive(Clone)]
pub(super) struct FragmentBase {
    /// In bytes from the start of the buffer, before any swizzle.
    pub offset: Expr,
    /// Prepared for the distances of every unrolled body.
    pub address: SharedAddress,
}

impl<'a> Lowering<'a> {
    /// Byte distance between a step and the one `steps` later.
    pub(super) fn step_bytes(&self, buffer: usize, steps: u32) -> u32 {
        let Buffer { fast, pitch, side, .. } = self.program.buffers[buffer];
        offset(fast, pitch, self.program.element(side).bytes(), 0, steps)
    }

    /// Distances from a thread's base at which the steps `of` are read.
    fn distances(&self, buffer: usize, of: impl Iterator<Item = u32> + Clone) -> Lowered<Vec<u32>> {
        let Buffer { fast, pitch, side, .. } = self.program.buffers[buffer];
        let bytes = self.program.element(side).bytes();
        let positions = self.positions(side)?;
        let all = positions.iter().flat_map(|at| of.clone().map(move |step| offset(fast, pitch, bytes, *at, step)));
        Ok(all.collect())
    }

    /// The address at which the thread's part of a buffer begins in slot 0, prepared for every read in `body`.
    pub(super) fn fragment_base(
        &mut self,
        work_tile: &WorkTile,
        buffer: usize,
        body: &[Statement],
    ) -> Lowered<FragmentBase> {
        let Buffer { side, fast, pitch, swizzle, offset_bytes, ref note, .. } = self.program.buffers[buffer];
        if self.reads_matrices(buffer, body) {
            return self.matrix_base(buffer, body);
        }
        self.b.origin_at(
            Site::PartOfFirstSlot,
            note,
            &format!("this thread's part of {} in the first slot", letter(side)),
        );
        let (row, col) = work_tile.thread()?;
        let own = match side {
            ptx_gemm_dsl::terms::Side::A => row,
            ptx_gemm_dsl::terms::Side::B => col,
        };
        let in_slot = match fast {
            Fast::K => own * pitch,
            Fast::Mn => own,
        };
        let offset = self.b.set(in_slot * self.program.element(side).bytes());
        let mut steps = Vec::new();
        tile::walk(body, &mut |statement| {
            if let Op::Steps { span: Span::Tile(range), unroll, fetches, .. } = &statement.op
                && fetches.iter().any(|(fetch, _)| fetch.from == Source::Buffer(buffer))
            {
                let whole = *unroll == range.end - range.start;
                steps.extend(if whole { range.clone() } else { 0..*unroll });
            }
        });
        let distances = self.distances(buffer, steps.into_iter())?;
        let address = SharedAddress::new(&mut self.b, offset_bytes, offset.clone(), swizzle, distances);
        Ok(FragmentBase { offset, address })
    }

    /// A fragment's base, advanced by a variable distance: a sum, unless a swizzle permutes the bits that it changes.
    pub(super) fn moved_base(
        &mut self,
        buffer: usize,
        base: &FragmentBase,
        distance: &Expr,
        unroll: u32,
    ) -> Lowered<SharedAddress> {
        let Buffer { swizzle, offset_bytes, .. } = self.program.buffers[buffer];
        if swizzle == Swizzle::None {
            return Ok(base.address.in_slot(&mut self.b, distance));
        }
        let distances = self.distances(buffer, 0..unroll)?;
        Ok(SharedAddress::new(&mut self.b, offset_bytes, base.offset.clone() + distance.clone(), swizzle, distances))
    }

    /// The stream of one fetch from the slot at `address`, in a body of `unroll` steps.
    pub(super) fn slot_stream(
        &mut self,
        buffer: usize,
        fetch: Fetch,
        note: &Note,
        address: SharedAddress,
        unroll: u32,
    ) -> Lowered<Stream> {
        let Buffer { fast, pitch, side, .. } = self.program.buffers[buffer];
        let positions = self.positions(side)?;
        let group = if fast == Fast::K { fetch.width } else { 1 };
        let (mut sets, mut converted) = (Vec::new(), Vec::new());
        if fetch.hold == Hold::Registers {
            let each = positions.len() as u32 * group;
            let groups = 1 + (fetch.ahead / group).min(unroll.div_ceil(group) - 1);
            for set in 0..groups {
                sets.push(self.rotating(side, set * each, each, false));
            }
            if self.types.side(side) != self.types.acc {
                converted = self.rotating(side, 0, positions.len() as u32, true);
            }
        }
        let bytes = self.program.element(side).bytes();
        let from = Fragments::Slot(SlotSource { address, fast, pitch, bytes, reads: fetch.reads });
        let Fetch { width, ahead, hold, .. } = fetch;
        Ok(Stream { side, positions, width, group, ahead, hold, sets, converted, from, note: note.clone() })
    }

    /// Reads the group that begins at `step`.
    pub(super) fn fetch_slot(&mut self, stream: &Stream, step: u32) -> Lowered<()> {
        let Fragments::Slot(slot) = &stream.from else { return Err(broken("a fetch from a slot has another source")) };
        let (group, name) = (stream.group, letter(stream.side));
        let what = match group {
            1 => format!("fragment of {name}, step {step}"),
            _ => format!("fragment of {name}, steps {step} to {}", step + group - 1),
        };
        self.b.origin(&stream.note, &what);
        let set = stream.set(step);
        // Along k a group holds adjacent elements of one row; along m or n, of one fragment.
        let per_read = if slot.fast == Fast::K { 1 } else { stream.width };
        for (i, position) in stream.positions.iter().enumerate().step_by(per_read as usize) {
            let first = i * group as usize;
            let dst = stream.sets[set][first..first + stream.width as usize].to_vec();
            let (base, offset) = slot.address.at(slot.offset(*position, step))?;
            self.b.load_shared(dst, &base, i64::from(offset), slot.reads);
        }
        Ok(())
    }

    /// Reads element `i` at `step` for one product.
    pub(super) fn reload(&mut self, stream: &Stream, i: usize, step: u32) -> Lowered<Reg> {
        let Fragments::Slot(slot) = &stream.from else {
            return Err(broken("only operands in a slot can be read for each product"));
        };
        self.b.origin_at(Site::Reload, &stream.note, &format!("operand of one product, step {step}"));
        let reg = self.rotating(stream.side, 0, 1, false);
        let (base, offset) = slot.address.at(slot.offset(stream.positions[i], step))?;
        self.b.load_shared(reg.clone(), &base, i64::from(offset), slot.reads);
        if self.types.side(stream.side) == self.types.acc {
            return Ok(reg[0]);
        }
        let wide = self.rotating(stream.side, 0, 1, true);
        self.convert(&reg, &wide);
        Ok(wide[0])
    }
}
