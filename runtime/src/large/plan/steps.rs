//! The steps of a product in the order of one thread: run one after another, they compute D.

use ptx_gemm_dsl::terms::Operand;

use super::geometry::Homes;
use super::{Geometry, Request};
use crate::large::operation::{Action, Buffer, Operation, Place, Product, Stream};
use crate::large::region::Region;
use ptx_gemm_dsl::sums::Part;

/// All steps; none is [`Action::Record`] or [`Action::Wait`].
pub(super) fn steps(request: &Request, geometry: &Geometry) -> Vec<Operation> {
    let mut steps = Vec::new();
    if request.m == 0 || request.n == 0 {
        return steps;
    }
    let mut slot = 0;
    for round_m in 0..geometry.rounds[0] {
        for round_n in 0..geometry.rounds[1] {
            let blocks: Vec<Region> =
                (0..request.devices).map(|device| geometry.block(request, [round_m, round_n], device)).collect();
            if blocks.iter().all(Region::is_empty) {
                continue;
            }
            let round = Round { request, geometry, blocks: &blocks, first: steps.is_empty() };
            for slab in 0..geometry.slabs {
                round.load(slab, slot, &mut steps);
                round.multiply(slab, slot, &mut steps);
                slot = (slot + 1) % geometry.ring;
            }
        }
    }
    steps
}

/// One block on every device.
struct Round<'a> {
    request: &'a Request,
    geometry: &'a Geometry,
    /// The block of each device.
    blocks: &'a [Region],
    /// Whether it is the first of the plan.
    first: bool,
}

impl Round<'_> {
    fn used(&self) -> impl Iterator<Item = (usize, Region)> {
        self.blocks.iter().copied().enumerate().filter(|(_, block)| !block.is_empty())
    }

    /// The devices that need the same slab of A, or of B, as this one.
    fn sharing(&self, device: usize, operand: Operand) -> Vec<usize> {
        let along = |block: &Region| match operand {
            Operand::A => (block.row, block.rows),
            _ => (block.col, block.cols),
        };
        let own = along(&self.blocks[device]);
        self.used().filter(|(_, block)| along(block) == own).map(|(device, _)| device).collect()
    }

    /// Copies a slab to every device: each gets a part of it from the host, and the rest from the other devices that it
    /// is linked to.
    fn load(&self, slab: usize, slot: usize, steps: &mut Vec<Operation>) {
        let mut received = Vec::new();
        for (device, _) in self.used() {
            for operand in [Operand::A, Operand::B] {
                let group = self.sharing(device, operand);
                for (&owner, part) in group.iter().zip(self.parts(device, operand, slab, group.len())) {
                    if part.is_empty() {
                        continue;
                    }
                    let (buffer, inside) = self.home(device, operand, slab, slot, part);
                    let place = Place { buffer, region: inside };
                    let linked = owner != device && self.request.links.join(device, owner);
                    match linked {
                        true => received.push(Operation {
                            device,
                            stream: Stream::Exchange,
                            action: Action::Receive { from: owner, place },
                        }),
                        false => steps.push(Operation {
                            device,
                            stream: Stream::Upload,
                            action: Action::Upload { operand, host: part, to: place },
                        }),
                    }
                }
            }
        }
        steps.append(&mut received);
    }

    /// The parts of a slab, in the host's matrix: along m for A, along n for B.
    fn parts(&self, device: usize, operand: Operand, slab: usize, count: usize) -> Vec<Region> {
        let (block, k) = (self.blocks[device], self.geometry.slab(self.request, slab));
        let (start, extent, tile) = match operand {
            Operand::A => (block.row, block.rows, self.request.tile[0]),
            _ => (block.col, block.cols, self.request.tile[1]),
        };
        let size = extent.div_ceil(tile).div_ceil(count) * tile;
        let range = |index: usize| start + (index * size).min(extent)..start + ((index + 1) * size).min(extent);
        let part = |index| match operand {
            Operand::A => Region::new(range(index), k.clone()),
            _ => Region::new(k.clone(), range(index)),
        };
        (0..count).map(part).collect()
    }

    /// The buffer of a part of a slab, and its place in the buffer.
    fn home(&self, device: usize, operand: Operand, slab: usize, slot: usize, part: Region) -> (Buffer, Region) {
        let (block, k) = (self.blocks[device], self.geometry.slab(self.request, slab).start);
        match operand {
            Operand::A => (Buffer::A(slot), Region { row: part.row - block.row, col: part.col - k, ..part }),
            _ => (Buffer::B(slot), Region { row: part.row - k, col: part.col - block.col, ..part }),
        }
    }

    /// Multiplies a slab on every device; copies C to the device before the first slab, and writes D after the last.
    fn multiply(&self, slab: usize, slot: usize, steps: &mut Vec<Operation>) {
        let last = self.geometry.slabs - 1;
        let part = match slab {
            0 if last == 0 => Part::Whole,
            0 => Part::First,
            slab if slab == last => Part::Last,
            _ => Part::Middle,
        };
        let homes = Homes::of(self.request);
        // With strips, the first product of a block starts before the last part of the previous D has left, and D
        // leaves before the block is finished.
        let in_strips = match part {
            Part::Whole | Part::Last => true,
            Part::First => !self.first || homes.addend.is_some(),
            Part::Middle => false,
        };
        let strips = |block: Region| match in_strips {
            true => self.geometry.strips(self.request, block.rows, block.cols),
            false => vec![Region::new(0..block.rows, 0..block.cols)],
        };
        let begins = matches!(part, Part::Whole | Part::First);
        for (device, block) in self.used() {
            for strip in strips(block) {
                if let Some(buffer) = homes.addend.filter(|_| begins) {
                    let (host, to) = (strip.moved(block.row, block.col), Place { buffer, region: strip });
                    let action = Action::Upload { operand: Operand::C, host, to };
                    steps.push(Operation { device, stream: Stream::Addend, action });
                }
                steps.push(self.product(device, block, strip, part, slab, slot, homes));
                if matches!(part, Part::Whole | Part::Last) {
                    let from = Place { buffer: homes.result, region: strip };
                    let action = Action::Download { from, host: strip.moved(block.row, block.col) };
                    steps.push(Operation { device, stream: Stream::Download, action });
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // Each is one coordinate of the launch.
    fn product(
        &self,
        device: usize,
        block: Region,
        strip: Region,
        part: Part,
        slab: usize,
        slot: usize,
        homes: Homes,
    ) -> Operation {
        let depth = self.geometry.slab(self.request, slab).len();
        let a = Region { row: strip.row, col: 0, rows: strip.rows, cols: depth };
        let b = Region { row: 0, col: strip.col, rows: depth, cols: strip.cols };
        let (c, d) = match part {
            Part::Whole => (homes.addend, homes.result),
            Part::First => (homes.addend, Buffer::Sum),
            Part::Middle => (Some(Buffer::Sum), Buffer::Sum),
            Part::Last => (Some(Buffer::Sum), homes.result),
        };
        let at = |buffer| Place { buffer, region: strip };
        let action = Action::Multiply(Product {
            part,
            a: Place { buffer: Buffer::A(slot), region: a },
            b: Place { buffer: Buffer::B(slot), region: b },
            c: c.map(at),
            d: at(d),
            host: strip.moved(block.row, block.col),
        });
        Operation { device, stream: Stream::Compute, action }
    }
}
