//! Every row of the instruction table with its destination in the register of a source: the result is the same as in a
//! register of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ptx_gemm_interp::{Arg, Checks, ViolationKind};
use ptx_gemm_ptx::asynchronous::PrefetchSize;
use ptx_gemm_ptx::forms::{Field, Form, all};
use ptx_gemm_ptx::instruction::{Cache, Opcode, Order, Rounding};
use ptx_gemm_ptx::matrix::Layout;
use ptx_gemm_ptx::types::{Space, Type};

use crate::run::Device;

const LANES: usize = 32;
/// Bytes of memory that belong to one lane in one execution.
const REACH: usize = 32;
/// Number of words of 8 bytes that each lane's registers start from.
const SEEDS: usize = 32;

/// An operand, and a position in it.
type At = (usize, usize);

/// A register of a form: its type, and its operand and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    ty: Type,
    pointer: Option<Space>,
    at: At,
}

/// The registers that a form writes, and those that it reads.
fn places(form: &Form) -> (Vec<Place>, Vec<Place>) {
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for (operand, field) in form.operands.iter().enumerate() {
        let place = |ty, part| Place { ty, pointer: None, at: (operand, part) };
        match *field {
            Field::Write(ty) => to.push(place(ty, 0)),
            Field::WritePair(ty) => to.extend([place(ty, 0), place(Type::Pred, 1)]),
            Field::WriteVector(ty, count) => to.extend((0..count.into()).map(|part| place(ty, part))),
            Field::Read(ty) => from.push(place(ty, 0)),
            Field::ReadVector(ty, count) => from.extend((0..count.into()).map(|part| place(ty, part))),
            Field::Pointer(ty, space) => from.push(Place { pointer: Some(space), ..place(ty, 0) }),
            Field::Address(space) => {
                let ty = if space.is_shared() { Type::B32 } else { Type::B64 };
                from.push(Place { pointer: Some(space), ..place(ty, 0) });
            }
            Field::Sink | Field::Constant(_) | Field::Fraction | Field::Other => {}
        }
    }
    (to, from)
}

/// The instruction's text, with the registers that `name` gives to its places.
fn text(form: &Form, name: impl Fn(At) -> String) -> String {
    let vector = |operand, count: u8| {
        let names: Vec<String> = (0..count.into()).map(|part| name((operand, part))).collect();
        format!("{{{}}}", names.join(", "))
    };
    let collective = ["shfl", "vote", "match", "redux", "elect"].iter().any(|word| form.mnemonic.starts_with(word));
    let operands = form.operands.iter().enumerate().map(|(operand, field)| match *field {
        // Every lane of the warp takes part.
        _ if collective && operand + 1 == form.operands.len() => "-1".into(),
        Field::Write(_) | Field::Read(_) | Field::Pointer(..) => name((operand, 0)),
        Field::WritePair(_) => format!("{}|{}", name((operand, 0)), name((operand, 1))),
        Field::WriteVector(_, count) | Field::ReadVector(_, count) => vector(operand, count),
        Field::Address(_) => format!("[{}]", name((operand, 0))),
        Field::Sink => "_".into(),
        Field::Constant(value) => value.to_string(),
        Field::Fraction => "0f3F000000".into(),
        Field::Other => "?".into(),
    });
    format!("{} {};", form.mnemonic, operands.collect::<Vec<_>>().join(", "))
}

/// The pairs of a written and a read register that can be the same: each pair alone, and all parts of two vectors at
/// once, in reverse.
fn aliases(to: &[Place], from: &[Place]) -> Vec<Vec<(Place, Place)>> {
    let mut found: Vec<Vec<(Place, Place)>> = Vec::new();
    for d in to {
        // For two vectors, the first parts of each with the first two of the other.
        let sources = from.iter().filter(|source| source.ty == d.ty && source.at.1 + d.at.1 < 2);
        found.extend(sources.map(|source| vec![(*d, *source)]));
    }
    let parts: Vec<Place> = to.iter().filter(|place| place.at.0 == to[0].at.0).copied().collect();
    let operands: BTreeSet<usize> = from.iter().map(|place| place.at.0).collect();
    for operand in operands {
        let sources: Vec<Place> = from.iter().filter(|place| place.at.0 == operand).copied().collect();
        if parts.len() > 1 && sources.len() == parts.len() && sources[0].ty == parts[0].ty {
            found.push(parts.iter().copied().zip(sources.into_iter().rev()).collect());
        }
    }
    found
}

/// The initial bits of a register: numbers at which instructions behave in special ways, and others.
fn value(seed: usize, lane: usize) -> u64 {
    const SPECIAL: [u64; 12] = [
        0x4148_0000_4148_0000,
        0x8000_0001_8000_0001,
        0x3f80_0000_3f80_0000,
        0x0040_0000_0040_0000,
        0x7f80_0001_7f80_0001,
        0xff80_0000_ff80_0000,
        0x3ff8_0000_0000_0000,
        0x7ff0_0000_0000_0001,
        0x0001_8001_0400_3c00,
        0x7c01_fc00_0080_8080,
        0x0000_0000_0000_0003,
        0xffff_ffff_ffff_ffff,
    ];
    let mut bits = (seed as u64 * 64 + lane as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 32;
    if bits.is_multiple_of(3) { bits.rotate_left(17) } else { SPECIAL[(bits >> 8) as usize % SPECIAL.len()] }
}

/// Whether some lanes of a warp may be off, and keep the old destination. They may not if all lanes have to take part,
/// or if the old destination is an address, which differs from one execution to the next.
fn may_be_guarded(form: &Form) -> bool {
    let addresses = |field: &Field| matches!(field, Field::Address(_) | Field::Pointer(..));
    !form.mnemonic.contains(".sync") && !form.mnemonic.contains(".red.") && !form.operands.iter().any(addresses)
}

/// The entry that executes a form, once for each pair of registers that can be the same, first in registers of their
/// own and then in place. It stores what each execution writes, 8 bytes per register and lane.
struct Tried {
    text: String,
    /// The results of each lane, half of them in place: [pair][fresh or in place][register].
    pairs: Vec<Vec<(Place, Place)>>,
    written: usize,
}

fn entry(name: &str, form: &Form) -> Option<Tried> {
    let (to, from) = places(form);
    let pairs = aliases(&to, &from);
    if pairs.is_empty() || form.operands.contains(&Field::Other) {
        return None;
    }
    let mut entry = Entry::default();
    for (number, alias) in pairs.iter().enumerate() {
        for in_place in [false, true] {
            let names: BTreeMap<At, String> =
                from.iter().enumerate().map(|(seed, place)| (place.at, entry.source(form, seed, place))).collect();
            let mut all = names.clone();
            for place in &to {
                let source = alias.iter().find(|(d, _)| d == place).map(|(_, source)| &names[&source.at]);
                let name = match source {
                    Some(source) if in_place => source.clone(),
                    // Lanes that are off keep the old value of the register.
                    source => entry.copied(place.ty, source),
                };
                all.insert(place.at, name);
            }
            if matches!(form.op, Opcode::Carry { .. }) {
                entry.line("add.cc.u32 %bit, %t, 0xfffffff0;".into());
            }
            let guard = if may_be_guarded(form) { "@%on " } else { "" };
            entry.line(format!("{guard}{}", text(form, |at| all[&at].clone())));
            for (index, place) in to.iter().enumerate() {
                let slot = ((number * 2 + usize::from(in_place)) * to.len() + index) * LANES * 8;
                entry.store(place.ty, &all[&place.at], slot);
            }
            entry.executions += 1;
        }
    }
    Some(Tried { text: entry.finish(name), pairs, written: to.len() })
}

#[derive(Default)]
struct Entry {
    declared: String,
    body: String,
    registers: usize,
    executions: usize,
    shared: bool,
}

impl Entry {
    fn line(&mut self, text: String) {
        self.body.push_str(&text);
        self.body.push('\n');
    }

    fn register(&mut self, ty: Type) -> String {
        self.registers += 1;
        writeln!(self.declared, ".reg .{} %x{};", ty.name(), self.registers).expect("a String takes everything");
        format!("%x{}", self.registers)
    }

    /// A register with the bits of this seed, or with an address.
    fn source(&mut self, form: &Form, seed: usize, place: &Place) -> String {
        let name = self.register(place.ty);
        let ty = place.ty.name();
        let at = seed * 8;
        match (place.pointer, place.ty) {
            (Some(space), Type::B32 | Type::B64) => {
                // Barriers and the rows of matrices are in shared memory.
                let moved = ["mbarrier", "ldmatrix", "mapa", "getctarank"].iter();
                let shared = space.is_shared() || moved.into_iter().any(|word| form.mnemonic.starts_with(word));
                self.shared |= shared;
                // An instruction that changes memory gets its own memory in each execution, with the same content.
                let changes = ["atom", "mbarrier"].iter().any(|word| form.mnemonic.starts_with(word));
                let offset = if changes { self.executions * LANES * REACH } else { 0 };
                let (bits, base) = (&ty[1..], if shared { "shared" } else { "global" });
                self.line(format!("add.u{bits} {name}, %{base}{bits}, {offset};"));
                if form.mnemonic.starts_with("mbarrier") {
                    let space = if space == Space::Generic { "" } else { ".shared" };
                    self.line(format!("mbarrier.init{space}.b64 [{name}], 1000;"));
                }
            }
            // The rank of the only block.
            (_, Type::B32) if form.mnemonic.starts_with("mapa") => self.line(format!("mov.b32 {name}, 0;")),
            (_, Type::B32) if form.mnemonic.starts_with("mbarrier") => self.line(format!("mov.b32 {name}, 1;")),
            (_, Type::Pred) => self.line(format!(
                "ld.global.u32 %bit, [%data+{at}];\nand.b32 %bit, %bit, 1;\nsetp.ne.u32 {name}, %bit, 0;"
            )),
            // Numbers of eight bytes are not aligned for it.
            (_, Type::B128) => self.line(format!(
                "ld.global.b64 %word, [%data+{at}];\nnot.b64 %high, %word;\nmov.b128 {name}, {{%word, %high}};"
            )),
            _ => self.line(format!("ld.global.{ty} {name}, [%data+{at}];")),
        }
        name
    }

    /// A register with the value of another one, or 0.
    fn copied(&mut self, ty: Type, source: Option<&String>) -> String {
        let name = self.register(ty);
        self.line(match (ty, source) {
            (Type::Pred, Some(source)) => format!("and.pred {name}, {source}, {source};"),
            (Type::Pred, None) => format!("setp.ne.u32 {name}, 0, 0;"),
            (Type::B128, None) => format!("mov.b64 %word, 0;\nmov.b128 {name}, {{%word, %word}};"),
            (ty, source) => format!("mov.{} {name}, {};", ty.name(), source.map_or("0", String::as_str)),
        });
        name
    }

    fn store(&mut self, ty: Type, name: &str, at: usize) {
        self.line(match ty {
            Type::Pred => format!("selp.u64 %word, 1, 0, {name};"),
            Type::B16 => format!("cvt.u64.u16 %word, {name};"),
            Type::B32 => format!("cvt.u64.u32 %word, {name};"),
            Type::B128 => format!("mov.b128 {{%word, %high}}, {name};\nmad.lo.u64 %word, %high, 3, %word;"),
            _ => format!("mov.b64 %word, {name};"),
        });
        self.line(format!("st.global.b64 [%out+{at}], %word;"));
    }

    fn finish(self, name: &str) -> String {
        let Entry { declared, body, executions, shared, .. } = self;
        let mut tile = String::new();
        for at in (0..if shared { executions * LANES * REACH } else { 0 }).step_by(LANES * REACH) {
            for at in (at..at + REACH).step_by(8) {
                writeln!(tile, "ld.global.b64 %word, [%global64+{at}];\nst.shared.b64 [%shared32+{at}], %word;")
                    .expect("a String takes everything");
            }
        }
        format!(
            ".visible .entry {name}(.param .u64 data, .param .u64 memory, .param .u64 out) {{
             .shared .align 128 .b8 tile[{bytes}];
             .reg .b64 %data, %out, %word, %high, %own, %global64, %shared64;
             .reg .b32 %t, %bit, %shared32;
             .reg .pred %on;
             {declared}
             ld.param.u64 %data, [data];
             ld.param.u64 %global64, [memory];
             ld.param.u64 %out, [out];
             mov.u32 %t, %tid.x;
             mul.wide.u32 %own, %t, {seeds};
             add.u64 %data, %data, %own;
             mul.wide.u32 %own, %t, 8;
             add.u64 %out, %out, %own;
             mul.wide.u32 %own, %t, {REACH};
             add.u64 %global64, %global64, %own;
             cvta.shared.u64 %shared64, tile;
             add.u64 %shared64, %shared64, %own;
             mul.lo.u32 %bit, %t, {REACH};
             mov.u32 %shared32, tile;
             add.u32 %shared32, %shared32, %bit;
             {tile}bar.sync 0;
             and.b32 %bit, %t, 5;
             setp.ne.u32 %on, %bit, 4;
             {body}ret;
             }}
",
            bytes = executions.max(1) * LANES * REACH,
            seeds = SEEDS * 8,
        )
    }
}

/// Whether a form's other fields are as in the plain one. The ordering of an access, its cache hints, and which elements
/// a product combines, do not concern registers.
fn is_plain(op: &Opcode) -> bool {
    match op {
        Opcode::Ld { order, cache, prefetch, .. } => {
            (*order, *cache, *prefetch) == (Order::Weak, Cache::None, PrefetchSize::None)
        }
        Opcode::Atom { order, .. } | Opcode::AtomVector { order, .. } => *order == Order::Weak,
        Opcode::MbarrierArrive { order, .. } | Opcode::MbarrierArriveDrop { order, .. } => *order == Order::Weak,
        Opcode::MbarrierWait { order, .. } => *order == Order::Weak,
        Opcode::WmmaMultiply { layouts, rnd, .. } => (*layouts, *rnd) == ([Layout::Row, Layout::Col], Rounding::None),
        _ => true,
    }
}

/// Forms that are not executed here: with addresses in memory that a launch does not provide, and with operands that
/// this test cannot make.
fn is_skipped(form: &Form) -> bool {
    let spaces = [Space::Local, Space::Param, Space::Const];
    form.operands.iter().any(|field| match field {
        Field::Address(space) | Field::Pointer(_, space) => spaces.contains(space),
        _ => false,
    }) || ["wmma.load", "wgmma", "createpolicy"].iter().any(|word| form.mnemonic.starts_with(word))
}

#[test]
fn every_row_in_place() {
    let mut rows: BTreeMap<String, Vec<Form>> = BTreeMap::new();
    for form in all().filter(|form| is_plain(&form.op) && !is_skipped(form)) {
        rows.entry(form.mnemonic.split('.').next().unwrap_or_default().to_owned()).or_default().push(form);
    }
    let (mut executed, mut refused, mut wrong) = (0, 0, Vec::new());
    for (row, forms) in &rows {
        let tried: Vec<(&Form, Tried)> = forms
            .iter()
            .enumerate()
            .filter_map(|(index, form)| Some((form, entry(&format!("{}_{index}", row.replace('.', "_")), form)?)))
            .collect();
        if tried.is_empty() {
            continue;
        }
        let mut text = String::from(".version 8.8\n.target sm_90a\n.address_size 64\n");
        tried.iter().for_each(|(_, tried)| text.push_str(&tried.text));
        let mut device = Device::new(&text);
        device.options.checks = Checks::Full;
        let data: Vec<u64> = (0..LANES).flat_map(|lane| (0..SEEDS).map(move |seed| value(seed, lane))).collect();
        let data = device.upload("data", &data);
        let most = tried.iter().map(|(_, tried)| tried.pairs.len() * 2).max().unwrap_or(0);
        let memory: Vec<u32> = (0..most).flat_map(|_| (0..(LANES * REACH / 4) as u32).map(|at| at * 40_503)).collect();
        let results = tried.iter().map(|(_, tried)| tried.pairs.len() * 2 * tried.written).max().unwrap_or(0);
        let entries: Vec<_> = device.program.entries().map(str::to_owned).collect();
        let before = executed;
        for ((form, tried), entry) in tried.iter().zip(&entries) {
            let memory = device.upload("memory", &memory);
            let out = device.upload("out", &vec![0u64; results * LANES]);
            let args = [Arg::U64(data), Arg::U64(memory), Arg::U64(out)];
            match device.launch_entry(entry, &args) {
                Err(found) if found.kind == ViolationKind::UnknownInstruction => {
                    refused += 1;
                    continue;
                }
                found => found.unwrap_or_else(|found| panic!("{}: {found}\n{}", form.mnemonic, tried.text)),
            };
            executed += 1;
            let words = device.words(out, results * LANES * 2);
            let each = tried.written * LANES * 2;
            for (pair, alias) in tried.pairs.iter().enumerate() {
                let [fresh, in_place] = [0, 1].map(|at| &words[(pair * 2 + at) * each..][..each]);
                if fresh != in_place {
                    let at = fresh.iter().zip(in_place).position(|(fresh, in_place)| fresh != in_place).unwrap_or(0);
                    let (d, source) = alias[0];
                    wrong.push(format!(
                        "{}: operand {:?} is operand {:?}: lane {} has {:#x}, in a register of its own {:#x}",
                        form.mnemonic,
                        d.at,
                        source.at,
                        at / 2 % LANES,
                        in_place[at],
                        fresh[at]
                    ));
                }
            }
        }
        assert!(executed > before, "no form of {row} is executed");
    }
    println!("{executed} forms in place, {refused} refused");
    assert!(wrong.is_empty(), "{} forms:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}
