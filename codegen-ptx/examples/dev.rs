//! Scratch: prints a level of a schedule.
use ptx_gemm_dsl::schedule::Schedule;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let schedule: Schedule = args[2].parse().map_err(|e| panic!("{e}")).unwrap();
    let plan = schedule.plan(None).map_err(|e| panic!("{e}")).unwrap();
    let want = args[1].clone();
    if want == "bench" {
        let mut best = f64::MAX;
        for _ in 0..args.get(3).map_or(200, |n| n.parse().unwrap()) {
            let t = std::time::Instant::now();
            let schedule: Schedule = args[2].parse().map_err(|e| panic!("{e}")).unwrap();
            let plan = schedule.plan(None).map_err(|e| panic!("{e}")).unwrap();
            let p = t.elapsed().as_secs_f64();
            let c = ptx_gemm_codegen::compile(&plan).unwrap();
            let all = t.elapsed().as_secs_f64();
            std::hint::black_box(&c);
            if all < best {
                best = all;
                println!("plan {:.0} us all {:.0} us", p * 1e6, all * 1e6);
            }
        }
        return;
    }
    let mut show = |l: ptx_gemm_codegen::Level, t: &str| {
        if format!("{l:?}").to_lowercase() == want {
            println!("{t}")
        }
    };
    let c = ptx_gemm_codegen::compile_observed(&plan, Some(&mut show));
    if let Err(e) = c {
        println!("{e}")
    }
}
