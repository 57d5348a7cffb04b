//! Rust tokens to the tokens of the language, with the compiler's spans beside them.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use ptx_gemm_dsl::token::{self, MAX_DEPTH, Token, TokenKind};
use ptx_gemm_dsl::{Diagnostic, tokens};

/// The tokens of a schedule.
#[derive(Default)]
pub struct Source {
    /// For the grammar. A token's span counts entries of `spans`.
    pub tokens: Vec<Token>,
    /// The Rust tokens that the top-level tokens were made from, one for one.
    pub trees: Vec<TokenTree>,
    /// The holes by number: an expression in braces.
    pub holes: Vec<Group>,
    /// The compiler's spans: one for each token, two for a group.
    spans: Vec<Span>,
}

impl Source {
    /// Converts the input of the macro; the error is about brackets nested too deep.
    pub fn new(input: TokenStream) -> Result<Source, (Box<Diagnostic>, Span)> {
        let mut source = Source::default();
        flatten(input, &mut source.trees);
        source.tokens = source.level(source.trees.clone(), 0)?;
        Ok(source)
    }

    /// The compiler's spans of the first and the last token of `span`.
    pub fn ends(&self, span: ptx_gemm_dsl::Span) -> (Span, Span) {
        let at = |index: u32| self.spans.get(index as usize).copied().unwrap_or_else(Span::call_site);
        (at(span.start), at(span.end.saturating_sub(1)))
    }

    fn level(&mut self, trees: Vec<TokenTree>, depth: u32) -> Result<Vec<Token>, (Box<Diagnostic>, Span)> {
        let mut tokens: Vec<Token> = Vec::with_capacity(trees.len());
        for tree in trees {
            let start = self.record(tree.span());
            let kind = match tree {
                TokenTree::Ident(ident) => TokenKind::Ident(ident.to_string()),
                TokenTree::Punct(punct) => TokenKind::Punct(punct.as_char()),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if text.starts_with(|c: char| c.is_ascii_digit()) {
                        TokenKind::Number(text)
                    } else {
                        TokenKind::Other(text)
                    }
                }
                TokenTree::Group(group) => {
                    // The braces of `expect { .. }` are the language's; all others hold a value.
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
            let number = self.holes.len() as u32;
            self.holes.push(group.clone());
            return Ok((TokenKind::Hole(number), start));
        }
        let delimiter = match group.delimiter() {
            Delimiter::Brace => token::Delimiter::Brace,
            Delimiter::Bracket => token::Delimiter::Bracket,
            Delimiter::Parenthesis | Delimiter::None => token::Delimiter::Paren,
        };
        self.spans[start.start as usize] = group.span_open();
        let mut inner = Vec::new();
        flatten(group.stream(), &mut inner);
        let inner = self.level(inner, depth + 1)?;
        let close = self.record(group.span_close());
        Ok((TokenKind::Group(delimiter, inner), start.to(close)))
    }

    fn record(&mut self, span: Span) -> ptx_gemm_dsl::Span {
        self.spans.push(span);
        ptx_gemm_dsl::Span::token(self.spans.len() as u32 - 1)
    }
}

/// Takes the invisible groups apart in which a `macro_rules!` passes its fragments on.
///
/// They nest only as deep as macros call each other, which the compiler limits.
fn flatten(stream: TokenStream, trees: &mut Vec<TokenTree>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => flatten(group.stream(), trees),
            other => trees.push(other),
        }
    }
}
