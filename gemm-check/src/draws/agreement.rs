//! Makes a drawn schedule consistent: removes clauses that conflict, and adds clauses that others need.

use ptx_gemm_dsl::Schedule;

/// The text of the clauses. A tile of D reuses pipeline stages only if producers have enough of them, C is staged only if D's
/// tile has memory of its own, and blocks share only operands that they can divide.
pub(super) fn joined(clauses: &[String]) -> String {
    let text = handed_over(exchanged(clauses)).join("; ");
    let legal = |text: &str| text.parse::<Schedule>().is_ok_and(|schedule| schedule.plan(None).is_ok());
    let lends = text.contains("specialize(") && text.contains("memory = ring") && legal(&text);
    let text = if lends { text } else { text.replace(", memory = ring", "") };
    let text = Some(by_itself(&text)).filter(|alone| *alone != text && !legal(&text) && legal(alone)).unwrap_or(text);
    Some(with_loaded_c(&text)).filter(|with| loads_c(&text) && legal(with)).unwrap_or(text)
}

/// Removes what conflicts with a split K across a cluster; without staged operands, partial sums are reduced in the workspace.
fn exchanged(clauses: &[String]) -> Vec<String> {
    let has = |part: &str| clauses.iter().any(|clause| clause.contains(part));
    if !has("reduce = cluster") || has("shared(none)") {
        return clauses.iter().map(|clause| clause.replace("reduce = cluster", "reduce = workspace")).collect();
    }
    let others = ["persistent", "store(", "cluster(", "registers(", "target(sm_75)", "target(sm_8"];
    clauses.iter().filter(|clause| !others.iter().any(|other| clause.starts_with(other))).cloned().collect()
}

/// The same, where blocks share an operand without producer warps: mbarriers tell them which slots they may fill.
fn handed_over(clauses: Vec<String>) -> Vec<String> {
    let has = |part: &str| clauses.iter().any(|clause| clause.contains(part));
    if !has("multicast(") || has("specialize(") {
        return clauses;
    }
    let others = clauses.into_iter().filter(|clause| !clause.starts_with("pace("));
    others.chain(["pace(free)".to_string()]).collect()
}

/// The same, where each block of a cluster copies its own tiles, since small tiles cannot be divided among blocks.
fn by_itself(text: &str) -> String {
    text.split("; ").filter(|clause| !clause.starts_with("multicast(")).collect::<Vec<_>>().join("; ")
}

/// Whether TMA may copy C: in half of the schedules with a C and producer warps.
fn loads_c(text: &str) -> bool {
    let needs = ["load(tma)", "specialize(", "epilogue(|acc, c"];
    text.len().is_multiple_of(2) && needs.iter().all(|part| text.contains(part)) && !text.contains("memory")
}

/// The same, where TMA copies C to the tile of D, which has the layout and type of C.
fn with_loaded_c(text: &str) -> String {
    let like_d = [
        ("load(tma)", "load(tma, c = tma)"),
        ("c = row, d = col", "c = col, d = col"),
        ("c = col, d = row", "c = row, d = row"),
        ("c = f32, d = f16", "d = f16"),
    ];
    let text = like_d.iter().fold(text.to_string(), |text, (from, to)| text.replace(from, to));
    text.split("; ").filter(|clause| !clause.starts_with("store(")).chain(["store(tma)"]).collect::<Vec<_>>().join("; ")
}

/// An asynchronous copy of 16-bit elements moves several of them, in memory order.
pub(super) fn together(
    staging: &mut Vec<Option<String>>,
    others: &mut Vec<Option<String>>,
    problem: &[Option<String>],
) {
    let says = |text: &str| problem.iter().flatten().any(|clause| clause.contains(text));
    let is = |clause: &Option<String>, start: &str| clause.as_ref().is_some_and(|clause| clause.starts_with(start));
    staging.retain(|clause| !is(clause, "shared("));
    let (a, b) = (if says("a = col") { "km" } else { "mk" }, if says("b = col") { "nk" } else { "kn" });
    staging.push(Some(format!("shared(a = {a}, b = {b})")));
    if !others.iter().any(|clause| is(clause, "vector(2)") || is(clause, "vector(4)")) {
        others.retain(|clause| !is(clause, "vector("));
        others.push(Some("vector(8)".into()));
    }
}

/// Gives a block with ping-pong consumers several tiles, and whole sums.
pub(super) fn in_turn(clauses: &mut Vec<Option<String>>, clustered: bool) {
    let divides = |clause: &String| clause.starts_with("split_k") || clause.contains("stream_k");
    clauses.retain(|clause| !clause.as_ref().is_some_and(divides));
    if !clauses.iter().flatten().any(|clause| clause.starts_with("persistent")) {
        clauses.push(Some(if clustered { "persistent" } else { "persistent(1)" }.to_string()));
    }
}

/// Adds clusters to a schedule with TMA copies, and removes what conflicts with them.
pub(super) fn clustered(clauses: &mut Vec<Option<String>>, clusters: Option<&str>) {
    if let Some(clusters) = clusters {
        let conflicts = ["tail(none)", "split_k", "stream_k", "persistent("];
        clauses.retain(|clause| {
            clause.as_ref().is_none_or(|clause| !conflicts.iter().any(|conflict| clause.starts_with(conflict)))
        });
        clauses.push(Some(clusters.to_string()));
    }
}
