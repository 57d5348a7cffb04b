//! What the target allows: threads, shared memory, registers; and which target is the default.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::check::staging::Staging;
use crate::clauses::Key;
use crate::keys::KeySet;
use crate::plan::Geometry;
use crate::target::Target;

/// The target to compile for, or errors.
pub(super) fn target(
    settings: &Settings,
    requested: Option<Target>,
    geometry: Option<&Geometry>,
    staging: Option<&Staging>,
    _unknown: KeySet,
    findings: &mut Findings,
) -> Option<Target> {
    let _ = geometry;
    let stated = requested.or(settings.target);
    let fits = |target: &Target| staging.is_none_or(|s| s.shared_bytes <= u64::from(target.max_shared_bytes()));
    let target = stated.or_else(|| Target::ALL.into_iter().find(|t| fits(t))).unwrap_or(Target::SM_90);
    if !fits(&target) {
        let staging = staging?;
        let message = format!(
            "{} needs {} B of shared memory, {target} allows {} (A {} + B {} per stage)",
            settings.text(Key::Stages, "stages(1)"),
            staging.shared_bytes,
            target.max_shared_bytes(),
            staging.a.slot_bytes,
            staging.b.slot_bytes
        );
        findings.error("shared-limit", Key::Stages, &[Key::Tile, Key::Types, Key::Shared, Key::Target], message);
        return None;
    }
    Some(target)
}
