//! A tile program, and everything that can be derived from it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ptx_gemm_codegen::Level;
use ptx_gemm_dsl::Target;
use ptx_gemm_runtime::{CompiledGemm, Device, Error, Interface, Kernel};

use crate::abi::Abi;
use crate::gemm::text_of;

/// A program in the text form of tile IR, the level below a schedule: buffers, rings, copies, waits and multiplies,
/// written one by one. [`Gemm::ir`](crate::Gemm::ir) prints such a text at [`Level::Tile`], which can be edited and
/// compiled.
///
/// It names its target, and is compiled, launched and checked like a schedule. The example `two_sums` runs one that
/// cannot be written as a schedule.
///
/// ```
/// # use ptx_gemm::{Error, TileProgram};
/// // A text that does not parse is rejected with a line and a column for each error.
/// let Err(Error::Tile(_)) = TileProgram::parse("no program") else { panic!("it is refused") };
/// ```
#[derive(Clone, Debug)]
pub struct TileProgram {
    text: String,
    kernel: Arc<Kernel>,
}

impl TileProgram {
    /// Parses, verifies and compiles a text.
    ///
    /// # Errors
    /// [`Error::Tile`]: everything that is wrong with it, with lines and columns.
    pub fn parse(text: &str) -> Result<TileProgram, Error> {
        Ok(TileProgram { text: text.into(), kernel: Kernel::compile_text(text)? })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The target that the text names.
    pub fn target(&self) -> Target {
        self.kernel.target()
    }

    /// The compiled kernel: its interface and its PTX.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// How it is launched: its entries, and what each requires of its operands.
    pub fn interface(&self) -> &Interface {
        self.kernel.interface()
    }

    /// The PTX text. Equal programs always give equal bytes.
    pub fn ptx(&self) -> &str {
        self.kernel.ptx()
    }

    /// How the PTX is launched: entries, parameters, grid, block, shared memory.
    pub fn abi(&self) -> Abi {
        Abi::of(&self.kernel)
    }

    /// The text of one level, all entries one after another.
    pub fn ir(&self, level: Level) -> Result<String, Error> {
        text_of(level, |observer| Ok(ptx_gemm_codegen::compile_text(&self.text, Some(observer))?))
    }

    /// Loads it on a device, which must be able to run code for its target.
    pub fn on(&self, device: &Device) -> Result<CompiledGemm, Error> {
        CompiledGemm::from_kernel(self.kernel.clone(), device)
    }
}

impl FromStr for TileProgram {
    type Err = Error;

    fn from_str(text: &str) -> Result<TileProgram, Error> {
        TileProgram::parse(text)
    }
}

impl fmt::Display for TileProgram {
    /// Its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
