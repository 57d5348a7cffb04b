//! Tests of PTX as data, one binary.

mod built;
mod foreign;
mod hostile;
mod refused;
mod round_trip;
