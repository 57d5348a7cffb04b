//! Tests of PTX as data, in one binary.

mod built;
mod foreign;
mod hostile;
mod refused;
mod round_trip;
