//! Your own schedules and their tests: a snapshot of the PTX, which shows every change, and an execution, which shows
//! that the result is right. Neither needs a GPU.
//!
//! ```text
//! cargo run --release --example own_schedule_test     # prints what the tests do
//! cargo test --example own_schedule_test              # the tests
//! ```
//!
//! The tests need the feature `testing` of `ptx-gemm` among the dev-dependencies; `gemmc new` makes a crate that has
//! it. A changed snapshot is reviewed, and accepted with `cargo insta review` (or `INSTA_UPDATE=always cargo test`).

use std::error::Error;

use ptx_gemm::{Device, Diagnostics, Gemm, Matrix, gemm};

/// Y = relu(X W) with few rows, as in a program that answers one query at a time.
pub fn few_rows() -> Gemm {
    gemm! {
        tile(16, 64, 32);
        thread(1, 4);
        vector(4);
        double_buffer;
        epilogue(|acc| relu(acc));
    }
}

/// The simplest possible kernel, small enough to read in full.
pub fn plain() -> Gemm {
    gemm! {
        target(sm_80);
        tile(16, 16);
        thread(1, 1);
        shared(none);
    }
}

/// A family of schedules: the caller chooses the tile, and gets an error for an illegal one.
pub fn square(tile: u32, thread: u32) -> Result<Gemm, Diagnostics> {
    gemm! {
        tile({tile}, {tile}, 8);
        thread({thread}, {thread});
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::best()?;
    println!("{device}");
    let x = Matrix::<f32>::random(3, 100, 1);
    let w = Matrix::<f32>::random(100, 70, 2);
    let y = few_rows().on(&device)?.multiply(&x, &w)?;
    println!("few_rows: {} x {} elements, the first is {:?}", y.rows(), y.cols(), y[(0, 0)]);
    println!("plain: {} lines of PTX", plain().ptx(None)?.lines().count());
    match square(64, 3) {
        Ok(_) => return Err("64 is not a multiple of 3".into()),
        Err(why) => println!("square(64, 3) is refused:\n{why}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ptx_gemm::testing::{assert_contracts, assert_correct, assert_no_races, assert_ptx_snapshot};
    use ptx_gemm::{Target, gemm};

    use super::*;

    #[test]
    fn the_ptx_is_as_it_was() {
        assert_ptx_snapshot!(plain());
        // Output is deterministic, so a snapshot is a useful test.
        assert_eq!(plain().ptx(None).unwrap(), plain().ptx(None).unwrap());
    }

    #[test]
    fn every_number_is_as_it_was() {
        insta::assert_snapshot!(few_rows().plan(Target::SM_80).unwrap().to_string());
    }

    #[test]
    fn the_accesses_are_wide() {
        let ptx = few_rows().ptx(Target::SM_80).unwrap();
        assert!(ptx.contains("ld.global.v4.f32") && ptx.contains("st.global.v4.f32"));
        assert_contracts!(few_rows(), { sectors_per_load <= 16; shared <= 32 KiB });
    }

    #[test]
    fn results_are_right_on_every_edge() {
        assert_correct!(few_rows());
        assert_correct!(plain());
    }

    #[test]
    fn no_order_changes_anything() {
        assert_no_races!(few_rows());
    }

    #[test]
    fn the_family_is_right_or_refused() {
        for (tile, thread) in [(16, 1), (16, 4), (32, 2), (32, 4)] {
            assert_correct!(square(tile, thread));
        }
        let refusal = square(64, 3).unwrap_err().to_string();
        assert!(refusal.contains("thread"), "{refusal}");
    }

    #[test]
    fn a_file_is_the_same_schedule() {
        assert_eq!(gemm!(file "schedules/plain.gemm"), plain());
    }
}
