//! How a kernel is launched by a program that has nothing but its PTX.

use std::fmt;

use ptx_gemm_dsl::Target;
use ptx_gemm_dsl::target::STATIC_SHARED_BYTES;
use ptx_gemm_runtime::Kernel;

/// Everything that a launch must state. It prints as the table that a caller needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abi {
    /// Compiled for.
    pub target: Target,
    /// The entries, the one with the widest accesses first; the last one takes any alignment.
    pub entries: Vec<AbiEntry>,
    /// Parameters in order, the same for every entry.
    pub params: Vec<AbiParam>,
    /// Rows and columns of D that one block computes.
    pub tile: (u32, u32),
    /// Blocks of the grid, all along x, as a formula over m, n and batch.
    pub grid: String,
    /// Bytes of the workspace as a formula, and what is in them at a launch; `None` if there is none.
    pub workspace: Option<String>,
    /// Threads of a block, along x.
    pub threads: u32,
    /// Bytes of shared memory that the launch must ask for.
    pub dynamic_shared_bytes: u32,
    /// Bytes of shared memory that the module declares itself.
    pub static_shared_bytes: u32,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbiEntry {
    /// Its name in the module.
    pub name: String,
    /// Elements that the pointer and the leading dimension of A, B, C and D must be multiples of.
    pub multiples: [u32; 4],
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbiParam {
    /// Its name in the module.
    pub name: String,
    /// Its PTX type.
    pub ty: String,
    /// What to pass.
    pub meaning: String,
}

impl Abi {
    pub(crate) fn of(kernel: &Kernel) -> Abi {
        let plan = kernel.plan();
        let (dynamic_shared_bytes, static_shared_bytes) = match plan.shared_bytes > STATIC_SHARED_BYTES {
            true => (plan.shared_bytes, 0),
            false => (0, plan.shared_bytes),
        };
        let uses_c = plan.problem.epilogue.uses_c();
        let entries = plan.variants.iter().map(|variant| AbiEntry {
            name: variant.entry.clone(),
            multiples: [variant.a.width, variant.b.width, if uses_c { variant.c_width } else { 1 }, variant.d_width],
        });
        let params = kernel.module().entries.first().map_or(&[][..], |entry| &entry.params).iter();
        let params = params.map(|param| AbiParam {
            name: param.name.clone(),
            ty: param.ty.name().into(),
            meaning: param.comment.clone().unwrap_or_default(),
        });
        Abi {
            target: plan.target,
            entries: entries.collect(),
            params: params.collect(),
            tile: (plan.block.m, plan.block.n),
            grid: plan.grid_formula(),
            workspace: plan.workspace_formula(),
            threads: plan.threads(),
            dynamic_shared_bytes,
            static_shared_bytes,
        }
    }
}

impl fmt::Display for Abi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "target   {}", self.target)?;
        for AbiEntry { name, multiples: [a, b, c, d] } in &self.entries {
            writeln!(
                f,
                "entry    {name}: pointers and leading dimensions are multiples of a {a}, b {b}, c {c}, d {d} elements"
            )?;
        }
        writeln!(f, "grid     ({}, 1, 1)", self.grid)?;
        writeln!(f, "block    ({}, 1, 1)", self.threads)?;
        let (dynamic, fixed) = (self.dynamic_shared_bytes, self.static_shared_bytes);
        writeln!(f, "shared   {dynamic} bytes to ask for, {fixed} in the module")?;
        if let Some(workspace) = &self.workspace {
            writeln!(f, "workspace {workspace}")?;
        }
        for (index, AbiParam { name, ty, meaning }) in self.params.iter().enumerate() {
            writeln!(f, "param {index:<2} .{ty} {name}  {meaning}")?;
        }
        Ok(())
    }
}
