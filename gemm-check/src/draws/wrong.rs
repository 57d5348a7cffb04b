//! Random wrong schedules, as text: legal ones with the kinds of mistakes that people make.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::schedules::schedule;

/// A random number for choices: each choice consumes as much of it as it needs.
type Choice = [Index; 4];

/// The wrong schedule of a seed; occasionally it is legal after all.
pub fn wrong_schedule(seed: u64) -> String {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let choice = any::<Choice>();
    let strategy = (schedule(), prop::collection::vec((any::<Index>(), choice), 1..=4));
    // These strategies reject nothing.
    let Ok(tree) = strategy.new_tree(&mut runner) else { return String::new() };
    let (text, slips) = tree.current();
    let mut clauses: Vec<String> = text.split("; ").map(str::to_string).collect();
    for (slip, choice) in slips {
        if clauses.is_empty() {
            break;
        }
        slip.get(SLIPS)(&mut clauses, choice);
    }
    joined(&clauses, seed)
}

/// The clauses on one line or on several, occasionally with a comment or without a semicolon.
fn joined(clauses: &[String], seed: u64) -> String {
    let mut text = String::new();
    for (index, clause) in clauses.iter().enumerate() {
        text.push_str(clause);
        let end = if seed % 13 == 5 && index as u64 == seed % 3 { " " } else { ";" };
        text.push_str(end);
        text.push_str(match seed % 4 {
            0 => "\n",
            1 if index == 0 => " // the tile\n",
            1 => "\n",
            2 if seed.is_multiple_of(5) && index == 0 => " # the tile\n",
            _ => " ",
        });
    }
    text
}

/// The ways to break a schedule.
const SLIPS: &[fn(&mut Vec<String>, Choice)] = &[
    |clauses, choice| misspell(clauses, choice),
    |clauses, choice| misspell(clauses, choice),
    |clauses, choice| misspell(clauses, choice),
    |clauses, choice| number(clauses, choice),
    |clauses, choice| number(clauses, choice),
    |clauses, choice| number(clauses, choice),
    drop,
    repeat,
    add,
    add,
    add,
    |clauses, choice| argument(clauses, choice),
    epilogue,
    elsewhere,
];

/// One of `clauses`, to be changed.
fn one<'a>(clauses: &'a mut [String], choice: &Index) -> &'a mut String {
    let at = choice.index(clauses.len());
    &mut clauses[at]
}

/// The pieces of a text in which every character passes a test.
fn runs(text: &str, of: impl Fn(char) -> bool) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in text.char_indices().filter(|(_, c)| of(*c)) {
        match found.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// A word with a letter missing, added, replaced, or with two letters swapped.
fn misspell(clauses: &mut [String], [clause, word, letter, way]: Choice) {
    let clause = one(clauses, &clause);
    let words = runs(clause, |c| c.is_ascii_alphabetic() || c == '_');
    let words: Vec<_> = words.into_iter().filter(|word| word.len() > 1).collect();
    if words.is_empty() {
        return;
    }
    let word = words[word.index(words.len())].clone();
    let at = word.start + letter.index(word.len() - 1);
    match way.index(4) {
        0 => clause.replace_range(at..at + 1, ""),
        1 => clause.insert(at, 'e'),
        2 => clause.replace_range(at..at + 1, "x"),
        _ => {
            let swapped: String = clause[at..at + 2].chars().rev().collect();
            clause.replace_range(at..at + 2, &swapped);
        }
    }
}

/// A different number in place of one, or something that is not a number of the language.
fn number(clauses: &mut [String], [clause, place, value, _]: Choice) {
    const VALUES: &[&str] = &[
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "9",
        "12",
        "16",
        "24",
        "31",
        "33",
        "48",
        "64",
        "100",
        "128",
        "256",
        "1000",
        "1024",
        "5000",
        "70000",
        "4294967295",
        "99999999999",
        "-8",
        "0x10",
        "8u32",
        "1e3",
        "4.0",
        "2.5",
        "2*8",
        "N",
        "{N}",
        "2 * (8 + 8)",
        "",
    ];
    let with: Vec<usize> =
        (0..clauses.len()).filter(|at| clauses[*at].contains(|c: char| c.is_ascii_digit())).collect();
    let Some(at) = with.get(clause.index(with.len().max(1))) else { return };
    let numbers = runs(&clauses[*at], |c| c.is_ascii_digit());
    clauses[*at].replace_range(numbers[place.index(numbers.len())].clone(), value.get::<&str>(VALUES));
}

fn drop(clauses: &mut Vec<String>, [clause, ..]: Choice) {
    clauses.remove(clause.index(clauses.len()));
}

/// A clause repeated, unchanged or with a different number.
fn repeat(clauses: &mut Vec<String>, [clause, place, value, way]: Choice) {
    let again = one(clauses, &clause).clone();
    clauses.push(again);
    if way.index(2) == 1 {
        let mut last = clauses.split_off(clauses.len() - 1);
        number(&mut last, [clause, place, value, way]);
        clauses.extend(last);
    }
}

/// Clauses that are illegal in many schedules.
const MORE: &[&str] = &[
    "shared(none)",
    "double_buffer",
    "stages(3)",
    "stages(64)",
    "load(cp_async)",
    "load(tma)",
    "operands(shared)",
    "prefetch(3)",
    "pace(free)",
    "unroll(3)",
    "unroll(1024)",
    "blocks_per_sm(8)",
    "blocks_per_sm(32)",
    "persistent",
    "persistent(7)",
    "split_k(4)",
    "split_k(2, reduce = workspace)",
    "split_k(2, reduce = cluster)",
    "split_k(12, reduce = cluster)",
    "stream_k",
    "strem_k",
    "cluster(2, 1)",
    "cluster(8, 4)",
    "multicast(a, b)",
    "registers(producer = 40, consumer = 232)",
    "registers(producer = 30, consumer = 999)",
    "store(staged)",
    "store(tma)",
    "load(tma, c = tma)",
    "load(cp_async, c = tma)",
    "load(registers, c = registers)",
    "store(staged, memory = ring)",
    "store(direct, memory = own)",
    "store(tma, memory = slots)",
    "promote(every = 4)",
    "promote(every = 64)",
    "emulate(bf16x6)",
    "emulate(bf16)",
    "tail(none)",
    "tail(even)",
    "atom(fma)",
    "atom(mma(16, 8, 8))",
    "atom(mmaa(16, 8, 8))",
    "atom(wgmma(64, 128, 16))",
    "atom(mma)",
    "types(f16)",
    "types(double)",
    "types(f8)",
    "types(a = i8, b = u8)",
    "types(i32)",
    "types(acc = f16)",
    "layout(row)",
    "layout(a = colum, b = rwo)",
    "layout(a = mk)",
    "lanes(along = z)",
    "lanes(z)",
    "fragment(3, 3)",
    "fragment(16, 16)",
    "warp(48, 48)",
    "warp(32, 64, 4)",
    "vector(3)",
    "vector(a = 16)",
    "vector(c = 4)",
    "vector(8, d = 8)",
    "vector(1000)",
    "shared(a = kn)",
    "shared(a = km + padd(4))",
    "shared(b = nk + swizzle(48))",
    "shared(a = mk + pad(9999))",
    "shared(a = km + pad(4) + swizzle(64))",
    "raster(8, n)",
    "raster(group = 70000)",
    "raster(along = z)",
    "batch(grouped)",
    "batch(stride)",
    "specialize(producers = 1 warp)",
    "specialize(producers = 40 warps)",
    "specialize(producer = 1 warp)",
    "specialize(consumers = 2)",
    "specialize(producers = 1 wrap, pingpong)",
    "spills(allow)",
    "spills(alow)",
    "target(sm_75)",
    "target(sm_91)",
    "target(hopper)",
    "target(90a)",
    "order(snke)",
    "expect { threads = 1 }",
    "expect { spils = 0 }",
    "expect { shared <= 48KiB }",
    "expect { shared <= 1 B }",
    "expect { occupancy >= 0.5 }",
    "expect { bank_conflicts = 0; threads < 0 }",
    "expect { loads_per_fma <= 0.001 }",
    "expect(spills = 0)",
    "expect { }",
    "swizzle(128)",
    "smem(none)",
    "pipeline(3)",
    "threads(8, 8)",
    "block(64, 64, 8)",
    "frobnicate(3)",
    "double_buffer(2)",
    "stream_k()",
    "42",
    "(tile(8, 8))",
    "..base",
    "tile",
    "thread",
    "stages()",
    "vector(4, 4)",
    "vector{4}",
    "unroll(4",
    "prefetch(100)",
    "stages = 3",
    "expect { registers <= 168, spills = 0 }",
];

/// Adds one of them.
fn add(clauses: &mut Vec<String>, [clause, place, ..]: Choice) {
    let at = place.index(clauses.len() + 1);
    clauses.insert(at, clause.get(MORE).to_string());
}

/// An argument added, removed, without its name, or without its parentheses.
fn argument(clauses: &mut [String], [clause, _, _, way]: Choice) {
    let clause = one(clauses, &clause);
    let changed = match way.index(7) {
        0 => clause.replacen(", ", ", 4, ", 1),
        1 => clause.replacen(')', ", n = 3)", 1),
        2 => clause.split_once(", ").map_or(clause.clone(), |(first, _)| format!("{first})")),
        3 => clause.replacen(" = ", " ", 1),
        4 => clause.replacen('(', "", 1),
        5 => clause.replacen(',', "", 1),
        _ => clause.replacen(" = ", "x = ", 1),
    };
    *clause = changed;
}

/// An epilogue with something wrong in it, in place of the schedule's.
fn epilogue(clauses: &mut Vec<String>, [choice, ..]: Choice) {
    const WRONG: &[&str] = &[
        "|acc| alpha * acc",
        "|acc, c, alpha| alpha * acc + beta * c",
        "|acc, alhpa| alpha * acc",
        "|acc| rleu(acc)",
        "|acc| gelu(acc)",
        "|acc, bias| relu(acc + bias)",
        "|acc, bias| acc + bias[k]",
        "|acc, bias| acc + bias[n] + bias",
        "|acc| acc[m]",
        "|acc| mx(acc, 0)",
        "|acc| max(acc)",
        "|acc| fmax(acc, 0.0)",
        "|acc| if acc > 0 { acc } else { 0 }",
        "|acc| acc +",
        "|acc| 1e999 * acc",
        "|acc| 1e300 * acc",
        "|acc| 0.1 * acc",
        "|acc| inf * acc",
        "|acc|",
        "acc",
        "|acc, acc| acc",
        "|acc, relu| relu * acc",
        "|c| c",
        "|acc, c| acc",
        "|acc, s, t| s * acc",
        "|acc| acc ^ 2",
        "alpha * acc",
        "|acc| gain * acc + bias[n] + gain * shift",
        "|acc| swish(acc)",
        "|acc| scale[m] * acc + scale",
        "|| 1.0",
        "|acc, c, alpha, beta| alpha * acc + bate * c",
    ];
    clauses.retain(|clause| !clause.starts_with("epilogue"));
    clauses.push(format!("epilogue({})", choice.get(WRONG)));
}

/// Names of the same things in other languages.
fn elsewhere(clauses: &mut Vec<String>, [choice, ..]: Choice) {
    const WORDS: &[(&str, &str)] = &[
        ("f64", "double"),
        ("f32", "float"),
        ("col", "column_major"),
        ("thread(", "thread_tile("),
        ("stages(", "num_stages("),
        ("warp(", "warps("),
        ("relu(", "ReLU("),
        ("sm_", "compute_"),
        ("cp_async", "cpasync"),
        ("swizzle(", "xor("),
        ("vector(", "vectorize("),
        ("tile(", "threadblock("),
        ("split_k(", "splitk("),
        ("= km", "= \"km\""),
    ];
    let (ours, theirs) = choice.get(WORDS);
    for clause in clauses {
        *clause = clause.replace(ours, theirs);
    }
}
