//! How programs are launched: entries and their requirements on operands, parameters, grids, workspace.
//!
//! All of this derives from the programs alone, so that a program without a schedule is launched and checked like any
//! other.

use std::ops::Range;
use std::sync::Arc;

use ptx_gemm_dsl::target::{Target, dynamic_shared_bytes};
use ptx_gemm_dsl::terms::{Extent3, Fast, Operand, Param, Reduce, Side, Tail};
use ptx_gemm_dsl::types::{Batch, DType, Problem};

pub use super::coarse::Coarse;
pub use super::grid::{Extents, Grid, Narrow, STREAM_DEPTH, WHOLE};
use super::record::{RECORD_ALIGN, Record};
pub use super::tensor_map::TensorMap;
use super::{
    Division, Module, Op, Pack, Planes, Program, ReadC, SCALE_LINES, SCALE_SHARED_BYTES, SCALE_THREADS, Source,
    TMA_BYTES, Writer,
};

/// Bytes of a flag in the workspace: each thread has one per tile.
pub const FLAG_BYTES: u32 = 4;

/// Bytes of a scale and its inverse.
pub const SCALE_BYTES: u32 = 8;

/// The name of the workspace in figures and messages.
pub const WORKSPACE: &str = "the workspace";

/// Alignment of the partial sums in the workspace, in bytes.
pub const WORKSPACE_ALIGN: u32 = 256;

/// How a module is launched.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// The target that it was compiled for.
    pub target: Target,
    /// What a caller asks for. Entries are described in its terms, even if they compute its transpose.
    pub problem: Arc<Problem>,
    /// The entries; a launch takes the first one that accepts the operands.
    pub entries: Vec<Entry>,
}

/// One entry: its requirements, and the kernels that it launches in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Required alignments of the operands; operands without a requirement are left out.
    pub requires: Vec<Requires>,
    /// How edges are handled; without guards m, n and k must be multiples of the tile.
    pub tail: Tail,
    /// Extents of a tile of D, and of k in one K-tile.
    pub tile: Extent3,
    /// Memory for a reduction, in addition to the operands.
    pub workspace: Option<Workspace>,
    /// A record in the list of products, if there is one. The list is in the workspace, after the memory of a reduction.
    pub record: Option<Record>,
    /// The width of its tiles, if they are only as wide as needed.
    pub narrow: Option<Narrow>,
    /// Operands that are copied into the workspace first, after the memory of a reduction.
    pub packings: Vec<Packing>,
    /// The planes that are multiplied, and how often accumulators are promoted, if operands are split into planes.
    pub emulated: Option<Emulated>,
    /// Set if tensor cores keep few bits of the terms of their sums.
    pub coarse: Option<Coarse>,
    /// The kernels of one product, in order: those that pack, then the one that writes D.
    pub launches: Vec<KernelLaunch>,
}

/// f32 products from products of planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulated {
    /// Type of the planes' elements.
    pub dtype: DType,
    /// Planes of each operand.
    pub planes: u32,
    /// Products of planes.
    pub products: u32,
    /// Elements of k between two promotions.
    pub chunk: u32,
}

/// An operand that is copied before the product, unless the tensor map can describe the operand itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// A or B.
    pub operand: Operand,
    /// Indices of its kernels among the entry's launches. The last one copies it.
    pub launches: Range<usize>,
    /// Contiguous dimension of the copy.
    pub fast: Fast,
    /// Whether the operand is always copied, because the copy has another order or consists of planes.
    pub always: bool,
    /// Element type of the copy.
    pub dtype: DType,
    /// Its planes, one after another; 1 if the operand is not split.
    pub planes: u32,
    /// Whether each row of A or column of B has a scale and its inverse, stored after the copy.
    pub scaled: bool,
    /// The requirement under which the operand is used without a copy.
    pub requires: Requires,
    /// The rows of the copy begin at multiples of this number of elements.
    pub align: u32,
}

impl Packing {
    /// When a launch runs its kernel.
    pub fn when(&self) -> String {
        let (name, Requires { elements, bytes, .. }) = (self.operand.name(), self.requires);
        match self.always {
            true => "always".into(),
            false => format!(
                "unless ld{name} is a multiple of {elements} and {} at a multiple of {bytes} bytes",
                name.to_uppercase()
            ),
        }
    }

    /// Elements of a row of the copy, the number of rows, and the distance between them in elements.
    pub fn rows(&self, extents: Extents) -> (u64, u64, u64) {
        let own = if self.operand == Operand::B { extents.n } else { extents.m };
        let (run, rows) = if self.fast == Fast::K { (extents.k, own) } else { (own, extents.k) };
        (run, rows, run.next_multiple_of(self.align.into()))
    }

    /// Size in bytes of the copy, and of the scales after it.
    pub fn bytes(&self, extents: Extents) -> u64 {
        let own = if self.operand == Operand::B { extents.n } else { extents.m };
        let scales = own.saturating_mul(extents.batch).saturating_mul(SCALE_BYTES.into());
        let scales = scales.checked_next_multiple_of(u64::from(WORKSPACE_ALIGN)).unwrap_or(u64::MAX);
        self.scales_offset(extents).saturating_add(if self.scaled { scales } else { 0 })
    }

    /// Bytes from the start of the copy to the scales.
    pub fn scales_offset(&self, extents: Extents) -> u64 {
        let (_, rows, pitch) = self.rows(extents);
        let element = u64::from(self.dtype.bytes()) * u64::from(self.planes);
        let bytes = rows.saturating_mul(pitch).saturating_mul(extents.batch).saturating_mul(element);
        bytes.checked_next_multiple_of(u64::from(WORKSPACE_ALIGN)).unwrap_or(u64::MAX)
    }
}

/// The required alignment of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requires {
    /// The matrix.
    pub operand: Operand,
    /// A number that divides the leading dimension and the batch stride, in elements.
    pub elements: u32,
    /// A number that divides the address, in bytes.
    pub bytes: u32,
    /// Whether `elements` also divides the number of contiguous elements: TMA writes whole units of 16 bytes, and so
    /// overwrites what follows a row that ends within a unit.
    pub rows: bool,
}

impl Requires {
    /// The requirement of a matrix that is accessed element by element.
    fn nothing(operand: Operand, problem: &Problem) -> Requires {
        Requires { operand, elements: 1, bytes: problem.types.of(operand).bytes(), rows: false }
    }
}

/// One kernel of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLaunch {
    /// Its name in the module.
    pub kernel: String,
    /// Threads per block, along x.
    pub threads: u32,
    /// Shared memory per block in bytes.
    pub shared_bytes: u32,
    /// Blocks of the one-dimensional grid.
    pub grid: Grid,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// The tensor maps among the parameters.
    pub maps: Vec<TensorMap>,
}

/// The workspace of a reduction: one flag per thread and tile (or block), then, from the next multiple of
/// [`WORKSPACE_ALIGN`] bytes, the partial sums, element by element and thread by thread.
///
/// The flags are zero before a launch, and zero again after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The owner of a set of flags and partial sums.
    pub of: Contributor,
    /// Size of the flags of each owner, in bytes.
    pub flag_bytes: u32,
    /// Size of the partial sums of each owner, in bytes.
    pub sum_bytes: u64,
}

/// An owner of flags and partial sums in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contributor {
    /// Each tile of D, for all parts of k.
    Tile,
    /// Each block of the grid, for the one tile that it leaves to another block to finish.
    Block,
}

/// What determines the size of a workspace, in addition to the entry.
#[derive(Clone, Copy)]
pub struct Launched<'a> {
    /// Extents of the product.
    pub extents: Extents,
    /// Blocks of the kernel that writes D.
    pub blocks: u64,
    /// The operands that are copied first.
    pub packed: &'a dyn Fn(Operand) -> bool,
}

impl Interface {
    /// The interface of a module.
    pub fn of(module: &Module) -> Interface {
        let entries = module.entries.iter().map(Entry::of).collect();
        Interface { target: module.target, problem: Arc::new(module.problem.asked()), entries }
    }

    /// The matrices that the kernels read and write: A, B, C if the epilogue reads it, and D.
    pub fn matrices(&self) -> impl Iterator<Item = Operand> + use<> {
        self.problem.matrices()
    }

    /// The largest number of threads per block of any entry.
    pub fn threads(&self) -> u32 {
        self.launches().map(|launch| launch.threads).max().unwrap_or(0)
    }

    /// The largest shared memory per block of any entry, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.launches().map(|launch| launch.shared_bytes).max().unwrap_or(0)
    }

    /// Every kernel of every entry.
    pub fn launches(&self) -> impl Iterator<Item = &KernelLaunch> {
        self.entries.iter().flat_map(|entry| &entry.launches)
    }

    /// The largest workspace of any entry for a product of these extents, in bytes. `resident` is the number of blocks
    /// of an entry's last kernel that the device holds at once.
    pub fn workspace_bytes(&self, extents: Extents, resident: impl Fn(usize) -> u32) -> u64 {
        let bytes = |(index, entry): (usize, &Entry)| {
            let blocks = entry.main().map_or(0, |main| main.grid.blocks(extents, resident(index)));
            entry.workspace_bytes(Launched { extents, blocks, packed: &|_| true })
        };
        self.entries.iter().enumerate().map(bytes).max().unwrap_or(0)
    }
}

impl Entry {
    /// The entry of a program.
    pub fn of(program: &Program) -> Entry {
        let main = KernelLaunch {
            kernel: program.name.clone(),
            threads: program.threads(),
            shared_bytes: u32::try_from(program.shared_bytes()).unwrap_or(u32::MAX),
            grid: Grid::of(program),
            params: program.params.clone(),
            maps: [Operand::A, Operand::B, Operand::C, Operand::D]
                .into_iter()
                .filter_map(|operand| TensorMap::of(program, operand))
                .collect(),
        };
        let entry = Entry {
            name: program.name.clone(),
            requires: requires(program)
                .into_iter()
                .filter(|requires| program.packs.iter().all(|pack| pack.side.operand() != requires.operand))
                .collect(),
            tail: program.tail,
            tile: program.block,
            workspace: workspace(program),
            record: Record::of(program),
            narrow: Narrow::of(program),
            emulated: emulated(program),
            coarse: Coarse::of(program),
            packings: program.packs.iter().enumerate().map(|(i, pack)| packing(program, i, pack)).collect(),
            launches: program.packs.iter().flat_map(|pack| pack_launches(program, pack)).chain([main]).collect(),
        };
        entry.asked(&program.problem)
    }

    /// An entry that computes `problem`, in the terms of the problem that a caller asks for.
    fn asked(self, problem: &Problem) -> Entry {
        let requires = |requires: Requires| Requires { operand: problem.asked_operand(requires.operand), ..requires };
        let packing = |packing: Packing| Packing {
            operand: problem.asked_operand(packing.operand),
            requires: requires(packing.requires),
            ..packing
        };
        let mut entry = Entry {
            requires: self.requires.into_iter().map(requires).collect(),
            tile: problem.asked_extents(self.tile),
            packings: self.packings.into_iter().map(packing).collect(),
            record: self.record.map(|record| record.asked(problem)),
            launches: self.launches.into_iter().map(|launch| launch.asked(problem)).collect(),
            ..self
        };
        // A comes first, and so does its copy.
        entry.requires.sort_by_key(|requires| requires.operand);
        entry
    }

    /// The kernel that writes D: the last one.
    pub fn main(&self) -> Option<&KernelLaunch> {
        self.launches.last()
    }

    /// When a launch runs one of its kernels; `None`: always, since the kernel writes D.
    pub fn when(&self, launch: usize) -> Option<String> {
        let packing = self.packings.iter().find(|packing| packing.launches.contains(&launch))?;
        let each = if self.record.is_some() { "once for each product, " } else { "" };
        Some(format!("{each}{}", packing.when()))
    }

    /// The required alignment of a matrix.
    pub fn alignment(&self, operand: Operand, problem: &Problem) -> Requires {
        let found = self.requires.iter().find(|requires| requires.operand == operand);
        found.copied().unwrap_or_else(|| Requires::nothing(operand, problem))
    }

    /// True if the entry accepts operands of every size and alignment.
    pub fn suits_all(&self) -> bool {
        self.requires.is_empty() && self.tail == Tail::Predicate
    }

    /// The first extent that an entry without guards does not accept: its name, its value, and the number that it must
    /// be a multiple of.
    pub fn undivided(&self, m: u64, n: u64, k: u64) -> Option<(&'static str, u64, u32)> {
        let extents = [("M", m, self.tile.m), ("N", n, self.tile.n), ("K", k, self.tile.k)];
        let undivided = |(_, extent, tile): &(&str, u64, u32)| !extent.is_multiple_of(u64::from(*tile));
        extents.into_iter().filter(|_| self.tail == Tail::None).find(undivided)
    }

    /// Whether the second of two consecutive kernels of a launch may start before the first has ended: both copy
    /// operands, and the second does not read scales that the first one determines.
    pub fn may_overlap(&self, first: usize, second: usize) -> bool {
        let copies = self.packings.iter().any(|packing| packing.launches.contains(&first));
        copies && self.packings.iter().any(|packing| packing.launches.start == second)
    }

    /// Tiles of D with a sum over parts of k, including those of a cluster outside D.
    fn tiles(&self, extents: Extents) -> u64 {
        self.main().map_or(0, |main| main.grid.tiles(extents))
    }

    /// Size of the flags at the start of the workspace, in bytes; they must be zero before a launch.
    pub fn flag_bytes(&self, launched: Launched<'_>) -> u64 {
        self.workspace.map_or(0, |workspace| workspace.flags(self.contributors(workspace, launched)))
    }

    /// Size of the workspace in bytes.
    pub fn workspace_bytes(&self, launched: Launched<'_>) -> u64 {
        self.with_copies(&self.packings, launched)
    }

    /// Byte offset in the workspace of the list of products.
    pub fn list_offset(&self, launched: Launched<'_>) -> u64 {
        self.reduction_bytes(launched)
    }

    /// Byte offset in the workspace of an operand's copy.
    pub fn packed_offset(&self, of: Operand, launched: Launched<'_>) -> u64 {
        let before = self.packings.iter().position(|packing| packing.operand == of);
        self.with_copies(&self.packings[..before.unwrap_or(self.packings.len())], launched)
    }

    /// Size of the list of products, in bytes.
    fn list_bytes(&self, launched: Launched<'_>) -> u64 {
        self.record.as_ref().map_or(0, |record| launched.extents.batch.saturating_mul(record.bytes.into()))
    }

    /// Size of a reduction's memory or of a list of products, followed by these copies.
    fn with_copies(&self, packings: &[Packing], launched: Launched<'_>) -> u64 {
        let copies = packings.iter().filter(|packing| (launched.packed)(packing.operand));
        copies.fold(self.reduction_bytes(launched) + self.list_bytes(launched), |bytes, packing| {
            bytes.saturating_add(packing.bytes(launched.extents))
        })
    }

    /// Size of a reduction's flags and partial sums, in whole multiples of [`WORKSPACE_ALIGN`].
    fn reduction_bytes(&self, launched: Launched<'_>) -> u64 {
        let Some(workspace) = self.workspace else { return 0 };
        let count = self.contributors(workspace, launched);
        let bytes = workspace.flags(count).saturating_add(count.saturating_mul(workspace.sum_bytes));
        bytes.checked_next_multiple_of(u64::from(WORKSPACE_ALIGN)).unwrap_or(u64::MAX)
    }

    fn contributors(&self, workspace: Workspace, launched: Launched<'_>) -> u64 {
        match workspace.of {
            Contributor::Tile => self.tiles(launched.extents),
            Contributor::Block => launched.blocks,
        }
    }

    /// The size of the workspace as a formula, and which of its bytes must be zero before a launch.
    pub fn workspace_formula(&self, problem: &Problem) -> Option<String> {
        let batch = if problem.batch == Batch::Strided { " * batch" } else { "" };
        let sums = self.workspace.map(|Workspace { of, flag_bytes, sum_bytes }| {
            let tiles = self.main().map(|main| main.grid.tiles_formula()).unwrap_or_default();
            let (count, meaning) = match of {
                Contributor::Tile => ("tiles", format!("; tiles = {tiles}{batch}")),
                Contributor::Block => ("blocks", String::new()),
            };
            format!(
                "{count} * {flag_bytes} bytes of zeros (zero again afterwards), rounded up to a multiple of {WORKSPACE_ALIGN}, then \
                 {count} * {sum_bytes} bytes{meaning}"
            )
        });
        let copies = self.packings.iter().map(|packing| {
            let (name, bytes) = (packing.operand.name(), packing.dtype.bytes() * packing.planes);
            let own = if packing.operand == Operand::B { "n" } else { "m" };
            let (run, rows) = if packing.fast == Fast::K { ("k", own) } else { (own, "k") };
            let align = packing.align;
            let scales = match packing.scaled {
                true => format!("; then scales_{name}, from a multiple of {WORKSPACE_ALIGN}: {own} * {SCALE_BYTES} bytes{batch}"),
                false => String::new(),
            };
            let of = if problem.batch == Batch::Grouped { " for each product" } else { batch };
            format!("packed_{name}, from a multiple of {WORKSPACE_ALIGN}: {rows} * ({run} rounded up to {align}) * {bytes} bytes{of}{scales}")
        });
        let list = self.record.as_ref().map(|Record { bytes, .. }| {
            format!("problems, from a multiple of {RECORD_ALIGN}: batch records of {bytes} bytes, see `tile::record`")
        });
        let parts: Vec<String> = sums.into_iter().chain(list).chain(copies).collect();
        (!parts.is_empty()).then(|| parts.join("; then "))
    }
}

impl Workspace {
    fn flags(self, count: u64) -> u64 {
        let flags = count.saturating_mul(u64::from(self.flag_bytes));
        flags.checked_next_multiple_of(u64::from(WORKSPACE_ALIGN)).unwrap_or(u64::MAX)
    }
}

impl KernelLaunch {
    /// A launch for `problem`, in the terms of the problem that a caller asks for.
    fn asked(self, problem: &Problem) -> KernelLaunch {
        let map = |map: TensorMap| TensorMap { operand: problem.asked_operand(map.operand), ..map };
        KernelLaunch {
            grid: self.grid.asked(problem),
            params: self.params.iter().map(|param| problem.asked_param(param)).collect(),
            maps: self.maps.into_iter().map(map).collect(),
            ..self
        }
    }

    /// Dynamic shared memory of the launch, in bytes: all of it, if it exceeds what a module may declare.
    pub fn dynamic_shared_bytes(&self) -> u32 {
        dynamic_shared_bytes(self.shared_bytes)
    }

    /// Shared memory that the module itself declares, in bytes.
    pub fn static_shared_bytes(&self) -> u32 {
        self.shared_bytes - self.dynamic_shared_bytes()
    }
}

/// Elements of the widest access to each matrix.
fn widths(program: &Program) -> [(Operand, u32); 4] {
    let mut widths = [(Operand::A, 1), (Operand::B, 1), (Operand::C, 1), (Operand::D, 1)];
    let mut widen = |operand: Operand, width: u32| {
        for (of, widest) in &mut widths {
            if *of == operand {
                *widest = (*widest).max(width);
            }
        }
    };
    if let Some(exchange) = &program.exchange {
        widen(Operand::D, exchange.width);
        widen(Operand::C, exchange.c_width);
    }
    for statement in program.statements() {
        match &statement.op {
            Op::Copy { buffer, by, .. } => {
                if let Some(buffer) = program.buffers.get(*buffer) {
                    widen(buffer.side.operand(), by.global_width(program.element(buffer.side)));
                }
            }
            Op::Steps { fetches, .. } => {
                for (fetch, _) in fetches.iter().filter(|(fetch, _)| fetch.from == Source::Global) {
                    widen(fetch.side.operand(), fetch.width);
                }
            }
            Op::Store { width, c_width, .. } => {
                widen(Operand::D, *width);
                widen(Operand::C, *c_width);
            }
            Op::Read { width, .. } => widen(Operand::A, *width),
            Op::Stage { c: ReadC::Global { width }, .. } => widen(Operand::C, *width),
            Op::PrefetchC { .. } => widen(Operand::C, TMA_BYTES / program.problem.types.c.bytes()),
            Op::Write { by: Writer::Registers { width } } => widen(Operand::D, *width),
            Op::Write { by: Writer::Tma { .. } } => {
                widen(Operand::D, TMA_BYTES / program.problem.types.d.bytes());
            }
            _ => {}
        }
    }
    widths
}

fn requires(program: &Program) -> Vec<Requires> {
    let used: Vec<Operand> = program.problem.matrices().collect();
    widths(program)
        .into_iter()
        .filter(|(operand, elements)| *elements > 1 && used.contains(operand))
        .map(|(operand, elements)| Requires {
            operand,
            elements,
            bytes: elements * program.problem.types.of(operand).bytes(),
            rows: operand == Operand::D && program.writes_by_tma(),
        })
        .collect()
}

fn emulated(program: &Program) -> Option<Emulated> {
    let (walk, Planes { dtype, count, .. }) = program.walk.as_ref().zip(program.planes(Side::A))?;
    Some(Emulated { dtype, planes: count, products: walk.pairs.len() as u32, chunk: walk.chunk })
}

fn packing(program: &Program, index: usize, pack: &Pack) -> Packing {
    let operand = pack.side.operand();
    let found = requires(program).into_iter().find(|requires| requires.operand == operand);
    let requires = found.unwrap_or_else(|| Requires::nothing(operand, &program.problem));
    let always = pack.transposes(program) || pack.planes.is_some();
    let (dtype, planes) = (program.element(pack.side), pack.planes.map_or(1, |planes| planes.count));
    let kernels = |pack: &Pack| if pack.scales() { 2 } else { 1 };
    let first = program.packs[..index].iter().map(kernels).sum();
    let launches = first..first + kernels(pack);
    let (scaled, align) = (pack.scales(), pack.align(program));
    Packing { operand, launches, fast: pack.fast, always, dtype, planes, scaled, requires, align }
}

fn pack_launches(program: &Program, pack: &Pack) -> Vec<KernelLaunch> {
    let copy = KernelLaunch {
        kernel: pack.kernel(&program.problem),
        threads: pack.threads,
        shared_bytes: pack.shared_bytes(program),
        grid: Grid {
            of: pack.side.operand(),
            tile: (pack.extent, pack.depth),
            parts: 1,
            cluster: (1, 1),
            parts_in_cluster: false,
            stream: None,
            // In a group it is launched for each product that needs it.
            batch: if program.problem.batch == Batch::Grouped { Batch::One } else { program.problem.batch },
            wave: None,
        },
        params: pack.params(program.problem.batch),
        maps: Vec::new(),
    };
    let scale = pack.scales().then(|| KernelLaunch {
        kernel: pack.scale_kernel(&program.problem),
        threads: SCALE_THREADS,
        shared_bytes: SCALE_SHARED_BYTES,
        grid: Grid { tile: (SCALE_LINES, WHOLE), ..copy.grid },
        params: pack.scale_params(program.problem.batch),
        maps: Vec::new(),
    });
    scale.into_iter().chain([copy]).collect()
}

fn workspace(program: &Program) -> Option<Workspace> {
    if !program.scheduler.needs_workspace() {
        return None;
    }
    program.roles.iter().find_map(|role| {
        let mut found = None;
        super::walk(&role.body, &mut |statement| {
            if let Op::Reduce { acc, how, .. } = statement.op {
                found = found.or(program.accumulators.get(acc).map(|acc| (acc, how)));
            }
        });
        let (acc, how) = found?;
        let stream = program.scheduler.division == Division::Stream;
        let slots = match how {
            Reduce::Serial => 1,
            Reduce::Workspace => program.scheduler.parts(),
            Reduce::Cluster => 0,
        };
        let sums = u64::from(slots) * u64::from(acc.map.elements()) * u64::from(role.len());
        Some(Workspace {
            of: if stream { Contributor::Block } else { Contributor::Tile },
            flag_bytes: role.len().saturating_mul(FLAG_BYTES),
            sum_bytes: sums * u64::from(program.problem.types.acc.bytes()),
        })
    })
}
