//! `gemmc large scale`: what a product across processes takes on more and more GPUs, by a roofline.

use ptx_gemm::distributed::{Network, plan, plan_for};
use ptx_gemm::large::plan::Rates;
use serde_json::{Value, json};

use crate::cli;
use crate::reply::{Failure, Reply};

pub(super) fn run(args: &cli::LargeScale) -> Result<Reply, Failure> {
    let schedule = super::schedule(&args.compile)?;
    let tflops = super::tflops(args.tflops, &schedule)?;
    let sizes @ [m, n, k] = [args.m, args.n, args.k];
    let rates = Rates::h200(tflops * 1e12);
    let network = Network {
        per_host: args.per_host as usize,
        inside: args.inside * 1e9,
        between: args.between * 1e9,
        latency: args.latency * 1e-6,
    };
    let types = schedule.problem()?.types;
    let mut text = format!("{m} x {n} x {k} on 1 to {} processes with one GPU each\n", args.most);
    text.push_str(&format!("types      a {}, b {}, d {}, sums {}\n", types.a, types.b, types.d, types.epilogue()));
    text.push_str(&assumptions(args, tflops, &rates));
    text.push_str(&format!(
        "\n{:>9} {:>9} {:>15} {:>10} {:>11} {:>11} {:>11} {:>10} {:>10}\n",
        "processes", "grid", "part of D", "GiB each", "products s", "exchange s", "time s", "TFLOP/s", "efficiency"
    ));
    let mut rows: Vec<Value> = Vec::new();
    let counts =
        std::iter::successors(Some(1usize), |count| Some(count * 2)).take_while(|count| *count < args.most as usize);
    let mut last = None;
    for count in counts.chain([args.most as usize]) {
        let plan = plan_for(&schedule, plan::grid(count, m, n), args.depth, sizes)?;
        let estimate = plan.estimate(&rates, &network);
        let (seconds, [grid_m, grid_n], [rows_of_d, cols_of_d]) = (estimate.total(), plan.request.grid, plan.block);
        let fits = plan.device_bytes() <= super::BUDGET;
        let tflops = if seconds > 0.0 { 2.0 * m as f64 * n as f64 * k as f64 / seconds / 1e12 } else { 0.0 };
        text.push_str(&format!(
            "{count:>9} {:>9} {:>15} {:>10.2} {:>11.4} {:>11.4} {:>11.4} {tflops:>10.0} {:>10.2}{}\n",
            format!("{grid_m} x {grid_n}"),
            format!("{rows_of_d} x {cols_of_d}"),
            plan.device_bytes() as f64 / (1u64 << 30) as f64,
            estimate.products,
            estimate.exchange,
            seconds,
            estimate.efficiency,
            if fits { "" } else { "  does not fit" },
        ));
        rows.push(json!({
            "count": count,
            "grid": plan.request.grid,
            "block": plan.block,
            "depth": plan.depth,
            "panels": plan.panels,
            "device_bytes": plan.device_bytes(),
            "fits": fits,
            "products": estimate.products,
            "exchange": estimate.exchange,
            "fill": estimate.fill,
            "seconds": seconds,
            "tflops": tflops,
            "efficiency": estimate.efficiency,
        }));
        last = Some(plan);
    }
    if let Some(plan) = last.filter(|_| args.operations) {
        text.push('\n');
        plan.operations(plan.size() - 1).iter().for_each(|operation| text.push_str(&format!("{operation}\n")));
    }
    Ok(Reply::fine(text, json!({ "m": m, "n": n, "k": k, "processes": rows })))
}

fn assumptions(args: &cli::LargeScale, tflops: f64, rates: &Rates) -> String {
    let cli::LargeScale { per_host, inside, between, latency, .. } = args;
    format!(
        "assumed    {tflops} TFLOP/s and {:.0} GB/s of memory for each GPU, for parts of every size, and 127 GiB that can be used;\n\
         \x20          hosts of {per_host}, {inside} GB/s between two GPUs of a host, {between} GB/s from each GPU to other hosts,\n\
         \x20          {latency} us from one process of a broadcast to the next; broadcasts are pipelined, follow each other, and\n\
         \x20          hide under the products except for the first\n",
        rates.memory / 1e9
    )
}
