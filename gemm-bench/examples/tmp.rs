//! x
use ptx_gemm_bench::{report, suites::Size, sweep::{*, ranking::Ranking}};
fn main() {
    for name in std::env::args().skip(1) {
        let s = ptx_gemm_check::case(&name).unwrap().schedule().unwrap();
        let p = s.plan(target(&s, &Gpu::H200)).unwrap();
        println!("{name} unroll {} pre {} r/t {} {:?}\n", p.unroll, p.prefetch, p.registers_per_thread(p.resident_blocks(&p.variants[0])), estimate(&p, Size::cube(4096), &Gpu::H200));
    }
    for suite in ["ladder", "square", "odd","skinny","deep","small","batched","square_f64"] {
        let text = std::fs::read_to_string(format!("bench/results/h200/{suite}.json")).unwrap();
        let (rows, _) = report::read(&serde_json::from_str(&text).unwrap()).unwrap();
        let mut r = Ranking::of(&rows, &Gpu::H200);
        println!("{suite} {:?} {:?} {:?}", r.correlation(), r.within_products(), r.left_out);
        r.rows.sort_by(|a,b| (a.size.m*a.size.n*a.size.k, a.measured).partial_cmp(&(b.size.m*b.size.n*b.size.k, b.measured)).unwrap());
        for x in &r.rows { println!("{:22} {:22} {:10.4} {:10.4} {:.2}", x.schedule, x.size.to_string(), x.measured, x.estimated, x.estimated/x.measured); }
    }
}
