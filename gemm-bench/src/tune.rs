//! Which of a few schedules is the fastest: each is timed several times, in turns with the others.

use std::io;

use ptx_gemm::Schedule;
use ptx_gemm_choose::estimate;

use crate::sweep::timing::{Timing, time};
use crate::sweep::{Candidate, Kept, target};

/// How often each is timed.
const ROUNDS: usize = 3;
/// What separates two schedules at least: three rounds in turns vary less than the same schedules do from one day to the next.
const LEAST: f64 = 0.01;

/// The times of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    /// Its clauses.
    pub schedule: String,
    /// Milliseconds.
    pub ms: Vec<f64>,
    /// cuBLAS's times over these.
    pub ratios: Vec<f64>,
}

/// A schedule that won.
#[derive(Clone, Debug, PartialEq)]
pub struct Winner {
    /// Its number.
    pub index: usize,
    /// Milliseconds, the median of its rounds.
    pub ms: f64,
    /// cuBLAS's time over its own.
    pub ratio: Option<f64>,
    /// The distance between its slowest and its fastest round, relative to the median.
    pub spread: f64,
}

impl Turns {
    fn ms(&self) -> f64 {
        median(&self.ms).unwrap_or(f64::INFINITY)
    }

    fn spread(&self) -> f64 {
        let (low, high) = self.ms.iter().fold((f64::INFINITY, 0.0f64), |(low, high), ms| (low.min(*ms), high.max(*ms)));
        (high - low) / self.ms()
    }

    fn winner(&self, index: usize) -> Winner {
        Winner { index, ms: self.ms(), ratio: median(&self.ratios), spread: self.spread() }
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Times schedules in turns; those that fail have no times.
///
/// # Errors
///
/// No worker can be started.
pub fn in_turns(schedules: &[String], timing: &Timing<'_>) -> io::Result<Vec<Turns>> {
    let one = |(index, text): (usize, &String)| {
        let schedule: Schedule = text.parse().ok()?;
        let plan = schedule.plan_or_conflicts(target(&schedule, &timing.gpu)).ok()?;
        let estimate = estimate(&plan, timing.size, &timing.gpu).ok()?;
        Some(Candidate { index: index as u128, schedule: text.clone(), estimate, timed: None })
    };
    let once: Vec<Candidate> = schedules.iter().enumerate().filter_map(one).collect();
    let mut all: Vec<Candidate> = std::iter::repeat_n(once, ROUNDS).flatten().collect();
    time(&mut all, timing, &mut Kept::nowhere(), &mut |_| ())?;
    let of = |(index, schedule): (usize, &String)| {
        let own = all.iter().filter(|one| one.index == index as u128);
        let times: Vec<_> = own.filter_map(|one| one.timed.as_ref()?.as_ref().ok()).collect();
        let ratios = times.iter().filter_map(|measured| measured.ratio).collect();
        Turns { schedule: schedule.clone(), ms: times.iter().map(|measured| measured.ms).collect(), ratios }
    };
    Ok(schedules.iter().enumerate().map(of).collect())
}

/// The fastest; but `held`, where another one is faster by no more than the spread of the two, or than a hundredth, or one of them was
/// not timed in every round. `None` if nothing has a time.
pub fn winner(turns: &[Turns], held: Option<usize>) -> Option<Winner> {
    let timed = turns.iter().enumerate().filter(|(_, turns)| !turns.ms.is_empty());
    let (fastest, best) = timed.min_by(|(_, x), (_, y)| x.ms().total_cmp(&y.ms()))?;
    if let Some((index, own)) =
        held.and_then(|index| Some((index, turns.get(index)?))).filter(|(_, own)| !own.ms.is_empty())
        && (best.ms.len().min(own.ms.len()) < ROUNDS
            || best.ms() >= own.ms() * (1.0 - own.spread().max(best.spread()).max(LEAST)))
    {
        return Some(own.winner(index));
    }
    Some(best.winner(fastest))
}

#[cfg(test)]
mod tests {
    use super::{Turns, winner};

    fn turns(ms: &[f64]) -> Turns {
        Turns { schedule: String::new(), ms: ms.to_vec(), ratios: ms.iter().map(|ms| 2.0 / ms).collect() }
    }

    #[test]
    fn what_is_held_loses_only_to_what_is_faster_by_more_than_the_spread() {
        let all = [turns(&[1.0, 1.02, 1.01]), turns(&[0.995, 1.0, 1.0]), turns(&[])];
        assert_eq!(winner(&all, None).unwrap().index, 1);
        assert_eq!(winner(&all, Some(0)).unwrap().index, 0);
        assert_eq!(winner(&all, Some(2)).unwrap().index, 1);
        assert_eq!(
            winner(&[turns(&[1.0; 3]), turns(&[0.992; 3])], Some(0)).unwrap().index,
            0,
            "by less than a hundredth"
        );
        let all = [turns(&[1.0, 1.02, 1.01]), turns(&[0.95, 0.96, 0.97])];
        let won = winner(&all, Some(0)).unwrap();
        assert_eq!((won.index, won.ms, won.ratio), (1, 0.96, Some(2.0 / 0.96)));
        assert!((won.spread - 0.02 / 0.96).abs() < 1e-12);
        assert_eq!(winner(&[turns(&[])], Some(0)), None);
        assert_eq!(winner(&[turns(&[1.0, 1.02, 1.01]), turns(&[0.5])], Some(0)).unwrap().index, 0);
    }
}
