//! Statements of a role.

use ptx_gemm_dsl::terms::{Reads, Reduce};

use super::Parser;
use super::cursor::{Cursor, Parsed};
use crate::tile::lexer::Token;
use crate::tile::{
    Fetch, Hold, Index, Instruction, MMA, Mover, Multiply, Op, Program, ReadC, Source, Span, Stager, Statement, Writer,
};
use crate::violation::Site;

/// Statements nested deeper than this are rejected before they overflow the stack.
const MAX_NESTING: usize = 64;

impl<'t> Parser<'t> {
    /// Reads statements up to and including the closing brace.
    pub(super) fn body(&mut self, program: &Program, entry: usize, path: &mut Vec<usize>) -> Parsed<Vec<Statement>> {
        let mut body = Vec::new();
        while !self.at_close() {
            let cursor = self.line("a statement or `}`")?;
            if path.len() > MAX_NESTING {
                return cursor.error(format!("statements nest deeper than {MAX_NESTING}"));
            }
            path.push(body.len());
            self.mark(entry, Site::Statement(path.clone()), &cursor);
            let statement = self.statement(program, entry, path, cursor)?;
            body.push(statement);
            path.pop();
        }
        self.close()?;
        Ok(body)
    }

    fn statement(
        &mut self,
        program: &Program,
        entry: usize,
        path: &mut Vec<usize>,
        mut cursor: Cursor<'t>,
    ) -> Parsed<Statement> {
        let rings = || program.rings.iter().map(|ring| ring.name.as_str());
        let turns = || program.turns.iter().map(|turn| turn.name.as_str());
        let accumulators = || program.accumulators.iter().map(|acc| acc.name.as_str());
        let note = cursor.note();
        let op = match cursor.any_word("a statement")? {
            "tiles" => {
                cursor.open()?;
                Op::Tiles { body: self.body(program, entry, path)? }
            }
            "after_first" => {
                cursor.open()?;
                Op::AfterFirst { body: self.body(program, entry, path)? }
            }
            "if_any_k" => {
                cursor.open()?;
                Op::IfAnyK { body: self.body(program, entry, path)? }
            }
            "if_chunk_ends" => {
                cursor.open()?;
                Op::IfChunkEnds { body: self.body(program, entry, path)? }
            }
            "loop" => {
                cursor.word("kt")?;
                cursor.open()?;
                Op::Loop { body: self.body(program, entry, path)? }
            }
            "reduce" => {
                let acc = cursor.find("an accumulator", accumulators())?;
                let how: Reduce = cursor.of()?;
                cursor.open()?;
                Op::Reduce { acc, how, body: self.body(program, entry, path)? }
            }
            "steps" => self.steps(program, entry, path, &mut cursor)?,
            word => {
                let op = match word {
                    "clear" => Op::Clear { acc: cursor.find("an accumulator", accumulators())? },
                    "read" => {
                        let acc = cursor.find("an accumulator", accumulators())?;
                        cursor.mark("<-")?;
                        cursor.word("a")?;
                        Op::Read { acc, width: cursor.named("width")? }
                    }
                    "acquire" => Op::Acquire { ring: cursor.find("a ring", rings())? },
                    "skip" => Op::Skip { ring: cursor.find("a ring", rings())? },
                    "lend" => Op::Lend { ring: cursor.find("a ring", rings())? },
                    "borrow" => Op::Borrow { ring: cursor.find("a ring", rings())? },
                    "return" => Op::Return { ring: cursor.find("a ring", rings())? },
                    "take" => Op::Take { turn: cursor.find("a turn", turns())? },
                    "pass" => Op::Pass { turn: cursor.find("a turn", turns())? },
                    "commit" => Op::Commit { ring: cursor.find("a ring", rings())? },
                    "wait" => Op::Wait { ring: cursor.find("a ring", rings())? },
                    "release" => {
                        let ring = cursor.find("a ring", rings())?;
                        Op::Release { ring, kept: rest(&mut cursor)? }
                    }
                    "retire" => Op::Retire { steps: rest(&mut cursor)? },
                    "copy" => copy(&mut cursor, program)?,
                    "promote" => {
                        let from = cursor.find("an accumulator", accumulators())?;
                        cursor.word("into")?;
                        let into = cursor.find("an accumulator", accumulators())?;
                        let rest = match cursor.takes(Token::Word("rest")) {
                            true => Some(cursor.find("an accumulator", accumulators())?),
                            false => None,
                        };
                        Op::Promote { from, into, rest }
                    }
                    "add" => {
                        let rest = cursor.find("an accumulator", accumulators())?;
                        cursor.word("to")?;
                        Op::AddRest { rest, into: cursor.find("an accumulator", accumulators())? }
                    }
                    "share" => {
                        let acc = cursor.find("an accumulator", accumulators())?;
                        Op::Share { acc, width: cursor.named("width")? }
                    }
                    "sync" => Op::Sync,
                    "settle" => Op::Settle,
                    "drain" => Op::Drain,
                    "meet" => {
                        let names = program.barriers.iter().map(|barrier| barrier.name.as_str());
                        Op::Meet { barrier: cursor.find("a barrier", names)? }
                    }
                    "store" => {
                        let acc = cursor.find("an accumulator", accumulators())?;
                        cursor.mark("->")?;
                        cursor.word("d")?;
                        let (width, c_width) = widths(&mut cursor, program)?;
                        Op::Store { acc, width, c_width }
                    }
                    "stage" => {
                        let acc = cursor.find("an accumulator", accumulators())?;
                        let by = match cursor.takes(Token::Word("by")) {
                            true => {
                                cursor.word("matrices")?;
                                Stager::Matrices
                            }
                            false => Stager::Registers { width: cursor.named("width")? },
                        };
                        Op::Stage { acc, by, c: read_c(&mut cursor, program)? }
                    }
                    "prefetch" => {
                        cursor.word("c")?;
                        cursor.word("by")?;
                        cursor.word("tma")?;
                        Op::PrefetchC { rows: cursor.named("rows")? }
                    }
                    "await" => {
                        cursor.word("c")?;
                        Op::AwaitC
                    }
                    "write" => {
                        cursor.word("d")?;
                        cursor.word("by")?;
                        let by = match cursor.any_word("`registers` or `tma`")? {
                            "registers" => Writer::Registers { width: cursor.named("width")? },
                            "tma" => Writer::Tma { rows: cursor.named("rows")? },
                            other => {
                                return cursor.error_before(format!("expected `registers` or `tma`, found `{other}`"));
                            }
                        };
                        Op::Write { by }
                    }
                    other => return cursor.error_before(format!("`{other}` is not a statement")),
                };
                cursor.end()?;
                op
            }
        };
        Ok(Statement { op, note })
    }

    fn steps(&mut self, program: &Program, entry: usize, path: &[usize], cursor: &mut Cursor<'t>) -> Parsed<Op> {
        let span = if cursor.takes(Token::Word("all")) {
            Span::All
        } else {
            let start = cursor.number()?;
            cursor.mark("..")?;
            Span::Tile(start..cursor.number()?)
        };
        let unroll = cursor.named("unroll")?;
        cursor.open()?;
        let mut fetches = Vec::new();
        for place in 0..2 {
            let mut cursor = self.line_of("fetch")?;
            self.mark(entry, Site::Statement([path, &[place]].concat()), &cursor);
            let fetch = fetch(&mut cursor, program)?;
            fetches.push((fetch, cursor.note()));
        }
        let mut cursor = self.line_of("multiply")?;
        self.mark(entry, Site::Statement([path, &[2]].concat()), &cursor);
        let acc = cursor.find("an accumulator", program.accumulators.iter().map(|acc| acc.name.as_str()))?;
        cursor.mark("+=")?;
        cursor.word("a")?;
        cursor.mark("*")?;
        cursor.word("b")?;
        let by = match cursor.any_word("`order` or `by`")? {
            "order" => Instruction::Fma { order: cursor.of()? },
            "by" => match cursor.any_word("`mma` or `wgmma`")? {
                "mma" => {
                    let rows = if cursor.takes(Token::Word("m")) { cursor.number()? } else { MMA.m };
                    let depth = if cursor.takes(Token::Word("k")) { cursor.number()? } else { MMA.k };
                    Instruction::Mma { rows, depth }
                }
                "wgmma" => {
                    let columns = cursor.named("n")?;
                    let grain = if cursor.takes(Token::Word("grain")) { cursor.number()? } else { columns };
                    Instruction::Wgmma { columns, grain }
                }
                other => return cursor.error_before(format!("expected `mma` or `wgmma`, found `{other}`")),
            },
            other => return cursor.error_before(format!("expected `order` or `by`, found `{other}`")),
        };
        cursor.end()?;
        let multiply_note = cursor.note();
        self.close()?;
        Ok(Op::Steps { span, unroll, fetches, multiply: Multiply { acc, by }, multiply_note })
    }
}

/// The number of newest items that a statement leaves out.
fn rest(cursor: &mut Cursor<'_>) -> Parsed<u32> {
    if cursor.takes(Token::Word("but")) { cursor.number() } else { Ok(0) }
}

/// Elements per access of D, and of C if the epilogue reads it.
fn widths(cursor: &mut Cursor<'_>, program: &Program) -> Parsed<(u32, u32)> {
    Ok((cursor.named("width")?, c_width(cursor, program)?))
}

fn c_width(cursor: &mut Cursor<'_>, program: &Program) -> Parsed<u32> {
    match program.problem.epilogue.uses_c() {
        true => {
            cursor.word("c")?;
            cursor.named("width")
        }
        false => Ok(1),
    }
}

/// Where a thread that stages D reads C, if the epilogue reads it.
fn read_c(cursor: &mut Cursor<'_>, program: &Program) -> Parsed<ReadC> {
    if !program.problem.epilogue.uses_c() {
        return Ok(ReadC::Global { width: 1 });
    }
    cursor.word("c")?;
    match cursor.takes(Token::Word("staged")) {
        true => Ok(ReadC::Stage),
        false => Ok(ReadC::Global { width: cursor.named("width")? }),
    }
}

fn copy(cursor: &mut Cursor<'_>, program: &Program) -> Parsed<Op> {
    let side = cursor.side()?;
    cursor.mark("[")?;
    let tile = match cursor.peek() {
        Some(Token::Number(n)) => {
            cursor.at += 1;
            Index::At(n)
        }
        _ => {
            cursor.word("kt")?;
            Index::Ahead(if cursor.takes(Token::Mark("+")) { cursor.number()? } else { 0 })
        }
    };
    cursor.mark("]")?;
    cursor.mark("->")?;
    let buffer = cursor.find("a buffer", program.buffers.iter().map(|buffer| buffer.name.as_str()))?;
    if program.buffers[buffer].side != side {
        return cursor.error_before(format!("`{}` is not a buffer of that operand", program.buffers[buffer].name));
    }
    cursor.word("by")?;
    let by = match cursor.any_word("`registers`, `cp_async` or `tma`")? {
        "registers" => Mover::Registers { width: cursor.named("width")?, store: cursor.named("store")? },
        "cp_async" => Mover::CpAsync { width: cursor.named("width")?, piece: cursor.named("piece")? },
        "tma" => {
            let rows = cursor.named("rows")?;
            Mover::Tma { rows, multicast: cursor.takes(Token::Word("multicast")) }
        }
        other => return cursor.error_before(format!("expected `registers`, `cp_async` or `tma`, found `{other}`")),
    };
    Ok(Op::Copy { buffer, tile, by })
}

fn fetch(cursor: &mut Cursor<'_>, program: &Program) -> Parsed<Fetch> {
    let side = cursor.side()?;
    cursor.mark("<-")?;
    let from = match cursor.takes(Token::Word("global")) {
        true => Source::Global,
        false => Source::Buffer(cursor.find("a buffer", program.buffers.iter().map(|buffer| buffer.name.as_str()))?),
    };
    if let Source::Buffer(buffer) = from
        && program.buffers[buffer].side != side
    {
        return cursor.error_before(format!("`{}` is not a buffer of that operand", program.buffers[buffer].name));
    }
    if cursor.takes(Token::Word("by")) {
        let (hold, ahead) = match cursor.any_word("`matrices` or `descriptor`")? {
            "matrices" => (Hold::Matrices, cursor.named("ahead")?),
            "descriptor" => (Hold::Descriptor, 0),
            other => return cursor.error_before(format!("expected `matrices` or `descriptor`, found `{other}`")),
        };
        cursor.end()?;
        return Ok(Fetch { side, from, width: 1, ahead, hold, reads: Reads::Movable });
    }
    let width = cursor.named("width")?;
    let (hold, ahead) = match cursor.takes(Token::Word("each")) {
        true => {
            cursor.word("product")?;
            (Hold::EachProduct, 0)
        }
        false => (Hold::Registers, cursor.named("ahead")?),
    };
    let reads = if cursor.takes(Token::Word("volatile")) { Reads::Volatile } else { Reads::Movable };
    cursor.end()?;
    Ok(Fetch { side, from, width, ahead, hold, reads })
}
