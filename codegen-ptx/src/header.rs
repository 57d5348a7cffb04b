//! The comment at the head of a module: what it computes and how to launch it by hand.

use ptx_gemm_dsl::plan::Plan;

/// The lines of the comment.
pub fn lines(plan: &Plan) -> Vec<String> {
    let types = plan.problem.types;
    let layouts = plan.problem.layouts;
    let mut out = vec![
        "ptx-gemm: D[m,n] = epilogue(sum over k of A[m,k] B[k,n])".to_string(),
        format!(
            "A {} {}, B {} {}, C {} {}, D {} {}, accumulated in {}",
            types.a, layouts.a, types.b, layouts.b, types.c, layouts.c, types.d, layouts.d, types.acc
        ),
        format!("grid  {} blocks, one-dimensional", plan.grid_formula()),
        format!("block {} threads, {} bytes of shared memory", plan.geometry.threads, plan.shared_bytes),
    ];
    out.extend(plan.workspace_formula().map(|bytes| format!("workspace {bytes}")));
    out.extend(plan.variants.iter().map(|v| {
        format!("entry {}: widths a {}, b {}, c {}, d {} elements", v.entry, v.a.width, v.b.width, v.c_width, v.d_width)
    }));
    out
}
