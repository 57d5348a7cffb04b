//! Fixes applied to text, and schedules in canonical form. Comments stay.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ptx_gemm_dsl::diagnostic::Edit;
use ptx_gemm_dsl::format::format;
use ptx_gemm_dsl::repair::{Repair, Repaired, Scope, diagnose, repair};
use ptx_gemm_dsl::{Diagnostic, Diagnostics, Target};

use crate::generate;
use crate::wrong::WRONG;

#[track_caller]
fn repaired(text: &str, wanted: &str) {
    repaired_by(Scope::Method, text, wanted);
}

#[track_caller]
fn repaired_by(scope: Scope, text: &str, wanted: &str) {
    let repair = repair(text, None, scope);
    assert_eq!(repair.text, wanted, "{}", repair.left);
    assert!(repair.is_legal(), "{}", repair.left);
    assert!(!repair.changes.is_empty());
}

#[test]
fn a_fix_changes_what_it_is_about_and_keeps_comments() {
    // A word, a number, an argument name, a missing semicolon.
    repaired("tiel(128, 128, 8); thread(8, 8);", "tile(128, 128, 8); thread(8, 8);");
    repaired("tile(128, 128, 0x8); thread(8, 2*4);", "tile(128, 128, 8); thread(8, 8);");
    repaired("tile(64, 64, 8); thread(8, 8); raster(grop = 8)", "tile(64, 64, 8); thread(8, 8); raster(group = 8)");
    repaired("tile(64, 64, 8) // block\nthread(8, 8);", "tile(64, 64, 8); // block\nthread(8, 8);");
    // A clause that replaces another one of its kind, in the same position.
    let wrong = "tile(128, 128, 8); // block\nthread(8, 7); // registers\nstages(2);\n";
    repaired(wrong, "tile(128, 128, 8); // block\nthread(8, 8); // registers\nstages(2);\n");
    // A clause given twice.
    repaired(
        "tile(64, 64, 8);\nthread(8, 8);\n\n// again\ntile(64, 64, 8);\n",
        "tile(64, 64, 8);\nthread(8, 8);\n\n// again\n",
    );
    repaired(
        "tile(64, 64, 8); thread(8,/* m */8); expect { spills = 0, threads = 64 } expect { spills = 0; threads = 64 } thread(8, 8);",
        "tile(64, 64, 8); thread(8,/* m */8); expect { spills = 0, threads = 64 }",
    );
    // Two spellings at the same place.
    repaired("tile(64, 64, 8); setages = 2; thread(8, 8);", "tile(64, 64, 8); stages(2); thread(8, 8);");
    // A clause left out, with its line or within a line.
    repaired(
        "tile(64, 64);\nthread(4, 4);\nshared(none);\ndouble_buffer;\nvector(4);\n",
        "tile(64, 64);\nthread(4, 4);\nshared(none);\nvector(4);\n",
    );
    repaired(
        "tile(64, 64); thread(4, 4); shared(none); double_buffer; vector(4);",
        "tile(64, 64); thread(4, 4); shared(none); vector(4);",
    );
    // A missing clause, after the last clause and after a comment about it.
    repaired("tile(128, 128, 8);", "tile(128, 128, 8); thread(8, 8);");
    repaired(
        "tile(128, 128, 8); // block\nvector(4) // wide",
        "tile(128, 128, 8); // block\nvector(4); // wide\nthread(8, 8);",
    );
    repaired("// nothing yet\n", "// nothing yet\ntile(128, 128, 8);\nthread(8, 8);\n");
    // An undeclared name, and a misspelt one.
    let plain = "tile(64, 64, 8); thread(4, 4); ";
    repaired_by(
        Scope::All,
        &format!("{plain}epilogue(|acc| gain * acc + b[n]);"),
        &format!("{plain}epilogue(|acc, gain, b| gain * acc + b[n]);"),
    );
    repaired_by(
        Scope::All,
        &format!("{plain}epilogue(|acc, alpha| alhpa * acc);"),
        &format!("{plain}epilogue(|acc, alpha| alpha * acc);"),
    );
    // Two operands that TMA would have to transpose: both orders change, but not the kind of copy.
    let turned = "tile(128, 128, 16); thread(8, 8); shared(a = km, b = nk); load(tma); stages(3);";
    repaired(turned, &turned.replace("a = km, b = nk", "a = mk, b = kn"));
}

/// If only another problem, contract or target would help, a repair leaves the text unchanged. On request it changes
/// them and reports the changes.
#[test]
fn what_is_asked_for_changes_only_on_demand() {
    const WGMMA: &str = "tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); ";
    const FMA: &str = "tile(128, 128, 16); thread(8, 8); ";
    for (how, clause, told) in [
        (FMA, "types(f64); epilogue(|acc| gelu(acc));", "epilogue(|acc| gelu(acc)) is left out"),
        (FMA, "types(i8, acc = f32);", "types(i8, acc = f32) became types(i8, acc = i32)"),
        (FMA, "types(f16, acc = f16);", "types(f16, acc = f16) became types(f16, acc = f32)"),
        (WGMMA, "types(a = bf16, b = f16);", "types(a = bf16, b = f16) became types(bf16)"),
        (
            "tile(128, 128, 64); thread(8, 8); ",
            "target(sm_75); expect { occupancy >= 50 % }",
            "expect { occupancy >= 50 % } became expect { occupancy >= 25 % }",
        ),
        (FMA, "expect { shared <= 1024 }", "expect { shared <= 1024 } became expect { shared <= 16 KiB }"),
        (FMA, "expect { occupancy >= 150 % }", "expect { occupancy >= 150 % } is left out"),
        // The intended meaning of the word is uncertain.
        (FMA, "types(double);", "types(double) became types(f64)"),
        (FMA, "tpes(f64);", "tpes(f64) became types(f64)"),
        (FMA, "target(sm_91);", "target(sm_91) became target(sm_90)"),
        (FMA, "epilogue(|acc| rleu(acc));", "epilogue(|acc| rleu(acc)) became epilogue(|acc| relu(acc))"),
        (FMA, "epilogue(|acc| gain * acc);", "epilogue(|acc| gain * acc) became epilogue(|acc, gain| gain * acc)"),
        (FMA, "expect { spils = 0 }", "expect { spils = 0 } became expect { spills = 0 }"),
        (FMA, "types(f32); types(f64);", "types(f32); types(f64) became types(f32)"),
    ] {
        let text = format!("{how}{clause}");
        let plain = repair(&text, None, Scope::Method);
        let all = repair(&text, None, Scope::All);
        let said: Vec<String> = all.changes.iter().flat_map(|c| &c.given).map(ToString::to_string).collect();
        assert_eq!((&plain.text, plain.changes.len(), plain.withheld().count()), (&text, 0, 1), "{}", plain.left);
        assert_eq!(said, [told], "{}", all.text);
        assert!(all.is_legal(), "{}", all.left);
    }
    let on_80 = "tile(64, 64, 8); thread(4, 4); target(sm_80);";
    assert_eq!(repair(on_80, Some(Target::SM_90), Scope::Method).text, on_80);
    let all = repair(on_80, Some(Target::SM_90), Scope::All);
    assert_eq!(all.changes[0].given[0].to_string(), "target(sm_80) became target(sm_90)");
    // Of two clauses with one misspelt, the intended one is uncertain.
    let twice = "tile(64, 64, 8); thread(4, 4); target(sm_90a); target(sm_33a);";
    assert_eq!(repair(twice, None, Scope::Method).text, twice);
    // A clause repeated word for word is harmless.
    repaired("types(f64); tile(64, 64, 8); thread(4, 4); types(f64);", "types(f64); tile(64, 64, 8); thread(4, 4);");
    // If another way to compute the same product helps, that is the fix.
    let [on_120, f32] = [format!("{WGMMA}types(bf16); target(sm_120);"), WGMMA.trim_end().to_string()];
    repaired(&on_120, &on_120.replace("wgmma(64, 128, 16)", "mma(16, 8, 16)").replace("120);", "120); warp(64, 64);"));
    let kept = repair(&f32, None, Scope::Method);
    assert!(kept.is_legal() && !kept.text.contains("types"), "{}", kept.text);
}

#[test]
fn what_has_no_fix_stays_as_it_is() {
    for text in [
        "tile(128, 128, 8); thread(8, 8); frobnicate(3);",
        "tile(128, 128, 8",
        "tile(128, 128, 8); thread(8, 8); ..base",
    ] {
        let repair = repair(text, None, Scope::All);
        assert_eq!((repair.text.as_str(), repair.changes.len(), repair.is_legal()), (text, 0, false));
    }
}

#[test]
fn all_errors_are_told_although_words_are_misspelt() {
    let said = diagnose("tile(128, 128, 8); thred(8, 7); stagse(9);", None);
    let rules: Vec<&str> = said.errors().map(|error| error.rule).collect();
    assert_eq!(rules, ["unknown-clause", "divide", "unknown-clause", "register-stages"], "{said}");
}

#[test]
fn the_canonical_form_keeps_comments_and_says_the_same() {
    let check = |text: &str, wanted: &str| {
        let formatted = format(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(formatted, wanted);
        assert_eq!(format(&formatted).unwrap(), wanted, "twice is once");
        let read = |text: &str| text.parse::<ptx_gemm_dsl::Schedule>().unwrap();
        assert_eq!(read(text), read(wanted));
    };
    check("tile(128,128,8);thread( 8 , 8 )", "tile(128, 128, 8);\nthread(8, 8);\n");
    check(
        "  // one\n\n\n\n/* two */ tile(64,64,8)/* three */; // four\n",
        "// one\n\n/* two */\ntile(64, 64, 8); /* three */ // four\n",
    );
    check(
        "tile(64, /* deep */ 64, 8);\n\n;\n; thread(8,8,); // end",
        "tile(64, /* deep */ 64, 8);\n\nthread(8, 8); // end\n",
    );
    check(
        "tile(64,64,8); expect{threads=64;shared<=8  KiB} // held\nthread(8,8)",
        "tile(64, 64, 8);\nexpect { threads = 64; shared <= 8 KiB } // held\nthread(8, 8);\n",
    );
    check("", "");
}

#[test]
fn what_cannot_be_read_has_no_canonical_form() {
    assert!(format("tile(64, 64, 8); tread(8, 8)").unwrap_err().to_string().contains("unknown clause"));
}

/// The clauses of a text that state the problem, the contracts, the target and what to choose for, without duplicates and found without the
/// grammar.
fn given(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let uncommented: String =
        text.lines().map(|line| line.split("//").next().unwrap_or("").to_string() + "\n").collect();
    for name in ["types", "layout", "epilogue", "batch", "target", "expect", "shape", "gpu"] {
        for (at, _) in uncommented.match_indices(name) {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let inside = uncommented[..at].chars().next_back().is_some_and(word);
            let after = uncommented[at + name.len()..].trim_start();
            if inside || !after.starts_with(['(', '{']) {
                continue;
            }
            let mut depth = 0;
            let closed = after.find(|c: char| {
                depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
                depth == 0
            });
            found.insert(format!("{name}{}", &after[..closed.map_or(after.len(), |at| at + 1)]));
        }
    }
    found
}

/// The faults of a repair: it changes the user's request without permission or without a report, or it applies a fix
/// other than the one shown.
fn faults(text: &str) -> Vec<String> {
    let shown = diagnose(text, None);
    let mut faults = unnamed(&shown);
    for scope in [Scope::Method, Scope::All] {
        let repair = repair(text, None, scope);
        let changes = given(&repair.text) != given(text);
        if changes && scope == Scope::Method {
            faults.push(format!("changes what is given: {}", repair.text));
        }
        if changes != repair.changes.iter().any(|change| !change.given.is_empty()) {
            faults.push(format!("does not tell what it changes: {}\n{:?}", repair.text, repair.changes));
        }
        faults.extend(unlike(&shown, &repair));
    }
    faults.into_iter().map(|fault| format!("{text}\n  {fault}")).collect()
}

/// Applied fixes that differ from the one shown for the same error.
fn unlike(shown: &Diagnostics, repair: &Repair) -> Vec<String> {
    let mut faults = Vec::new();
    for Repaired { error, .. } in &repair.changes {
        let same = |other: &&Diagnostic| (other.rule, &other.message) == (error.rule, &error.message);
        let before: Vec<_> = shown.errors().filter(same).filter_map(|other| other.fix.as_ref()).collect();
        if !before.is_empty() && !before.iter().any(|fix| Some(*fix) == error.fix.as_ref()) {
            faults.push(format!("applies another fix than is shown: {before:?}, {error:?}"));
        }
    }
    faults
}

/// Fixes that the help does not name.
fn unnamed(shown: &Diagnostics) -> Vec<String> {
    let names = |error: &Diagnostic| {
        let (Some(fix), help) = (&error.fix, error.help.as_deref().unwrap_or_default()) else { return true };
        match &fix.edit {
            Edit::Spell(text) if text.starts_with("; ") => help.contains("semicolon"),
            // The declared names are the change.
            Edit::Set(text) if error.rule == "undeclared" => {
                help.rsplit("declare it: ").next().is_some_and(|n| text.contains(n))
            }
            Edit::Spell(text) | Edit::Set(text) => help.contains(text),
            Edit::Remove(name) => ["leave", "leaving"].iter().any(|word| help.contains(&format!("{word} {name}"))),
        }
    };
    shown.errors().filter(|error| !names(error)).map(|error| format!("help without the fix: {error:?}")).collect()
}

#[test]
fn repairs_of_wrong_schedules_are_faithful() {
    let faults: Vec<String> = WRONG.iter().flat_map(|text| faults(text)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let changes: usize = WRONG.iter().map(|text| repair(text, None, Scope::Method).changes.len()).sum();
    assert!(changes > 150, "only {changes} changes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn repairs_of_any_clauses_are_faithful(schedule in generate::anything()) {
        let faults = faults(&schedule.to_string());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
