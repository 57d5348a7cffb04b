//! "Did you mean": the nearest known word to an unknown one.

/// Other names for the same things, with underscores: in CUDA, CUTLASS, BLAS, Triton, numpy.
const ELSEWHERE: &[(&str, &str)] = &[
    ("threads", "thread"),
    ("thread_tile", "thread"),
    ("warp_tile", "warp"),
    ("warps", "warp"),
    ("num_warps", "warp"),
    ("warp_shape", "warp"),
    ("block", "tile"),
    ("block_m", "tile"),
    ("block_n", "tile"),
    ("block_k", "tile"),
    ("block_size_m", "tile"),
    ("block_size_n", "tile"),
    ("block_size_k", "tile"),
    ("tile_shape", "tile"),
    ("threadblock_shape", "tile"),
    ("block_tile", "tile"),
    ("cta_tile", "tile"),
    ("threadblock", "tile"),
    ("pipeline", "stages"),
    ("num_stages", "stages"),
    ("mma", "atom"),
    ("wgmma", "atom"),
    ("instruction", "atom"),
    ("instruction_shape", "atom"),
    ("cluster_shape", "cluster"),
    ("num_ctas", "cluster"),
    ("alignment", "vector"),
    ("activation", "epilogue"),
    ("group_m", "raster"),
    ("group_size_m", "raster"),
    ("min_blocks", "blocks_per_sm"),
    ("launch_bounds", "blocks_per_sm"),
    ("warp_specialize", "specialize"),
    ("warp_specialized", "specialize"),
    ("smem", "shared"),
    ("swizzle", "shared"),
    ("pad", "shared"),
    ("dtype", "types"),
    ("vectorize", "vector"),
    ("arch", "target"),
    ("grid", "raster"),
    ("maxrregcount", "spills"),
    ("splitk", "split_k"),
    ("streamk", "stream_k"),
    ("double", "f64"),
    ("float", "f32"),
    ("half", "f16"),
    ("float64", "f64"),
    ("float32", "f32"),
    ("float16", "f16"),
    ("fp64", "f64"),
    ("fp32", "f32"),
    ("fp16", "f16"),
    ("bfloat16", "bf16"),
    ("int8", "i8"),
    ("s8", "i8"),
    ("uint8", "u8"),
    ("int32", "i32"),
    ("s32", "i32"),
    ("fp8", "e4m3"),
    ("row_major", "row"),
    ("column_major", "col"),
    ("column", "col"),
    ("col_major", "col"),
    ("regs", "registers"),
    ("async", "cp_async"),
    ("turing", "sm_75"),
    ("t4", "sm_75"),
    ("ampere", "sm_80"),
    ("a100", "sm_80"),
    ("a10", "sm_86"),
    ("ada", "sm_89"),
    ("l4", "sm_89"),
    ("l40", "sm_89"),
    ("hopper", "sm_90a"),
    ("h100", "sm_90a"),
    ("h200", "sm_90a"),
    ("blackwell", "sm_100"),
    ("b200", "sm_100"),
    ("k", "KiB"),
    ("kb", "KiB"),
    ("mb", "MiB"),
    ("bytes", "B"),
    ("fabs", "abs"),
    ("fmin", "min"),
    ("fmax", "max"),
    ("swish", "silu"),
];

/// The word of `known` that `word` was most likely meant to be, if one is close enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let lower = lowercase(word);
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == lower)
        && let Some(found) = known.clone().into_iter().find(|candidate| candidate == ours)
    {
        return Some(found);
    }
    // `90a`, `sm90a` and `compute_90a` are all the same target.
    let target = lower.trim_start_matches("compute").trim_start_matches("sm").trim_start_matches('_');
    if let Some(found) = known.clone().into_iter().find(|candidate| candidate.strip_prefix("sm_") == Some(target)) {
        return Some(found);
    }
    // One typing error for short words, a third of the letters for long ones; swapped neighbours count as one.
    let length = lower.chars().count();
    let allowed = (length / 3).max(1);
    known
        .into_iter()
        // The distance is at least the difference in length, and takes far longer.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (strsim::damerau_levenshtein(&lower, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= allowed && distance < candidate.chars().count())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// In lower case, and `WarpShape` as `warp_shape`.
fn lowercase(word: &str) -> String {
    let mut lower = String::new();
    let mut before = None;
    for c in word.chars() {
        if c.is_uppercase() && before.is_some_and(char::is_lowercase) {
            lower.push('_');
        }
        lower.extend(c.to_lowercase());
        before = Some(c);
    }
    lower
}

/// `1 thread`, `2 threads`.
pub fn count(n: impl Into<u64>, what: &str) -> String {
    let n: u64 = n.into();
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `a`, `b` and `c`, for messages.
pub fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).into(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}
