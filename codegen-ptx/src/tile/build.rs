//! From a plan to tile IR: which tiles are copied, waited for, multiplied and stored, in which order.
//!
//! Requires a plan for `atom(fma)`. Ensures one role that holds all threads, and a program that the verifier accepts.
//!
//! One stage: `acquire, copy, commit, wait, multiply, release` in the loop, with a barrier in `wait` and one in
//! `release`. More stages: `stages - 1` tiles are copied ahead; in the loop, `wait` holds the one barrier per K-tile, after
//! which the slot read in the iteration before is free to be filled. Through registers the copy of the next tile is
//! issued before the multiply and lands in shared memory (`commit`) after it, so that its latency hides behind it.

use ptx_gemm_dsl::plan::{OperandPlan, Plan, Variant};
use ptx_gemm_dsl::terms::{Load, Pace, Side, Wave};

use super::{
    Accumulator, Atom, Buffer, Count, Index, Op, Program, Ring, Role, Signal, Source, Statement, Through, Walk,
};

/// The program of one variant of the plan.
pub fn build(plan: &Plan, variant: &Variant) -> Program {
    let clauses = &plan.clauses;
    let mut buffers = Vec::new();
    let mut rings = Vec::new();
    let mut body = vec![Statement { op: Op::Clear { acc: 0 }, clause: clauses.thread.clone() }];
    match (buffer("A", &plan.a), buffer("B", &plan.b)) {
        (Some(a), Some(b)) => {
            buffers = vec![a, b];
            rings = vec![ring(plan)];
            body.extend(staged(plan, variant));
        }
        _ => body.push(direct(plan, variant)),
    }
    let store = Statement {
        op: Op::Store { acc: 0, width: variant.d_width, through: Through::Registers },
        clause: clauses.epilogue.clone(),
    };
    match plan.split_k {
        None => body.push(store),
        Some(_) => {
            body.push(Statement { op: Op::Reduce { acc: 0, body: vec![store] }, clause: clauses.split_k.clone() })
        }
    }
    let walk = match plan.persistent {
        None => Walk::OneTile(plan.raster),
        Some(wave) => {
            // The next tile's copies must find the slots at rest.
            if !rings.is_empty() {
                if plan.load == Load::CpAsync {
                    body.push(Statement { op: Op::Drain { ring: 0 }, clause: clauses.persistent.clone() });
                }
                body.push(Statement { op: Op::Sync, clause: clauses.persistent.clone() });
            }
            let blocks = if let Wave::Blocks(n) = wave { Some(n) } else { None };
            Walk::Persistent { blocks, raster: plan.raster }
        }
    };
    let tiles = Statement { op: Op::Tiles(body), clause: clauses.raster.clone() };
    Program {
        name: variant.entry.clone(),
        block: plan.block,
        cluster: ptx_gemm_dsl::terms::Extent2 { m: 1, n: 1 },
        tail: plan.tail,
        buffers,
        rings,
        accumulators: vec![Accumulator {
            name: "acc",
            element: plan.problem.types.acc,
            shape: ptx_gemm_dsl::terms::Extent2 { m: plan.block.m, n: plan.block.n },
            atom: Atom::Fma,
        }],
        walk,
        split: plan.split_k,
        roles: vec![Role { name: "all", threads: 0..plan.geometry.threads, registers: None, body: vec![tiles] }],
    }
}

fn buffer(name: &'static str, operand: &OperandPlan) -> Option<Buffer> {
    operand.placement.map(|placement| Buffer {
        name,
        side: operand.side,
        element: operand.dtype,
        extent: operand.extent,
        depth: operand.depth,
        fast: placement.fast,
        pitch: placement.pitch,
        swizzle: placement.swizzle,
        offset_bytes: placement.offset_bytes,
    })
}

fn ring(plan: &Plan) -> Ring {
    let each_thread = Signal::Mbarrier { arrivals: plan.geometry.threads, transaction_bytes: 0, cluster: false };
    let (full, empty) = match (plan.pace, plan.load) {
        // Every thread says for itself that its copies have landed, and that it has read the slot.
        (Pace::Free, _) => (each_thread, each_thread),
        (Pace::Tile, Load::CpAsync) => (Signal::CopyGroups, idle(plan)),
        (Pace::Tile, _) => (Signal::BlockBarrier, idle(plan)),
    };
    let slot_bytes = plan.stage_bytes;
    Ring { name: "ab", buffers: vec![0, 1], depth: plan.stages, slot_bytes, fill: plan.load, full, empty }
}

/// How a slot is known to be free where the block keeps pace: by a barrier of its own, or by the one of the next wait.
fn idle(plan: &Plan) -> Signal {
    if plan.stages == 1 { Signal::BlockBarrier } else { Signal::NextWait }
}

/// The statements that produce one K-tile, up to the commit.
fn produce(plan: &Plan, variant: &Variant, tile: Index) -> Vec<Statement> {
    let at = |op, clause: &str| Statement { op, clause: clause.to_string() };
    let copy_clause = if plan.stages > 1 { &plan.clauses.stages } else { &plan.clauses.tile };
    vec![
        at(Op::Acquire { ring: 0 }, &plan.clauses.stages),
        at(Op::Copy { ring: 0, buffer: 0, tile, width: variant.a.width }, copy_clause),
        at(Op::Copy { ring: 0, buffer: 1, tile, width: variant.b.width }, copy_clause),
    ]
}

fn staged(plan: &Plan, variant: &Variant) -> Vec<Statement> {
    let clauses = &plan.clauses;
    let at = |op, clause: &str| Statement { op, clause: clause.to_string() };
    let commit = || at(Op::Commit { ring: 0 }, &clauses.stages);
    let wait = || at(Op::Wait { ring: 0 }, &clauses.stages);
    let release = || at(Op::Release { ring: 0 }, &clauses.stages);
    let ahead = plan.stages - 1;
    let mut out = Vec::new();
    for tile in 0..ahead {
        out.extend(produce(plan, variant, Index::At(tile)));
        out.push(commit());
    }
    let mut body = Vec::new();
    if ahead == 0 {
        body.extend(produce(plan, variant, Index::Ahead(0)));
        body.extend([commit(), wait(), steps(plan), release()]);
    } else {
        body.push(wait());
        body.extend(produce(plan, variant, Index::Ahead(ahead)));
        // Asynchronous copies are on their way at once; those through registers land behind the multiply.
        match plan.load {
            Load::Registers => body.extend([steps(plan), commit()]),
            _ => body.extend([commit(), steps(plan)]),
        }
        body.push(release());
    }
    out.push(at(Op::Loop { count: Count::KTiles, body }, &clauses.tile));
    out
}

fn steps(plan: &Plan) -> Statement {
    let fetch = |side, buffer, width| Statement {
        op: Op::Fetch { side, from: Source::Buffer(buffer), width, hold: plan.operands },
        clause: plan.clauses.thread.clone(),
    };
    let body = vec![fetch(Side::A, 0, plan.a.read_width), fetch(Side::B, 1, plan.b.read_width), multiply(plan)];
    let count = Count::Exactly(plan.block.k);
    Statement {
        op: Op::Steps { count, unroll: plan.unroll, prefetch: plan.prefetch, body },
        clause: plan.clauses.unroll.clone(),
    }
}

fn direct(plan: &Plan, variant: &Variant) -> Statement {
    let fetch = |side, width| Statement {
        op: Op::Fetch { side, from: Source::Global, width, hold: plan.operands },
        clause: plan.clauses.shared.clone(),
    };
    let body = vec![fetch(Side::A, variant.a.width), fetch(Side::B, variant.b.width), multiply(plan)];
    Statement {
        op: Op::Steps { count: Count::KSteps, unroll: plan.block.k, prefetch: plan.prefetch, body },
        clause: plan.clauses.unroll.clone(),
    }
}

fn multiply(plan: &Plan) -> Statement {
    Statement { op: Op::Multiply { acc: 0, order: plan.order, fresh: false }, clause: plan.clauses.thread.clone() }
}
