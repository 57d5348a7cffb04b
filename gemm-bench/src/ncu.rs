//! NVIDIA's hardware counters, read through Nsight Compute (`ncu`), next to what the interpreter counts.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ptx_gemm_check::figures::{self, Figures};
use serde_json::{Value, json};

/// The path where the toolkit installs it.
const INSTALLED: &str = "/usr/local/cuda/bin";

/// A figure that both report: its name, the metric, and the interpreter's count.
struct Metric {
    name: &'static str,
    metric: &'static str,
    /// The comparison needs this figure.
    core: bool,
    counted: fn(&Figures) -> u64,
}

const METRICS: [Metric; 11] = [
    Metric {
        name: "bank conflicts, loads",
        metric: "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        core: true,
        counted: |figures| figures.buffers.iter().map(|buffer| buffer.loads.conflicts).sum(),
    },
    Metric {
        name: "bank conflicts, stores",
        metric: "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        core: true,
        counted: |figures| figures.buffers.iter().map(|buffer| buffer.stores.conflicts).sum(),
    },
    Metric {
        name: "sectors, loads",
        metric: "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        core: true,
        counted: |figures| figures.operands.iter().map(|operand| operand.loads.sectors).sum(),
    },
    Metric {
        name: "sectors, stores",
        metric: "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        core: true,
        counted: |figures| figures.operands.iter().map(|operand| operand.stores.sectors).sum(),
    },
    Metric {
        name: "shared passes, loads",
        metric: "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        core: false,
        counted: |figures| figures.buffers.iter().map(|buffer| buffer.loads.passes).sum(),
    },
    Metric {
        name: "shared passes, stores",
        metric: "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        core: false,
        counted: |figures| figures.buffers.iter().map(|buffer| buffer.stores.passes).sum(),
    },
    Metric {
        name: "shared loads",
        metric: "smsp__inst_executed_op_shared_ld.sum",
        core: false,
        counted: |figures| figures.buffers.iter().map(|buffer| buffer.loads.instructions).sum(),
    },
    Metric {
        name: "shared stores",
        metric: "smsp__inst_executed_op_shared_st.sum",
        core: false,
        counted: |figures| figures.buffers.iter().map(|buffer| buffer.stores.instructions).sum(),
    },
    Metric {
        name: "global loads",
        metric: "smsp__inst_executed_op_global_ld.sum",
        core: false,
        counted: |figures| figures.operands.iter().map(|operand| operand.loads.instructions).sum(),
    },
    Metric {
        name: "global stores",
        metric: "smsp__inst_executed_op_global_st.sum",
        core: false,
        counted: |figures| figures.operands.iter().map(|operand| operand.stores.instructions).sum(),
    },
    Metric {
        name: "instructions, PTX and SASS",
        metric: "smsp__inst_executed.sum",
        core: true,
        counted: |figures| figures.instructions,
    },
];

/// Nsight Compute.
#[derive(Clone, Debug)]
pub struct Ncu {
    path: PathBuf,
}

/// The counters of one kernel, by metric.
pub type Counters = BTreeMap<String, f64>;

/// One case: the interpreter's counts and those of the hardware.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// The interpreter's counts.
    pub figures: Figures,
    /// The hardware's counts, or why there are none.
    pub counters: Result<Counters, String>,
}

impl Ncu {
    /// The one in the path, or else the toolkit's.
    pub fn find() -> Option<Ncu> {
        let name = format!("ncu{}", env::consts::EXE_SUFFIX);
        let folders = env::var_os("PATH").unwrap_or_default();
        let all = env::split_paths(&folders).chain([PathBuf::from(INSTALLED)]);
        all.map(|folder| folder.join(&name)).find(|path| path.is_file()).map(|path| Ncu { path })
    }

    /// Runs this very program with `args` under it and reads the counters of the first launch of `kernel`.
    ///
    /// # Errors
    ///
    /// Returns why it failed, with ncu's own message if there is one.
    pub fn count(&self, kernel: &str, args: &[String]) -> Result<Counters, String> {
        let all = self.run(kernel, args, |_| true);
        // A version that does not know one of the metrics reads none of them.
        all.or_else(|why| self.run(kernel, args, |metric| metric.core).map_err(|_| why))
    }

    fn run(&self, kernel: &str, args: &[String], wanted: impl Fn(&Metric) -> bool) -> Result<Counters, String> {
        let failed = |error: std::io::Error| error.to_string();
        let own = env::current_exe().map_err(failed)?;
        let folder = tempfile::tempdir().map_err(failed)?;
        let log = folder.path().join("counters.csv");
        let metrics: Vec<&str> = METRICS.iter().filter(|metric| wanted(metric)).map(|metric| metric.metric).collect();
        let mut command = Command::new(&self.path);
        // The clocks are left alone: the counts do not depend on them, and setting them requires additional rights.
        command.args(["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]);
        command.args(["--target-processes", "all", "--kernel-name", kernel, "--launch-count", "1"]);
        command.arg("--log-file").arg(&log).arg("--metrics").arg(metrics.join(","));
        let output = command.arg(own).args(args).stdin(Stdio::null()).output().map_err(failed)?;
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        parse(&text, kernel).map_err(|why| {
            let streams = [output.stdout, output.stderr].concat();
            let said = format!("{text}\n{}", String::from_utf8_lossy(&streams));
            let telling =
                |line: &&str| line.contains("==ERROR==") || line.contains("error") || line.contains("==WARNING==");
            said.lines().find(telling).map_or(why, |line| line.trim().to_string())
        })
    }
}

/// The counters of a kernel in the output of `ncu --csv --page raw`: ncu's own lines, then names, units and values.
fn parse(text: &str, kernel: &str) -> Result<Counters, String> {
    let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("\"ID\"")).collect();
    let table = table.join("\n");
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(table.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    let column = names.iter().position(|name| name == "Kernel Name").ok_or("ncu wrote no table of counters")?;
    let rows = reader.records().filter_map(Result::ok);
    // Units come first, in a row without a kernel.
    let of_kernel = |row: &csv::StringRecord| {
        let name = row.get(column).unwrap_or_default();
        name.split('(').next() == Some(kernel)
    };
    let row = rows.into_iter().find(of_kernel).ok_or_else(|| format!("ncu saw no launch of {kernel}"))?;
    let metrics = names.iter().zip(&row).filter(|(name, _)| METRICS.iter().any(|metric| metric.metric == *name));
    // Thousands may be separated, depending on the locale.
    let number = |text: &str| text.replace([',', ' ', '\''], "").parse::<f64>().ok();
    Ok(metrics.filter_map(|(name, value)| Some((name.to_string(), number(value)?))).collect())
}

/// The deviation of the interpreter's count from the hardware's, as a share of it; `None` where the hardware has no
/// count.
fn deviation(counted: u64, measured: Option<f64>) -> Option<f64> {
    let measured = measured?;
    Some(if measured == counted as f64 { 0.0 } else { (counted as f64 - measured) / measured.max(1.0) })
}

/// All cases as one table.
pub fn table(all: &[Compared]) -> String {
    let mut rows = Vec::new();
    for Compared { name, figures, counters } in all {
        let size = figures.size.map(|extent| extent.to_string()).join("x");
        if let Err(why) = counters {
            rows.push(vec![name.clone(), size, why.clone()]);
            continue;
        }
        for metric in &METRICS {
            let counted = (metric.counted)(figures);
            let measured = counters.as_ref().ok().and_then(|counters| counters.get(metric.metric)).copied();
            let deviation = deviation(counted, measured).map_or("-".into(), |share| format!("{:+.1} %", 100.0 * share));
            let measured = measured.map_or("-".into(), |value| format!("{value}"));
            rows.push(vec![name.clone(), size.clone(), metric.name.into(), counted.to_string(), measured, deviation]);
        }
    }
    figures::table(["case", "size", "figure", "interpreter", "hardware", "deviation"], rows)
}

/// The same for tools.
pub fn json(all: &[Compared]) -> Value {
    let case = |Compared { name, figures, counters }: &Compared| {
        let rows: Vec<Value> = METRICS
            .iter()
            .map(|metric| {
                let counted = (metric.counted)(figures);
                let measured = counters.as_ref().ok().and_then(|counters| counters.get(metric.metric)).copied();
                json!({
                    "figure": metric.name,
                    "metric": metric.metric,
                    "interpreter": counted,
                    "hardware": measured,
                    "deviation": deviation(counted, measured),
                })
            })
            .collect();
        json!({
            "case": name,
            "target": figures.target,
            "entry": figures.entry,
            "size": figures.size,
            "error": counters.as_ref().err(),
            "figures": rows,
        })
    };
    json!({ "cases": all.iter().map(case).collect::<Vec<_>>() })
}

/// Whether every case was counted by the hardware.
pub fn is_complete(all: &[Compared]) -> bool {
    all.iter().all(|compared| compared.counters.is_ok())
}

#[cfg(test)]
mod tests {
    use super::{deviation, parse};

    const WRITTEN: &str = "==PROF== Connected to process 4711 (/tmp/gemmc)
==PROF== Profiling \"gemm_v4\" - 0: 0%....50%....100% - 2 passes
==PROF== Disconnected from process 4711
\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum\",\"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum\",\"smsp__inst_executed.sum\",\"launch__waves\"
\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"sector\",\"inst\",\"\"
\"0\",\"4711\",\"gemmc\",\"127.0.0.1\",\"gemm_v4\",\"1\",\"7\",\"(256, 1, 1)\",\"(4, 1, 1)\",\"0\",\"9.0\",\"Command line profiler metrics\",\"512\",\"8,192\",\"41,984\",\"n/a\"
";

    #[test]
    fn counters_are_read_by_the_names_of_their_columns() {
        let found = parse(WRITTEN, "gemm_v4").unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(found["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"], 512.0);
        assert_eq!(found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"], 8192.0);
        assert_eq!(found["smsp__inst_executed.sum"], 41984.0);
        // The form that older versions print.
        let typed = WRITTEN.replace("\"gemm_v4\",\"1\"", "\"gemm_v4(unsigned long, float)\",\"1\"");
        assert_eq!(parse(&typed, "gemm_v4").unwrap(), found);
    }

    #[test]
    fn what_was_not_counted_is_said() {
        assert!(parse(WRITTEN, "gemm_v1").unwrap_err().contains("no launch of gemm_v1"));
        assert!(parse("==ERROR== ERR_NVGPUCTRPERM", "gemm_v4").unwrap_err().contains("no table"));
        assert!(parse("", "gemm_v4").is_err());
    }

    #[test]
    fn deviations() {
        assert_eq!(deviation(0, Some(0.0)), Some(0.0));
        assert_eq!(deviation(90, Some(100.0)), Some(-0.1));
        assert_eq!(deviation(3, Some(0.0)), Some(3.0));
        assert_eq!(deviation(3, None), None);
    }
}
