//! What a `macro_rules!` passes on to `gemm!`: every kind of fragment, in every place, binds as it does in Rust.
//!
//! Expressions are evaluated twice: by Rust, and as the epilogue of a kernel that the interpreter runs.

#![allow(double_negations)] // Signs of fragments that have a sign.

use ptx_gemm::{Device, Diagnostics, Gemm, Matrix, gemm};

// The operands of an epilogue, as Rust sees them. Constants have no hygiene, and so are the same in every macro.
#[allow(non_upper_case_globals)]
const acc: f32 = 6.0;
#[allow(non_upper_case_globals)]
const c: f32 = 4.0;

fn relu(x: f32) -> f32 {
    x.max(0.0)
}

fn min(x: f32, y: f32) -> f32 {
    x.min(y)
}

fn max(x: f32, y: f32) -> f32 {
    x.max(y)
}

fn clamp(x: f32, low: f32, high: f32) -> f32 {
    x.max(low).min(high)
}

/// An expression as an epilogue, and its value in Rust.
struct Both {
    tokens: &'static str,
    kernel: Gemm,
    value: f32,
}

macro_rules! both {
    ($($body:tt)*) => {
        Both {
            tokens: stringify!($($body)*),
            kernel: gemm! { tile(2, 2, 2); thread(1, 1); epilogue(|acc, c| $($body)*) },
            value: { $($body)* },
        }
    };
}

/// The element of D of a 1 x 1 product: the sum is `acc`.
fn stored(kernel: &Gemm) -> f32 {
    let one = |value: f32| Matrix::from_fn(1, 1, |_, _| value);
    let gemm = kernel.on(&Device::interpreter()).unwrap();
    let (a, b, of_c) = (one(2.0), one(acc / 2.0), one(c));
    let uses_c = kernel.schedule().problem().unwrap().epilogue.uses_c();
    let d = if uses_c { gemm.c(&of_c).multiply(&a, &b) } else { gemm.multiply(&a, &b) };
    d.unwrap().as_slice()[0]
}

/// The texts without one pair of parentheses that groups operands.
fn without_parentheses(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let groups = |at: &usize| bytes[*at] == b'(' && !bytes[at - 1].is_ascii_alphanumeric();
    let opened = (1..text.len()).filter(groups);
    let removed = opened.map(|open| {
        let mut depth = 0;
        let close = (open..text.len()).find(|&at| {
            depth += i32::from(bytes[at] == b'(') - i32::from(bytes[at] == b')');
            depth == 0
        });
        let close = close.unwrap();
        format!("{}{}{}", &text[..open], &text[open + 1..close], &text[close + 1..])
    });
    removed.collect()
}

#[track_caller]
fn agree(all: impl IntoIterator<Item = Both>) {
    for Both { tokens, kernel, value } in all {
        assert_eq!(stored(&kernel), value, "{tokens}\n{kernel}");
        let text = kernel.to_string();
        assert_eq!(text.parse::<Gemm>().as_ref(), Ok(&kernel), "{text}");
        for other in without_parentheses(&text) {
            assert_ne!(other.parse::<Gemm>().as_ref(), Ok(&kernel), "{text} has parentheses that change nothing");
        }
    }
}

macro_rules! expressions {
    ($e:expr, $f:expr) => {
        agree([
            both!($e),
            both!(acc * $e),
            both!(acc - $e),
            both!(acc - $e - $f),
            both!(acc - ($e - $f)),
            both!(acc / $e * $f),
            both!(acc / ($e * $f)),
            both!($e / $f / acc),
            both!($e * acc + $f),
            both!($e - $f),
            both!(-$e),
            both!(--$e * $f),
            both!(acc - -$e),
            both!(-max($e, $f) * $e),
            both!(clamp(acc, $f - $e, $e * $f) - $e),
            both!(relu($e - $f) * min(-$e, $f)),
            both!(($e) * ($f - ($e))),
        ])
    };
}

/// A fragment of a fragment.
macro_rules! nested {
    ($e:expr, $f:expr) => {
        expressions!($e * $f, -$f)
    };
}

#[test]
fn expressions_are_operands() {
    expressions!(1.0 + 2.0, c - 2.0);
    expressions!(-acc, acc - c - 1.0);
    expressions!(acc * c, acc / 3.0);
    expressions!(-(2.0 - c), acc);
    expressions!(relu(acc) - 1.0, min(acc, c + 1.0));
    expressions!(acc, -1.5);
    nested!(1.0 + 2.0, c - 2.0);
    nested!(-acc, c);
}

macro_rules! kinds {
    ($l:literal, $i:ident, $t:tt, $p:path, $function:path, $other:ident) => {
        agree([
            both!(acc - $l * c),
            both!(-$l),
            both!(--$l - $l),
            both!($l / $i - $t),
            both!(-$i * $l),
            both!(acc / $t * $p),
            both!(-$p - $t),
            both!($function($l) - $other($i, $p)),
            both!($other($l, -$t) * $function(-$l * $p)),
        ])
    };
}

#[test]
fn literals_names_tokens_and_paths_are_operands() {
    kinds!(-2.5, acc, (1.0 + 2.0), c, relu, max);
    kinds!(3.0, c, acc, acc, relu, min);
}

macro_rules! scaled {
    ($e:expr) => {
        gemm! { tile(2, 2, 2); thread(1, 1); epilogue(|acc| acc * $e); }
    };
}

macro_rules! with_a_hole {
    ($e:expr) => {
        gemm! { tile(2, 2, 2); thread(1, 1); epilogue(|acc| acc * $e - {0.5f32 * $e}) }
    };
}

macro_rules! function {
    ($epilogue:expr, $name:pat, $body:expr, $vector:path, $axis:ident, $scalar:ty) => {
        [
            gemm! { tile(2, 2, 2); thread(1, 1); epilogue($epilogue); },
            gemm! { tile(2, 2, 2); thread(1, 1); epilogue(|acc, $name| $body,); },
            gemm! { tile(2, 2, 2); thread(1, 1); epilogue(|acc, bias, gain| $scalar * acc - $vector[$axis]); },
        ]
    };
}

/// The text has the parentheses that a person would write.
#[test]
fn epilogues_read_as_they_were_meant() {
    let epilogue = |kernel: Gemm| kernel.to_string().lines().last().unwrap().to_string();
    assert_eq!(epilogue(scaled!(1 + 2)), "epilogue(|acc| acc * (1 + 2));");
    assert_eq!(epilogue(scaled!(-2)), "epilogue(|acc| acc * -2);");
    assert_eq!(epilogue(scaled!(2)), "epilogue(|acc| acc * 2);");
    assert_eq!(epilogue(scaled!(max(acc, 0) + 1)), "epilogue(|acc| acc * (max(acc, 0) + 1));");
    assert_eq!(epilogue(with_a_hole!(1.0 + 2.0).unwrap()), "epilogue(|acc| acc * (1 + 2) - 1.5);");
    let written = function!(|acc, x| x * (acc + 1), beta, acc + beta * 2, bias, n, gain).map(epilogue);
    assert_eq!(
        written,
        [
            "epilogue(|acc, x| x * (acc + 1));",
            "epilogue(|acc, beta| acc + beta * 2);",
            "epilogue(|acc, bias, gain| gain * acc - bias[n]);",
        ]
    );
}

macro_rules! clauses {
    (
        $all:expr, $tile:ident, $m:expr, $k:tt, $ty:ty, $layout:path, $order:expr, $pad:literal, $shape:expr, $warps:expr,
        $metric:ident, $limit:expr, $contract:expr, $word:ident, $clause:stmt, $tuple:expr, $public:vis $last:ident
    ) => {
        gemm! {
            $all;
            $tile($m, n = $m, $k);
            types($ty, d = $ty);
            layout(b = $layout);
            shared(a = $order, b = nk + pad($pad));
            atom($shape);
            load($word);
            $clause;
            specialize(producers = $warps warp);
            expect { $metric <= $limit KiB; $contract }
            prefetch $tuple;
            $public $last(4, 4);
        }
    };
}

/// Where a number, a word, an argument, a contract or a clause may stand, so may a fragment that is one.
#[test]
fn clauses_take_fragments_of_every_kind() {
    let passed = clauses!(
        vector(4),
        tile,
        64,
        8,
        f32,
        col,
        mk + pad(4),
        4,
        fma,
        1,
        shared,
        96,
        threads = 288,
        cp_async,
        stages(3),
        (1),
        thread
    );
    let written = gemm! {
        vector(4);
        tile(64, 64, 8);
        types(f32, d = f32);
        layout(b = col);
        shared(a = mk + pad(4), b = nk + pad(4));
        atom(fma);
        load(cp_async);
        stages(3);
        specialize(producers = 1 warp);
        expect { shared <= 96 KiB; threads = 288 }
        prefetch(1);
        thread(4, 4);
    };
    assert_eq!(passed, written);
}

macro_rules! twice {
    ($x:expr) => {
        $x * 2
    };
}

macro_rules! holes {
    ($e:expr, $t:ty, $p:pat, $b:block, $l:literal, $path:path) => {
        [
            (gemm! { tile({$e * 2}, {twice!($e * 2)}, 8); thread(1, 1) }?, [$e * 2, twice!($e * 2)]),
            (gemm! { tile({twice!($e)}, {2 * -$l}, 8); thread(1, 1) }?, [twice!($e), 2 * -$l]),
            (
                gemm! { tile({$path(&$e) - $l}, {match $e { x @ $p => x, _ => 4 }}, 8); thread(1, 1) }?,
                [
                    $path(&$e) - $l,
                    match $e {
                        x @ $p => x,
                        _ => 4,
                    },
                ],
            ),
            (gemm! { tile($b, { $e as $t - <$t>::from(1u8) }, 8); thread(1, 1) }?, [$b, $e as $t - <$t>::from(1u8)]),
        ]
    };
}

#[test]
fn holes_keep_the_precedence_of_rust() -> Result<(), Diagnostics> {
    fn same(x: &i32) -> i32 {
        *x
    }
    for (kernel, extents) in holes!(2 + 4, i32, 0..=6, { 4 + 4 }, -8, same) {
        let block = kernel.plan(None)?.block;
        assert_eq!([block.m, block.n].map(|n| n as i32), extents, "{kernel}");
    }
    Ok(())
}

macro_rules! extended {
    ($base:expr) => {
        [
            gemm! { ..$base.clone(); double_buffer }?,
            whole!(..$base.clone()),
            gemm! { ..twice!(; $base.clone()); double_buffer }?,
            gemm! { ..$base; double_buffer }?,
        ]
    };
}

macro_rules! whole {
    ($base:expr) => {
        gemm! { $base; double_buffer }?
    };
}

#[test]
fn bases_keep_the_precedence_of_rust() -> Result<(), Diagnostics> {
    macro_rules! twice {
        (; $x:expr) => {
            $x
        };
    }
    let kernel = gemm! { tile(64, 64, 8); thread(4, 4) };
    let (reference, expected) = (&&kernel, gemm! { tile(64, 64, 8); thread(4, 4); double_buffer });
    // A method of the reference would make a copy of the reference.
    for extended in extended!(**reference) {
        assert_eq!(extended, expected);
    }
    Ok(())
}
