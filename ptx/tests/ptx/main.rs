//! Tests of PTX as data, one binary.

mod foreign;
mod hostile;
mod refused;
mod round_trip;
