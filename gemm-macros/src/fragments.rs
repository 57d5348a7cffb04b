//! Makes the fragments of a `macro_rules!` visible.
//!
//! The compiler puts a fragment into an invisible group, which binds as a unit: with `$e` = `1 + 2`, `acc * $e` is
//! `acc * (1 + 2)`. The language has no such groups, and the compiler ignores them in the output of a procedural macro.
//! So each group is replaced by its tokens, in parentheses if its neighbours would bind a part of them.
//!
//! ```text
//! acc * ⟨1 + 2⟩    acc * (1 + 2)      tile(⟨64⟩, ⟨8 * 8⟩)    tile(64, 8 * 8)
//! acc - ⟨-5⟩       acc - -5           ⟨relu⟩(acc)            relu(acc)
//! acc ⟨-5⟩         acc (-5)           epilogue(⟨|acc| acc⟩)  epilogue(|acc| acc)
//! ```

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::Expr;

/// A token, or the tokens of a fragment.
enum Piece {
    Token(TokenTree),
    Fragment(Vec<TokenTree>, Span),
}

/// The context of fragments.
#[derive(Clone, Copy, PartialEq)]
enum Among {
    /// The tokens of a schedule: anything except a word, a number or a list is an expression.
    Clauses,
    /// The arguments of another macro: a fragment may also be a type, a pattern or an item.
    Rust,
}

/// The tokens of one level of a schedule without invisible groups, each with the index of its source token.
pub fn visible(trees: Vec<TokenTree>) -> Vec<(usize, TokenTree)> {
    level(trees, Among::Clauses)
}

/// The arguments of another macro, without the invisible groups that would be read with another precedence.
pub fn arguments(stream: TokenStream) -> TokenStream {
    let trees = stream.into_iter().map(|tree| match tree {
        TokenTree::Group(group) if group.delimiter() != Delimiter::None => {
            let mut inner = Group::new(group.delimiter(), arguments(group.stream()));
            inner.set_span(group.span());
            inner.into()
        }
        other => other,
    });
    level(trees.collect(), Among::Rust).into_iter().map(|(_, tree)| tree).collect()
}

/// The top-level tokens. A fragment that is a whole item (a clause, or a base with its dots) is replaced by its tokens.
pub fn items(stream: TokenStream) -> Vec<TokenTree> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let ends = |tree: Option<&TokenTree>| tree.is_none_or(|tree| is_one_of(tree, ";"));
    let mut out = Vec::with_capacity(trees.len());
    for (index, tree) in trees.iter().enumerate() {
        let alone = ends(index.checked_sub(1).map(|before| &trees[before])) && ends(trees.get(index + 1));
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None && alone => {
                out.extend(items(group.stream()));
            }
            other => out.push(other.clone()),
        }
    }
    out
}

fn level(trees: Vec<TokenTree>, among: Among) -> Vec<(usize, TokenTree)> {
    let pieces = trees.into_iter().enumerate().filter_map(|(index, tree)| match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let inner = level(group.stream().into_iter().collect(), among);
            let inner: Vec<TokenTree> = inner.into_iter().map(|(_, tree)| tree).collect();
            // A visibility may be empty.
            (!inner.is_empty()).then(|| (index, Piece::Fragment(inner, group.span())))
        }
        other => Some((index, Piece::Token(other))),
    });
    let pieces: Vec<(usize, Piece)> = pieces.collect();
    let mut out: Vec<(usize, TokenTree)> = Vec::with_capacity(pieces.len());
    for (at, (index, piece)) in pieces.iter().enumerate() {
        match piece {
            Piece::Token(tree) => out.push((*index, tree.clone())),
            Piece::Fragment(inner, span) => {
                let before = out.last().map(|(_, tree)| tree);
                let after = pieces.get(at + 1).map(|(_, piece)| piece.first());
                // A list of one fragment, perhaps followed by a comma or a semicolon.
                let whole = before.is_none()
                    && after.is_none_or(|after| is_one_of(after, ",;") && pieces.get(at + 2).is_none());
                if whole || reads_the_same(inner, before, after, among) || among == Among::Rust && !is_looser(inner) {
                    out.extend(inner.iter().map(|tree| (*index, tree.clone())));
                } else {
                    let mut group = Group::new(Delimiter::Parenthesis, inner.iter().cloned().collect());
                    // Parentheses that nobody wrote: no lint should report them as unnecessary.
                    group.set_span(span.resolved_at(Span::mixed_site()));
                    out.push((*index, group.into()));
                }
            }
        }
    }
    out
}

impl Piece {
    fn first(&self) -> &TokenTree {
        match self {
            Piece::Token(tree) => tree,
            Piece::Fragment(inner, _) => &inner[0],
        }
    }
}

/// True if the tokens of a fragment bind as a unit between `before` and `after`.
fn reads_the_same(inner: &[TokenTree], before: Option<&TokenTree>, after: Option<&TokenTree>, among: Among) -> bool {
    if is_operand(inner) {
        return true;
    }
    // A schedule has no assignments, comparisons or alternatives: values and expressions begin after these.
    let beginnings = if among == Among::Clauses { ",;=<>|" } else { ",;" };
    let begins = before.is_none_or(|tree| is_one_of(tree, beginnings));
    let ends = after.is_none_or(|tree| is_one_of(tree, ",;"));
    if begins && ends && !inner.iter().any(|tree| is_one_of(tree, ",;|")) {
        return true;
    }
    // A sign binds tighter than its possible neighbours, except an index, arguments and a method.
    let negative = is_one_of(&inner[0], "-") && is_operand(&inner[1..]);
    let separate = before.is_none_or(|tree| matches!(tree, TokenTree::Punct(_)));
    negative && separate && !after.is_some_and(|tree| matches!(tree, TokenTree::Group(_)) || is_one_of(tree, ".?"))
}

/// True for one token or a path, each possibly with indices and arguments.
fn is_operand(tokens: &[TokenTree]) -> bool {
    match tokens {
        [] => false,
        [_] => true,
        [TokenTree::Ident(_), rest @ ..] => rest.iter().enumerate().all(|(index, tree)| match tree {
            TokenTree::Group(group) => group.delimiter() != Delimiter::Brace,
            TokenTree::Ident(_) => index.checked_sub(1).is_some_and(|before| is_one_of(&rest[before], ":")),
            TokenTree::Punct(punct) => punct.as_char() == ':',
            TokenTree::Literal(_) => false,
        }),
        _ => false,
    }
}

/// True for an expression with an operator; anything else binds tighter than all operators.
fn is_looser(inner: &[TokenTree]) -> bool {
    let expression = syn::parse2::<Expr>(inner.iter().cloned().collect());
    expression.is_ok_and(|expression| {
        matches!(
            expression,
            Expr::Assign(_)
                | Expr::Binary(_)
                | Expr::Break(_)
                | Expr::Cast(_)
                | Expr::Closure(_)
                | Expr::Range(_)
                | Expr::RawAddr(_)
                | Expr::Reference(_)
                | Expr::Return(_)
                | Expr::Unary(_)
        )
    })
}

fn is_one_of(tree: &TokenTree, symbols: &str) -> bool {
    matches!(tree, TokenTree::Punct(punct) if symbols.contains(punct.as_char()))
}
