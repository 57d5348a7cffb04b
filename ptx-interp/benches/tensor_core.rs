//! Multiply-adds per second of products on tensor cores, on one host thread. Divan's throughput column counts
//! multiply-adds as items.

use divan::Bencher;
use divan::counter::ItemsCount;
use ptx_gemm_interp::{
    Arg, Checks, Launch, Memory, Options, Program, Swizzle, TensorElement, TensorMap, TensorMapArgs, launch,
};

fn main() {
    divan::main();
}

/// Random 16-bit floats from -2 to 2.
fn data(count: u64) -> Vec<u8> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 48) as u16
    };
    (0..count).flat_map(|_| (next() & 0x80ff | 0x3f00).to_le_bytes()).collect()
}

fn options(checks: Checks) -> Options {
    Options { checks, threads: Some(1), ..Options::default() }
}

/// The hand-written kernel of the examples: 64 x 64 x 64 tiles of bf16, two slots.
#[divan::bench(args = [Checks::Off, Checks::Full])]
fn warp_group(bencher: Bencher, checks: Checks) {
    const EXTENT: u64 = 512;
    let program = Program::from_text(include_str!("../../examples/ptx/wgmma_gemm.ptx")).expect("the text is right");
    let memory = Memory::new();
    let map = |name: &str| {
        let address = memory.alloc_from(name, &data(EXTENT * EXTENT), 256).expect("fits").address;
        let args = TensorMapArgs::new(TensorElement::Bf16, address, &[EXTENT; 2], &[2 * EXTENT], &[64, 64]);
        Arg::TensorMap(Box::new(TensorMap::encode(&args.swizzled(Swizzle::Bytes128)).expect("legal")))
    };
    let (ma, mb) = (map("A"), map("B"));
    let d = memory.alloc("D", 4 * EXTENT * EXTENT, 256).expect("fits").address;
    let args = [ma, mb, Arg::U64(d), Arg::U32(EXTENT as u32), Arg::U32(EXTENT as u32)];
    let grid = [EXTENT as u32 / 64, EXTENT as u32 / 64, 1];
    let what = Launch { entry: "gemm", grid, block: [160, 1, 1], args: &args, ..Launch::default() };
    bencher
        .counter(ItemsCount::new(EXTENT.pow(3)))
        .bench(|| launch(&program, &memory, &what, &options(checks)).expect("the kernel is right"));
}

/// One warp: fragments from swizzled rows of 128 bytes, a warp tile of 64 x 32, 64 times k = 64.
#[divan::bench(args = [Checks::Off, Checks::Full])]
fn warp(bencher: Bencher, checks: Checks) {
    const STEPS: u64 = 64;
    let program = Program::from_text(&warp_text(STEPS)).expect("the text is right");
    let memory = Memory::new();
    let input = memory.alloc_from("in", &data(96 * 64), 256).expect("fits").address;
    let out = memory.alloc("out", 4 * 64 * 32, 256).expect("fits").address;
    let args = [Arg::U64(input), Arg::U64(out)];
    let what = Launch { entry: "k", grid: [1; 3], block: [32, 1, 1], args: &args, ..Launch::default() };
    bencher
        .counter(ItemsCount::new(STEPS * 64 * 64 * 32))
        .bench(|| launch(&program, &memory, &what, &options(checks)).expect("the kernel is right"));
}

fn warp_text(steps: u64) -> String {
    let copies: String = (0..24)
        .map(|i| format!("ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd0+{0}]; st.shared.v4.u32 [%r1+{0}], {{%r4, %r5, %r6, %r7}};\n", 512 * i))
        .collect();
    let mut products = String::new();
    for k in 0..4 {
        // Row lane % 16 (or lane % 8), chunk 2 k + lane / 16 (or lane / 8), swizzled by the row.
        let chunk = |shift: u32| {
            format!(
                "shr.u32 %r4, %t, {shift}; and.b32 %r4, %r4, 1; add.u32 %r4, %r4, {}; xor.b32 %r4, %r4, %r3; shl.b32 %r4, %r4, 4;\n",
                2 * k
            )
        };
        products += &chunk(4);
        for i in 0..4 {
            products += &format!(
                "add.u32 %r5, %r4, %r2; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%a{}, %a{}, %a{}, %a{}}}, [%r5+{}];\n",
                4 * i,
                4 * i + 1,
                4 * i + 2,
                4 * i + 3,
                2048 * i
            );
        }
        products += &chunk(3);
        for j in 0..4 {
            products += &format!(
                "add.u32 %r5, %r4, %r6; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%b{}, %b{}}}, [%r5+{}];\n",
                2 * j,
                2 * j + 1,
                8192 + 1024 * j
            );
        }
        for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
            let d = |at: usize| 16 * i + 4 * j + at;
            let sums = format!("{{%d{}, %d{}, %d{}, %d{}}}", d(0), d(1), d(2), d(3));
            products += &format!(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {sums}, {{%a{}, %a{}, %a{}, %a{}}}, {{%b{}, %b{}}}, {sums};\n",
                4 * i,
                4 * i + 1,
                4 * i + 2,
                4 * i + 3,
                2 * j,
                2 * j + 1
            );
        }
    }
    let zero: String = (0..64).map(|at| format!("mov.f32 %d{at}, 0f00000000;\n")).collect();
    let stores: String = (0..64).map(|at| format!("st.global.f32 [%rd1+{}], %d{at};\n", 128 * at)).collect();
    format!(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.shared .align 1024 .b8 s[12288];
.reg .b64 %rd<4>; .reg .b32 %r<12>; .reg .b32 %t; .reg .b32 %a<16>; .reg .b32 %b<8>; .reg .f32 %d<64>; .reg .pred %p<2>;
ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
mov.u32 %t, %tid.x; mul.wide.u32 %rd2, %t, 16; add.u64 %rd0, %rd0, %rd2; mul.wide.u32 %rd2, %t, 4; add.u64 %rd1, %rd1, %rd2;
mov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1;
{copies}bar.sync 0;
mov.u32 %r0, s; and.b32 %r3, %t, 7; and.b32 %r2, %t, 15; mad.lo.u32 %r2, %r2, 128, %r0; mad.lo.u32 %r6, %r3, 128, %r0;
{zero}mov.u32 %r8, 0;
NEXT: {products}add.u32 %r8, %r8, 1;
setp.lt.u32 %p0, %r8, {steps};
@%p0 bra NEXT;
{stores}ret;
}}
"
    )
}
