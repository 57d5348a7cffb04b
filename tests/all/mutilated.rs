//! Texts close to valid ones: a fixed number of each kind, drawn with a seed that is printed. `fuzz/` runs the same
//! functions without a limit.

use ptx_gemm_check::cases;
use ptx_gemm_check::texts::{self, Reached, mutilated};
use ptx_gemm_runtime::random::SplitMix64;

/// Initial seed; `MUTILATED_SEED` sets another one.
const SEED: u64 = 20_261_122;

fn seed() -> u64 {
    std::env::var("MUTILATED_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED)
}

/// Runs `count` mutilations of these texts, and requires that some are rejected and some reach the end.
fn survive(kind: &str, sources: &[String], count: usize, entry: fn(&str) -> Reached) {
    let seed = seed();
    let mut random = SplitMix64::new(seed);
    let mut reached = [0; 3];
    for number in 0..count {
        let source = &sources[random.next_in(0, sources.len() as i64 - 1) as usize];
        let text = mutilated(source, &mut random);
        let outcome = std::panic::catch_unwind(|| entry(&text));
        let outcome = outcome.unwrap_or_else(|_| panic!("{kind} {number} of MUTILATED_SEED={seed}:\n{text}"));
        reached[outcome as usize] += 1;
    }
    let [nothing, read, end] = reached;
    println!("{kind}: seed {seed}, {count} texts, {nothing} refused at once, {read} later, {end} not at all");
    assert!(nothing > 0 && end > 0, "{kind}: {reached:?}");
}

fn small_ptx() -> Vec<String> {
    let small = |clauses: &str| {
        let schedule: ptx_gemm_dsl::Schedule = clauses.parse().unwrap();
        ptx_gemm_codegen::compile(&schedule.plan(None).unwrap()).unwrap().ptx
    };
    let made = ["tile(2, 2, 2); thread(1, 1); tail(none);", "tile(8, 8, 4); thread(2, 2); double_buffer;"].map(small);
    let mut all = made.to_vec();
    all.push(WITH_FUNCTIONS.into());
    all
}

/// Instructions that the compiler does not emit.
const WITH_FUNCTIONS: &str = ".version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 3;
.const .align 4 .b8 table[8] = {1, 2, 3, 4};
.func (.param .b32 out) half(.param .b32 in)
{
    .reg .b32 %r<4>;
    .reg .pred %p;
    ld.param.u32 %r1, [in];
    setp.gt.u32 %p, %r1, 3;
    @%p bra big;
    st.param.b32 [out], %r1;
    ret;
big:
    shr.u32 %r1, %r1, 1;
    st.param.b32 [out], %r1;
    ret;
}
.visible .entry k(.param .u64 a)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<4>;
    .local .align 4 .b8 own[16];
    .shared .align 4 .b8 all[256];
    mov.u32 %r1, %tid.x;
    { .param .b32 x; .param .b32 y;
    st.param.b32 [x], %r1;
    call.uni (y), half, (x);
    ld.param.b32 %r2, [y]; }
    st.local.u32 [own+4], %r2;
    ld.local.u32 %r3, [own+4];
    shl.b32 %r4, %r1, 2;
    mov.u32 %r5, all;
    add.u32 %r5, %r5, %r4;
    st.shared.u32 [%r5], %r3;
    bar.sync 0;
    ld.shared.u32 %r6, [%r5];
    add.cc.u32 %r6, %r6, %r3;
    addc.u32 %r7, %r6, 0;
    cvt.rn.f32.u32 %f1, %r7;
    mul.ftz.f32 %f2, %f1, 0f3F000000;
    atom.global.add.u32 %r2, [counter], 1;
    match.any.sync.b32 %r3, %r6, -1;
    ld.param.u64 %rd1, [a];
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    mov.u32 %r1, %ctaid.x;
    mad.wide.u32 %rd2, %r1, 256, %rd2;
    st.global.f32 [%rd2], %f2;
    ret;
}
";

#[test]
fn schedules() {
    let sources: Vec<String> = cases().map(|case| case.text.to_string()).collect();
    survive("schedule", &sources, 2000, texts::schedule);
}

#[test]
fn tile_programs() {
    let one = |clauses: &str| {
        let schedule: ptx_gemm_dsl::Schedule = clauses.parse().unwrap();
        ptx_gemm_codegen::tile::print::print(&ptx_gemm_codegen::tile::build::build(&schedule.plan(None).unwrap()))
    };
    let sources = ["tile(2, 2, 2); thread(1, 1);", "tile(16, 16, 8); thread(4, 4); double_buffer;"].map(one);
    survive("tile program", &sources, 300, texts::tile);
}

#[test]
fn ptx() {
    survive("PTX", &small_ptx(), 1000, texts::ptx);
}

#[test]
fn ptx_on_the_interpreter() {
    survive("PTX on the interpreter", &small_ptx(), 400, texts::interpreter);
}
