//! The closed word lists of the language. The grammar, the printer and the suggestions share one table per list.

use crate::clause::{BatchKind, Emulation, Metric, Relation, Roles, Spills};
use crate::elements::ELEMENTS;
use crate::epilogue::{Axis, Function};
use crate::target::Target;
use crate::terms::{
    Along, Edges, FmaOrder, Load, LoadC, Operands, Pace, Reads, Reduce, Rounding, StageMemory, Store, Tail,
};
use crate::types::{DType, Layout};

/// A type with values that are words of the language.
pub trait Word: Copy + PartialEq + 'static {
    /// The name of such a word in messages, with its article.
    const WHAT: &'static str;
    /// The words and their values, in the order of the documentation.
    const TABLE: &'static [(&'static str, Self)];

    /// The word for a value; empty for a value that the language cannot write.
    fn word(self) -> &'static str {
        Self::TABLE.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

macro_rules! words {
    ($type:ty, $what:literal, $($word:expr => $value:expr),+ $(,)?) => {
        impl Word for $type {
            const WHAT: &'static str = $what;
            const TABLE: &'static [(&'static str, Self)] = &[$(($word, $value)),+];
        }
    };
}

macro_rules! names {
    ($type:ty, $what:literal, $($value:expr),+ $(,)?) => {
        words!($type, $what, $($value.name() => $value),+);
    };
}

impl Word for DType {
    const WHAT: &'static str = "a type";
    const TABLE: &'static [(&'static str, DType)] = &{
        let mut table = [("", ELEMENTS[0].dtype); ELEMENTS.len()];
        let mut index = 0;
        while index < table.len() {
            table[index] = (ELEMENTS[index].name, ELEMENTS[index].dtype);
            index += 1;
        }
        table
    };
}

names!(Layout, "a layout", Layout::Row, Layout::Col);
words!(Target, "a target",
    "sm_75" => Target::SM_75, "sm_80" => Target::SM_80, "sm_86" => Target::SM_86, "sm_89" => Target::SM_89,
    "sm_90" => Target::SM_90, "sm_90a" => Target::SM_90A, "sm_100" => Target::SM_100, "sm_120" => Target::SM_120);
words!(BatchKind, "a kind of batch", "strided" => BatchKind::Strided, "grouped" => BatchKind::Grouped);
words!(Along, "a direction", "n" => Along::N, "m" => Along::M, "z" => Along::Z);
words!(Operands, "a place for operands", "registers" => Operands::Registers, "shared" => Operands::Shared);
words!(Load, "a way to load", "registers" => Load::Registers, "cp_async" => Load::CpAsync, "tma" => Load::Tma);
words!(FmaOrder, "an order",
    "row" => FmaOrder::Row, "snake" => FmaOrder::Snake, "column" => FmaOrder::Column,
    "column_snake" => FmaOrder::ColumnSnake, "diagonal" => FmaOrder::Diagonal, "blocks" => FmaOrder::Blocks);
words!(Reads, "a kind of reads", "movable" => Reads::Movable, "volatile" => Reads::Volatile);
words!(Rounding, "a rounding of sums", "plain" => Rounding::Plain, "compensated" => Rounding::Compensated);
words!(Pace, "a pace", "tile" => Pace::Tile, "free" => Pace::Free);
words!(Spills, "an answer to spills", "allow" => Spills::Allow, "refuse" => Spills::Refuse);
words!(Reduce, "a reduction", "serial" => Reduce::Serial, "workspace" => Reduce::Workspace, "cluster" => Reduce::Cluster);
words!(Roles, "a division of work", "cooperative" => Roles::Cooperative, "pingpong" => Roles::Pingpong);
words!(Store, "a way to store", "direct" => Store::Direct, "staged" => Store::Staged, "tma" => Store::Tma);
words!(LoadC, "a way of C", "registers" => LoadC::Registers, "tma" => LoadC::Tma);
words!(StageMemory, "a place for the tile of D", "own" => StageMemory::Own, "ring" => StageMemory::Ring);
words!(Emulation, "an emulation",
    "bf16x3" => Emulation::Bf16x3, "bf16x6" => Emulation::Bf16x6, "bf16x9" => Emulation::Bf16x9,
    "f16x3" => Emulation::F16x3);
words!(Edges, "a tail", "predicate" => Edges::Predicate, "even" => Edges::Even, "none" => Edges::None);
words!(Tail, "a tail", "predicate" => Tail::Predicate, "none" => Tail::None);
words!(Metric, "a figure",
    "spills" => Metric::Spills, "registers" => Metric::Registers, "code_bytes" => Metric::CodeBytes,
    "bank_conflicts" => Metric::BankConflicts, "sectors_per_load" => Metric::SectorsPerLoad,
    "loads_per_fma" => Metric::LoadsPerFma, "occupancy" => Metric::Occupancy, "shared" => Metric::Shared,
    "threads" => Metric::Threads, "max_error" => Metric::MaxError);
words!(Relation, "a relation",
    "=" => Relation::Equal, "<=" => Relation::AtMost, "<" => Relation::Below, ">=" => Relation::AtLeast,
    ">" => Relation::Above);
words!(Function, "a function",
    "relu" => Function::Relu, "abs" => Function::Abs, "min" => Function::Min, "max" => Function::Max,
    "clamp" => Function::Clamp, "exp" => Function::Exp, "tanh" => Function::Tanh, "sigmoid" => Function::Sigmoid,
    "gelu" => Function::Gelu, "gelu_tanh" => Function::GeluTanh, "silu" => Function::Silu);
words!(Axis, "an index", "m" => Axis::M, "n" => Axis::N);
