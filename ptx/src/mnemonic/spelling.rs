//! Other spellings of a mnemonic.
//!
//! ptxas accepts most modifiers in any order (`ld.global.acquire.gpu.b32`, `atom.add.release.gpu.u32`), and other
//! compilers make use of that. The printer has one order, that of the PTX ISA. Hints to the caches may also be anywhere
//! among the modifiers. They are kept apart from the opcode, since they change no result.

use crate::hints::Hints;
use crate::instruction::{Atomic, Compare, Rounding, Scope};
use crate::types::{Space, Type};

/// The mnemonic in the order of the PTX ISA, and its hints. `None` if it has no hints and nothing changes.
pub(super) fn canonical(mnemonic: &str) -> Option<(String, Hints)> {
    let words: Vec<&str> = mnemonic.split('.').collect();
    if let ["bar" | "barrier", rest @ ..] = words.as_slice()
        && rest.contains(&"red")
    {
        return barrier(&words).map(|text| (text, Hints::NONE));
    }
    let rank = rank_of(&words)?;
    let (mut hints, mut found) = (Hints::NONE, false);
    let mut kept: Vec<&str> = Vec::with_capacity(words.len() + 1);
    for word in words {
        match hints.add(word) {
            true => found = true,
            // Memory of other devices is not modelled: such an access is an ordinary relaxed one.
            false if word == "mmio" => {}
            false => kept.push(word),
        }
    }
    if found && !takes_hints(kept[0], &kept) {
        return None;
    }
    kept[1..].sort_by_key(|word| rank(word));
    match kept[0] {
        // An atomic with a scope and no other ordering is relaxed.
        "atom" | "red" if Scope::from_name(kept.get(1).unwrap_or(&"")).is_some() => kept.insert(1, "relaxed"),
        "ldu" => kept[0] = "ld",
        // A multiply-add of floats is fused.
        "mad" if matches!(kept.last(), Some(&"f32" | &"f64")) => kept[0] = "fma",
        "cp" => kept.iter_mut().filter(|word| **word == "shared::cta").for_each(|word| *word = "shared"),
        _ => {}
    }
    let text = kept.join(".");
    (found || text != mnemonic).then_some((text, hints))
}

/// A barrier that reduces: `bar.red` is `barrier.red.aligned`, and `.cta` may be left out.
fn barrier(words: &[&str]) -> Option<String> {
    let kept = words[1..].iter().copied().filter(|word| !matches!(*word, "cta" | "aligned"));
    let aligned = words[0] == "bar" || words.contains(&"aligned");
    let first = if aligned { "bar" } else { "barrier" };
    let text = std::iter::once(first).chain(kept).collect::<Vec<_>>().join(".");
    (text != words.join(".")).then_some(text)
}

/// Whether memory accesses that start with these words have hints.
fn takes_hints(first: &str, words: &[&str]) -> bool {
    match first {
        "ld" | "st" | "atom" | "red" => true,
        _ => matches!(words, ["cp", "async", "ca" | "cg", ..]),
    }
}

type Rank = fn(&str) -> u8;

/// The order of the modifiers of an instruction, if it is known and may vary.
fn rank_of(words: &[&str]) -> Option<Rank> {
    Some(match words {
        ["ld" | "ldu" | "st" | "atom" | "red", second, ..] if *second != "async" => of_access,
        ["cp", "async", "ca" | "cg", ..] => |word| u8::from(word.starts_with("L2::")),
        ["ldmatrix" | "stmatrix" | "mma" | "shfl" | "vote" | "redux", ..] => of_warp,
        ["wmma", ..] => of_wmma,
        ["fence", "acq_rel" | "sc" | "acquire" | "release" | "cta" | "cluster" | "gpu" | "sys", ..] => of_access,
        ["mbarrier", "test_wait" | "try_wait" | "arrive" | "arrive_drop" | "expect_tx" | "complete_tx", ..] => {
            of_barrier
        }
        [
            "add" | "sub" | "mul" | "fma" | "mad" | "div" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos"
            | "tanh" | "min" | "max" | "abs" | "neg" | "cvt" | "setp" | "set",
            ..,
        ] => of_arithmetic,
        _ => return None,
    })
}

fn of_access(word: &str) -> u8 {
    match word {
        "weak" | "volatile" | "relaxed" | "acquire" | "release" | "acq_rel" | "sc" | "mmio" => 0,
        word if Scope::from_name(word).is_some() => 1,
        word if Space::from_name(word).is_some() => 2,
        word if Atomic::from_name(word).is_some() => 3,
        "noftz" => 4,
        word if word.starts_with("L2::") => 5,
        "v2" | "v4" | "v8" => 6,
        word if Type::from_name(word).is_some() => 7,
        // Cache operators.
        _ => 3,
    }
}

fn of_wmma(word: &str) -> u8 {
    match word {
        "row" | "col" => 1,
        word if word.starts_with('m') && word.contains('n') && word.contains('k') => 2,
        word if Space::from_name(word).is_some() || Rounding::from_name(word).is_some() => 3,
        word if Type::from_name(word).is_some() => 4,
        _ => 0,
    }
}

fn of_barrier(word: &str) -> u8 {
    match word {
        "b64" => 3,
        word if Space::from_name(word).is_some() => 2,
        word if Scope::from_name(word).is_some() => 1,
        "acquire" | "release" | "relaxed" => 1,
        _ => 0,
    }
}

fn of_warp(word: &str) -> u8 {
    match word {
        "sync" => 0,
        "aligned" => 1,
        word if word.starts_with('m') && word.contains('n') => 2,
        word if word.starts_with('x') && word.len() == 2 => 3,
        "trans" => 4,
        word if Space::from_name(word).is_some() => 5,
        word if Type::from_name(word).is_some() => 7,
        _ => 3,
    }
}

fn of_arithmetic(word: &str) -> u8 {
    match word {
        "lo" | "hi" | "wide" | "approx" | "full" => 0,
        word if Compare::from_name(word).is_some() => 0,
        word if Rounding::from_name(word).is_some() => 1,
        "and" | "or" | "xor" => 1,
        "ftz" => 2,
        "sat" | "satfinite" | "NaN" | "cc" | "pack" => 3,
        "relu" => 4,
        word if Type::from_name(word).is_some() => 7,
        _ => 5,
    }
}

/// Inserts the hints of an access into its mnemonic: before the prefetch size, the vector and the type, or at the end.
pub(super) fn hinted(plain: &str, hints: Hints) -> String {
    let words: Vec<&str> = plain.split('.').collect();
    let last = |word: &&str| {
        word.starts_with("L2::") || matches!(*word, "v2" | "v4" | "v8") || Type::from_name(word).is_some()
    };
    let at = words.iter().skip(1).position(last).map_or(words.len(), |at| at + 1);
    let hints: Vec<&str> = hints.words().collect();
    [&words[..at], &hints, &words[at..]].concat().join(".")
}
