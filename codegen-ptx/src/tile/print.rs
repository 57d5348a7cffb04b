//! The text form of tile IR: one declaration or statement per line, with its note after `;`. The grammar is in
//! [`super::parse`].

use std::fmt::Write;

use ptx_gemm_dsl::terms::{Extent2, Fast, Reads, Side, Swizzle, Wave};
use ptx_gemm_dsl::types::Orientation;
use ptx_gemm_dsl::words::Word;

use super::{
    Accumulator, Buffer, Digit, Division, Empty, Exchange, Fetch, Full, Hold, Index, Instruction, MMA, Map, Module,
    Mover, Multiply, Op, Program, ReadC, Ring, Source, Span, Stage, StagePlace, Stager, Statement, Walk, Writer,
    param_name,
};

/// Column of the notes.
const NOTE_COLUMN: usize = 72;

/// A module as text.
pub fn print(module: &Module) -> String {
    let mut out = Printer { text: String::new(), indent: 0 };
    out.module(module);
    out.text
}

struct Printer {
    text: String,
    indent: usize,
}

impl Printer {
    fn line(&mut self, text: &str, note: &str) {
        let line = format!("{:indent$}{text}", "", indent = self.indent);
        // Writing to a String does not fail.
        let _ = match note {
            "" => writeln!(self.text, "{line}"),
            note => writeln!(self.text, "{line:NOTE_COLUMN$} ; {note}"),
        };
    }

    fn nested(&mut self, head: &str, note: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{head} {{"), note);
        self.indent += 2;
        body(self);
        self.indent -= 2;
        self.line("}", "");
    }

    fn module(&mut self, module: &Module) {
        let problem = &module.problem;
        self.nested(&format!("module {}", module.target), "", |out| {
            if problem.orientation == Orientation::Transposed {
                out.line("transposed", &module.orientation_note);
            }
            let matrices: Vec<_> = problem.matrices().collect();
            let types: Vec<String> =
                matrices.iter().map(|matrix| format!("{} {}", matrix.name(), problem.types.of(*matrix))).collect();
            out.line(&format!("types {}, acc {}", types.join(", "), problem.types.acc), "");
            let layouts: Vec<String> =
                matrices.iter().map(|matrix| format!("{} {}", matrix.name(), problem.layouts.of(*matrix))).collect();
            out.line(&format!("layout {}", layouts.join(", ")), "");
            out.line(&format!("epilogue {}", problem.epilogue), "");
            out.line(&format!("batch {}", super::batch_word(problem.batch)), "");
            module.entries.iter().for_each(|program| out.program(program));
        });
    }

    fn program(&mut self, program: &Program) {
        self.nested(&format!("entry {}", program.name), "", |out| {
            let block = program.block;
            out.line(&format!("tile m {}, n {}, k {}", block.m, block.n, block.k), &program.block_note);
            out.line(&format!("tail {}", program.tail.word()), &program.tail_note);
            out.line(&format!("blocks_per_sm {}", program.blocks_per_sm), "");
            let params: Vec<String> = program.params.iter().map(|p| param_name(p, &program.problem)).collect();
            out.line(&format!("params {}", params.join(", ")), "");
            let scheduler = &program.scheduler;
            let raster = format!("raster group {} along {}", scheduler.raster.group, scheduler.raster.along.word());
            out.line(&raster, &scheduler.raster_note);
            if scheduler.cluster_blocks() > 1 {
                let Extent2 { m, n } = scheduler.cluster;
                out.line(&format!("cluster m {m}, n {n}"), &scheduler.cluster_note);
            }
            match scheduler.persistent {
                None => {}
                Some(Wave::Device) => out.line("persistent", &scheduler.persistent_note),
                Some(Wave::Blocks(n)) => out.line(&format!("persistent blocks {n}"), &scheduler.persistent_note),
            }
            match scheduler.division {
                Division::Whole => {}
                Division::Parts(parts) => out.line(&format!("parts {parts}"), &scheduler.division_note),
                Division::Cluster(parts) => {
                    out.line(&format!("parts {parts} cluster"), &scheduler.division_note);
                }
                Division::Stream => out.line("stream_k", &scheduler.division_note),
            }
            for pack in &program.packs {
                let (slow, fast) = dims(pack.side, (pack.extent, pack.depth), pack.fast);
                let planes =
                    pack.planes.map_or_else(String::new, |planes| format!(" planes {} {}", planes.count, planes.dtype));
                out.line(
                    &format!("pack {} {slow}{fast} threads {}{planes}", side(pack.side), pack.threads),
                    &pack.note,
                );
            }
            if let Some(Walk { chunk, pairs, note }) = &program.walk {
                let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("a {a} b {b}")).collect();
                let pairs = match program.planes(Side::A) {
                    Some(_) => format!(" pairs {}", pairs.join(", ")),
                    None => String::new(),
                };
                out.line(&format!("walk chunk {chunk}{pairs}"), note);
            }
            program.buffers.iter().for_each(|buffer| out.buffer(buffer));
            program.rings.iter().for_each(|ring| out.ring(program, ring));
            if let Some(Stage { pitch, swizzle, place, note }) = &program.stage {
                let place = match place {
                    StagePlace::At(offset_bytes) => format!("at {offset_bytes} B"),
                    StagePlace::Slots(ring) => format!("in {}", program.rings[*ring].name),
                };
                out.line(&format!("stage of d pitch {pitch} {place}{}", swizzle_text(*swizzle)), note);
            }
            if let Some(arrival) = &program.arrival {
                out.line(&format!("arrival of c at {} B", arrival.offset_bytes), &arrival.note);
            }
            for barrier in &program.barriers {
                let text = format!("barrier {} number {} threads {}", barrier.name, barrier.number, barrier.threads);
                out.line(&text, &barrier.note);
            }
            for turn in &program.turns {
                out.line(&format!("turn {} at {} B", turn.name, turn.offset_bytes), &turn.note);
            }
            program.accumulators.iter().for_each(|acc| out.accumulator(acc));
            for role in &program.roles {
                let turns = if role.turns == 1 { String::new() } else { format!(" turns {}", role.turns) };
                let head = format!("role {} threads {}..{}{turns}", role.name, role.threads.start, role.threads.end);
                out.nested(&head, &role.note, |out| {
                    if let Some(registers) = role.registers {
                        out.line(&format!("registers {registers}"), &role.registers_note);
                    }
                    out.body(program, &role.body);
                });
            }
            if let Some(exchange) = &program.exchange {
                out.exchange(program, exchange);
            }
        });
    }

    fn buffer(&mut self, buffer: &Buffer) {
        let (slow, fast) = dims(buffer.side, (buffer.extent, buffer.depth), buffer.fast);
        let swizzle = swizzle_text(buffer.swizzle);
        let (name, pitch, at) = (&buffer.name, buffer.pitch, buffer.offset_bytes);
        let plane = buffer.plane.map_or_else(String::new, |plane| format!(" plane {plane}"));
        let text =
            format!("buffer {name} of {}{plane} {slow}{fast} pitch {pitch} at {at} B{swizzle}", side(buffer.side));
        self.line(&text, &buffer.note);
    }

    fn ring(&mut self, program: &Program, ring: &Ring) {
        let buffers: Vec<&str> = ring.buffers.iter().map(|b| program.buffers[*b].name.as_str()).collect();
        let full = match ring.full {
            Full::Barrier => "barrier".into(),
            Full::CopyGroups { in_flight } => format!("copy_groups({in_flight})"),
            Full::Mbarrier { arrivals } => format!("mbarrier({arrivals})"),
        };
        let empty = match ring.empty {
            Empty::Barrier => "barrier".into(),
            Empty::NextWait => "next_wait".into(),
            Empty::Mbarrier { arrivals } => format!("mbarrier({arrivals})"),
        };
        let (name, depth, slot) = (&ring.name, ring.depth, ring.slot_bytes);
        let text =
            format!("ring {name} ({}) depth {depth} slot {slot} B full {full} empty {empty}", buffers.join(", "));
        self.line(&text, &ring.note);
        if let Some(at) = ring.mbarriers {
            self.line(&format!("mbarriers {name} at {at} B"), &ring.mbarrier_note);
        }
    }

    fn accumulator(&mut self, acc: &Accumulator) {
        self.line(&format!("accumulator {}{}", acc.name, map_text(&acc.map)), &acc.note);
    }

    fn exchange(&mut self, program: &Program, exchange: &Exchange) {
        let Exchange { map, pitch, offset_bytes, width, c_width, note } = exchange;
        let c = if program.problem.epilogue.uses_c() { format!(" c width {c_width}") } else { String::new() };
        let map = map_text(map);
        self.line(&format!("exchange{map} pitch {pitch} at {offset_bytes} B -> d width {width}{c}"), note);
    }

    fn body(&mut self, program: &Program, body: &[Statement]) {
        for statement in body {
            let head = head(program, &statement.op);
            match &statement.op {
                Op::Steps { fetches, multiply, multiply_note, .. } => self.nested(&head, &statement.note, |out| {
                    for (fetch, note) in fetches {
                        out.line(&fetch_text(program, fetch), note);
                    }
                    out.line(&multiply_text(program, multiply), multiply_note);
                }),
                Op::Tiles { body }
                | Op::AfterFirst { body }
                | Op::IfAnyK { body }
                | Op::Loop { body }
                | Op::IfChunkEnds { body }
                | Op::Reduce { body, .. } => {
                    self.nested(&head, &statement.note, |out| out.body(program, body));
                }
                _ => self.line(&head, &statement.note),
            }
        }
    }
}

/// Which elements each thread has, and in which registers.
fn map_text(map: &Map) -> String {
    let digits = |word: &str, digits: &[Digit]| {
        digits.iter().fold(format!(" {word}"), |text, digit| match *digit {
            Digit { extent, m: 0, n } => format!("{text} {extent}:n{n}"),
            Digit { extent, m, .. } => format!("{text} {extent}:m{m}"),
        })
    };
    let warps = if map.warp.is_empty() { String::new() } else { digits("warps", &map.warp) };
    format!("{}{warps}{}", digits("threads", &map.thread), digits("holds", &map.element))
}

/// The statement's first word.
pub fn name(op: &Op) -> &'static str {
    match op {
        Op::Tiles { .. } => "tiles",
        Op::AfterFirst { .. } => "after_first",
        Op::IfAnyK { .. } => "if_any_k",
        Op::IfChunkEnds { .. } => "if_chunk_ends",
        Op::Loop { .. } => "loop",
        Op::Clear { .. } => "clear",
        Op::Read { .. } => "read",
        Op::Acquire { .. } => "acquire",
        Op::Copy { .. } => "copy",
        Op::Commit { .. } => "commit",
        Op::Wait { .. } => "wait",
        Op::Release { .. } => "release",
        Op::Skip { .. } => "skip",
        Op::Lend { .. } => "lend",
        Op::Borrow { .. } => "borrow",
        Op::Return { .. } => "return",
        Op::Take { .. } => "take",
        Op::Pass { .. } => "pass",
        Op::Retire { .. } => "retire",
        Op::Steps { .. } => "steps",
        Op::Promote { .. } => "promote",
        Op::AddRest { .. } => "add",
        Op::Sync => "sync",
        Op::Meet { .. } => "meet",
        Op::Drain => "drain",
        Op::Reduce { .. } => "reduce",
        Op::Share { .. } => "share",
        Op::PrefetchC { .. } => "prefetch",
        Op::AwaitC => "await",
        Op::Stage { .. } => "stage",
        Op::Write { .. } => "write",
        Op::Settle => "settle",
        Op::Store { .. } => "store",
    }
}

/// A statement's line, without nested statements.
fn head(program: &Program, op: &Op) -> String {
    let name = name(op);
    let ring = |r: usize| program.rings[r].name.as_str();
    let acc = |a: usize| program.accumulators[a].name.as_str();
    let c = |width: u32| if program.problem.epilogue.uses_c() { format!(" c width {width}") } else { String::new() };
    match op {
        Op::Tiles { .. }
        | Op::AfterFirst { .. }
        | Op::IfAnyK { .. }
        | Op::IfChunkEnds { .. }
        | Op::Sync
        | Op::Drain
        | Op::Settle => name.into(),
        Op::Loop { .. } => format!("{name} kt"),
        Op::Clear { acc: a } => format!("{name} {}", acc(*a)),
        Op::Read { acc: a, width } => format!("{name} {} <- a width {width}", acc(*a)),
        Op::Acquire { ring: r }
        | Op::Commit { ring: r }
        | Op::Wait { ring: r }
        | Op::Skip { ring: r }
        | Op::Lend { ring: r }
        | Op::Borrow { ring: r }
        | Op::Return { ring: r }
        | Op::Release { ring: r, kept: 0 } => format!("{name} {}", ring(*r)),
        Op::Take { turn } | Op::Pass { turn } => format!("{name} {}", program.turns[*turn].name),
        Op::Release { ring: r, kept } => format!("{name} {} but {kept}", ring(*r)),
        Op::Retire { steps: 0 } => name.into(),
        Op::Retire { steps } => format!("{name} but {steps}"),
        Op::Copy { buffer, tile, by } => {
            let buffer = &program.buffers[*buffer];
            let tile = match tile {
                Index::At(n) => n.to_string(),
                Index::Ahead(0) => "kt".into(),
                Index::Ahead(n) => format!("kt + {n}"),
            };
            let by = match by {
                Mover::Registers { width, store } => format!("registers width {width} store {store}"),
                Mover::CpAsync { width, piece } => format!("cp_async width {width} piece {piece}"),
                Mover::Tma { rows, multicast: false } => format!("tma rows {rows}"),
                Mover::Tma { rows, multicast: true } => format!("tma rows {rows} multicast"),
            };
            format!("{name} {}[{tile}] -> {} by {by}", side(buffer.side), buffer.name)
        }
        Op::Steps { span, unroll, .. } => match span {
            Span::Tile(range) => format!("{name} {}..{} unroll {unroll}", range.start, range.end),
            Span::All => format!("{name} all unroll {unroll}"),
        },
        Op::Promote { from, into, rest } => {
            let rest = rest.map_or_else(String::new, |rest| format!(" rest {}", acc(rest)));
            format!("{name} {} into {}{rest}", acc(*from), acc(*into))
        }
        Op::AddRest { rest, into } => format!("{name} {} to {}", acc(*rest), acc(*into)),
        Op::Meet { barrier } => format!("{name} {}", program.barriers[*barrier].name),
        Op::Reduce { acc: a, how, .. } => format!("{name} {} {}", acc(*a), how.word()),
        Op::Share { acc: a, width } => format!("{name} {} width {width}", acc(*a)),
        Op::PrefetchC { rows } => format!("{name} c by tma rows {rows}"),
        Op::AwaitC => format!("{name} c"),
        Op::Stage { acc: a, by, c: from } => {
            let by = match by {
                Stager::Registers { width } => format!("width {width}"),
                Stager::Matrices => "by matrices".into(),
            };
            let from = match from {
                ReadC::Global { width } => c(*width),
                ReadC::Stage => " c staged".into(),
            };
            format!("{name} {} {by}{from}", acc(*a))
        }
        Op::Write { by: Writer::Registers { width } } => format!("{name} d by registers width {width}"),
        Op::Write { by: Writer::Tma { rows } } => format!("{name} d by tma rows {rows}"),
        Op::Store { acc: a, width, c_width } => format!("{name} {} -> d width {width}{}", acc(*a), c(*c_width)),
    }
}

/// The two dimensions of an operand's tile, the contiguous one last.
fn dims(side: Side, (extent, depth): (u32, u32), fast: Fast) -> (String, String) {
    let own = match side {
        Side::A => "m",
        Side::B => "n",
    };
    let (own, k) = (format!("[{own} {extent}]"), format!("[k {depth}]"));
    match fast {
        Fast::K => (own, k),
        Fast::Mn => (k, own),
    }
}

fn fetch_text(program: &Program, fetch: &Fetch) -> String {
    let from = match fetch.from {
        Source::Buffer(buffer) => program.buffers[buffer].name.as_str(),
        Source::Global => "global",
    };
    let how = match fetch.hold {
        Hold::Registers => format!("width {} ahead {}", fetch.width, fetch.ahead),
        Hold::EachProduct => format!("width {} each product", fetch.width),
        Hold::Matrices => format!("by matrices ahead {}", fetch.ahead),
        Hold::Descriptor => "by descriptor".into(),
    };
    let reads = if fetch.reads == Reads::Volatile { " volatile" } else { "" };
    format!("fetch {} <- {from} {how}{reads}", side(fetch.side))
}

fn multiply_text(program: &Program, multiply: &Multiply) -> String {
    let by = match multiply.by {
        Instruction::Fma { order } => format!("order {}", order.word()),
        Instruction::Mma { rows, depth } => {
            let rows = if rows == MMA.m { String::new() } else { format!(" m {rows}") };
            let depth = if depth == MMA.k { String::new() } else { format!(" k {depth}") };
            format!("by mma{rows}{depth}")
        }
        Instruction::Wgmma { columns, grain } if grain == columns => format!("by wgmma n {columns}"),
        Instruction::Wgmma { columns, grain } => format!("by wgmma n {columns} grain {grain}"),
    };
    format!("multiply {} += a * b {by}", program.accumulators[multiply.acc].name)
}

fn swizzle_text(swizzle: Swizzle) -> String {
    match swizzle {
        Swizzle::None => String::new(),
        Swizzle::Bytes(bytes) => format!(" swizzle {bytes} B"),
    }
}

/// The operand's letter.
pub(super) fn side(side: Side) -> &'static str {
    side.operand().name()
}
