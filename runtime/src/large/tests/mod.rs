//! Plans, their order and their runs on interpreter devices.

pub(crate) mod faults;
mod plans;
mod races;
mod runs;
