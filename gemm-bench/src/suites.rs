//! The suites: their products, and what is timed on them.

mod layouts;
mod llm;

use ptx_gemm::{Batch, DType, Diagnostics, Schedule};
use ptx_gemm_check::{Case, cases};
use ptx_gemm_choose::{Gpu, Pick, choose};

use crate::program::Program;
pub use layouts::LayoutPair;

/// The name that takes the place of a suite's where products are given by their sizes.
pub const SIZES: &str = "sizes";

/// Products of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Suite {
    /// Every case at 4096 cubed
    Ladder,
    /// Cubes from 256 to 8192
    Square,
    /// Extents that no tile divides, and some that are not powers of two
    Odd,
    /// One extent far below the others
    Skinny,
    /// Small results of long sums
    Deep,
    /// Cubes up to 256
    Small,
    /// Many products in one launch
    Batched,
    /// Layers of public language models: Llama-3, Qwen2.5, Mixtral, DeepSeek
    Llm,
    /// Layers of experts, next to one product with as many rows
    Grouped,
    /// Cubes in the host's memory, on one GPU and on several
    Large,
}

pub use ptx_gemm_choose::Size;

/// A program and its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name in the rows; the clauses on one line, if it has none.
    pub name: String,
    /// The program.
    pub program: Program,
}

const SQUARE: [usize; 11] = [256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192];
const SMALL: [usize; 8] = [16, 32, 64, 96, 128, 160, 192, 256];
const ODD: [[usize; 3]; 10] = [
    [4095, 4097, 4093],
    [5120, 2560, 7680],
    [1000, 1000, 1000],
    [1023, 1023, 1023],
    [1025, 1025, 1025],
    [2047, 2049, 2051],
    [511, 513, 517],
    [3001, 2999, 3011],
    [6000, 6000, 6000],
    [3000, 3000, 3000],
];
const SKINNY: [[usize; 3]; 9] = [
    [16, 8192, 8192],
    [8192, 16, 8192],
    [64, 8192, 8192],
    [8192, 64, 8192],
    [1, 8192, 8192],
    [8192, 1, 8192],
    [8192, 8192, 16],
    [8192, 8192, 64],
    [128, 4096, 4096],
];
const DEEP: [[usize; 3]; 6] = [
    [128, 128, 65_536],
    [64, 64, 262_144],
    [32, 32, 1 << 20],
    [256, 256, 32_768],
    [512, 512, 16_384],
    [1024, 1024, 8192],
];
/// Extent of the cubes, and their number.
const BATCHED: [[usize; 2]; 7] = [[16, 8192], [32, 4096], [64, 1000], [128, 512], [256, 128], [512, 32], [1024, 8]];

/// Extents of cubes in the host's memory: those of the report with products on four GPUs, and some between them.
const HOST: [usize; 9] = [16, 128, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

/// Layers of experts in public models: rows of an expert on average, N, K, and the experts. Both matrices of Mixtral 8x7B
/// (`w1` and `w2` of its 8 experts, two for each of 4096 or 16384 tokens), the first of Qwen3-30B-A3B (gate and up of 128
/// experts, 8 for each of 8192 tokens), and that of 32 of DeepSeek-V3's 256 experts (8 for each of 8192 tokens).
const GROUPED: [[usize; 4]; 5] = [
    [1024, 14_336, 4096, 8],
    [1024, 4096, 14_336, 8],
    [4096, 14_336, 4096, 8],
    [512, 1536, 2048, 128],
    [256, 4096, 7168, 32],
];

impl Suite {
    /// The name on the command line and of the file of results.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Ladder => "ladder",
            Suite::Square => "square",
            Suite::Odd => "odd",
            Suite::Skinny => "skinny",
            Suite::Deep => "deep",
            Suite::Small => "small",
            Suite::Batched => "batched",
            Suite::Llm => "llm",
            Suite::Grouped => "grouped",
            Suite::Large => "large",
        }
    }

    /// Its products.
    pub fn sizes(self) -> Vec<Size> {
        match self {
            Suite::Ladder => vec![Size::cube(4096)],
            Suite::Square => SQUARE.map(Size::cube).into(),
            Suite::Small => SMALL.map(Size::cube).into(),
            Suite::Odd => ODD.map(Size::of).into(),
            Suite::Skinny => SKINNY.map(Size::of).into(),
            Suite::Deep => DEEP.map(Size::of).into(),
            Suite::Batched => BATCHED.map(|[extent, batch]| Size { batch, ..Size::cube(extent) }).into(),
            Suite::Llm => llm::sizes(),
            Suite::Grouped => GROUPED.map(|[m, n, k, batch]| Size { m, n, k, batch }).into(),
            Suite::Large => HOST.map(Size::cube).into(),
        }
    }

    /// The name of one of its products, if it has one; `suite` is the name of a suite.
    pub fn product(suite: &str, size: Size) -> Option<String> {
        (suite == Suite::Llm.name()).then(|| llm::layer_of(size)).flatten()
    }

    /// Whether a launch of it computes one product or many.
    pub fn batch(self) -> Batch {
        match self {
            Suite::Batched => Batch::Strided,
            Suite::Grouped => Batch::Grouped,
            _ => Batch::One,
        }
    }

    /// What is timed on one of its products, of one element type, in each of these layouts: the cases of the ladder that can have
    /// them, and elsewhere what `matmul` takes. Layers of models have a column-major B, since weights are stored by outputs, and
    /// cases have their own layouts, where none are given.
    pub fn schedules(self, size: Size, dtype: DType, layouts: &[LayoutPair], gpu: &Gpu) -> Vec<Named> {
        if self == Suite::Ladder {
            // A case represents a published kernel: it keeps the types of its text.
            let all = cases().filter_map(|case| as_written(&case)).filter(|named| named.dtype() == Some(dtype));
            return match layouts {
                [] => all.collect(),
                _ => all
                    .flat_map(|named| layouts.iter().filter_map(move |pair| named.clone().with_layouts(*pair).ok()))
                    .collect(),
            };
        }
        let usual = if self == Suite::Llm { LayoutPair::Nt } else { LayoutPair::Nn };
        let layouts = if layouts.is_empty() { &[usual] } else { layouts };
        let given = |pair: &LayoutPair| {
            let [a, b] = pair.of_a_and_b();
            let batch = match self.batch() {
                Batch::One => String::new(),
                many => format!("; batch({many})"),
            };
            format!("types({dtype}); layout(a = {a}, b = {b}){batch}").parse::<Schedule>().ok()
        };
        let chosen = |given: Schedule| choose(&Pick { given: &given, size, gpu }, None);
        layouts.iter().filter_map(given).filter_map(chosen).map(|choice| Named::by_clauses(choice.schedule)).collect()
    }
}

impl Named {
    /// A schedule without a name, which its clauses take the place of.
    pub fn by_clauses(schedule: Schedule) -> Named {
        Named { name: schedule.one_line(), program: Program::Schedule(schedule) }
    }

    /// The same program for one product, or for many. Tile programs cannot be changed.
    ///
    /// # Errors
    ///
    /// Returns why that is not possible.
    pub fn batched(self, batch: Batch) -> Result<Named, String> {
        let own = self.program.problem().map_err(|errors| errors.to_string())?.batch;
        match (own, self.program) {
            (own, program) if own == batch => Ok(Named { program, ..self }),
            (Batch::One, Program::Schedule(schedule)) => {
                let text = format!("{schedule}\nbatch({batch});");
                let schedule = text.parse().map_err(|errors: Diagnostics| errors.to_string())?;
                Ok(Named { program: Program::Schedule(schedule), ..self })
            }
            (Batch::One, Program::Tile(_)) => Err("a tile program for one product, and these are batches".into()),
            (own, Program::Tile(_)) => Err(format!("a tile program for batch({own}), and these are {}", these(batch))),
            (own, Program::Schedule(_)) => Err(format!("it says batch({own}), and these are {}", these(batch))),
        }
    }

    fn dtype(&self) -> Option<DType> {
        let types = self.program.problem().ok()?.types;
        (types.a == types.b).then_some(types.a)
    }
}

/// The products of a kind of launch, in words.
fn these(batch: Batch) -> &'static str {
    match batch {
        Batch::One => "single products",
        Batch::Strided => "batches of equal products",
        Batch::Grouped => "groups of products",
    }
}

/// A schedule as written in its file.
fn as_written(case: &Case) -> Option<Named> {
    Some(Named { name: case.name.into(), program: Program::Schedule(case.schedule().ok()?) })
}

#[cfg(test)]
mod tests {
    use ptx_gemm::TileProgram;

    use super::*;

    /// The ladder has its cases; every other suite has the schedule of `matmul` for each product, with the types, the layouts and the
    /// kind of launch of the suite.
    #[test]
    fn what_is_timed() {
        let ladder =
            |dtype, layouts: &[LayoutPair]| Suite::Ladder.schedules(Size::cube(4096), dtype, layouts, Gpu::h200());
        let i32 = ladder(DType::I32, &[]);
        assert!(!i32.is_empty() && i32.iter().all(|named| named.dtype() == Some(DType::I32)));
        assert!(
            ladder(DType::F32, &[]).iter().any(|named| named.name == "emulate_f16x3"),
            "planes are products of f32"
        );
        assert!(ladder(DType::F32, &[LayoutPair::Tt]).len() > 20);
        let suites = [
            (Suite::Square, Size::cube(1024), Batch::One),
            (Suite::Odd, Size::cube(1023), Batch::One),
            (Suite::Batched, Size { batch: 8, ..Size::cube(512) }, Batch::Strided),
            (Suite::Grouped, Size { batch: 8, ..Size::of([256, 4096, 1024]) }, Batch::Grouped),
            (Suite::Llm, Size::of([8, 28_672, 4096]), Batch::One),
        ];
        for ((suite, size, batch), dtype) in suites.iter().flat_map(|one| [(one, DType::F32), (one, DType::Bf16)]) {
            let [named] = &suite.schedules(*size, dtype, &[], Gpu::h200())[..] else { panic!("{suite:?} {dtype}") };
            let problem = named.program.problem().unwrap();
            assert_eq!((problem.types.a, problem.batch), (dtype, *batch), "{}", named.name);
            let b = if *suite == Suite::Llm { ptx_gemm::Layout::Col } else { ptx_gemm::Layout::Row };
            assert_eq!((problem.layouts.a, problem.layouts.b), (ptx_gemm::Layout::Row, b), "{}", named.name);
            let Program::Schedule(schedule) = &named.program else { panic!("{}", named.name) };
            assert_eq!(named.name.parse::<Schedule>().unwrap(), *schedule, "its name is its clauses");
            let both = suite.schedules(*size, dtype, &[LayoutPair::Nt, LayoutPair::Tn], Gpu::h200());
            assert_eq!(both.len(), 2, "{suite:?} {dtype}");
        }
        let size = Size::of([8, 28_672, 4096]);
        assert_eq!(Suite::product("llm", size).as_deref(), Some("Llama-3 8B gate_up"));
        assert_eq!(Suite::product("square", size), None);
    }

    #[test]
    fn what_cannot_be_batched_says_why() {
        let named = |program| Named { name: "x".into(), program };
        let schedule = |text: &str| named(Program::Schedule(text.parse().unwrap()));
        let (one, many) =
            (schedule("tile(32, 32, 8); thread(2, 2);"), schedule("tile(32, 32, 8); thread(2, 2); batch(strided);"));
        assert!(one.clone().batched(Batch::One).is_ok() && many.clone().batched(Batch::Strided).is_ok());
        let batched = one.batched(Batch::Strided).unwrap();
        assert_eq!(batched.program.problem().unwrap().batch, Batch::Strided);
        let why = many.batched(Batch::One).unwrap_err();
        assert_eq!(why, "it says batch(strided), and these are single products");
        let tile = TileProgram::parse(include_str!("../../examples/tile/two_sums.tile")).unwrap();
        let why = named(Program::Tile(tile)).batched(Batch::Strided).unwrap_err();
        assert_eq!(why, "a tile program for one product, and these are batches");
        let (one, many) =
            (schedule("tile(32, 32, 8); thread(2, 2);"), schedule("tile(32, 32, 8); thread(2, 2); batch(grouped);"));
        let grouped = one.batched(Batch::Grouped).unwrap();
        assert_eq!(grouped.program.problem().unwrap().batch, Batch::Grouped);
        let why = many.batched(Batch::Strided).unwrap_err();
        assert_eq!(why, "it says batch(grouped), and these are batches of equal products");
    }

    /// Products of experts together have the rows of one product.
    #[test]
    fn layers_of_experts() {
        assert_eq!(Size { batch: 4, ..Size::of([8, 2, 3]) }.stacked(), Size::of([32, 2, 3]));
        for (rows, experts) in [(8192, 8), (65_536, 128), (10, 3), (5, 1), (0, 4)] {
            let each = crate::operands::routed(rows, experts);
            assert_eq!((each.len(), each.iter().sum::<usize>()), (experts, rows));
        }
        let eight = crate::operands::routed(8192, 8);
        assert!(eight.iter().max() > Some(&1400) && eight.iter().min() < Some(&700), "{eight:?}");
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(Size::parse("4096"), Ok(Size::cube(4096)));
        assert_eq!(Size::parse("1x2x3"), Ok(Size::of([1, 2, 3])));
        assert_eq!(Size::parse("1x2x3x4"), Ok(Size { batch: 4, ..Size::of([1, 2, 3]) }));
        for text in ["", "0", "1x2", "1x2x0", "-1", "1x2x3x4x5", "4294901761", "99999999999999999999"] {
            assert!(Size::parse(text).is_err(), "{text}");
        }
    }
}
