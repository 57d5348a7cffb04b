//! The comment at the top of a module: what it computes and how to launch it by hand.

use ptx_gemm_dsl::plan::Plan;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::{Orientation, Problem};

use crate::tile::interface::Interface;

/// Notes on a module that does not compute D by itself: with `strassen`, D is the result of several launches that share
/// a workspace. Its programs are the same as without `strassen`, so they do not mention it.
///
/// And what was chosen for the open values of a schedule, which its programs do not mention either.
pub fn launched_by(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(levels) = plan.sums.strassen {
        lines.extend([
            format!(
                "strassen(levels = {levels}): one launch of several, which are of quadrants of A, B and D, and of their sums"
            ),
            "  `gemmc plan` states the launches and the workspace of the sums; what an entry needs itself follows".into(),
        ]);
    }
    if let Some(filled) = &plan.filled {
        lines.extend([format!("chosen: {}", filled.text()), format!("  {}", filled.reason())]);
    }
    lines
}

/// The lines of the comment.
pub fn lines(interface: &Interface, computed: &Problem) -> Vec<String> {
    let problem = &interface.problem;
    let matrices: Vec<String> = interface
        .matrices()
        .map(|operand| {
            let name = operand.name().to_uppercase();
            format!("{name} {} {}", problem.types.of(operand), problem.layouts.of(operand))
        })
        .collect();
    let mut out = vec![
        "ptx-gemm: D[m,n] = epilogue(sum over k of A[m,k] B[k,n])".to_string(),
        format!("{}, accumulated in {}", matrices.join(", "), problem.types.acc),
        format!("epilogue {}", problem.epilogue),
    ];
    if computed.orientation == Orientation::Transposed {
        out.push(
            "computed as D^T = B^T A^T: in comments on instructions A is B^T, B is A^T, m counts columns of D, n rows"
                .into(),
        );
    }
    for entry in &interface.entries {
        let width = |operand: Operand| entry.alignment(operand, problem).elements;
        let widths: Vec<String> =
            interface.matrices().map(|operand| format!("{} {}", operand.name(), width(operand))).collect();
        let rows = entry.requires.iter().find(|requires| requires.rows).map_or_else(String::new, |requires| {
            format!(", rows of {} of a multiple of {}", requires.operand.name(), requires.elements)
        });
        out.push(format!("entry {}: widths {} elements{rows}", entry.name, widths.join(", ")));
        for (index, launch) in entry.launches.iter().enumerate() {
            if entry.launches.len() > 1 {
                let when = entry.when(index).map(|when| format!(", {when}")).unwrap_or_default();
                out.push(format!("  kernel {}{when}", launch.kernel));
            }
            out.push(format!("  grid  {} blocks, one-dimensional", launch.grid.formula()));
            out.push(format!("  block {} threads, {} bytes of shared memory", launch.threads, launch.shared_bytes));
        }
        out.extend(entry.workspace_formula(problem).map(|bytes| format!("  workspace {bytes}")));
    }
    out
}
