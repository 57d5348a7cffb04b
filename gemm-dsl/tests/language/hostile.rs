//! Hostile text: long, deeply nested, repetitive. Each text gets a quick answer.

use std::time::{Duration, Instant};

use ptx_gemm_dsl::{Diagnostics, Schedule};

fn diagnostics(text: &str) -> Diagnostics {
    let start = Instant::now();
    let said = match Schedule::parse(text).and_then(|schedule| schedule.check()) {
        Ok(said) | Err(said) => said,
    };
    // Far more than an answer takes while other tests run, and less than quadratic time.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?} for {}", start.elapsed(), &text[..40.min(text.len())]);
    said
}

fn answer(text: &str) -> String {
    diagnostics(text).to_string()
}

#[test]
fn long_text_is_refused_and_the_longest_is_read() {
    let clause = "stream_k;";
    assert!(answer(&clause.repeat(8000)).contains("the schedule is longer than 65536 bytes, the most that are read"));
    assert!(answer(&clause.repeat(7000)).contains("stream_k is given twice"));
    assert!(answer(&"a;".repeat(32_000)).contains("and 31938 more"));
    assert!(answer(&"x".repeat(65_000)).contains("unknown clause"));
    assert!(answer(&"tile(0,0,0);".repeat(5000)).contains("m = 0, at least 1"));
}

/// Only the beginning of a 20 KB word is shown, wherever it occurs.
#[test]
fn long_words_are_abridged() {
    let word = "x".repeat(20_000);
    for text in [
        format!("{word};"),
        format!("{word}(3);"),
        format!("{word}!"),
        format!("tile({word}, 8, 8);"),
        format!("tile(8, 8, {});", "9".repeat(20_000)),
        format!("tile(8, 8, 8); tile({word} = 8);"),
        format!("types({word});"),
        format!("atom({word});"),
        format!("expect {{ {word} = 0 }}"),
        format!("epilogue(|acc| {word} * acc)"),
        format!("epilogue(|acc| {word}(acc))"),
        format!("epilogue(|acc, {word}| {word}[n] * {word})"),
        format!("epilogue(|acc| acc {word})"),
        format!("epilogue(|acc| {})", "9".repeat(20_000)),
        format!("tile(8, 8, 8); thread(1, 1); epilogue(|acc, {word}| acc)"),
    ] {
        let said = diagnostics(&text);
        assert!(!said.is_empty(), "{}", &text[..60]);
        for diagnostic in &said {
            let length = diagnostic.to_string().len() + diagnostic.clause.len();
            assert!(length < 400, "{length} bytes about {}: {}", &text[..60], &diagnostic.message[..100]);
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    let nested = |depth: usize| format!("tile{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(answer(&nested(65)).contains("nested more than 64 deep"));
    assert!(answer(&nested(30_000)).contains("nested more than 64 deep"));
    assert!(!answer(&nested(64)).contains("nested"));
    assert!(answer(&"/*".repeat(30_000)).contains("never closed"));
}

#[test]
fn endless_epilogues_are_refused() {
    let sum = format!("epilogue(|acc| acc{})", " + acc".repeat(10_000));
    assert!(answer(&sum).contains("more than 256 parts"));
    let signs = format!("epilogue(|acc| {}acc)", "-".repeat(60_000));
    assert!(answer(&signs).contains("more than 256 parts"));
    let depth = 60;
    let calls = format!("epilogue(|acc| {}acc{})", "relu(".repeat(depth), ")".repeat(depth));
    assert!(answer(&calls).contains("no tile"));
}
