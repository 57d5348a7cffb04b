//! How a program that has only the PTX of a kernel launches it.

use std::fmt;

use ptx_gemm_dsl::Target;
use ptx_gemm_dsl::terms::{Operand, Tail};
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interface::Entry;

/// Everything that a launch has to specify. Its `Display` is the table that a caller needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abi {
    /// Compiled for.
    pub target: Target,
    /// The entries, in the order in which they are tried. For a schedule, the first one has the widest accesses and the
    /// last one accepts any alignment; they are otherwise the same.
    pub entries: Vec<AbiEntry>,
    /// With `strassen`: how the module is launched, and where its workspace is stated, since no single launch computes D.
    pub plan: Option<String>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbiEntry {
    /// Its name.
    pub name: String,
    /// Elements that the pointer and the leading dimension of A, B, C and D must be multiples of.
    pub multiples: [u32; 4],
    /// Elements that a row of D, or a column where it is column major, must be a multiple of; 1 unless TMA stores D.
    pub row_of_d: u32,
    /// Rows and columns of a tile of D, and the depth of a K-tile.
    pub tile: (u32, u32, u32),
    /// True if m, n and k must be multiples of the tile.
    pub whole_tiles: bool,
    /// Size of the workspace in bytes as a formula, and its contents at launch; `None` if there is none.
    pub workspace: Option<String>,
    /// The kernels of one product, launched one after the other.
    pub launches: Vec<AbiLaunch>,
}

/// The launch of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbiLaunch {
    /// Its name in the module.
    pub kernel: String,
    /// When it is launched, in words; `None`: always.
    pub when: Option<String>,
    /// Blocks of the grid, all along x, as a formula over m, n and batch.
    pub grid: String,
    /// Threads of a block, along x.
    pub threads: u32,
    /// Bytes of dynamic shared memory that the launch must request.
    pub dynamic_shared_bytes: u32,
    /// Bytes of shared memory that the module declares itself.
    pub static_shared_bytes: u32,
    /// Parameters in order.
    pub params: Vec<AbiParam>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbiParam {
    /// Its name in the module.
    pub name: String,
    /// Its PTX type; `b8[128]` for a tensor map, which lies at a multiple of 64 bytes.
    pub ty: String,
    /// The value to pass.
    pub meaning: String,
}

impl Abi {
    /// How a kernel is launched.
    pub fn of(kernel: &Kernel) -> Abi {
        let entries = kernel.interface().entries.iter().map(|entry| AbiEntry::of(entry, kernel)).collect();
        let plan = |levels| {
            format!(
                "strassen(levels = {levels}): one launch of several; Kernel::launches lists those of a product, and \
                 Kernel::workspace_on has the bytes of their workspace"
            )
        };
        Abi { target: kernel.target(), entries, plan: kernel.levels().map(plan) }
    }
}

impl AbiEntry {
    fn of(entry: &Entry, kernel: &Kernel) -> AbiEntry {
        let multiple = |operand| entry.alignment(operand, kernel.problem()).elements;
        let whole = entry.requires.iter().find(|requires| requires.rows);
        AbiEntry {
            row_of_d: whole.map_or(1, |requires| requires.elements),
            name: entry.name.clone(),
            multiples: [Operand::A, Operand::B, Operand::C, Operand::D].map(multiple),
            tile: (entry.tile.m, entry.tile.n, entry.tile.k),
            whole_tiles: entry.tail == Tail::None,
            workspace: entry.workspace_formula(kernel.problem()),
            launches: (0..entry.launches.len()).map(|index| AbiLaunch::of(entry, index, kernel)).collect(),
        }
    }

    /// Whether everything except names and alignment is the same.
    fn is_like(&self, other: &AbiEntry) -> bool {
        let launches = self.launches.iter().zip(&other.launches);
        let alike = |(x, y): (&AbiLaunch, &AbiLaunch)| *x == AbiLaunch { kernel: x.kernel.clone(), ..y.clone() };
        self.launches.len() == other.launches.len()
            && launches.into_iter().all(alike)
            && (self.tile, self.whole_tiles, &self.workspace) == (other.tile, other.whole_tiles, &other.workspace)
    }
}

impl AbiLaunch {
    fn of(entry: &Entry, index: usize, kernel: &Kernel) -> AbiLaunch {
        let (launch, when) = (&entry.launches[index], entry.when(index));
        let compiled = kernel.module().entries.iter().find(|entry| entry.name == launch.kernel);
        let params = compiled.map_or(&[][..], |entry| &entry.params).iter();
        let params = params.map(|param| AbiParam {
            name: param.name.clone(),
            ty: param.count.map_or_else(|| param.ty.name().into(), |count| format!("{}[{count}]", param.ty.name())),
            meaning: param.comment.clone().unwrap_or_default(),
        });
        AbiLaunch {
            kernel: launch.kernel.clone(),
            when,
            grid: launch.grid.formula(),
            threads: launch.threads,
            dynamic_shared_bytes: launch.dynamic_shared_bytes(),
            static_shared_bytes: launch.static_shared_bytes(),
            params: params.collect(),
        }
    }
}

impl fmt::Display for Abi {
    /// The entries, each followed by its launch; a launch that consecutive entries share is printed once, after the
    /// last of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "target   {}", self.target)?;
        if let Some(plan) = &self.plan {
            writeln!(f, "plan     {plan}")?;
        }
        let mut rest = self.entries.iter().peekable();
        while let Some(entry) = rest.next() {
            entry.line(f)?;
            if rest.peek().is_none_or(|next| !next.is_like(entry)) {
                entry.launches.iter().try_for_each(|launch| launch.lines(entry, f))?;
            }
        }
        Ok(())
    }
}

impl AbiEntry {
    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AbiEntry { name, multiples: [a, b, c, d], tile: (m, n, k), .. } = self;
        write!(
            f,
            "entry    {name}: pointers and leading dimensions are multiples of a {a}, b {b}, c {c}, d {d} elements"
        )?;
        if self.row_of_d > 1 {
            write!(f, "; contiguous elements of d too")?;
        }
        if self.whole_tiles {
            write!(f, "; m, n and k of {m}, {n} and {k}")?;
        }
        writeln!(f)
    }
}

impl AbiLaunch {
    fn lines(&self, entry: &AbiEntry, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if entry.launches.len() > 1 {
            let when = self.when.as_ref().map(|when| format!(", {when}")).unwrap_or_default();
            writeln!(f, "kernel   {}{when}", self.kernel)?;
        }
        writeln!(f, "grid     ({}, 1, 1)", self.grid)?;
        writeln!(f, "block    ({}, 1, 1)", self.threads)?;
        let (dynamic, fixed) = (self.dynamic_shared_bytes, self.static_shared_bytes);
        writeln!(f, "shared   {dynamic} bytes to ask for, {fixed} in the module")?;
        if let Some(workspace) = &entry.workspace {
            writeln!(f, "workspace {workspace}")?;
        }
        for (index, AbiParam { name, ty, meaning }) in self.params.iter().enumerate() {
            writeln!(f, "param {index:<2} .{ty} {name}  {meaning}")?;
        }
        Ok(())
    }
}
