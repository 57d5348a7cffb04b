//! Chooses a schedule by timing: the first candidates of an estimate, and more of them as long as there is time.
//!
//! What was timed corrects the estimates of what was not: a candidate is expected to miss its estimate by as much as those that
//! resemble it. So each round of timings goes where the corrected estimates are lowest, which are mostly neighbours of the
//! fastest.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::Instant;

use ptx_gemm::Schedule;
use ptx_gemm_choose::{FIRST, Ranked};
use ptx_gemm_dsl::table::Key;

use crate::sweep::timing::{Timed, Timing, time};
use crate::sweep::{Candidate, Kept};

/// Candidates that are timed before any others, in place of [`FIRST`], where their estimates are close.
const CLOSE: usize = 16;
/// How close the last of [`CLOSE`] is to the first one, as a ratio.
const NEAR: f64 = 1.1;
/// Candidates of a further round.
const ROUND: usize = 12;
/// Candidates that are considered.
pub const POOL: usize = 2000;

/// The clauses by which candidates resemble each other.
const TRAITS: [Key; 13] = [
    Key::Transposed,
    Key::Tile,
    Key::Atom,
    Key::Warp,
    Key::Cluster,
    Key::SplitK,
    Key::StreamK,
    Key::Specialize,
    Key::Stages,
    Key::Store,
    Key::Persistent,
    Key::Raster,
    Key::Tail,
];
/// How much less two candidates resemble each other for each trait in which they differ, as an exponent.
const APART: f64 = 1.0;
/// The weight of the assumption that an estimate is right.
const PRIOR: f64 = 0.1;
/// How much faster than expected a candidate may be that resembles none of those timed, as a logarithm.
const HOPE: f64 = 0.1;

/// How long to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The first candidates.
    First,
    /// Further rounds until the deadline of the timing.
    Further,
}

/// The timed candidates, the fastest first, then those that failed; and those that were not timed, by their estimates.
#[derive(Debug)]
pub struct Picked {
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// How timing went.
    pub timed: Timed,
}

/// The candidates of a ranking, not timed yet.
pub fn candidates(ranked: &Ranked) -> Vec<Candidate> {
    let each = ranked.candidates.iter().enumerate().map(|(index, one)| Candidate {
        index: index as u128,
        schedule: one.schedule.one_line() + ";",
        estimate: one.estimate.clone(),
        timed: None,
    });
    each.collect()
}

/// Times candidates of a ranking; `progress` is called with the number of those that have been timed.
///
/// # Errors
///
/// No worker can be started, or the results cannot be stored.
pub fn pick(
    ranked: &Ranked,
    effort: Effort,
    timing: &Timing<'_>,
    kept: &mut Kept,
    progress: &mut dyn FnMut(usize),
) -> io::Result<Picked> {
    let mut open: Vec<(Candidate, [u64; TRAITS.len()])> =
        candidates(ranked).into_iter().zip(ranked.candidates.iter().map(|one| traits(&one.schedule))).collect();
    let close = open.get(CLOSE - 1).zip(open.first()).is_some_and(|(x, y)| x.0.estimate.ms < NEAR * y.0.estimate.ms);
    let mut count = if close { CLOSE } else { FIRST };
    let mut done: Vec<(Candidate, [u64; TRAITS.len()])> = Vec::new();
    let mut whole = Timed::default();
    while !open.is_empty() {
        let rest = open.split_off(count.min(open.len()));
        let (mut batch, of_batch): (Vec<_>, Vec<_>) = std::mem::replace(&mut open, rest).into_iter().unzip();
        let before = done.len();
        let timed = time(&mut batch, timing, kept, &mut |timed| progress(before + timed))?;
        let (answered, unanswered): (Vec<_>, Vec<_>) =
            batch.into_iter().zip(of_batch).partition(|(candidate, _)| candidate.timed.is_some());
        done.extend(answered);
        open.extend(unanswered);
        whole.known += timed.known;
        whole.device = timed.device.or(whole.device);
        whole.late = timed.late;
        whole.broken = timed.broken;
        if effort == Effort::First || whole.broken.is_some() || whole.late > 0 || Instant::now() >= timing.deadline {
            break;
        }
        let expected: Vec<f64> = open.iter().map(|one| expected(one, &done)).collect();
        let mut order: Vec<usize> = (0..open.len()).collect();
        order.sort_by(|x, y| expected[*x].total_cmp(&expected[*y]));
        let mut slots: Vec<_> = open.into_iter().map(Some).collect();
        open = order.into_iter().filter_map(|index| slots[index].take()).collect();
        count = ROUND;
    }
    let mut candidates: Vec<Candidate> = done.into_iter().chain(open).map(|(candidate, _)| candidate).collect();
    candidates.sort_by(Candidate::compare);
    Ok(Picked { candidates, timed: whole })
}

/// A hash of each of the clauses in [`TRAITS`].
fn traits(schedule: &Schedule) -> [u64; TRAITS.len()] {
    TRAITS.map(|key| {
        let mut hash = DefaultHasher::new();
        schedule.get(key).map(ToString::to_string).hash(&mut hash);
        hash.finish()
    })
}

/// The milliseconds to expect of a candidate, at best: its estimate, corrected by the errors of those that were timed, each as much as
/// it resembles the candidate.
fn expected((candidate, own): &(Candidate, [u64; TRAITS.len()]), done: &[(Candidate, [u64; TRAITS.len()])]) -> f64 {
    let (mut error, mut weight) = (0.0, 0.0);
    for (other, others) in done {
        let Some(Ok(measured)) = &other.timed else { continue };
        let differ = own.iter().zip(others).filter(|(own, other)| own != other).count();
        let alike = (-APART * differ as f64).exp();
        error += alike * (measured.ms / other.estimate.ms).ln();
        weight += alike;
    }
    let hope = HOPE / (1.0 + weight / PRIOR);
    candidate.estimate.ms * (error / (weight + PRIOR) - hope).exp()
}

#[cfg(test)]
mod tests {
    use ptx_gemm_choose::{Gpu, Pick, Size};

    use super::*;
    use crate::sweep::Measured;

    #[test]
    fn timings_correct_the_estimates_of_what_resembles_them() {
        let given: Schedule = "types(bf16)".parse().unwrap();
        let ranked = Pick { given: &given, size: Size::of([300, 11480, 3000]), gpu: Gpu::h200() }.run(60);
        let all: Vec<_> =
            candidates(&ranked).into_iter().zip(ranked.candidates.iter().map(|one| traits(&one.schedule))).collect();
        let with = |factor: f64| {
            let (mut one, own) = all[0].clone();
            let measured = Measured { ms: factor * one.estimate.ms, cublas_ms: None, ratio: None, spread: 0.0 };
            one.timed = Some(Ok(measured));
            vec![(one, own)]
        };
        let alike = |index: usize| all[index].1.iter().zip(&all[0].1).filter(|(x, y)| x == y).count();
        let order: Vec<usize> = (1..all.len()).collect();
        let near = *order.iter().max_by_key(|index| alike(**index)).unwrap();
        let far = *order.iter().min_by_key(|index| alike(**index)).unwrap();
        let slower = |index: usize| expected(&all[index], &with(2.0)) / expected(&all[index], &with(1.0));
        assert!(slower(near) > 1.5 && slower(far) < slower(near), "{} {}", slower(near), slower(far));
    }
}
