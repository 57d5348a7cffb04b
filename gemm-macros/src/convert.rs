//! Converts Rust tokens to tokens of the language, and keeps the compiler's spans with them.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use ptx_gemm_dsl::token::{self, MAX_DEPTH, Token, TokenKind};
use ptx_gemm_dsl::{Diagnostic, tokens};
use syn::parse::{ParseStream, Parser};
use syn::token::Paren;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprParen, Macro, Type, TypeParen};

use crate::fragments;

/// The tokens of a schedule, in both forms.
#[derive(Default)]
pub struct Source {
    /// The tokens for the grammar. A token's span is a range of indices into `spans`.
    pub tokens: Vec<Token>,
    /// The input of the macro, with the invisible groups of its fragments.
    input: Vec<TokenTree>,
    /// For each top-level token, the index of the input token that contains it.
    origins: Vec<usize>,
    /// The holes by number, including their braces.
    holes: Vec<Group>,
    /// The compiler's spans: one for each token, two for a group.
    spans: Vec<Span>,
}

impl Source {
    /// Converts the input of the macro; fails if brackets are nested too deep.
    pub fn new(input: TokenStream) -> Result<Source, (Box<Diagnostic>, Span)> {
        let mut source = Source { input: fragments::items(input), ..Source::default() };
        let (origins, trees) = fragments::visible(source.input.clone()).into_iter().unzip();
        source.origins = origins;
        source.tokens = source.level(trees, 0)?;
        Ok(source)
    }

    /// The value of a hole: a Rust block.
    pub fn hole(&self, number: u32) -> syn::Result<Expr> {
        let hole = TokenTree::Group(self.holes[number as usize].clone());
        syn::parse2(hole.into()).map(parenthesized)
    }

    /// The schedule to extend: the expression after the two dots, at `range` of the top-level tokens.
    pub fn base(&self, range: Range<usize>) -> syn::Result<Expr> {
        // Includes the invisible groups: an expression that a `macro_rules!` passes on binds as a unit.
        let tokens = &self.input[self.origins[range.start]..=self.origins[range.end - 1]];
        let end = tokens.last().map_or_else(Span::call_site, TokenTree::span);
        // In parentheses, so that an incomplete expression is reported at its last token.
        let mut group = Group::new(Delimiter::Parenthesis, tokens.iter().cloned().collect());
        group.set_span(end);
        let expression = |input: ParseStream| {
            let inner;
            syn::parenthesized!(inner in input);
            let expression = inner.parse()?;
            if inner.is_empty() { Ok(expression) } else { Err(inner.error("expected `;`")) }
        };
        expression.parse2(TokenTree::Group(group).into()).map(parenthesized)
    }

    /// The compiler's spans of the first and the last token of `span`.
    pub fn ends(&self, span: ptx_gemm_dsl::Span) -> (Span, Span) {
        let at = |index: u32| self.spans.get(index as usize).copied().unwrap_or_else(Span::call_site);
        (at(span.start), at(span.end.saturating_sub(1)))
    }

    fn level(&mut self, trees: Vec<TokenTree>, depth: u32) -> Result<Vec<Token>, (Box<Diagnostic>, Span)> {
        let mut tokens: Vec<Token> = Vec::with_capacity(trees.len());
        let mut trees = trees.into_iter().peekable();
        while let Some(tree) = trees.next() {
            let start = self.record(tree.span());
            let kind = match tree {
                TokenTree::Ident(ident) => TokenKind::Ident(ident.to_string()),
                TokenTree::Punct(punct) => {
                    // `.5` is two Rust tokens. A base may have a field `.0`, but only at the top level, where there are
                    // no numbers.
                    let point = punct.as_char() == '.' && !tokens.last().is_some_and(|last| last.is_punct('.'));
                    if let Some(digits) = trees.next_if(|next| point && depth > 0 && is_number(next)) {
                        let end = self.record(digits.span());
                        tokens.push(Token { kind: TokenKind::Number(format!(".{digits}")), span: start.to(end) });
                        continue;
                    }
                    TokenKind::Punct(punct.as_char())
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if is_number(&literal.into()) { TokenKind::Number(text) } else { TokenKind::Other(text) }
                }
                TokenTree::Group(group) => {
                    // The braces of `expect { .. }` belong to the language; all others hold a value.
                    let contracts = depth == 0 && tokens.last().is_some_and(|last| last.ident() == Some("expect"));
                    let (kind, span) = self.group(&group, start, depth, contracts)?;
                    tokens.push(Token { kind, span });
                    continue;
                }
            };
            tokens.push(Token { kind, span: start });
        }
        Ok(tokens)
    }

    fn group(
        &mut self,
        group: &Group,
        start: ptx_gemm_dsl::Span,
        depth: u32,
        contracts: bool,
    ) -> Result<(TokenKind, ptx_gemm_dsl::Span), (Box<Diagnostic>, Span)> {
        if depth >= MAX_DEPTH {
            return Err((tokens::too_deep(start), group.span_open()));
        }
        if group.delimiter() == Delimiter::Brace && !contracts {
            if deeper(group.stream(), MAX_DEPTH - depth) {
                return Err((tokens::too_deep(start), group.span_open()));
            }
            let number = self.holes.len() as u32;
            self.holes.push(group.clone());
            return Ok((TokenKind::Hole(number), start));
        }
        let delimiter = match group.delimiter() {
            Delimiter::Brace => token::Delimiter::Brace,
            Delimiter::Bracket => token::Delimiter::Bracket,
            // Remaining invisible groups: see [`fragments`].
            Delimiter::Parenthesis | Delimiter::None => token::Delimiter::Paren,
        };
        self.spans[start.start as usize] = group.span_open();
        let inner = fragments::visible(group.stream().into_iter().collect());
        let inner = self.level(inner.into_iter().map(|(_, tree)| tree).collect(), depth + 1)?;
        let close = self.record(group.span_close());
        Ok((TokenKind::Group(delimiter, inner), start.to(close)))
    }

    fn record(&mut self, span: Span) -> ptx_gemm_dsl::Span {
        self.spans.push(span);
        ptx_gemm_dsl::Span::token(self.spans.len() as u32 - 1)
    }
}

fn is_number(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Literal(literal) if literal.to_string().starts_with(|c: char| c.is_ascii_digit()))
}

/// True if groups are nested more than `limit` deep. Rust's grammar is parsed recursively, so the depth must be
/// bounded.
fn deeper(stream: TokenStream, limit: u32) -> bool {
    let mut streams = vec![(stream, 0)];
    while let Some((stream, depth)) = streams.pop() {
        if depth >= limit {
            return true;
        }
        for tree in stream {
            if let TokenTree::Group(group) = tree {
                streams.push((group.stream(), depth + 1));
            }
        }
    }
    false
}

/// The same expression with parentheses for invisible groups, which the compiler ignores in the output of a macro.
fn parenthesized(mut expression: Expr) -> Expr {
    Parenthesize.visit_expr_mut(&mut expression);
    expression
}

struct Parenthesize;

impl VisitMut for Parenthesize {
    /// Handles the arguments of another macro, which the compiler leaves as they are.
    fn visit_macro_mut(&mut self, macro_: &mut Macro) {
        macro_.tokens = fragments::arguments(std::mem::take(&mut macro_.tokens));
    }

    fn visit_type_mut(&mut self, ty: &mut Type) {
        visit_mut::visit_type_mut(self, ty);
        if let Type::Group(group) = ty {
            let elem = std::mem::replace(&mut *group.elem, Type::Verbatim(TokenStream::new()));
            *ty =
                Type::Paren(TypeParen { attrs: Vec::new(), paren_token: Paren(Span::mixed_site()), elem: elem.into() });
        }
    }

    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        visit_mut::visit_expr_mut(self, expression);
        if let Expr::Group(group) = expression {
            let inner = std::mem::replace(&mut *group.expr, Expr::Verbatim(TokenStream::new()));
            // Parentheses that nobody wrote: no lint should report them as unnecessary.
            let paren_token = Paren(Span::mixed_site());
            *expression = Expr::Paren(ExprParen { attrs: Vec::new(), paren_token, expr: inner.into() });
        }
    }
}
