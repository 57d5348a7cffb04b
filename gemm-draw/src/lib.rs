//! Pictures of schedules and tile programs, and plots of their cost.
//!
//! ```text
//! Kernel (tile programs, PTX) -> Subject -> threads | shared | pipeline | raster | roofline -> page -> SVG -> PNG
//! rungs of the ladder, rows of the benchmark, errors of products -> bars | lines | errors -> SVG
//! ```
//!
//! Nothing here knows how a schedule is compiled. The ownership of elements is read from the accumulators' maps, the
//! order of statements from the tile program, the accesses to shared memory from a run of the interpreter, and the
//! order of the tiles from the compiled rasterisation, which the interpreter runs on tiles of one element.

mod axis;
pub mod bars;
mod canvas;
mod error;
pub mod errors;
mod fragments;
mod frame;
mod idea;
mod ladder;
mod order;
mod page;
mod palette;
#[cfg(test)]
mod pictures;
mod pipeline;
#[cfg(feature = "png")]
mod png;
mod raster;
mod roofline;
pub mod scatter;
mod shared;
pub mod sizes;
mod subject;
mod threads;
mod timeline;

pub use canvas::Scheme;
pub use error::DrawError;
pub use idea::Idea;
pub use ladder::{by_idea, ladder, middle};
pub use page::{Picture, What, draw};
#[cfg(feature = "png")]
pub use png::png;
pub use shared::{Conflicts, conflicts};
pub use subject::{Measured, Subject};
