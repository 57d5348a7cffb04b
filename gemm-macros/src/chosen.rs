//! The value of a schedule that is known while the crate is compiled.

use proc_macro2::TokenStream;
use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::clause::Clause;
use ptx_gemm_dsl::open::Filled;
use quote::quote;

/// A checked schedule, with the note of what was chosen.
pub fn checked(facade: &TokenStream, schedule: &Schedule) -> TokenStream {
    let text = schedule.to_string();
    let Some(Filled { clauses, size, gpu, ms, why }) = schedule.filled() else {
        return quote!(#facade::__private::checked(#text));
    };
    let names = clauses.iter().map(Clause::name);
    quote!(#facade::__private::chosen(#text, &[#(#names),*], [#size, #gpu, #why], #ms))
}
