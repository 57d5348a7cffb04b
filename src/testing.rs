//! Tests of your own kernels, one line each. They require the feature `testing`, which is meant for dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! ptx-gemm = { version = "0.1", features = ["testing"] }
//!
//! # The interpreter runs in these tests; unoptimised it is some 40 times slower.
//! [profile.dev.package."*"]
//! opt-level = 2
//! ```
//!
//! ```
//! use ptx_gemm::testing::{assert_contracts, assert_correct, assert_no_races};
//! use ptx_gemm::{Gemm, gemm};
//!
//! fn kernel() -> Gemm {
//!     gemm! { tile(16, 16, 4); thread(2, 2); double_buffer; expect { loads_per_fma <= 1.2 } }
//! }
//!
//! // In #[test] functions; `assert_ptx_snapshot!(kernel())` belongs there as well.
//! assert_correct!(kernel());                              // every size at which kernels go wrong
//! assert_correct!(kernel(), [(33, 31, 65), (1, 1, 0)]);   // these
//! assert_no_races!(kernel());                             // every check of the interpreter, in several orders
//! assert_contracts!(kernel());                            // what the schedule expects of itself
//! assert_contracts!(kernel(), { bank_conflicts <= 1 });   // and what the test does
//! ```
//!
//! Each takes a [`Gemm`], a [`TileProgram`], a [`CompiledGemm`], a reference to one, or the `Result` of making one. None
//! needs a GPU; a `CompiledGemm` is run where it was compiled for, so that `assert_correct!(kernel.on(&device))` tests a GPU.
//!
//! `gemmc new` makes a crate with such tests.

mod subject;

use std::fmt::Write;

use ptx_gemm_check::exec::Orders;
use ptx_gemm_check::{Finding, Survey, abridge, edge_sizes, quick_sizes, survey};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_interp::Options;
use ptx_gemm_runtime::{Contract, Device, InterpreterOptions};

#[doc(hidden)]
pub use insta;
pub use ptx_gemm_check::Size;
pub use subject::{HasPtx, Subject};

#[cfg(doc)]
use crate::{CompiledGemm, Gemm, TileProgram};
#[doc(inline)]
pub use crate::{assert_contracts, assert_correct, assert_no_races, assert_ptx_snapshot};

/// The number of wrong products that a message shows; the others are only counted.
const SHOWN: usize = 3;

/// The environment variable that permits contracts which cannot be checked on this machine.
const UNCHECKED: &str = "PTX_GEMM_UNCHECKED";

/// Compares the PTX with a snapshot next to the test (`snapshots/*.snap`, reviewed with `cargo insta review`).
///
/// Runs of similar lines are abridged, and the last line is a digest of the whole text, so that a snapshot stays short
/// and no changed instruction goes unnoticed. Every line names the clause that it comes from, and therefore so does a
/// difference. A name may be given first, as for `insta::assert_snapshot!`. Text is accepted as well, such as
/// `kernel.ptx(Target::SM_90A)`.
#[macro_export]
macro_rules! assert_ptx_snapshot {
    ($name:expr, $kernel:expr $(,)?) => {{
        let text = $crate::testing::snapshot_of(&$kernel).unwrap_or_else(|why| ::core::panic!("{why}"));
        let _settings = $crate::testing::snapshot_settings().bind_to_scope();
        $crate::testing::insta::assert_snapshot!($name, text);
    }};
    ($kernel:expr $(,)?) => {{
        let text = $crate::testing::snapshot_of(&$kernel).unwrap_or_else(|why| ::core::panic!("{why}"));
        let _settings = $crate::testing::snapshot_settings().bind_to_scope();
        $crate::testing::insta::assert_snapshot!(text);
    }};
}

/// Multiplies and compares every element with a reference in f64 and the bound of its rounding errors: with exact data
/// (the bound is 0), random data, NaN and infinities, aligned and padded rows, and with C separate from D and in place.
///
/// The default sizes are those at which kernels go wrong: around tiles, fragments, vectors and the depth of the
/// pipeline of each entry. Other sizes can be given as `[(m, n, k), …]`. A size at which no element can be compared is
/// a failure, as with an epilogue that divides integers by 0. So is a list of sizes without any element.
#[macro_export]
macro_rules! assert_correct {
    ($kernel:expr $(,)?) => {
        $crate::testing::correct(&$kernel, ::core::option::Option::None).unwrap_or_else(|why| ::core::panic!("{why}"))
    };
    ($kernel:expr, $sizes:expr $(,)?) => {{
        let sizes: ::std::vec::Vec<$crate::testing::Size> =
            ::core::iter::IntoIterator::into_iter($sizes).map(::core::convert::Into::into).collect();
        $crate::testing::correct(&$kernel, ::core::option::Option::Some(&sizes))
            .unwrap_or_else(|why| ::core::panic!("{why}"))
    }};
}

/// Checks a schedule against its contracts (`expect { … }`), and against further ones that are written after it in
/// braces.
///
/// Contracts about machine code (`registers`, `spills`, `code_bytes`) need ptxas, in `$PTXAS` or the path, or a GPU.
/// With neither, the assertion fails unless the environment has `PTX_GEMM_UNCHECKED=allow`.
#[macro_export]
macro_rules! assert_contracts {
    ($kernel:expr $(,)?) => {
        $crate::testing::contracts(&$kernel, "").unwrap_or_else(|why| ::core::panic!("{why}"))
    };
    ($kernel:expr, { $($contracts:tt)* } $(,)?) => {
        $crate::testing::contracts(&$kernel, ::core::stringify!($($contracts)*))
            .unwrap_or_else(|why| ::core::panic!("{why}"))
    };
}

/// Runs with every check of the interpreter (races, missing fences and waits, bounds, values that were never written) in
/// several orders of blocks, warps and asynchronous copies, at sizes inside the tiles and at their edges. A message names the
/// instruction, its line and its clause.
#[macro_export]
macro_rules! assert_no_races {
    ($kernel:expr $(,)?) => {
        $crate::testing::no_races(&$kernel).unwrap_or_else(|why| ::core::panic!("{why}"))
    };
}

/// The text that [`assert_ptx_snapshot!`](crate::assert_ptx_snapshot) compares: abridged, with a digest of the whole.
///
/// # Errors
/// The error says why the kernel has no PTX.
pub fn snapshot_of(kernel: &impl HasPtx) -> Result<String, String> {
    Ok(abridge(&kernel.ptx_text()?))
}

#[doc(hidden)]
pub fn snapshot_settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    // The expression that produced the text is irrelevant to its content.
    settings.set_omit_expression(true);
    settings
}

/// [`assert_correct!`](crate::assert_correct) without the panic.
///
/// # Errors
/// Returns a readable description of what is wrong.
pub fn correct(kernel: &impl Subject, sizes: Option<&[Size]>) -> Result<(), String> {
    let gemm = kernel.compiled(&kernel.device())?;
    let sizes = sizes.map_or_else(|| edge_sizes(gemm.kernel()), <[Size]>::to_vec);
    if sizes.is_empty() {
        return Err("no sizes were given: nothing would be tested".into());
    }
    told(kernel, "is wrong", &survey(&gemm, &sizes))
}

/// [`assert_no_races!`](crate::assert_no_races) without the panic.
///
/// # Errors
/// Returns a readable description of what was found.
pub fn no_races(kernel: &impl Subject) -> Result<(), String> {
    for order in Orders::All.list() {
        // TMA refills a slot that threads have read after an mbarrier without a proxy fence, as in CUTLASS. By default the
        // interpreter only warns about that.
        let options = InterpreterOptions { options: order.options(&Options::default()), misalign: 0 };
        let gemm = kernel.compiled(&Device::interpreter_with(options))?;
        let sizes = quick_sizes(gemm.kernel());
        told(kernel, &format!("is wrong in the order `{order}`"), &survey(&gemm, &sizes))?;
    }
    Ok(())
}

/// [`assert_contracts!`](crate::assert_contracts) without the panic; `more` is the inside of an `expect { … }`.
///
/// # Errors
/// The contracts that do not hold, each with its clause, figure and limit.
pub fn contracts(kernel: &impl Subject, more: &str) -> Result<(), String> {
    let contracts = kernel.contracts(more)?;
    if contracts.is_empty() {
        let message = "there are no contracts: write `expect { … }` into the schedule, or `{ … }` after it here";
        return Err(message.into());
    }
    let allowed = std::env::var_os(UNCHECKED).is_some_and(|word| word == "allow");
    let mut failed = String::new();
    for contract in contracts {
        let unchecked = matches!(contract, Contract::Unchecked { .. });
        if contract.is_broken() || (unchecked && !allowed) {
            let _ = writeln!(failed, "{contract}");
        }
        if unchecked && !allowed {
            let _ =
                writeln!(failed, "  = help: {UNCHECKED}=allow lets the test pass where contracts cannot be checked");
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{}{failed}", heading(kernel.schedule(), "breaks a contract"))) }
}

/// Describes the findings: the smallest ones, and how many there are.
fn told(kernel: &impl Subject, what: &str, survey: &Survey) -> Result<(), String> {
    let Survey { products, compared, findings } = survey;
    let untested = heading(kernel.schedule(), "is not tested: nothing was compared");
    if findings.is_empty() {
        return match compared {
            0 => Err(format!("{untested}m or n is 0 in all sizes, and D has no elements\n")),
            _ => Ok(()),
        };
    }
    let all_uncompared = findings.iter().all(Finding::is_uncompared);
    let mut text = if all_uncompared { untested } else { heading(kernel.schedule(), what) };
    let _ = writeln!(text, "{} of {products} products; the smallest:", findings.len());
    for finding in &findings[..findings.len().min(SHOWN)] {
        let _ = writeln!(text, "- {finding}");
    }
    Err(text)
}

fn heading(schedule: Option<&Schedule>, what: &str) -> String {
    let clauses = schedule.map(|schedule| schedule.to_string().lines().collect::<Vec<_>>().join(" "));
    format!("{} {what}\n", clauses.as_deref().unwrap_or("the kernel"))
}
