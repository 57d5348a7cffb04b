//! Executes PTX text on the CPU and checks it.
//!
//! The interpreter takes the text that a GPU would get and executes it, as warps of 32 lanes in blocks in a grid. With
//! [`Checks::Full`] it reports the first thing that the PTX ISA forbids or leaves undefined: accesses out of bounds,
//! values that were never written, threads that disagree about a barrier, and so on. Each report has the line of PTX
//! and the clause that its note names. The interpreter knows nothing about the compiler that wrote the text, which
//! makes it an independent check.
//!
//! - **Numbers** follow the ISA: `fma` is fused, subnormals are kept, conversions round and saturate as documented.
//!   Approximate functions are computed in f64 and rounded, which is more accurate than their documented error; the
//!   payload of a NaN is the host's, except where the ISA specifies it.
//! - **Threads** diverge and reconverge. Blocks are resumable: a thread that polls memory lets others run, so that
//!   flags between blocks and locks within a warp work, and a launch in which no thread can continue is detected.
//! - **Bounds** are exact, and allocations are far apart, so that they need no guard bands.
//! - **mbarriers** count arrivals and bytes, release threads that wait for a phase, and order what was done before it.
//!   Copies that arrive at one complete when a thread waits for it. Misuse is a [`ViolationKind::BarrierMisuse`].
//! - **Races** in shared and global memory, between threads of one block or of several, are found with vector clocks,
//!   independently of the values ([`ViolationKind::Race`]). Barriers, mbarriers, and releases and acquires of
//!   sufficient scope order accesses; relaxed ones need fences, and `fence.sc` are ordered among each other. An
//!   unordered write is hidden once: if nothing orders a flag, or the end of a phase, before a wait, the wait's first
//!   test does not observe it. A report has a [timeline](Site::timeline).
//! - **Asynchronous copies** (`cp.async`, bulk and tensor copies, reductions, `st.async` and `red.async`) complete at
//!   the latest time that the ISA allows, at the earliest, or at random times in between ([`Landing`]). Until a thread
//!   has waited for a copy, no thread may access its bytes. Tensor maps have their own representation here
//!   ([`TensorMap`]), with the driver's rules for their arguments.
//! - **Proxies**: a generic write before an asynchronous access needs a proxy fence ([`ViolationKind::Proxy`]). So does
//!   a generic read before an asynchronous write, by default as a warning ([`ViolationKind::ProxyWar`]).
//! - **Tensor cores**: `mma.sync` and `wgmma` of f16, bf16, tf32, 8-bit floats and bytes, `mma.sync` of f64, and `wmma`
//!   of f16 and bf16, with `ldmatrix`, `stmatrix` and matrix descriptors of every swizzle. Sums have the bits of the
//!   hardware, computed in fixed point and truncated as on sm_90. The multiplications of a warp group are asynchronous:
//!   no other instruction may touch their registers from a fence to the wait ([`ViolationKind::Wgmma`]). They read
//!   shared memory as a separate agent, and a wait of one thread is enough to know its progress.
//! - **Clusters** of up to eight blocks run as one unit: their warps take turns in one order. `mapa`, accesses to
//!   `shared::cluster`, remote arrivals, copies between blocks and multicast reach the memory of every block, with the
//!   bounds, races and fences of the block that owns it. A scope of `.cta` orders nothing between blocks, and a block
//!   may not exit while others may still access its memory.
//! - **Tensor maps** in global memory may be modified ([`ptx_gemm_ptx::asynchronous::MapField`]). TMA reads them
//!   through a separate proxy, so that changes need a release and an acquire.
//! - **Registers**: `setmaxnreg` moves them between warps. A request that can never be satisfied is a deadlock, if the
//!   number that threads start with is known or follows from the entry's directives.
//! - **Declarations**: memory that is written at most once per launch ([`Memory::set_write_once`]), or in every launch
//!   ([`Memory::set_written_after`]), and flags that are zero again after a launch ([`Memory::set_zero_after`]).
//! - **Orders** of warps ([`WarpOrder`]) and of blocks ([`BlockOrder`]) are options; random ones are reproducible from
//!   their seed.
//! - **Costs** (bank conflicts, sectors, traffic by allocation, instructions by kind) are counted on request
//!   ([`Counting::On`]).
//! - **Results do not depend on the host.** With the checks on, blocks that may communicate run in a fixed order, one
//!   cluster at a time. The others run in parallel, and run again one at a time if two of them race. Of several
//!   violations, that of the lowest cluster is reported.
//!
//! Not supported yet, and reported with their line when reached: elements of 4 bits and 1 bit, sparse operands and base
//! offsets in matrix descriptors, clusters of more than eight blocks, tensor maps of images and interleaved ones,
//! conversions of 8-bit floats.
//!
//! ```
//! use ptx_gemm_interp::{Arg, Launch, Memory, Options, Program, launch};
//!
//! let program = Program::from_text(
//!     ".version 7.0
//!      .target sm_80
//!      .address_size 64
//!      .visible .entry twice(.param .u64 data) {
//!          .reg .b64 %rd<4>;
//!          .reg .b32 %r<2>;
//!          .reg .f32 %f<2>;
//!          ld.param.u64 %rd0, [data];
//!          mov.u32 %r0, %tid.x;
//!          mul.wide.u32 %rd1, %r0, 4;
//!          add.u64 %rd2, %rd0, %rd1;
//!          ld.global.f32 %f0, [%rd2];
//!          add.f32 %f1, %f0, %f0;
//!          st.global.f32 [%rd2], %f1;
//!          ret;
//!      }",
//! )?;
//! let memory = Memory::new();
//! let bytes: Vec<u8> = (0..40).flat_map(|i| (i as f32).to_le_bytes()).collect();
//! let data = memory.alloc_from("data", &bytes, 256)?;
//! let args = [Arg::U64(data.address)];
//! let what = Launch { entry: "twice", grid: [1; 3], block: [40, 1, 1], args: &args, ..Launch::default() };
//! launch(&program, &memory, &what, &Options::default())?;
//! let mut last = [0; 4];
//! memory.read(data.address + 39 * 4, &mut last)?;
//! assert_eq!(f32::from_le_bytes(last), 78.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod agents;
mod barrier;
mod block;
mod buffer;
mod clocks;
mod cluster;
mod copies;
mod cost;
mod decode;
mod env;
mod exec;
mod flags;
mod global;
mod grid;
mod groups;
mod history;
mod knowledge;
mod launch;
mod maps;
mod mbarrier;
mod memory;
mod op;
mod options;
mod pool;
mod program;
mod reads;
mod repeats;
mod report;
mod row;
mod scheduler;
mod scope;
mod shadow;
mod shadows;
mod shared;
mod taint;
mod tensor;
mod violation;
mod visits;
mod waits;
mod warnings;
mod warp;

pub use buffer::GRANULE;
pub use cost::{BufferCost, Cost, Direction, GlobalCost, Mix, Region, SharedAccess, SharedCost, Traffic, WarpAccess};
pub use launch::{Arg, Launch, launch, threads};
pub use memory::{Allocation, AllocationId, Memory, MemoryError};
pub use options::{BlockOrder, Checks, Counting, Landing, Options, Severity, WarpOrder};
pub use program::{LoadError, Program};
pub use ptx_gemm_ptx::instruction::Note;
pub use report::Report;
pub use tensor::{
    Interleave, L2Promotion, OobFill, Swizzle, TensorElement, TensorMap, TensorMapArgs, TensorMapError,
    random_tensor_maps,
};
pub use violation::{Moment, MomentKind, Site, Violation, ViolationKind};
