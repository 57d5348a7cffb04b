//! Modifiers of instructions that this project's compiler does not emit but that occur in PTX from other compilers.

use crate::names::words;

/// Which multi-word arithmetic operation an instruction with a carry performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum CarryOf {
    Add,
    Sub,
    MadLo,
    MadHi,
}

/// How `prmt` with a mode picks its bytes; the two lowest bits of the selector name the byte that it starts at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Permutation {
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

words!(Permutation { F4e "f4e", B4e "b4e", Rc8 "rc8", Ecl "ecl", Ecr "ecr", Rc16 "rc16" });

/// How a comparison is combined with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Combine {
    And,
    Or,
    Xor,
}

words!(Combine { And "and", Or "or", Xor "xor" });

/// What `testp` asks of a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum FloatTest {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

words!(FloatTest {
    Finite "finite", Infinite "infinite", Number "number", NotANumber "notanumber", Normal "normal",
    Subnormal "subnormal",
});

/// What a video instruction does with each pair of halves or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Video {
    Add,
    Sub,
    Avrg,
    AbsDiff,
    Min,
    Max,
}

/// The parts of a word that a video instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parts {
    /// Two halves.
    Halves,
    /// Four bytes.
    Bytes,
}

/// What a video instruction does with the results of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// They are placed next to each other, each truncated.
    Wrap,
    /// The same, each saturated.
    Sat,
    /// They are added to the third source.
    Add,
}

words!(Merge { Wrap "", Sat "sat", Add "add" });

/// What a barrier computes from the predicates of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum BarReduction {
    Popc,
    And,
    Or,
}

words!(BarReduction { Popc "popc", And "and", Or "or" });

impl Permutation {
    /// The same permutation as the selector of a plain `prmt`, which names each source byte by its number.
    pub const fn selector(self, control: u32) -> u32 {
        let table: [u32; 4] = match self {
            Permutation::F4e => [0x3210, 0x4321, 0x5432, 0x6543],
            Permutation::B4e => [0x5670, 0x6701, 0x7012, 0x0123],
            Permutation::Rc8 => [0x0000, 0x1111, 0x2222, 0x3333],
            Permutation::Ecl => [0x3210, 0x3211, 0x3222, 0x3333],
            Permutation::Ecr => [0x0000, 0x1110, 0x2210, 0x3210],
            Permutation::Rc16 => [0x1010, 0x3232, 0x1010, 0x3232],
        };
        table[(control & 3) as usize]
    }
}
