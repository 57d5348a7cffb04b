//! The tests of BLAS libraries, through the public interface, on schedules of different kinds: netlib's SGEMM grid with
//! its error exits, and the sizes and scalars of rocBLAS. All checks of the interpreter are on.

use half::{bf16, f16};
use ptx_gemm::{
    ArgumentError, CompiledGemm, Device, Element, Error, Gemm, InterpreterOptions, Layout, Matrix, MatrixMut,
    MatrixRef, Shape,
};
use ptx_gemm_check::part::Part;
use ptx_gemm_check::{Data, Leading, Output, Request, check, netlib};
use ptx_gemm_interp::{Counting, Options};

/// Every thread reads global memory directly.
pub const DIRECT: &str = "tile(32, 32); thread(1, 1); shared(none);";
/// The next tile is loaded, four elements at a time, while the current one is multiplied.
pub const DOUBLE_BUFFERED: &str = "tile(128, 128, 8); thread(8, 8); vector(4); double_buffer;";
/// Fragments distributed over a warp's tile, read from a padded and transposed buffer.
pub const WARP_TILED: &str =
    "tile(64, 64, 8); warp(32, 32); thread(8, 4); fragment(4, 4); vector(4); shared(a = km + pad(4)); double_buffer;";
pub const KINDS: [&str; 3] = [DIRECT, DOUBLE_BUFFERED, WARP_TILED];

/// The kinds for matrices of 16 bits, with accesses of 8 elements: without shared memory, with a D that passes through it,
/// and with fragments along k.
pub const NARROW_KINDS: [&str; 3] = [
    "types(bf16); tile(32, 32); thread(2, 4); shared(none); vector(8);",
    "types(f16); tile(64, 64, 16); thread(8, 4); vector(8); double_buffer; store(staged);",
    "types(bf16); tile(64, 64, 16); thread(4, 8); vector(8); shared(a = km + pad(8), b = nk + pad(8)); double_buffer;",
];

/// `D := alpha A B + beta C` in the given layouts.
pub fn gemm(kind: &str, [a, b, c, d]: [Layout; 4], device: &Device) -> CompiledGemm {
    let layouts = format!("layout(a = {a}, b = {b}, c = {c}, d = {d});");
    let clauses = format!("{kind} {layouts} epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);");
    let kernel: Gemm = clauses.parse().unwrap_or_else(|e| panic!("{e}"));
    kernel.on(device).unwrap_or_else(|e| panic!("{clauses}: {e}"))
}

/// Tensor cores that multiply f32 rounded to tf32, and 8-bit integers.
const TENSOR_KINDS: [&str; 2] = [
    "types(tf32); tile(32, 32, 16); warp(16, 16); atom(mma(16, 8, 8)); double_buffer;",
    "types(a = i8, b = i8, d = i32); tile(64, 32, 128); atom(wgmma(64, 32, 32)); load(tma); stages(3);",
];

fn check_netlib<T: Element, U: Element>(kind: &str) {
    // With counting, so that a store to A or B is noticed.
    let options = Options { counting: Counting::On, ..Options::default() };
    let device = Device::interpreter_with(InterpreterOptions { options, ..InterpreterOptions::default() });
    let kernel = |a, b| Ok(gemm(kind, [a, b, Layout::Col, Layout::Col], &device));
    let summary = netlib::run::<T, U>(Part::of_this_run(), kernel).unwrap();
    println!("{kind} {summary}");
    // A tenth of each of the nine lists of calls, so a tenth of the grid but for rounding.
    assert!(summary.calls >= 17_496 / 10 - 9, "{} calls", summary.calls);
    assert!(summary.compared > 10_000, "{} elements were compared", summary.compared);
    assert!(summary.failures.is_empty(), "{kind} {summary}");
}

#[test]
fn netlib_grid_reading_global_memory() {
    check_netlib::<f32, f32>(DIRECT);
}

#[test]
fn netlib_grid_double_buffered() {
    check_netlib::<f32, f32>(DOUBLE_BUFFERED);
}

#[test]
fn netlib_grid_warp_tiled() {
    check_netlib::<f32, f32>(WARP_TILED);
}

#[test]
fn netlib_grid_bf16() {
    check_netlib::<bf16, bf16>(NARROW_KINDS[0]);
}

#[test]
fn netlib_grid_f16() {
    check_netlib::<f16, f16>(NARROW_KINDS[1]);
}

#[test]
fn netlib_grid_tf32() {
    check_netlib::<f32, f32>(TENSOR_KINDS[0]);
}

#[test]
fn netlib_grid_i8() {
    check_netlib::<i8, i32>(TENSOR_KINDS[1]);
}

/// The grid distinguishes a correct kernel from one that is wrong in the fourth digit of C.
#[test]
fn netlib_grid_finds_a_wrong_kernel() {
    let summary = netlib::run::<f32, f32>(Part::Tenth(0), |a, b| {
        let wrong = "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c * 1.0001);";
        format!("{DIRECT} layout(a = {a}, b = {b}, d = col); {wrong}").parse::<Gemm>()?.on(&Device::interpreter())
    });
    // Two of three betas, and the sizes for which C has an element.
    assert!(summary.unwrap().failures.len() > 17_496 / 30);
}

/// One call of netlib's `SCHKE`: which argument is wrong, and the call.
struct Exit {
    info: u8,
    trans: [char; 2],
    /// M, N, K.
    extents: [i32; 3],
    /// Of A, B, C.
    ld: [usize; 3],
}

/// All 28, in the order of netlib's source.
fn exits() -> Vec<Exit> {
    let exit =
        |info, trans: &str, extents, ld| Exit { info, trans: [0, 1].map(|i| trans.as_bytes()[i].into()), extents, ld };
    let pairs = ["NN", "NT", "TN", "TT"];
    let mut all: Vec<Exit> = ["/N", "/T"].iter().map(|trans| exit(1, trans, [0; 3], [1; 3])).collect();
    all.extend(["N/", "T/"].iter().map(|trans| exit(2, trans, [0; 3], [1; 3])));
    for (info, extents) in [(3, [-1, 0, 0]), (4, [0, -1, 0]), (5, [0, 0, -1])] {
        all.extend(pairs.iter().map(|trans| exit(info, trans, extents, [1; 3])));
    }
    // lda: rows of the stored matrix, which is M x K, or K x M if it is transposed.
    let outer =
        |trans: &str, at: usize, plain, transposed| if trans.as_bytes()[at] == b'N' { plain } else { transposed };
    all.extend(pairs.iter().map(|trans| exit(8, trans, outer(trans, 0, [2, 0, 0], [0, 0, 2]), [1, 2, 2])));
    all.extend(pairs.iter().map(|trans| exit(10, trans, outer(trans, 1, [0, 0, 2], [0, 2, 0]), [2, 1, 2])));
    all.extend(pairs.iter().map(|trans| exit(13, trans, [2, 0, 0], [2, 2, 1])));
    all
}

/// A wrong call gets a diagnostic for the schedule, a Rust type without such a value, or a typed error before
/// anything is launched. Nothing is written.
#[test]
fn netlib_error_exits() {
    let exits = exits();
    assert_eq!(exits.len(), 28);
    for exit in &exits {
        let answer = answer(exit);
        let expected = match exit.info {
            1 => "a diagnostic on layout",
            2 => "a diagnostic on layout",
            3..=5 => "no such extent",
            8 => "lda = 1 is too small: A is ",
            10 => "ldb = 1 is too small: B is ",
            _ => "ldd = 1 is too small: D is ",
        };
        let Exit { info, trans, extents, ld } = exit;
        assert!(answer.starts_with(expected), "INFO = {info}, {trans:?}, {extents:?}, {ld:?}: {answer}");
    }
}

fn answer(exit: &Exit) -> String {
    let layout = |trans: char| match trans {
        'N' => "col".to_string(),
        'T' => "row".to_string(),
        other => other.to_string(),
    };
    let [a, b] = exit.trans.map(layout);
    let clauses =
        format!("{DIRECT} layout(a = {a}, b = {b}, d = col); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);");
    let kernel: Gemm = match clauses.parse() {
        Ok(kernel) => kernel,
        Err(errors) => {
            let clauses: Vec<&str> = errors.errors().map(|error| error.clause.as_str()).collect();
            return format!("a diagnostic on {}", clauses.join(", "));
        }
    };
    let extents = exit.extents.map(usize::try_from);
    let [Ok(m), Ok(n), Ok(k)] = extents else {
        // A program cannot express it either: ui/extent_negative.rs.
        return "no such extent".into();
    };
    let layout = |trans| if trans == 'N' { Layout::Col } else { Layout::Row };
    let shape = |rows, cols, layout, ld| Shape { ld, ..Shape::packed(rows, cols, layout) };
    let (a, b) = ([1.0f32; 8], [1.0f32; 8]);
    let mut c = [7.0f32; 8];
    let a = MatrixRef::in_shape(&a, shape(m, k, layout(exit.trans[0]), exit.ld[0]));
    let b = MatrixRef::in_shape(&b, shape(k, n, layout(exit.trans[1]), exit.ld[1]));
    let mut view = MatrixMut::in_shape(&mut c, shape(m, n, Layout::Col, exit.ld[2]));
    let gemm = kernel.on(&Device::interpreter()).unwrap();
    let result = gemm.set("alpha", 1.0).set("beta", 1.0).accumulate_into(&a, &b, &mut view);
    assert_eq!(c, [7.0; 8], "C was written");
    match result {
        Err(Error::Argument(error @ ArgumentError::LeadingDimension { .. })) => error.to_string(),
        other => format!("{other:?}"),
    }
}

/// M, N and K; leading dimensions are the smallest possible.
type Extents = [usize; 3];

/// The sizes of rocBLAS's suites that are small enough for every kind of kernel and every pair of scalars.
fn small_sizes() -> Vec<Extents> {
    let mut sizes = vec![[0, 5, 7], [5, 0, 7], [5, 7, 0], [13, 12, 11], [15, 16, 17]];
    sizes.extend((1..=20).map(|n| [n, n, n]));
    sizes.extend((24..=72).step_by(8).map(|n| [n, n, n]));
    sizes
}

const MEDIUM: [usize; 3] = [127, 128, 129];
const DEPTHS: [usize; 3] = [63, 64, 65];

/// Larger sizes: each runs on one kind of kernel, with one pair of scalars.
const LARGE: [Extents; 6] =
    [[191, 193, 194], [500, 501, 502], [639, 640, 347], [375, 4309, 375], [4011, 4012, 103], [24_000, 256, 256]];

/// rocBLAS's pairs of alpha and beta.
const SCALARS: [(f64, f64); 5] = [(5.0, 0.0), (0.0, 3.0), (1.0, 3.0), (1.0, 1.0), (1.0, 0.0)];

/// All four pairs of layouts for A and B, and both for C and D.
fn layouts(turn: usize) -> [Layout; 4] {
    let layout = |bit: usize| if turn >> bit & 1 == 0 { Layout::Row } else { Layout::Col };
    [layout(0), layout(1), layout(2), layout(2)]
}

#[track_caller]
fn right(gemm: &CompiledGemm, request: &Request) {
    let outcome = check(gemm, request).unwrap_or_else(|e| panic!("{request:?}: {e}"));
    assert!(outcome.is_right(), "{:?}: {request:?}: {outcome}", gemm.interface().entries[0].tile);
}

fn request([m, n, k]: Extents, (alpha, beta): (f64, f64), data: Data) -> Request {
    Request { data, seed: (m * 31 + n * 7 + k) as u64, ..Request::random(m, n, k) }
        .set("alpha", alpha)
        .set("beta", beta)
}

#[test]
fn rocblas_small_sizes_with_every_pair_of_scalars() {
    let (part, device) = (Part::of_this_run(), Device::interpreter());
    for (index, kind) in KINDS.into_iter().chain(NARROW_KINDS).chain(TENSOR_KINDS).enumerate() {
        let mut turn = 0;
        for size in small_sizes() {
            for scalars in SCALARS {
                turn += 1;
                if !part.has(turn + index) {
                    continue;
                }
                let gemm = gemm(kind, layouts(turn), &device);
                let data = if turn % 3 == 0 { Data::Random } else { Data::Exact };
                let output = if turn % 2 == 0 { Output::InPlace } else { Output::Apart };
                right(&gemm, &Request { output, ..request(size, scalars, data) });
            }
        }
    }
}

#[test]
fn rocblas_skewed_leading_dimensions() {
    let leading = Leading { a: Some(17), b: Some(18), c: Some(19), d: Some(19) };
    for kind in KINDS.into_iter().chain(NARROW_KINDS).chain(TENSOR_KINDS) {
        let gemm = gemm(kind, [Layout::Col; 4], &Device::interpreter());
        for scalars in SCALARS {
            right(&gemm, &Request { leading, ..request([7, 9, 15], scalars, Data::Random) });
        }
    }
}

#[test]
fn rocblas_sizes_around_a_tile() {
    let (part, device) = (Part::of_this_run(), Device::interpreter());
    let (mut turn, mut extents) = (0, 0);
    for m in MEDIUM {
        for n in MEDIUM {
            for k in DEPTHS {
                extents += 1;
                for (index, kind) in KINDS.into_iter().chain(NARROW_KINDS).chain(TENSOR_KINDS).enumerate() {
                    turn += 1;
                    // Every kind has its turn with other extents, in every part.
                    if !part.has(extents + index) {
                        continue;
                    }
                    let gemm = gemm(kind, layouts(turn), &device);
                    right(&gemm, &request([m, n, k], SCALARS[turn % SCALARS.len()], Data::Exact));
                }
            }
        }
    }
}

#[test]
fn rocblas_large_sizes() {
    let (part, device) = (Part::of_this_run(), Device::interpreter());
    for (turn, size) in LARGE.into_iter().enumerate() {
        // The first two are the smallest, and show most.
        if turn > 1 && !part.has(turn) {
            continue;
        }
        // The largest three are too slow for the kind that reads every operand from global memory.
        let kind = KINDS[if turn < 3 { turn } else { 1 + turn % 2 }];
        right(&gemm(kind, layouts(turn), &device), &request(size, SCALARS[turn % SCALARS.len()], Data::Random));
    }
}

/// Elements of A and B more than 2^31 elements after the first one. The pages between their rows are never accessed.
#[test]
fn offsets_beyond_two_to_the_31() {
    const LD: usize = 1 << 25;
    let (m, n, k) = (66, 5, 9);
    let len = (m - 1) * LD + k;
    let mut far = Vec::<f32>::new();
    if far.try_reserve_exact(len).is_err() {
        println!("there are no {} bytes of address space: skipped", 4 * len);
        return;
    }
    // Zeroed by the system, page by page on first access.
    drop(far);
    let mut far = vec![0f32; len];
    let near = Matrix::<f32>::random(k, n, 2);
    let mut packed = Matrix::<f32>::random(m, k, 1);
    for row in 0..m {
        far[row * LD..][..k].copy_from_slice(&packed.as_slice()[row * k..][..k]);
    }
    let device = Device::interpreter();
    for kind in KINDS {
        let gemm = gemm(kind, [Layout::Row; 4], &device);
        let multiply =
            |a: &MatrixRef<f32>, b: &Matrix<f32>| gemm.set("alpha", 1.0).set("beta", 0.0).multiply_as::<f32>(a, b);
        let expected = multiply(&MatrixRef::new(packed.as_mut_slice(), m, k), &near).unwrap();
        let found = multiply(&MatrixRef::new(&far, m, k).ld(LD), &near).unwrap();
        assert_eq!(found, expected, "{kind}");
    }
}

/// The same bits, in every run and from any number of threads.
#[test]
fn results_are_repeatable() {
    let device = Device::interpreter();
    for kind in KINDS {
        let gemm = gemm(kind, [Layout::Row; 4], &device);
        let (a, b) = (Matrix::<f32>::random(150, 70, 1), Matrix::<f32>::random(70, 140, 2));
        let multiply = || gemm.set("alpha", 0.7).set("beta", 0.0).multiply_as::<f32>(&a, &b).unwrap();
        let first = multiply();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| assert_eq!(multiply(), first));
            }
        });
    }
}
