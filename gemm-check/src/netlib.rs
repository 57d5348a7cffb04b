//! Netlib grid.
