//! Wrong schedules and their diagnostics.

use std::collections::BTreeSet;
use std::fmt::Write;

use ptx_gemm_dsl::diagnostic::Edit;
use ptx_gemm_dsl::{Diagnostics, Schedule, Target};

/// Schedules with at least one error or note each.
pub const WRONG: &[&str] = &[
    // Words that do not exist.
    "tile(128, 128, 8); thread(8, 8); stage(2)",
    "tiel(128, 128, 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); frobnicate(3)",
    "tile(128, 128, depth = 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); raster(grp = 8)",
    "tile(128, 128, 8); thread(8, 8); types(f33)",
    "tile(128, 128, 8); thread(8, 8); types(acc = double)",
    "tile(128, 128, 8); thread(8, 8); target(sm_91)",
    "tile(128, 128, 8); thread(8, 8); target(volta)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| rleu(acc))",
    "tile(128, 128, 8); thread(8, 8); order(snke)",
    "tile(128, 128, 8); thread(8, 8); atom(fmaa)",
    "tile(128, 128, 8); thread(8, 8); shared(a = kn)",
    "tile(128, 128, 8); thread(8, 8); shared(off)",
    "tile(128, 128, 8); thread(8, 8); shared(a = km + padd(4))",
    "tile(128, 128, 8); thread(8, 8); multicast(a, q)",
    "tile(128, 128, 8); thread(8, 8); expect { spils = 0 }",
    "tile(128, 128, 8); thread(8, 8); raster(along = z)",
    // Grammar.
    "tile(128, 128, 8) thread(8, 8); vector(4)",
    "tile(128, 128, 8); thread(8, 8",
    "tile(128, 128, 8); thread(8, 8]",
    "tile(128, 128, 8); thread(8, 8));",
    "tile(128, 128, 8); thread(8, 8); /* never closed",
    "tile(128, 128, 8); thread(8, 8); 42",
    "tile(128, 128, 8); thread(8, 8); = 3; vector(4)",
    "tile{128, 128, 8}; thread(8, 8)",
    "tile(128, , 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, n =)",
    "tile(128); thread(8, 8)",
    "tile; thread(8, 8)",
    "tile(128, 128, 8, 4); thread(8, 8)",
    "tile(128, 128, 8, m = 128); thread(8, 8)",
    "tile(m = 128, m = 64, n = 128, k = 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); double_buffer(2)",
    "tile(128, 128, 8); thread(8, 8); layout(row, col)",
    "tile(128, 128, 8); thread(8, 8); raster(8, n)",
    "tile(128, 128, 8); thread(8, 8); shared(a = km + pad(4) + swizzle(128))",
    "tile(128, 128, 8); thread(8, 8); atom(mma)",
    "tile(128, 128, 8); thread(8, 8); ..base; vector(4)",
    "tile(128, 128, 8); thread(8, 8); ..; vector(4)",
    "tile({BM}, 128, 8); thread(8, 8)",
    // Open values, which nothing fills in here, and hints.
    "tile(?, 128, 8); thread(8, 8); order(?)",
    "schedule(?); tile(128, 128, 8)",
    "schedule(128, 128, 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); shape(0, 1, 4294967295)",
    "tile(128, 128, 8); thread(8, 8); gpu(9); shape(64)",
    // Alternatives, which belong to a sweep.
    "tile({64, 128}, {32..=128 step *2}, 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); shared(a = {km, mk + pad({4, 8})}); order({row, snake})",
    "thread(8, 8); {tile(64, 64, 8) | tile(128, 128, 8)}; vector(4); {double_buffer | }",
    "tile(128, 128, 8); thread(8, 8); expect { bank_conflicts <= {0, 8} }",
    "tile(128, 128, 8); thread(8, 8); order(\"row\")",
    "# the tile\ntile(128, 128, 8); # its threads\nthread(8, 8)",
    "(< tile(128, 128, 8); thread(8, 9) >)",
    "gemm!{ tile(128, 128, 8); thread(8, 8) }",
    "(tile(128, 128, 8)); thread(8, 8)",
    "= tile(128, 128, 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); unroll = 4; vector = (4)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, bias[n], s| s * acc + bias)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, bias[m]| acc + bias[n])",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc: f32| acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, s| s (acc + relu))",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| acc.max(0))",
    "tile(128, 128, 8); num_warps(4)",
    "TileShape(128, 128, 8); thread(8, 8); wgmma(64, 128, 16)",
    // Numbers.
    "tile(128, 128, 8); thread(8, .5); expect { occupancy >= .5 }",
    "tile(128, 128, 8); thread(8, 8); expect { threads = 2 * 100; max_error <= 1e-3 + 1e-4; shared <= 2 * 4 KiB }",
    "tile(128, 128, 8); thread(8, 8); expect { spills <= 4 KB; loads_per_fma <= 4 B; code_bytes <= 4 GB }",
    "tile(128, 128, 8); thread(8, 8); expect { shared <= 48KB; spills <= 0GB; code_bytes <= 64k }",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| return acc); target(h100)",
    "tile(128, 128, 8); thread(8, 8); expect { occupancy >= 50 }",
    "tile(128, 128, 8); thread(8, 8); expect { occupancy >= 20 }",
    "tile(128, 128, 8); thread(8, 8); expect { shared <= 48 }",
    "tile(2*64, 128, 8); thread(8, 8)",
    "tile(256 / 2, 2 * (60 + 4), 8 - 9); thread(8, 8)",
    "tile(BM, 2 * BN, 8); thread(8, 8)",
    "tile(128, 128, 0b1000); thread(8, 0o10)",
    "tile(128, 1.28e2, 8); thread(8, 8)",
    "tile(128, 128, 8.5); thread(8, 8)",
    "tile(128, 128, -8); thread(8, 8)",
    "tile(128, 128, 99999999999); thread(8, 8)",
    "tile(128, 128, 8u32); thread(8, 8)",
    "tile(128, 128, 0x8); thread(8, 8)",
    "tile(128, 128, 1e3); thread(8, 8)",
    "tile(128, 128, k); thread(8, 8)",
    "tile(0, 128, 8); thread(8, 8)",
    "tile(128, 128, 0); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 0)",
    "tile(1_000_000, 128, 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); stages(0)",
    "tile(128, 128, 8); thread(8, 8); vector(0)",
    "tile(128, 128, 8); thread(8, 8); raster(group = 0)",
    "tile(128, 128, 8); thread(8, 8); blocks_per_sm(0)",
    "tile(128, 128, 8); thread(8, 8); shared(a = km + pad(5000))",
    "tile(128, 128, 8); thread(8, 8); shared(b = kn + swizzle(48))",
    "tile(128, 128, 8); thread(8, 8); cluster(8, 4)",
    "types(bf16); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); specialize(producers = 1); cluster(4, 4); multicast(a, b)",
    // Missing, twice, contradicting.
    "",
    "thread(8, 8)",
    "tile(128, 128, 8)",
    "tile(128, 128); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); thread(8, 8)",
    "tile(128, 128, 8); tile(64, 64, 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); double_buffer; stages(4)",
    "tile(128, 128, 8); thread(8, 8); stages(4)",
    "tile(32, 32); thread(1, 1); shared(none); double_buffer",
    "tile(32, 32); thread(1, 1); shared(none); load(cp_async)",
    "tile(32, 32); thread(1, 1); shared(none); operands(shared)",
    "tile(32, 32); thread(1, 1); shared(none); store(staged)",
    "tile(32, 32, 8); thread(1, 1); split_k(4, reduce = workspace); store(staged)",
    "tile(32, 32, 8); thread(1, 1); split_k(1, reduce = cluster)",
    "tile(32, 32, 8); thread(1, 1); split_k(9, reduce = cluster); persistent; store(staged)",
    "tile(32, 32, 8); thread(1, 1); split_k(4, reduce = cluster); target(sm_80)",
    "tile(32, 32); thread(1, 1); shared(none); split_k(4, reduce = cluster)",
    "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); split_k(2, reduce = cluster); cluster(2, 1)",
    "types(f16, acc = f16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); split_k(2, reduce = cluster)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); specialize(producers = 1); registers(producer = 24, consumer = 240); split_k(2, reduce = cluster)",
    "tile(128, 128, 8); thread(8, 8); split_k(4, reduce = cluser)",
    "tile(30, 30, 8); thread(1, 1); store(tma)",
    "tile(300, 20, 8); thread(10, 2); store(tma)",
    "types(f64); layout(d = col); tile(33, 32, 8); thread(1, 1); store(tma)",
    "tile(128, 128, 8); thread(8, 8); store(tma); target(sm_80)",
    "tile(192, 128, 8); thread(8, 8); store(staged); target(sm_75)",
    "tile(64, 64, 8); thread(8, 8); fragment(8, 1); store(staged); expect { bank_conflicts = 0 }",
    "tile(32, 32, 8); thread(1, 1); shared(none)",
    "tile(128, 128, 8); thread(8, 8); operands(shared); prefetch(2)",
    "tile(128, 128, 8); thread(8, 8); operands(shared); prefetch(0, volatile)",
    "tile(128, 128, 8); thread(8, 8); shared(none); prefetch(2, volatile)",
    "tile(128, 128, 8); thread(8, 8); pack",
    "tile(128, 128, 8); thread(8, 8); pack(c)",
    "tile(128, 128, 8); thread(8, 8); pack(a, a)",
    "tile(128, 128, 8); thread(8, 8); pack(a, b)",
    "tile(128, 128, 8); thread(8, 8); shared(a = km, b = nk); load(tma); pack(b)",
    "tile(128, 128, 8); thread(8, 8); prefetch(2, volatle)",
    "tile(128, 128, 8); thread(8, 8); split_k(4); stream_k",
    "tile(128, 128, 8); thread(8, 8); multicast(a, b)",
    "tile(128, 128, 8); thread(8, 8); registers(producer = 40, consumer = 232)",
    "tile(128, 128, 8); thread(8, 8); promote(every = 64)",
    "tile(128, 128, 8); thread(8, 8); emulate(bf16x6)",
    // Geometry.
    "tile(100, 128, 8); thread(8, 8)",
    "tile(100, 100, 8); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); fragment(3, 4)",
    "tile(128, 128, 8); warp(48, 64); thread(8, 8)",
    "tile(128, 128, 8); warp(32, 64); thread(7, 8)",
    "tile(128, 128, 8); warp(64, 64); thread(8, 8)",
    "tile(128, 128, 8); warp(32, 64, 3); thread(8, 8)",
    "tile(128, 128, 8); thread(8, 8); lanes(along = z)",
    "tile(128, 128, 8); warp(64, 32); thread(8, 8); lanes(along = z)",
    "tile(256, 128, 8); thread(4, 4)",
    "tile(128, 128, 8); thread(1, 1)",
    // Steps and code sizes.
    "tile(128, 128, 8); thread(8, 8); unroll(3)",
    "tile(128, 128, 8); thread(8, 8); unroll(16)",
    "tile(128, 128, 8); thread(8, 8); prefetch(8)",
    "tile(1024, 1024); thread(64, 64); shared(none); spills(allow); unroll(16)",
    "tile(256, 256, 16); thread(64, 64); spills(allow)",
    "tile(128, 128, 128); thread(128, 128); spills(allow); unroll(1)",
    // Widths.
    "tile(128, 128, 8); thread(8, 8); vector(d = 16)",
    "tile(128, 128, 8); thread(8, 8); vector(3)",
    "tile(128, 128, 8); thread(8, 8); vector(1000)",
    "tile(128, 128, 8); thread(8, 8); vector(4000)",
    "tile(128, 128, 8); thread(8, 8); vector(a = 3)",
    "tile(128, 128, 8); thread(8, 8); vector(a = 24)",
    "tile(128, 128, 8); thread(8, 8); vector(6, a = 3, d = 5)",
    "types(f16); tile(128, 128, 8); thread(8, 8); load(cp_async); vector(3)",
    "tile(128, 128, 6); thread(8, 8); vector(a = 4)",
    "tile(128, 128, 8); thread(8, 8); fragment(4, 2); vector(d = 4)",
    "tile(128, 128, 8); thread(8, 8); vector(4, c = 4)",
    "tile(128, 128, 8); thread(8, 8); vector(c = 4)",
    "tile(64, 64); thread(4, 4); shared(none); unroll(2); vector(a = 4)",
    "tile(64, 64); thread(4, 2); shared(none); vector(b = 4)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); vector(a = 4); shared(a = km)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, c| acc + c); layout(c = col, d = col); fragment(1, 8); vector(c = 4)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, c| acc + c); layout(c = col); vector(4, c = 4)",
    "types(f16); tile(128, 128, 8); thread(8, 8); load(cp_async)",
    "types(f16); tile(128, 128, 8); thread(8, 8); load(cp_async); vector(8); shared(a = km)",
    // Resources.
    "tile(128, 128, 128); thread(8, 8); double_buffer",
    "tile(128, 128, 64); thread(8, 8); double_buffer; target(sm_75)",
    "tile(128, 256, 64); thread(8, 16); load(cp_async); stages(5); target(sm_90a)",
    "tile(256, 256, 512); thread(16, 16); spills(allow); unroll(8)",
    "tile(128, 128, 8); thread(16, 16)",
    "tile(256, 256, 8); thread(8, 8)",
    "tile(64, 64, 8); thread(16, 8); types(f64)",
    "tile(128, 128, 8); thread(8, 8); blocks_per_sm(2); target(sm_75); double_buffer; shared(a = mk + pad(1024))",
    "tile(128, 128, 8); thread(4, 4); blocks_per_sm(2); target(sm_75)",
    "tile(16, 16, 8); thread(1, 1); blocks_per_sm(32); target(sm_86)",
    "tile(128, 128, 8); thread(8, 8); blocks_per_sm(4)",
    "tile(14, 6, 8); thread(2, 6); load(cp_async); stages(3); layout(b = col); blocks_per_sm(32)",
    "tile(128, 128, 8); thread(8, 8); expect { shared <= 4 KiB; threads = 128 }",
    "tile(128, 128, 8); thread(8, 8); expect { shared <= 48KiB }",
    "tile(128, 128, 8); thread(8, 8); expect { spills }",
    "tile(128, 128, 8); thread(8, 8); expect { threads <= 4 KiB }",
    "tile(128, 128, 8); thread(8, 8); expect { shared <= 4 bananas }",
    "tile(128, 128, 8); thread(8, 8); expect { shared <= 4 KiB; shared <= 5 KiB }",
    "tile(128, 128, 8); thread(8, 8); expect { }",
    "tile(128, 128, 8); thread(8, 8); vector(4); double_buffer; expect { bank_conflicts = 0 }",
    "tile(128, 128, 8); thread(8, 8); fragment(4, 4); vector(4); shared(a = km); expect { bank_conflicts = 0; spills = 0 }",
    "tile(32, 32); thread(1, 1); lanes(along = m); shared(none); expect { sectors_per_load <= 4 }",
    "tile(128, 128, 8); thread(8, 8); expect { loads_per_fma <= 0.1 }",
    "tile(128, 128, 8); thread(8, 8); target(sm_90); expect { occupancy >= 3 }",
    "tile(128, 128, 64); thread(8, 8); expect { occupancy >= 50 % }",
    "tile(128, 128, 8); thread(8, 8); expect { occupancy >= 0.5 }",
    "tile(128, 128, 8); thread(8, 8); expect { occupancy >= 150 % }",
    "tile(128, 128, 8); thread(8, 8); expect { registers <= 100.5 }",
    "tile(128, 128, 8); thread(8, 8); expect { loads_per_fma <= 0.1234567890123456789 }",
    "tile(128, 128, 8); thread(8, 8); expect { max_error <= 1e-19 }",
    "tile(128, 128, 8); thread(8, 8); expect { max_error <= 1e-6 B }",
    "tile(128, 128, 8); thread(8, 8); expect { threads <= 1e-6 }",
    "tile(128, 128, 8); thread(8, 8); expect { loads_per_fma <= -1 }",
    "tile(128, 128, 8); thread(8, 8); expect { occupancy >= 2 KiB }",
    "tile(128, 128, 8); thread(8, 8); expect { code_bytes <= 32KiB }",
    "tile(128, 128, 8); thread(8, 8); expect { bank_conflict = 0 }",
    "tile(128, 128, 8); thread(8, 8); expect(spills = 0)",
    "tile(100, 100, 8); thread(100, 100)",
    "tile(100, 100, 1); thread(100, 100)",
    "tile(128, 128, 8); thread(8, 8); load(tma); target(sm_75)",
    // Types and epilogues.
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| foo(acc) + gleu(x) * y[n] + x)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| sin(acc) + mim(acc, 0.0) + foo(acc, 1.0, 2.0, 3.0))",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, relu, relu, é| acc * z + 1e999)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| if acc > 0 { acc } else { 0 })",
    "tile(128, 128, 8); thread(8, 8); store(stagd); load(tmaa); types(f61)",
    "tile(128, 128, 8); thread(8, 8); emulate(bf16)",
    "tile(128, 128, 8); thread(8, 8); types(a = i8, b = f32)",
    "tile(128, 128, 8); thread(8, 8); types(f64, acc = f32)",
    "tile(128, 128, 8); thread(8, 8); types(f32, acc = bf16)",
    "tile(128, 128, 8); thread(8, 8); types(i8, acc = f32)",
    "tile(128, 128, 8); thread(8, 8); types(f16, acc = f16)",
    "tile(128, 128, 8); thread(8, 8); types(i32, d = f32)",
    "tile(128, 128, 8); thread(8, 8); types(tf32)",
    "tile(128, 128, 8); thread(8, 8); types(i32); epilogue(|acc| 0.5 * acc)",
    "tile(128, 128, 8); thread(8, 8); types(i32); epilogue(|acc| tanh(acc))",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| 1e300 * acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| alpha * acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, alhpa| alpha * acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(alpha * acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc|)",
    "tile(128, 128, 8); thread(8, 8); epilogue()",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, relu| relu * acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, x, x| x * acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, 3| acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, x| acc * x[n] + x)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, x| acc * x[k])",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| acc[m])",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| max(acc))",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| acc +)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| acc acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| (acc * ) + 1)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| acc % 2)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| 1e999 * acc)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc, c, alpha| 1)",
    "tile(4294967296, 64, 8); thread(8, 8); vector(99999999999); shared(a = km + swizzle(5000000000))",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 5000000000 warps, consumers = 5000000000)",
    "tile(128, 128, 8); thread(8, 8); epilogue(|acc| exp(exp(exp(exp(exp(exp(exp(exp(exp(exp(exp(exp(exp(exp(exp(exp(acc)))))))))))))))))",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(64, 64); epilogue(|acc| silu(silu(silu(silu(silu(silu(acc)))))))",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); epilogue(|acc| silu(silu(silu(silu(silu(silu(acc)))))))",
    // Tensor cores and roles.
    "tile(128, 128, 8); thread(8, 8); atom(mma(16, 8, 8))",
    "tile(128, 128, 8); atom(mma(16, 8, 8))",
    "tile(128, 128, 8); thread(8, 8); types(bf16); atom(mma(16, 8, 16))",
    "target(sm_89); types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64)",
    "atom(wgmma(64, 256, 16)); tile(128, 256, 64)",
    "types(bf16); atom(wgmma(128, 256, 16)); tile(128, 256, 64)",
    "types(a = bf16, b = f16); atom(mma(16, 8, 16)); tile(128, 256, 64)",
    "types(bf16); atom(mma(16, 16, 16)); tile(128, 256, 64)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 256, 64); thread(8, 8); fragment(4, 4); lanes(along = m)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 256, 64); emulate(bf16x6)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); specialize(producers = 1 warp, consumers = 1, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(64, 256, 64); load(tma); persistent; specialize(producers = 1, consumers = 6 warps, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(64, 256, 64); load(tma); specialize(producers = 1, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(64, 256, 64); load(tma); stream_k; specialize(producers = 1, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(64, 256, 64); load(tma); persistent; split_k(4); specialize(producers = 1, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); persistent; specialize(producers = 1, pingpong); registers(producer = 24, consumer = 240)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(64, 256, 64); load(tma); persistent; stages(5); store(tma); specialize(producers = 1, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); specialize(producers = 1 warp, consumers = 2); \
     registers(producer = 40, consumer = 232)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); specialize(producers = 1, consumers = 2); \
     registers(producer = 40, consumer = 240)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); specialize(producers = 1, consumers = 2); \
     registers(producer = 41, consumer = 232)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); target(sm_80); cluster(2, 1)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); specialize(producers = 1 warp)",
    "types(bf16); atom(wgmma(64, 96, 16)); tile(96, 128, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 128, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(1024, 128, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 24); load(tma)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(cp_async); stages(3)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); shared(none)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); shared(a = mk)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); shared(a = mk + swizzle(64), b = kn + pad(8))",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 16); load(tma); shared(a = mk + swizzle(128))",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); thread(8, 8); fragment(1, 2); lanes(along = n)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); operands(shared); unroll(16); order(snake); prefetch(1)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); warp(64, 64)",
    "types(bf16); layout(b = col); atom(wgmma(64, 104, 16)); tile(192, 208, 64); load(tma); warp(96, 208)",
    "types(bf16); layout(b = col); atom(wgmma(64, 64, 16)); tile(192, 192, 64); load(tma); warp(128, 64)",
    "types(bf16); layout(b = col); atom(wgmma(64, 64, 16)); tile(192, 128, 64); load(tma); warp(64, 64, 48)",
    "types(bf16); layout(b = col); atom(wgmma(64, 32, 16)); tile(384, 64, 64); load(tma); warp(64, 32)",
    "types(bf16); layout(b = col); atom(wgmma(64, 64, 16)); tile(128, 128, 64); load(tma); warp(128, 64); specialize(producers = 1, consumers = 4)",
    "types(bf16); layout(b = col); atom(wgmma(64, 128, 16)); tile(256, 256, 64); load(tma); warp(256, 128); specialize(producers = 1)",
    "types(bf16); layout(b = col); atom(wgmma(64, 64, 16)); tile(128, 128, 64); load(tma); warp(128, 64); tail(even)",
    "types(bf16); layout(b = col); atom(wgmma(64, 64, 16)); tile(128, 64, 64); load(tma); warp(64, 64); persistent; specialize(producers = 1, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(64, 512, 32); load(tma)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(192, 256, 32); load(tma); specialize(producers = 1)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(192, 256, 32); load(tma); specialize(producers = 1); registers(producer = 32, consumer = 160)",
    "types(bf16); atom(wgmma(64, 16, 16)); tile(64, 16, 16); load(tma); stages(1); blocks_per_sm(16)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(512, 128, 64); load(tma); stages(1); spills(allow)",
    "types(bf16); atom(wgmma(64, 8, 16)); tile(64, 8, 16); load(tma)",
    "types(bf16); atom(wgmma(64, 24, 16)); tile(64, 48, 16); load(tma)",
    "types(bf16); atom(wgmma(64, 16, 16)); tile(64, 64, 64); load(tma); shared(b = kn + swizzle(128))",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(64, 512, 32); load(tma)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(256, 256, 64); load(tma); specialize(producers = 1)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); specialize(producers = 1, consumers = 1)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); stages(4); specialize(producers = 1); store(tma)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); stages(5)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); specialize(producers = 1, pingpong)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); promote(every = 128)",
    // The tile of D in slots of the ring.
    "tile(32, 32, 8); thread(1, 1); store(direct, memory = ring)",
    "tile(32, 32, 8); thread(1, 1); store(staged, memory = own)",
    "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma); stages(3); persistent; cluster(2, 1); multicast(b); store(tma, memory = ring)",
    "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma); stages(3); persistent; specialize(producers = 1, pingpong); store(tma, memory = ring)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); stages(3); specialize(producers = 1); store(tma, memory = slots)",
    "types(bf16, d = f32); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); stages(2); specialize(producers = 1); store(tma, memory = ring)",
    "types(bf16); atom(wgmma(64, 256, 16)); tile(128, 256, 16); load(tma); stages(3); specialize(producers = 1); store(tma, memory = ring)",
    "tile(32, 30, 8); thread(1, 2); load(cp_async); stages(3); specialize(producers = 1 warp); store(staged, memory = ring)",
    // C in the tile of D.
    "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma)",
    "tile(32, 32, 8); thread(1, 1); load(registers, c = registers)",
    "tile(32, 32, 8); thread(1, 1); load(cp_async, c = tma); epilogue(|acc, c| acc + c)",
    "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); epilogue(|acc, c| acc + c)",
    "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); store(tma); epilogue(|acc, c| acc + c)",
    "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma, memory = ring); epilogue(|acc, c| acc + c)",
    "types(bf16, c = f32); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma); epilogue(|acc, c| acc + c)",
    "types(bf16); layout(c = col); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma); epilogue(|acc, c| acc + c)",
    "types(bf16); batch(grouped); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma); epilogue(|acc, c| acc + c)",
    "types(bf16); split_k(2); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma); epilogue(|acc, c| acc + c)",
    "types(bf16); stream_k; atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma); epilogue(|acc, c| acc + c)",
    "types(bf16); vector(c = 2); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma, c = tma); stages(3); specialize(producers = 1); store(tma); epilogue(|acc, c| acc + c)",
    "tile(32, 32, 8); thread(1, 1); load(tma, c = cp_async)",
    // Strassen.
    "tile(64, 64, 8); thread(4, 4); strassen(levels = 3)",
    "tile(64, 64, 8); thread(4, 4); strassen(levels = 1); batch(grouped)",
    "types(a = i8, b = i8, acc = i32, d = i32); tile(64, 64, 8); thread(4, 4); strassen(levels = 1)",
    "types(f16, acc = f16); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); strassen(levels = 1)",
    // Planes.
    "emulate(bf16x6); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); stages(3); promote(every = 100)",
    "emulate(bf16x6); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); stages(3); promote(every = 64)",
    "emulate(bf16x6); atom(wgmma(64, 128, 16)); tile(128, 128, 48); load(tma); stages(3)",
    "emulate(bf16x6); atom(wgmma(64, 128, 16)); tile(128, 128, 128); load(tma); promote(every = 64)",
    "emulate(bf16x6); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(64, 64); load(cp_async); stages(3)",
    "emulate(bf16x6); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(64, 32); load(cp_async); stages(3); vector(1)",
    "emulate(f16x3); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); stages(3); batch(grouped)",
    "emulate(f16x3); types(f64); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); stages(3)",
    "emulate(bf16x6); atom(wgmma(64, 256, 16)); tile(128, 256, 64); load(tma); stages(3); specialize(producers = 1); \
     registers(producer = 24, consumer = 240)",
    "atom(mma(16, 8, 8)); tile(128, 128, 32); warp(64, 64)",
    "atom(wgmma(64, 128, 8)); tile(128, 128, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 12, 16)); tile(128, 128, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 12, 16)); tile(128, 12, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 512, 16)); tile(128, 512, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); target(sm_80)",
    "types(f16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); stages(3); specialize(producers = 1); target(sm_86)",
    "types(bf16); atom(wgmma(64, 256, 32)); tile(128, 256, 64); load(tma)",
    "types(bf16); atom(wgmma(64, 100, 16)); tile(128, 96, 64); load(tma)",
    "types(bf16); atom(wgmma(4294967295, 4294967295, 4294967295)); tile(128, 128, 64); load(tma)",
    "types(bf16); atom(wgmma(0, 0, 0)); tile(128, 128, 64); load(tma)",
    "types(f16, acc = f16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); split_k(2)",
    "types(bf16, acc = f16); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma)",
    "types(bf16, acc = f64); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma)",
    // Products of warps.
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 32)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(24, 60)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(48, 64)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 40); warp(64, 64)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(16, 8)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 256, 32); warp(128, 128)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(64, 64); shared(a = mk + pad(1), b = kn)",
    "types(bf16); atom(mma(16, 8, 8)); tile(128, 128, 32); warp(64, 64); target(sm_75)",
    "types(bf16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(64, 64); shared(none)",
    "types(f16, acc = f16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(64, 64); stream_k",
    "types(f16); atom(mma(16, 8, 16)); tile(128, 128, 32); warp(64, 64); unroll(16); order(snake); operands(shared)",
    "types(f64); tile(16, 16, 8); thread(2, 2); epilogue(|acc| gelu(acc))",
    "types(tf32); atom(mma(16, 8, 8)); tile(128, 128, 32); warp(64, 64); shared(a = km, b = kn)",
    "emulate(bf16x6); atom(wgmma(64, 128, 16)); tile(128, 128, 64); load(tma); stages(3); promote(none)",
    "types(e4m3); atom(wgmma(64, 96, 32)); tile(128, 96, 96); load(tma)",
    "types(i8); atom(wgmma(64, 96, 32)); tile(128, 96, 64); load(tma); promote(every = 128)",
    "types(i8); atom(wgmma(64, 128, 32)); tile(128, 128, 64); load(tma); shared(a = mk + swizzle(64), b = kn + swizzle(128))",
    "types(e4m3); tile(128, 128, 8); thread(8, 8); target(sm_80)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(consumers = 2)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 0 warps)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp, consumers = 0)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 worp)",
    "tile(128, 128, 8); thread(8, 8); specialize(producers = 1 warp)",
    "tile(128, 128, 8); thread(8, 8); stages(4); specialize(producers = 1 warp)",
    "tile(128, 128, 8); thread(8, 8); target(sm_75); specialize(producers = 1 warp)",
    "tile(32, 32); thread(1, 1); shared(none); specialize(producers = 1 warp)",
    "tile(48, 64, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp)",
    "tile(48, 64, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp, consumers = 2 warps)",
    "tile(5, 3, 4); thread(1, 1); load(cp_async); specialize(producers = 2 warps)",
    "tile(128, 128, 8); thread(4, 4); load(cp_async); specialize(producers = 1 warp)",
    "tile(128, 64, 8); thread(4, 4); load(cp_async); specialize(producers = 17 warps)",
    "tile(128, 64, 8); thread(4, 4); load(cp_async); specialize(producers = 5)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp, consumers = 4 warps)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp, consumers = 1, cooperative)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp, pingpong); persistent",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp); registers(producer = 40, consumer = 232)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1); registers(producer = 40, consumer = 240)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp); expect { threads = 256 }",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); stages(3); specialize(producers = 1 warp); expect { shared <= 24 KiB }",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 1 warp); blocks_per_sm(8); target(sm_80)",
    "tile(128, 128, 64); thread(8, 8); load(cp_async); stages(4); specialize(producers = 1 warp); target(sm_90)",
    "tile(240, 240, 8); thread(15, 15); load(cp_async); specialize(producers = 4 warps)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 24 warps)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 31 warps)",
    "tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 4294967295)",
    // The limits of a tensor map and its boxes.
    "tile(64, 64, 32); thread(8, 8); load(tma); shared(a = km)",
    "layout(a = col); tile(64, 64, 32); thread(8, 8); load(tma); stages(2)",
    "layout(b = col); tile(64, 64, 32); thread(8, 8); load(tma); shared(b = nk + pad(4))",
    "tile(64, 64, 16); thread(8, 8); load(tma); shared(a = mk + swizzle(128), b = kn + swizzle(128))",
    "tile(64, 64, 6); thread(8, 8); load(tma)",
    "tile(64, 510, 8); thread(8, 10); load(tma)",
    "tile(258, 8, 8); thread(3, 8); load(tma)",
    "layout(b = col); tile(8, 774, 8); thread(4, 6); shared(b = nk); load(tma)",
    "types(f64); tile(32, 32, 3); thread(4, 4); load(tma)",
    "tile(128, 128, 8); thread(8, 8); load(tma); specialize(producers = 2 warps)",
    "tile(128, 128, 8); thread(8, 8); load(tma); shared(none)",
    "tile(128, 128, 8); thread(8, 8); load(tma); target(sm_80)",
    "tile(128, 128, 8); thread(8, 8); load(tma); shared(a = mk + pad(4)); pace(free); persistent",
    // Tiles with only the columns that they need.
    "tile(64, 64, 16); thread(8, 8); tail(even)",
    "types(bf16); layout(b = col); tile(64, 64, 64); atom(mma(16, 8, 16)); warp(32, 32); tail(even)",
    "types(bf16); layout(b = col); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(cp_async); tail(even)",
    "types(bf16); layout(b = col); tile(64, 64, 64); atom(wgmma(64, 32, 16)); load(tma); tail(even)",
    "types(bf16); layout(b = col); tile(64, 8, 64); atom(wgmma(64, 8, 16)); load(tma); tail(even)",
    "types(bf16); layout(b = col); tile(64, 24, 64); atom(wgmma(64, 24, 16)); load(tma); cluster(5, 1); multicast(b); tail(even)",
    "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); tail(even)",
    "types(bf16); layout(a = col); transposed; tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); tail(even)",
    "types(bf16); layout(b = col); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); store(tma); tail(even)",
    "types(bf16); layout(d = col); transposed; tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); store(tma); tail(even)",
    "types(bf16); layout(b = col); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2); persistent; \
     specialize(producers = 1, pingpong); tail(even)",
    "types(bf16); layout(b = col); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); cluster(1, 2); tail(even)",
    "types(bf16); layout(b = col); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stream_k; tail(even)",
    "layout(b = col); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); emulate(bf16x3); tail(even)",
    // Clusters.
    "target(sm_90a); tile(64, 64, 16); thread(8, 8); cluster(2, 1); stream_k; tail(none)",
    "target(sm_90a); tile(64, 64, 16); thread(8, 8); load(tma); stages(2); cluster(2, 1); persistent(33)",
    "target(sm_90a); tile(64, 64, 16); thread(8, 8); load(tma); stages(3); cluster(2, 1); multicast(a, b)",
    "types(bf16); layout(b = col); atom(wgmma(64, 24, 16)); tile(64, 24, 16); load(tma); stages(3); specialize(producers = 1); \
     cluster(8, 1); multicast(b)",
    "types(bf16); atom(wgmma(64, 64, 16)); tile(64, 64, 64); load(tma); cluster(2, 1); batch(grouped); stream_k",
    // The parts of k depend on the extents of one product.
    "tile(128, 128, 8); thread(8, 8); batch(grouped); split_k(4)",
    // Not implemented yet.
    "types(f64); tile(64, 64, 8); thread(4, 4); epilogue(|acc| tanh(acc))",
    // All at once.
    "tiles(128); thread(7, 8);\ntile(128, 128, 8); vector(d = 3);\nstages(9); types(f99)",
];

fn say(text: &str) -> Diagnostics {
    match Schedule::parse(text).and_then(|schedule| schedule.check()) {
        Ok(notes) => notes,
        Err(errors) => errors,
    }
}

#[test]
fn every_wrong_schedule_is_told_why() {
    let mut all = String::new();
    for text in WRONG {
        let said = say(text);
        assert!(!said.is_empty(), "nothing is said about {text}");
        writeln!(all, "{text}").unwrap();
        for diagnostic in &said {
            let at = diagnostic.span.map_or("-".into(), |span| format!("{}:{}", span.line, span.column));
            let fix = match diagnostic.fix.as_ref().map(|fix| &fix.edit) {
                None => String::new(),
                Some(Edit::Spell(text)) => format!(" [write {text}]"),
                Some(Edit::Set(text)) => format!(" [use {text}]"),
                Some(Edit::Remove(name)) => format!(" [drop {name}]"),
            };
            let severity = if said.errors().any(|error| error == diagnostic) { "" } else { "note: " };
            writeln!(all, "  {at} {}: {severity}{diagnostic}{fix}", diagnostic.clause).unwrap();
        }
        all.push('\n');
    }
    insta::assert_snapshot!(all);
}

#[test]
fn every_rule_has_a_case() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut note = |diagnostics: &Diagnostics| seen.extend(diagnostics.iter().map(|d| d.rule.to_string()));
    WRONG.iter().for_each(|text| note(&say(text)));
    note(&say(&"tile(128, 128, 8);".repeat(10_000)));
    note(&say(&"(".repeat(3000)));
    let on_another = Schedule::new().tile(128, 128, 8).thread(8, 8).target(Target::SM_80).plan(Some(Target::SM_90));
    note(&on_another.unwrap_err());
    note(&say(&"stream_k;".repeat(100)));
    let invented = Target { capability: 77, specific: false };
    let good = || Schedule::new().tile(128, 128, 8).thread(8, 8);
    note(&good().target(invented).check().unwrap_err());
    note(&good().plan(Some(invented)).unwrap_err());
    // A text with alternatives: `tests/language/space.rs` has these cases.
    note(&ptx_gemm_dsl::Space::parse("stages({2}); unroll({4..=2});").unwrap_err());

    let stated = rules_in_source();
    assert!(stated.len() > 50, "the scan of the sources finds too little: {stated:?}");
    let missing: Vec<&String> = stated.difference(&seen).collect();
    assert!(missing.is_empty(), "rules without a case: {missing:?}");
}

/// The names of all rules: the first string argument of `error(..)`, `note(..)` and `fail(..)` in the sources.
fn rules_in_source() -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for call in ["error(", "note(", "fail(", "fail_with("] {
                for (at, _) in source.match_indices(call) {
                    let rest = source[at + call.len()..].trim_start();
                    let rule = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
                    // A rule's name is one word; a string with spaces is a message.
                    rules.extend(rule.filter(|rule| !rule.contains(' ')).map(str::to_string));
                }
            }
        }
    }
    rules
}
