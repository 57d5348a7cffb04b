//! Declarations: parameters, buffers, rings, barriers, turns, accumulators.

use ptx_gemm_dsl::terms::{Fast, Operand, Param, Side, Swizzle};
use ptx_gemm_dsl::types::Problem;

use super::cursor::{Cursor, Parsed, fresh};
use crate::tile::lexer::Token;
use crate::tile::{
    Accumulator, Arrival, Barrier, Buffer, Digit, Empty, Exchange, Full, Map, Pack, Planes, Program, Ring, Stage,
    StagePlace, Turn, Walk, param_name,
};
use crate::violation::Site;

/// Reads a declaration into the program; `mark` records its position.
pub(super) fn item(
    program: &mut Program,
    mut cursor: Cursor<'_>,
    mark: &mut dyn FnMut(Site, &Cursor<'_>),
) -> Parsed<()> {
    let kind = cursor.any_word("a declaration")?;
    match kind {
        "pack" if !program.buffers.is_empty() || program.walk.is_some() => {
            return cursor.error_before("operands that are packed come before the buffers");
        }
        "pack" => {
            mark(Site::Pack(program.packs.len()), &cursor);
            let pack = pack(&mut cursor)?;
            program.packs.push(pack);
        }
        "walk" if !program.buffers.is_empty() => {
            return cursor.error_before("the order of planes comes before the buffers");
        }
        "walk" if program.walk.is_some() => return cursor.error_before("the planes are given an order already"),
        "walk" => {
            mark(Site::Walk, &cursor);
            program.walk = Some(walk(&mut cursor)?);
        }
        "buffer" => {
            mark(Site::Buffer(program.buffers.len()), &cursor);
            let name = fresh(&mut cursor, program.buffers.iter().map(|b| &b.name))?;
            let buffer = buffer(&mut cursor, name)?;
            program.buffers.push(buffer);
        }
        "ring" => {
            mark(Site::Ring(program.rings.len()), &cursor);
            let name = fresh(&mut cursor, program.rings.iter().map(|r| &r.name))?;
            let ring = ring(&mut cursor, name, program)?;
            program.rings.push(ring);
        }
        "mbarriers" => {
            let ring = cursor.find("a ring", program.rings.iter().map(|ring| ring.name.as_str()))?;
            if program.rings[ring].mbarriers.is_some() {
                return cursor.error_before("the ring already has mbarriers");
            }
            cursor.word("at")?;
            program.rings[ring].mbarriers = Some(cursor.bytes()?);
            program.rings[ring].mbarrier_note = cursor.note();
        }
        "stage" if program.stage.is_some() => return cursor.error_before("the tile of D is staged already"),
        "stage" => {
            mark(Site::Stage, &cursor);
            cursor.word("of")?;
            cursor.word("d")?;
            let pitch = cursor.named("pitch")?;
            let (place, swizzle) = match cursor.takes(Token::Word("in")) {
                true => {
                    let ring = cursor.find("a ring", program.rings.iter().map(|ring| ring.name.as_str()))?;
                    (StagePlace::Slots(ring), swizzle(&mut cursor)?)
                }
                false => {
                    let (offset_bytes, swizzle) = place(&mut cursor)?;
                    (StagePlace::At(offset_bytes), swizzle)
                }
            };
            program.stage = Some(Stage { pitch, swizzle, place, note: cursor.note() });
        }
        "arrival" if program.arrival.is_some() => return cursor.error_before("C has an arrival already"),
        "arrival" => {
            mark(Site::Arrival, &cursor);
            cursor.word("of")?;
            cursor.word("c")?;
            cursor.word("at")?;
            program.arrival = Some(Arrival { offset_bytes: cursor.bytes()?, note: cursor.note() });
        }
        "barrier" => {
            mark(Site::Barrier(program.barriers.len()), &cursor);
            let name = fresh(&mut cursor, program.barriers.iter().map(|b| &b.name))?;
            let (number, threads) = (cursor.named("number")?, cursor.named("threads")?);
            program.barriers.push(Barrier { name, number, threads, note: cursor.note() });
        }
        "turn" => {
            mark(Site::Turn(program.turns.len()), &cursor);
            let name = fresh(&mut cursor, program.turns.iter().map(|turn| &turn.name))?;
            cursor.word("at")?;
            program.turns.push(Turn { name, offset_bytes: cursor.bytes()?, note: cursor.note() });
        }
        "accumulator" => {
            mark(Site::Accumulator(program.accumulators.len()), &cursor);
            let name = fresh(&mut cursor, program.accumulators.iter().map(|a| &a.name))?;
            let map = map(&mut cursor)?;
            program.accumulators.push(Accumulator { name, map, note: cursor.note() });
        }
        other => {
            return cursor.error_before(format!(
                "expected `pack`, `walk`, `buffer`, `ring`, `mbarriers`, `stage`, `arrival`, `barrier`, `turn`, \
                 `accumulator` or `role`, found `{other}`"
            ));
        }
    }
    cursor.end()
}

pub(super) fn params(cursor: &mut Cursor<'_>, problem: &Problem) -> Parsed<Vec<Param>> {
    let mut all = vec![Param::M, Param::N, Param::K, Param::Batch, Param::Problems, Param::Tiles, Param::Workspace];
    all.extend(problem.matrices().flat_map(|o| [Param::Matrix(o), Param::Ld(o), Param::BatchStride(o)]));
    all.extend([Operand::A, Operand::B, Operand::C, Operand::D].map(Param::Map));
    all.extend([Operand::A, Operand::B].map(Param::Packed));
    all.extend([Operand::A, Operand::B].map(Param::Scales));
    all.extend((0..problem.epilogue.vectors.len()).map(Param::Vector));
    all.extend((0..problem.epilogue.scalars.len()).map(Param::Scalar));
    let mut params = Vec::new();
    loop {
        let name = cursor.any_word("a parameter")?;
        match all.iter().find(|param| param_name(param, problem) == name) {
            None => {
                let names: Vec<String> = all.iter().map(|param| param_name(param, problem)).collect();
                return cursor.error_before(format!("`{name}` is not a parameter: {}", names.join(", ")));
            }
            Some(param) if params.contains(param) => {
                return cursor.error_before(format!("the parameter `{name}` is given twice"));
            }
            Some(param) => params.push(param.clone()),
        }
        if !cursor.takes(Token::Mark(",")) {
            break;
        }
    }
    cursor.end()?;
    Ok(params)
}

/// Byte offset and swizzle.
fn place(cursor: &mut Cursor<'_>) -> Parsed<(u32, Swizzle)> {
    cursor.word("at")?;
    Ok((cursor.bytes()?, swizzle(cursor)?))
}

fn swizzle(cursor: &mut Cursor<'_>) -> Parsed<Swizzle> {
    Ok(match cursor.takes(Token::Word("swizzle")) {
        true => Swizzle::Bytes(cursor.bytes()?),
        false => Swizzle::None,
    })
}

fn buffer(cursor: &mut Cursor<'_>, name: String) -> Parsed<Buffer> {
    cursor.word("of")?;
    let side = cursor.side()?;
    let plane = match cursor.takes(Token::Word("plane")) {
        true => Some(cursor.number()?),
        false => None,
    };
    let (extent, depth, fast) = dims(cursor, side)?;
    let pitch = cursor.named("pitch")?;
    let (offset_bytes, swizzle) = place(cursor)?;
    Ok(Buffer { name, side, plane, extent, depth, fast, pitch, swizzle, offset_bytes, note: cursor.note() })
}

fn pack(cursor: &mut Cursor<'_>) -> Parsed<Pack> {
    let side = cursor.side()?;
    let (extent, depth, fast) = dims(cursor, side)?;
    let threads = cursor.named("threads")?;
    let planes = match cursor.takes(Token::Word("planes")) {
        true => Some(Planes { count: cursor.number()?, dtype: cursor.of()? }),
        false => None,
    };
    Ok(Pack { side, extent, depth, fast, threads, planes, note: cursor.note() })
}

fn walk(cursor: &mut Cursor<'_>) -> Parsed<Walk> {
    let chunk = cursor.named("chunk")?;
    if !cursor.takes(Token::Word("pairs")) {
        return Ok(Walk { chunk, pairs: vec![(0, 0)], note: cursor.note() });
    }
    let mut pairs = Vec::new();
    loop {
        let a = cursor.named("a")?;
        pairs.push((a, cursor.named("b")?));
        if !cursor.takes(Token::Mark(",")) {
            return Ok(Walk { chunk, pairs, note: cursor.note() });
        }
    }
}

/// The extents of an operand's tile, and the contiguous dimension, which is the last one.
fn dims(cursor: &mut Cursor<'_>, side: Side) -> Parsed<(u32, u32, Fast)> {
    let own = match side {
        Side::A => "m",
        Side::B => "n",
    };
    let mut dims = Vec::new();
    for _ in 0..2 {
        cursor.mark("[")?;
        let dim = cursor.any_word(&format!("`{own}` or `k`"))?;
        if dim != own && dim != "k" || dims.iter().any(|(known, _)| *known == dim) {
            return cursor.error_before(format!("expected `[{own} …]` and `[k …]`, found `{dim}`"));
        }
        dims.push((dim, cursor.number()?));
        cursor.mark("]")?;
    }
    Ok(match dims[1].0 {
        "k" => (dims[0].1, dims[1].1, Fast::K),
        _ => (dims[1].1, dims[0].1, Fast::Mn),
    })
}

fn ring(cursor: &mut Cursor<'_>, name: String, program: &Program) -> Parsed<Ring> {
    cursor.mark("(")?;
    let mut buffers = Vec::new();
    loop {
        buffers.push(cursor.find("a buffer", program.buffers.iter().map(|buffer| buffer.name.as_str()))?);
        if !cursor.takes(Token::Mark(",")) {
            break;
        }
    }
    cursor.mark(")")?;
    let depth = cursor.named("depth")?;
    cursor.word("slot")?;
    let slot_bytes = cursor.bytes()?;
    cursor.word("full")?;
    let full = match cursor.any_word("`barrier`, `copy_groups` or `mbarrier`")? {
        "barrier" => Full::Barrier,
        "copy_groups" => Full::CopyGroups { in_flight: cursor.in_parentheses()? },
        "mbarrier" => Full::Mbarrier { arrivals: cursor.in_parentheses()? },
        other => {
            return cursor.error_before(format!("expected `barrier`, `copy_groups` or `mbarrier`, found `{other}`"));
        }
    };
    cursor.word("empty")?;
    let empty = match cursor.any_word("`barrier`, `next_wait` or `mbarrier`")? {
        "barrier" => Empty::Barrier,
        "next_wait" => Empty::NextWait,
        "mbarrier" => Empty::Mbarrier { arrivals: cursor.in_parentheses()? },
        other => return cursor.error_before(format!("expected `barrier`, `next_wait` or `mbarrier`, found `{other}`")),
    };
    let (note, mbarrier_note) = (cursor.note(), "".into());
    Ok(Ring { name, buffers, depth, slot_bytes, full, empty, mbarriers: None, note, mbarrier_note })
}

/// The cluster reduction after the roles.
pub(super) fn exchange(cursor: &mut Cursor<'_>) -> Parsed<Exchange> {
    let map = map(cursor)?;
    let pitch = cursor.named("pitch")?;
    cursor.word("at")?;
    let offset_bytes = cursor.bytes()?;
    cursor.mark("->")?;
    cursor.word("d")?;
    let width = cursor.named("width")?;
    let c_width = if cursor.takes(Token::Word("c")) { cursor.named("width")? } else { 1 };
    cursor.end()?;
    Ok(Exchange { map, pitch, offset_bytes, width, c_width, note: cursor.note() })
}

fn map(cursor: &mut Cursor<'_>) -> Parsed<Map> {
    cursor.word("threads")?;
    let thread = digits(cursor)?;
    let warp = if cursor.takes(Token::Word("warps")) { digits(cursor)? } else { Vec::new() };
    cursor.word("holds")?;
    Ok(Map { thread, warp, element: digits(cursor)? })
}

fn digits(cursor: &mut Cursor<'_>) -> Parsed<Vec<Digit>> {
    let mut digits = Vec::new();
    while let Some(Token::Number(extent)) = cursor.peek() {
        cursor.at += 1;
        cursor.mark(":")?;
        let step = cursor.any_word("`n` or `m` and a distance")?;
        let (dim, distance) = step.split_at(1);
        let distance = distance.parse().ok();
        digits.push(match (dim, distance) {
            ("m", Some(m)) => Digit::m(extent, m),
            ("n", Some(n)) => Digit::n(extent, n),
            _ => return cursor.error_before(format!("expected `n` or `m` and a distance, found `{step}`")),
        });
    }
    Ok(digits)
}
