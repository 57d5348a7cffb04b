//! The runtime on the interpreter, in one binary.

mod batch;
mod devices;
mod distributed;
#[cfg(all(feature = "faer", feature = "ndarray"))]
mod foreign;
mod group;
mod large;
mod launch;
mod mapped;
mod matrix;
mod pinned;
