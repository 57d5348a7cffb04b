//! What `gemmc check --fix` does: the offered fixes, one after the other, for as long as each leaves fewer errors.

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::planning;
use crate::target::Target;

/// A text after its repair.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The text, with its comments.
    pub text: String,
    /// What was changed, in order: each was an error of the text as it was before, and its `fix` was applied.
    pub changes: Vec<Diagnostic>,
    /// What there is still to say; legal if there is no error among it.
    pub left: Diagnostics,
}

impl Repair {
    /// True if the text is a legal schedule.
    pub fn is_legal(&self) -> bool {
        self.left.errors().next().is_none()
    }
}

/// Everything that there is to say about a text, for `target` or for the schedule's own.
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
