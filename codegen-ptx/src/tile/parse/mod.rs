//! The parser of tile IR's text: `parse(print(module)) == module`.
//!
//! A line holds one declaration or statement; the text after its `;` is its note. Blank lines and lines with only a
//! note are skipped. `{` ends a line, and `}` is a line of its own. `n` is a 32-bit number, `name` a word.
//!
//! ```text
//! module      = "module" target "{" problem entry+ "}"
//! problem     = ["transposed"]                             this is the transpose of the product that a caller asks for
//!               "types" (matrix type ",")+ "acc" type      every matrix: a, b, c if the epilogue reads it, d
//!               "layout" (matrix ("row" | "col")),+
//!               "epilogue" expression                      as in a schedule: |acc, alpha| alpha * acc
//!               "batch" ("one" | "strided" | "grouped")
//! entry       = "entry" name "{" header item* role+ [exchange] "}"
//! header      = "tile" "m" n "," "n" n "," "k" n
//!               "tail" ("predicate" | "none")
//!               "blocks_per_sm" n
//!               "params" name,+                            in the order of the ABI: a, lda, m, s_alpha, map_a, workspace
//!               "raster" "group" n "along" ("n" | "m")
//!               ["cluster" "m" n "," "n" n]
//!               ["persistent" ["blocks" n]]
//!               ["parts" n ["cluster"] | "stream_k"]
//! item        = "pack" ("a" | "b") "[" dim n "]" "[" dim n "]" "threads" n ["planes" n type]
//!             | "walk" "chunk" n ["pairs" ("a" n "b" n),+]
//!             | "buffer" name "of" ("a" | "b") "[" dim n "]" "[" dim n "]" "pitch" n "at" n "B" ["swizzle" n "B"]
//!             | "ring" name "(" name,+ ")" "depth" n "slot" n "B" "full" full "empty" empty
//!             | "mbarriers" ring "at" n "B"
//!             | "stage" "of" "d" "pitch" n ("at" n "B" | "in" ring) ["swizzle" n "B"]
//!             | "arrival" "of" "c" "at" n "B"
//!             | "barrier" name "number" n "threads" n
//!             | "turn" name "at" n "B"
//!             | "accumulator" name map
//! map         = "threads" digit* ["warps" digit+] "holds" digit*
//! full        = "barrier" | "copy_groups" "(" n ")" | "mbarrier" "(" n ")"
//! empty       = "barrier" | "next_wait" | "mbarrier" "(" n ")"
//! digit       = n ":" ("m" | "n")n                         values, and the distance from one to the next: 16:n8
//! role        = "role" name "threads" n ".." n ["turns" n] "{" ["registers" n] statement* "}"
//! statement   = "tiles" "{" statement* "}"
//!             | "if_any_k" "{" statement* "}"
//!             | "if_chunk_ends" "{" statement* "}"
//!             | "loop" "kt" "{" statement* "}"
//!             | ("acquire" | "commit" | "wait" | "skip" | "lend" | "borrow" | "return") ring | "release" ring ["but" n] | "retire" ["but" n]
//!             | ("take" | "pass") turn
//!             | "copy" ("a" | "b") "[" tile "]" "->" buffer "by" mover
//!             | "steps" (n ".." n | "all") "unroll" n "{" fetch fetch multiply "}"
//!             | "clear" acc | "read" acc "<-" "a" "width" n | "promote" acc "into" acc ["rest" acc] | "add" acc "to" acc | "sync" | "meet" barrier | "drain"
//!             | "reduce" acc ("serial" | "workspace") "{" statement* "}"
//!             | "store" acc "->" "d" "width" n ["c" "width" n] | "share" acc "width" n
//!             | "prefetch" "c" "by" "tma" "rows" n | "await" "c"
//!             | "stage" acc ("width" n | "by" "matrices") ["c" ("width" n | "staged")]
//!             | "write" "d" "by" ("registers" "width" n | "tma" "rows" n) | "settle"
//! exchange    = "exchange" map "pitch" n "at" n "B" "->" "d" "width" n ["c" "width" n]
//! tile        = n | "kt" ["+" n]
//! mover       = "registers" "width" n "store" n | "cp_async" "width" n "piece" n
//!             | "tma" "rows" n ["multicast"]
//! fetch       = "fetch" ("a" | "b") "<-" (buffer | "global") "width" n ("ahead" n | "each" "product") ["volatile"]
//!             | "fetch" ("a" | "b") "<-" buffer "by" ("matrices" "ahead" n | "descriptor")
//! multiply    = "multiply" acc "+=" "a" "*" "b" (
//!                 "order" order | "by" "mma" ["k" n] | "by" "wgmma" "n" n ["grain" n])          order as in a schedule: row
//! ```

mod cursor;
mod items;
mod statements;

use std::sync::Arc;

use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::clause::Clause;
use ptx_gemm_dsl::epilogue::Epilogue;
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::target::Target;
use ptx_gemm_dsl::terms::{Along, Extent2, Extent3, Operand, Raster, Tail, Wave};
use ptx_gemm_dsl::types::{Batch, DType, Layout, Layouts, Orientation, Problem, Types};

use super::lexer::{self, Line, Spot, Token};
use super::text::{Positions, TextError, TextErrors};
use super::{Division, Module, Note, Program, Role, Scheduler};
use crate::violation::Site;
use cursor::{Cursor, Parsed, fresh};

/// Parses a module, and returns the position of each of its parts.
///
/// # Errors
/// Everything that does not follow the grammar, with lines and columns.
pub fn parse(text: &str) -> Result<(Module, Positions), TextErrors> {
    let lines = lexer::lines(text).map_err(TextErrors)?;
    let mut parser = Parser { lines: &lines, at: 0, errors: Vec::new(), positions: Positions::default() };
    let module = parser.module();
    match module {
        Ok(module) if parser.errors.is_empty() => Ok((module, parser.positions)),
        Ok(_) => Err(TextErrors(parser.errors)),
        Err(error) => {
            parser.errors.push(error);
            parser.errors.sort_by_key(|error| (error.line, error.column));
            Err(TextErrors(parser.errors))
        }
    }
}

struct Parser<'t> {
    lines: &'t [Line<'t>],
    at: usize,
    /// Errors after which the parser continued.
    errors: Vec<TextError>,
    positions: Positions,
}

impl<'t> Parser<'t> {
    /// The first word of the next line; empty at the end, or if the line does not start with a word.
    fn next_word(&self) -> &'t str {
        match self.lines.get(self.at).and_then(|line| line.tokens.first()) {
            Some(Spot { token: Token::Word(word), .. }) => word,
            _ => "",
        }
    }

    fn at_close(&self) -> bool {
        let tokens = self.lines.get(self.at).map(|line| line.tokens.as_slice());
        matches!(tokens, Some([Spot { token: Token::Mark("}"), .. }]))
    }

    fn line(&mut self, what: &str) -> Parsed<Cursor<'t>> {
        let Some(line) = self.lines.get(self.at) else {
            let (line, column) = self.lines.last().map_or((1, 1), |last| (last.number, last.end));
            return Err(TextError { line, column, message: format!("expected {what}, found the end of the text") });
        };
        self.at += 1;
        Ok(Cursor { line, at: 0 })
    }

    /// Reads a line that begins with `word`.
    fn line_of(&mut self, word: &str) -> Parsed<Cursor<'t>> {
        let mut cursor = self.line(&format!("`{word}`"))?;
        cursor.word(word)?;
        Ok(cursor)
    }

    fn close(&mut self) -> Parsed<()> {
        let mut cursor = self.line("`}`")?;
        cursor.mark("}")?;
        cursor.end()
    }

    fn module(&mut self) -> Parsed<Module> {
        let mut cursor = self.line_of("module")?;
        let target: Target = cursor.of()?;
        cursor.open()?;
        let (mut orientation, mut orientation_note) = (Orientation::AsAsked, "".into());
        if self.next_word() == "transposed" {
            let cursor = self.line_of("transposed")?;
            cursor.end()?;
            (orientation, orientation_note) = (Orientation::Transposed, cursor.note());
        }
        let problem = Arc::new(self.problem(orientation)?);
        let mut entries = Vec::new();
        while !self.at_close() {
            let entry = self.entry(target, &problem, entries.len())?;
            entries.push(entry);
        }
        self.close()?;
        if let Some(line) = self.lines.get(self.at) {
            return Cursor { line, at: 0 }.expected("the end of the text");
        }
        Ok(Module { target, problem, orientation_note, entries })
    }

    fn problem(&mut self, orientation: Orientation) -> Parsed<Problem> {
        let (mut types, mut layouts) = (self.line_of("types")?, self.line_of("layout")?);
        let mut cursor = self.line_of("epilogue")?;
        self.mark(0, Site::Types, &types);
        self.mark(0, Site::Epilogue, &cursor);
        let epilogue = epilogue(&mut cursor)?;
        let mut of = |operand: Operand| -> Parsed<(DType, Layout)> {
            types.word(operand.name())?;
            let dtype: DType = types.of()?;
            types.mark(",")?;
            if operand != Operand::A {
                layouts.mark(",")?;
            }
            layouts.word(operand.name())?;
            Ok((dtype, layouts.of()?))
        };
        let (a, b) = (of(Operand::A)?, of(Operand::B)?);
        let c = if epilogue.uses_c() { Some(of(Operand::C)?) } else { None };
        let d = of(Operand::D)?;
        let c = c.unwrap_or(d);
        layouts.end()?;
        types.word("acc")?;
        let acc = types.of()?;
        types.end()?;
        let mut cursor = self.line_of("batch")?;
        let batch = match cursor.any_word("`one`, `strided` or `grouped`")? {
            word if word == super::batch_word(Batch::One) => Batch::One,
            word if word == super::batch_word(Batch::Strided) => Batch::Strided,
            word if word == super::batch_word(Batch::Grouped) => Batch::Grouped,
            other => return cursor.error_before(format!("expected `one`, `strided` or `grouped`, found `{other}`")),
        };
        cursor.end()?;
        let types = Types { a: a.0, b: b.0, acc, c: c.0, d: d.0 };
        let layouts = Layouts { a: a.1, b: b.1, c: c.1, d: d.1 };
        Ok(Problem { orientation, types, layouts, epilogue, batch })
    }

    fn mark(&mut self, entry: usize, site: Site, cursor: &Cursor<'_>) {
        self.positions.of.insert((entry, site), cursor.start());
    }

    fn entry(&mut self, target: Target, problem: &Arc<Problem>, index: usize) -> Parsed<Program> {
        let mut cursor = self.line_of("entry")?;
        self.positions.entries.push(cursor.start());
        let name = cursor.any_word("the entry's name")?.to_string();
        cursor.open()?;

        let mut cursor = self.line_of("tile")?;
        self.mark(index, Site::Tile, &cursor);
        let m = cursor.named("m")?;
        cursor.mark(",")?;
        let n = cursor.named("n")?;
        cursor.mark(",")?;
        let k = cursor.named("k")?;
        cursor.end()?;
        let (block, block_note) = (Extent3 { m, n, k }, cursor.note());

        let mut cursor = self.line_of("tail")?;
        let tail: Tail = cursor.of()?;
        cursor.end()?;
        let tail_note = cursor.note();

        let mut cursor = self.line_of("blocks_per_sm")?;
        let blocks_per_sm = cursor.number()?;
        cursor.end()?;

        let mut cursor = self.line_of("params")?;
        self.mark(index, Site::Params, &cursor);
        let params = items::params(&mut cursor, problem)?;
        let scheduler = self.scheduler(index)?;

        let mut program = Program {
            name,
            target,
            problem: problem.clone(),
            block,
            block_note,
            blocks_per_sm,
            tail,
            tail_note,
            params,
            scheduler,
            packs: Vec::new(),
            walk: None,
            buffers: Vec::new(),
            rings: Vec::new(),
            stage: None,
            arrival: None,
            barriers: Vec::new(),
            turns: Vec::new(),
            accumulators: Vec::new(),
            roles: Vec::new(),
            exchange: None,
        };
        while self.next_word() != "role" && !self.at_close() {
            let cursor = self.line("a declaration")?;
            // A wrong declaration is one error; the lines after it are still read.
            let mut mark = |site: Site, cursor: &Cursor<'_>| {
                self.positions.of.insert((index, site), cursor.start());
            };
            if let Err(error) = items::item(&mut program, cursor, &mut mark) {
                self.errors.push(error);
            }
        }
        if !self.errors.is_empty() {
            // Roles may refer to declarations that failed, and further errors would only repeat that.
            return Err(self.errors.remove(0));
        }
        while !self.at_close() && self.next_word() != "exchange" {
            self.role(&mut program, index)?;
        }
        if self.next_word() == "exchange" {
            let mut cursor = self.line_of("exchange")?;
            self.mark(index, Site::Exchange, &cursor);
            program.exchange = Some(items::exchange(&mut cursor)?);
        }
        self.close()?;
        Ok(program)
    }

    fn scheduler(&mut self, entry: usize) -> Parsed<Scheduler> {
        let mut cursor = self.line_of("raster")?;
        self.mark(entry, Site::Scheduler, &cursor);
        let group = cursor.named("group")?;
        cursor.word("along")?;
        let along: Along = cursor.of()?;
        cursor.end()?;
        let raster_note = cursor.note();
        let none: Note = "".into();
        let (mut cluster, mut cluster_note) = (Extent2 { m: 1, n: 1 }, none.clone());
        if self.next_word() == "cluster" {
            let mut cursor = self.line_of("cluster")?;
            cluster.m = cursor.named("m")?;
            cursor.mark(",")?;
            cluster.n = cursor.named("n")?;
            cursor.end()?;
            cluster_note = cursor.note();
        }
        let (mut persistent, mut persistent_note) = (None, none.clone());
        if self.next_word() == "persistent" {
            let mut cursor = self.line_of("persistent")?;
            let blocks = if cursor.peek().is_some() { Some(cursor.named("blocks")?) } else { None };
            cursor.end()?;
            persistent = Some(blocks.map_or(Wave::Device, Wave::Blocks));
            persistent_note = cursor.note();
        }
        let (mut division, mut division_note) = (Division::Whole, none);
        let word = self.next_word().to_string();
        if matches!(word.as_str(), "parts" | "stream_k") {
            let mut cursor = self.line_of(&word)?;
            division = match word.as_str() {
                "stream_k" => Division::Stream,
                _ => {
                    let parts = cursor.number()?;
                    if cursor.takes(Token::Word("cluster")) { Division::Cluster(parts) } else { Division::Parts(parts) }
                }
            };
            cursor.end()?;
            division_note = cursor.note();
        }
        let raster = Raster { group, along };
        Ok(Scheduler {
            raster,
            raster_note,
            persistent,
            persistent_note,
            cluster,
            cluster_note,
            division,
            division_note,
        })
    }

    fn role(&mut self, program: &mut Program, entry: usize) -> Parsed<()> {
        let index = program.roles.len();
        let mut cursor = self.line_of("role")?;
        self.mark(entry, Site::Role(index), &cursor);
        let name = fresh(&mut cursor, program.roles.iter().map(|r| &r.name))?;
        cursor.word("threads")?;
        let start = cursor.number()?;
        cursor.mark("..")?;
        let end = cursor.number()?;
        let turns = if cursor.takes(Token::Word("turns")) { cursor.number()? } else { 1 };
        cursor.open()?;
        let note = cursor.note();
        let (mut registers, mut registers_note) = (None, "".into());
        if self.next_word() == "registers" {
            let mut cursor = self.line_of("registers")?;
            registers = Some(cursor.number()?);
            cursor.end()?;
            registers_note = cursor.note();
        }
        let mut path = vec![index];
        let body = self.body(program, entry, &mut path)?;
        program.roles.push(Role { name, threads: start..end, turns, registers, registers_note, body, note });
        Ok(())
    }
}

/// The rest of the line, parsed with the grammar of the schedule language.
fn epilogue(cursor: &mut Cursor<'_>) -> Parsed<Epilogue> {
    let (before, text) = cursor.line.text.split_once("epilogue").unwrap_or_default();
    let column = before.chars().count() + "epilogue".len() + 1;
    let at = |message: String, offset: usize| TextError { line: cursor.line.number, column: column + offset, message };
    let wrapped = "epilogue(";
    let schedule: Schedule = format!("{wrapped}{text})").parse().map_err(|errors: ptx_gemm_dsl::Diagnostics| {
        let first = errors.iter().next();
        let offset = first.and_then(|e| e.span).map_or(0, |span| (span.start as usize).saturating_sub(wrapped.len()));
        at(first.map_or_else(|| "not an epilogue".into(), |e| e.message.clone()), offset)
    })?;
    match (schedule.get(Key::Epilogue), schedule.clauses().count()) {
        (Some(Clause::Epilogue(epilogue)), 1) => Ok(epilogue.clone()),
        _ => Err(at("not an epilogue".into(), 0)),
    }
}
