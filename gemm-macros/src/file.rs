//! `gemm!(file "x.gemm")`: a schedule from a file, checked while the crate compiles.
//!
//! The path is relative to the source file that contains the macro call, as for `include_str!`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proc_macro2::{Span, TokenStream, TokenTree};
use ptx_gemm_choose::fill;
use ptx_gemm_dsl::{Diagnostics, Severity};
use quote::{quote, quote_spanned};
use syn::LitStr;

use crate::chosen::checked;

/// The argument of the macro.
pub enum Request {
    /// A file.
    File(LitStr),
    /// A call that begins like a file, but is not one.
    Wrong(syn::Error),
}

/// The file of a call, if its tokens begin with `file` and a literal.
pub fn request(input: &TokenStream) -> Option<Request> {
    let mut tokens: Vec<TokenTree> = input.clone().into_iter().collect();
    // gemm!(< file "x.gemm" >) is the same.
    if let (Some(TokenTree::Punct(open)), Some(TokenTree::Punct(close))) = (tokens.first(), tokens.last())
        && (open.as_char(), close.as_char()) == ('<', '>')
    {
        tokens = tokens[1..tokens.len() - 1].to_vec();
    }
    let (TokenTree::Ident(word), path) = (tokens.first()?, tokens.get(1)?) else { return None };
    if word != "file" || matches!(path, TokenTree::Group(group) if group.delimiter() != proc_macro2::Delimiter::None) {
        return None;
    }
    Some(match syn::parse2::<LitStr>(path.clone().into()) {
        Err(_) => Request::Wrong(syn::Error::new(path.span(), "`file` takes a path: gemm!(file \"x.gemm\")")),
        Ok(path) => match &tokens[2..] {
            [] => Request::File(path),
            [TokenTree::Punct(end)] if end.as_char() == ';' => Request::File(path),
            [more, ..] => {
                let message = format!(
                    "nothing follows the file; `..gemm!(file {:?});` in another `gemm!` extends its schedule",
                    path.value()
                );
                Request::Wrong(syn::Error::new(more.span(), message))
            }
        },
    })
}

/// The schedule in the file, or its errors with the file's lines and columns.
pub fn expand(facade: &TokenStream, path: &LitStr, stub: &TokenStream) -> TokenStream {
    let Some(source) = path.span().unwrap().local_file() else {
        // An editor may expand macros without file access: `include_str!` finds the file, and the compiler checks it
        // later.
        return quote!(#facade::__private::checked(::core::include_str!(#path)));
    };
    let shown = source.parent().unwrap_or(Path::new("")).join(path.value());
    let text = match std::fs::read_to_string(&shown) {
        Ok(text) => text,
        Err(error) => {
            let message = missing(path, &shown, &source, &error);
            return complaint(path.span(), &[message], stub);
        }
    };
    // The expansion names the file, so that the crate is rebuilt if the file changes.
    let whole = std::path::absolute(&shown).unwrap_or_else(|_| shown.clone());
    let whole = whole.to_string_lossy();
    let watched = quote!(
        const _: &[u8] = ::core::include_bytes!(#whole);
    );
    // What was filled in has a text of its own, which its errors show.
    let legal = fill(&text).map_err(|errors| (errors, text.clone()));
    let legal = legal.and_then(|filled| match filled.schedule.check() {
        Ok(_) => Ok(filled.schedule),
        Err(errors) => Err((errors, filled.text)),
    });
    match legal {
        Ok(schedule) => {
            let value = checked(facade, &schedule);
            quote!({ #watched #value })
        }
        Err((diagnostics, text)) => {
            let errors = complaint(path.span(), &in_file(&diagnostics, &text, &shown), stub);
            quote!({ #watched #errors })
        }
    }
}

/// Each error with its lines of the file.
fn in_file(diagnostics: &Diagnostics, text: &str, path: &Path) -> Vec<String> {
    let source: Arc<str> = text.into();
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let rendered = errors.map(|error| {
        let one = Diagnostics::new(vec![error.clone()]).in_text(Some(source.clone()));
        let text = one.named(path.to_string_lossy()).to_string();
        text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_string()
    });
    rendered.collect()
}

/// The reason that the file could not be read, and the path that was probably meant.
fn missing(path: &LitStr, tried: &Path, source: &Path, error: &std::io::Error) -> String {
    let message = format!("cannot read `{}`: {error}\nhelp: paths are relative to this source file", tried.display());
    // The path relative to the crate's root, as in a manifest.
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let Some(root) = root.filter(|root| root.join(path.value()).is_file()) else { return message };
    let folder = source.parent().and_then(|folder| std::path::absolute(folder).ok());
    let depth = folder.and_then(|folder| Some(folder.strip_prefix(&root).ok()?.components().count()));
    match depth {
        Some(depth) if depth > 0 => format!("{message}: `{}{}`", "../".repeat(depth), path.value()),
        _ => message,
    }
}

fn complaint(span: Span, messages: &[String], stub: &TokenStream) -> TokenStream {
    let errors = messages.iter().map(|message| quote_spanned!(span=> ::core::compile_error!(#message);));
    quote!({ #(#errors)* #stub })
}
