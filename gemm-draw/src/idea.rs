//! The idea that a schedule demonstrates: the groups of the ladder, from the first kernel to the fastest.

use ptx_gemm_dsl::plan::Plan;
use ptx_gemm_dsl::terms::Load;
use ptx_gemm_dsl::types::DType;

/// The step that a schedule adds to the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Idea {
    /// One element a thread, operands from global memory.
    Naive,
    /// Several elements a thread, operands from global memory.
    Registers,
    /// K-tiles in shared memory, one element a thread.
    Shared,
    /// K-tiles in shared memory, several elements a thread.
    Blocked,
    /// The same with wide accesses.
    Wide,
    /// The next K-tile is loaded while this one is multiplied.
    Pipelined,
    /// Copies that bypass the registers.
    Asynchronous,
    /// Warps that only copy.
    Specialized,
    /// Copies by the tensor memory accelerator.
    Boxed,
    /// The same ideas on integers.
    Integers,
    /// Unknown.
    Other,
}

impl Idea {
    /// The idea of a plan.
    pub fn of(plan: &Plan) -> Idea {
        let staged = plan.ring.a.placement.is_some();
        let several = plan.accumulators() > 1;
        let wide = plan.variants.first().is_some_and(|variant| variant.a.width.max(variant.b.width) > 1);
        match () {
            () if plan.problem.types.acc == DType::I32 => Idea::Integers,
            () if plan.ring.load == Load::Tma => Idea::Boxed,
            () if plan.roles.producer_warps > 0 => Idea::Specialized,
            () if staged && plan.ring.load == Load::CpAsync => Idea::Asynchronous,
            () if staged && plan.ring.stages > 1 => Idea::Pipelined,
            () if staged && several && wide => Idea::Wide,
            () if staged && several => Idea::Blocked,
            () if staged => Idea::Shared,
            () if several => Idea::Registers,
            () => Idea::Naive,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Idea::Naive => "One element a thread, straight from global memory",
            Idea::Registers => "Several elements a thread, straight from global memory",
            Idea::Shared => "K-tiles in shared memory, one element a thread",
            Idea::Blocked => "K-tiles in shared memory, several elements a thread",
            Idea::Wide => "The same with accesses of up to 16 bytes",
            Idea::Pipelined => "The next K-tile loads while this one is multiplied",
            Idea::Asynchronous => "Asynchronous copies, several K-tiles ahead",
            Idea::Specialized => "Warps that only copy",
            Idea::Boxed => "Copies by the tensor memory accelerator (TMA)",
            Idea::Integers => "The same ideas on integers",
            Idea::Other => "Others",
        }
    }
}
