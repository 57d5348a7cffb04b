//! Schedules that the cases do not cover, for the tests that run every schedule: each type, each kind of epilogue,
//! batches, split sums, copies by the hardware. A schedule that the compiler does not support yet is included once it
//! does.

use ptx_gemm::{DType, Diagnostics, Schedule};
use ptx_gemm_dsl::atoms::{Multiply, Unit};

const TILE: &str = "tile(32, 32, 16); thread(2, 4); vector(4);";
/// Clauses in addition to `TILE`.
const KINDS: [(&str, &str); 30] = [
    ("alpha beta", "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);"),
    ("vectors", "epilogue(|acc, bias, scale| relu(acc * scale[m] + bias[n]));"),
    ("quotients", "epilogue(|acc, c, x| max(-acc / x[n], min(c, 0.5)) - abs(c));"),
    ("clamp", "double_buffer; epilogue(|acc, c, low| clamp(acc - c, low, 2 * c));"),
    ("c by columns", "layout(a = col, c = col); epilogue(|acc, c, beta| acc + beta * c);"),
    ("batch", "batch(strided);"),
    ("batch alpha beta", "batch(strided); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);"),
    ("split", "split_k(3); epilogue(|acc, c, beta, bias| acc + beta * c + bias[m]);"),
    ("split workspace", "split_k(4, reduce = workspace); epilogue(|acc, c, beta| acc + beta * c);"),
    ("split batch", "split_k(2); batch(strided);"),
    ("split cluster", "split_k(3, reduce = cluster); epilogue(|acc, c, beta, bias| acc + beta * c + bias[m]);"),
    (
        "split cluster columns",
        "layout(d = col); load(tma); stages(3); split_k(4, reduce = cluster); batch(strided); epilogue(|acc, c| acc + c);",
    ),
    ("persistent", "persistent; epilogue(|acc, c, beta| acc + beta * c);"),
    ("stream", "stream_k; epilogue(|acc, c, beta| acc + beta * c);"),
    ("stream batch", "persistent(5); stream_k; batch(strided);"),
    ("staged", "double_buffer; store(staged); epilogue(|acc, c, beta| acc + beta * c);"),
    ("staged columns", "layout(d = col); load(cp_async); stages(3); persistent(5); batch(strided); store(staged);"),
    ("staged sums", "split_k(3); store(staged); epilogue(|acc, bias| relu(acc + bias[n]));"),
    ("boxed", "load(tma); stages(3); stream_k; store(tma); epilogue(|acc, bias| relu(acc + bias[n]));"),
    (
        "boxed columns",
        "layout(d = col); load(tma); stages(2); persistent(5); batch(strided); specialize(producers = 1 warp); store(tma);",
    ),
    ("group", "batch(grouped); epilogue(|acc, c, alpha, bias| alpha * acc + c - bias[m]);"),
    ("group direct", "shared(none); unroll(4); persistent(3); raster(along = m); batch(grouped);"),
    (
        "group staged",
        "load(cp_async); stages(3); pace(free); specialize(producers = 1 warp); store(staged); batch(grouped);",
    ),
    ("group boxed", "load(tma); stages(3); store(tma); batch(grouped); epilogue(|acc, c, beta| acc + beta * c);"),
    ("cp_async", "load(cp_async); stages(3);"),
    ("mixed", "types(a = bf16, b = f16, c = f32, d = bf16); epilogue(|acc, c, beta| acc + beta * c);"),
    ("f16 cp_async", "types(f16); load(cp_async); stages(3); specialize(producers = 1 warp); store(staged);"),
    ("f16 split", "types(a = f16, b = f16, d = f32); split_k(3); epilogue(|acc, c, beta| acc + beta * c);"),
    ("bf16 boxed", "types(bf16); load(tma); stages(3); stream_k; store(tma); epilogue(|acc, c, beta| acc + beta * c);"),
    ("functions", "epilogue(|acc, c| exp(acc / 8) + tanh(c) * sigmoid(acc) - gelu(acc) + silu(c));"),
];

/// A schedule by its name here, or why there is none.
type Named = (String, Result<Schedule, Diagnostics>);

/// Those that the compiler supports, by name.
pub(crate) fn schedules() -> impl Iterator<Item = (String, Schedule)> {
    named().filter_map(|(name, schedule)| Some((name, schedule.ok()?)))
}

/// Names of those that it does not support yet.
pub(crate) fn unknown() -> Vec<String> {
    named().filter(|(_, schedule)| schedule.is_err()).map(|(name, _)| name).collect()
}

fn named() -> impl Iterator<Item = Named> {
    let more = KINDS.iter().map(|(name, clauses)| (name.to_string(), format!("{TILE}{clauses}")));
    let typed = DType::ALL.into_iter().flat_map(|dtype| {
        // Some types are those of tensor cores alone.
        let atom = Multiply::of(Unit::Warp, dtype).next().filter(|_| dtype.is_rounded()).map(Multiply::atom);
        let multiply = atom.map_or("thread(2, 4); vector(2)".to_string(), |atom| format!("warp(16, 16); atom({atom})"));
        let clauses = format!("tile(32, 32, 16); {multiply}; types({dtype}); double_buffer;");
        let scaled = format!("{clauses}epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);");
        [(format!("{dtype}"), clauses), (format!("{dtype} alpha beta"), scaled)]
    });
    more.chain(typed).map(|(name, clauses)| {
        let schedule = clauses.parse::<Schedule>().and_then(|schedule| {
            schedule.plan(None)?;
            Ok(schedule)
        });
        (name, schedule)
    })
}

#[cfg(test)]
mod tests {
    use super::{KINDS, named, schedules};

    /// A name that the compiler does not know would silently leave out a schedule.
    #[test]
    fn what_is_left_out_is_only_what_is_not_implemented() {
        for (name, schedule) in named() {
            if let Err(errors) = schedule {
                let words = errors.to_string();
                assert!(words.contains("not implemented yet"), "{name}: {words}");
            }
        }
        assert!(schedules().count() >= KINDS.len());
    }
}
