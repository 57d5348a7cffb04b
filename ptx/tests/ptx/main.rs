//! Tests of PTX as data, one binary.

mod refused;
mod round_trip;
