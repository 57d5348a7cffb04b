// What another macro passes on is a unit: the messages show it in parentheses where it needs them.
use ptx_gemm::{Gemm, gemm};

const BM: u32 = 64;

macro_rules! tiles {
    ($m:expr, $n:literal, $k:lifetime) => {
        let _: Gemm = gemm! { tile($m, 2 * $m, $m / 2); thread(8, 8); };
        let _: Gemm = gemm! { tile($n, 2 * $n, $k); thread(8, 8); expect { spills <= $n; threads = 2 * $m } };
    };
}

macro_rules! epilogues {
    ($f:expr, $x:expr, $n:literal, $p:pat, $v:vis) => {
        let _: Gemm = gemm! { tile(64, 64, 8); thread(8, 8); epilogue(|acc| $f(acc)); };
        let _: Gemm = gemm! { tile(64, 64, 8); thread(8, 8); epilogue(|acc, bias| $x[n]); };
        let _: Gemm = gemm! { tile(64, 64, 8); thread(8, 8); epilogue(|acc| acc $n); };
        let _: Gemm = gemm! { tile(64, 64, 8); thread(8, 8); epilogue(|$p| acc); };
        let _: Gemm = gemm! { tile(64, 64, 8); thread(8, 8); epilogue(|acc| acc * $v acc); };
    };
}

macro_rules! base {
    ($base:expr) => {
        let _: Gemm = gemm! { $base.clone(); double_buffer };
    };
}

fn main() {
    tiles!(64 + 64, -8, 'k);
    tiles!(BM + 1, 8.0, 'static);
    epilogues!(2 * relu, acc + bias, -5, acc | c, pub(crate));
    base!(..&gemm! { tile(64, 64, 8); thread(8, 8) });
}
