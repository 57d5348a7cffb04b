//! Checks modules.

use crate::module::Module;
use crate::target::{Target, Version};

/// The lowest `.version` that has the module's target and every instruction in it.
pub fn required_version(module: &Module) -> Version {
    Target::from_words(&module.target).map_or((6, 3), Target::version)
}
