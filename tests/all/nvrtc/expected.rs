//! What the kernels of `tests/nvrtc` compute, stated again plainly, thread by thread.

use super::{Given, Wanted, floats};

/// The buffers that a launch file's kernel writes; `None` for a launch that has no known result.
pub(super) fn of(name: &str, given: &Given) -> Option<Vec<Wanted>> {
    Some(match name {
        "shuffle" => shuffle(given),
        "atomics" => atomics(given),
        "last_block" => last_block(given),
        "lock" => lock(given),
        "diverge" => diverge(),
        "integers" => integers(given),
        "bits" => bits(given),
        "local" => local(given),
        "matmul" => matmul(given),
        "vectors" => vectors(given),
        "votes" => votes(given),
        "redux" => redux(given),
        "pipeline" => pipeline(given),
        "barriers" => weighted(given, 96, 9, 3, |value| value.wrapping_mul(2)),
        "tokens" => tokens(given),
        "named" => named(given),
        "bulk" => weighted(given, 256, 7, 3, |value| value),
        "specialized" => specialized(given),
        "doubles" => floats::doubles(given),
        "halves" => floats::halves(given),
        "bfloats" => floats::bfloats(given),
        "rounding" => floats::rounding(given),
        "math" => floats::math(given),
        "fast" => floats::fast(given),
        "tanh" => floats::tanh(given),
        _ => return None,
    })
}

/// Rows of a result, one closure per row.
pub(super) fn rows<T, const N: usize>(n: usize, rows: [&dyn Fn(usize) -> T; N]) -> Vec<T> {
    rows.iter().flat_map(|row| (0..n).map(row)).collect()
}

fn sum(values: &[i32]) -> i32 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

fn shuffle(given: &Given) -> Vec<Wanted> {
    let values = given.s32s("in");
    let warps = || values.chunks(32);
    let scans = warps().flat_map(|warp| (1..=32).map(|count| sum(&warp[..count])));
    let most = warps().flat_map(|warp| [*warp.iter().max().unwrap(); 32]);
    let groups = values.chunks(8).flat_map(|group| [group[0]; 8]);
    vec![
        Wanted::of("sums", values.chunks(128).map(sum)),
        Wanted::of("scans", scans),
        Wanted::of("most", most),
        Wanted::of("groups", groups),
    ]
}

/// Products of bf16, B by columns; tensor cores truncate sums, so that an element may be rounded to a neighbour.
fn specialized(given: &Given) -> Vec<Wanted> {
    let [m, n] = [150, 120];
    let numbers = |name: &str| -> Vec<f64> {
        let halves = given.bytes(name);
        halves.chunks(2).map(|half| half::bf16::from_le_bytes([half[0], half[1]]).to_f64()).collect()
    };
    let (a, b) = (numbers("a"), numbers("b"));
    let element = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let (rows, columns) = (a.chunks(a.len() / m), || b.chunks(b.len() / n));
    let d = rows.flat_map(|row| columns().map(|column| half::bf16::from_f64(element(row, column))));
    let bytes = d.flat_map(half::bf16::to_le_bytes).collect();
    vec![Wanted { name: "d", bytes, errors: vec![1.0 / 256.0] }]
}

fn atomics(given: &Given) -> Vec<Wanted> {
    let values = given.u32s("in");
    let fold = |start: u32, f: fn(u32, u32) -> u32| values.iter().fold(start, |all, value| f(all, *value));
    let signed = |f: fn(i32, i32) -> i32| values.iter().map(|value| *value as i32).reduce(f).unwrap() as u32;
    let threads = 256;
    let mut words = vec![
        fold(0, u32::wrapping_add),
        fold(0, u32::wrapping_sub),
        fold(u32::MAX, u32::min),
        fold(0, u32::max),
        signed(i32::min),
        signed(i32::max),
        fold(u32::MAX, |all, value| all & (value | 0xff)),
        fold(0, |all, value| all | value & 0xff00),
        fold(0, |all, value| all ^ value),
        (values.len() % 100) as u32,
        // From 0 it goes to 99 and down from there.
        (100 - values.len() % 100) as u32 % 100,
        threads,
        threads * (threads - 1) / 2,
    ];
    words.extend([0; 3]);
    words.extend((0..threads).map(|ticket| ticket * 3 + 1));
    let mut counts = [0u32; 64];
    let (mut floats, mut doubles, mut most) = ([0f32; 4], [0f64; 4], [0f32; 8]);
    let mut wide = [0u64; 3];
    for (i, &value) in values.iter().enumerate() {
        counts[value as usize % 64] += 1;
        floats[i % 4] += (value % 1024) as f32;
        doubles[i % 4] += f64::from(value) / 1024.0;
        most[i % 8] = most[i % 8].max((value >> 8) as f32);
        wide[0] = wide[0].wrapping_add(u64::from(value) << 20);
        wide[1] = wide[1].max(u64::from(value) * u64::from(value));
        wide[2] ^= u64::from(value) << 32 | i as u64;
    }
    vec![
        Wanted::of("counts", counts),
        Wanted::of("words", words),
        Wanted::of("wide", wide),
        Wanted::of("floats", floats),
        Wanted::of("doubles", doubles),
        Wanted::of("most", most),
    ]
}

fn last_block(given: &Given) -> Vec<Wanted> {
    let values = given.s32s("in");
    let mut partial = [0i32; 6];
    for (i, value) in values.iter().enumerate() {
        let block = &mut partial[i / 128 % 6];
        *block = block.wrapping_add(*value);
    }
    vec![Wanted::of("partial", partial), Wanted::of("out", [sum(&values)])]
}

fn lock(given: &Given) -> Vec<Wanted> {
    let mut list = given.u32s("list");
    for value in &mut list {
        *value = (0..24).fold(*value, |value, _| value.wrapping_mul(3).wrapping_add(7));
    }
    let keys =
        (0..4).flat_map(|block| (0..2).flat_map(move |warp| (0..3).map(move |turn| 1000 * block + 10 * warp + turn)));
    vec![
        Wanted::of("lock", [0u32]),
        Wanted::of("length", [24u32]),
        Wanted::of("list", list),
        Wanted::of("sum", [keys.sum::<u64>()]),
    ]
}

fn diverge() -> Vec<Wanted> {
    let steps = (1u64..=128).map(|start| {
        let sequence = std::iter::successors(Some(start), |&value| {
            (value != 1).then_some(if value % 2 == 1 { 3 * value + 1 } else { value / 2 })
        });
        sequence.count() as u32 - 1
    });
    let route = |thread: u32| {
        let mut x = thread.wrapping_mul(2_654_435_761);
        let start = x;
        if x % 11 == 2 {
            x = x.wrapping_mul(3);
        }
        match start % 11 {
            0 => x.wrapping_add(thread),
            1 => x ^ 0x5555 ^ thread,
            2 | 3 => x.wrapping_sub(thread),
            4 => {
                if !thread.is_multiple_of(3) {
                    x | 1
                } else {
                    x & !1
                }
            }
            5 => {
                while x > 1000 {
                    x /= 3;
                }
                x ^ thread
            }
            6 => !x,
            7 => x << (thread & 7),
            8 => x >> (thread & 7),
            _ => x.wrapping_add(17) ^ thread,
        }
    };
    vec![
        Wanted::of("steps", steps),
        Wanted::of("routes", (0..128).map(route)),
        Wanted::of("pairs", (0..128).map(pairs)),
    ]
}

fn pairs(thread: u32) -> u32 {
    let mut found = 0u32;
    for i in 1..40 {
        if i % 5 == thread % 5 {
            continue;
        }
        for j in i..40 {
            if i * j > thread + 100 {
                break;
            }
            if (i ^ j) % 7 == 3 {
                continue;
            }
            found = found.wrapping_mul(31).wrapping_add(i * j);
            if found % 64 == thread % 64 {
                return found;
            }
        }
        if thread % 2 == 1 && i > 20 {
            break;
        }
    }
    found.wrapping_add(1000)
}

fn integers(given: &Given) -> Vec<Wanted> {
    let (a, b) = (given.s32s("a"), given.s32s("b"));
    let wide = |name| given.u64s(name).into_iter().map(|value| value as i64).collect::<Vec<i64>>();
    let (c, d) = (wide("c"), wide("d"));
    let (n, ua, ub) = (a.len(), |i: usize| a[i] as u32, |i: usize| b[i] as u32);
    let (uc, ud) = (|i: usize| c[i] as u64, |i: usize| d[i] as u64);
    let average = |sum: i64| (sum >> 1) as i32;
    let sum = |i: usize| i64::from(a[i]) + i64::from(b[i]);
    let low24 = |value: i32| i64::from(value << 8 >> 8);
    let dot = |x: i32, y: i32| {
        let bytes = |value: i32| value.to_le_bytes().map(|byte| i32::from(byte as i8));
        bytes(x).iter().zip(bytes(y)).map(|(x, y)| x * y).sum::<i32>()
    };
    let distance = |x: i64, y: i64| (x - y).unsigned_abs() as u32;
    let s32 = rows(
        n,
        [
            &|i| a[i].wrapping_div(b[i]),
            &|i| a[i].wrapping_rem(b[i]),
            &|i| ((i64::from(a[i]) * i64::from(b[i])) >> 32) as i32,
            &|i| (low24(a[i]) * low24(b[i])) as i32,
            &|i| a[i].wrapping_abs().wrapping_sub(a[i].max(b[i])).wrapping_add(a[i].min(b[i])),
            &|i| average(sum(i)) ^ average(sum(i) + 1),
            &|i| i32::from(a[i] as i16) * i32::from(b[i] as i16) + i32::from(a[i] as i8),
            &|i| i32::from((a[i] as i16).wrapping_div(b[i] as i16 | 1)),
            &|i| a[i] >> (b[i] & 31),
            &|i| (a[i] / 7).wrapping_add(a[i] % 10).wrapping_add(b[i] / -13),
        ],
    );
    let u32s = rows(
        n,
        [
            &|i| ua(i) / ub(i),
            &|i| ua(i) % ub(i),
            &|i| ((u64::from(ua(i)) * u64::from(ub(i))) >> 32) as u32,
            &|i| distance(ua(i).into(), ub(i).into()).wrapping_add(5),
            &|i| u32::from(ua(i) as u16) * u32::from(ub(i) as u8),
            &|i| ua(i) / 1_000_003 + ub(i) % 641,
            &|i| distance(a[i].into(), b[i].into()).wrapping_add(9),
            &|i| (u64::from(ua(i) & 0xff_ffff) * u64::from(ub(i) & 0xff_ffff)) as u32,
            &|i| (dot(a[i], b[i]) + 77) as u32,
        ],
    );
    let s64 = rows(
        n,
        [
            &|i| c[i].wrapping_div(d[i]),
            &|i| c[i].wrapping_rem(d[i]),
            &|i| ((i128::from(c[i]) * i128::from(d[i])) >> 64) as i64,
            &|i| c[i].wrapping_mul(d[i]).wrapping_sub(i64::from(a[i]) * i64::from(b[i])),
            &|i| c[i] >> (b[i] & 63),
            &|i| c[i].wrapping_abs().wrapping_add(c[i].min(d[i])),
        ],
    );
    let three_words = |i: usize| {
        let first = u64::from(ua(i)) + u64::from(ub(i));
        let second = u64::from(ub(i)) + u64::from(ua(i)) + (first >> 32);
        ((second & 0xffff_ffff) << 32 | first & 0xffff_ffff).wrapping_add(second >> 32)
    };
    let less = |i: usize| uc(i).wrapping_sub(ud(i)) ^ if uc(i) < ud(i) { u64::MAX } else { 0 };
    let clamp = |value: i64| u64::from(value.clamp(i32::MIN.into(), i32::MAX.into()) as u32);
    let u64s = rows(
        n,
        [
            &|i| uc(i) / ud(i),
            &|i| uc(i) % ud(i),
            &|i| ((u128::from(uc(i)) * u128::from(ud(i))) >> 64) as u64,
            &|i| uc(i) << (ub(i) & 63),
            &three_words,
            &less,
            &|i| u64::from(ua(i)) * u64::from(ub(i)) + u64::from(ua(i)),
            &|i| clamp(i64::from(a[i]) + i64::from(b[i])) << 32 | clamp(i64::from(a[i]) - i64::from(b[i])),
        ],
    );
    vec![Wanted::of("s32", s32), Wanted::of("u32", u32s), Wanted::of("s64", s64), Wanted::of("u64", u64s)]
}

fn bits(given: &Given) -> Vec<Wanted> {
    let (a, b, c) = (given.u32s("a"), given.u32s("b"), given.u64s("c"));
    let n = a.len();
    let first = |zeros: u32, width: u32| if zeros == width { 0 } else { zeros + 1 };
    // Bytes x0 x1 x2 x3 y0 y1 y2 y3, and the sign of one where the selector's top bit is set.
    let permute = |x: u32, y: u32, selector: u32| {
        let bytes: Vec<u8> = x.to_le_bytes().into_iter().chain(y.to_le_bytes()).collect();
        u32::from_le_bytes(std::array::from_fn(|at| {
            let nibble = selector >> (4 * at) & 15;
            let byte = bytes[nibble as usize & 7];
            if nibble & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 }
        }))
    };
    let both = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let mask = |length: u32| (1u64 << length) - 1;
    let field = |i: usize| (u64::from(a[i]) >> (b[i] & 31) & mask(i as u32 & 15)) as u32;
    let signed_field = |i: usize| {
        let (position, length) = (b[i] & 31, i as u32 & 15);
        if length == 0 { 0 } else { ((i64::from(a[i] as i32) >> position) << (64 - length) >> (64 - length)) as u32 }
    };
    let placed = |i: usize| {
        let (position, length) = (b[i] >> 5 & 31, i as u32 & 15);
        let hole = (mask(length) << position) as u32;
        b[i] & !hole | (u64::from(a[i]) << position) as u32 & hole
    };
    let words = rows(
        n,
        [
            &|i| a[i].count_ones() | c[i].count_ones() << 8,
            &|i| a[i].leading_zeros() | c[i].leading_zeros() << 8,
            &|i| first(a[i].trailing_zeros(), 32) | first(c[i].trailing_zeros(), 64) << 8,
            &|i| a[i].reverse_bits(),
            &|i| permute(a[i], b[i], 0x6140),
            // `__byte_perm` looks at three bits of each nibble.
            &|i| permute(a[i], b[i], b[i] & 0x7777),
            &|i| (both(a[i], b[i]) << (b[i] & 31) >> 32) as u32,
            &|i| (both(a[i], b[i]) >> (a[i] & 31)) as u32,
            &|i| (both(a[i], b[i]) << i.min(32) >> 32) as u32,
            &|i| (both(a[i], b[i]) >> i.min(32)) as u32,
            &|i| a[i] & b[i] | (!a[i] & i as u32) ^ (b[i] | i as u32),
            &field,
            &signed_field,
            &placed,
            &|i| u32::from(a[i].to_le_bytes()[i & 3]) * 0x0101_0101,
            &|i| a[i] ^ b[i] ^ i as u32,
            &|i| a[i].checked_ilog2().unwrap_or(u32::MAX),
        ],
    );
    let wide_mask = |i: usize| mask(i as u32 & 31);
    let wide = rows(
        n,
        [
            &|i| c[i].reverse_bits(),
            &|i| c[i] << (i & 63) | c[i] >> ((64 - i) & 63),
            &|i| c[i] >> (b[i] & 63) & wide_mask(i),
            &|i| {
                let hole = wide_mask(i) << (b[i] & 63);
                !c[i] & !hole | c[i] << (b[i] & 63) & hole
            },
        ],
    );
    vec![Wanted::of("words", words), Wanted::of("wide", wide)]
}

fn local(given: &Given) -> Vec<Wanted> {
    const WEIGHTS: [i32; 5] = [7, -2, 3, 11, -5];
    let values = given.s32s("in");
    let (mut keys, mut floats, mut dots) = (Vec::new(), Vec::new(), Vec::new());
    for thread in 0..64 {
        let mut pairs: Vec<(i32, f32)> =
            (0..12).map(|i| (values[(thread * 7 + i * 5) % 64] % 1000, i as f32 * 0.25)).collect();
        pairs.sort_by_key(|pair| pair.0);
        keys.extend(pairs.iter().map(|pair| pair.0));
        floats.extend(pairs.iter().map(|pair| pair.1));
        let mut copy = [0; 16];
        for i in 0..16 {
            copy[(i * 3 + thread) % 16] = values[(thread + i) % 64];
        }
        let at = (copy[thread % 16] & 15) as usize;
        let terms = WEIGHTS.iter().enumerate().map(|(i, weight)| weight.wrapping_mul(copy[(at + i) % 16]));
        let dot = terms.fold(0i32, i32::wrapping_add);
        dots.push(dot.wrapping_add(1 << (thread % 8)).wrapping_add([-1, 2, -3, 4][thread % 4]));
    }
    vec![Wanted::of("keys", keys), Wanted::of("values", floats), Wanted::of("dots", dots)]
}

fn matmul(given: &Given) -> Vec<Wanted> {
    let (a, b, n) = (given.f32s("a"), given.f32s("b"), 37);
    let element = |at: usize| (0..n).fold(0f32, |sum, k| a[at / n * n + k].mul_add(b[k * n + at % n], sum));
    vec![Wanted::of("c", (0..n * n).map(element))]
}

fn vectors(given: &Given) -> Vec<Wanted> {
    let (values, n) = (given.f32s("in"), given.threads());
    let v = |i: usize| &values[4 * i..][..4];
    let reversed = (0..n).flat_map(|i| {
        let (other, next) = (v(n - 1 - i), v(i ^ 1));
        [other[3], other[2], next[0] + next[1], next[2] - next[3]]
    });
    let bytes = (0..n).flat_map(|i| [v(i)[0] as u8, v(i)[1] as u8, v(i)[2] as u8, i as u8]);
    let shorts = (0..n).flat_map(|i| [-v(i)[0] as i16, i16::from(v(i)[1] as u8) * 2]);
    let doubles = (0..n).flat_map(|i| [f64::from(v(i)[0]) * 0.1, f64::from(v(i)[1]) / 3.0]);
    let wide = (0..n).flat_map(|i| [(v(i)[2] as i64) << 33, -(i as i64)]);
    vec![
        Wanted::of("reversed", reversed),
        Wanted::of("bytes", bytes),
        Wanted::of("shorts", shorts),
        Wanted::of("doubles", doubles),
        Wanted::of("wide", wide),
    ]
}

fn votes(given: &Given) -> Vec<Wanted> {
    let values = given.u32s("in");
    let n = values.len();
    let warp = |i: usize| &values[i / 32 * 32..][..32];
    let mask = |i: usize, f: &dyn Fn(u32) -> bool| {
        warp(i).iter().enumerate().fold(0u32, |mask, (lane, value)| mask | u32::from(f(*value)) << lane)
    };
    let out = rows(
        n,
        [
            &|i| mask(i, &|x| x & 1 != 0),
            &|i| u32::from(mask(i, &|x| x < 0xf000_0000) == u32::MAX) | u32::from(mask(i, &|x| x % 50 == 0) != 0) << 1,
            &|i| mask(i, &|x| x & 2 != 0),
            &|i| warp(i)[(31 - i % 32) ^ 1].wrapping_mul(3),
            &|i| if i % 32 < 16 { 15 - i as u32 % 32 } else { warp(i)[(i % 32) ^ 3] },
            &|i| mask(i, &|x| x % 5 == values[i] % 5),
            &|_| u32::MAX.wrapping_add(1),
        ],
    );
    let count = values.iter().filter(|value| **value & 2 != 0).count() as u32;
    vec![Wanted::of("out", out), Wanted::of("count", [count])]
}

fn redux(given: &Given) -> Vec<Wanted> {
    let values = given.s32s("in");
    let warp = |i: usize| values[i / 32 * 32..][..32].iter().copied();
    let thirds = |i: usize, wanted: bool| warp(i).enumerate().filter(move |(lane, _)| (lane % 3 == 0) == wanted);
    let out = rows(
        values.len(),
        [
            &|i| warp(i).fold(0i32, i32::wrapping_add),
            &|i| warp(i).min().unwrap(),
            &|i| warp(i).map(|value| value as u32).max().unwrap() as i32,
            &|i| warp(i).fold(0, |all, value| all ^ value),
            &|i| match i % 32 % 3 == 0 {
                true => thirds(i, true).fold(0, |all, (_, value)| all | value),
                false => thirds(i, false).fold(-1, |all, (_, value)| all & value),
            },
        ],
    );
    vec![Wanted::of("out", out)]
}

fn pipeline(given: &Given) -> Vec<Wanted> {
    let (values, tiles) = (given.f32s("in"), 7);
    let out = (0..2 * 64 * 4).map(|at| {
        let (block, thread, part) = (at / 256, at / 4 % 64, at % 4);
        let element = |tile: usize| {
            let missing = tile == tiles - 1 && part >= 2;
            if missing { 0.0 } else { values[((block * tiles + tile) * 64 + (thread + 1) % 64) * 4 + part] }
        };
        (0..tiles).map(element).fold(0f32, |sum, value| sum + value)
    });
    vec![Wanted::of("out", out)]
}

/// For each column, read backwards, the sum of its rows with increasing weights.
fn weighted(given: &Given, width: usize, rounds: usize, base: i32, f: fn(i32) -> i32) -> Vec<Wanted> {
    let values = given.s32s("in");
    let column = |k: usize| {
        let terms = (0..rounds).map(|r| f(values[r * width + width - 1 - k]));
        terms.fold(0i32, |sum, term| sum.wrapping_mul(base).wrapping_add(term))
    };
    vec![Wanted::of("out", (0..width).map(column))]
}

fn tokens(given: &Given) -> Vec<Wanted> {
    let mut values = given.s32s("in");
    for round in 0..9 {
        let next = |i: usize| values[i].wrapping_mul(5).wrapping_add(round as i32) ^ values[(i * 3 + round) % 128];
        values = (0..128).map(next).collect();
    }
    vec![Wanted::of("out", values)]
}

fn named(given: &Given) -> Vec<Wanted> {
    let values = given.s32s("in");
    let column = |k: usize| {
        let term = |r: usize| {
            let at = 63 - k;
            values[r * 64 + at].wrapping_add(if at < 32 { 1 } else { -1 })
        };
        (0..9).map(term).fold(0i32, |sum, term| sum.wrapping_mul(7).wrapping_add(term))
    };
    vec![Wanted::of("out", (0..64).map(column))]
}
