//! The text form of tile IR.

use std::fmt::{self, Write};

use ptx_gemm_dsl::terms::{Along, Fast, Load, Operands, Raster, Reduce, Side, Swizzle, Tail};

use super::{Atom, Buffer, Count, Index, Op, Program, Ring, Signal, Source, Statement, Through, Walk};

/// Column of the clause behind a statement.
const CLAUSE_COLUMN: usize = 64;

/// The program as text: one statement a line, its clause behind it.
pub fn print(program: &Program) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_program(program, &mut out);
    out
}

fn write_program(program: &Program, out: &mut String) -> fmt::Result {
    let block = program.block;
    write!(out, "program {} tile {} x {} x {}", program.name, block.m, block.n, block.k)?;
    if (program.cluster.m, program.cluster.n) != (1, 1) {
        write!(out, " cluster {} x {}", program.cluster.m, program.cluster.n)?;
    }
    writeln!(out, " tail {} {{", if program.tail == Tail::Predicate { "predicate" } else { "none" })?;
    for buffer in &program.buffers {
        write_buffer(buffer, out)?;
    }
    for ring in &program.rings {
        write_ring(program, ring, out)?;
    }
    for acc in &program.accumulators {
        let atom = match acc.atom {
            Atom::Fma => "fma".to_string(),
            Atom::Mma(e) => format!("mma({}, {}, {})", e.m, e.n, e.k),
            Atom::Wgmma(e) => format!("wgmma({}, {}, {})", e.m, e.n, e.k),
        };
        writeln!(out, "  accumulator {} {} [m {}, n {}] atom {atom}", acc.name, acc.element, acc.shape.m, acc.shape.n)?;
    }
    match &program.walk {
        Walk::OneTile(raster) => writeln!(out, "  walk one tile a block, {}", raster_text(*raster))?,
        Walk::Persistent { blocks: Some(n), raster } => {
            writeln!(out, "  walk persistent({n}), {}", raster_text(*raster))?
        }
        Walk::Persistent { blocks: None, raster } => writeln!(out, "  walk persistent, {}", raster_text(*raster))?,
        Walk::StreamK { raster } => writeln!(out, "  walk stream_k, {}", raster_text(*raster))?,
    }
    if let Some(split) = program.split {
        let how = match split.reduce {
            Reduce::Serial => "serial",
            Reduce::Workspace => "workspace",
        };
        writeln!(out, "  split k into {} parts, reduce {how}", split.parts)?;
    }
    for role in &program.roles {
        write!(out, "  role {} threads {}..{}", role.name, role.threads.start, role.threads.end)?;
        if let Some(registers) = role.registers {
            write!(out, " registers {registers}")?;
        }
        out.push_str(" {\n");
        write_block(program, &role.body, 4, out)?;
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    Ok(())
}

fn raster_text(raster: Raster) -> String {
    format!("raster(group = {}, along = {})", raster.group, if raster.along == Along::M { "m" } else { "n" })
}

fn write_buffer(buffer: &Buffer, out: &mut String) -> fmt::Result {
    let own = if buffer.side == Side::A { "m" } else { "n" };
    let (slow, fast) = match buffer.fast {
        Fast::K => (own, "k"),
        Fast::Mn => ("k", own),
    };
    write!(
        out,
        "  buffer {} {} [{own} {}, k {}] order {slow}{fast} pitch {} at {} B",
        buffer.name, buffer.element, buffer.extent, buffer.depth, buffer.pitch, buffer.offset_bytes
    )?;
    match buffer.swizzle {
        Swizzle::None => writeln!(out),
        Swizzle::Bytes(bytes) => writeln!(out, " swizzle({bytes})"),
    }
}

fn write_ring(program: &Program, ring: &Ring, out: &mut String) -> fmt::Result {
    let fill = match ring.fill {
        Load::Registers => "registers",
        Load::CpAsync => "cp_async",
        Load::Tma => "tma",
    };
    let buffers: Vec<&str> = ring.buffers.iter().map(|b| program.buffers[*b].name).collect();
    writeln!(
        out,
        "  ring {} ({}) depth {} slot {} B fill {fill} full {} empty {}",
        ring.name,
        buffers.join(", "),
        ring.depth,
        ring.slot_bytes,
        signal_text(ring.full),
        signal_text(ring.empty)
    )
}

fn signal_text(signal: Signal) -> String {
    match signal {
        Signal::BlockBarrier => "barrier".to_string(),
        Signal::NamedBarrier { id, threads } => format!("barrier {id} of {threads} threads"),
        Signal::CopyGroups => "copy groups and barrier".to_string(),
        Signal::Mbarrier { arrivals, transaction_bytes, cluster } => {
            format!("mbarrier({arrivals} arrivals, {transaction_bytes} B{})", if cluster { ", cluster" } else { "" })
        }
        Signal::NextWait => "by the next wait".to_string(),
    }
}

fn write_block(program: &Program, body: &[Statement], indent: usize, out: &mut String) -> fmt::Result {
    for statement in body {
        let (head, nested) = head(program, &statement.op);
        let open = if nested.is_some() { " {" } else { "" };
        let width = CLAUSE_COLUMN.saturating_sub(indent);
        writeln!(out, "{:indent$}{:width$} ; {}", "", format!("{head}{open}"), statement.clause)?;
        if let Some(nested) = nested {
            write_block(program, nested, indent + 2, out)?;
            writeln!(out, "{:indent$}}}", "")?;
        }
    }
    Ok(())
}

fn head<'a>(program: &Program, op: &'a Op) -> (String, Option<&'a [Statement]>) {
    let ring = |r: usize| program.rings[r].name;
    let acc = |a: usize| program.accumulators[a].name;
    let text = match op {
        Op::Tiles(body) => return ("tiles".to_string(), Some(body)),
        Op::Loop { count, body } => return (format!("loop kt in 0..{}", count_text(*count)), Some(body)),
        Op::Steps { count, unroll, prefetch, body } => {
            let head = format!("steps 0..{} unroll {unroll} prefetch {prefetch}", count_text(*count));
            return (head, Some(body));
        }
        Op::Drain { ring: r } => format!("drain {}", ring(*r)),
        Op::Reduce { acc: a, body } => {
            return (format!("reduce {} over the parts of k; the last one", acc(*a)), Some(body));
        }
        Op::Clear { acc: a } => format!("clear {}", acc(*a)),
        Op::Acquire { ring: r } => format!("acquire {}", ring(*r)),
        Op::Copy { ring: r, buffer, tile, width } => {
            format!("copy {}[{}] -> {} width {width}", program.buffers[*buffer].name, index_text(*tile), ring(*r))
        }
        Op::Commit { ring: r } => format!("commit {}", ring(*r)),
        Op::Wait { ring: r } => format!("wait {}", ring(*r)),
        Op::Release { ring: r } => format!("release {}", ring(*r)),
        Op::Fetch { side, from, width, hold } => {
            let side = if *side == Side::A { "a" } else { "b" };
            let from = match from {
                Source::Buffer(b) => program.buffers[*b].name,
                Source::Global => "global",
            };
            let hold = if *hold == Operands::Shared { " for each product" } else { "" };
            format!("fetch {side} from {from} width {width}{hold}")
        }
        Op::Multiply { acc: a, order, fresh } => {
            let order = match order {
                ptx_gemm_dsl::terms::FmaOrder::Row => "row",
                ptx_gemm_dsl::terms::FmaOrder::Snake => "snake",
                ptx_gemm_dsl::terms::FmaOrder::ColumnSnake => "column_snake",
            };
            format!("multiply {} {} a * b order {order}", acc(*a), if *fresh { "=" } else { "+=" })
        }
        Op::Retire { in_flight } => format!("retire to {in_flight} in flight"),
        Op::Promote { from, into } => format!("promote {} into {}", acc(*from), acc(*into)),
        Op::Sync => "sync".to_string(),
        Op::Store { acc: a, width, through } => {
            let through = match through {
                Through::Registers => "direct",
                Through::Shared => "staged",
                Through::Tma => "tma",
            };
            format!("store epilogue({}) -> D {through} width {width}", acc(*a))
        }
    };
    (text, None)
}

fn count_text(count: Count) -> String {
    match count {
        Count::KTiles => "k_tiles".to_string(),
        Count::KSteps => "k".to_string(),
        Count::Exactly(n) => n.to_string(),
    }
}

fn index_text(index: Index) -> String {
    match index {
        Index::At(n) => n.to_string(),
        Index::Ahead(0) => "kt".to_string(),
        Index::Ahead(n) => format!("kt + {n}"),
    }
}
