//! The subject of a picture: a compiled kernel, and the figures of a run.

use std::sync::{Arc, OnceLock};

use ptx_gemm_check::Profile;
use ptx_gemm_choose::Gpu;
use ptx_gemm_dsl::terms::Extent3;
use ptx_gemm_dsl::types::Orientation;
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::tile::Program;

use crate::error::DrawError;

/// A measured speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// M, N and K.
    pub size: [usize; 3],
    /// In TFLOP/s.
    pub tflops: f64,
}

/// A schedule or a tile program, compiled.
pub struct Subject {
    /// Its name in headings.
    pub name: String,
    /// Its clauses, if it has some.
    pub clauses: Option<String>,
    /// The kernel. Its first entry is drawn: the one with the widest accesses.
    pub kernel: Arc<Kernel>,
    /// The GPU that the wave and the roofline are drawn for.
    pub gpu: &'static Gpu,
    /// A speed measured on that GPU.
    pub measured: Option<Measured>,
    profile: OnceLock<Result<Profile, DrawError>>,
}

/// Whether a program computes the transpose of D: pictures show D itself.
pub(crate) fn is_transposed(program: &Program) -> bool {
    program.problem.orientation == Orientation::Transposed
}

/// The block's tile as a caller has it: rows and columns of D, and the depth.
pub(crate) fn block(program: &Program) -> Extent3 {
    program.problem.asked_extents(program.block)
}

impl Subject {
    /// A kernel without a measured speed.
    pub fn new(name: impl Into<String>, clauses: Option<String>, kernel: Arc<Kernel>, gpu: &'static Gpu) -> Subject {
        Subject { name: name.into(), clauses, kernel, gpu, measured: None, profile: OnceLock::new() }
    }

    /// The program that is drawn.
    ///
    /// # Errors
    /// Returns an error for a kernel without entries.
    pub fn program(&self) -> Result<&Program, DrawError> {
        self.kernel.programs().entries.first().ok_or_else(|| DrawError::Nothing("it has no entries".into()))
    }

    /// The cost of a product of 2 x 2 tiles over 4 K-tiles, counted by the interpreter on first use.
    ///
    /// # Errors
    /// Returns the interpreter's error.
    pub fn profile(&self) -> Result<&Profile, DrawError> {
        let count = || Profile::of(&self.kernel).map_err(|error| DrawError::Figures(error.to_string()));
        self.profile.get_or_init(count).as_ref().map_err(Clone::clone)
    }
}
