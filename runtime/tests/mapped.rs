//! A large product with memory-mapped files as matrices: slabs are read from them, and strips of D are written to one.
#![cfg(unix)]
#![allow(unsafe_code)] // Maps files.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use ptx_gemm_dsl::Schedule;
use ptx_gemm_runtime::large::plan::Tuning;
use ptx_gemm_runtime::large::{Arguments, Large};
use ptx_gemm_runtime::{CompiledGemm, Device, Matrix, MatrixMut, MatrixRef};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A file of f32 numbers in memory.
struct Mapped {
    start: *mut f32,
    len: usize,
}

impl Mapped {
    fn new(file: &File, protection: ProtFlags) -> Mapped {
        let bytes = file.metadata().unwrap().len() as usize;
        // SAFETY: a new mapping of a file that only this test uses.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }.unwrap();
        Mapped { start: start.cast(), len: bytes / size_of::<f32>() }
    }

    fn as_slice(&self) -> &[f32] {
        // SAFETY: the mapping has this length, and pages are aligned.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn as_mut_slice(&mut self) -> &mut [f32] {
        // SAFETY: as above; the file that is written is mapped for writing, and once.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        unsafe { munmap(self.start.cast(), self.len * size_of::<f32>()) }.unwrap();
    }
}

/// A file with the elements of a matrix.
fn written(path: &Path, matrix: &Matrix<f32>) -> File {
    fs::write(path, bytemuck::cast_slice(matrix.as_slice())).unwrap();
    File::open(path).unwrap()
}

#[test]
fn files_are_multiplied_into_a_file() {
    let (m, n, k) = (70, 50, 60);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (a, b, c) = (Matrix::random(m, k, 1), Matrix::random(k, n, 2), Matrix::random(m, n, 3));
    let schedule: Schedule = "tile(8, 8, 4); thread(2, 2); epilogue(|acc, c| acc + c);".parse().unwrap();
    let d = OpenOptions::new().read(true).write(true).create_new(true).open(file("d")).unwrap();
    d.set_len((m * n * size_of::<f32>()) as u64).unwrap();

    let read = |name, matrix| Mapped::new(&written(&file(name), matrix), ProtFlags::READ);
    let (mapped_a, mapped_b, mapped_c) = (read("a", &a), read("b", &b), read("c", &c));
    let mut mapped_d = Mapped::new(&d, ProtFlags::READ | ProtFlags::WRITE);
    let devices = [(); 2].map(|()| Device::interpreter_with(Default::default()));
    let tuning = Tuning { depth: Some(16), ring: Some(2), strips: Some(2) };
    let large = Large::new(&schedule).unwrap().devices(&devices).budget(9000).tuning(tuning);
    let c_view = MatrixRef::new(mapped_c.as_slice(), m, n);
    let run = large.run(
        &mut MatrixMut::new(mapped_d.as_mut_slice(), m, n),
        &MatrixRef::new(mapped_a.as_slice(), m, k),
        &MatrixRef::new(mapped_b.as_slice(), k, n),
        &mut Arguments::new().c(&c_view),
    );
    let plan = run.unwrap().plan;
    assert!(plan.geometry.slabs > 1 && plan.geometry.rounds.iter().product::<usize>() > 1, "{plan}");
    drop(mapped_d);

    // The same in memory. Slabs of the same depth give the same bits.
    let mut want = Matrix::zeros(m, n);
    large.run(&mut want, &a, &b, &mut Arguments::new().c(&c)).unwrap();
    let bytes = fs::read(file("d")).unwrap();
    assert_eq!(bytes, bytemuck::cast_slice::<f32, u8>(want.as_slice()));
    let whole: Matrix<f32> = CompiledGemm::new(&schedule, &devices[0]).unwrap().c(&c).multiply(&a, &b).unwrap();
    let near = |(x, y): (&f32, &f32)| (x - y).abs() < 1e-4;
    assert!(whole.as_slice().iter().zip(want.as_slice()).all(near));
}
