//! Modules with entries that differ in more than access widths: which entry a launch uses, and its arguments.

use std::sync::Arc;

use ptx_gemm_codegen::tile;
use ptx_gemm_codegen::tile::interface::{Extents, Launched};
use ptx_gemm_dsl::{Layout, Schedule};

use crate::compiled::{CompiledGemm, Run};
use crate::device::Device;
use crate::error::{ArgumentError, Error};
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::prepared::ResidentCall;
use crate::shape::Shape;
use crate::view::{MatrixMut, MatrixRef};

fn kernel(clauses: &str) -> Arc<Kernel> {
    let schedule: Schedule = clauses.parse().unwrap();
    Kernel::compile(&schedule, None).unwrap()
}

/// One module with chosen entries of several schedules, in this order, under new names.
fn module(entries: &[(&str, &str, &str)]) -> CompiledGemm {
    let first = kernel(entries[0].1);
    let mut programs = tile::Module { entries: Vec::new(), ..first.programs().clone() };
    for (name, clauses, entry) in entries {
        let kernel = kernel(clauses);
        let mut program = kernel.programs().entries.iter().find(|program| program.name == *entry).unwrap().clone();
        program.name = (*name).into();
        programs.entries.push(program);
    }
    let kernel = Kernel::of_programs(&format!("{entries:?}"), &programs);
    CompiledGemm::from_kernel(kernel, &Device::interpreter()).unwrap()
}

fn multiply(gemm: &CompiledGemm, m: usize, n: usize, k: usize) -> Result<Run, Error> {
    let (a, b) = (Matrix::from_fn(m, k, |i, j| (i + j) as f32), Matrix::from_fn(k, n, |i, j| (2 * i + j) as f32));
    let mut d = Matrix::<f32>::zeros(m, n);
    let run = gemm.multiply_into(&a, &b, &mut d)?;
    let sum = |i, j| (0..k).map(|l| ((i + l) * (2 * l + j)) as f32).sum::<f32>();
    assert_eq!(d, Matrix::from_fn(m, n, sum), "{run:?}");
    Ok(run)
}

#[track_caller]
fn runs(gemm: &CompiledGemm, (m, n, k): (usize, usize, usize), entry: &str, notes: &[&str]) {
    let run = multiply(gemm, m, n, k).unwrap();
    assert_eq!(run.entry.as_deref(), Some(entry), "{run:?}");
    assert_eq!(run.notes, notes);
}

const WIDE: &str = "tile(32, 32, 8); thread(4, 4); vector(4); tail(none);";
const NARROW: &str = "tile(8, 16, 4); thread(2, 2);";

/// The entries differ in tiles, threads and shared memory, and only one of them has a workspace and a wave.
#[test]
fn each_entry_is_launched_as_its_own_program_says() {
    let split = "tile(16, 16, 8); thread(2, 4); split_k(3); vector(2);";
    let wave = "tile(16, 8, 8); thread(2, 2); persistent(2); double_buffer; vector(1);";
    let gemm = module(&[("whole", WIDE, "gemm_v4"), ("split", split, "gemm_v2"), ("wave", wave, "gemm_v1")]);
    runs(&gemm, (64, 32, 24), "whole", &[]);
    runs(&gemm, (33, 36, 20), "split", &["M = 33 is not a multiple of 32: running the `split` entry"]);
    let odd = "ldb = 35 is not a multiple of 2";
    let run = multiply(&gemm, 33, 35, 20).unwrap();
    assert_eq!((run.entry.as_deref(), run.blocks), (Some("wave"), 2));
    assert!(run.notes.contains(&odd.to_string()), "{:?}", run.notes);
    assert!(run.notes.last().is_some_and(|note| note.ends_with(": running the scalar entry")), "{:?}", run.notes);
    let threads: Vec<u32> = gemm.interface().launches().map(|launch| launch.threads).collect();
    assert_eq!(threads, [64, 32, 32]);
    // A caller's workspace has to suffice for every entry.
    let extents = Extents { m: 40, n: 40, k: 8, batch: 1 };
    let split = &gemm.interface().entries[1];
    let launched = Launched { extents, blocks: 27, packed: &|_| true };
    assert_eq!(gemm.workspace_bytes(40, 40, 8, 1), split.workspace_bytes(launched));
    assert!(gemm.workspace_bytes(40, 40, 8, 1) > 0 && gemm.interface().entries[0].workspace.is_none());
}

#[test]
fn without_guards_divisibility_is_a_requirement() {
    let gemm = module(&[("whole", WIDE, "gemm_v4"), ("any", NARROW, "gemm_v1")]);
    runs(&gemm, (32, 64, 8), "whole", &[]);
    runs(&gemm, (32, 64, 4), "any", &["K = 4 is not a multiple of 8: running the scalar entry"]);
    // If every entry requires multiples, the error names those of the last one.
    let small = format!("{NARROW} tail(none);");
    let gemm = module(&[("whole", WIDE, "gemm_v4"), ("small", &small, "gemm_v1")]);
    runs(&gemm, (8, 32, 4), "small", &["M = 8 is not a multiple of 32: running the scalar entry"]);
    let error = multiply(&gemm, 12, 32, 8).unwrap_err().to_string();
    assert_eq!(
        error,
        "M = 12 is not a multiple of 8, and the schedule says tail(none); tail(predicate) takes any size"
    );
}

#[test]
fn operands_that_no_entry_takes_are_refused_with_every_reason() {
    let gemm = module(&[("whole", WIDE, "gemm_v4"), ("pairs", "tile(16, 16, 8); thread(2, 4); vector(2);", "gemm_v2")]);
    runs(&gemm, (33, 36, 20), "pairs", &["M = 33 is not a multiple of 32: running the `pairs` entry"]);
    let error = multiply(&gemm, 32, 33, 6).unwrap_err();
    let Error::Argument(ArgumentError::NoEntry { entries }) = &error else { panic!("{error:?}") };
    assert_eq!(entries.len(), 2);
    let words = "no entry suits these operands: `whole`: lda = 6 is not a multiple of 4, ldb = 33 is not a multiple of \
                 4, ldd = 33 is not a multiple of 4, N = 33 is not a multiple of 32; `pairs`: ldb = 33 is not a multiple \
                 of 2, ldd = 33 is not a multiple of 2";
    assert_eq!(error.to_string(), words);
}

/// TMA writes units of 16 bytes: it would overwrite the bytes after a row that ends within a unit.
#[test]
fn tma_stores_whole_rows_alone() {
    let row_major =
        "tile(32, 32, 8); thread(4, 4); target(sm_90); load(tma); layout(a = col); shared(a = km); store(tma);";
    let column_major = row_major.replace("layout(a = col", "layout(a = col, d = col");
    for (clauses, along_n) in [(row_major, true), (&column_major, false)] {
        let gemm = CompiledGemm::from_kernel(kernel(clauses), &Device::interpreter()).unwrap();
        for extent in 33..=40 {
            let (m, n) = if along_n { (36, extent) } else { (extent, 36) };
            // Rows of every matrix begin at multiples of 16 bytes.
            let ld = |run: usize| run.next_multiple_of(4) + 4;
            let ones = |rows, cols, layout| {
                let shape = Shape::packed(rows, cols, layout);
                let shape = Shape { ld: ld(shape.run()), ..shape };
                (shape, vec![1.0f32; shape.len().unwrap()])
            };
            let ((a_shape, a), (b_shape, b)) = (ones(m, 20, Layout::Col), ones(20, n, Layout::Row));
            let layout = if along_n { Layout::Row } else { Layout::Col };
            let (shape, mut d) = ones(m, n, layout);
            let (a, b) = (MatrixRef::in_shape(&a, a_shape), MatrixRef::in_shape(&b, b_shape));
            let run = gemm.multiply_into(&a, &b, &mut MatrixMut::in_shape(&mut d, shape)).unwrap();
            let by_tma = run.entry.as_deref() == Some(gemm.interface().entries[0].name.as_str());
            assert_eq!(by_tma, extent % 4 == 0, "{extent}: {run:?}");
            let note =
                format!("D has {extent} contiguous elements, not a multiple of 4, and TMA would write past them");
            assert!(by_tma || run.notes.iter().any(|text| text.starts_with(&note)), "{run:?}");
            let inside = |index: usize| index % shape.ld < extent;
            assert!(d.iter().enumerate().all(|(index, x)| *x == if inside(index) { 20.0 } else { 1.0 }), "{extent}");
        }
    }
}

/// A launch from device memory, as given to a queue.
#[test]
fn a_prepared_launch_is_of_the_entry_that_was_picked() {
    let gemm = module(&[("whole", WIDE, "gemm_v4"), ("any", NARROW, "gemm_v1")]);
    let ones = |rows, cols| gemm.device().upload(&Matrix::<f32>::from_fn(rows, cols, |_, _| 1.0)).unwrap();
    for (m, blocks) in [(32, 2), (40, 20)] {
        let (a, b, d) = (ones(m, 8), ones(8, 64), ones(m, 64));
        let prepared =
            gemm.prepare_resident(&ResidentCall { a: &a, b: &b, c: None, d: &d, vectors: &[], scalars: &[] }).unwrap();
        assert_eq!(prepared.blocks(), blocks);
    }
}
