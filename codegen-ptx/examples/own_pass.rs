//! A pass over kernel IR, outside the compiler: it removes barriers that order nothing. docs/research.md tells its story.
//!
//! ```text
//! cargo run --package ptx-gemm-codegen --example own_pass -- 'tile(32, 32, 8); thread(4, 4);' > pass.ptx
//! cargo run --package ptx-gemm-codegen --example own_pass -- 'tile(32, 32, 8); thread(4, 4);' --mistake > mistake.ptx
//! ```

use std::error::Error;

use ptx_gemm_codegen::kernel::{Kernel, dead, verify::verify};
use ptx_gemm_codegen::{emit, lower, tile};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_ptx::{module::Module, print, verify as rules};

/// The pass.
mod barriers {
    use ptx_gemm_codegen::kernel::{Kernel, Op, Stmt};

    /// Removes each barrier of `kernel` that follows another with only register operations between the two.
    ///
    /// With `mistake`, loads count as register operations: "a load changes nothing".
    pub fn run(kernel: &mut Kernel, mistake: bool) {
        block(&mut kernel.body, mistake);
    }

    fn block(stmts: &mut Vec<Stmt>, mistake: bool) {
        // Whether the statements since the last barrier touched registers only.
        let mut quiet = false;
        stmts.retain_mut(|stmt| match &mut stmt.op {
            Op::Barrier => !std::mem::replace(&mut quiet, true),
            Op::Set { .. } | Op::Clear { .. } | Op::Math { .. } | Op::Select { .. } | Op::Outer { .. } => true,
            Op::Load { .. } if mistake => true,
            op => {
                quiet = false;
                match op {
                    Op::Loop { body, .. } => block(body, mistake),
                    Op::If { then, other, .. } => {
                        block(then, mistake);
                        block(other, mistake);
                    }
                    _ => {}
                }
                true
            }
        });
    }
}

/// The kernel of a schedule's last entry, which serves every alignment, as the compiler has it before it emits PTX.
fn kernel(schedule: &Schedule) -> Result<(Kernel, tile::Module), Box<dyn Error>> {
    let programs = tile::build::build(&schedule.plan(None)?);
    let program = programs.entries.last().ok_or("a schedule has an entry")?;
    let mut kernel = lower::lower(program)?;
    dead::run(&mut kernel);
    Ok((kernel, programs))
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let clauses = args.first().ok_or("usage: own_pass CLAUSES [--mistake]")?;
    let (mut kernel, programs) = kernel(&clauses.parse()?)?;
    barriers::run(&mut kernel, args.iter().any(|arg| arg == "--mistake"));
    let mut module = Module::new(programs.target.to_string());
    module.entries.push(emit::emit(&verify(&kernel)?, programs.target));
    module.variables.extend(emit::shared_variable(&kernel).filter(|variable| variable.is_extern));
    module.version = rules::required_version(&module);
    rules::verify(&module).map_err(|broken| broken.iter().map(ToString::to_string).collect::<String>())?;
    print!("{}", print::print(&module));
    Ok(())
}

#[cfg(test)]
mod tests {
    use ptx_gemm_codegen::kernel::Op;

    use super::*;

    fn barriers(clauses: &str, mistake: Option<bool>) -> usize {
        let (mut kernel, _) = kernel(&clauses.parse().unwrap()).unwrap();
        // One that orders nothing.
        let at = kernel.body.iter().position(|stmt| matches!(stmt.op, Op::Set { .. })).unwrap();
        let twice = ptx_gemm_codegen::kernel::Stmt { op: Op::Barrier, origin: kernel.body[at].origin };
        kernel.body.splice(at..at, [twice.clone(), twice]);
        if let Some(mistake) = mistake {
            barriers::run(&mut kernel, mistake);
        }
        print::print(&{
            let mut module = Module::new("sm_80".to_string());
            module.entries.push(emit::emit(&verify(&kernel).unwrap(), "sm_80".parse().unwrap()));
            module
        })
        .matches("bar.sync")
        .count()
    }

    #[test]
    fn only_what_orders_nothing_goes() {
        for clauses in ["tile(32, 32, 8); thread(4, 4);", "tile(32, 32, 8); thread(4, 4); double_buffer;"] {
            assert_eq!(barriers(clauses, Some(false)) + 1, barriers(clauses, None), "{clauses}");
        }
        let single = "tile(32, 32, 8); thread(4, 4);";
        assert_eq!(barriers(single, Some(true)) + 2, barriers(single, None), "the mistake removes one that is needed");
    }

    #[test]
    fn the_document_shows_this_pass() {
        let file = include_str!("own_pass.rs");
        let pass = &file[file.find("mod barriers {").unwrap()..file.find("/// The kernel of").unwrap()];
        assert!(
            include_str!("../../docs/research.md").contains(pass.trim_end()),
            "docs/research.md shows another pass"
        );
    }
}
