//! Walks through a space without looking at combinations that cannot be legal.
//!
//! An error says which kinds of clauses it depends on, and a choice is known to affect some kinds. So the choices that affect the
//! clauses of an error rule out every combination in which they choose the same. The walk goes on with the next one in which the last
//! of those choices differs, and skips combinations that an earlier error rules out.

use std::collections::HashMap;
use std::ops::Range;

use super::{Combination, Space};
use crate::check::Conflict;
use crate::keys::KeySet;

impl Space {
    /// Calls `judge` with the combinations in `range`, in ascending order, but for those that its earlier answers rule out: each
    /// [`Conflict`] of one combination is one of others, too. `ruled_out` is told by which rule how many combinations are illegal, and
    /// the first of them, as soon as that is known. Ends early if `judge` returns `None`.
    pub fn search(
        &self,
        range: Range<u128>,
        mut judge: impl FnMut(&Combination) -> Option<Result<(), Vec<Conflict>>>,
        mut ruled_out: impl FnMut(&'static str, Range<u128>),
    ) {
        let mut known = Known::new(self.sequence.digits());
        let end = range.end.min(self.len());
        let mut index = range.start;
        while index < end {
            let skipped = known.after(index).or_else(|| {
                let judged = judge(&self.combination(index)?)?;
                let conflicts = match judged {
                    Ok(()) => return Some(("", index + 1)),
                    Err(conflicts) => conflicts,
                };
                let skip = conflicts.into_iter().map(|conflict| (conflict.rule, known.note(index, conflict)));
                // The first of the rules that rule out most.
                skip.reduce(|most, skip| if skip.1 > most.1 { skip } else { most })
            });
            let Some((rule, next)) = skipped else { return };
            let next = next.min(end);
            if !rule.is_empty() {
                ruled_out(rule, index..next);
            }
            index = next;
        }
    }
}

/// Choices that do not go together.
struct Known {
    /// Of each choice: its weight in the number of a combination, and the clauses that it affects. The last one varies fastest.
    digits: Vec<(u128, KeySet)>,
    /// For a set of choices, a bit each: the broken rule by the digits of these choices, as a number in which all others are 0.
    broken: HashMap<u128, HashMap<u128, &'static str>>,
}

impl Known {
    fn new(digits: Vec<(u128, KeySet)>) -> Known {
        Known { digits, broken: HashMap::new() }
    }

    /// The number of a combination with every digit that is not among `choices` set to 0.
    fn project(&self, index: u128, choices: u128) -> u128 {
        let mut left = index;
        let mut projected = 0;
        for (place, (weight, _)) in self.digits.iter().enumerate() {
            if choices >> place & 1 == 1 {
                projected += left - left % weight;
            }
            left %= weight;
        }
        projected
    }

    /// The first combination after `index` in which one of `choices` differs.
    fn next(&self, index: u128, choices: u128) -> u128 {
        match 128 - choices.leading_zeros() {
            // The rule depends on no choice: every combination breaks it.
            0 => u128::MAX,
            places => {
                let weight = self.digits[places as usize - 1].0;
                (index / weight + 1).saturating_mul(weight)
            }
        }
    }

    /// Remembers a conflict of a combination; returns the next one that may not have it.
    fn note(&mut self, index: u128, Conflict { rule, keys }: Conflict) -> u128 {
        // More choices than bits: combinations are judged one by one.
        if self.digits.len() > 128 {
            return index + 1;
        }
        let affecting = self.digits.iter().enumerate().filter(|(_, (_, affected))| affected.meets(keys));
        let choices = affecting.fold(0, |choices, (place, _)| choices | 1u128 << place);
        let projected = self.project(index, choices);
        self.broken.entry(choices).or_default().insert(projected, rule);
        self.next(index, choices)
    }

    /// If a combination is known to break a rule: the rule, and the next combination that may not.
    fn after(&self, index: u128) -> Option<(&'static str, u128)> {
        let known = self.broken.iter().filter_map(|(choices, broken)| {
            let rule = *broken.get(&self.project(index, *choices))?;
            Some((rule, self.next(index, *choices)))
        });
        // Maps have no order, and answers are always the same.
        known.max_by_key(|(rule, next)| (*next, *rule))
    }
}

#[cfg(test)]
mod tests {
    use super::{Combination, Space};

    /// The texts that are legal, and how many combinations were judged.
    fn searched(space: &Space) -> (Vec<String>, usize) {
        let (mut legal, mut judged) = (Vec::new(), 0);
        let mut illegal = 0;
        let judge = |combination: &Combination| {
            judged += 1;
            let planned = combination.schedule().unwrap().plan_or_conflicts(None);
            Some(planned.map(|_| legal.push(combination.text().to_owned())))
        };
        space.search(0..space.len(), judge, |_, range| illegal += range.end - range.start);
        assert_eq!(legal.len() as u128 + illegal, space.len());
        (legal, judged)
    }

    #[test]
    fn nothing_legal_is_passed_over() {
        for text in [
            "types(bf16); tile({bm: 64, 128, 192}, {bn: 64..=256 step 24}, 64); atom(wgmma(64, {bn}, 16)); load(tma); \
             {cluster(2, 1); multicast({b, a}) | cluster(1, 2); multicast(a) | }; stages({3..=8}); store({tma, direct}); {persistent | }; \
             specialize(producers = 1); registers(producer = 24, consumer = {240, 152, 160})",
            "tile({32, 64, 128}, {32, 128}, {8, 16, 128}); thread({4, 8}, {3, 8}); vector({1, 4}); {double_buffer | stages({3, 9}) | }; \
             {warp(32, {16, 64}) | }",
            "types({f16, f32}); tile(64, 64, 32); {atom(mma(16, 8, 16)); warp({16, 48}, 32) | thread(4, 4)}; {split_k({2, 4}) | stream_k | }",
        ] {
            let space: Space = text.parse().unwrap();
            let all = space.combinations().filter(|one| one.schedule().unwrap().plan_or_conflicts(None).is_ok());
            let all: Vec<String> = all.map(|one| one.text().to_owned()).collect();
            let (legal, judged) = searched(&space);
            assert_eq!(legal, all, "{text}");
            assert!(!legal.is_empty() && (judged as u128) < space.len(), "{judged} of {} for {text}", space.len());
        }
    }

    #[test]
    fn an_error_without_a_choice_ends_the_search() {
        let space: Space = "tile(0, 8, 8); thread({4, 8}, {4, 8}); {vector(4) | }".parse().unwrap();
        assert_eq!(searched(&space), (Vec::new(), 1));
    }
}
