//! The time from the text of a schedule to the text of its PTX, in total and phase by phase.
//!
//! `cargo bench -p ptx-gemm-codegen`. The double-buffered example has to stay under a millisecond: its median is
//! printed at the end next to that limit, and the run fails if it exceeds the limit.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use divan::{Bencher, black_box};
use ptx_gemm_codegen::kernel::Kernel;
use ptx_gemm_codegen::tile::Program;
use ptx_gemm_codegen::{Compiled, compile, emit, kernel, lower, tile};
use ptx_gemm_dsl::{Plan, Schedule};

const LIMIT: Duration = Duration::from_millis(1);

/// From the smallest module to a large one.
const SCHEDULES: [(&str, &str); 3] = [
    ("naive", "tile(32, 32); thread(1, 1); shared(none);"),
    ("double_buffered", DOUBLE_BUFFERED),
    (
        "thread_16x16",
        "tile(128, 128, 8); thread(16, 8); fragment(4, 4); vector(4); shared(a = km + pad(4)); double_buffer;",
    ),
];
const DOUBLE_BUFFERED: &str = "tile(128, 128, 8); thread(8, 8); vector(4); double_buffer;";

fn main() -> ExitCode {
    divan::main();
    let mut times: Vec<Duration> = (0..201)
        .map(|_| {
            let start = Instant::now();
            let compiled = black_box(whole(black_box(DOUBLE_BUFFERED)));
            let time = start.elapsed();
            drop(compiled);
            time
        })
        .collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    println!("double_buffered, schedule to PTX: median {median:.1?}, at most {LIMIT:?}");
    ExitCode::from(u8::from(median > LIMIT))
}

fn plan(clauses: &str) -> Plan {
    let schedule: Schedule = clauses.parse().expect("the text is a schedule");
    schedule.plan(None).expect("the schedule is legal")
}

/// Everything up to the text. What was compiled is dropped after the clock has stopped, as in divan's runs.
fn whole(clauses: &str) -> Compiled {
    compile(&plan(clauses)).expect("the compiler is right")
}

#[divan::bench(args = SCHEDULES.map(|(name, _)| name))]
fn schedule_to_ptx(bencher: Bencher, name: &str) {
    let clauses = SCHEDULES.into_iter().find(|(known, _)| *known == name).map_or("", |(_, clauses)| clauses);
    bencher.bench(|| whole(black_box(clauses)));
}

/// The phases of the double-buffered example, in order. Each gets the output of the previous one, and both entries are
/// lowered.
mod phases {
    use super::*;

    fn programs(plan: &Plan) -> Vec<Program> {
        tile::build::build(plan).entries
    }

    fn kernels(plan: &Plan) -> Vec<Kernel> {
        programs(plan).iter().map(|program| lower::lower(program).expect("the program is right")).collect()
    }

    #[divan::bench]
    fn a_parse() -> Schedule {
        black_box(DOUBLE_BUFFERED).parse().expect("the text is a schedule")
    }

    #[divan::bench]
    fn b_check_and_plan(bencher: Bencher) {
        let schedule: Schedule = DOUBLE_BUFFERED.parse().expect("the text is a schedule");
        bencher.bench(|| schedule.plan(None));
    }

    #[divan::bench]
    fn c_build_tile(bencher: Bencher) {
        let plan = plan(DOUBLE_BUFFERED);
        bencher.bench(|| programs(&plan));
    }

    #[divan::bench]
    fn d_verify_tile(bencher: Bencher) {
        let programs = programs(&plan(DOUBLE_BUFFERED));
        bencher.bench(|| programs.iter().all(|program| tile::verify::verify(program).is_ok()));
    }

    #[divan::bench]
    fn e_lower(bencher: Bencher) {
        let plan = plan(DOUBLE_BUFFERED);
        let programs = programs(&plan);
        bencher.bench(|| programs.iter().map(lower::lower).collect::<Vec<_>>());
    }

    #[divan::bench]
    fn f_verify_kernel(bencher: Bencher) {
        let kernels = kernels(&plan(DOUBLE_BUFFERED));
        bencher.bench(|| kernels.iter().all(|kernel| kernel::verify::verify(kernel).is_ok()));
    }

    #[divan::bench]
    fn g_emit(bencher: Bencher) {
        let plan = plan(DOUBLE_BUFFERED);
        let kernels = kernels(&plan);
        let verified: Vec<_> =
            kernels.iter().map(|kernel| kernel::verify::verify(kernel).expect("the kernel is right")).collect();
        bencher.bench(|| verified.iter().map(|kernel| emit::emit(kernel, plan.target)).collect::<Vec<_>>());
    }

    #[divan::bench]
    fn h_verify_ptx(bencher: Bencher) {
        let module = compile(&plan(DOUBLE_BUFFERED)).expect("the compiler is right").module;
        bencher.bench(|| ptx_gemm_ptx::verify::verify(&module).is_ok());
    }

    #[divan::bench]
    fn i_print_ptx(bencher: Bencher) {
        let module = compile(&plan(DOUBLE_BUFFERED)).expect("the compiler is right").module;
        bencher.bench(|| ptx_gemm_ptx::print::print(&module));
    }
}
