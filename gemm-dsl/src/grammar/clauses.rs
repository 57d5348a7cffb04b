//! The arguments of each clause, one short function or one line per clause.

use crate::atoms::Unit;
use crate::clause::{
    Atom, Clause, Fetch, LayoutClause, LoadClause, MulticastClause, PackClause, PrefetchClause, PromoteClause,
    RasterClause, RegistersClause, ShapeClause, SharedClause, Skew, SpecializeClause, SplitKClause, StagedOrder,
    StoreClause, TileClause, TypesClause, VectorClause, WarpCount,
};
use crate::diagnostic::Diagnostic;
use crate::grammar::args::Args;
use crate::limits;
use crate::span::Span;
use crate::suggest;
use crate::terms::{Along, Extent2, Fast};
use crate::token::{Delimiter, Token, TokenKind};

/// Reads the arguments of any clause except `epilogue` and `expect`.
pub(super) fn parse(args: &mut Args, parentheses: bool) -> Option<Clause> {
    Some(match args.info.name {
        "types" => types(args)?,
        "layout" => layout(args)?,
        "batch" => Clause::Batch(args.word()?),
        "target" => Clause::Target(args.word()?),
        "transposed" => bare(args, parentheses, Clause::Transposed)?,
        "tile" => Clause::Tile(tile(args)),
        "warp" => Clause::Warp(tile(args)),
        "thread" => Clause::Thread(extent(args)),
        "fragment" => Clause::Fragment(extent(args)),
        "lanes" => Clause::Lanes(lanes(args)?),
        "atom" => Clause::Atom(atom(args)?),
        "vector" => vector(args)?,
        "shared" => Clause::Shared(shared(args)?),
        "operands" => Clause::Operands(args.word()?),
        "load" => {
            let c = args.named_word("c");
            Clause::Load(LoadClause { way: args.word()?, c })
        }
        "pack" => pack(args)?,
        "stages" => Clause::Stages(args.int("n")),
        "double_buffer" => bare(args, parentheses, Clause::DoubleBuffer)?,
        "unroll" => Clause::Unroll(args.int("n")),
        "order" => Clause::Order(args.word()?),
        "prefetch" => {
            let steps = args.int("n");
            let reads = args.positional().and_then(|(value, span)| args.word_value(value, span));
            Clause::Prefetch(PrefetchClause { steps, reads })
        }
        "pace" => Clause::Pace(args.word()?),
        "blocks_per_sm" => Clause::BlocksPerSm(args.int("n")),
        "spills" => Clause::Spills(args.word()?),
        "raster" => raster(args)?,
        "persistent" => Clause::Persistent(args.maybe_int("n")),
        "split_k" => {
            let parts = args.int("n");
            Clause::SplitK(SplitKClause { parts, reduce: args.named_word("reduce") })
        }
        "stream_k" => bare(args, parentheses, Clause::StreamK)?,
        "cluster" => Clause::Cluster(extent(args)),
        "multicast" => multicast(args)?,
        "specialize" => specialize(args)?,
        "registers" => {
            let producer = args.int("producer");
            Clause::Registers(RegistersClause { producer, consumer: args.int("consumer") })
        }
        "store" => {
            let memory = args.named_word("memory");
            Clause::Store(StoreClause { way: args.word()?, memory })
        }
        "promote" => {
            if args.takes_word("none") {
                return Some(Clause::Promote(PromoteClause { every: None, rounding: None }));
            }
            let every = Some(args.int("every"));
            let rounding = args.positional().and_then(|(value, span)| args.word_value(value, span));
            Clause::Promote(PromoteClause { every, rounding })
        }
        "emulate" => Clause::Emulate(args.word()?),
        "strassen" => Clause::Strassen(args.int("levels")),
        "tail" => Clause::Tail(args.word()?),
        "shape" => {
            let (m, n, k) = (args.int("m"), args.int("n"), args.int("k"));
            Clause::Shape(ShapeClause { m, n, k, batch: args.named_int("batch") })
        }
        "gpu" => Clause::Gpu(gpu(args)?),
        _ => return None,
    })
}

/// A clause without arguments.
fn bare(args: &mut Args, parentheses: bool, clause: Clause) -> Option<Clause> {
    if parentheses {
        let name = args.info.name;
        let diagnostic = Diagnostic::error("argument-extra", name, format!("{name} takes no arguments"));
        args.slip(diagnostic.help(format!("write `{name};`")).spell(name).at(args.span));
        args.ignore_rest();
    }
    Some(clause)
}

/// A name; which GPUs there are is not known here.
fn gpu(args: &mut Args) -> Option<String> {
    let Some((value, span)) = args.positional() else {
        args.missing("the name of a GPU");
        return None;
    };
    match value {
        [Token { kind: TokenKind::Ident(name), .. }] => Some(name.clone()),
        other => {
            let got = other.first().map_or_else(String::new, Token::describe);
            args.fail("word", format!("gpu: expected the name of a GPU, got {got}"), span);
            None
        }
    }
}

fn types(args: &mut Args) -> Option<Clause> {
    let mut clause = TypesClause {
        a: args.named_word("a"),
        b: args.named_word("b"),
        acc: args.named_word("acc"),
        c: args.named_word("c"),
        d: args.named_word("d"),
        all: None,
    };
    if let Some((value, span)) = args.positional() {
        clause.all = args.word_value(value, span);
    }
    if clause == TypesClause::default() {
        args.missing("a type");
    }
    Some(Clause::Types(clause))
}

fn layout(args: &mut Args) -> Option<Clause> {
    let clause = LayoutClause {
        a: args.named_word("a"),
        b: args.named_word("b"),
        c: args.named_word("c"),
        d: args.named_word("d"),
    };
    if let Some((_, span)) = args.positional() {
        args.fail("argument-name", "layout: say which matrix the layout is of", span);
    } else if clause == LayoutClause::default() {
        args.missing("a layout");
    }
    Some(Clause::Layout(clause))
}

fn tile(args: &mut Args) -> TileClause {
    let (m, n) = (args.int("m"), args.int("n"));
    TileClause { m, n, k: args.maybe_int("k") }
}

fn extent(args: &mut Args) -> Extent2 {
    let m = args.int("m");
    Extent2 { m, n: args.int("n") }
}

fn lanes(args: &mut Args) -> Option<Along> {
    let Some((value, span)) = args.take("along") else {
        args.missing("a direction");
        return None;
    };
    args.word_value(value, span)
}

fn raster(args: &mut Args) -> Option<Clause> {
    let group = args.named_int("group");
    let along = args.named("along").and_then(|(value, span)| {
        let along = args.word_value(value, span)?;
        if along == Along::Z {
            args.fail("word", "raster: tiles run along n or m, not z", span);
        }
        Some(along)
    });
    if let Some((_, span)) = args.positional() {
        args.fail("argument-name", "raster: its arguments have names", span);
    } else if group.is_none() && along.is_none() {
        args.missing("group or along");
    }
    Some(Clause::Raster(RasterClause { group, along }))
}

fn vector(args: &mut Args) -> Option<Clause> {
    let (a, b) = (args.named_int("a"), args.named_int("b"));
    let (c, d) = (args.named_int("c"), args.named_int("d"));
    let all = args.positional().map(|(value, span)| args.int_value("n", value, span, 1));
    let clause = VectorClause { all, a, b, c, d };
    if clause == VectorClause::default() {
        args.missing("a width");
    }
    Some(Clause::Vector(clause))
}

fn atom(args: &mut Args) -> Option<Atom> {
    let Some((value, span)) = args.positional() else {
        args.missing("an instruction");
        return None;
    };
    let (head, rest) = value.split_first()?;
    if matches!(head.kind, TokenKind::Hole(_)) && rest.is_empty() {
        args.hole();
        return Some(Atom::default());
    }
    let words: &[&'static str] = if rest.is_empty() { &["fma", "mma", "wgmma"] } else { &["mma", "wgmma"] };
    let name = known_name(args, head, span, "an instruction", words)?;
    if name == "fma" {
        return Some(Atom::default());
    }
    let [Token { kind: TokenKind::Group(Delimiter::Paren, inner), .. }] = rest else {
        args.fail("atom-shape", format!("atom: {name} needs its shape: {name}(m, n, k)"), span);
        return None;
    };
    let mut shape = args.inside(inner);
    let (m, n, k) = (shape.int("m"), shape.int("n"), shape.int("k"));
    shape.finish();
    args.absorb(shape);
    Unit::ALL.into_iter().find(|unit| unit.name() == name).map(|unit| unit.atom((m, n, k)))
}

/// The word of `words` that a token is, or was probably meant to be.
fn known_name(args: &mut Args, token: &Token, span: Span, what: &str, words: &[&'static str]) -> Option<&'static str> {
    if let Some(word) = words.iter().find(|word| token.ident() == Some(word)) {
        return Some(word);
    }
    let message = format!("{}: {} is not {what}", args.info.name, token.describe());
    let diagnostic = Diagnostic::error("unknown-word", args.info.name, message);
    let near = token.ident().and_then(|name| suggest::nearest(name, words.iter().copied()));
    match near {
        Some(near) => args.slip(diagnostic.meant(near).at(token.span)),
        None => args.push(diagnostic.help(format!("write {}", suggest::list(words.iter().copied()))).at(span)),
    }
    words.iter().find(|word| near == Some(word)).copied()
}

fn shared(args: &mut Args) -> Option<SharedClause> {
    if let Some((value, span)) = args.positional() {
        let (head, rest) = value.split_first()?;
        if let Some(extra) = rest.first() {
            args.fail("argument", format!("shared: expected `none` or an order, got {}", extra.describe()), span);
            return None;
        }
        return known_name(args, head, span, "a way to share", &["none"]).map(|_| SharedClause::None);
    }
    let a = args.named("a").and_then(|(value, span)| staged(args, value, span, [("mk", Fast::K), ("km", Fast::Mn)]));
    let b = args.named("b").and_then(|(value, span)| staged(args, value, span, [("kn", Fast::Mn), ("nk", Fast::K)]));
    if a.is_none() && b.is_none() {
        args.missing("`none` or an order");
        return None;
    }
    Some(SharedClause::Orders { a, b })
}

/// `km`, `km + pad(4)`, `km + swizzle(128)`.
fn staged(args: &mut Args, value: &[Token], span: Span, orders: [(&'static str, Fast); 2]) -> Option<StagedOrder> {
    let (head, tail) = value.split_first()?;
    let order = known_name(args, head, head.span, "an order of this operand", &[orders[0].0, orders[1].0])?;
    let (_, fast) = orders.iter().find(|(name, _)| *name == order)?;
    let skew = match tail {
        [] => Skew::None,
        [plus, name, Token { kind: TokenKind::Group(Delimiter::Paren, inner), .. }] if plus.is_punct('+') => {
            match known_name(args, name, name.span, "a skew", &["pad", "swizzle"])? {
                "pad" => Skew::Pad(args.int_value("pad", inner, span, 0)),
                _ => Skew::Swizzle(args.int_value("swizzle", inner, span, 128)),
            }
        }
        _ => {
            args.fail("skew", "shared: an order is followed by one `+ pad(n)` or `+ swizzle(n)`, or by nothing", span);
            return None;
        }
    };
    Some(StagedOrder { fast: *fast, skew })
}

fn multicast(args: &mut Args) -> Option<Clause> {
    let fetch = |named| if named { Fetch::Multicast } else { Fetch::Own };
    let [a, b] = operands(args).map(fetch);
    Some(Clause::Multicast(MulticastClause { a, b }))
}

fn pack(args: &mut Args) -> Option<Clause> {
    let [a, b] = operands(args);
    Some(Clause::Pack(PackClause { a, b }))
}

/// Whether a and b are among the arguments.
fn operands(args: &mut Args) -> [bool; 2] {
    let name = args.info.name;
    let mut named = [false; 2];
    while let Some((value, span)) = args.positional() {
        let which = match value {
            [one] if one.ident() == Some("a") => &mut named[0],
            [one] if one.ident() == Some("b") => &mut named[1],
            other => {
                let got = other.first().map_or_else(String::new, Token::describe);
                args.fail("word", format!("{name}: {got} is neither a nor b"), span);
                continue;
            }
        };
        if std::mem::replace(which, true) {
            args.fail("argument-twice", format!("{name}: an operand is given twice"), span);
        }
    }
    if named == [false; 2] {
        args.missing("a, b or both");
    }
    named
}

fn specialize(args: &mut Args) -> Option<Clause> {
    let producers = warp_count(args, "producers");
    let consumers = warp_count(args, "consumers");
    let producers = producers.unwrap_or_else(|| {
        args.missing("producers");
        WarpCount::Groups(1)
    });
    let roles = args.positional().and_then(|(value, span)| args.word_value(value, span));
    Some(Clause::Specialize(SpecializeClause { producers, consumers, roles }))
}

/// `2` warp groups, or `1 warp`; `None` if it is absent or cannot be read.
fn warp_count(args: &mut Args, name: &'static str) -> Option<WarpCount> {
    Some(match args.named(name)? {
        ([count, unit], span) if unit.ident().is_some() => {
            known_name(args, unit, span, "a unit of warps", &["warp", "warps"])?;
            WarpCount::Warps(args.int_up_to(Some(*limits::WARPS.end()), name, std::slice::from_ref(count), span, 1))
        }
        (value, span) => WarpCount::Groups(args.int_up_to(Some(*limits::GROUPS.end()), name, value, span, 1)),
    })
}
