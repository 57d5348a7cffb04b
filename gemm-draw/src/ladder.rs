//! The ladder as a picture: the rungs by idea, with their speed where it was measured, or else with the counted
//! figures.

use ptx_gemm_check::ladder::{Ladder, Rung};

use crate::bars::{Bar, Bars, Group, Panel, bars};
use crate::canvas::Scheme;
use crate::idea::Idea;

/// The plot as SVG. `peak`, in TFLOP/s, is that of the GPU on which the speeds were measured.
pub fn ladder(ladder: &Ladder, peak: Option<f64>, scheme: Scheme) -> String {
    let timed = ladder.rungs.iter().any(|rung| rung.timing.is_some());
    bars(&if timed { speeds(ladder, peak) } else { counts(ladder) }, scheme)
}

fn speeds(ladder: &Ladder, peak: Option<f64>) -> Bars {
    let tflops = |rung: &Rung| rung.timing.as_ref().map(|timing| timing.tflops());
    let bar = |rung: &Rung| Bar { name: rung.case.clone(), values: vec![tflops(rung)], ..Bar::default() };
    let timings: Vec<_> = ladder.rungs.iter().filter_map(|rung| rung.timing.as_ref()).collect();
    let cublas = timings.iter().filter_map(|timing| timing.share().map(|share| timing.tflops() / share));
    let mut limits = Vec::new();
    limits.extend(middle(cublas.collect()).map(|tflops| ("cuBLAS".to_string(), tflops)));
    limits.extend(peak.filter(|peak| *peak > 0.0).map(|peak| ("peak of the GPU".to_string(), peak)));
    let [m, n, k] = timings.first().map_or([0; 3], |timing| timing.size);
    Bars {
        title: "The ladder: speed of every case".into(),
        text: format!("A product of {m} × {n} × {k}, measured. Each bar is a schedule, grouped by its main idea."),
        panels: vec![Panel { axis: "TFLOP/s".into(), limits }],
        groups: by_idea(ladder.rungs.iter().map(|rung| (rung.case.as_str(), bar(rung)))),
        mark: None,
    }
}

/// The label of an axis, and the figure of a rung.
type Figure = (&'static str, fn(&Rung) -> f64);

fn counts(ladder: &Ladder) -> Bars {
    let figures: [Figure; 3] = [
        ("loads for each multiply-add", |rung| rung.figures.main_loop.loads_per_fma),
        ("operations for each byte of A, B", |rung| rung.figures.intensity),
        ("passes lost to bank conflicts", |rung| rung.figures.bank_conflicts as f64),
    ];
    let bar = |rung: &Rung| Bar {
        name: rung.case.clone(),
        values: figures.iter().map(|(_, figure)| Some(figure(rung))).collect(),
        ..Bar::default()
    };
    Bars {
        title: "The ladder: what every case costs".into(),
        text: "Counted by the interpreter on 2 × 2 tiles of D over 4 K-tiles; no GPU was there to measure times. Each row is a \
               schedule, grouped by its main idea. Fewer loads and conflicts are better, and more operations for each byte."
            .into(),
        panels: figures.iter().map(|(axis, _)| Panel { axis: (*axis).into(), limits: Vec::new() }).collect(),
        groups: by_idea(ladder.rungs.iter().map(|rung| (rung.case.as_str(), bar(rung)))),
        mark: None,
    }
}

/// Bars by the idea of the case of that name, in the order of the ideas; within one by value.
pub fn by_idea<'a>(all: impl Iterator<Item = (&'a str, Bar)>) -> Vec<Group> {
    let mut known: Vec<(Idea, Bar)> = all.map(|(name, bar)| (idea(name), bar)).collect();
    let value = |bar: &Bar| bar.values.first().copied().flatten().unwrap_or(0.0);
    known.sort_by(|(one, a), (other, b)| one.cmp(other).then(value(a).total_cmp(&value(b))));
    let groups = known.chunk_by(|one, other| one.0 == other.0);
    groups
        .map(|group| Group {
            name: group[0].0.words().into(),
            bars: group.iter().map(|(_, bar)| bar.clone()).collect(),
        })
        .collect()
}

fn idea(name: &str) -> Idea {
    let schedule = ptx_gemm_check::case(name).and_then(|case| case.schedule().ok());
    let plan = schedule.and_then(|schedule| schedule.plan(None).ok());
    plan.map_or(Idea::Other, |plan| Idea::of(&plan))
}

/// The median.
pub fn middle(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
