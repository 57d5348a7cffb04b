//! `gemm!`: a schedule, checked while the crate compiles.
//!
//! This crate is thin on purpose. Rust tokens become tokens of `ptx-gemm-dsl` ([`convert`]), which reads and checks
//! them. This crate expands to the result ([`expand`]): a checked schedule, or one error per diagnostic at its clause.
//! It reads only two kinds of files: the user's manifest, for the name of the facade, and the file that `gemm!(file
//! "x.gemm")` names ([`file`]).

mod chosen;
mod convert;
mod expand;
mod file;
mod fragments;

use proc_macro::TokenStream;

/// A GEMM schedule, checked while the crate compiles.
///
/// `gemm!{ … }`, `gemm!( … )` and `gemm!(< … >)` are the same; all expand to a `ptx_gemm::Gemm`.
///
/// With holes, `tile({BM}, {BN}, 8)`, or a base, `..base; stages(3);`, part of the schedule is known only at run time.
/// The macro checks the rest, and its value is a `Result<Gemm, Diagnostics>`. A hole may replace an integer, a literal,
/// or a word, as a value of its type: a `DType`, a `Layout`, a `Target`, or one of the types in `ptx_gemm::builder`. A
/// base is a `Gemm`, a `Schedule`, or a reference to one; the clauses that follow it replace its clauses of the same
/// kind.
///
/// A fragment of a `macro_rules!`, such as `$e:expr`, binds as a unit: with `1 + 2`, `acc * $e` is `acc * (1 + 2)`.
///
/// `gemm!(file "x.gemm")` reads the schedule from a file. The path is relative to the source file that contains the
/// macro call, as for `include_str!`. Errors name the line and the column in the `.gemm` file, and the crate is rebuilt
/// when the file changes.
#[proc_macro]
pub fn gemm(input: TokenStream) -> TokenStream {
    expand::expand(input.into()).into()
}
