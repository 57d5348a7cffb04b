//! Schedules in other layouts of A and B than those they are written for.

use ptx_gemm::builder::{Clause, LayoutClause};
use ptx_gemm::{Layout, Schedule};

use super::Named;
use crate::program::Program;

/// Layouts of A and B in the letters of BLAS: `n` for a row-major matrix, `t` for a column-major one, which is a row-major
/// matrix transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum LayoutPair {
    /// A and B row-major
    Nn,
    /// A row-major, B column-major: weights that are stored by outputs
    Nt,
    /// A column-major, B row-major
    Tn,
    /// A and B column-major
    Tt,
}

impl LayoutPair {
    /// The two layouts.
    pub fn of_a_and_b(self) -> [Layout; 2] {
        match self {
            LayoutPair::Nn => [Layout::Row, Layout::Row],
            LayoutPair::Nt => [Layout::Row, Layout::Col],
            LayoutPair::Tn => [Layout::Col, Layout::Row],
            LayoutPair::Tt => [Layout::Col, Layout::Col],
        }
    }
}

impl Named {
    /// The same program with these layouts of A and B in place of its own. Tile programs cannot be changed.
    ///
    /// # Errors
    ///
    /// Returns why that is not possible.
    pub fn with_layouts(self, pair: LayoutPair) -> Result<Named, String> {
        let own = self.program.problem().map_err(|errors| errors.to_string())?.layouts;
        let [a, b] = pair.of_a_and_b();
        let schedule = match self.program {
            _ if [own.a, own.b] == [a, b] => return Ok(self),
            Program::Tile(_) => return Err(format!("a tile program for layout(a = {}, b = {})", own.a, own.b)),
            Program::Schedule(schedule) => schedule,
        };
        let written = schedule.clauses().find_map(|clause| match clause {
            Clause::Layout(layout) => Some(*layout),
            _ => None,
        });
        let layout = LayoutClause { a: Some(a), b: Some(b), ..written.unwrap_or_default() };
        let schedule = schedule.with(Schedule::new().layout_of(layout));
        schedule.check().map_err(|errors| format!("with layout(a = {a}, b = {b}): {errors}"))?;
        Ok(Named { program: Program::Schedule(schedule), ..self })
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::TileProgram;

    use super::*;

    const ALL: [LayoutPair; 4] = [LayoutPair::Nn, LayoutPair::Nt, LayoutPair::Tn, LayoutPair::Tt];

    fn named(text: &str) -> Named {
        Named { name: "x".into(), program: Program::Schedule(text.parse().unwrap()) }
    }

    fn layouts(named: &Named) -> [Layout; 2] {
        let layouts = named.program.problem().unwrap().layouts;
        [layouts.a, layouts.b]
    }

    #[test]
    fn a_schedule_has_any_layouts() {
        for text in ["tile(32, 32, 8); thread(2, 2);", "tile(32, 32, 8); thread(2, 2); layout(b = col, d = col);"] {
            let d = named(text).program.problem().unwrap().layouts.d;
            for pair in ALL {
                let other = named(text).with_layouts(pair).unwrap();
                assert_eq!(layouts(&other), pair.of_a_and_b());
                assert_eq!(other.program.problem().unwrap().layouts.d, d, "{pair:?}");
            }
        }
    }

    #[test]
    fn what_cannot_have_layouts_says_why() {
        let tile = TileProgram::parse(include_str!("../../../examples/tile/two_sums.tile")).unwrap();
        let tile = Named { name: "x".into(), program: Program::Tile(tile) };
        assert!(tile.clone().with_layouts(LayoutPair::Nn).is_ok());
        let why = tile.with_layouts(LayoutPair::Tt).unwrap_err();
        assert_eq!(why, "a tile program for layout(a = row, b = row)");
        let even = ptx_gemm_check::case("bf16_even64x64").unwrap().text;
        let why = named(even).with_layouts(LayoutPair::Tn).unwrap_err();
        assert!(why.starts_with("with layout(a = col, b = row): ") && why.contains("tail(even)"), "{why}");
    }
}
