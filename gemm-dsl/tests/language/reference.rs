//! The reference agrees with the rules and the grammar.

use ptx_gemm_dsl::diagnostic::Kind;
use ptx_gemm_dsl::reference::{self, Entry, State, schedules, state};
use ptx_gemm_dsl::repair::diagnose;
use ptx_gemm_dsl::table::{ALL, Argument, Info, Values};

/// Rules about a single value.
const VALUES: [&str; 5] = ["range", "width", "integer", "unknown-word", "word"];

/// Whether a value in place of the template's holes is rejected for its own sake.
fn refused(Argument { name, template, .. }: &Argument, value: &str) -> bool {
    let clause = template.replace("{}", value);
    let said = diagnose(&clause, None);
    let own = said.errors().filter(|error| VALUES.contains(&error.rule));
    let wrong: Vec<String> = own.map(ToString::to_string).collect();
    assert!(wrong.iter().all(|message| !message.is_empty()), "{name}: {clause}");
    !wrong.is_empty()
}

/// Legal values, and some just outside.
fn samples(values: &Values) -> (Vec<String>, Vec<String>) {
    let text = |numbers: Vec<u32>| numbers.iter().map(u32::to_string).collect::<Vec<_>>();
    match values {
        Values::Range(range) => {
            let (low, high) = (*range.start(), *range.end());
            (
                text(vec![low, low + 1, high - 1, high]),
                text([low.checked_sub(1), Some(high + 1)].into_iter().flatten().collect()),
            )
        }
        Values::Powers(range) => {
            let (low, high) = (*range.start(), *range.end());
            (text(vec![low, 2 * low, 4, high / 2, high]), text(vec![low - 1, 3, high - 1, high + 1, 2 * high]))
        }
        Values::Multiples(of, range) => {
            let (low, high) = (*range.start(), *range.end());
            (text(vec![low, low + of, high]), text(vec![low - of, low + 1, high - 1, high + of]))
        }
        Values::OneOf(all) => {
            (text(all.to_vec()), text(all.iter().map(|n| n + 1).chain([all[0] / 2, all[all.len() - 1] * 2]).collect()))
        }
        Values::Words(words) => (words().into_iter().map(|(word, _)| word.into()).collect(), vec!["qqqqqq".into()]),
        Values::Text(_) => (Vec::new(), Vec::new()),
    }
}

#[test]
fn stated_values_are_legal_and_those_just_outside_are_not() {
    let mut tried = 0;
    for (info, argument) in ALL.iter().flat_map(|info| info.arguments.iter().map(move |argument| (info, argument))) {
        let (legal, illegal) = samples(&argument.values);
        assert_eq!(argument.template.is_empty(), matches!(argument.values, Values::Text(_)), "{}", info.name);
        for value in &legal {
            assert!(!refused(argument, value), "{}: {} = {value} is stated, and refused", info.name, argument.name);
        }
        for value in &illegal {
            assert!(refused(argument, value), "{}: {} = {value} is not stated, and legal", info.name, argument.name);
        }
        tried += legal.len() + illegal.len();
    }
    assert!(tried > 150, "only {tried} values");
}

/// The kinds of errors of a text.
fn kinds(text: &str) -> Vec<Kind> {
    diagnose(text, None).errors().map(|error| error.kind).collect()
}

#[test]
fn examples_are_legal_and_use_their_clause() {
    for info in ALL {
        let [base, example] = schedules(info);
        let uses = |clause: &str| example.lines().any(|line| line.trim_end_matches(';') == clause);
        assert!(info.example.split("; ").all(uses), "{}: {example}", info.name);
        let errors = kinds(&example);
        match state(info) {
            State::NotYet => {
                assert!(errors.contains(&Kind::NotImplemented), "{} says that it does not work", info.name);
                assert!(
                    errors.iter().all(|kind| *kind == Kind::NotImplemented),
                    "{example}{}",
                    diagnose(&example, None)
                );
            }
            _ => {
                assert!(errors.is_empty(), "{}: {example}{}", info.name, diagnose(&example, None));
                assert!(kinds(&base).is_empty(), "{}: {base}", info.name);
            }
        }
    }
}

/// The reference asks [`implemented`](../../src/implemented.rs) about single words, the rules about schedules.
#[test]
fn words_that_are_said_to_work_are_not_refused_as_missing() {
    for (info, argument) in ALL.iter().flat_map(|info| info.arguments.iter().map(move |argument| (info, argument))) {
        let Values::Words(words) = &argument.values else { continue };
        for (word, works) in words() {
            let schedule = format!("{}; {}", info.base, argument.template.replace("{}", word));
            let missing = kinds(&schedule).contains(&Kind::NotImplemented);
            let whole = state(info) == State::NotYet;
            assert!(missing || works || whole, "{schedule} is said not to work");
            // Other clauses that this clause needs may be missing as well.
            let alone = !info.base.contains("mma") && info.name != "specialize";
            assert!(!(missing && works && alone && !whole), "{schedule} is said to work");
        }
    }
}

#[test]
fn rows_are_complete_and_short() {
    for Info { name, summary, meaning, default, signature, .. } in ALL {
        assert!(!summary.is_empty() && summary.len() < 80 && !summary.ends_with('.'), "{name}: {summary}");
        assert!(meaning.trim().ends_with('.'), "{name}: {meaning}");
        assert!(!default.is_empty() && !default.ends_with('.') && signature.starts_with(name), "{name}");
    }
    let overview = reference::overview();
    assert!(ALL.iter().all(|info| overview.lines().any(|line| line.starts_with(info.name))), "{overview}");
}

#[test]
fn names_are_found_and_misspelt_ones_suggested() {
    assert!(matches!(reference::find("tile"), Ok(Entry::Clause(info)) if info.name == "tile"));
    assert!(matches!(reference::find("stages(3)"), Ok(Entry::Clause(info)) if info.name == "stages"));
    assert!(matches!(reference::find("targets"), Ok(Entry::Topic(topic)) if topic.name == "targets"));
    assert!(matches!(reference::find("cp_async"), Ok(Entry::Clause(info)) if info.name == "load"));
    assert!(matches!(reference::find("producers"), Ok(Entry::Clause(info)) if info.name == "specialize"));
    assert!(matches!(reference::find("wgmma"), Ok(Entry::Clause(info)) if info.name == "atom"));
    assert!(matches!(reference::find("KiB"), Ok(Entry::Clause(info)) if info.name == "expect"));
    assert!(matches!(reference::find("relu"), Ok(Entry::Topic(topic)) if topic.name == "epilogue"));
    assert!(matches!(reference::find("fp8"), Err(Some("e4m3"))));
    assert!(matches!(reference::find("WarpShape"), Err(Some("warp"))));
    // `store` takes it as well.
    assert!(matches!(reference::find("tma"), Err(Some("load"))));
    assert!(matches!(reference::find("tiel"), Err(Some("tile"))));
    assert!(matches!(reference::find("epilog"), Err(Some("epilogue"))));
    assert!(matches!(reference::find("zzz"), Err(None)));
}
