//! Which part of a long list a test run covers: the representatives every time, and a rotating tenth of the rest.
//!
//! `PTX_GEMM_PART` chooses: a number for its last digit's tenth, `all` for everything; the default is 0. `.ci/run` uses
//! the number of commits, so that ten landings cover everything; `.ci/full` uses `all`.

use std::env;

use crate::Case;
use crate::mechanisms::MECHANISMS;

/// The number of parts.
const PARTS: usize = 10;

/// A part of every long list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything.
    All,
    /// A tenth, by its number.
    Tenth(usize),
}

impl Part {
    /// The part that `PTX_GEMM_PART` names. It is printed, so that a failed test says how to repeat it.
    ///
    /// # Panics
    /// Panics if the value is invalid: a run that silently covers another part proves nothing.
    pub fn of_this_run() -> Part {
        let part = match env::var("PTX_GEMM_PART") {
            Err(_) => Part::Tenth(0),
            Ok(text) if text == "all" => Part::All,
            Ok(text) => match text.parse::<usize>() {
                Ok(number) => Part::Tenth(number % PARTS),
                Err(_) => panic!("PTX_GEMM_PART is a number or `all`, not `{text}`"),
            },
        };
        match part {
            Part::All => println!("PTX_GEMM_PART=all"),
            Part::Tenth(number) => println!("PTX_GEMM_PART={number}"),
        }
        part
    }

    /// Whether this part has the element with this index.
    pub fn has(self, index: usize) -> bool {
        match self {
            Part::All => true,
            Part::Tenth(number) => index % PARTS == number,
        }
    }

    /// The elements of a list that this part has.
    pub fn of<T>(self, all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        all.into_iter().enumerate().filter(move |(index, _)| self.has(*index)).map(|(_, element)| element)
    }

    /// The cases among these that each show a mechanism, and those of this part.
    pub fn of_cases(self, all: impl IntoIterator<Item = Case>) -> impl Iterator<Item = Case> {
        let all = all.into_iter().enumerate();
        let shows = |case: &Case| MECHANISMS.iter().any(|mechanism| mechanism.case == case.name);
        all.filter(move |(index, case)| shows(case) || self.has(*index)).map(|(_, case)| case)
    }
}

#[cfg(test)]
mod tests {
    use super::Part;
    use crate::cases;

    #[test]
    fn ten_parts_are_everything() {
        let parts: usize = (0..10).map(|number| Part::Tenth(number).of(cases()).count()).sum();
        assert_eq!(parts, cases().len());
        assert!(Part::Tenth(3).of_cases(cases()).any(|case| case.name == "naive"));
    }
}
