//! PTX text of the benchmark's GEMM: a double-buffered tile of 128 x 128 x 8, 256 threads, 8 x 8 elements per thread,
//! one barrier per K-tile. Sizes must be multiples of the tile. D = A B, all row-major.

use std::fmt::Write;

/// Element type of the whole product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32,
    F64,
    I32,
}

impl Element {
    /// Name of the PTX type.
    fn ty(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::F64 => "f64",
            Element::I32 => "s32",
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        if self == Element::F64 { 8 } else { 4 }
    }

    fn fma(self) -> &'static str {
        match self {
            Element::F32 => "fma.rn.f32",
            Element::F64 => "fma.rn.f64",
            Element::I32 => "mad.lo.s32",
        }
    }

    /// Elements per widest access.
    fn vector(self) -> u32 {
        16 / self.bytes()
    }
}

/// Depth of a K-tile.
const DEPTH: u32 = 8;

/// The text. Entry `gemm(a, b, d, n, k)`, grid (n / 128, m / 128).
pub fn gemm(element: Element) -> String {
    let (ty, size, vector) = (element.ty(), element.bytes(), element.vector());
    let tile_bytes = 128 * DEPTH * size;
    let mut text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n\n\
         .visible .entry gemm(.param .u64 a, .param .u64 b, .param .u64 d, .param .u32 n, .param .u32 k) .reqntid 256\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n.reg .{ty} %acc<64>;\n.reg .{ty} %a<8>;\n\
         .reg .{ty} %b<8>;\n.reg .{ty} %c<8>;\n.shared .align 16 .b8 tiles[{}];\n",
        4 * tile_bytes
    );
    let mut emit = |line: &str| writeln!(text, "{line}").expect("a String takes everything");
    for line in [
        "ld.param.u64 %rd0, [a];",
        "ld.param.u64 %rd1, [b];",
        "ld.param.u64 %rd2, [d];",
        "ld.param.u32 %r0, [n];",
        "ld.param.u32 %r1, [k];",
        "mov.u32 %r2, %tid.x;",
        "mov.u32 %r3, %ctaid.x;",
        "mov.u32 %r4, %ctaid.y;",
        // Row and column of the thread's 8 x 8 piece.
        "shr.u32 %r5, %r2, 4;",
        "and.b32 %r6, %r2, 15;",
        // Its row and column of the copy of A: two threads per row.
        "shr.u32 %r7, %r2, 1;",
        "and.b32 %r8, %r2, 1;",
        "shl.b32 %r8, %r8, 2;",
        // The same for B: 32 threads per row.
        "shr.u32 %r9, %r2, 5;",
        "and.b32 %r10, %r2, 31;",
        "shl.b32 %r10, %r10, 2;",
        "shl.b32 %r11, %r4, 7;",
        "add.u32 %r11, %r11, %r7;",
        "mad.lo.u32 %r12, %r11, %r1, %r8;",
        "shl.b32 %r13, %r3, 7;",
        "add.u32 %r13, %r13, %r10;",
        "mad.lo.u32 %r14, %r9, %r0, %r13;",
        "mov.u32 %r20, tiles;",
    ] {
        emit(line);
    }
    emit(&format!("mul.wide.u32 %rd3, %r12, {size};\nadd.u64 %rd4, %rd0, %rd3;"));
    emit(&format!("mul.wide.u32 %rd5, %r14, {size};\nadd.u64 %rd6, %rd1, %rd5;"));
    // B advances by DEPTH rows per K-tile.
    emit(&format!("mul.wide.u32 %rd7, %r0, {};", DEPTH * size));
    // The addresses that this thread writes: A transposed, as [k][m]; B as [k][n] after both buffers of A.
    emit(&format!("shl.b32 %r21, %r8, 7;\nadd.u32 %r21, %r21, %r7;\nmad.lo.u32 %r21, %r21, {size}, %r20;"));
    emit(&format!("shl.b32 %r22, %r9, 7;\nadd.u32 %r22, %r22, %r10;\nmad.lo.u32 %r22, %r22, {size}, %r20;"));
    emit(&format!("add.u32 %r22, %r22, {};", 2 * tile_bytes));
    // The addresses that it reads.
    emit(&format!("mad.lo.u32 %r23, %r5, {}, %r20;", 8 * size));
    emit(&format!("mad.lo.u32 %r24, %r6, {}, %r20;\nadd.u32 %r24, %r24, {};", 8 * size, 2 * tile_bytes));
    for i in 0..64 {
        let zero = if element == Element::I32 {
            "0"
        } else if size == 8 {
            "0d0000000000000000"
        } else {
            "0f00000000"
        };
        emit(&format!("mov.{ty} %acc{i}, {zero};"));
    }
    let vectors = |prefix: &str, first: u32, width: u32| {
        let names: Vec<String> = (first..first + width).map(|i| format!("%{prefix}{i}")).collect();
        if width == 1 { names[0].clone() } else { format!("{{{}}}", names.join(", ")) }
    };
    let load = |emit: &mut dyn FnMut(&str)| {
        for first in (0..4).step_by(vector as usize) {
            let at = first * size;
            emit(&format!("ld.global.v{vector}.{ty} {}, [%rd4+{at}];", vectors("c", first, vector)));
            emit(&format!("ld.global.v{vector}.{ty} {}, [%rd6+{at}];", vectors("c", 4 + first, vector)));
        }
    };
    let store = |emit: &mut dyn FnMut(&str)| {
        for i in 0..4 {
            emit(&format!("st.shared.{ty} [%r21+{}], %c{i};", i * 128 * size));
        }
        for first in (0..4).step_by(vector as usize) {
            emit(&format!("st.shared.v{vector}.{ty} [%r22+{}], {};", first * size, vectors("c", 4 + first, vector)));
        }
    };
    load(&mut emit);
    store(&mut emit);
    emit("bar.sync 0; //@ double_buffer: the first tile is there");
    emit("mov.u32 %r25, 0;");
    emit("LOOP:");
    emit(&format!("add.u32 %r26, %r25, {DEPTH};\nsetp.lt.u32 %p0, %r26, %r1;"));
    emit("@!%p0 bra COMPUTE;");
    emit(&format!("add.u64 %rd4, %rd4, {};\nadd.u64 %rd6, %rd6, %rd7;", DEPTH * size));
    load(&mut emit);
    emit("COMPUTE:");
    for k in 0..DEPTH {
        for first in (0..8).step_by(vector as usize) {
            let at = k * 128 * size + first * size;
            emit(&format!("ld.shared.v{vector}.{ty} {}, [%r23+{at}];", vectors("a", first, vector)));
            emit(&format!("ld.shared.v{vector}.{ty} {}, [%r24+{at}];", vectors("b", first, vector)));
        }
        for i in 0..8 {
            for j in 0..8 {
                emit(&format!("{} %acc{}, %a{i}, %b{j}, %acc{};", element.fma(), i * 8 + j, i * 8 + j));
            }
        }
    }
    emit("@!%p0 bra DONE;");
    // The other buffer: the tiles are a power of two apart, relative to their own start.
    for register in [21, 22, 23, 24] {
        emit(&format!("sub.u32 %r{register}, %r{register}, %r20;\nxor.b32 %r{register}, %r{register}, {tile_bytes};"));
        emit(&format!("add.u32 %r{register}, %r{register}, %r20;"));
    }
    store(&mut emit);
    emit("bar.sync 0; //@ double_buffer: the next tile is there");
    emit("mov.u32 %r25, %r26;\nbra LOOP;\nDONE:");
    emit("shl.b32 %r30, %r4, 7;\nshl.b32 %r31, %r5, 3;\nadd.u32 %r30, %r30, %r31;");
    emit("shl.b32 %r32, %r3, 7;\nshl.b32 %r33, %r6, 3;\nadd.u32 %r32, %r32, %r33;");
    emit(&format!("mad.lo.u32 %r34, %r30, %r0, %r32;\nmul.wide.u32 %rd8, %r34, {size};\nadd.u64 %rd8, %rd2, %rd8;"));
    emit(&format!("mul.wide.u32 %rd9, %r0, {size};"));
    for i in 0..8 {
        for first in (0..8).step_by(vector as usize) {
            emit(&format!(
                "st.global.v{vector}.{ty} [%rd8+{}], {};",
                first * size,
                vectors("acc", i * 8 + first, vector)
            ));
        }
        emit("add.u64 %rd8, %rd8, %rd9;");
    }
    emit("ret;\n}");
    text
}
