//! Mnemonics in both directions: one description of each opcode's modifiers serves to write them and to read them.
//!
//! [`modifiers`] visits an opcode's fields in the order in which PTX spells them. The printer passes a [`Writer`], the
//! parser a [`Reader`] that starts from the opcode's prototype and fills in the fields. If a modifier is left over
//! after the visit, the reader rejects the prototype: no modifier is ever dropped, and the instruction stays
//! [`Opcode::Unknown`] instead.

mod choose;
mod extended;
mod spelling;
mod walk;

use choose::Chooser;
use walk::{Modifiers, Reader, Writer};

use crate::asynchronous::PrefetchSize;
use crate::hints::Hints;
use crate::instruction::{Atomic, Cache, FenceOrder, Opcode, Order, Rounding, Scope};
use crate::legality::{may_be_hinted, may_be_modified};
use crate::matrix::Element;
use crate::names::words;
use crate::prototype;
use crate::table;
use crate::text::Text;
use crate::types::{Space, Type};
use crate::warp::Vote;

/// How a conversion saturates: to [0, 1] or the integer's range, or to the largest finite value of a narrow float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saturation {
    Wrap,
    Sat,
    Finite,
}

words!(Saturation { Wrap "", Sat "sat", Finite "satfinite" });

/// The modifiers of an opcode after its stem, in PTX's order.
fn modifiers(op: &mut Opcode, m: &mut impl Modifiers) {
    match op {
        Opcode::Mov(ty)
        | Opcode::Rem(ty)
        | Opcode::Abs(ty)
        | Opcode::Neg(ty)
        | Opcode::And(ty)
        | Opcode::Or(ty)
        | Opcode::Xor(ty)
        | Opcode::Not(ty)
        | Opcode::Shl(ty)
        | Opcode::Shr(ty)
        | Opcode::Selp(ty) => m.required(ty),
        Opcode::Ld { order, space, cache, prefetch, vector, ty } => {
            access(m, order, space, cache);
            m.optional(prefetch);
            m.vector(vector);
            m.required(ty);
        }
        Opcode::St { order, space, cache, vector, ty } => {
            access(m, order, space, cache);
            m.vector(vector);
            m.required(ty);
        }
        Opcode::Add { rnd, ty }
        | Opcode::Sub { rnd, ty }
        | Opcode::Mul { rnd, ty }
        | Opcode::Fma { rnd, ty }
        | Opcode::Div { rnd, ty } => {
            m.optional(rnd);
            m.required(ty);
        }
        Opcode::MulInt { half, ty } | Opcode::MadInt { half, ty } => {
            m.required(half);
            m.required(ty);
        }
        Opcode::Min { nan, ty } | Opcode::Max { nan, ty } => {
            m.flag(nan, "NaN");
            m.required(ty);
        }
        Opcode::Setp { cmp, ty } => {
            m.required(cmp);
            m.required(ty);
        }
        Opcode::Cvt { rnd, sat, to, from } => convert(m, rnd, sat, to, from),
        Opcode::Cvta { to, space, ty } => {
            m.flag(to, "to");
            m.required(space);
            m.required(ty);
        }
        Opcode::Approx { function: _, ty } => {
            m.literal("approx");
            m.required(ty);
        }
        Opcode::Bra { uniform } | Opcode::BraIndexed { uniform } => m.flag(uniform, "uni"),
        Opcode::CpAsync { cache, prefetch } => {
            m.required(cache);
            m.literal("shared");
            m.literal("global");
            m.optional(prefetch);
        }
        Opcode::Fence { order, scope } => {
            m.required(order);
            m.required(scope);
        }
        Opcode::Atom { order, space, op, ty } | Opcode::Red { order, space, op, ty } => {
            m.order(order);
            m.optional(space);
            reduction(m, op, ty);
        }
        Opcode::AtomVector { order, space, op, vector, ty } | Opcode::RedVector { order, space, op, vector, ty } => {
            m.order(order);
            m.optional(space);
            m.required(op);
            let mut keeps_subnormals = table::is_half(*ty);
            m.flag(&mut keeps_subnormals, "noftz");
            m.vector(vector);
            m.required(ty);
            m.reject_if(*vector == 1 || keeps_subnormals != table::is_half(*ty));
        }
        Opcode::DivFast { kind, ty } => {
            m.required(kind);
            m.required(ty);
        }
        Opcode::Rcp { rnd, ty } | Opcode::Sqrt { rnd, ty } => {
            m.required(rnd);
            m.required(ty);
        }
        Opcode::Bfe(ty) | Opcode::Bfi(ty) | Opcode::Popc(ty) | Opcode::Clz(ty) | Opcode::Brev(ty) => m.required(ty),
        Opcode::Bmsk(mode) => {
            m.required(mode);
            m.literal("b32");
        }
        Opcode::Szext { mode, ty } => {
            m.required(mode);
            m.required(ty);
        }
        Opcode::Shf { direction, mode } => {
            m.required(direction);
            m.required(mode);
            m.literal("b32");
        }
        Opcode::IsSpaceP(space) => m.required(space),
        op => warp_modifiers(op, m),
    }
}

/// What a load and a store have in common.
fn access(m: &mut impl Modifiers, order: &mut Order, space: &mut Space, cache: &mut Cache) {
    if *order == Order::Weak {
        m.redundant("weak");
    }
    m.order(order);
    m.optional(space);
    m.optional(cache);
}

/// Modifiers of the instructions that a warp, a block or a cluster executes together.
fn warp_modifiers(op: &mut Opcode, m: &mut impl Modifiers) {
    match op {
        Opcode::Prmt | Opcode::Lop3 | Opcode::ActiveMask => m.literal("b32"),
        Opcode::Nanosleep => m.literal("u32"),
        Opcode::Shfl(mode) | Opcode::ShflActive(mode) => {
            m.required(mode);
            m.literal("b32");
        }
        Opcode::Vote(vote) | Opcode::VoteActive(vote) => {
            m.required(vote);
            m.literal(if *vote == Vote::Ballot { "b32" } else { "pred" });
        }
        Opcode::Redux { op, abs, nan, ty } => {
            m.required(op);
            m.flag(abs, "abs");
            m.flag(nan, "NaN");
            m.required(ty);
        }
        Opcode::ClusterArrive { order, alignment } | Opcode::ClusterWait { order, alignment } => {
            m.optional(order);
            m.optional(alignment);
        }
        Opcode::Mapa { space, ty } | Opcode::GetCtaRank { space, ty } => {
            m.optional(space);
            m.required(ty);
        }
        Opcode::SetMaxNReg(resize) => {
            m.required(resize);
            m.literal("sync.aligned.u32");
        }
        Opcode::GridDepControl(action) => m.required(action),
        Opcode::Mma { shape, overflow, d, a, b, c } => {
            m.shape(shape);
            m.literal("row.col");
            m.optional(overflow);
            for element in [d, a, b, c] {
                m.required(element);
            }
        }
        Opcode::WmmaLoad { part: _, layout, shape, space, element }
        | Opcode::WmmaStore { layout, shape, space, element } => {
            m.required(layout);
            m.shape(shape);
            m.optional(space);
            m.required(element);
        }
        Opcode::WmmaMultiply { layouts, shape, rnd, d, ab, c, overflow } => {
            layouts.iter_mut().for_each(|layout| m.required(layout));
            m.shape(shape);
            m.optional(rnd);
            m.required(d);
            // A and B of f16 are not written.
            let mut element = Element::F16;
            for (other, text) in [
                (Element::Bf16, "bf16.bf16"),
                (Element::Tf32, "tf32.tf32"),
                (Element::F64, "f64.f64"),
                (Element::S8, "s8.s8"),
                (Element::U8, "u8.u8"),
                (Element::S4, "s4.s4"),
                (Element::U4, "u4.u4"),
            ] {
                let mut stated = *ab == other;
                m.flag(&mut stated, text);
                element = if stated { other } else { element };
            }
            *ab = element;
            m.required(c);
            m.optional(overflow);
        }
        Opcode::WmmaBits { .. } => m.literal("row.col.m8n8k128.s32.b1.b1.s32"),
        Opcode::Wgmma { shape, overflow, d, a, b } => {
            m.shape(shape);
            m.optional(overflow);
            for element in [d, a, b] {
                m.required(element);
            }
        }
        Opcode::LdMatrix { matrices, transpose, space } | Opcode::StMatrix { matrices, transpose, space } => {
            m.number("x", matrices, "");
            m.optional(transpose);
            m.optional(space);
            m.literal("b16");
        }
        op => asynchronous_modifiers(op, m),
    }
}

/// Modifiers of mbarriers and of the instructions that signal them.
fn asynchronous_modifiers(op: &mut Opcode, m: &mut impl Modifiers) {
    match op {
        Opcode::MbarrierInit { space } | Opcode::MbarrierInval { space } => {
            m.optional(space);
            m.literal("b64");
        }
        Opcode::MbarrierArrive { arrival, order, space } | Opcode::MbarrierArriveDrop { arrival, order, space } => {
            m.optional(arrival);
            m.order(order);
            m.optional(space);
            m.literal("b64");
        }
        Opcode::MbarrierTx { transaction: _, order, space } => {
            m.order(order);
            m.optional(space);
            m.literal("b64");
        }
        Opcode::MbarrierWait { wait: _, phase, order, space } => {
            m.optional(phase);
            m.order(order);
            m.optional(space);
            m.literal("b64");
        }
        Opcode::MbarrierPendingCount => m.literal("b64"),
        Opcode::CpAsyncArrive { pending, space } => {
            m.optional(pending);
            m.optional(space);
            m.literal("b64");
        }
        Opcode::FenceProxyAsync { space } => m.optional(space),
        Opcode::FenceProxyTensormap { acquire, scope } => {
            m.either(acquire, ["acquire", "release"]);
            m.required(scope);
        }
        Opcode::TensormapReplace { field, space } => {
            m.required(field);
            m.optional(space);
            m.literal("b1024");
            m.literal(if field.is_wide() { "b64" } else { "b32" });
        }
        Opcode::TensormapCopy { scope } => {
            m.required(scope);
            m.literal("sync.aligned");
        }
        Opcode::BulkCopy { to, from, multicast, hint } => {
            m.required(to);
            m.required(from);
            m.literal(completion(*to));
            m.optional(multicast);
            m.optional(hint);
        }
        Opcode::BulkReduce { hint, op, ty } => {
            m.optional(hint);
            reduction(m, op, ty);
        }
        Opcode::BulkReduceShared { op, ty } => reduction(m, op, ty),
        Opcode::StAsync { space, vector, ty } => {
            m.redundant("weak");
            m.optional(space);
            m.literal("mbarrier::complete_tx::bytes");
            m.vector(vector);
            m.required(ty);
        }
        Opcode::RedAsync { space, op, ty } => {
            m.optional(space);
            m.literal("mbarrier::complete_tx::bytes");
            m.required(op);
            m.required(ty);
        }
        Opcode::BulkPrefetch { hint } => m.optional(hint),
        Opcode::TensorLoad { dimensions, to, mode, multicast, hint } => {
            m.number("", dimensions, "d");
            m.required(to);
            m.literal("global");
            m.optional(mode);
            m.literal(completion(*to));
            m.optional(multicast);
            m.optional(hint);
        }
        Opcode::TensorStore { dimensions, mode, hint } => {
            m.number("", dimensions, "d");
            m.literal("global.shared::cta");
            m.optional(mode);
            m.literal("bulk_group");
            m.optional(hint);
        }
        Opcode::TensorReduce { dimensions, op, mode, hint } => {
            m.number("", dimensions, "d");
            m.literal("global.shared::cta");
            m.required(op);
            m.optional(mode);
            m.literal("bulk_group");
            m.optional(hint);
        }
        Opcode::TensorPrefetch { dimensions, mode, hint } => {
            m.number("", dimensions, "d");
            m.literal("L2.global");
            m.optional(mode);
            m.optional(hint);
        }
        Opcode::BulkWait(done) => m.optional(done),
        Opcode::Prefetch { space, what } => {
            m.optional(space);
            m.required(what);
        }
        Opcode::CreatePolicy { primary, secondary } => {
            m.required(primary);
            m.optional(secondary);
            m.literal("b64");
        }
        op => extended::modifiers(op, m),
    }
}

/// How a bulk copy signals completion: through the mbarrier in the destination's shared memory, or through the thread's
/// bulk groups.
fn completion(to: Space) -> &'static str {
    if to == Space::Global { "bulk_group" } else { "mbarrier::complete_tx::bytes" }
}

/// The operation and type of an atomic; PTX requires `.noftz` (subnormals are kept) on every 16-bit addition.
fn reduction(m: &mut impl Modifiers, op: &mut Atomic, ty: &mut Type) {
    m.required(op);
    let mut keeps_subnormals = table::is_half_addition(*op, *ty);
    m.flag(&mut keeps_subnormals, "noftz");
    m.required(ty);
    m.reject_if(keeps_subnormals != table::is_half_addition(*op, *ty));
}

fn convert(m: &mut impl Modifiers, rnd: &mut Rounding, sat: &mut bool, to: &mut Type, from: &mut Type) {
    let wanted = |sat: bool, to: Type| match (sat, matches!(to, Type::E4m3x2 | Type::E5m2x2)) {
        (false, _) => Saturation::Wrap,
        (true, false) => Saturation::Sat,
        (true, true) => Saturation::Finite,
    };
    let mut saturation = wanted(*sat, *to);
    m.optional(rnd);
    m.optional(&mut saturation);
    m.required(to);
    m.required(from);
    *sat = saturation != Saturation::Wrap;
    m.reject_if(saturation != wanted(*sat, *to));
}

/// Appends an opcode's mnemonic to a text.
pub(crate) fn write(op: &Opcode, text: &mut Text) {
    if let Opcode::Unknown(mnemonic) = op {
        text.push(mnemonic);
        return;
    }
    match op {
        Opcode::Modified { op, ftz, sat, relu } => return text.push(&modified(&plain(op), [*ftz, *sat, *relu])),
        Opcode::Hinted { op, hints } => return text.push(&spelling::hinted(&plain(op), *hints)),
        _ => {}
    }
    text.push(table::row(op).stem);
    // `modifiers` takes the fields by reference so that the reader can fill them; a typed opcode is cheap to copy.
    modifiers(&mut op.clone(), &mut Writer { text });
}

fn plain(op: &Opcode) -> String {
    let mut text = Text::default();
    write(op, &mut text);
    text.finish()
}

/// Reads a mnemonic; one that no prototype consumes completely becomes [`Opcode::Unknown`].
pub(crate) fn read(mnemonic: &str) -> Opcode {
    for (alias, op) in ALIASES {
        if *alias == mnemonic {
            return op.clone();
        }
    }
    let plain = read_plain(mnemonic);
    match plain {
        Opcode::Unknown(_) => read_modified(mnemonic).or_else(|| respelled(mnemonic)).unwrap_or(plain),
        known => known,
    }
}

/// Reads a mnemonic in another order, or with hints.
fn respelled(mnemonic: &str) -> Option<Opcode> {
    let (text, hints) = spelling::canonical(mnemonic)?;
    let op = match read_plain(&text) {
        Opcode::Unknown(_) => read_modified(&text)?,
        op => op,
    };
    if hints == Hints::NONE {
        return Some(op);
    }
    may_be_hinted(&op, hints).then(|| Opcode::Hinted { op: Box::new(op), hints })
}

/// Inserts `.ftz` and `.sat` after the rounding, before other words about the result, and `.relu` before the types.
fn modified(plain: &str, [ftz, sat, relu]: [bool; 3]) -> String {
    let mut text = String::new();
    let mut words = plain.split('.').peekable();
    text.push_str(words.next().unwrap_or(""));
    while let Some(word) = words
        .next_if(|word| !matches!(*word, "sat" | "satfinite" | "NaN" | "xorsign") && Type::from_name(word).is_none())
    {
        text.push('.');
        text.push_str(word);
    }
    text.push_str(if ftz { ".ftz" } else { "" });
    text.push_str(if sat { ".sat" } else { "" });
    let mut relu = relu;
    for word in words {
        if relu && Type::from_name(word).is_some() {
            text.push_str(".relu");
            relu = false;
        }
        text.push('.');
        text.push_str(word);
    }
    text
}

/// Reads a mnemonic with an `.ftz`, `.sat` or `.relu` that no prototype has.
fn read_modified(mnemonic: &str) -> Option<Opcode> {
    for set in 1..8 {
        let [ftz, sat, relu] = [1, 2, 4].map(|bit| set & bit != 0);
        let without =
            |text: &str, word: &str, wanted: bool| if wanted { text.replacen(word, "", 1) } else { text.into() };
        let plain = without(&without(&without(mnemonic, ".ftz", ftz), ".sat", sat), ".relu", relu);
        let op = read_plain(&plain);
        if !matches!(op, Opcode::Unknown(_))
            && may_be_modified(&op, ftz, sat, relu)
            && modified(&plain, [ftz, sat, relu]) == mnemonic
        {
            return Some(Opcode::Modified { op: Box::new(op), ftz, sat, relu });
        }
    }
    None
}

/// The opcodes that a prototype's modifiers can make, legal or not.
pub(crate) fn choices(prototype: &Opcode) -> impl Iterator<Item = Opcode> {
    let mut next = Some(Chooser::default());
    std::iter::from_fn(move || {
        loop {
            let mut chooser = next.take()?;
            let mut op = prototype.clone();
            modifiers(&mut op, &mut chooser);
            let contradicts = chooser.contradicts();
            next = chooser.advance();
            if !contradicts && table::takes(&op) {
                return Some(op);
            }
        }
    })
}

fn read_plain(mnemonic: &str) -> Opcode {
    for prototype in prototype::starting(mnemonic) {
        let rest = &mnemonic[table::row(prototype).stem.len()..];
        let mut op = prototype.clone();
        let mut reader = Reader::new(rest);
        modifiers(&mut op, &mut reader);
        if reader.consumed() && table::takes(&op) {
            return op;
        }
    }
    Opcode::Unknown(mnemonic.to_owned())
}

/// Alternative spellings that the parser accepts and the printer does not write.
const ALIASES: &[(&str, Opcode)] = &[
    ("ret.uni", Opcode::Ret),
    ("bar.cta.sync", Opcode::BarSync),
    ("barrier.sync.aligned", Opcode::BarSync),
    ("barrier.cta.sync.aligned", Opcode::BarSync),
    ("bar.cta.arrive", Opcode::BarArrive),
    ("barrier.arrive.aligned", Opcode::BarArrive),
    ("barrier.cta.arrive.aligned", Opcode::BarArrive),
    ("barrier.cta.sync", Opcode::BarrierSync),
    ("barrier.cta.arrive", Opcode::BarrierArrive),
    ("membar.cta", Opcode::Fence { order: FenceOrder::Sc, scope: Scope::Cta }),
    ("membar.gl", Opcode::Fence { order: FenceOrder::Sc, scope: Scope::Gpu }),
    ("membar.sys", Opcode::Fence { order: FenceOrder::Sc, scope: Scope::Sys }),
    ("fence.cta", Opcode::Fence { order: FenceOrder::AcqRel, scope: Scope::Cta }),
    ("fence.gpu", Opcode::Fence { order: FenceOrder::AcqRel, scope: Scope::Gpu }),
    ("fence.sys", Opcode::Fence { order: FenceOrder::AcqRel, scope: Scope::Sys }),
    ("cp.async.ca.shared::cta.global", Opcode::CpAsync { cache: Cache::Ca, prefetch: PrefetchSize::None }),
    ("cp.async.cg.shared::cta.global", Opcode::CpAsync { cache: Cache::Cg, prefetch: PrefetchSize::None }),
];
