//! Plans, their order and their runs on interpreter devices.

mod plans;
mod races;
