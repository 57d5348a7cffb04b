//! The fixes that random wrong schedules are offered: each leads to a legal schedule or to fewer errors, and a repair keeps what
//! is computed, the contracts and the target.
//!
//! `gemmc fuzz --fixes` counts more of them, by rule.

use ptx_gemm_check::draws::Fixes;

/// The number of fixes that are tried.
const FIXES: usize = 400;

#[test]
fn every_offered_fix_leaves_fewer_errors_and_keeps_what_is_asked_for() {
    let mut fixes = Fixes::default();
    let mut seed = 20_000;
    while fixes.total().offered < FIXES {
        fixes.add(seed);
        seed += 1;
    }
    assert!(fixes.useless.is_empty(), "{:#?}", fixes.useless);
    assert!(fixes.unasked.is_empty(), "{:#?}", fixes.unasked);
    let total = fixes.total();
    assert_eq!(total.legal + total.fewer, total.offered);
    // This fails if the generator or the language offers too few fixes, which would make the test easy.
    assert!(fixes.rules.values().filter(|rule| rule.offered > 0).count() >= 25, "{:?}", fixes.rules);
    assert!(2 * total.offered > total.errors, "{total:?}");
}
