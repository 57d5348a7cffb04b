//! How well the cost model ranks: its estimates against measured times.

use std::collections::BTreeMap;

use ptx_gemm::builder::{LayoutClause, TypesClause};
use ptx_gemm::{Batch, Layout, Schedule};

use crate::program::Program;
use crate::rows::named;
use crate::session::Row;
use crate::spelling::RowTypes;
use crate::suites::{Named, Size, Suite};
use crate::sweep::target;
use crate::sweep::{Gpu, estimate};

/// Estimated and measured times of schedules.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// One entry per row.
    pub rows: Vec<Compared>,
    /// Rows that could not be estimated, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// An estimate next to a measurement.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The schedule's name.
    pub schedule: String,
    /// The product.
    pub size: Size,
    /// Estimated milliseconds.
    pub estimated: f64,
    /// Measured milliseconds.
    pub measured: f64,
}

impl Ranking {
    /// Estimates the rows of a file of results. A row names a case, or has clauses.
    pub fn of(rows: &[Row], gpu: &Gpu) -> Ranking {
        let mut ranking = Ranking::default();
        for row in rows {
            match estimated(row, gpu) {
                Ok(estimated) => {
                    let (schedule, size, measured) = (row.schedule.clone(), row.size, row.times.ms);
                    ranking.rows.push(Compared { schedule, size, estimated, measured });
                }
                Err(why) => ranking.left_out.push((row.schedule.clone(), why)),
            }
        }
        ranking
    }

    /// Spearman's rank correlation of all rows; `None` for fewer than two with different times.
    pub fn correlation(&self) -> Option<f64> {
        let of = |figure: fn(&Compared) -> f64| self.rows.iter().map(figure).collect::<Vec<_>>();
        spearman(&of(|row| row.estimated), &of(|row| row.measured))
    }

    /// The mean of the correlations within each product: how well schedules are ranked, apart from sizes.
    pub fn within_products(&self) -> Option<f64> {
        let mut products: BTreeMap<[usize; 4], (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for row in &self.rows {
            let Size { m, n, k, batch } = row.size;
            let (estimated, measured) = products.entry([m, n, k, batch]).or_default();
            estimated.push(row.estimated);
            measured.push(row.measured);
        }
        let each: Vec<f64> = products.values().filter_map(|(x, y)| spearman(x, y)).collect();
        (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
    }
}

/// The estimate of a row: of its schedule, for what the row says was computed.
fn estimated(row: &Row, gpu: &Gpu) -> Result<f64, String> {
    let schedule = as_measured(named(&row.schedule)?, row)?;
    let batch = match row.size.batch {
        _ if row.suite == Suite::Grouped.name() => Batch::Grouped,
        1 => Batch::One,
        _ => Batch::Strided,
    };
    let named = Named { name: row.schedule.clone(), program: Program::Schedule(schedule) }.batched(batch)?;
    let Program::Schedule(schedule) = named.program else { return Err("not a schedule".into()) };
    let plan = schedule.plan(target(&schedule, gpu)).map_err(|errors| errors.to_string())?;
    estimate(&plan, row.size, gpu).map(|estimate| estimate.ms).map_err(|unsuited| unsuited.message)
}

/// The schedule with the types and layouts of a row, which may have been measured with others than it names.
fn as_measured(schedule: Schedule, row: &Row) -> Result<Schedule, String> {
    let own = schedule.problem().map_err(|errors| errors.to_string())?;
    let (own_types, own_layouts) = (own.types, own.layouts);
    let RowTypes { types, planes } = row.types.parse()?;
    if planes.is_some() {
        // Compared with products by multiply-adds, the model finds them too fast.
        return Err(format!("products of {} are not ranked next to others", row.types));
    }
    let schedule = match types == [own_types.a, own_types.b, own_types.acc, own_types.d] {
        true => schedule,
        false => {
            let [a, b, acc, d] = types.map(Some);
            schedule.with(Schedule::new().types_of(TypesClause { a, b, acc, d, ..TypesClause::default() }))
        }
    };
    let all = [Layout::Row, Layout::Col];
    let read = |name: &str| all.into_iter().find(|layout| layout.to_string() == name.trim());
    let layouts: Option<Vec<Layout>> = row.layout.split(',').map(read).collect();
    let Some(&[a, b, d]) = layouts.as_deref() else { return Err(format!("`{}` is not three layouts", row.layout)) };
    Ok(match [a, b, d] == [own_layouts.a, own_layouts.b, own_layouts.d] {
        true => schedule,
        false => {
            let [a, b, d] = [a, b, d].map(Some);
            schedule.with(Schedule::new().layout_of(LayoutClause { a, b, c: None, d }))
        }
    })
}

/// Spearman's rank correlation: Pearson's of the ranks, equal values sharing theirs. `None` where one side has one rank.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    let (x, y) = (ranks(x), ranks(y));
    let mean = (x.len() as f64 - 1.0) / 2.0;
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let scale = (sum(&x, &x) * sum(&y, &y)).sqrt();
    (scale > 0.0).then(|| sum(&x, &y) / scale)
}

/// The rank of each value in ascending order, from 0; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::spearman;

    #[test]
    fn ranks_correlate() {
        assert_eq!(spearman(&[1.0, 2.0, 30.0], &[1.0, 4.0, 9.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None, "no ranks");
        assert_eq!(spearman(&[], &[]), None);
        // By hand: ranks 0.5, 0.5, 2, 3 against 0, 1, 2, 3.
        let tied = spearman(&[1.0, 1.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((tied - 4.5 / (4.5f64 * 5.0).sqrt()).abs() < 1e-12, "{tied}");
    }
}
