//! The parser of tile IR's text: `parse(print(module)) == module`.
//!
//! A line holds one declaration or statement; what follows its `;` is its note. Lines of notes alone, and blank ones, are
//! skipped. `{` ends a line, `}` is one. `n` is a number of 32 bits, `name` a word.
//!
//! ```text
//! module      = "module" target "{" problem entry+ "}"
//! problem     = "types" (matrix type ",")+ "acc" type      every matrix: a, b, c if the epilogue reads it, d
//!               "layout" (matrix ("row" | "col")),+
//!               "epilogue" expression                      as in a schedule: |acc, alpha| alpha * acc
//!               "batch" ("one" | "strided")
//! entry       = "entry" name "{" header item* role+ "}"
//! header      = "tile" "m" n "," "n" n "," "k" n
//!               "tail" ("predicate" | "none")
//!               "blocks_per_sm" n
//!               "params" name,+                            by their names in the ABI: a, lda, m, s_alpha, workspace
//!               "raster" "group" n "along" ("n" | "m")
//!               ["persistent" ["blocks" n]]
//!               ["parts" n]
//! item        = "buffer" name "of" ("a" | "b") "[" dim n "]" "[" dim n "]" "pitch" n "at" n "B" ["swizzle" n "B"]
//!             | "ring" name "(" name,+ ")" "depth" n "slot" n "B" "full" full "empty" empty
//!             | "mbarriers" ring "at" n "B"
//!             | "barrier" name "number" n "threads" n
//!             | "accumulator" name "threads" digit* ["warps" digit+] "holds" digit*
//! full        = "barrier" | "copy_groups" "(" n ")" | "mbarrier" "(" n ")"
//! empty       = "barrier" | "next_wait" | "mbarrier" "(" n ")"
//! digit       = n ":" ("m" | "n")n                         values, and the distance from one to the next: 16:n8
//! role        = "role" name "threads" n ".." n "{" statement* "}"
//! statement   = "tiles" "{" statement* "}"
//!             | "if_any_k" "{" statement* "}"
//!             | "loop" "kt" "{" statement* "}"
//!             | ("acquire" | "commit" | "wait" | "release") ring
//!             | "copy" ("a" | "b") "[" tile "]" "->" buffer "by" mover
//!             | "steps" (n ".." n | "all") "unroll" n "{" fetch fetch multiply "}"
//!             | "clear" acc | "promote" acc "into" acc | "sync" | "meet" barrier | "drain"
//!             | "reduce" acc ("serial" | "workspace") "{" statement* "}"
//!             | "store" acc "->" "d" "width" n ["c" "width" n]
//! tile        = n | "kt" ["+" n]
//! mover       = "registers" "width" n "store" n | "cp_async" "width" n "piece" n
//! fetch       = "fetch" ("a" | "b") "<-" (buffer | "global") "width" n ("ahead" n | "each" "product")
//! multiply    = "multiply" acc "+=" "a" "*" "b" "order" ("row" | "snake" | "column_snake")
//! ```

use std::sync::Arc;

use ptx_gemm_dsl::clause::Clause;
use ptx_gemm_dsl::epilogue::Epilogue;
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::target::Target;
use ptx_gemm_dsl::terms::{
    Along, Extent3, Fast, FmaOrder, Operand, Operands, Param, Raster, Reduce, Side, Swizzle, Tail, Wave,
};
use ptx_gemm_dsl::types::{Batch, DType, Layout, Layouts, Problem, Types};
use ptx_gemm_dsl::words::Word;
use ptx_gemm_dsl::Schedule;

use super::lexer::{self, Line, Spot, Token};
use super::text::{Positions, TextError, TextErrors};
use super::{
    Accumulator, Barrier, Buffer, Digit, Empty, Fetch, Full, Index, Map, Module, Mover, Multiply, Note, Op, Program, Ring,
    Role, Source, Span, Statement, Walk, interface, param_name,
};
use crate::violation::Site;

/// Statements nested deeper than this are refused before they overflow a stack.
const MAX_NESTING: usize = 64;

type Parsed<T> = Result<T, TextError>;

/// Parses a module, with the position of each of its parts.
pub(super) fn parse(text: &str) -> Result<(Module, Positions), TextErrors> {
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
    /// What is wrong with lines that the parser could go on after.
    errors: Vec<TextError>,
    positions: Positions,
}

/// The rest of one line.
struct Cursor<'t> {
    line: &'t Line<'t>,
    at: usize,
}

impl<'t> Cursor<'t> {
    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        let column = self.line.tokens.get(self.at).map_or(self.line.end, |spot| spot.column);
        Err(TextError { line: self.line.number, column, message: message.into() })
    }

    /// The same at the token before.
    fn error_before<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Cursor { line: self.line, at: self.at.saturating_sub(1) }.error(message)
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.line.tokens.get(self.at).map(|spot: &Spot<'t>| spot.token)
    }

    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end of the line".to_string(),
            Some(Token::Word(word) | Token::Mark(word)) => format!("`{word}`"),
            Some(Token::Number(number)) => format!("`{number}`"),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    fn any_word(&mut self, what: &str) -> Parsed<&'t str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn number(&mut self) -> Parsed<u32> {
        match self.peek() {
            Some(Token::Number(number)) => {
                self.at += 1;
                Ok(number)
            }
            _ => self.expected("a number"),
        }
    }

    fn takes(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> Parsed<()> {
        if self.takes(Token::Word(word)) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    fn mark(&mut self, mark: &str) -> Parsed<()> {
        if self.takes(Token::Mark(mark)) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    /// `word n`
    fn named(&mut self, word: &str) -> Parsed<u32> {
        self.word(word)?;
        self.number()
    }

    /// `n B`
    fn bytes(&mut self) -> Parsed<u32> {
        let bytes = self.number()?;
        self.word("B")?;
        Ok(bytes)
    }

    /// `(n)`
    fn in_parentheses(&mut self) -> Parsed<u32> {
        self.mark("(")?;
        let number = self.number()?;
        self.mark(")")?;
        Ok(number)
    }

    /// A word of the language.
    fn of<T: Word>(&mut self) -> Parsed<T> {
        let word = self.any_word(T::WHAT)?;
        match T::TABLE.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => Ok(*value),
            None => {
                let all: Vec<&str> = T::TABLE.iter().map(|(name, _)| *name).collect();
                self.error_before(format!("`{word}` is not {}: {}", T::WHAT, all.join(", ")))
            }
        }
    }

    fn end(&self) -> Parsed<()> {
        if self.at == self.line.tokens.len() { Ok(()) } else { self.expected("the end of the line") }
    }

    /// `{` at the end of the line.
    fn open(&mut self) -> Parsed<()> {
        self.mark("{")?;
        self.end()
    }

    fn note(&self) -> Note {
        self.line.note.into()
    }

    /// The position of the line's first token.
    fn start(&self) -> (usize, usize) {
        (self.line.number, self.line.tokens.first().map_or(1, |spot| spot.column))
    }

    /// The number of the one called so.
    fn find<'n>(&mut self, what: &str, mut names: impl Iterator<Item = &'n str>) -> Parsed<usize> {
        let name = self.any_word(&format!("the name of {what}"))?;
        match names.position(|known| known == name) {
            Some(index) => Ok(index),
            None => self.error_before(format!("there is no {} `{name}`", what.split_once(' ').map_or(what, |w| w.1))),
        }
    }

    fn side(&mut self) -> Parsed<Side> {
        match self.any_word("`a` or `b`")? {
            "a" => Ok(Side::A),
            "b" => Ok(Side::B),
            other => self.error_before(format!("expected `a` or `b`, found `{other}`")),
        }
    }
}

impl<'t> Parser<'t> {
    /// The first word of the next line; empty at the end, or where it is no word.
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

    /// A line that begins with `word`.
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
        let problem = Arc::new(self.problem()?);
        let mut entries = Vec::new();
        while !self.at_close() {
            let entry = self.entry(target, &problem, entries.len())?;
            entries.push(entry);
        }
        self.close()?;
        if let Some(line) = self.lines.get(self.at) {
            return Cursor { line, at: 0 }.expected("the end of the text");
        }
        Ok(Module { target, problem, entries })
    }

    fn problem(&mut self) -> Parsed<Problem> {
        let (mut types, mut layouts) = (self.line_of("types")?, self.line_of("layout")?);
        let mut cursor = self.line_of("epilogue")?;
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
        let batch = match cursor.any_word("`one` or `strided`")? {
            word if word == super::batch_word(Batch::One) => Batch::One,
            word if word == super::batch_word(Batch::Strided) => Batch::Strided,
            other => return cursor.error_before(format!("expected `one` or `strided`, found `{other}`")),
        };
        cursor.end()?;
        let types = Types { a: a.0, b: b.0, acc, c: c.0, d: d.0 };
        let layouts = Layouts { a: a.1, b: b.1, c: c.1, d: d.1 };
        Ok(Problem { types, layouts, epilogue, batch })
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
        let params = params(&mut cursor, problem)?;
        let walk = self.walk(index)?;

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
            walk,
            buffers: Vec::new(),
            rings: Vec::new(),
            barriers: Vec::new(),
            accumulators: Vec::new(),
            roles: Vec::new(),
        };
        while self.next_word() != "role" && !self.at_close() {
            let cursor = self.line("a declaration")?;
            // A declaration that is wrong is one error; the lines after it are read all the same.
            if let Err(error) = self.item(&mut program, index, cursor) {
                self.errors.push(error);
            }
        }
        if !self.errors.is_empty() {
            // What the roles refer to may be missing: more errors would be echoes.
            return Err(self.errors.remove(0));
        }
        while !self.at_close() {
            self.role(&mut program, index)?;
        }
        self.close()?;
        Ok(program)
    }

    fn walk(&mut self, entry: usize) -> Parsed<Walk> {
        let mut cursor = self.line_of("raster")?;
        self.mark(entry, Site::Walk, &cursor);
        let group = cursor.named("group")?;
        cursor.word("along")?;
        let along: Along = cursor.of()?;
        cursor.end()?;
        let raster_note = cursor.note();
        let none: Note = "".into();
        let (mut persistent, mut persistent_note) = (None, none.clone());
        if self.next_word() == "persistent" {
            let mut cursor = self.line_of("persistent")?;
            let blocks = if cursor.peek().is_some() { Some(cursor.named("blocks")?) } else { None };
            cursor.end()?;
            persistent = Some(blocks.map_or(Wave::Device, Wave::Blocks));
            persistent_note = cursor.note();
        }
        let (mut parts, mut parts_note) = (None, none);
        if self.next_word() == "parts" {
            let mut cursor = self.line_of("parts")?;
            parts = Some(cursor.number()?);
            cursor.end()?;
            parts_note = cursor.note();
        }
        let raster = Raster { group, along };
        Ok(Walk { raster, raster_note, persistent, persistent_note, parts, parts_note })
    }

    fn item(&mut self, program: &mut Program, entry: usize, mut cursor: Cursor<'t>) -> Parsed<()> {
        let kind = cursor.any_word("a declaration")?;
        match kind {
            "buffer" => {
                self.mark(entry, Site::Buffer(program.buffers.len()), &cursor);
                let name = fresh(&mut cursor, program.buffers.iter().map(|b| &b.name))?;
                let buffer = buffer(&mut cursor, name)?;
                program.buffers.push(buffer);
            }
            "ring" => {
                self.mark(entry, Site::Ring(program.rings.len()), &cursor);
                let name = fresh(&mut cursor, program.rings.iter().map(|r| &r.name))?;
                let ring = ring(&mut cursor, name, program)?;
                program.rings.push(ring);
            }
            "mbarriers" => {
                let ring = cursor.find("a ring", program.rings.iter().map(|ring| ring.name.as_str()))?;
                if program.rings[ring].mbarriers.is_some() {
                    return cursor.error_before("the ring has its mbarriers already");
                }
                cursor.word("at")?;
                program.rings[ring].mbarriers = Some(cursor.bytes()?);
                program.rings[ring].mbarrier_note = cursor.note();
            }
            "barrier" => {
                self.mark(entry, Site::Barrier(program.barriers.len()), &cursor);
                let name = fresh(&mut cursor, program.barriers.iter().map(|b| &b.name))?;
                let (number, threads) = (cursor.named("number")?, cursor.named("threads")?);
                program.barriers.push(Barrier { name, number, threads, note: cursor.note() });
            }
            "accumulator" => {
                self.mark(entry, Site::Accumulator(program.accumulators.len()), &cursor);
                let name = fresh(&mut cursor, program.accumulators.iter().map(|a| &a.name))?;
                cursor.word("threads")?;
                let thread = digits(&mut cursor)?;
                let warp = if cursor.takes(Token::Word("warps")) { digits(&mut cursor)? } else { Vec::new() };
                cursor.word("holds")?;
                let map = Map { thread, warp, element: digits(&mut cursor)? };
                program.accumulators.push(Accumulator { name, map, note: cursor.note() });
            }
            other => {
                return cursor.error_before(format!(
                    "expected `buffer`, `ring`, `mbarriers`, `barrier`, `accumulator` or `role`, found `{other}`"
                ));
            }
        }
        cursor.end()
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
        cursor.open()?;
        let note = cursor.note();
        let mut path = vec![index];
        let body = self.body(program, entry, &mut path)?;
        program.roles.push(Role { name, threads: start..end, body, note });
        Ok(())
    }

    /// Statements up to the closing brace, which is read too.
    fn body(&mut self, program: &Program, entry: usize, path: &mut Vec<usize>) -> Parsed<Vec<Statement>> {
        let mut body = Vec::new();
        while !self.at_close() {
            let cursor = self.line("a statement or `}`")?;
            if path.len() > MAX_NESTING {
                return cursor.error(format!("statements are nested more than {MAX_NESTING} deep"));
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
        let accumulators = || program.accumulators.iter().map(|acc| acc.name.as_str());
        let note = cursor.note();
        let op = match cursor.any_word("a statement")? {
            "tiles" => {
                cursor.open()?;
                Op::Tiles { body: self.body(program, entry, path)? }
            }
            "if_any_k" => {
                cursor.open()?;
                Op::IfAnyK { body: self.body(program, entry, path)? }
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
                    "acquire" => Op::Acquire { ring: cursor.find("a ring", rings())? },
                    "commit" => Op::Commit { ring: cursor.find("a ring", rings())? },
                    "wait" => Op::Wait { ring: cursor.find("a ring", rings())? },
                    "release" => Op::Release { ring: cursor.find("a ring", rings())? },
                    "copy" => copy(&mut cursor, program)?,
                    "promote" => {
                        let from = cursor.find("an accumulator", accumulators())?;
                        cursor.word("into")?;
                        Op::Promote { from, into: cursor.find("an accumulator", accumulators())? }
                    }
                    "sync" => Op::Sync,
                    "drain" => Op::Drain,
                    "meet" => {
                        let names = program.barriers.iter().map(|barrier| barrier.name.as_str());
                        Op::Meet { barrier: cursor.find("a barrier", names)? }
                    }
                    "store" => {
                        let acc = cursor.find("an accumulator", accumulators())?;
                        cursor.mark("->")?;
                        cursor.word("d")?;
                        let width = cursor.named("width")?;
                        let c_width = match program.problem.epilogue.uses_c() {
                            true => {
                                cursor.word("c")?;
                                cursor.named("width")?
                            }
                            false => 1,
                        };
                        Op::Store { acc, width, c_width }
                    }
                    other => return cursor.error_before(format!("`{other}` is not a statement")),
                };
                cursor.end()?;
                op
            }
        };
        Ok(Statement { op, note })
    }

    fn steps(
        &mut self,
        program: &Program,
        entry: usize,
        path: &[usize],
        cursor: &mut Cursor<'t>,
    ) -> Parsed<Op> {
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
        cursor.word("order")?;
        let order: FmaOrder = cursor.of()?;
        cursor.end()?;
        let multiply_note = cursor.note();
        self.close()?;
        Ok(Op::Steps { span, unroll, fetches, multiply: Multiply { acc, order }, multiply_note })
    }
}

/// A name that nothing of its kind has yet.
fn fresh<'n>(cursor: &mut Cursor<'_>, mut names: impl Iterator<Item = &'n String>) -> Parsed<String> {
    let name = cursor.any_word("a name")?;
    if names.any(|known| known == name) {
        return cursor.error_before(format!("there is a `{name}` already"));
    }
    Ok(name.into())
}

/// The rest of the line, by the language's own grammar.
fn epilogue(cursor: &mut Cursor<'_>) -> Parsed<Epilogue> {
    let (before, text) = cursor.line.text.split_once("epilogue").unwrap_or_default();
    let column = before.chars().count() + "epilogue".len() + 1;
    let at = |message: String, offset: usize| TextError {
        line: cursor.line.number,
        column: column + offset,
        message,
    };
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

fn params(cursor: &mut Cursor<'_>, problem: &Problem) -> Parsed<Vec<Param>> {
    let mut all = vec![Param::M, Param::N, Param::K, Param::Batch, Param::Workspace];
    all.extend(interface::matrices(problem).flat_map(|o| [Param::Matrix(o), Param::Ld(o), Param::BatchStride(o)]));
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
            Some(param) if params.contains(param) => return cursor.error_before(format!("`{name}` is there twice")),
            Some(param) => params.push(param.clone()),
        }
        if !cursor.takes(Token::Mark(",")) {
            break;
        }
    }
    cursor.end()?;
    Ok(params)
}

fn buffer(cursor: &mut Cursor<'_>, name: String) -> Parsed<Buffer> {
    cursor.word("of")?;
    let side = cursor.side()?;
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
    let fast = if dims[1].0 == "k" { Fast::K } else { Fast::Mn };
    let (extent, depth) = match fast {
        Fast::K => (dims[0].1, dims[1].1),
        Fast::Mn => (dims[1].1, dims[0].1),
    };
    let pitch = cursor.named("pitch")?;
    cursor.word("at")?;
    let offset_bytes = cursor.bytes()?;
    let swizzle = match cursor.takes(Token::Word("swizzle")) {
        true => Swizzle::Bytes(cursor.bytes()?),
        false => Swizzle::None,
    };
    Ok(Buffer { name, side, extent, depth, fast, pitch, swizzle, offset_bytes, note: cursor.note() })
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
        other => return cursor.error_before(format!("expected `barrier`, `copy_groups` or `mbarrier`, found `{other}`")),
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
    let by = match cursor.any_word("`registers` or `cp_async`")? {
        "registers" => Mover::Registers { width: cursor.named("width")?, store: cursor.named("store")? },
        "cp_async" => Mover::CpAsync { width: cursor.named("width")?, piece: cursor.named("piece")? },
        other => return cursor.error_before(format!("expected `registers` or `cp_async`, found `{other}`")),
    };
    Ok(Op::Copy { buffer, tile, by })
}

fn fetch(cursor: &mut Cursor<'_>, program: &Program) -> Parsed<Fetch> {
    let side = cursor.side()?;
    cursor.mark("<-")?;
    let from = match cursor.takes(Token::Word("global")) {
        true => Source::Global,
        false => {
            Source::Buffer(cursor.find("a buffer", program.buffers.iter().map(|buffer| buffer.name.as_str()))?)
        }
    };
    if let Source::Buffer(buffer) = from
        && program.buffers[buffer].side != side
    {
        return cursor.error_before(format!("`{}` is not a buffer of that operand", program.buffers[buffer].name));
    }
    let width = cursor.named("width")?;
    let (hold, ahead) = match cursor.takes(Token::Word("each")) {
        true => {
            cursor.word("product")?;
            (Operands::Shared, 0)
        }
        false => (Operands::Registers, cursor.named("ahead")?),
    };
    cursor.end()?;
    Ok(Fetch { side, from, width, ahead, hold })
}
