//! Products of processes that are threads, on interpreters.

mod faults;
mod plans;
mod runs;
