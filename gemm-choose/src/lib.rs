//! Estimates the time of a schedule, and chooses one, without a GPU and without a compilation: everything follows
//! from [`ptx_gemm_dsl::Plan`].

mod estimate;
mod family;
mod fill;
mod fit;
mod gpu;
mod lock;
mod pick;
mod search;
mod size;

pub use estimate::{Bound, Estimate, Unsuited, estimate};
pub use family::Family;
pub use fill::{MOST, Text, fill, fill_for, names_known_gpu};
pub use fit::{Miss, Quality, Timed, fit, misses, quality};
pub use gpu::{Gpu, with_article};
pub use lock::{Choice, Entry, EpilogueClass, Lock, Source, choose};
pub use pick::{Candidate, FIRST, Pick, Ranked, pick};
pub use search::{Found, Legal, RuledOut, Search, target};
pub use size::Size;
