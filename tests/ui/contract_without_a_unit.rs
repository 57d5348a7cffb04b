// A share of a multiprocessor's warps is written in percent, and only averages have fractions.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        expect { occupancy >= 0.5; registers <= 127.5; loads_per_fam <= 1 }
    };
}
