//! The text form of kernel IR.

use ptx_gemm_dsl::terms::Reads;
use ptx_gemm_dsl::types::DType;
use std::fmt::{self, Write};

use super::{
    Access, Address, Arrival, Compare, Expr, Factor, Guard, Kernel, Locality, Math, Memory, Op, ProductShape, Reg,
    Stmt, Type, Value,
};

/// Column of the origin after a statement.
const ORIGIN_COLUMN: usize = 88;

/// The kernel as text: one statement per line, followed by its origin.
pub fn print(kernel: &Kernel) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_kernel(kernel, &mut out);
    out
}

fn write_kernel(kernel: &Kernel, out: &mut String) -> fmt::Result {
    let cluster = if kernel.cluster > 1 { format!(" cluster {}", kernel.cluster) } else { String::new() };
    writeln!(
        out,
        "kernel {} threads {} blocks_per_sm {}{cluster} shared {} B {{",
        kernel.name, kernel.threads, kernel.blocks_per_sm, kernel.shared_bytes
    )?;
    for (i, param) in kernel.params.iter().enumerate() {
        let place = param.field.map_or_else(String::new, |byte| format!(" at byte {byte} of a record"));
        writeln!(out, "  param {i} {} {:?}{place}: {}", param.name, param.ty, param.about)?;
    }
    if let Some([m, n, k]) = kernel.divides {
        writeln!(out, "  divides m {m} n {n} k {k}")?;
    }
    for family in kernel.families.iter().filter(|f| f.count > 0) {
        writeln!(out, "  registers {}0..{} {:?}: {}", family.name, family.count - 1, family.ty, family.about)?;
    }
    let mut printer = Printer { kernel, out, indent: 2 };
    printer.block(&kernel.body)?;
    out.push_str("}\n");
    Ok(())
}

struct Printer<'a> {
    kernel: &'a Kernel,
    out: &'a mut String,
    indent: usize,
}

impl Printer<'_> {
    fn block(&mut self, stmts: &[Stmt]) -> fmt::Result {
        for stmt in stmts {
            let start = self.out.len();
            for _ in 0..self.indent {
                self.out.push(' ');
            }
            self.head(&stmt.op)?;
            let width = self.out.len() - start;
            for _ in width..ORIGIN_COLUMN.max(width + 1) {
                self.out.push(' ');
            }
            let origin = self.kernel.origin(stmt);
            writeln!(self.out, "; {}: {}", origin.clause, origin.what)?;
            self.nested(&stmt.op)?;
        }
        Ok(())
    }

    fn nested(&mut self, op: &Op) -> fmt::Result {
        match op {
            Op::If { then, other, .. } => {
                self.indented(then)?;
                if !other.is_empty() {
                    self.line("} else {")?;
                    self.indented(other)?;
                }
                self.line("}")
            }
            Op::Loop { body, again, .. } => {
                self.indented(body)?;
                let again = self.reg(*again);
                self.line(&format!("}} while {again}"))
            }
            _ => Ok(()),
        }
    }

    fn indented(&mut self, stmts: &[Stmt]) -> fmt::Result {
        self.indent += 2;
        self.block(stmts)?;
        self.indent -= 2;
        Ok(())
    }

    fn line(&mut self, text: &str) -> fmt::Result {
        writeln!(self.out, "{:indent$}{text}", "", indent = self.indent)
    }

    fn head(&mut self, op: &Op) -> fmt::Result {
        let text = match op {
            Op::Param { dst, index } => format!("{} = param {}", self.reg(*dst), self.kernel.params[*index].name),
            Op::Field { dst, index, record } => {
                format!("{} = field {} of {}", self.reg(*dst), self.kernel.params[*index].name, self.reg(*record))
            }
            Op::Set { dst, value } => format!("{} = {}", self.reg(*dst), self.expr(value)),
            Op::Load { memory, dst, address, guard, locality, reads } => {
                let locality = match locality {
                    Locality::Unknown => "",
                    Locality::NextTiles => " and ahead",
                    Locality::Once => " once",
                };
                let (space, within) = self.place(memory);
                let (dst, address, guard) = (self.regs(dst), self.address(address), self.guard(guard));
                let volatile = if *reads == Reads::Volatile { " volatile" } else { "" };
                format!("{dst} = load{volatile} {space} {address}{within}{locality}{guard}")
            }
            Op::Store { memory, src, address, guard } => {
                let (space, within) = self.place(memory);
                format!("store {space} {} {}{within}{}", self.address(address), self.regs(src), self.guard(guard))
            }
            Op::CopyAsync { to, from, bytes, valid, guard, access } => format!(
                "copy_async {} <- global {}{} {bytes} B{}{}",
                self.address(to),
                self.address(from),
                self.access(access),
                valid.map(|v| format!(" valid {}", self.reg(v))).unwrap_or_default(),
                self.guard(guard)
            ),
            Op::CopyBox { to, map, at, barrier, blocks, guard } => {
                let at: Vec<String> = at.iter().map(|reg| self.reg(*reg)).collect();
                let (to, barrier) = (self.address(to), self.address(barrier));
                let (map, guard) = (self.reg(*map), self.guard(guard));
                let blocks = blocks.map(|blocks| format!(" in blocks {}", self.reg(blocks))).unwrap_or_default();
                format!("copy_box {to} <- map {map} at ({}) counted by {barrier}{blocks}{guard}", at.join(", "))
            }
            Op::StoreBox { from, map, at, guard } => {
                let at: Vec<String> = at.iter().map(|reg| self.reg(*reg)).collect();
                let (from, map, guard) = (self.address(from), self.reg(*map), self.guard(guard));
                format!("store_box map {map} at ({}) <- {from}{guard}", at.join(", "))
            }
            Op::CommitBoxes => "commit_boxes".to_string(),
            Op::SettleBoxes => "settle_boxes".to_string(),
            Op::FenceCopies => "fence_copies".to_string(),
            Op::PublishBarriers => "publish_barriers".to_string(),
            Op::CommitCopies => "commit_copies".to_string(),
            Op::WaitCopies(n) => format!("wait_copies {n}"),
            Op::Clear { dst } => format!("{} = 0", self.regs(dst)),
            Op::Math { op, dst, args } => {
                let args: Vec<String> = args.iter().map(|a| self.value(a)).collect();
                format!("{} = {} {}", self.reg(*dst), math_name(*op), args.join(", "))
            }
            Op::IsZero { dst, src } => format!("{} = is_zero {}", self.reg(*dst), self.reg(*src)),
            Op::Select { dst, pred, yes, no } => {
                format!("{} = select {} ? {} : {}", self.reg(*dst), self.reg(*pred), self.value(yes), self.value(no))
            }
            Op::Outer { acc, a, b, order } => format!(
                "{}[{} x {}] += {} * {} {order:?}",
                self.regs(acc),
                a.len(),
                b.len(),
                self.regs(a),
                self.regs(b)
            ),
            Op::LoadMatrices { dst, address, transposed, guard } => {
                let transposed = if *transposed { " transposed" } else { "" };
                let (dst, address, guard) = (self.regs(dst), self.address(address), self.guard(guard));
                format!("{dst} = load_matrices{transposed} {address}{guard}")
            }
            Op::StoreMatrices { src, address, transposed } => {
                let transposed = if *transposed { " transposed" } else { "" };
                format!("store_matrices{transposed} {} {}", self.address(address), self.regs(src))
            }
            Op::TensorProduct { acc, a, b, add, shape } => {
                let ProductShape { row, columns, factors, transposed } = *shape;
                let (rows, depth) = (row.rows, row.depth);
                let factor = |factor: &Factor, extents: String, transposed, own| match factor {
                    Factor::Registers(regs) => format!("{}[{extents}]", self.regs(regs)),
                    Factor::Descriptor(reg) => {
                        format!("{}[{extents} along {}]", self.reg(*reg), if transposed { own } else { "k" })
                    }
                };
                let a = factor(a, format!("{rows} x {depth}"), transposed[0], "m");
                let b = factor(b, format!("{depth} x {columns}"), transposed[1], "n");
                let condition = add.map_or_else(String::new, |add| format!(" if {}", self.reg(add)));
                format!("{}[{rows} x {columns}] += {a} * {b} {}{condition}", self.regs(acc), types(factors))
            }
            Op::FenceProducts => "fence_products".to_string(),
            Op::CommitProducts => "commit_products".to_string(),
            Op::WaitProducts(n) => format!("wait_products {n}"),
            Op::Barrier => "barrier".to_string(),
            Op::ClusterBarrier => "cluster_barrier".to_string(),
            Op::ClusterArrive => "cluster_arrive".to_string(),
            Op::ClusterWait => "cluster_wait".to_string(),
            Op::NamedBarrier { number, threads } => format!("barrier {number} of {threads} threads"),
            Op::SetRegisters { count, more } => {
                format!("registers {} {count}", if *more { "up to" } else { "down to" })
            }
            Op::InitBarrier { address, arrivals } => {
                format!("init_barrier {} arrivals {arrivals}", self.address(address))
            }
            Op::ArriveAt { block, address, guard } => {
                format!("arrive {} in block {}{}", self.address(address), self.reg(*block), self.guard(guard))
            }
            Op::Arrive { address, when, guard } => {
                let (address, guard) = (self.address(address), self.guard(guard));
                match when {
                    Arrival::Now => format!("arrive {address}{guard}"),
                    Arrival::WhenCopied => format!("arrive_when_copied {address}{guard}"),
                    Arrival::Expecting(bytes) => format!("arrive {address} expecting {bytes} B{guard}"),
                    Arrival::ExpectingIn(bytes) => {
                        format!("arrive {address} expecting {} B{guard}", self.reg(*bytes))
                    }
                }
            }
            Op::TestBarrier { dst, address, parity } => {
                format!("{} = test_barrier {} parity {}", self.reg(*dst), self.address(address), self.reg(*parity))
            }
            Op::CountUp { dst, address } => format!("{} = count_up {}", self.reg(*dst), self.address(address)),
            Op::ReadFlag { dst, address } => format!("{} = read_flag {}", self.reg(*dst), self.address(address)),
            Op::RaiseFlag { address, value } => format!("raise_flag {} {}", self.address(address), self.reg(*value)),
            Op::If { cond, .. } => {
                format!("if {}{} {{", if cond.expect { "" } else { "!" }, self.reg(cond.pred))
            }
            Op::Loop { .. } => "loop {".to_string(),
        };
        self.out.push_str(&text);
        Ok(())
    }

    fn reg(&self, reg: Reg) -> String {
        self.kernel.display(reg).to_string()
    }

    /// Consecutive registers as a range.
    fn regs(&self, regs: &[Reg]) -> String {
        match regs {
            [] => "()".to_string(),
            [one] => self.reg(*one),
            [first, .., last] => {
                let range =
                    regs.iter().enumerate().all(|(i, r)| r.family == first.family && r.index == first.index + i as u32);
                if range {
                    format!("{}..{}", self.reg(*first), last.index)
                } else {
                    regs.iter().map(|r| self.reg(*r)).collect::<Vec<_>>().join(",")
                }
            }
        }
    }

    fn guard(&self, guard: &Option<Guard>) -> String {
        guard.map(|g| format!(" if {}{}", if g.expect { "" } else { "!" }, self.reg(g.pred))).unwrap_or_default()
    }

    fn address(&self, address: &Address) -> String {
        format!("[{} + {}]", self.reg(address.base), address.offset)
    }

    /// The memory's name, and the extent of the access.
    fn place(&self, memory: &Memory) -> (&'static str, String) {
        match memory {
            Memory::Shared => ("shared", String::new()),
            Memory::Cluster(block) => ("cluster", format!(" of block {}", self.reg(*block))),
            Memory::Global(access) => ("global", self.access(access)),
        }
    }

    fn access(&self, access: &Access) -> String {
        let name = self.kernel.params.get(access.param).map_or("?", |param| &param.name);
        let mut out = format!(" in {name}");
        for (i, reach) in access.reach.iter().flatten().enumerate() {
            let keyword = if i == 0 { " within" } else { "," };
            let before = if reach.before > 0 { format!(" + {}", reach.before) } else { String::new() };
            out += &format!("{keyword} {} {} of {}{before}", reach.dim.letter(), reach.end, self.reg(reach.left));
        }
        out
    }

    fn value(&self, value: &Value) -> String {
        match value {
            Value::Reg(reg) => self.reg(*reg),
            Value::Const(c) => format!("{c:?}"),
        }
    }

    fn expr(&self, value: &Expr) -> String {
        let two = |op: &str, x: &Expr, y: &Expr| format!("({} {op} {})", self.expr(x), self.expr(y));
        match value {
            Expr::Const(c) => c.to_string(),
            Expr::Reg(reg, _) => self.reg(*reg),
            Expr::Tid(_) => "tid".to_string(),
            Expr::Block => "block".to_string(),
            Expr::Blocks => "blocks".to_string(),
            Expr::SharedBase => "shared".to_string(),
            Expr::Add(x, y) => two("+", x, y),
            Expr::Sub(x, y) => two("-", x, y),
            Expr::Mul(x, y) => two("*", x, y),
            Expr::Div(x, y) => two("/", x, y),
            Expr::Mod(x, y) => two("%", x, y),
            Expr::Min(x, y) => format!("min({}, {})", self.expr(x), self.expr(y)),
            Expr::Max(x, y) => format!("max({}, {})", self.expr(x), self.expr(y)),
            Expr::Xor(x, y) => two("^", x, y),
            Expr::Wide(x) => format!("wide({})", self.expr(x)),
            Expr::Compare(c, x, y) => two(
                match c {
                    Compare::Lt => "<",
                    Compare::Ge => ">=",
                    Compare::Eq => "==",
                    Compare::Ne => "!=",
                },
                x,
                y,
            ),
            Expr::And(x, y) => two("&&", x, y),
            Expr::Swizzle(x, swizzle) => format!("swizzle{}({})", swizzle.bits() + 16, self.expr(x)),
            Expr::Not(x) => format!("!{}", self.expr(x)),
            Expr::Select(c, x, y) => format!("({} ? {} : {})", self.expr(c), self.expr(x), self.expr(y)),
        }
    }
}

/// The types of A and B: one if they are the same.
fn types([a, b]: [DType; 2]) -> String {
    if a == b { format!("{a:?}") } else { format!("{a:?} {b:?}") }
}

fn math_name(op: Math) -> &'static str {
    match op {
        Math::Mov => "mov",
        Math::Add => "add",
        Math::Sub => "sub",
        Math::Mul => "mul",
        Math::Div => "div",
        Math::Fma => "fma",
        Math::Neg => "neg",
        Math::Abs => "abs",
        Math::CopySign => "copysign",
        Math::Min => "min",
        Math::Max => "max",
        Math::Exp2 => "exp2",
        Math::Exp2OrZero => "exp2_or_zero",
        Math::Reciprocal => "reciprocal",
        Math::Convert => "convert",
        Math::ConvertPair(Type::F16) => "convert_pair f16",
        Math::ConvertPair(_) => "convert_pair bf16",
        Math::Pair => "pair",
        Math::First => "first",
        Math::Second => "second",
        Math::Four => "four",
        Math::Byte(0) => "byte 0",
        Math::Byte(1) => "byte 1",
        Math::Byte(2) => "byte 2",
        Math::Byte(_) => "byte 3",
        Math::Across => "across",
        Math::Tf32 => "tf32",
    }
}
