//! Derives what is known about an index expression from what is known about its registers.

use super::analysis::{Analysis, Depth};
use super::value::{Choice, Dims, Fact, Facts, Known, NOWHERE, Number, Pointer, START, TID, gcd, power_of_two};
use super::{Check, name, rule};
use crate::Violation;
use crate::kernel::{Compare, Dim, Expr};

type Evaluated = Result<Known, Violation>;

impl<'k> Analysis<'k> {
    /// What is known about `value` if the facts in `assume` hold in addition to those of the path.
    pub(super) fn evaluate(&mut self, value: &'k Expr, assume: &[Fact], depth: Depth) -> Evaluated {
        Ok(match value {
            Expr::Const(c) => Known::constant(*c),
            Expr::Reg(reg, bound) => {
                let number = self.number(*reg);
                let known = match depth {
                    Depth::Assigned => self.known(number, assume),
                    Depth::Recomputed => self.recomputed(number, assume)?,
                };
                rule(known.hi <= *bound, || {
                    format!("{} is used with the bound {bound}, but can be {}", name(self.kernel, *reg), known.hi)
                })?;
                known
            }
            Expr::Tid(threads) => {
                let known = self.known(TID, assume);
                rule(known.hi < u64::from(*threads), || {
                    format!("the thread's index is assumed to be below {threads}, but can be {}", known.hi)
                })?;
                known
            }
            Expr::Block | Expr::Blocks => Known::between(0, u64::from(i32::MAX as u32), 1, false),
            Expr::SharedBase => {
                let start = Known::between(0, 0, u64::from(self.kernel.shared_align), false);
                Known { pointer: Some(Pointer::Shared), ..start }
            }
            Expr::Add(x, y) => self.sum(x, y, assume, depth)?,
            Expr::Sub(x, y) => self.difference(x, y, assume, depth)?,
            Expr::Mul(x, y) => {
                let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
                let multiple = x.multiple.checked_mul(y.multiple).unwrap_or(1 << 31);
                let (lo, hi) = (x.lo.saturating_mul(y.lo), x.hi.saturating_mul(y.hi));
                let product = Known::between(lo, hi, multiple, x.wide || y.wide);
                Known { counts: x.counts.or(y.counts), inside: x.inside.or(y.inside), ..product }
            }
            Expr::Div(x, y) => {
                let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
                // A divisor that is not a constant is assumed not to be 0.
                let (least, most) = (y.lo.max(1), y.hi.max(1));
                let multiple = if least == most && x.multiple % least == 0 { x.multiple / least } else { 1 };
                Known { counts: x.counts, ..Known::between(x.lo / most, x.hi / least, multiple, x.wide || y.wide) }
            }
            Expr::Mod(x, y) => {
                let y = self.evaluate(y, assume, depth)?;
                let x = self.modulo(x, &y, assume, depth)?;
                if x.hi < y.lo {
                    return Ok(x);
                }
                Known::between(0, x.hi.min(y.hi.max(1) - 1), gcd(x.multiple, y.multiple), x.wide || y.wide)
            }
            Expr::Min(x, y) => {
                let under = [y, x].map(|of| self.number_of(of)).into_iter().find(|n| *n != NOWHERE).unwrap_or(NOWHERE);
                let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
                let multiple = gcd(x.multiple, y.multiple);
                let smaller = Known::between(x.lo.min(y.lo), x.hi.min(y.hi), multiple, x.wide || y.wide);
                let before = if x.left.is_some() { x.before } else { y.before };
                let clamped = x.last.or(y.last).or(x.clamped).or(y.clamped);
                Known { left: x.left.or(y.left), before, counts: x.counts.or(y.counts), clamped, under, ..smaller }
            }
            Expr::Max(x, y) => {
                let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
                let multiple = gcd(x.multiple, y.multiple);
                let larger = Known::between(x.lo.max(y.lo), x.hi.max(y.hi), multiple, x.wide || y.wide);
                Known { counts: x.counts.and(y.counts), ..larger }
            }
            Expr::Xor(x, y) => {
                let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
                let hi =
                    (x.hi | y.hi).checked_add(1).and_then(u64::checked_next_power_of_two).map_or(u64::MAX, |p| p - 1);
                Known::between(0, hi, power_of_two(gcd(x.multiple, y.multiple)), x.wide || y.wide)
            }
            Expr::Swizzle(x, swizzle) => {
                // The bits that change are above the bits within a chunk of 16 bytes.
                let x = self.evaluate(x, assume, depth)?;
                let multiple = gcd(power_of_two(x.multiple), 16);
                let within = if x.hi < 16 { x.hi } else { 16 - multiple };
                let hi = (x.hi | u64::from(swizzle.bits())) & !15 | within;
                Known::between(0, hi, multiple, x.wide)
            }
            Expr::Wide(x) => {
                let x = self.evaluate(x, assume, depth)?;
                Known { wide: true, yes: Facts::NONE, no: Facts::NONE, ..x }
            }
            Expr::Compare(compare, x, y) => {
                let numbers = (self.number_of(x), self.number_of(y));
                let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
                self.comparison(*compare, numbers, &x, &y)
            }
            Expr::And(x, y) => {
                let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
                let yes = self.both(x.yes, y.yes);
                Known::truth(x.counts.or(y.counts), yes, Facts::NONE)
            }
            Expr::Not(x) => {
                let x = self.evaluate(x, assume, depth)?;
                Known::truth(Dims::NONE, x.no, x.yes)
            }
            Expr::Select(c, x, y) => self.selection((c, x, y), assume, depth)?,
        })
    }

    /// What determines the remainder of `x`: `x` without the terms that are multiples of the divisor. If the multiples
    /// of one term are larger than the rest, only the remainder of that term is kept.
    fn modulo(&mut self, x: &'k Expr, divisor: &Known, assume: &[Fact], depth: Depth) -> Evaluated {
        if let Expr::Add(first, second) = x
            && divisor.lo == divisor.hi
            && divisor.lo > 0
        {
            for (part, rest) in [(first, second), (second, first)] {
                let part = self.evaluate(part, assume, depth)?;
                let common = gcd(part.multiple, divisor.lo);
                if common == divisor.lo {
                    return self.modulo(rest, divisor, assume, depth);
                }
                let rest = self.evaluate(rest, assume, depth)?;
                if rest.hi < common {
                    let multiple = gcd(common, rest.multiple);
                    return Ok(Known::between(0, divisor.lo - common + rest.hi, multiple, part.wide || rest.wide));
                }
            }
        }
        self.evaluate(x, assume, depth)
    }

    fn sum(&mut self, x: &'k Expr, y: &'k Expr, assume: &[Fact], depth: Depth) -> Evaluated {
        let numbers = (self.number_of(x), self.number_of(y));
        let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
        let multiple = gcd(x.multiple, y.multiple);
        let sum = Known::between(x.lo.saturating_add(y.lo), x.hi.saturating_add(y.hi), multiple, x.wide || y.wide);
        let pointer = match (x.pointer, y.pointer) {
            (pointer, None) | (None, pointer) => pointer,
            _ => None,
        };
        // A coordinate clamped to the last element from an origin is in bounds once it is added to that origin. A
        // pointer keeps this property of its operands; other sums do not.
        let from = |clamped: Option<(Dim, Number)>, number: Number| match clamped {
            Some((dim, origin)) if origin == number && number != NOWHERE => Dims::of(dim),
            _ => Dims::NONE,
        };
        let inside = match pointer {
            Some(_) => x.inside.or(y.inside),
            None => from(x.clamped, numbers.1).or(from(y.clamped, numbers.0)),
        };
        Ok(Known { pointer, inside, ..sum })
    }

    fn difference(&mut self, x: &'k Expr, y: &'k Expr, assume: &[Fact], depth: Depth) -> Evaluated {
        if let Expr::Max(a, b) = x
            && **b == *y
        {
            // The number of elements left, if any: at least 0 and at most `a`.
            let (a, b) = (self.evaluate(a, assume, depth)?, self.evaluate(b, assume, depth)?);
            let (lo, hi) = (a.lo.saturating_sub(b.hi), a.hi.saturating_sub(b.lo));
            let rest = Known::between(lo, hi, gcd(a.multiple, b.multiple), a.wide || b.wide);
            let rest = Known { counts: a.counts, under: a.under, ..rest };
            return Ok(a.left.map_or(rest, |(dim, _)| rest.left_of(dim, NOWHERE, 0)));
        }
        let numbers = (self.number_of(x), self.number_of(y));
        let constant = if let Expr::Const(c) = y { Some(*c) } else { None };
        let (x, y) = (self.evaluate(x, assume, depth)?, self.evaluate(y, assume, depth)?);
        let wide = x.wide || y.wide;
        let multiple = gcd(x.multiple, y.multiple);
        // A block's tile exists, so its origin is inside m and n, and is a multiple of the tile.
        let exists = matches!(x.left, Some((Dim::M | Dim::N, START)));
        let multiple = if exists { x.multiple } else { multiple };
        let smaller = x.lo >= y.hi || (y.under == numbers.0 && y.under != NOWHERE) || exists;
        if !smaller {
            let any = Known { multiple: power_of_two(multiple), ..Known::any(wide) };
            return Ok(Known { pointer: x.pointer, inside: x.inside, ..any });
        }
        let lo = x.lo.saturating_sub(y.hi).max(if exists { multiple.max(1) } else { 0 });
        let rest = Known::between(lo, x.hi.saturating_sub(y.lo), multiple, wide);
        let mut rest = Known { counts: x.counts, pointer: x.pointer, inside: x.inside, ..rest };
        if let Some((dim, origin)) = x.left {
            let before = constant.map_or(0, |c| x.before + c);
            let from = if origin == START { numbers.1 } else { NOWHERE };
            rest = rest.left_of(dim, from, before);
            rest.last = (constant == Some(1) && origin != NOWHERE).then_some((dim, origin));
        }
        Ok(rest)
    }

    fn selection(&mut self, (c, x, y): (&'k Expr, &'k Expr, &'k Expr), assume: &[Fact], depth: Depth) -> Evaluated {
        let condition = self.evaluate(c, assume, depth)?;
        let constants = match (x, y) {
            (Expr::Const(yes), Expr::Const(no)) => Some(Choice { facts: condition.yes, yes: *yes, no: *no }),
            _ => None,
        };
        let side = |this: &mut Self, value: &'k Expr, facts: Facts| {
            if facts == Facts::NONE || matches!(value, Expr::Const(_)) {
                return this.evaluate(value, assume, depth);
            }
            let assume: Vec<Fact> = assume.iter().chain(this.facts(facts)).copied().collect();
            this.evaluate(value, &assume, depth)
        };
        let yes = side(self, x, condition.yes)?;
        let no = side(self, y, condition.no)?;
        if self.impossible(condition.no) {
            return Ok(Known { counts: yes.counts.or(condition.counts), ..yes });
        }
        let mut either = yes.meet(no);
        if matches!(y, Expr::Const(0)) {
            // It is 0 unless the condition holds.
            either.counts = yes.counts.or(condition.counts);
        }
        either.choice = constants;
        Ok(either)
    }

    /// True if some facts contradict what is known about their numbers.
    fn impossible(&self, facts: Facts) -> bool {
        self.facts(facts).iter().any(|fact| match fact {
            Fact::Below(number, limit) => *limit <= self.known(*number, &[]).lo,
            Fact::AtLeast(number, least) => *least > self.known(*number, &[]).hi,
        })
    }

    fn comparison(&mut self, compare: Compare, numbers: (Number, Number), x: &Known, y: &Known) -> Known {
        match compare {
            Compare::Lt => {
                let yes = self.list([Fact::Below(numbers.0, y.hi), Fact::AtLeast(numbers.1, x.lo.saturating_add(1))]);
                let no = self.list([Fact::AtLeast(numbers.0, y.lo), Fact::Below(numbers.1, x.hi.saturating_add(1))]);
                Known::truth(y.counts, yes, no)
            }
            Compare::Ge => {
                let counts = if y.lo >= 1 { x.counts } else { Dims::NONE };
                let mut yes =
                    self.list([Fact::AtLeast(numbers.0, y.lo), Fact::Below(numbers.1, x.hi.saturating_add(1))]);
                // A limit above the largest value of x means "never".
                if let Some(choice) = y.choice.filter(|choice| x.hi < choice.no) {
                    let least = self.list([Fact::AtLeast(numbers.0, choice.yes)]);
                    yes = self.both(least, choice.facts);
                }
                let no = self.list([Fact::Below(numbers.0, y.hi), Fact::AtLeast(numbers.1, x.lo.saturating_add(1))]);
                Known::truth(counts, yes, no)
            }
            Compare::Eq | Compare::Ne => Known::truth(Dims::NONE, Facts::NONE, Facts::NONE),
        }
    }

    /// Bounds claimed for registers hold wherever the registers are used. This checks the claims of a statement that
    /// has no value of its own.
    pub(super) fn check_value(&mut self, value: &'k Expr) -> Check {
        self.evaluate(value, &[], Depth::Assigned).map(drop)
    }
}
