//! Clauses to canonical text, for [`crate::schedule::Schedule`] and for quotes in diagnostics.

use std::fmt::{self, Display, Formatter};

use crate::clause::{
    Atom, Clause, Expectation, Fetch, Metric, MulticastClause, PromoteClause, SharedClause, Skew, SpecializeClause,
    StagedOrder, WarpCount,
};
use crate::epilogue::{BinaryOp, Epilogue, Expr, Function};
use crate::table::Key;
use crate::terms::Fast;
use crate::words::Word;

impl Clause {
    /// The setting that the clause determines.
    pub fn key(&self) -> Key {
        match self {
            Clause::Types(_) => Key::Types,
            Clause::Layout(_) => Key::Layout,
            Clause::Epilogue(_) => Key::Epilogue,
            Clause::Batch(_) => Key::Batch,
            Clause::Target(_) => Key::Target,
            Clause::Tile(_) => Key::Tile,
            Clause::Warp(_) => Key::Warp,
            Clause::Thread(_) => Key::Thread,
            Clause::Fragment(_) => Key::Fragment,
            Clause::Lanes(_) => Key::Lanes,
            Clause::Atom(_) => Key::Atom,
            Clause::Vector(_) => Key::Vector,
            Clause::Shared(_) => Key::Shared,
            Clause::Operands(_) => Key::Operands,
            Clause::Load(_) => Key::Load,
            Clause::Pack(_) => Key::Pack,
            Clause::Stages(_) | Clause::DoubleBuffer => Key::Stages,
            Clause::Unroll(_) => Key::Unroll,
            Clause::Order(_) => Key::Order,
            Clause::Prefetch(_) => Key::Prefetch,
            Clause::Pace(_) => Key::Pace,
            Clause::BlocksPerSm(_) => Key::BlocksPerSm,
            Clause::Spills(_) => Key::Spills,
            Clause::Raster(_) => Key::Raster,
            Clause::Persistent(_) => Key::Persistent,
            Clause::SplitK(_) => Key::SplitK,
            Clause::StreamK => Key::StreamK,
            Clause::Transposed => Key::Transposed,
            Clause::Cluster(_) => Key::Cluster,
            Clause::Multicast(_) => Key::Multicast,
            Clause::Specialize(_) => Key::Specialize,
            Clause::Registers(_) => Key::Registers,
            Clause::Store(_) => Key::Store,
            Clause::Promote(_) => Key::Promote,
            Clause::Emulate(_) => Key::Emulate,
            Clause::Strassen(_) => Key::Strassen,
            Clause::Tail(_) => Key::Tail,
            Clause::Expect(_) => Key::Expect,
            Clause::Shape(_) => Key::Shape,
            Clause::Gpu(_) => Key::Gpu,
        }
    }

    /// The clause's name.
    pub fn name(&self) -> &'static str {
        match self {
            Clause::DoubleBuffer => "double_buffer",
            other => crate::table::of(other.key()).name,
        }
    }
}

/// Arguments joined by commas.
#[derive(Default)]
struct Args(Vec<String>);

impl Args {
    fn value(mut self, value: impl Display) -> Args {
        self.0.push(value.to_string());
        self
    }

    fn maybe(self, value: Option<impl Display>) -> Args {
        match value {
            Some(value) => self.value(value),
            None => self,
        }
    }

    fn named(self, name: &str, value: Option<impl Display>) -> Args {
        self.maybe(value.map(|value| format!("{name} = {value}")))
    }
}

impl Display for Clause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let args = match self {
            Clause::Types(t) => Args::default()
                .maybe(t.all)
                .named("a", t.a)
                .named("b", t.b)
                .named("acc", t.acc)
                .named("c", t.c)
                .named("d", t.d),
            Clause::Layout(l) => Args::default().named("a", l.a).named("b", l.b).named("c", l.c).named("d", l.d),
            Clause::Epilogue(epilogue) => Args::default().value(epilogue),
            Clause::Batch(kind) => Args::default().value(kind.word()),
            Clause::Target(target) => Args::default().value(target),
            Clause::Tile(t) | Clause::Warp(t) => Args::default().value(t.m).value(t.n).maybe(t.k),
            Clause::Thread(t) | Clause::Fragment(t) | Clause::Cluster(t) => Args::default().value(t.m).value(t.n),
            Clause::Lanes(along) => Args::default().named("along", Some(along.word())),
            Clause::Atom(atom) => Args::default().value(atom),
            Clause::Vector(v) => {
                Args::default().maybe(v.all).named("a", v.a).named("b", v.b).named("c", v.c).named("d", v.d)
            }
            Clause::Shared(SharedClause::None) => Args::default().value("none"),
            Clause::Shared(SharedClause::Orders { a, b }) => Args::default()
                .named("a", a.map(|order| staged(order, "mk", "km")))
                .named("b", b.map(|order| staged(order, "nk", "kn"))),
            Clause::Operands(operands) => Args::default().value(operands.word()),
            Clause::Load(l) => Args::default().value(l.way.word()).named("c", l.c.map(Word::word)),
            Clause::Pack(pack) => Args::default().maybe(pack.a.then_some("a")).maybe(pack.b.then_some("b")),
            Clause::Stages(n) | Clause::Unroll(n) | Clause::BlocksPerSm(n) => Args::default().value(n),
            Clause::Prefetch(p) => Args::default().value(p.steps).maybe(p.reads.map(Word::word)),
            Clause::Order(order) => Args::default().value(order.word()),
            Clause::Pace(pace) => Args::default().value(pace.word()),
            Clause::Spills(spills) => Args::default().value(spills.word()),
            Clause::Raster(r) => Args::default().named("group", r.group).named("along", r.along.map(Word::word)),
            Clause::SplitK(s) => Args::default().value(s.parts).named("reduce", s.reduce.map(Word::word)),
            Clause::Multicast(m) => multicast(m),
            Clause::Specialize(s) => specialize(s),
            Clause::Registers(r) => {
                Args::default().named("producer", Some(r.producer)).named("consumer", Some(r.consumer))
            }
            Clause::Store(s) => Args::default().value(s.way.word()).named("memory", s.memory.map(Word::word)),
            Clause::Promote(PromoteClause { every: None, .. }) => Args::default().value("none"),
            Clause::Promote(p) => Args::default().named("every", p.every).maybe(p.rounding.map(Word::word)),
            Clause::Emulate(emulation) => Args::default().value(emulation.word()),
            Clause::Strassen(levels) => Args::default().named("levels", Some(levels)),
            Clause::Tail(tail) => Args::default().value(tail.word()),
            Clause::Persistent(blocks) => Args::default().maybe(*blocks),
            Clause::Transposed | Clause::StreamK | Clause::DoubleBuffer => Args::default(),
            Clause::Expect(list) => return expect(list, f),
            Clause::Shape(shape) => {
                Args::default().value(shape.m).value(shape.n).value(shape.k).named("batch", shape.batch)
            }
            Clause::Gpu(name) => Args::default().value(name),
        };
        f.write_str(self.name())?;
        match args.0.as_slice() {
            [] => Ok(()),
            args => write!(f, "({})", args.join(", ")),
        }
    }
}

fn staged(order: StagedOrder, fast_k: &str, fast_mn: &str) -> String {
    let name = if order.fast == Fast::K { fast_k } else { fast_mn };
    match order.skew {
        Skew::None => name.into(),
        Skew::Pad(elements) => format!("{name} + pad({elements})"),
        Skew::Swizzle(bytes) => format!("{name} + swizzle({bytes})"),
    }
}

fn multicast(clause: &MulticastClause) -> Args {
    let named = |fetch, name| (fetch == Fetch::Multicast).then_some(name);
    Args::default().maybe(named(clause.a, "a")).maybe(named(clause.b, "b"))
}

fn specialize(clause: &SpecializeClause) -> Args {
    Args::default()
        .named("producers", Some(clause.producers))
        .named("consumers", clause.consumers)
        .maybe(clause.roles.map(Word::word))
}

fn expect(list: &[Expectation], f: &mut Formatter<'_>) -> fmt::Result {
    let contracts: Vec<String> = list.iter().map(Expectation::to_string).collect();
    write!(f, "expect {{ {} }}", contracts.join("; "))
}

impl Metric {
    /// Its name in text.
    pub fn name(self) -> &'static str {
        match self {
            Metric::OccupancyPercent => Metric::Occupancy.word(),
            metric => metric.word(),
        }
    }
}

impl Display for Expectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Expectation { metric, relation, limit } = self;
        write!(f, "{} {} ", metric.name(), relation.word())?;
        match (metric, limit.whole()) {
            (Metric::Shared | Metric::CodeBytes, Some(bytes)) if bytes > 0 && bytes.is_multiple_of(1024) => {
                write!(f, "{} KiB", bytes / 1024)
            }
            (Metric::Shared | Metric::CodeBytes, Some(bytes)) if bytes > 0 => write!(f, "{bytes} B"),
            (Metric::OccupancyPercent, _) => write!(f, "{limit} %"),
            _ => write!(f, "{limit}"),
        }
    }
}

impl Display for WarpCount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WarpCount::Warps(1) => f.write_str("1 warp"),
            WarpCount::Warps(n) => write!(f, "{n} warps"),
            WarpCount::Groups(n) => write!(f, "{n}"),
        }
    }
}

impl Display for Atom {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.tensor() {
            None => f.write_str("fma"),
            Some((unit, (m, n, k))) => write!(f, "{}({m}, {n}, {k})", unit.name()),
        }
    }
}

impl Display for Epilogue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "|{}| ", self.declared.join(", "))?;
        expression(self, &self.expr, Binding::Sum, f)
    }
}

/// How tightly the position of an expression binds: a more loosely binding expression there needs parentheses.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Sum,
    Product,
    Unary,
}

fn expression(epilogue: &Epilogue, expr: &Expr, place: Binding, f: &mut Formatter<'_>) -> fmt::Result {
    let own = match expr {
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => Binding::Sum,
        Expr::Binary(BinaryOp::Mul | BinaryOp::Div, ..) => Binding::Product,
        _ => Binding::Unary,
    };
    if own < place {
        f.write_str("(")?;
        expression(epilogue, expr, Binding::Sum, f)?;
        return f.write_str(")");
    }
    match expr {
        Expr::Acc => f.write_str("acc"),
        Expr::C => f.write_str("c"),
        Expr::Scalar(index) => f.write_str(epilogue.scalars.get(*index).map_or("?", String::as_str)),
        Expr::Vector(index) => match epilogue.vectors.get(*index) {
            Some(vector) => write!(f, "{}[{}]", vector.name, vector.axis.word()),
            None => f.write_str("?"),
        },
        Expr::Literal(value) => f.write_str(&literal(*value)),
        Expr::Neg(inner) => {
            f.write_str("-")?;
            expression(epilogue, inner, Binding::Unary, f)
        }
        Expr::Binary(op, left, right) => {
            expression(epilogue, left, own, f)?;
            write!(f, " {} ", op.symbol())?;
            // Left-associative: on the right, the same binding needs parentheses.
            let tighter = if own == Binding::Sum { Binding::Product } else { Binding::Unary };
            expression(epilogue, right, tighter, f)
        }
        Expr::Call(function, args) => call(epilogue, *function, args, f),
    }
}

/// The shortest text that reads back as the same number.
pub(crate) fn literal(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value:?}") }
}

fn call(epilogue: &Epilogue, function: Function, args: &[Expr], f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{}(", function.word())?;
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        expression(epilogue, arg, Binding::Sum, f)?;
    }
    f.write_str(")")
}
