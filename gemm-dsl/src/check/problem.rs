//! Types and epilogue: legal combinations of types, and legal operations in the accumulator's type.

use crate::atoms::MULTIPLIES;
use crate::check::finding::{Finding, Findings};
use crate::check::settings::Settings;
use crate::clause::{Clause, TypesClause};
use crate::epilogue::{Expr, Function};
use crate::instead;
use crate::print::literal;
use crate::table::Key;
use crate::token::abridged;
use crate::types::{DType, Types};
use crate::words::Word;

pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let before = findings.list.len();
    inputs(settings, findings);
    if findings.list.len() == before {
        accumulator(settings, findings);
    }
    if findings.list.len() == before {
        outputs(settings, findings);
    }
    let types_are_fine = findings.list.len() == before;
    epilogue(settings, types_are_fine, findings);
}

/// A and B must both be integers, or neither.
fn inputs(settings: &Settings, findings: &mut Findings) {
    let Types { a, b, .. } = settings.asked.types;
    if a.is_integer() != b.is_integer() {
        let message = format!("a = {a} and b = {b} do not multiply: one is an integer type and the other is not");
        let finding = findings.error("types-mixed", Key::Types, &[], message);
        propose(finding, settings, |types| TypesClause { b: Some(a), ..types });
        propose(finding, settings, |types| TypesClause { a: Some(b), ..types });
        for dtype in [a, b] {
            finding.set(Clause::Types(all(dtype)), format!("{} is legal", Clause::Types(all(dtype))));
        }
        plain_types(finding, settings);
    } else if let Some(special) =
        [a, b].into_iter().find(|dtype| settings.atom.by_threads() && dtype.element().elsewhere.is_some())
    {
        let plain = |dtype: DType| dtype.element().elsewhere.unwrap_or(dtype);
        let message = format!("{special} is a type of the tensor cores, atom(fma) multiplies {}", plain(special));
        let finding = findings.error("types-tf32", Key::Types, &[Key::Atom], message);
        let clause = match settings.get(Key::Types) {
            Some(Clause::Types(t)) => *t,
            _ => TypesClause::default(),
        };
        let clause = TypesClause {
            all: clause.all.map(plain),
            a: clause.a.map(plain),
            b: clause.b.map(plain),
            acc: clause.acc.map(plain),
            c: clause.c.map(plain),
            d: clause.d.map(plain),
        };
        // C and D of the other kind may be another mistake.
        let fits = |output: &DType| !output.is_integer();
        let floats = TypesClause { c: clause.c.filter(fits), d: clause.d.filter(fits), ..clause };
        for clause in [clause, floats] {
            let sums = plain(special).natural_accumulator();
            finding.set(Clause::Types(clause), format!("{} computes in {sums}", Clause::Types(clause)));
        }
    }
}

/// Whether tensor cores have an instruction that adds products of `factor` in `acc`. Other types do not multiply at all.
fn summed_by_tensor_cores(factor: DType, acc: DType) -> bool {
    let mut rows = MULTIPLIES.iter().filter(|row| row.factors.contains(&factor)).peekable();
    rows.peek().is_none() || rows.any(|row| row.sums.contains(&acc))
}

/// The accumulator must hold the type of every product.
fn accumulator(settings: &Settings, findings: &mut Findings) {
    let Types { a, b, acc, .. } = settings.asked.types;
    let natural = a.sums_with(b);
    let problem = if !acc.element().accumulates {
        format!("acc = {acc} is not an accumulator: f64, f32, i32, and f16 with tensor cores are")
    } else if acc.is_integer() != a.is_integer() {
        let kind = |t: DType| if t.is_integer() { "an integer type" } else { "a floating-point type" };
        format!("acc = {acc} is {} and a = {a} is {}", kind(acc), kind(a))
    } else if settings.asked.types.narrow_sums() && settings.atom.by_threads() {
        format!("acc = {acc} is for tensor cores, atom(fma) accumulates in f32 or f64")
    } else if !settings.atom.by_threads() && !summed_by_tensor_cores(a, acc) {
        format!("acc = {acc} is not what tensor cores add products of {a} in")
    } else if let Some((name, narrow)) = [("a", a), ("b", b)].into_iter().find(|(_, narrow)| !acc.holds(*narrow)) {
        format!("acc = {acc} is narrower than {name} = {narrow}")
    } else {
        return;
    };
    let finding = findings.error("types-acc", Key::Types, &[Key::Atom], problem);
    propose(finding, settings, |types| TypesClause { acc: Some(natural), ..types });
    // Also if C and D are of the other kind.
    let fits = |output: &DType| output.is_integer() == natural.is_integer();
    propose(finding, settings, |types| TypesClause {
        acc: Some(natural),
        c: types.c.filter(fits),
        d: types.d.filter(fits),
        ..types
    });
    plain_types(finding, settings);
}

/// C and D must be integers exactly if the accumulator is; but sums of integers that tensor cores add may leave as floats.
fn outputs(settings: &Settings, findings: &mut Findings) {
    let Types { acc, c, d, .. } = settings.asked.types;
    let scaled = acc.is_integer() && !settings.atom.by_threads() && !d.is_integer();
    for (name, output) in [("d", d), ("c", c)] {
        let integer = acc.is_integer() && !scaled;
        if output.is_integer() == integer || (name == "c" && c == d) {
            continue;
        }
        let message = format!(
            "{name} = {output} cannot hold what acc = {acc} computes: one is an integer type and the other is not"
        );
        let finding = findings.error("types-output", Key::Types, &[], message);
        propose(finding, settings, |types| match name {
            "d" => TypesClause { d: Some(acc), c: types.c.filter(|c| c.is_integer() == acc.is_integer()), ..types },
            _ => TypesClause { c: Some(d), ..types },
        });
        plain_types(finding, settings);
    }
}

fn all(dtype: DType) -> TypesClause {
    TypesClause { all: Some(dtype), ..TypesClause::default() }
}

fn propose(finding: &mut Finding, settings: &Settings, change: impl Fn(TypesClause) -> TypesClause) {
    let written = match settings.get(Key::Types) {
        Some(Clause::Types(types)) => *types,
        _ => TypesClause::default(),
    };
    let text = Clause::Types(change(written)).to_string();
    finding.set(&text, format!("{text} is legal"));
}

/// Proposes types that suit every epilogue.
fn plain_types(finding: &mut Finding, settings: &Settings) {
    for dtype in [DType::F32, DType::Bf16] {
        for text in instead::with_type(dtype, settings.atom, settings.shape.tile) {
            finding.last_resort(&text, format!("{text} {} legal", if text.contains(';') { "are" } else { "is" }));
        }
    }
}

fn epilogue(settings: &Settings, types_are_fine: bool, findings: &mut Findings) {
    let epilogue = &settings.asked.epilogue;
    let acc = settings.asked.types.epilogue();
    if types_are_fine {
        literals(&epilogue.expr, acc, findings);
        if acc.is_integer() {
            for function in Function::TABLE.iter().filter(|(_, function)| function.is_transcendental()) {
                if epilogue.expr.any(&|e| matches!(e, Expr::Call(called, _) if *called == function.1)) {
                    let message = format!(
                        "epilogue: {} has no meaning in {acc}, the accumulator's type, which has relu, abs, min, max and clamp",
                        function.0
                    );
                    let finding = findings.error("epilogue-type", Key::Epilogue, &[Key::Types], message);
                    finding.set("types(f32)", format!("types(f32) has {}", function.0));
                    finding.remove("epilogue", "leave epilogue out");
                }
            }
        }
    }
    if settings.get(Key::Epilogue).is_none() {
        return;
    }
    if !epilogue.expr.any(&|e| matches!(e, Expr::Acc)) {
        findings.note(
            "epilogue-acc",
            Key::Epilogue,
            &[],
            "epilogue: the expression does not read acc, so D does not depend on A and B",
        );
    }
    for (index, name) in epilogue.scalars.iter().enumerate() {
        if !epilogue.expr.any(&|e| matches!(e, Expr::Scalar(used) if *used == index)) {
            findings.note(
                "epilogue-unused",
                Key::Epilogue,
                &[],
                format!("epilogue: {} is declared and not used", abridged(name)),
            );
        }
    }
    if epilogue.declared.iter().any(|name| name == "c") && !epilogue.uses_c() {
        findings.note("epilogue-unused", Key::Epilogue, &[], "epilogue: c is declared and not used, so C is not read");
    }
}

/// Every literal must be a value of the accumulator's type.
fn literals(expr: &Expr, acc: DType, findings: &mut Findings) {
    match expr {
        Expr::Literal(value) => {
            let problem = match acc.is_integer() && value.fract() != 0.0 {
                true => "a fraction",
                false if acc.exceeded_by(*value) => "too large",
                false => return,
            };
            let message =
                format!("epilogue: the literal {} is {problem} for {acc}, the accumulator's type", literal(*value));
            findings
                .error("epilogue-literal", Key::Epilogue, &[Key::Types], message)
                .otherwise(format!("write a value of {acc}"));
        }
        Expr::Neg(inner) => literals(inner, acc, findings),
        Expr::Binary(_, left, right) => {
            literals(left, acc, findings);
            literals(right, acc, findings);
        }
        Expr::Call(_, args) => args.iter().for_each(|arg| literals(arg, acc, findings)),
        Expr::Acc | Expr::C | Expr::Scalar(_) | Expr::Vector(_) => {}
    }
}
