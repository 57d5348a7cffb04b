//! The types that the methods of [`Schedule`](crate::Schedule) take, and those in its clauses and in a
//! [`Plan`](crate::Plan).
//!
//! A chain of methods builds the same schedule as its text:
//!
//! ```
//! use ptx_gemm::builder::{FmaOrder, Load, Metric, Relation};
//! use ptx_gemm::{Gemm, Schedule};
//!
//! # fn main() -> Result<(), ptx_gemm::Diagnostics> {
//! let schedule = Schedule::new()
//!     .tile(64, 64, 16)
//!     .thread(8, 8)
//!     .load(Load::CpAsync)
//!     .stages(3)
//!     .order(FmaOrder::Snake)
//!     .expect(Metric::LoadsPerFma, Relation::AtMost, 0.3);
//! let text = "tile(64, 64, 16); thread(8, 8); load(cp_async); stages(3); order(snake); expect { loads_per_fma <= 0.3 }";
//! assert_eq!(Gemm::new(schedule)?, text.parse()?);
//! # Ok(())
//! # }
//! ```

pub use ptx_gemm_dsl::clause::{
    Atom, BatchKind, Clause, Emulation, Expectation, Fetch, Knower, LayoutClause, LoadClause, Metric, MulticastClause,
    RasterClause, RegistersClause, Relation, Roles, SharedClause, Skew, SpecializeClause, Spills, SplitKClause,
    StagedOrder, StoreClause, TileClause, TypesClause, VectorClause, WarpCount,
};
pub use ptx_gemm_dsl::contract::FigureSource;
pub use ptx_gemm_dsl::epilogue::{Axis, BinaryOp, Epilogue, Expr, Function, Vector};
pub use ptx_gemm_dsl::figure::Figure;
pub use ptx_gemm_dsl::plan::{CopyPlan, Geometry, OperandPlan, Placement, Provenance, Variant};
pub use ptx_gemm_dsl::terms::{
    Along, Edges, Extent2, Extent3, Fast, FmaOrder, Load, LoadC, Operand, Operands, Pace, Param, Raster, Reads, Reduce,
    Rounding, Side, SplitK, StageMemory, Store, Swizzle, Tail, Wave,
};
pub use ptx_gemm_dsl::types::{Layouts, Types};
