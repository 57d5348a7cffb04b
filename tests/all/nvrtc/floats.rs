//! The kernels about rounding: every result is computed in a wider type, or rounded to odd, and then rounded once.

use super::expected::rows;
use super::{Given, Wanted};

/// How a result is rounded.
#[derive(Clone, Copy)]
enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

use Round::{Down, Nearest, Up, Zero};

/// Rounds to single precision.
fn single(x: f64, round: Round) -> f32 {
    let near = x as f32;
    let (below, above) = match f64::from(near) {
        value if value == x => return near,
        value if value < x => (near, near.next_up()),
        _ => (near.next_down(), near),
    };
    match round {
        Nearest => near,
        Down => below,
        Up => above,
        Zero => {
            if x > 0.0 {
                below
            } else {
                above
            }
        }
    }
}

/// A sum rounded to odd: its last bit records truncation, so that rounding it to half the bits equals rounding
/// once.
fn sum_to_odd(x: f64, y: f64) -> f64 {
    let sum = x + y;
    let part = sum - x;
    let rest = (x - (sum - part)) + (y - part);
    match (rest == 0.0 || sum.to_bits() & 1 == 1, (rest > 0.0) == (sum > 0.0)) {
        (true, _) => sum,
        (_, true) => f64::from_bits(sum.to_bits() + 1),
        _ => f64::from_bits(sum.to_bits() - 1),
    }
}

/// Rounds to `keep` bits of mantissa and an exponent of at least `least`, as an integer times a power of two.
fn narrow(x: f64, keep: i32, least: i32, round: Round) -> f64 {
    if x == 0.0 {
        return x;
    }
    let exponent = (x.abs().log2().floor() as i32).max(least);
    // The logarithm may be one too large just below a power of two; that only costs a bit, and is corrected here.
    let exponent = if x.abs() < 2f64.powi(exponent) && exponent > least { exponent - 1 } else { exponent };
    let unit = 2f64.powi(exponent - keep + 1);
    let scaled = x / unit;
    unit * match round {
        Nearest => scaled.round_ties_even(),
        Zero => scaled.trunc(),
        Down => scaled.floor(),
        Up => scaled.ceil(),
    }
}

/// Bits of a half-precision float, rounded from an exact or odd value.
fn half(x: f64, round: Round) -> u16 {
    let value = narrow(x, 11, -14, round);
    let sign = u16::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    if magnitude < 2f64.powi(-14) {
        return sign | (magnitude * 2f64.powi(24)) as u16;
    }
    let exponent = magnitude.log2().floor() as i32;
    sign | ((exponent + 15) as u16) << 10 | ((magnitude / 2f64.powi(exponent) - 1.0) * 1024.0) as u16
}

/// Bits of a bfloat16: the upper half of a single.
fn bfloat(x: f64, round: Round) -> u16 {
    ((narrow(x, 8, -126, round) as f32).to_bits() >> 16) as u16
}

fn of_half(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(-24),
        _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

fn of_bfloat(bits: u16) -> f64 {
    f32::from_bits(u32::from(bits) << 16).into()
}

fn pack(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

pub(super) fn rounding(given: &Given) -> Vec<Wanted> {
    let (a, b) = (given.f32s("a"), given.f32s("b"));
    let n = a.len();
    let (x, y) = (|i: usize| f64::from(a[i]), |i: usize| f64::from(b[i]));
    let fma = |i: usize| sum_to_odd(x(i) * y(i), x(i));
    let root = |i: usize| x(i).abs().sqrt();
    let away = |value: f32| value.abs().floor() + if value.abs().fract() >= 0.5 { 1.0 } else { 0.0 };
    let bits = |value: f32| f64::from(value.to_bits() as i32);
    let long = |i: usize| i64::from(a[i].to_bits() as i32) * 12345;
    // A 64-bit integer is truncated to a double's bits, with a mark for what was lost.
    let odd = |value: i64| {
        let kept = value & !0x7ff;
        kept as f64 + if value & 0x7ff != 0 { 1024.0 } else { 0.0 }
    };
    let out = rows(
        n,
        [
            &|i| single(x(i) + y(i), Nearest),
            &|i| single(x(i) + y(i), Zero),
            &|i| single(x(i) + y(i), Down),
            &|i| single(x(i) + y(i), Up),
            &|i| single(x(i) * y(i), Nearest),
            &|i| single(x(i) * y(i), Zero),
            &|i| single(x(i) * y(i), Down),
            &|i| single(x(i) * y(i), Up),
            &|i| single(fma(i), Nearest),
            &|i| single(fma(i), Zero),
            &|i| single(fma(i), Down),
            &|i| single(fma(i), Up),
            &|i| single(x(i) / y(i), Nearest),
            &|i| single(x(i) / y(i), Zero),
            &|i| single(x(i) / y(i), Down),
            &|i| single(x(i) / y(i), Up),
            &|i| single(root(i), Nearest),
            &|i| single(root(i), Zero),
            &|i| single(root(i), Down),
            &|i| single(root(i), Up),
            &|i| single(1.0 / y(i), Nearest),
            &|i| single(1.0 / y(i), Up),
            &|i| a[i].clamp(0.0, 1.0) + 0.0,
            &|i| a[i].trunc() + b[i].floor(),
            &|i| a[i].round_ties_even() - b[i].ceil(),
            &|i| away(a[i]).copysign(a[i]),
            &|i| single(x(i) * y(i), Zero),
            &|i| single(x(i) * y(i), Up),
            &|i| single(bits(a[i]), Nearest) + single(f64::from(b[i].to_bits()), Zero),
            &|i| single(odd(long(i)), Down),
            &|i| a[i].min(b[i]) * 2.0 + a[i].max(-b[i]),
        ],
    );
    let integers = rows(
        n,
        [
            &|i| x(i).round_ties_even() as i32,
            &|i| x(i).trunc() as i32,
            &|i| x(i).floor() as i32,
            &|i| x(i).ceil() as i32,
            &|i| y(i).round_ties_even() as u32 as i32,
            &|i| i32::from(x(i).trunc() as i32 as i8),
        ],
    );
    let longs = rows(
        n,
        [&|i| f64::from(a[i] * 1e10).round_ties_even() as i64, &|i| f64::from(b[i].abs() * 1e12).floor() as i64],
    );
    vec![Wanted::of("out", out), Wanted::of("integers", integers), Wanted::of("longs", longs)]
}

pub(super) fn doubles(given: &Given) -> Vec<Wanted> {
    let (a, b) = (given.f64s("a"), given.f64s("b"));
    let n = a.len();
    let rest = |i: usize| {
        let sum = a[i] + b[i];
        let part = sum - a[i];
        (sum, (a[i] - (sum - part)) + (b[i] - part))
    };
    // The sum or quotient rounded down and the one rounded up differ by one step, unless the result is exact.
    let gap = |near: f64, rest: f64| match rest {
        0.0 => 0.0,
        rest if rest > 0.0 => near.next_up() - near,
        _ => near - near.next_down(),
    };
    let product = |i: usize| {
        let near = a[i] * b[i];
        let rest = a[i].mul_add(b[i], -near);
        match (rest == 0.0, (rest > 0.0) == (near > 0.0)) {
            (true, _) | (_, true) => near,
            _ if near > 0.0 => near.next_down(),
            _ => near.next_up(),
        }
    };
    let reciprocal = |i: usize| {
        let near = 1.0 / a[i];
        let rest = (-near).mul_add(a[i], 1.0);
        gap(near, rest * a[i].signum())
    };
    let out = rows(
        n,
        [
            &|i| a[i] + b[i],
            &|i| a[i] * b[i],
            &|i| a[i].mul_add(b[i], -a[i] * b[i]),
            &|i| a[i] / b[i],
            &|i| a[i].abs().sqrt(),
            &|i| a[i].floor() + b[i].ceil() + a[i].trunc() + b[i].round_ties_even(),
            &|i| a[i].min(b[i]) - (-a[i]).max(b[i]),
            &|i| {
                let (near, rest) = rest(i);
                gap(near, rest)
            },
            &product,
            &|i| a[i].copysign(b[i]) + f64::from(b[i] as f32),
            &|i| 1.0 / a[i],
            &|i| f64::from_bits(a[i].to_bits() + 1),
            &reciprocal,
        ],
    );
    let integers = rows(
        n,
        [&|i| a[i].round_ties_even() as i32, &|i| b[i].trunc() as i32, &|i| {
            (a[i].to_bits() >> 32) as i32 ^ b[i].to_bits() as i32
        }],
    );
    let longs = rows(
        n,
        [&|i| a[i].ceil() as i64, &|i| b[i].abs().floor() as i64, &|i| {
            i64::from(a[i].is_sign_negative()) << 2 | i64::from(a[i] < b[i]) << 3 | i64::from(a[i] < b[i]) << 4
        }],
    );
    vec![Wanted::of("out", out), Wanted::of("integers", integers), Wanted::of("longs", longs)]
}

pub(super) fn halves(given: &Given) -> Vec<Wanted> {
    let (a, b) = (given.f32s("a"), given.f32s("b"));
    let n = a.len();
    let x = |i: usize| of_half(half(a[i].into(), Nearest));
    let y = |i: usize| of_half(half(b[i].into(), Nearest));
    // Every sum and product of two halves is exact in a double, and so is their combination.
    let fused = |u: f64, v: f64, w: f64| half(u.mul_add(v, w), Nearest);
    let sum = |i: usize| (fused(x(i), y(i), x(i)), fused(y(i), x(i), y(i)));
    let out = rows(
        n,
        [
            &|i| half(x(i) + y(i), Nearest),
            &|i| half(x(i) - y(i), Nearest),
            &|i| half(x(i) * y(i), Nearest),
            &|i| fused(x(i), y(i), x(i)),
            &|i| half(x(i), Nearest) ^ 0x8000,
            &|i| half(y(i), Nearest) & 0x7fff,
            &|i| half(a[i].into(), Zero),
            &|i| half(a[i].into(), Down),
            &|i| half(a[i].into(), Up),
            &|i| half(f64::from((a[i] * 100.0).trunc()) + 0.0, Nearest),
            &|i| half(x(i).max(y(i)), Nearest),
            &|i| half((x(i) + y(i)).clamp(0.0, 1.0), Nearest),
        ],
    );
    let pairs =
        rows(n, [&|i| pack(sum(i).0, sum(i).1), &|i| pack(half(x(i) * 0.5, Nearest), half(y(i) * 0.5, Nearest))]);
    let back =
        rows(n, [&|i| x(i) as f32 + of_half(sum(i).0) as f32, &|i| y(i).floor() as f32 + x(i).abs().trunc() as f32]);
    vec![Wanted::of("out", out), Wanted::of("pairs", pairs), Wanted::of("back", back)]
}

pub(super) fn bfloats(given: &Given) -> Vec<Wanted> {
    let (a, b) = (given.f32s("a"), given.f32s("b"));
    let n = a.len();
    let x = |i: usize| of_bfloat(bfloat(a[i].into(), Nearest));
    let y = |i: usize| of_bfloat(bfloat(b[i].into(), Nearest));
    let fused = |u: f64, v: f64, w: f64| bfloat(sum_to_odd(u * v, w), Nearest);
    let out = rows(
        n,
        [
            &|i| bfloat(x(i), Nearest),
            &|i| bfloat(a[i].into(), Zero),
            &|i| bfloat(x(i) * y(i), Nearest),
            &|i| bfloat(x(i) + y(i), Nearest),
            &|i| bfloat(x(i) - y(i), Nearest),
            &|i| fused(x(i), y(i), x(i)),
            &|i| bfloat(x(i).max(y(i)), Nearest),
            &|i| bfloat(-x(i).abs(), Nearest),
        ],
    );
    let pairs = rows(
        n,
        [&|i| pack(bfloat(x(i), Nearest), bfloat(y(i), Nearest)), &|i| {
            pack(fused(x(i), x(i), x(i)), fused(y(i), y(i), y(i)))
        }],
    );
    let back = (0..n).map(|i| x(i) as f32 - y(i) as f32);
    vec![Wanted::of("out", out), Wanted::of("pairs", pairs), Wanted::of("back", back)]
}

/// Single precision without subnormals: subnormal operands and results become zeros of the same sign.
pub(super) fn fast(given: &Given) -> Vec<Wanted> {
    let flush = |value: f32| if value.is_subnormal() { 0f32.copysign(value) } else { value };
    let (a, b): (Vec<f32>, Vec<f32>) =
        (given.f32s("a").into_iter().map(flush).collect(), given.f32s("b").into_iter().map(flush).collect());
    let n = a.len();
    let exact = rows(
        n,
        [
            &|i| flush(a[i] + b[i]),
            &|i| flush(a[i] * b[i]),
            &|i| flush(a[i].mul_add(b[i], b[i])),
            // Of two zeros the negative one is smaller.
            &|i| if a[i] < b[i] || (a[i] == b[i] && a[i].is_sign_negative()) { a[i] } else { b[i] },
            &|i| flush(a[i].abs() - b[i]),
            &|i| (a[i] * 3.0).clamp(0.0, 1.0) + 0.0,
        ],
    );
    let near =
        rows(n, [&|i| flush(a[i] / b[i]), &|i| flush(b[i].abs().sqrt()), &|i| a[i].exp(), &|i| flush(1.0 / b[i])]);
    let flags = (0..n).map(|i| i32::from(a[i] < b[i]) | i32::from(a[i] == 0.0) << 1 | i32::from(a[i] <= 0.0) << 2);
    vec![
        Wanted::of("exact", exact),
        Wanted { errors: vec![1e-6; 4], ..Wanted::of("near", near) },
        Wanted::of("flags", flags),
        Wanted::of("wide", a.iter().copied().map(f64::from)),
    ]
}

pub(super) fn tanh(given: &Given) -> Vec<Wanted> {
    let values = given.f32s("in").into_iter().map(|x| f64::from(x).tanh() as f32);
    vec![Wanted { errors: vec![2f64.powi(-10)], ..Wanted::of("out", values) }]
}

/// Functions within their errors: those of the instructions (PTX ISA), and 4 units in the last place of the libraries'.
pub(super) fn math(given: &Given) -> Vec<Wanted> {
    let values = given.f32s("in");
    let n = values.len();
    let (x, y) = (|i: usize| f64::from(values[i]), |i: usize| f64::from(values[i].abs() + 0.125));
    let rational = |t: f64| {
        // The error function by its series, which converges everywhere.
        let mut term = t;
        let mut sum = t;
        for k in 1..200 {
            term *= -t * t / f64::from(k);
            sum += term / f64::from(2 * k + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    };
    let out: Vec<f64> = rows(
        n,
        [
            &|i| x(i).exp(),
            &|i| y(i).ln(),
            &|i| x(i) / y(i),
            &|i| 1.0 / y(i).sqrt(),
            &|i| x(i).sin(),
            &|i| x(i).cos(),
            &|i| x(i).exp2(),
            &|i| x(i).exp(),
            &|i| x(i).tanh(),
            &|i| y(i).ln(),
            &|i| y(i).powf(x(i)),
            &|i| 1.0 / (1.0 + (-x(i)).exp()),
            &|i| x(i).cbrt(),
            &|i| rational(x(i)),
            &|i| 1.0 / y(i),
            &|i| y(i).sqrt(),
        ],
    );
    let (library, fast) = (5e-7, 2e-6);
    let errors = vec![
        fast,
        fast,
        library,
        library,
        fast,
        fast,
        library,
        library,
        library,
        library,
        fast * 4.0,
        fast,
        library,
        library,
        library,
        library,
    ];
    vec![Wanted { errors, ..Wanted::of("out", out.into_iter().map(|value| value as f32)) }]
}
