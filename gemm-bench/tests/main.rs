//! Tests of sweeps and rankings, in one binary.

mod ranking;
mod sweep;
