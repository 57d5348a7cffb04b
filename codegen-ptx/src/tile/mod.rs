//! Tile IR: the program of one thread block, on logical tiles, before there are registers and addresses.
//!
//! A [`Module`] is the unit of a launch: programs of one problem for one target. The first program that accepts the
//! operands runs. A [`Program`] contains everything that lowering needs. Nothing is added from its schedule, so a
//! program written or edited by hand compiles like any other.
//!
//! Buffers are staged K-tiles in shared memory. A ring hands them from the role that copies to the role that
//! multiplies:
//!
//! ```text
//! acquire ab                        the next free slot belongs to the producer
//! copy a[kt + 1] -> As by …         starts to fill it
//! commit ab                         the copies are in flight or, through registers, written
//! wait ab                           the consumer takes the oldest committed slot
//! release ab                        and gives it back
//! ```
//!
//! The text form is in [`print`] and [`parse`]; the grammar is at the top of [`parse`]. The rules are in [`verify`].

pub mod build;
mod coarse;
pub mod elementwise;
mod exchange;
mod grid;
pub mod interface;
mod lexer;

mod pack;
pub mod parse;
pub mod print;
pub mod record;
mod role;
mod scheduler;
mod stage;
mod statement;
mod tensor_map;
pub mod text;
pub mod verify;

use std::sync::Arc;

use ptx_gemm_dsl::target::{MBARRIER_PAIR, SWIZZLE_PERIOD, Target};
use ptx_gemm_dsl::terms::{Extent3, Fast, Param, Side, Swizzle, Tail};
use ptx_gemm_dsl::types::{Batch, DType, Layout, Problem};

pub use exchange::Exchange;
pub use pack::{PACKED_ROW_BYTES, Pack, Planes, SCALE_LINES, SCALE_SHARED_BYTES, SCALE_THREADS, VECTOR_BYTES, Walk};
pub use ptx_gemm_dsl::atoms::{MATRIX, MATRIX_BYTES, MMA, WGMMA_DEPTH_BYTES, WGMMA_ROWS};
pub use ptx_gemm_dsl::map::{Digit, Map};
pub use role::{Role, Turn};
pub use scheduler::{Division, Scheduler};
pub use stage::{Arrival, Lent, Lines, Stage, StagePlace};
pub use statement::{
    Fetch, Hold, Index, Instruction, Mover, Multiply, Op, ReadC, Source, Span, Stager, Statement, TMA_BYTES, Writer,
    walk,
};

/// The origin of a line, as the text after its `;`: the clause of a schedule, or anything else.
///
/// Notes become the comments of the PTX and change nothing else.
pub type Note = Arc<str>;

/// The programs of one problem for one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The target to compile for.
    pub target: Target,
    /// What every entry computes: the problem that a caller asks for, or its transpose.
    pub problem: Arc<Problem>,
    /// Note of the transpose.
    pub orientation_note: Note,
    /// The entries, in the order in which a launch tries them.
    pub entries: Vec<Program>,
}

/// The program of one thread block.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Entry name.
    pub name: String,
    /// The target to compile for.
    pub target: Target,
    /// What is computed.
    pub problem: Arc<Problem>,
    /// Extents of the tile of D that a block computes, and of k in one K-tile.
    pub block: Extent3,
    /// Note of the tile.
    pub block_note: Note,
    /// Blocks per multiprocessor to compile for.
    pub blocks_per_sm: u32,
    /// How edges are handled.
    pub tail: Tail,
    /// Note of the edges.
    pub tail_note: Note,
    /// Kernel parameters in order.
    pub params: Vec<Param>,
    /// Which tiles of D a block computes.
    pub scheduler: Scheduler,
    /// Operands that are copied first.
    pub packs: Vec<Pack>,
    /// Which planes of the operands are multiplied, and when accumulators are promoted; `None`: operands have no
    /// planes.
    pub walk: Option<Walk>,
    /// Staged tiles.
    pub buffers: Vec<Buffer>,
    /// Rings of slots.
    pub rings: Vec<Ring>,
    /// The tile of D in shared memory, if it passes through there.
    pub stage: Option<Stage>,
    /// How threads learn that TMA has copied C's tile to the stage of D, if it does.
    pub arrival: Option<Arrival>,
    /// Named barriers.
    pub barriers: Vec<Barrier>,
    /// The ordered barriers of the groups of a role.
    pub turns: Vec<Turn>,
    /// Sets of accumulators.
    pub accumulators: Vec<Accumulator>,
    /// The roles of the block, by ascending threads.
    pub roles: Vec<Role>,
    /// The cluster reduction after the roles, if the blocks of a cluster have parts of k.
    pub exchange: Option<Exchange>,
}

/// A staged K-tile of one operand in shared memory. Stores and loads both use this description of its layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Name in the text.
    pub name: String,
    /// Operand.
    pub side: Side,
    /// Its plane, if a slot has all planes of a K-tile, each in its own buffer.
    pub plane: Option<u32>,
    /// Extent along the operand's own dimension (m of A, n of B), in elements.
    pub extent: u32,
    /// Extent along k, in elements.
    pub depth: u32,
    /// Contiguous dimension in shared memory.
    pub fast: Fast,
    /// Distance between rows along the strided dimension, in elements. Longer rows are cut into panels of this width;
    /// each panel holds its part of every row.
    pub pitch: u32,
    /// XOR on byte addresses.
    pub swizzle: Swizzle,
    /// Byte offset of slot 0 in the block's shared memory.
    pub offset_bytes: u32,
    /// Its note.
    pub note: Note,
}

impl Buffer {
    /// The byte in the block's shared memory at which an element of slot 0 begins. The element is at `own` along the
    /// operand's own dimension and at `k` along k; `element` is its type.
    pub fn address(&self, own: u32, k: u32, element: DType) -> u32 {
        let (slow, fast) = if self.fast == Fast::K { (own, k) } else { (k, own) };
        let panel = fast / self.pitch * self.rows() * self.pitch;
        let address = self.offset_bytes + (panel + slow * self.pitch + fast % self.pitch) * element.bytes();
        self.swizzle.of(address)
    }

    /// Elements of a row, along the contiguous dimension.
    pub fn row(&self) -> u32 {
        if self.fast == Fast::K { self.depth } else { self.extent }
    }

    /// Number of rows.
    pub fn rows(&self) -> u32 {
        if self.fast == Fast::K { self.extent } else { self.depth }
    }

    /// Elements of a row of a panel: a whole row, or the pitch if the row is longer.
    pub fn panel_row(&self) -> u32 {
        self.row().min(self.pitch)
    }

    /// Panels that the rows are cut into.
    pub fn panels(&self) -> u32 {
        self.row().div_ceil(self.pitch.max(1))
    }

    /// Size of one slot in bytes, from the first to the last element.
    pub fn span_bytes(&self, element: DType) -> u64 {
        let rows = u64::from(self.panels()) * u64::from(self.rows());
        let last_row = rows.saturating_sub(1) * u64::from(self.pitch);
        (last_row + u64::from(self.panel_row())) * u64::from(element.bytes())
    }
}

/// A ring of slots; each holds one K-tile of some buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Ring {
    /// Name in the text.
    pub name: String,
    /// Buffers that share a slot.
    pub buffers: Vec<usize>,
    /// Number of slots.
    pub depth: u32,
    /// Distance between slots, in bytes.
    pub slot_bytes: u32,
    /// How the consumer learns that a slot is full.
    pub full: Full,
    /// How the producer learns that a slot is free.
    pub empty: Empty,
    /// Byte offset of the mbarriers in shared memory, if there are any: per slot a full mbarrier, then an empty one, 8
    /// bytes each.
    pub mbarriers: Option<u32>,
    /// Its note.
    pub note: Note,
    /// Note of the mbarriers.
    pub mbarrier_note: Note,
}

/// How a consumer learns that a slot is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// `wait` is a barrier of the block.
    Barrier,
    /// `wait` waits until at most this many of the thread's groups of asynchronous copies are in flight, and then is a
    /// barrier of the block. Each `commit` ends a group.
    CopyGroups {
        /// Groups that may stay in flight.
        in_flight: u32,
    },
    /// `commit` arrives at the slot's mbarrier, and `wait` waits for it. With TMA a single thread arrives, and the
    /// mbarrier also counts the bytes of its copies.
    Mbarrier {
        /// Number of arrivals that complete a phase.
        arrivals: u32,
    },
}

/// How a producer learns that a slot is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// `release` is a barrier of the block.
    Barrier,
    /// `release` and `acquire` do nothing: the barrier in the next `wait`, or one after it, orders the readers before
    /// the writers.
    NextWait,
    /// `release` arrives at the slot's mbarrier, and `acquire` waits for it.
    Mbarrier {
        /// Number of arrivals that complete a phase.
        arrivals: u32,
    },
}

/// A named barrier.
#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    /// Name in the text.
    pub name: String,
    /// Its number in the block, 1 to 15; 0 is the barrier of the block. Each group of a role that takes turns has its
    /// own barrier: this number is that of the first one.
    pub number: u32,
    /// Number of participating threads, in whole warps.
    pub threads: u32,
    /// Its note.
    pub note: Note,
}

/// A set of accumulators, distributed over the threads of the role that uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulator {
    /// Name in the text.
    pub name: String,
    /// Which elements of the tile each thread's registers hold.
    pub map: Map,
    /// Its note.
    pub note: Note,
}

impl Program {
    /// Number of threads of a block: those of all roles.
    pub fn threads(&self) -> u32 {
        self.roles.iter().map(|role| role.threads.end).max().unwrap_or(0)
    }

    /// Every statement of every role.
    pub fn statements(&self) -> Vec<&Statement> {
        let mut all = Vec::new();
        self.roles.iter().for_each(|role| walk(&role.body, &mut |statement| all.push(statement)));
        all
    }

    /// The type of the elements of an operand that are multiplied: those of its planes, if it has any.
    pub fn element(&self, side: Side) -> DType {
        self.planes(side).map_or(self.problem.types.of(side.operand()), |planes| planes.dtype)
    }

    /// The planes that an operand is split into, if it is.
    pub fn planes(&self, side: Side) -> Option<Planes> {
        self.packed(side).and_then(|pack| pack.planes)
    }

    /// Whether a slot has all planes of a K-tile; otherwise each pair of planes has its own K-tiles.
    pub fn planes_together(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.plane.is_some())
    }

    /// The order of the K-tiles of planes, if each pair has its own K-tiles.
    pub fn planes_apart(&self) -> Option<&Walk> {
        self.walk.as_ref().filter(|_| self.planes(Side::A).is_some() && !self.planes_together())
    }

    /// K-tiles of a whole chunk, if sums are promoted.
    pub fn k_tiles_of_chunk(&self) -> Option<u32> {
        let walk = self.walk.as_ref()?;
        let pairs = if self.planes_together() { 1 } else { walk.pairs.len() as u32 };
        Some(pairs * (walk.chunk / self.block.k.max(1)))
    }

    /// Whether the first products of a chunk of k overwrite what a set of accumulators has, as those of warp groups do; others are
    /// added to it.
    pub fn overwrites(&self, acc: usize) -> bool {
        let by_group = |statement: &&Statement| match &statement.op {
            Op::Steps { multiply, .. } => multiply.acc == acc && matches!(multiply.by, Instruction::Wgmma { .. }),
            _ => false,
        };
        self.walk.is_some() && self.statements().iter().any(by_group)
    }

    /// The pair of planes that a statement multiplies, by its number in the walk, if a slot has all planes.
    pub fn pair_of(&self, fetches: &[(Fetch, Note)]) -> Option<usize> {
        let plane = |side| {
            let of_side = fetches.iter().find(|(fetch, _)| fetch.side == side);
            match of_side?.0.from {
                Source::Buffer(buffer) => self.buffers.get(buffer)?.plane,
                Source::Global => None,
            }
        };
        let pair = (plane(Side::A)?, plane(Side::B)?);
        self.walk.as_ref()?.pairs.iter().position(|of| *of == pair)
    }

    /// The lines of a tile of D.
    pub fn lines(&self) -> Lines {
        match self.problem.layouts.d {
            Layout::Row => Lines { elements: self.block.n, count: self.block.m },
            Layout::Col => Lines { elements: self.block.m, count: self.block.n },
        }
    }

    /// Whether the blocks of a cluster share the copies of an operand.
    pub fn shares(&self, side: Side) -> bool {
        self.statements().iter().any(|statement| match statement.op {
            Op::Copy { buffer, by: Mover::Tma { multicast: true, .. }, .. } => {
                self.buffers.get(buffer).is_some_and(|buffer| buffer.side == side)
            }
            _ => false,
        })
    }

    /// Number of blocks that a block signals when its slot is free, itself included: those that copy to it, or all of
    /// the cluster if [`Program::tells_cluster`].
    pub fn told(&self) -> u32 {
        if self.tells_cluster() {
            return self.scheduler.cluster_blocks();
        }
        let others = |side| if self.shares(side) { self.scheduler.alike(side).saturating_sub(1) } else { 0 };
        1 + others(Side::A) + others(Side::B)
    }

    /// Whether a block signals the whole cluster when its slot is free, including blocks that do not copy to it.
    ///
    /// This is needed if slots are lent and copies go along both extents of the cluster. A slot is not filled again
    /// before all blocks that share an operand with this one have found it empty. A slot to be lent only has to be
    /// empty for its own block, which may return it while a block across the cluster still reads. For the blocks that
    /// share with both, the second arrival of one would count as that of the other.
    pub fn tells_cluster(&self) -> bool {
        let shared = |side| self.shares(side) && self.scheduler.alike(side) > 1;
        self.lent().is_some() && shared(Side::A) && shared(Side::B)
    }

    /// Whether the accumulators are read from A, which then has the extents of D, and nothing is multiplied.
    pub fn reads_sums(&self) -> bool {
        self.statements().iter().any(|statement| matches!(statement.op, Op::Read { .. }))
    }

    /// Whether TMA copies the tile of D to global memory.
    pub fn writes_by_tma(&self) -> bool {
        self.boxes_of_d().is_some()
    }

    /// Granularity of a tile's multiplied columns; `None`: tiles always multiply all columns.
    pub fn grain(&self) -> Option<u32> {
        self.statements().iter().find_map(|statement| match &statement.op {
            Op::Steps { multiply, .. } => match multiply.by {
                Instruction::Wgmma { columns, grain } if grain < columns => Some(grain),
                _ => None,
            },
            _ => None,
        })
    }

    /// The lines of a box in which TMA copies the tile of D.
    pub fn boxes_of_d(&self) -> Option<u32> {
        self.statements().iter().find_map(|statement| match statement.op {
            Op::Write { by: Writer::Tma { rows } } => Some(rows),
            _ => None,
        })
    }

    /// The lines of the boxes in which TMA copies C to the stage of D, if it does.
    pub fn boxes_of_c(&self) -> Option<u32> {
        self.statements().iter().find_map(|statement| match statement.op {
            Op::PrefetchC { rows } => Some(rows),
            _ => None,
        })
    }

    /// How an operand is packed, if it is.
    pub fn packed(&self, side: Side) -> Option<&Pack> {
        self.packs.iter().find(|pack| pack.side == side)
    }

    /// The contiguous dimension of an operand in the memory that K-tiles are copied from: that of the packed copy, if
    /// there is one.
    pub fn copied_fast(&self, side: Side) -> Fast {
        self.packed(side).map_or(self.problem.layouts.fast(side), |pack| pack.fast)
    }

    /// Whether TMA fills the buffers of a ring.
    pub fn by_tma(&self, ring: usize) -> bool {
        self.statements().iter().any(|statement| match &statement.op {
            Op::Copy { buffer, by: Mover::Tma { .. }, .. } => self.rings[ring].buffers.contains(buffer),
            _ => false,
        })
    }

    /// Whether only tensor cores, and no threads, read the slots of a ring.
    pub fn read_by_descriptor(&self, ring: usize) -> bool {
        self.statements().iter().any(|statement| match &statement.op {
            Op::Steps { fetches, .. } => fetches.iter().any(|(fetch, _)| match fetch.from {
                Source::Buffer(buffer) => fetch.hold == Hold::Descriptor && self.rings[ring].buffers.contains(&buffer),
                Source::Global => false,
            }),
            _ => false,
        })
    }

    /// Whether a ring's slots and mbarrier phases continue after the K-tiles of a tile of D: to the next tile of a
    /// persistent block, or to lent slots.
    pub fn carried(&self, ring: usize) -> bool {
        let goes_on = self.scheduler.persistent.is_some() || self.lent().is_some_and(|lent| lent.ring == ring);
        goes_on && self.rings[ring].mbarriers.is_some()
    }

    /// The slots that hold the stage of D, if it is in a ring.
    pub fn lent(&self) -> Option<Lent> {
        let stage = self.stage.as_ref()?;
        let StagePlace::Slots(ring) = stage.place else { return None };
        let Ring { buffers, slot_bytes, .. } = &self.rings[ring];
        let first_bytes = buffers.iter().map(|buffer| self.buffers[*buffer].offset_bytes).min().unwrap_or(0);
        let (lines, dtype) = (self.lines(), self.problem.types.d);
        let all = stage.panels(lines.elements);
        let panel_bytes = (stage.bytes(lines, dtype) / u64::from(all.max(1))).try_into().unwrap_or(u32::MAX);
        let panels = (slot_bytes / panel_bytes.max(1)).min(all);
        Some(Lent { ring, first_bytes, panel_bytes, panels, slots: all.div_ceil(panels.max(1)) })
    }

    /// Whether a ring's slots are not filled with K-tiles past the end of k. In other rings such slots become zero.
    pub fn ends_with_k(&self, ring: usize) -> bool {
        self.by_tma(ring) || self.carried(ring)
    }

    /// The bytes of the stage of D, or of the partial sums that blocks exchange, outside lent slots: the first byte,
    /// and the one after the last.
    pub fn staged_range(&self) -> Option<(u64, u64)> {
        let (first, bytes) = match (&self.stage, &self.exchange) {
            (Some(Stage { place: StagePlace::At(offset_bytes), .. }), _) => (*offset_bytes, self.staged_bytes()),
            (Some(_), _) | (None, None) => return None,
            (None, Some(exchange)) => (exchange.offset_bytes, exchange.bytes(self)),
        };
        Some((first.into(), u64::from(first) + bytes))
    }

    /// Whether the stage of D, or partial sums that blocks exchange, use memory of a ring's slots.
    pub fn is_staged_in(&self, ring: usize) -> bool {
        if let Some(Stage { place: StagePlace::Slots(of), .. }) = self.stage {
            return of == ring;
        }
        let Some((first, last)) = self.staged_range() else { return false };
        let ring = &self.rings[ring];
        let start = |buffer: &usize| u64::from(self.buffers[*buffer].offset_bytes);
        let slots = ring.buffers.iter().map(start).min().unwrap_or(0);
        let end = slots + u64::from(ring.depth) * u64::from(ring.slot_bytes);
        first < end && slots < last
    }

    /// Number of groups of threads that compute one tile of D each, in turn; 1 if the same threads compute all tiles.
    pub fn groups(&self) -> u32 {
        self.roles.iter().map(|role| role.turns).max().unwrap_or(1)
    }

    /// Threads of each group that takes turns.
    pub fn per_turn(&self) -> u32 {
        self.roles.iter().find(|role| role.turns > 1).map_or(1, Role::per_tile)
    }

    /// Bytes from the stage of one group of threads to that of the next. A swizzle permutes the same bytes in each.
    pub fn stage_step(&self) -> u64 {
        let bytes = |stage: &Stage| stage.bytes(self.lines(), self.problem.types.d);
        self.stage.as_ref().map_or(0, bytes).next_multiple_of(SWIZZLE_PERIOD.into())
    }

    /// Bytes of the stage: one tile of D for each group of threads that takes turns; 0 in slots of a ring.
    pub fn staged_bytes(&self) -> u64 {
        if self.lent().is_some() {
            return 0;
        }
        let others = u64::from(self.groups().saturating_sub(1)) * self.stage_step();
        self.stage.as_ref().map_or(0, |stage| others + stage.bytes(self.lines(), self.problem.types.d))
    }

    /// The ring that contains a buffer.
    pub fn ring_of(&self, buffer: usize) -> Option<usize> {
        self.rings.iter().position(|ring| ring.buffers.contains(&buffer))
    }

    /// Shared memory of a block in bytes: every slot of every ring, the stage, and the mbarriers.
    pub fn shared_bytes(&self) -> u64 {
        let end = |ring: &Ring| {
            let first = ring.buffers.iter().map(|b| self.buffers[*b].offset_bytes).min().unwrap_or(0);
            let slots = u64::from(first) + u64::from(ring.depth) * u64::from(ring.slot_bytes);
            let mbarriers =
                ring.mbarriers.map_or(0, |at| u64::from(at) + u64::from(MBARRIER_PAIR) * u64::from(ring.depth));
            slots.max(mbarriers)
        };
        let staged = match self.lent() {
            Some(Lent { first_bytes, ring, .. }) => {
                let ring = &self.rings[ring];
                u64::from(first_bytes) + u64::from(ring.depth) * u64::from(ring.slot_bytes)
            }
            None => self.staged_range().map_or(0, |(_, end)| end),
        };
        let turns = self.turns.iter().map(|turn| turn.end(self.groups())).max().unwrap_or(0);
        let arrival = self.arrival.as_ref().map_or(0, |arrival| arrival.end(self.groups()));
        self.rings.iter().map(end).max().unwrap_or(0).max(staged).max(turns).max(arrival)
    }
}

/// The word for a kind of batch.
fn batch_word(batch: Batch) -> &'static str {
    match batch {
        Batch::One => "one",
        Batch::Strided => "strided",
        Batch::Grouped => "grouped",
    }
}

/// A parameter's name in the text of a program with this problem. In the ABI, the parameter has the name from the
/// problem that a caller asks for.
pub fn param_name(param: &Param, problem: &Problem) -> String {
    let epilogue = &problem.epilogue;
    match param {
        Param::Matrix(operand) => operand.name().into(),
        Param::Map(operand) => format!("map_{}", operand.name()),
        Param::Vector(i) => epilogue.vectors.get(*i).map_or_else(|| format!("v_{i}"), |v| format!("v_{}", v.name)),
        Param::M => "m".into(),
        Param::N => "n".into(),
        Param::K => "k".into(),
        Param::Ld(operand) => format!("ld{}", operand.name()),
        Param::BatchStride(operand) => format!("stride_{}", operand.name()),
        Param::Scalar(i) => epilogue.scalars.get(*i).map_or_else(|| format!("s_{i}"), |name| format!("s_{name}")),
        Param::Batch => "batch".into(),
        Param::Problems => "problems".into(),
        Param::Tiles => "tiles".into(),
        Param::Workspace => "workspace".into(),
        Param::Packed(operand) => format!("packed_{}", operand.name()),
        Param::Scales(operand) => format!("scales_{}", operand.name()),
    }
}
