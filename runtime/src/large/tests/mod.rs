//! Plans, their order and their runs on interpreter devices.

mod faults;
mod plans;
mod races;
mod runs;
