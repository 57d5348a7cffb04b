//! The schedules that together compute one block of D, either slab by slab of K or as sums of products of quadrants.
//!
//! The first slab's product is stored in the accumulator's type, each later product is added to it, and the last launch
//! applies the epilogue. Each is the given schedule with other types and another epilogue:
//!
//! ```text
//! epilogue(|acc, bias| relu(acc + bias[n]))                  no C: the sums are of acc alone
//!   first   |acc| acc
//!   middle  |acc, c| acc + c                                  c: the sums so far
//!   last    |acc, c, bias| relu((acc + c) + bias[n])
//!
//! epilogue(|acc, c, alpha, beta| relu(alpha * acc + beta * c))   C: it is part of the first sum
//!   first   |acc, c, alpha, beta| alpha * acc + beta * c
//!   middle  |acc, c, alpha| alpha * acc + c
//!   last    |acc, c, alpha| relu(alpha * acc + c)
//! ```
//!
//! An epilogue that reads C has this form only if it is a function of one sum with one term linear in `acc` and other
//! terms without it. Any other epilogue applies only to products with a single slab of K.
//!
//! With `strassen` some sums belong to several quadrants of D, so no sum includes C or scalars. `first` and `middle`
//! are those of an epilogue without C. So is `last`, which exists only for epilogues without C and scalars.

use crate::clause::{Clause, TypesClause, VectorClause};
use crate::diagnostics::Diagnostics;
use crate::epilogue::{BinaryOp, Epilogue, Expr};
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::table::Key;
use crate::target::Target;
use crate::types::{Batch, DType, Layouts, Problem};

/// One kind of launch of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// K is one slab: the unchanged schedule.
    Whole,
    /// The first of several slabs.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several slabs.
    Last,
}

impl Part {
    /// Every part, by index.
    pub const ALL: [Part; 4] = [Part::Whole, Part::First, Part::Middle, Part::Last];

    /// Its name in the text of a plan.
    pub fn name(self) -> &'static str {
        match self {
            Part::Whole => "whole",
            Part::First => "first",
            Part::Middle => "middle",
            Part::Last => "last",
        }
    }
}

/// A schedule, and the schedules that sum its product slab by slab.
#[derive(Clone, Debug)]
pub struct Sums {
    /// The problem of the given schedule.
    pub problem: Problem,
    /// The schedules of [`Part::ALL`]; only the first if its epilogue cannot be divided.
    schedules: Vec<Schedule>,
}

impl Sums {
    /// The sums of a schedule that has been checked.
    ///
    /// The D of the sums may be wider than the schedule's. If a part is illegal with the schedule's loads of C, stores
    /// of D or access widths, it takes their defaults.
    pub fn of(schedule: &Schedule) -> Result<Sums, Diagnostics> {
        let problem = schedule.problem()?;
        let mut schedules = vec![schedule.clone()];
        if let Some(epilogues) = divided(&problem.epilogue) {
            // Contracts refer to the schedule as written.
            let base = schedule.clone().without(Key::Expect);
            let parts = Part::ALL.into_iter().skip(1).zip(epilogues);
            schedules.extend(parts.map(|(part, epilogue)| {
                let wanted = base.clone().with(changes(&problem, part, &epilogue));
                legal(wanted, None)
            }));
        }
        Ok(Sums { problem, schedules })
    }

    /// The sums of a schedule with `strassen` and its plan.
    ///
    /// Illegal parts take the same defaults.
    pub fn of_quadrants(schedule: &Schedule, plan: &Plan) -> Sums {
        let problem = plan.problem.asked();
        let base = schedule.clone().without(Key::Expect).without(Key::Strassen);
        let last = takes_sums(&problem.epilogue).then_some(Part::Last);
        let parts = [Part::First, Part::Middle].into_iter().chain(last).zip(of_acc(&problem.epilogue));
        let of_part = |(part, epilogue): (Part, Epilogue)| {
            let wanted = base.clone().with(changes(&problem, part, &epilogue));
            legal(wanted, Some(plan.target))
        };
        let schedules = std::iter::once(base.clone()).chain(parts.map(of_part)).collect();
        Sums { problem, schedules }
    }

    /// All schedules, in the order of [`Part::ALL`].
    pub fn schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// True if K can be divided into slabs.
    pub fn are_divisible(&self) -> bool {
        self.schedules.len() > 1
    }

    /// True if a launch computes more than one product.
    pub fn is_batched(&self) -> bool {
        self.problem.batch != Batch::One
    }

    /// The schedule of a part; `None` if the epilogue cannot be divided.
    pub fn schedule(&self, part: Part) -> Option<&Schedule> {
        self.schedules.get(Part::ALL.iter().position(|one| *one == part)?)
    }
}

/// The clauses that differ between a part and the schedule.
fn changes(problem: &Problem, part: Part, epilogue: &Epilogue) -> Schedule {
    let (types, layouts) = (problem.types, problem.layouts);
    let sum = types.epilogue();
    let (c, d) = match part {
        Part::Whole => (types.c, types.d),
        Part::First => (types.c, sum),
        Part::Middle => (sum, sum),
        Part::Last => (sum, types.d),
    };
    let some = |dtype: DType| Some(dtype);
    let types =
        TypesClause { all: None, a: some(types.a), b: some(types.b), acc: some(types.acc), c: some(c), d: some(d) };
    // The sums have the layout of D.
    let c = if part == Part::First { layouts.c } else { layouts.d };
    Schedule::new().types_of(types).layout(Layouts { c, ..layouts }).clause(Clause::Epilogue(epilogue.clone()))
}

/// Whether an epilogue can apply to `acc + c`, where `c` holds sums: it reads no C of its own and has no scalars. A
/// scalar of 0 could not drop `acc`, which is not a factor in `acc + c`.
pub fn takes_sums(epilogue: &Epilogue) -> bool {
    !epilogue.uses_c() && epilogue.scalars.is_empty()
}

/// The schedule if it is legal, otherwise with defaults for everything that depends on the type of D.
fn legal(schedule: Schedule, target: Option<Target>) -> Schedule {
    let candidates = [schedule.clone(), schedule.clone().without_c()];
    candidates.into_iter().find(|schedule| schedule.plan(target).is_ok()).unwrap_or_else(|| plain(schedule))
}

/// The schedule with defaults for everything that depends on the type of D.
fn plain(schedule: Schedule) -> Schedule {
    let schedule = schedule.without_c();
    let vector = match schedule.get(Key::Vector) {
        Some(Clause::Vector(vector)) => VectorClause { d: None, ..*vector },
        _ => VectorClause::default(),
    };
    let schedule = schedule.without(Key::Store).without(Key::Vector);
    if vector == VectorClause::default() { schedule } else { schedule.clause(Clause::Vector(vector)) }
}

/// The epilogues of the first, the middle and the last sum, for sums of `acc` alone.
fn of_acc(epilogue: &Epilogue) -> [Epilogue; 3] {
    let sum = Expr::Binary(BinaryOp::Add, Box::new(Expr::Acc), Box::new(Expr::C));
    let last = replaced(&epilogue.expr, &Expr::Acc, &sum);
    [Expr::Acc, sum, last].map(|expr| with(epilogue, expr))
}

/// The epilogues of the first, the middle and the last slab.
fn divided(epilogue: &Epilogue) -> Option<[Epilogue; 3]> {
    let plus_c = |x: Expr| Expr::Binary(BinaryOp::Add, Box::new(x), Box::new(Expr::C));
    let of = |expr: Expr| with(epilogue, expr);
    if !epilogue.uses_c() {
        return Some(of_acc(epilogue));
    }
    let sum = innermost(&epilogue.expr);
    let mut terms = Vec::new();
    flatten(sum, false, &mut terms);
    let (mut with_acc, rest): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(term, _)| contains(term, &Expr::Acc));
    let (term, negative) = with_acc.pop()?;
    let separate = with_acc.is_empty() && is_linear(term) && rest.iter().any(|(term, _)| contains(term, &Expr::C));
    if !separate {
        return None;
    }
    let term = if negative { Expr::Neg(Box::new(term.clone())) } else { term.clone() };
    let next = plus_c(term);
    let last = replaced(&epilogue.expr, sum, &next);
    // The sum appears once: `innermost` descends only if one operand contains every acc and c.
    Some([of(sum.clone()), of(next), of(last)])
}

/// The smallest part of an expression that contains every `acc` and every `c`.
fn innermost(expr: &Expr) -> &Expr {
    let concerns = |x: &Expr| contains(x, &Expr::Acc) || contains(x, &Expr::C);
    let operands: Vec<&Expr> = match expr {
        Expr::Neg(x) => vec![x],
        Expr::Binary(_, x, y) => vec![x, y],
        Expr::Call(_, args) => args.iter().collect(),
        Expr::Acc | Expr::C | Expr::Scalar(_) | Expr::Vector(_) | Expr::Literal(_) => Vec::new(),
    };
    let mut concerned = operands.into_iter().filter(|x| concerns(x));
    match (concerned.next(), concerned.next()) {
        // A sum with further terms stays whole: `alpha * acc + beta * c + bias[n]`.
        (Some(one), None) if !matches!(expr, Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..)) => innermost(one),
        _ => expr,
    }
}

/// The terms of a sum, each with its sign.
fn flatten<'e>(expr: &'e Expr, negative: bool, out: &mut Vec<(&'e Expr, bool)>) {
    match expr {
        Expr::Binary(BinaryOp::Add, x, y) => {
            flatten(x, negative, out);
            flatten(y, negative, out);
        }
        Expr::Binary(BinaryOp::Sub, x, y) => {
            flatten(x, negative, out);
            flatten(y, !negative, out);
        }
        term => out.push((term, negative)),
    }
}

fn contains(expr: &Expr, operand: &Expr) -> bool {
    expr.any(&|x| x == operand)
}

/// True for `acc` multiplied or divided by terms without `acc` and `c`.
fn is_linear(expr: &Expr) -> bool {
    let free = |x: &Expr| !contains(x, &Expr::Acc) && !contains(x, &Expr::C);
    match expr {
        Expr::Acc => true,
        Expr::Neg(x) => is_linear(x),
        Expr::Binary(BinaryOp::Mul, x, y) => is_linear(x) && free(y) || free(x) && is_linear(y),
        Expr::Binary(BinaryOp::Div, x, y) => is_linear(x) && free(y),
        _ => false,
    }
}

/// The expression with `new` in place of every `old`.
fn replaced(expr: &Expr, old: &Expr, new: &Expr) -> Expr {
    let again = |x: &Expr| replaced(x, old, new);
    match expr {
        found if found == old => new.clone(),
        Expr::Neg(x) => Expr::Neg(Box::new(again(x))),
        Expr::Binary(op, x, y) => Expr::Binary(*op, Box::new(again(x)), Box::new(again(y))),
        Expr::Call(function, args) => Expr::Call(*function, args.iter().map(again).collect()),
        Expr::Acc | Expr::C | Expr::Scalar(_) | Expr::Vector(_) | Expr::Literal(_) => expr.clone(),
    }
}

/// An epilogue of the names that `expr` uses, renumbered.
fn with(epilogue: &Epilogue, expr: Expr) -> Epilogue {
    let used = |operand: Expr| contains(&expr, &operand);
    let scalars: Vec<usize> = (0..epilogue.scalars.len()).filter(|&i| used(Expr::Scalar(i))).collect();
    let vectors: Vec<usize> = (0..epilogue.vectors.len()).filter(|&i| used(Expr::Vector(i))).collect();
    let mut declared = vec!["acc".to_string()];
    if used(Expr::C) {
        declared.push("c".into());
    }
    let names = |name: &&String| {
        scalars.iter().any(|&i| epilogue.scalars[i] == **name)
            || vectors.iter().any(|&i| epilogue.vectors[i].name == **name)
    };
    declared.extend(epilogue.declared.iter().filter(names).cloned());
    let renumbered = renumber(&expr, &scalars, &vectors);
    Epilogue {
        scalars: scalars.iter().map(|&i| epilogue.scalars[i].clone()).collect(),
        vectors: vectors.iter().map(|&i| epilogue.vectors[i].clone()).collect(),
        declared,
        expr: renumbered,
    }
}

/// The expression with scalars and vectors renumbered by their positions in these lists.
fn renumber(expr: &Expr, scalars: &[usize], vectors: &[usize]) -> Expr {
    let again = |x: &Expr| renumber(x, scalars, vectors);
    let position = |of: &[usize], index: usize| of.iter().position(|&one| one == index).unwrap_or(0);
    match expr {
        Expr::Scalar(index) => Expr::Scalar(position(scalars, *index)),
        Expr::Vector(index) => Expr::Vector(position(vectors, *index)),
        Expr::Neg(x) => Expr::Neg(Box::new(again(x))),
        Expr::Binary(op, x, y) => Expr::Binary(*op, Box::new(again(x)), Box::new(again(y))),
        Expr::Call(function, args) => Expr::Call(*function, args.iter().map(again).collect()),
        Expr::Acc | Expr::C | Expr::Literal(_) => expr.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Sums};
    use crate::schedule::Schedule;
    use crate::table::Key;

    #[track_caller]
    fn check(epilogue: &str, parts: [&str; 3]) {
        let schedule: Schedule = format!("tile(16, 16, 8); thread(2, 2); epilogue({epilogue});").parse().unwrap();
        let sums = Sums::of(&schedule).unwrap();
        for (part, expected) in Part::ALL.into_iter().skip(1).zip(parts) {
            let schedule = sums.schedule(part).unwrap();
            schedule.check().unwrap();
            // The printed text must read back as the same schedule.
            assert_eq!(&schedule.to_string().parse::<Schedule>().unwrap(), schedule);
            let text = schedule.get(Key::Epilogue).unwrap().to_string();
            assert_eq!(text, format!("epilogue({expected})"), "{}", part.name());
        }
    }

    #[test]
    fn without_c_the_sums_are_of_acc() {
        check("|acc| acc", ["|acc| acc", "|acc, c| acc + c", "|acc, c| acc + c"]);
        check(
            "|acc, alpha, bias, unused| relu(alpha * acc + bias[n]) + acc",
            ["|acc| acc", "|acc, c| acc + c", "|acc, c, alpha, bias| relu(alpha * (acc + c) + bias[n]) + (acc + c)"],
        );
    }

    /// The seven products of quadrants have no C: the schedule's settings for C apply to the last step only.
    #[test]
    fn products_of_quadrants_say_nothing_of_c() {
        let text = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma, c = tma); stages(3); \
                    specialize(producers = 1); store(tma); epilogue(|acc, c| acc - c); strassen(levels = 1);";
        let schedule: Schedule = text.parse().unwrap();
        let sums = Sums::of_quadrants(&schedule, &schedule.plan(None).unwrap());
        let first = sums.schedule(Part::First).unwrap();
        first.check().unwrap();
        assert_eq!(first.get(Key::Load).unwrap().to_string(), "load(tma)");
        assert_eq!(sums.schedule(Part::Whole).unwrap().get(Key::Load).unwrap().to_string(), "load(tma, c = tma)");
    }

    #[test]
    fn c_is_part_of_the_first_sum() {
        check(
            "|acc, c, alpha, beta| alpha * acc + beta * c",
            [
                "|acc, c, alpha, beta| alpha * acc + beta * c",
                "|acc, c, alpha| alpha * acc + c",
                "|acc, c, alpha| alpha * acc + c",
            ],
        );
        check(
            "|acc, c, alpha, s, bias| relu(c - acc * alpha / s[m] + bias[n]) * 2",
            [
                "|acc, c, alpha, s, bias| c - acc * alpha / s[m] + bias[n]",
                "|acc, c, alpha, s| -(acc * alpha / s[m]) + c",
                "|acc, c, alpha, s| relu(-(acc * alpha / s[m]) + c) * 2",
            ],
        );
    }

    #[test]
    fn other_epilogues_that_read_c_need_one_slab() {
        for epilogue in [
            "|acc, c| acc * c",
            "|acc, c| relu(acc) + c",
            "|acc, c| acc + c * acc",
            "|acc, c| c",
            "|acc, c| max(acc, c)",
        ] {
            let text = format!("tile(16, 16, 8); thread(2, 2); epilogue({epilogue});");
            assert!(!Sums::of(&text.parse().unwrap()).unwrap().are_divisible(), "{epilogue}");
        }
    }
}
