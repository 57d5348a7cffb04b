//! `gemm!`: a schedule, checked while the crate compiles.
//!
//! Thin on purpose. Rust tokens become the tokens of `ptx-gemm-dsl` ([`convert`]), which reads and checks them; this
//! crate writes down the result ([`expand`]): a checked schedule, or one error per diagnostic at the clause that it is
//! about. No file is read but the user's manifest, for the name that the facade has there, and the one that
//! `gemm!(file "x.gemm")` names ([`file`]).

mod convert;
mod expand;
mod file;

use proc_macro::TokenStream;

/// A GEMM schedule, checked while the crate compiles.
///
/// `gemm!{ … }`, `gemm!( … )` and `gemm!(< … >)` are the same; all expand to a `ptx_gemm::Gemm`.
///
/// With holes, `tile({BM}, {BN}, 8)`, or a base, `..base; stages(3);`, part of the schedule is known only at run time:
/// the macro checks the rest, and its value is a `Result<Gemm, Diagnostics>`. A hole stands where an integer, a literal,
/// a type, a layout or a target stands; a base is a `Gemm`, a `Schedule`, or a reference to one, and the clauses beside it
/// take the place of its clauses of the same kind.
///
/// `gemm!(file "x.gemm")` is the schedule of a file. The path is relative to the source file that the macro is in, as that of
/// `include_str!`. Errors name the line and the column in the `.gemm` file, and the crate is built again when it changes.
#[proc_macro]
pub fn gemm(input: TokenStream) -> TokenStream {
    expand::expand(input.into()).into()
}
