// Contracts whose figures the plan knows are checked while the crate is built.
use ptx_gemm::{Gemm, gemm};

fn main() {
    let _: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        vector(4);
        double_buffer;
        expect { bank_conflicts = 0; spills = 0; loads_per_fma <= 0.05; occupancy >= 3; sectors_per_load <= 8 }
    };
    let kept: Gemm = gemm! {
        tile(128, 128, 8);
        thread(8, 8);
        fragment(4, 4);
        vector(4);
        shared(a = km + pad(4));
        double_buffer;
        target(sm_90);
        expect { bank_conflicts = 0; spills = 0; loads_per_fma <= 0.07; occupancy >= 25 %; shared <= 20 KiB }
    };
    drop(kept);
}
