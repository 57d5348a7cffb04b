//! OpenBLAS, if this machine has it: the library is loaded at run time.
#![allow(unsafe_code)] // A function of another language.

use std::ffi::c_int;

/// `cblas_sgemm` (BLAS Technical Forum, "C interface to the legacy BLAS").
type Sgemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    f32,
    *mut f32,
    c_int,
);

/// `openblas_set_num_threads` and `openblas_get_num_threads` (OpenBLAS's cblas.h).
type SetThreads = unsafe extern "C" fn(c_int);
type GetThreads = unsafe extern "C" fn() -> c_int;

/// The library, and the function that is used.
pub(super) struct Library {
    sgemm: Sgemm,
    /// Its number of threads, if it reports one.
    pub(super) threads: Option<usize>,
    /// Keeps the function loaded.
    _library: libloading::Library,
}

const NAMES: [&str; 4] = ["libopenblas.so.0", "libopenblas.so", "libopenblas.dylib", "libopenblas.dll"];
const ROW_MAJOR: c_int = 101;
const AS_IT_IS: c_int = 111;

impl Library {
    /// Loads the first of its usual names that is found, and gives it the same number of threads as the ladder's own steps:
    /// by default it may take fewer, where a container hides processors.
    pub(super) fn find(threads: usize) -> Option<Library> {
        NAMES.into_iter().find_map(|name| {
            // SAFETY: loading OpenBLAS runs its initialisation, which requires nothing.
            let library = unsafe { libloading::Library::new(name) }.ok()?;
            // SAFETY: the type is that of the function in the standard.
            let sgemm = unsafe { library.get::<Sgemm>(b"cblas_sgemm\0") }.ok().map(|sgemm| *sgemm)?;
            // SAFETY: the types are those of the header.
            let (set, get) = unsafe {
                (
                    library.get::<SetThreads>(b"openblas_set_num_threads\0").ok().map(|set| *set),
                    library.get::<GetThreads>(b"openblas_get_num_threads\0").ok().map(|get| *get),
                )
            };
            if let (Some(set), Ok(threads)) = (set, c_int::try_from(threads)) {
                // SAFETY: any number will do; the library takes at most what it was built for.
                unsafe { set(threads) };
            }
            // SAFETY: no preconditions.
            let threads = get.and_then(|get| usize::try_from(unsafe { get() }).ok());
            Some(Library { sgemm, threads, _library: library })
        })
    }

    /// C = A B, n x n, row major.
    pub(super) fn multiply(&self, n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
        let Ok(extent) = c_int::try_from(n) else { return };
        assert!(a.len() >= n * n && b.len() >= n * n && c.len() >= n * n);
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        // SAFETY: each slice has n * n elements, as the line above checks.
        unsafe {
            (self.sgemm)(
                ROW_MAJOR, AS_IT_IS, AS_IT_IS, extent, extent, extent, 1.0, a, extent, b, extent, 0.0, c, extent,
            );
        }
    }
}
