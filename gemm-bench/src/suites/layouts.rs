//! Schedules in other layouts of A and B than those they were written for.

use ptx_gemm::{Diagnostics, Layout};

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
    /// All of them.
    pub const ALL: [LayoutPair; 4] = [LayoutPair::Nn, LayoutPair::Nt, LayoutPair::Tn, LayoutPair::Tt];

    fn of_a_and_b(self) -> [Layout; 2] {
        match self {
            LayoutPair::Nn => [Layout::Row, Layout::Row],
            LayoutPair::Nt => [Layout::Row, Layout::Col],
            LayoutPair::Tn => [Layout::Col, Layout::Row],
            LayoutPair::Tt => [Layout::Col, Layout::Col],
        }
    }
}

impl Named {
    /// The same program for these layouts of A and B. A tile program, and a schedule with a clause `layout`, have layouts of
    /// their own, which do not change.
    ///
    /// # Errors
    ///
    /// Returns why that is not possible.
    pub fn with_layouts(self, pair: LayoutPair) -> Result<Named, String> {
        let own = self.program.problem().map_err(|errors| errors.to_string())?.layouts;
        let [a, b] = pair.of_a_and_b();
        let schedule = match self.program {
            _ if [own.a, own.b] == [a, b] => return Ok(self),
            Program::Schedule(schedule) if !schedule.to_string().contains("layout(") => schedule,
            _ => return Err(format!("it is for layout(a = {}, b = {})", own.a, own.b)),
        };
        let layout = format!("layout(a = {a}, b = {b});").parse().map_err(|errors: Diagnostics| errors.to_string())?;
        let schedule = schedule.with(layout);
        schedule.check().map_err(|errors| errors.to_string())?;
        Ok(Named { program: Program::Schedule(schedule), ..self })
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::TileProgram;

    use super::*;
    use crate::suites::{DType, Suite};

    fn named(text: &str) -> Named {
        Named { name: "x".into(), program: Program::Schedule(text.parse().unwrap()) }
    }

    fn layouts(named: &Named) -> [Layout; 2] {
        let layouts = named.program.problem().unwrap().layouts;
        [layouts.a, layouts.b]
    }

    #[test]
    fn a_schedule_without_layouts_has_any() {
        for pair in LayoutPair::ALL {
            let other = named("tile(32, 32, 8); thread(2, 2);").with_layouts(pair).unwrap();
            assert_eq!(layouts(&other), pair.of_a_and_b());
        }
    }

    #[test]
    fn layouts_that_are_named_stay() {
        let ours = "tile(32, 32, 8); thread(2, 2); layout(b = col);";
        for pair in LayoutPair::ALL {
            match named(ours).with_layouts(pair) {
                Ok(same) => assert_eq!((pair, layouts(&same)), (LayoutPair::Nt, [Layout::Row, Layout::Col])),
                Err(why) => assert_eq!(why, "it is for layout(a = row, b = col)"),
            }
        }
        let tile = TileProgram::parse(include_str!("../../../examples/tile/two_sums.tile")).unwrap();
        let tile = Named { name: "x".into(), program: Program::Tile(tile) };
        assert!(tile.clone().with_layouts(LayoutPair::Nn).is_ok());
        assert_eq!(tile.with_layouts(LayoutPair::Tt).unwrap_err(), "it is for layout(a = row, b = row)");
    }

    /// A suite in some layouts has the schedules that name one of these, and all that name none, once for each.
    #[test]
    fn suites_in_layouts() {
        let all = Suite::Square.schedules(DType::Bf16);
        let own = |pair: LayoutPair| all.iter().filter(|named| layouts(named) == pair.of_a_and_b()).count();
        let plain = all.iter().filter(|named| (*named).clone().with_layouts(LayoutPair::Tt).is_ok()).count();
        assert!(plain > 10, "{plain}");
        for pair in [LayoutPair::Nt, LayoutPair::Tn, LayoutPair::Tt] {
            let found = Suite::Square.schedules_in(DType::Bf16, &[pair]);
            assert!(found.iter().all(|named| layouts(named) == pair.of_a_and_b()), "{pair:?}");
            assert_eq!(found.len(), plain + own(pair), "{pair:?}");
        }
        let both = Suite::Square.schedules_in(DType::Bf16, &[LayoutPair::Nn, LayoutPair::Nt]);
        assert_eq!(both.len(), all.len() + plain);
        assert!(Suite::Square.schedules_in(DType::Bf16, &[]).is_empty());
    }
}
