//! Lowers a plan through tile IR and kernel IR to PTX.
//!
//! ```text
//! Plan -> tile::Program -> kernel::Kernel -> ptx::Module -> text
//! ```

pub mod emit;
mod header;
pub mod kernel;
pub mod lower;
pub mod origin;
pub mod tile;
mod violation;

pub use violation::Violation;

use ptx_gemm_dsl::plan::Plan;
use ptx_gemm_ptx::module::Module;

/// A level whose text an observer may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// [`tile::Program`].
    Tile,
    /// [`kernel::Kernel`].
    Kernel,
    /// The PTX text.
    Ptx,
}

/// What a plan compiles to.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The module as text: the same bytes for the same plan, always.
    pub ptx: String,
    /// The module as data.
    pub module: Module,
}

/// Compiles a plan.
///
/// # Errors
/// A [`Violation`] is a bug of the compiler, with the text of the level that found it; no plan should cause one.
pub fn compile(plan: &Plan) -> Result<Compiled, Violation> {
    compile_observed(plan, None)
}

/// Sees the text of each level, entry by entry, as it is reached.
pub type Observer<'a> = &'a mut dyn FnMut(Level, &str);

/// Compiles a plan and shows each level's text to `observer`.
///
/// # Errors
/// As [`compile`].
pub fn compile_observed(plan: &Plan, mut observer: Option<Observer<'_>>) -> Result<Compiled, Violation> {
    let mut module = Module::new(plan.target.to_string());
    module.header = header::lines(plan);
    for variant in &plan.variants {
        let program = tile::build::build(plan, variant);
        observe(&mut observer, Level::Tile, || tile::print::print(&program));
        tile::verify::verify(&program).map_err(|v| v.with_text(tile::print::print(&program)))?;

        let kernel = lower::lower(&program, plan, variant);
        observe(&mut observer, Level::Kernel, || kernel::print::print(&kernel));
        kernel::verify::verify(&kernel).map_err(|v| v.with_text(kernel::print::print(&kernel)))?;

        if let Some(variable) = emit::shared_variable(&kernel).filter(|v| v.is_extern) {
            module.variables = vec![variable];
        }
        module.entries.push(emit::emit(&kernel, plan.target));
    }
    module.version = ptx_gemm_ptx::verify::required_version(&module);
    let ptx = ptx_gemm_ptx::print::print(&module);
    observe(&mut observer, Level::Ptx, || ptx.clone());
    ptx_gemm_ptx::verify::verify(&module).map_err(|violations| {
        let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
        Violation::new("PTX", all.join("; ")).with_text(ptx.clone())
    })?;
    Ok(Compiled { ptx, module })
}

fn observe(observer: &mut Option<Observer<'_>>, level: Level, text: impl FnOnce() -> String) {
    if let Some(observer) = observer {
        observer(level, &text());
    }
}
