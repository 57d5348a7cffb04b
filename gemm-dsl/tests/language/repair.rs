//! Fixes applied to text, and schedules in their canonical form: comments stay.

use ptx_gemm_dsl::format::format;
use ptx_gemm_dsl::repair::{diagnose, repair};

#[track_caller]
fn repaired(text: &str, wanted: &str) {
    let repair = repair(text, None);
    assert_eq!(repair.text, wanted, "{}", repair.left);
    assert!(repair.is_legal(), "{}", repair.left);
    assert!(!repair.changes.is_empty());
}

#[test]
fn a_fix_changes_what_it_is_about_and_keeps_comments() {
    // A word, a number, a name of an argument, a missing semicolon.
    repaired("tiel(128, 128, 8); thread(8, 8);", "tile(128, 128, 8); thread(8, 8);");
    repaired("tile(128, 128, 0x8); thread(8, 2*4);", "tile(128, 128, 8); thread(8, 8);");
    repaired("tile(64, 64, 8); thread(8, 8); raster(grop = 8)", "tile(64, 64, 8); thread(8, 8); raster(group = 8)");
    repaired("tile(64, 64, 8) // block\nthread(8, 8);", "tile(64, 64, 8); // block\nthread(8, 8);");
    // A clause that replaces another of its kind, in the same position.
    let wrong = "tile(128, 128, 8); // block\nthread(8, 7); // registers\nstages(2);\n";
    repaired(wrong, "tile(128, 128, 8); // block\nthread(8, 8); // registers\nstages(2);\n");
    // A clause that was given twice.
    repaired(
        "tile(64, 64, 8);\nthread(8, 8);\n\n// again\ntile(64, 64, 8);\n",
        "tile(64, 64, 8);\nthread(8, 8);\n\n// again\n",
    );
    // A clause left out, with its line, or within one.
    repaired(
        "tile(64, 64);\nthread(4, 4);\nshared(none);\ndouble_buffer;\nvector(4);\n",
        "tile(64, 64);\nthread(4, 4);\nshared(none);\nvector(4);\n",
    );
    repaired(
        "tile(64, 64); thread(4, 4); shared(none); double_buffer; vector(4);",
        "tile(64, 64); thread(4, 4); shared(none); vector(4);",
    );
    // A clause that is missing, after the last, and after a comment about the last.
    repaired("tile(128, 128, 8);", "tile(128, 128, 8); thread(8, 8);");
    repaired(
        "tile(128, 128, 8); // block\nvector(4) // wide",
        "tile(128, 128, 8); // block\nvector(4); // wide\nthread(8, 8);",
    );
    repaired("// nothing yet\n", "// nothing yet\ntile(128, 128, 8);\nthread(8, 8);\n");
    // An undeclared name, and one that is misspelt.
    let plain = "tile(64, 64, 8); thread(4, 4); ";
    repaired(
        &format!("{plain}epilogue(|acc| gain * acc + b[n]);"),
        &format!("{plain}epilogue(|acc, gain, b| gain * acc + b[n]);"),
    );
    repaired(
        &format!("{plain}epilogue(|acc, alpha| alhpa * acc);"),
        &format!("{plain}epilogue(|acc, alpha| alpha * acc);"),
    );
    // Two operands that TMA would have to transpose: both orders change, and not the kind of copy.
    let turned = "tile(128, 128, 16); thread(8, 8); shared(a = km, b = nk); load(tma); stages(3);";
    repaired(turned, &turned.replace("a = km, b = nk", "a = mk, b = kn"));
    // What is not implemented is left out.
    let doubles = "types(f64); tile(64, 64, 8); thread(4, 4); ";
    repaired(&format!("{doubles}epilogue(|acc| tanh(acc));"), doubles.trim_end());
}

#[test]
fn what_has_no_fix_stays_as_it_is() {
    for text in [
        "tile(128, 128, 8); thread(8, 8); frobnicate(3);",
        "tile(128, 128, 8",
        "tile(128, 128, 8); thread(8, 8); ..base",
    ] {
        let repair = repair(text, None);
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
