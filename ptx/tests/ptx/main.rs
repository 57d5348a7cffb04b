//! Tests of PTX as data, in one binary.

mod built;
mod foreign;
mod forms;
mod hostile;
mod refused;
mod round_trip;
