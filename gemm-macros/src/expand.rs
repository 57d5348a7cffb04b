//! The expansion of a macro call.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream};
use ptx_gemm_choose::{fill, names_known_gpu};
use ptx_gemm_dsl::open::Filled;
use ptx_gemm_dsl::table::find;
use ptx_gemm_dsl::token::{Token, TokenKind};
use ptx_gemm_dsl::tokens::{self, Knowledge, Reading};
use ptx_gemm_dsl::{Diagnostic, Diagnostics, Severity};
use quote::{quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use crate::chosen::checked;
use crate::convert::Source;
use crate::file::{self, Request};

/// Expands one call.
pub fn expand(input: TokenStream) -> TokenStream {
    let facade = facade();
    match file::request(&input) {
        Some(Request::File(path)) => return file::expand(&facade, &path, &stub(&facade, Knowledge::Complete)),
        Some(Request::Wrong(error)) => {
            let (error, stub) = (error.to_compile_error(), stub(&facade, Knowledge::Complete));
            return quote!({ #error; #stub });
        }
        None => {}
    }
    let source = match Source::new(input) {
        Ok(source) => source,
        Err((diagnostic, span)) => {
            let error = compile_error(&diagnostic, (span, span));
            let stub = stub(&facade, Knowledge::Complete);
            return quote!({ #error #stub });
        }
    };
    let mut reading = tokens::read(&source.tokens);
    if let Err(unknown) = names_known_gpu(&reading.schedule) {
        reading.errors = Diagnostics::new(reading.errors.iter().cloned().chain([*unknown]).collect());
    }
    if let (Some(first), true) = (reading.open.first(), reading.errors.errors().next().is_none()) {
        return filled(&facade, &source, &reading, *first);
    }
    let mentions = mentions(&facade, &source, &reading, None);
    let expressions = Expressions::read(&source, &reading);
    let told = reading.errors.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).map(|diagnostic| {
        let call = Span::call_site();
        compile_error(diagnostic, diagnostic.span.map_or((call, call), |span| source.ends(span)))
    });
    let errors: TokenStream = told.chain(expressions.errors()).collect();
    let value = if !errors.is_empty() {
        let stub = stub(&facade, reading.knowledge);
        quote!(#errors #stub)
    } else if reading.knowledge == Knowledge::Complete {
        checked(&facade, &reading.schedule)
    } else {
        constructed(&facade, &source, &reading, &expressions)
    };
    quote!({ #mentions #value })
}

/// The path of the facade in the user's crate.
fn facade() -> TokenStream {
    let name = match crate_name("ptx-gemm") {
        Ok(FoundCrate::Name(name)) => name,
        // Either the facade itself, since its examples refer to it by name, or a crate that got the macro through
        // another one.
        Ok(FoundCrate::Itself) | Err(_) => "ptx_gemm".into(),
    };
    let name = Ident::new(&name, Span::mixed_site());
    quote!(::#name)
}

/// A schedule with open values, which are chosen now.
fn filled(facade: &TokenStream, source: &Source, reading: &Reading, first: ptx_gemm_dsl::Span) -> TokenStream {
    let mut pieces = Pieces::default();
    pieces.list(&own_tokens(source, reading));
    let found = fill(&pieces.text);
    let value = match &found {
        Ok(found) => checked(facade, &found.schedule),
        Err(errors) => {
            let told = errors.errors().map(|error| compile_error(error, source.ends(first)));
            let stub = stub(facade, Knowledge::Complete);
            quote!(#(#told)* #stub)
        }
    };
    let chosen = found.as_ref().ok().and_then(|found| found.schedule.filled());
    let mentions = mentions(facade, source, reading, chosen);
    quote!({ #mentions #value })
}

/// A use of each clause's documented item, at the place where the user wrote the clause. For clauses with chosen values there is an
/// item that says which.
fn mentions(facade: &TokenStream, source: &Source, reading: &Reading, chosen: Option<&Filled>) -> TokenStream {
    let clauses = chosen.map_or(&[][..], |chosen| &chosen.clauses);
    let reason = chosen.map_or_else(String::new, Filled::reason);
    let own = |item: &Ident, chosen: &str, meaning: &str| {
        let text = format!("`{chosen}`, chosen {reason}\n\n{meaning}");
        quote!({ #[doc = #text] #[allow(non_camel_case_types)] struct #item; #item; })
    };
    let items = reading.mentions.iter().map(|(name, span)| {
        let item = Ident::new(name, source.ends(*span).0);
        match clauses.iter().find(|clause| clause.name() == *name) {
            Some(clause) => own(&item, &clause.to_string(), find(name).map_or("", |info| info.meaning)),
            None => quote!({ let _ = #facade::clauses::#item; }),
        }
    });
    let rest = chosen.zip(reading.open_rest).map(|(chosen, span)| {
        let item = Ident::new("schedule", source.ends(span).0);
        own(&item, &chosen.text(), "All clauses that are not written.")
    });
    quote!(const _: () = { #(#items)* #rest };)
}

/// A compiler error that covers everything between two spans.
fn compile_error(diagnostic: &Diagnostic, (first, last): (Span, Span)) -> TokenStream {
    let text = match &diagnostic.help {
        Some(help) => format!("{}\nhelp: {help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    // The compiler underlines from the first to the last token of the call, so these carry the two ends.
    let mut message = Group::new(Delimiter::Brace, quote_spanned!(last=> #text));
    message.set_span(last);
    let mut bang = Punct::new('!', Spacing::Alone);
    bang.set_span(first);
    let path = quote_spanned!(first=> ::core::compile_error);
    quote!(#path #bang #message)
}

/// A value of the right type that is never computed, so that an error causes no further ones.
fn stub(facade: &TokenStream, knowledge: Knowledge) -> TokenStream {
    let gemm = quote!(#facade::Gemm);
    let value = match knowledge {
        Knowledge::Complete => gemm,
        Knowledge::Partial => quote!(::core::result::Result<#gemm, #facade::Diagnostics>),
    };
    quote!((|| -> #value { ::core::unreachable!() })())
}

/// A schedule that is assembled and checked at run time.
fn constructed(facade: &TokenStream, source: &Source, reading: &Reading, expressions: &Expressions) -> TokenStream {
    let mut pieces = Pieces::default();
    pieces.list(&own_tokens(source, reading));
    let pieces = pieces.finish().into_iter().map(|piece| match piece {
        Piece::Text(text) => quote!(#facade::__private::Piece::Text(#text)),
        Piece::Hole(number) => {
            // Errors about the value's type point at the hole.
            let value =
                expressions.holes.iter().find(|(own, _)| *own == number).and_then(|(_, hole)| hole.as_ref().ok());
            let reference = value.map(|value| quote_spanned!(value.span()=> &#value));
            quote!(#facade::__private::Piece::Value(#reference))
        }
    });
    let base = match &expressions.base {
        Some(Ok(base)) => quote_spanned!(base.span()=> &(#base)),
        _ => quote!(&#facade::__private::Schedule::new()),
    };
    let place = quote!(::core::concat!(::core::file!(), ":", ::core::line!(), ":", ::core::column!()));
    quote!(#facade::__private::constructed(&[#(#pieces),*], #base, #place))
}

/// The top-level tokens of the schedule itself: all except the base and the two dots before it.
fn own_tokens<'s>(source: &'s Source, reading: &Reading) -> Vec<&'s Token> {
    let base = reading.base.as_ref().map_or(0..0, |base| base.start - 2..base.end);
    let own = source.tokens.iter().enumerate().filter(|(index, _)| !base.contains(index));
    own.map(|(_, token)| token).collect()
}

/// The Rust expressions of a call, parsed by Rust's grammar.
struct Expressions {
    base: Option<syn::Result<Expr>>,
    /// Holes outside the base, with their numbers.
    holes: Vec<(u32, syn::Result<Expr>)>,
}

impl Expressions {
    fn read(source: &Source, reading: &Reading) -> Expressions {
        let mut numbers = Vec::new();
        own_tokens(source, reading).into_iter().for_each(|token| holes(token, &mut numbers));
        Expressions {
            base: reading.base.clone().map(|range| source.base(range)),
            holes: numbers.into_iter().map(|number| (number, source.hole(number))).collect(),
        }
    }

    /// Holes that are not expressions, each as a compiler error at its own place.
    fn errors(&self) -> impl Iterator<Item = TokenStream> {
        let all = self.base.iter().chain(self.holes.iter().map(|(_, hole)| hole));
        all.filter_map(|expression| expression.as_ref().err().map(syn::Error::to_compile_error))
    }
}

/// Collects the numbers of the holes in a token.
fn holes(token: &Token, numbers: &mut Vec<u32>) {
    match &token.kind {
        TokenKind::Hole(number) => numbers.push(*number),
        TokenKind::Group(_, inner) => inner.iter().for_each(|token| holes(token, numbers)),
        _ => {}
    }
}

enum Piece {
    Text(String),
    Hole(u32),
}

/// Writes tokens as schedule text, cut at the holes.
#[derive(Default)]
struct Pieces {
    done: Vec<Piece>,
    text: String,
}

impl Pieces {
    fn list(&mut self, tokens: &[&Token]) {
        let (mut tight, mut bars, mut named) = (true, 0, false);
        for token in tokens {
            bars += usize::from(token.is_punct('|'));
            // The second bar of an epilogue follows its names, and a space follows it.
            let closes = token.is_punct('|') && bars == 2;
            // So do arguments and an index; other parentheses are operands.
            let attached = named && matches!(token.kind, TokenKind::Group(..));
            let glued = matches!(token.kind, TokenKind::Punct(',' | ';')) || attached || closes;
            named = token.ident().is_some();
            if !tight && !glued {
                self.text.push(' ');
            }
            tight = self.token(token) && !closes;
        }
    }

    /// Writes one token; true if the next one follows without a space.
    fn token(&mut self, token: &Token) -> bool {
        match &token.kind {
            TokenKind::Ident(text) | TokenKind::Number(text) | TokenKind::Other(text) => self.text.push_str(text),
            TokenKind::Punct(';') => {
                self.text.push_str(";\n");
                return true;
            }
            TokenKind::Punct(c) => {
                self.text.push(*c);
                // Two-character operators and the bars of an epilogue read back correctly with any spacing.
                return matches!(c, '<' | '>' | '=' | '.' | '|');
            }
            TokenKind::Group(delimiter, inner) => {
                let (open, close) = delimiter.characters();
                self.text.push(open);
                self.list(&inner.iter().collect::<Vec<_>>());
                self.text.push(close);
            }
            TokenKind::Hole(number) => {
                self.done.push(Piece::Text(std::mem::take(&mut self.text)));
                self.done.push(Piece::Hole(*number));
            }
        }
        false
    }

    fn finish(mut self) -> Vec<Piece> {
        self.done.push(Piece::Text(self.text));
        self.done
    }
}
