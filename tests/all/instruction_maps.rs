//! The maps of fragments (`gemm-dsl/src/map.rs`) are those of the interpreter, which has its own: each `mma` of the table multiplies
//! fragments that are laid out by the maps.

use std::fmt::Write;

use ptx_gemm_check::{decode, encode};
use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::atoms::{Columns, MULTIPLIES, Multiply, Unit};
use ptx_gemm_dsl::map::Map;
use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::Side;
use ptx_gemm_interp::{Arg, Launch, Memory, Options, Program, launch};

/// Registers of some elements: how many, their type, and the type's bytes.
fn registers(dtype: DType, elements: u32) -> (u32, &'static str, u32) {
    match dtype {
        DType::F64 => (elements, "f64", 8),
        DType::F32 => (elements, "f32", 4),
        other => (elements * other.element().bits / 32, "b32", 4),
    }
}

/// A kernel in which each lane loads its fragments, one after the other in memory, multiplies, and stores its sums.
fn kernel(row: &Multiply, columns: u32, (a, b, sums): (DType, DType, DType), counts: [u32; 3]) -> String {
    let (mut head, mut body, mut operands) = (String::new(), String::new(), Vec::new());
    let matrices = [("a", a, counts[0]), ("b", b, counts[1]), ("d", sums, counts[2])];
    for (name, dtype, elements) in matrices {
        let (count, ty, bytes) = registers(dtype, elements);
        writeln!(head, ".reg .{ty} %{name}<{count}>;\n.reg .u64 %p{name};").unwrap();
        writeln!(body, "ld.param.u64 %p{name}, [{name}];\nmad.wide.u32 %p{name}, %lane, {}, %p{name};", count * bytes)
            .unwrap();
        for index in 0..count {
            let zero = if ty == "f64" {
                "0d0000000000000000"
            } else if ty == "f32" {
                "0f00000000"
            } else {
                "0"
            };
            match name {
                "d" => writeln!(body, "mov.{ty} %d{index}, {zero};"),
                _ => writeln!(body, "ld.global.{ty} %{name}{index}, [%p{name}+{}];", index * bytes),
            }
            .unwrap();
        }
        operands.push(format!("{{{}}}", (0..count).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ")));
    }
    let [ops_a, ops_b, ops_d] = &operands[..] else { unreachable!() };
    let name = |dtype: DType| match dtype {
        DType::I8 => "s8",
        DType::I32 => "s32",
        other => other.name(),
    };
    let types = [sums, a, b, sums].map(name).join(".");
    let (m, k) = (row.rows, row.depth);
    writeln!(body, "mma.sync.aligned.m{m}n{columns}k{k}.row.col.{types} {ops_d}, {ops_a}, {ops_b}, {ops_d};").unwrap();
    let (count, ty, bytes) = registers(sums, counts[2]);
    for index in 0..count {
        writeln!(body, "st.global.{ty} [%pd+{}], %d{index};", index * bytes).unwrap();
    }
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)\n\
         {{\n.reg .u32 %lane;\n{head}mov.u32 %lane, %tid.x;\n{body}ret;\n}}\n"
    )
}

/// Small integers, which every type has.
fn value(row: u32, column: u32, of: u32) -> f64 {
    f64::from((row * 5 + column * 3 + of) % 4)
}

/// The elements that each lane holds, in memory.
fn laid_out(map: &Map, dtype: DType, of: u32) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    let mut bytes = vec![0; size * (WARP * map.elements()) as usize];
    for (index, element) in bytes.chunks_mut(size).enumerate() {
        let (lane, number) = (index as u32 / map.elements(), index as u32 % map.elements());
        let ((row, column), (i, j)) = (map.first(lane), map.position(number));
        encode(dtype, value(row + i, column + j, of), element);
    }
    bytes
}

#[test]
fn maps_of_fragments_are_the_interpreters() {
    let mut tried = 0;
    for row in MULTIPLIES.iter().filter(|row| row.unit == Unit::Warp) {
        let Columns::Only(columns) = row.columns else { panic!("{row:?}") };
        for (a, sums) in row.factors.iter().zip(row.sums.iter().cycle()) {
            let b = if row.mixed { row.factors[1] } else { *a };
            let (of_a, of_b) = (Map::of_factor(row, Side::A, *a), Map::of_factor(row, Side::B, b));
            let of_d = Map::of_warp(row.rows);
            assert_eq!(of_a.fault(row.rows, row.depth), None, "{row:?}");
            assert_eq!(of_b.fault(row.depth, columns), None, "{row:?}");
            let text = kernel(row, columns, (*a, b, *sums), [&of_a, &of_b, &of_d].map(Map::elements));
            let program = Program::from_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let memory = Memory::new();
            let alloc = |name: &str, bytes: &[u8]| memory.alloc_from(name, bytes, 256).unwrap().address;
            let size = sums.bytes() as usize;
            let mut d = vec![0; size * (WARP * of_d.elements()) as usize];
            let to = alloc("d", &d);
            let args = [
                Arg::U64(alloc("a", &laid_out(&of_a, *a, 1))),
                Arg::U64(alloc("b", &laid_out(&of_b, b, 2))),
                Arg::U64(to),
            ];
            let what = Launch { entry: "product", grid: [1; 3], block: [WARP, 1, 1], args: &args, ..Launch::default() };
            launch(&program, &memory, &what, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
            memory.read(to, &mut d).unwrap();
            for (index, element) in d.chunks(size).enumerate() {
                let (lane, number) = (index as u32 / of_d.elements(), index as u32 % of_d.elements());
                let ((m, n), (i, j)) = (of_d.first(lane), of_d.position(number));
                let want: f64 = (0..row.depth).map(|k| value(m + i, k, 1) * value(k, n + j, 2)).sum();
                assert_eq!(decode(*sums, element), want, "{a} {b} {sums}, row {}, column {}\n{text}", m + i, n + j);
            }
            tried += 1;
        }
    }
    assert!(tried >= 15, "{tried} instructions");
}
