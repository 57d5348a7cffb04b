//! Lowers a plan, or a hand-written tile program, through tile IR and kernel IR to PTX.
//!
//! ```text
//! Plan -> tile::Module -> kernel::Kernel -> ptx::Module -> text
//!         ^ text of a .tile file
//! ```

pub mod emit;
mod header;
pub mod kernel;
pub mod lower;
pub mod origin;
pub mod tile;
mod violation;

pub use tile::interface::Interface;
pub use tile::text::{TextError, TextErrors};
use violation::Source;
pub use violation::Violation;

use ptx_gemm_dsl::plan::Plan;
use ptx_gemm_dsl::target::Target;
use ptx_gemm_ptx::module::{Entry, Module, Variable};

/// A level with text that an observer may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// [`tile::Module`].
    Tile,
    /// [`kernel::Kernel`].
    Kernel,
    /// The PTX text.
    Ptx,
}

/// What a module of tile programs compiles to.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The module as text. It is deterministic: the same programs give the same bytes.
    pub ptx: String,
    /// The module as data.
    pub module: Module,
    /// The programs that it was compiled from.
    pub programs: tile::Module,
    /// How to launch it.
    pub interface: Interface,
}

/// Compiles a plan.
///
/// # Errors
/// A [`Violation`] is a bug in the compiler, with the text of the level that found it; no plan should cause one.
pub fn compile(plan: &Plan) -> Result<Compiled, Violation> {
    compile_observed(plan, None)
}

/// Receives the text of each level, entry by entry, as soon as it exists.
pub type Observer<'a> = &'a mut dyn FnMut(Level, &str);

/// Compiles a plan and shows each level's text to `observer`.
///
/// # Errors
/// As [`compile`].
pub fn compile_observed(plan: &Plan, observer: Option<Observer<'_>>) -> Result<Compiled, Violation> {
    let programs = tile::build::build(plan);
    let compiled = compile_with(&programs, header::launched_by(plan), observer);
    compiled.map_err(|violation| violation.made_of(Source::Schedule).with_text(tile::print::print(&programs)))
}

/// Compiles the text of a `.tile` file.
///
/// # Errors
/// Everything that the parser finds wrong, or, if it finds nothing, the first rule that the programs break, each with
/// its line and column.
pub fn compile_text(text: &str, observer: Option<Observer<'_>>) -> Result<Compiled, TextErrors> {
    let (programs, positions) = tile::parse::parse(text)?;
    compile_programs(&programs, observer).map_err(|violation| positions.locate(violation))
}

/// Compiles programs: verifies and lowers each, removes dead index computations, verifies the kernel and emits the
/// entry; then verifies the module.
///
/// # Errors
/// The first rule that a program breaks, or one that the compiler breaks on a lower level.
pub fn compile_programs(programs: &tile::Module, observer: Option<Observer<'_>>) -> Result<Compiled, Violation> {
    compile_with(programs, Vec::new(), observer)
}

/// The same, with extra lines at the end of the header about the launch of the module.
fn compile_with(
    programs: &tile::Module,
    launched_by: Vec<String>,
    mut observer: Option<Observer<'_>>,
) -> Result<Compiled, Violation> {
    observe(&mut observer, Level::Tile, || tile::print::print(programs));
    let mut module = Module::new(programs.target.to_string());
    tile::verify::module(programs)?;
    let observed = observer.is_some();
    for (index, program) in programs.entries.iter().enumerate() {
        // This verifies the program, and with it the operands that it packs.
        let lowered = entry(program, observed).map_err(|violation| violation.in_entry(index))?;
        for pack in &program.packs {
            if module.entries.iter().any(|entry| entry.name == pack.kernel(&program.problem)) {
                continue;
            }
            let scale = pack.scales().then(|| lower::scale::lower(program, pack));
            for kernel in scale.into_iter().chain([lower::pack::lower(program, pack)]) {
                let packing = kernel.and_then(|kernel| finish(kernel, program.target, observed));
                let packing = packing.map_err(|violation| violation.in_entry(index))?;
                observe(&mut observer, Level::Kernel, || packing.kernel.unwrap_or_default());
                module.entries.push(packing.entry);
            }
        }
        let Lowered { entry, shared, kernel } = lowered;
        observe(&mut observer, Level::Kernel, || kernel.unwrap_or_default());
        module.entries.push(entry);
        // Entries share the name of their dynamic shared memory, which gets the strictest alignment among them.
        if let Some(shared) = shared.filter(|s| module.variables.iter().all(|known| known.align < s.align)) {
            module.variables = vec![shared];
        }
    }
    let interface = Interface::of(programs);
    module.header = header::lines(&interface, &programs.problem);
    module.header.extend(launched_by);
    module.version = ptx_gemm_ptx::verify::required_version(&module);
    let ptx = ptx_gemm_ptx::print::print(&module);
    observe(&mut observer, Level::Ptx, || ptx.clone());
    ptx_gemm_ptx::verify::verify(&module).map_err(|violations| {
        let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
        Violation::new("PTX", all.join("; ")).made_of(Source::Programs).with_text(ptx.clone())
    })?;
    Ok(Compiled { ptx, module, programs: programs.clone(), interface })
}

/// One entry, down to PTX.
struct Lowered {
    entry: Entry,
    /// Its shared memory, if it is a variable of the module.
    shared: Option<Variable>,
    /// The kernel's text, if there is an observer.
    kernel: Option<String>,
}

/// The passes over one program: verify and lower it, remove dead index computations, verify the kernel, emit the entry.
fn entry(program: &tile::Program, observed: bool) -> Result<Lowered, Violation> {
    finish(lower::lower(program)?, program.target, observed)
}

/// The passes over a lowered kernel.
fn finish(mut kernel: kernel::Kernel, target: Target, observed: bool) -> Result<Lowered, Violation> {
    kernel::dead::run(&mut kernel);
    let verified = kernel::verify::verify(&kernel)
        .map_err(|violation| violation.made_of(Source::Programs).with_text(kernel::print::print(&kernel)))?;
    Ok(Lowered {
        entry: emit::emit(&verified, target),
        shared: emit::shared_variable(&kernel).filter(|variable| variable.is_extern),
        kernel: observed.then(|| kernel::print::print(&kernel)),
    })
}

fn observe(observer: &mut Option<Observer<'_>>, level: Level, text: impl FnOnce() -> String) {
    if let Some(observer) = observer {
        observer(level, &text());
    }
}
