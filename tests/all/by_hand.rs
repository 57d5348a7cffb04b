//! Tile IR written down by hand: a ring filled by TMA that feeds multiply-adds, and one that feeds wgmma. They show that
//! the vocabulary carries what the Hopper kernels need, and that the verifier watches it.

use ptx_gemm_codegen::tile::{
    Accumulator, Atom, Buffer, Count, Index, Op, Program, Ring, Role, Signal, Source, Statement, Through, Walk, print,
    verify,
};
use ptx_gemm_dsl::terms::{Along, Extent2, Extent3, Fast, FmaOrder, Load, Operands, Raster, Side, Swizzle, Tail};
use ptx_gemm_dsl::types::DType;

fn at(op: Op, clause: &str) -> Statement {
    Statement { op, clause: clause.to_string() }
}

fn buffer(
    name: &'static str,
    side: Side,
    element: DType,
    extent: u32,
    depth: u32,
    fast: Fast,
    swizzle: Swizzle,
) -> Buffer {
    let pitch = if fast == Fast::K { depth } else { extent };
    let offset_bytes = if side == Side::A { 0 } else { extent * depth * element.bytes() };
    Buffer { name, side, element, extent, depth, fast, pitch, swizzle, offset_bytes }
}

fn mbarrier(arrivals: u32, transaction_bytes: u32) -> Signal {
    Signal::Mbarrier { arrivals, transaction_bytes, cluster: false }
}

fn producer() -> Vec<Statement> {
    let body = vec![
        at(Op::Acquire { ring: 0 }, "stages(4)"),
        at(Op::Copy { ring: 0, buffer: 0, tile: Index::Ahead(0), width: 1 }, "load(tma)"),
        at(Op::Copy { ring: 0, buffer: 1, tile: Index::Ahead(0), width: 1 }, "load(tma)"),
        at(Op::Commit { ring: 0 }, "load(tma)"),
    ];
    vec![at(Op::Loop { count: Count::KTiles, body }, "tile")]
}

/// One producer warp, eight warps of multiply-adds, four slots (recipes, FP32 FFMA).
fn tma_fma() -> Program {
    let bytes = (256 * 16 + 128 * 16) * 4;
    let fetch = |side, buffer| {
        at(Op::Fetch { side, from: Source::Buffer(buffer), width: 4, hold: Operands::Registers }, "thread(16, 8)")
    };
    let steps = vec![
        fetch(Side::A, 0),
        fetch(Side::B, 1),
        at(Op::Multiply { acc: 0, order: FmaOrder::ColumnSnake, fresh: false }, "order(column_snake)"),
    ];
    let body = vec![
        at(Op::Wait { ring: 0 }, "stages(4)"),
        at(Op::Steps { count: Count::Exactly(16), unroll: 16, prefetch: 1, body: steps }, "unroll(16)"),
        at(Op::Release { ring: 0 }, "stages(4)"),
    ];
    let consumer = vec![
        at(Op::Clear { acc: 0 }, "thread(16, 8)"),
        at(Op::Loop { count: Count::KTiles, body }, "tile(256, 128, 16)"),
        at(Op::Store { acc: 0, width: 4, through: Through::Registers }, "store(direct)"),
    ];
    Program {
        name: "gemm_tma_fma".into(),
        block: Extent3 { m: 256, n: 128, k: 16 },
        cluster: Extent2 { m: 1, n: 1 },
        tail: Tail::Predicate,
        buffers: vec![
            buffer("A", Side::A, DType::F32, 256, 16, Fast::Mn, Swizzle::None),
            buffer("B", Side::B, DType::F32, 128, 16, Fast::Mn, Swizzle::None),
        ],
        rings: vec![Ring {
            name: "ab",
            buffers: vec![0, 1],
            depth: 4,
            slot_bytes: bytes,
            fill: Load::Tma,
            full: mbarrier(1, bytes),
            empty: mbarrier(8, 0),
        }],
        accumulators: vec![Accumulator {
            name: "acc",
            element: DType::F32,
            shape: Extent2 { m: 256, n: 128 },
            atom: Atom::Fma,
        }],
        walk: Walk::Persistent { blocks: Some(132), raster: Raster { group: 8, along: Along::N } },
        split: None,
        roles: vec![
            Role { name: "math", threads: 0..256, registers: None, body: vec![at(Op::Tiles(consumer), "persistent")] },
            Role {
                name: "load",
                threads: 256..288,
                registers: None,
                body: vec![at(Op::Tiles(producer()), "persistent")],
            },
        ],
    }
}

/// A producer warp group and two of wgmma, 128 x 256 x 64 bf16, three slots (recipes, kernel structure).
fn tma_wgmma() -> Program {
    let bytes = (128 * 64 + 256 * 64) * 2;
    let steps = vec![at(Op::Multiply { acc: 0, order: FmaOrder::Row, fresh: false }, "atom(wgmma(64, 256, 16))")];
    let body = vec![
        at(Op::Wait { ring: 0 }, "stages(3)"),
        at(Op::Steps { count: Count::Exactly(4), unroll: 4, prefetch: 0, body: steps }, "tile(128, 256, 64)"),
        at(Op::Retire { in_flight: 0 }, "atom(wgmma(64, 256, 16))"),
        at(Op::Release { ring: 0 }, "stages(3)"),
    ];
    let consumer = vec![
        at(Op::Clear { acc: 0 }, "atom(wgmma(64, 256, 16))"),
        at(Op::Loop { count: Count::KTiles, body }, "tile(128, 256, 64)"),
        at(Op::Store { acc: 0, width: 8, through: Through::Tma }, "store(tma)"),
    ];
    let swizzle = Swizzle::Bytes(128);
    Program {
        name: "gemm_tma_wgmma".into(),
        block: Extent3 { m: 128, n: 256, k: 64 },
        cluster: Extent2 { m: 2, n: 1 },
        tail: Tail::Predicate,
        buffers: vec![
            buffer("A", Side::A, DType::Bf16, 128, 64, Fast::K, swizzle),
            buffer("B", Side::B, DType::Bf16, 256, 64, Fast::K, swizzle),
        ],
        rings: vec![Ring {
            name: "ab",
            buffers: vec![0, 1],
            depth: 3,
            slot_bytes: bytes,
            fill: Load::Tma,
            full: Signal::Mbarrier { arrivals: 1, transaction_bytes: bytes, cluster: true },
            empty: Signal::Mbarrier { arrivals: 4, transaction_bytes: 0, cluster: true },
        }],
        accumulators: vec![Accumulator {
            name: "acc",
            element: DType::F32,
            shape: Extent2 { m: 128, n: 256 },
            atom: Atom::Wgmma(Extent3 { m: 64, n: 256, k: 16 }),
        }],
        walk: Walk::Persistent { blocks: Some(128), raster: Raster { group: 16, along: Along::N } },
        split: None,
        roles: vec![
            Role {
                name: "load",
                threads: 0..128,
                registers: Some(24),
                body: vec![at(Op::Tiles(producer()), "persistent")],
            },
            Role {
                name: "math",
                threads: 128..384,
                registers: Some(240),
                body: vec![at(Op::Tiles(consumer), "persistent")],
            },
        ],
    }
}

fn snapshot_name(program: &Program) -> String {
    format!("by_hand__{}", program.name)
}

/// Every snapshot of this file.
pub(crate) fn snapshot_names() -> Vec<String> {
    [tma_fma(), tma_wgmma()].iter().map(snapshot_name).collect()
}

#[test]
fn hopper_programs_verify_and_print() {
    let settings = crate::snapshots();
    settings.bind(|| {
        for program in [tma_fma(), tma_wgmma()] {
            verify::verify(&program).unwrap();
            insta::assert_snapshot!(snapshot_name(&program), print::print(&program));
        }
    });
}

/// Removes the first statement that `test` picks, at any depth.
fn remove(body: &mut Vec<Statement>, test: &dyn Fn(&Op) -> bool) -> bool {
    if let Some(i) = body.iter().position(|s| test(&s.op)) {
        body.remove(i);
        return true;
    }
    body.iter_mut().any(|s| match &mut s.op {
        Op::Tiles(body) | Op::Loop { body, .. } | Op::Steps { body, .. } => remove(body, test),
        _ => false,
    })
}

#[test]
fn a_program_with_a_part_missing_is_refused() {
    type Test = fn(&Op) -> bool;
    let parts: [(&str, Test, &str); 6] = [
        ("acquire", |op| matches!(op, Op::Acquire { .. }), "outside of acquire and commit"),
        ("copy", |op| matches!(op, Op::Copy { buffer: 1, .. }), "a commit of K-tiles"),
        ("commit", |op| matches!(op, Op::Commit { .. }), "every role waits for another"),
        ("wait", |op| matches!(op, Op::Wait { .. }), "outside of wait and release"),
        ("release", |op| matches!(op, Op::Release { .. }), "every role waits for another"),
        ("retire", |op| matches!(op, Op::Retire { .. }), "while a multiply reads it"),
    ];
    for (name, test, expected) in parts {
        let mut program = tma_wgmma();
        assert!(program.roles.iter_mut().any(|role| remove(&mut role.body, &test)), "{name}");
        let message = verify::verify(&program).map_err(|v| v.to_string());
        assert!(message.as_ref().is_err_and(|m| m.contains(expected)), "without {name}: {message:?}");
    }
}
