//! Whatever the rules let through is compiled, and everything else has a fix: types, layouts, atoms, targets, and the clauses that
//! interact with them.

use ptx_gemm_codegen::compile;
use ptx_gemm_dsl::repair::{Repair, Scope, repair};
use ptx_gemm_dsl::{DType, Schedule, Target};

/// Numbers that look random, the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Every shape that an instruction has for some type, with the rest of a schedule that it may be legal in.
fn atoms() -> Vec<String> {
    let mut all = vec!["atom(fma); tile(64, 64, 16); thread(4, 4)".to_string()];
    for (m, n, k) in [(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16), (16, 8, 32)] {
        all.push(format!("atom(mma({m}, {n}, {k})); tile(64, 64, {}); warp(32, 32)", 2 * k));
    }
    for columns in (8..=256).step_by(8) {
        let depths = if columns <= 64 { 2 } else { 1 };
        all.extend(
            [8, 16, 32]
                .map(|k| format!("atom(wgmma(64, {columns}, {k})); tile(64, {columns}, {}); load(tma)", depths * k)),
        );
    }
    all
}

fn targets() -> Vec<String> {
    Target::ALL.iter().map(|target| format!("; target({target})")).chain([String::new()]).collect()
}

/// Schedules, and what became of them.
#[derive(Default)]
struct Answers {
    legal: usize,
    refused: usize,
    /// Refused ones that were repaired, as far as their fixes go, and those that stayed wrong.
    repaired: usize,
    wrong: Vec<String>,
}

/// One in so many that are refused is repaired.
const REPAIRED: usize = 8;

impl Answers {
    fn add(&mut self, text: &str) {
        let schedule: Schedule = text.parse().unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        if let Ok(plan) = schedule.plan(None) {
            compile(&plan).unwrap_or_else(|violation| panic!("{text}\nis legal: {}", violation.reason()));
            self.legal += 1;
            return;
        }
        self.refused += 1;
        if self.refused.is_multiple_of(REPAIRED) {
            let Repair { text: fixed, left, .. } = repair(text, None, Scope::All);
            self.repaired += 1;
            self.wrong.extend(left.errors().next().map(|error| format!("{text}\n  {fixed}\n  {error}")));
        }
    }

    /// At least so many were legal and so many refused, and at most one in so many is still wrong.
    fn check(&self, legal: usize, refused: usize, one_in: usize) {
        let Answers { repaired, wrong, .. } = self;
        assert!(self.legal >= legal && self.refused >= refused, "only {} and {}", self.legal, self.refused);
        assert!(wrong.len() * one_in <= *repaired, "{} of {repaired}:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn every_type_atom_and_target_is_compiled_or_has_a_fix() {
    let (mut answers, mut numbers) = (Answers::default(), Numbers(1));
    let sums = [None, None, Some(DType::F64), Some(DType::F32), Some(DType::F16), Some(DType::I32)];
    for atom in atoms() {
        for dtype in DType::ALL {
            for target in targets() {
                // One of the accumulators, and one in eight of the many shapes of `wgmma`.
                let acc = numbers.one(&sums).map_or(String::new(), |acc| format!(", acc = {acc}"));
                if !atom.contains("wgmma") || numbers.below(8) == 0 {
                    answers.add(&format!("types({dtype}{acc}); {atom}{target}"));
                }
            }
        }
    }
    answers.check(40, 1000, usize::MAX);
}

/// Clauses that interact with types and atoms, each with the kinds of values that it has.
const CLAUSES: [&[&str]; 17] = [
    &["transposed"],
    &["emulate(bf16x3)", "emulate(bf16x6)", "emulate(bf16x9)", "emulate(f16x3)"],
    &["promote(every = 64)", "promote(every = 128, compensated)"],
    &["strassen(levels = 1)"],
    &["split_k(2)", "split_k(3, reduce = workspace)", "split_k(2, reduce = cluster)", "stream_k"],
    &["persistent", "persistent(8)"],
    &["batch(strided)", "batch(grouped)"],
    &["load(registers)", "load(cp_async)", "load(tma)", "load(tma, c = tma)"],
    &["store(staged)", "store(tma)", "store(tma, memory = ring)"],
    &["stages(2)", "stages(3)", "stages(4)"],
    &["pack(a)", "pack(b)", "pack(a, b)"],
    &["specialize(producers = 1 warp)", "specialize(producers = 1)", "specialize(producers = 1, pingpong)"],
    &["cluster(2, 1)", "cluster(2, 1); multicast(b)", "cluster(1, 2); multicast(a)"],
    &["tail(even)", "tail(none)"],
    &["pace(free)", "pace(tile)"],
    &["vector(1)", "vector(4)"],
    &["shared(none)", "shared(a = km, b = nk)", "shared(a = mk + swizzle(64), b = kn + swizzle(128))"],
];

const EPILOGUES: [&str; 5] = [
    "|acc| acc",
    "|acc, c, alpha, beta| alpha * acc + beta * c",
    "|acc, bias| relu(acc + bias[n])",
    "|acc| gelu(acc)",
    "|acc, x| exp(acc) * x[m]",
];

/// Types that often go with the atom.
fn plausible(numbers: &mut Numbers, atom: &str) -> String {
    let one = |numbers: &mut Numbers, all: &[DType]| *numbers.one(all);
    let floats = [DType::F64, DType::F32, DType::F16, DType::Bf16];
    let [a, b, c, d] = [(); 4].map(|()| one(numbers, &floats));
    match (numbers.below(4), atom.contains("fma")) {
        (0, true) => format!("types({})", one(numbers, &[DType::F64, DType::F32, DType::I32])),
        (1, true) => format!("types(a = {a}, b = {b}, acc = f64, c = {c}, d = {d})"),
        (_, true) => format!("types(a = {a}, b = {b}, c = {c}, d = {d})"),
        (0, false) => "types(f32); emulate(bf16x6)".into(),
        (1, false) => format!("types(f16, acc = f16, c = {c}, d = {d})"),
        (_, false) => format!("types({}, c = {c}, d = {d})", one(numbers, &[DType::Bf16, DType::F16])),
    }
}

/// A schedule of one of the atoms with any types and layouts, and some of the clauses.
fn any(numbers: &mut Numbers, atoms: &[String], targets: &[String]) -> String {
    let usual = |atom: &&String| atom.contains("fma") || atom.contains(", 16))");
    let usual: Vec<&String> =
        if numbers.below(4) == 0 { atoms.iter().collect() } else { atoms.iter().filter(usual).collect() };
    let some = if numbers.below(2) == 0 { &usual[..2] } else { &usual };
    let atom = numbers.one(some);
    let [a, b, acc, c, d] = [(); 5].map(|()| *numbers.one(&DType::ALL));
    let mut text = match numbers.below(4) {
        0 => format!("types(a = {a}, b = {b}, acc = {acc}, c = {c}, d = {d})"),
        _ => plausible(numbers, atom),
    };
    if numbers.below(2) == 0 {
        let [a, b, c, d] = [(); 4].map(|()| *numbers.one(&["row", "col"]));
        text.push_str(&format!("; layout(a = {a}, b = {b}, c = {c}, d = {d})"));
    }
    if numbers.below(2) == 0 {
        text.push_str(&format!("; epilogue({})", numbers.one(&EPILOGUES)));
    }
    let mut clauses: Vec<&str> = atom.split("; ").collect();
    for _ in 0..numbers.below(4) {
        let kind = *numbers.one(&CLAUSES);
        let clause = *numbers.one(kind);
        let name = |clause: &str| clause.split('(').next().unwrap_or(clause).to_string();
        if clauses.iter().all(|other| name(other) != name(clause)) && !text.contains(clause) {
            clauses.push(clause);
        }
    }
    let target = if numbers.below(2) == 0 { "" } else { numbers.one(targets) };
    format!("{text}; {}{target}", clauses.join("; "))
}

#[test]
fn any_types_layouts_and_clauses_are_compiled_or_have_a_fix() {
    let (mut answers, mut numbers) = (Answers::default(), Numbers(2));
    let (atoms, targets) = (atoms(), targets());
    for _ in 0..1000 {
        answers.add(&any(&mut numbers, &atoms, &targets));
    }
    // What several mistakes hide from each other can be beyond repair.
    answers.check(200, 500, 40);
}
