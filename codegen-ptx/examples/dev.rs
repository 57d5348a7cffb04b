//! Scratch: prints a level of a schedule.
use ptx_gemm_dsl::schedule::Schedule;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let schedule: Schedule = args[2].parse().map_err(|e| panic!("{e}")).unwrap();
    let plan = schedule.plan(None).map_err(|e| panic!("{e}")).unwrap();
    let want = args[1].clone();
    let t = std::time::Instant::now();
    let c = ptx_gemm_codegen::compile(&plan);
    eprintln!("compile {:?}", t.elapsed());
    let t = std::time::Instant::now();
    let _ = ptx_gemm_codegen::compile(&plan);
    eprintln!("compile {:?}", t.elapsed());
    let mut show = |l: ptx_gemm_codegen::Level, t: &str| if format!("{l:?}").to_lowercase() == want { println!("{t}") };
    let c = ptx_gemm_codegen::compile_observed(&plan, Some(&mut show));
    if let Err(e) = c { println!("{e}") }
}
