//! The repair of `gemmc check --fix`: applies the offered fixes one by one, as long as each leaves fewer errors.

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::planning;
use crate::target::Target;

/// A text after its repair.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The text, with its comments.
    pub text: String,
    /// The errors that were repaired, in order: each is an error of the text before its `fix` was applied.
    pub changes: Vec<Diagnostic>,
    /// The remaining diagnostics; the text is legal if none of them is an error.
    pub left: Diagnostics,
}

impl Repair {
    /// True if the text is a legal schedule.
    pub fn is_legal(&self) -> bool {
        self.left.errors().next().is_none()
    }
}

/// All diagnostics about a text, for `target` or for the schedule's own target.
pub fn diagnose(text: &str, target: Option<Target>) -> Diagnostics {
    match planning::read_for(text, target) {
        Ok(said) | Err(said) => said,
    }
}

/// Applies the fixes that lead to a legal schedule or to fewer errors, until none does.
///
/// ```
/// let repair = ptx_gemm_dsl::repair::repair("tiel(128, 128, 8); // block\nthread(8, 8u32);", None);
/// assert_eq!(repair.text, "tile(128, 128, 8); // block\nthread(8, 8);");
/// assert!(repair.is_legal());
/// ```
pub fn repair(text: &str, target: Option<Target>) -> Repair {
    let (mut text, mut changes, mut left) = (text.to_string(), Vec::new(), diagnose(text, target));
    while let Some((change, fixed, after)) = better(&text, &left, target) {
        changes.push(change);
        (text, left) = (fixed, after);
    }
    Repair { text, changes, left }
}

/// The first fix that leaves fewer errors.
fn better(text: &str, said: &Diagnostics, target: Option<Target>) -> Option<(Diagnostic, String, Diagnostics)> {
    let before = said.errors().count();
    said.errors().find_map(|error| {
        let fixed = error.fixed(text)?;
        let after = diagnose(&fixed, target);
        (after.errors().count() < before).then(|| (error.clone(), fixed, after))
    })
}
