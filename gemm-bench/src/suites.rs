//! The suites: their products, and the schedules that are tried on them.

mod layouts;
mod llm;

use ptx_gemm::{Batch, DType, Diagnostics, Schedule};
use ptx_gemm_check::{Case, case, cases, tuned};

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
    /// Its name in the rows.
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

/// The tuned schedules of each suite. Those of other element types are added by their types.
const LARGE: &[&str] = &["nn_256x128", "nn_128x128", "tn_256x128", "tn_128x128", "nn_128x256_tma", "tn_128x256_tma"];
const SQUARES: &[&str] = &[
    "nn_128x128",
    "nn_64x64",
    "nn_64x64_split4",
    "tn_64x64_split4",
    "nt_64x64_split4",
    "tt_64x64_split4",
    "nn_128x256_tma",
    "nn_128x128_tma",
    "nn_64x128_tma",
    "tn_128x256_tma",
    "nt_128x256_tma",
    "tt_128x256_tma",
    "tt_128x128_tma",
    "tn_64x128_tma",
    "nt_64x128_tma",
    "tt_64x128_tma",
    "bf16x6_128x128",
    "bf16x6_128x128_ring4",
    "bf16x6_192x128",
    "bf16x3_128x128",
    "bf16x3_128x128_cluster",
    "f16x3_128x128",
    "f16x3_128x128_cluster",
    "f16x3_128x128_ring4",
    "f16x3_192x128",
];
const TRIED: [(Suite, &[&str]); 10] = [
    (Suite::Ladder, LARGE),
    (Suite::Square, SQUARES),
    (Suite::Odd, SQUARES),
    (
        Suite::Skinny,
        &[
            "nn_128x128",
            "nn_64x64",
            "nn_64x64_split4",
            "nn_64x64_split32",
            "nn_16x128_split8",
            "nn_128x16_split8",
            "nn_64x128_tma",
            "bf16x6_128x128",
            "f16x3_128x128",
        ],
    ),
    (Suite::Deep, &["nn_128x128", "nn_128x128_split8", "nn_64x64_split4", "nn_64x64_split32", "nn_64x128_tma"]),
    (
        Suite::Small,
        &["nn_64x64", "nn_64x64_split4", "tn_64x64_split4", "nt_64x64_split4", "tt_64x64_split4", "nn_32x32"],
    ),
    (Suite::Batched, &["nn_128x128", "nn_64x64", "nn_32x32", "tn_128x128", "nn_64x128_tma", "nn_128x256_tma"]),
    (
        Suite::Llm,
        &[
            "nt_128x256_tma",
            "nt_64x128_tma",
            "nt_64x64_split4",
            "nn_128x128",
            "nn_64x64_split32",
            "nn_16x128_split8",
            "nt_bf16x6_128x128",
            "nt_f16x3_128x128",
        ],
    ),
    (Suite::Grouped, &["nn_128x128", "nn_64x64", "nn_128x256_tma", "nn_256x128"]),
    (Suite::Large, &["nn_128x256_tma", "bf16x6_128x128", "f16x3_128x128"]),
];
/// The fastest case for tensor cores before Hopper's. It is tried in every suite of 16-bit types, next to the schedules tuned
/// for these types.
const TENSOR_CORES: [&str; 1] = ["mma_pipelined"];
/// Schedules tuned for f32 that are tried on 16-bit types as well, in the suites that have them: a small D leaves most
/// of the time to reading A and B.
const NARROW: [&str; 4] = ["nn_64x64_split32", "nn_16x128_split8", "nn_128x16_split8", "nn_32x32"];

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

    /// Its schedules for products of one element type, in the layouts that they name; for layers of models with a column-major
    /// B, since weights are stored by outputs.
    pub fn schedules(self, dtype: DType) -> Vec<Named> {
        let all = self.of_dtype(dtype).into_iter();
        match self {
            Suite::Llm => all.map(|named| named.clone().with_layouts(LayoutPair::Nt).unwrap_or(named)).collect(),
            _ => all.collect(),
        }
    }

    /// Its schedules for products of one element type, in each of these layouts that a schedule supports.
    pub fn schedules_in(self, dtype: DType, layouts: &[LayoutPair]) -> Vec<Named> {
        let all = self.of_dtype(dtype).into_iter();
        all.flat_map(|named| layouts.iter().filter_map(move |pair| named.clone().with_layouts(*pair).ok())).collect()
    }

    fn of_dtype(self, dtype: DType) -> Vec<Named> {
        let tried = TRIED.into_iter().find(|(suite, _)| *suite == self).map_or(&[][..], |(_, names)| names);
        // A case represents a published kernel: cases keep the types of their text.
        let found = cases().filter(|case| match self {
            Suite::Ladder => true,
            Suite::Grouped => case.name.starts_with("grouped"),
            _ => false,
        });
        let found = found.filter_map(|case| as_it_is(&case, dtype));
        let is_narrow = is_sixteen_bit(dtype);
        let found = found.chain(tuned().filter(|case| !tried.contains(&case.name)).filter_map(|case| {
            // Schedules tuned for a type other than f32 are tried on all products of that type; those of one 16-bit type
            // on those of the other as well, since both take the same time.
            match is_narrow && is_sixteen_bit(as_written(&case)?.dtype()?) {
                true => of_type(&case, dtype),
                false => (dtype != DType::F32).then(|| as_it_is(&case, dtype)).flatten(),
            }
        }));
        let tried = tuned().filter(|case| tried.contains(&case.name));
        let tried = tried.filter(|case| !is_narrow || NARROW.contains(&case.name));
        let tensor_cores = TENSOR_CORES.iter().filter(|_| is_narrow).filter_map(|name| case(name));
        let tried = tried.chain(tensor_cores).filter_map(|case| of_type(&case, dtype));
        let mut all: Vec<Named> = Vec::new();
        for named in found.chain(tried).filter_map(|named| named.batched(self.batch()).ok()) {
            // A case of the ladder may be one of those on tensor cores.
            if all.iter().all(|other| other.name != named.name) {
                all.push(named);
            }
        }
        all
    }
}

impl Named {
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

fn is_sixteen_bit(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16)
}

/// A schedule as written in its file.
fn as_written(case: &Case) -> Option<Named> {
    Some(Named { name: case.name.into(), program: Program::Schedule(case.schedule().ok()?) })
}

/// The same, if it multiplies elements of that type.
fn as_it_is(case: &Case, dtype: DType) -> Option<Named> {
    as_written(case).filter(|named| named.dtype() == Some(dtype))
}

/// The same for a type other than that of the file, if that is legal.
fn of_type(case: &Case, dtype: DType) -> Option<Named> {
    as_it_is(case, dtype).or_else(|| {
        let types: Schedule = format!("types({dtype});").parse().ok()?;
        let schedule = case.schedule().ok()?.with(types);
        schedule.check().ok()?;
        Some(Named { name: case.name.into(), program: Program::Schedule(schedule) })
    })
}

#[cfg(test)]
mod tests {
    use ptx_gemm::TileProgram;

    use super::*;

    #[test]
    fn every_schedule_that_is_named_is_there() {
        let known: Vec<&str> = tuned().map(|case| case.name).collect();
        for (suite, names) in TRIED {
            let missing: Vec<_> = names.iter().filter(|name| !known.contains(name)).collect();
            assert!(missing.is_empty(), "{suite:?}: {missing:?}");
            let schedules = suite.schedules(DType::F32);
            assert!(names.iter().all(|name| schedules.iter().any(|named| named.name == *name)), "{suite:?}");
        }
    }

    #[test]
    fn types_select() {
        let i32 = Suite::Ladder.schedules(DType::I32);
        assert!(!i32.is_empty() && i32.iter().all(|named| named.dtype() == Some(DType::I32)));
        let f64 = Suite::Square.schedules(DType::F64);
        assert!(f64.iter().any(|named| named.name == "dgemm_nn_128x64"));
        let f32 = Suite::Square.schedules(DType::F32);
        assert!(f32.iter().all(|named| named.dtype() == Some(DType::F32)));
        assert!(f32.iter().any(|named| named.name == "f16x3_128x128"), "products from planes are products of f32");
        let batched = Suite::Batched.schedules(DType::F32);
        assert!(batched.iter().all(|named| named.program.problem().is_ok_and(|p| p.batch == Batch::Strided)));
    }

    #[test]
    fn sixteen_bits_are_multiplied_on_tensor_cores() {
        let all = [Suite::Ladder, Suite::Square, Suite::Odd, Suite::Skinny, Suite::Deep, Suite::Small, Suite::Llm];
        for (suite, dtype) in all.into_iter().flat_map(|suite| [(suite, DType::F16), (suite, DType::Bf16)]) {
            let schedules = suite.schedules(dtype);
            let names: Vec<&str> = schedules.iter().map(|named| named.name.as_str()).collect();
            let expected = TENSOR_CORES.iter().chain(&["bf16_128x256", "bf16_128x64", "bf16_rows16"]);
            assert!(expected.clone().all(|name| names.contains(name)), "{suite:?} {dtype}: {names:?}");
            assert!(!names.contains(&"nn_128x128"), "{suite:?} {dtype}: {names:?}");
            let once = |name| names.iter().filter(|other| *other == name).count() == 1;
            assert!(names.iter().all(once), "{suite:?} {dtype}: {names:?}");
            for named in &schedules {
                assert_eq!(named.dtype(), Some(dtype), "{suite:?}: {}", named.name);
                let problem = named.program.problem().unwrap();
                assert!(suite == Suite::Ladder || problem.types.acc == DType::F32, "{suite:?}: {}", named.name);
                let Program::Schedule(schedule) = &named.program else { panic!("{}", named.name) };
                schedule.check().unwrap();
            }
        }
    }

    #[test]
    fn weights_are_stored_by_outputs() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let schedules = Suite::Llm.schedules(dtype);
            assert!(schedules.len() >= 5, "{dtype}");
            for named in schedules {
                let layouts = named.program.problem().unwrap().layouts;
                let expected = [ptx_gemm::Layout::Row, ptx_gemm::Layout::Col, ptx_gemm::Layout::Row];
                assert_eq!([layouts.a, layouts.b, layouts.d], expected, "{}", named.name);
            }
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

    /// Each suite's schedules compute what its products are; those of experts together have the rows of one product.
    #[test]
    fn layers_of_experts() {
        for dtype in [DType::F32, DType::Bf16] {
            let grouped = Suite::Grouped.schedules(dtype);
            assert!(grouped.len() > 1, "{dtype}");
            assert!(grouped.iter().all(|named| named.program.problem().is_ok_and(|p| p.batch == Batch::Grouped)));
        }
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
