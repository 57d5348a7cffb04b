//! The kit for users' tests: what it accepts, and what it reports about wrong kernels.

use ptx_gemm::testing::{
    assert_contracts, assert_correct, assert_no_races, assert_ptx_snapshot, contracts, correct, no_races,
};
use ptx_gemm::{CompiledGemm, Device, Gemm, TileProgram, gemm};

pub(crate) const SNAPSHOT: &str = "testing__ptx";

fn kernel() -> Gemm {
    gemm! { tile(16, 16, 4); thread(2, 2); double_buffer; expect { loads_per_fma <= 1.2 } }
}

/// The kernel with its PTX changed.
fn edited(from: &str, to: &str) -> CompiledGemm {
    let kernel = kernel().compile(None).unwrap();
    let ptx = kernel.ptx().replace(from, to);
    assert_ne!(ptx, kernel.ptx(), "`{from}` is not in the text");
    CompiledGemm::from_kernel(kernel.edited(&ptx).unwrap(), &Device::interpreter()).unwrap()
}

#[test]
fn right_kernels_pass() {
    assert_correct!(kernel());
    assert_correct!(&kernel(), [(33, 31, 65), (1, 1, 0)]);
    assert_correct!(kernel().on(&Device::interpreter()), [(5, 6, 7)]);
    let size = 16;
    assert_correct!(gemm! { tile({size}, 16, 4); thread(2, 2) }, [(17, 16, 5)]);
    assert_no_races!(kernel());
    // A ring that TMA fills again.
    assert_no_races!(
        gemm! { target(sm_90); layout(a = col); tile(32, 32, 8); thread(4, 4); shared(a = km); load(tma); stages(2) }
    );
    assert_contracts!(kernel());
    assert_contracts!(kernel(), { bank_conflicts <= 1; shared <= 4 KiB });
    let program = kernel().ir(ptx_gemm::Level::Tile, None).unwrap();
    assert_correct!(program.parse::<TileProgram>(), [(17, 15, 9)]);
}

#[test]
fn the_ptx_of_a_kernel() {
    crate::snapshots().bind(|| assert_ptx_snapshot!(SNAPSHOT, kernel()));
    crate::snapshots().bind(|| assert_ptx_snapshot!(SNAPSHOT, kernel().ptx(None)));
}

#[test]
fn a_wrong_result_is_told_with_its_element() {
    let wrong = edited("fma.rn.f32 %acc0, %a0, %b0, %acc0;", "fma.rn.f32 %acc0, %a0, %b1, %acc0;");
    let said = correct(&wrong, None).unwrap_err();
    assert!(said.starts_with("the kernel is wrong\n"), "{said}");
    assert!(said.contains(" products; the smallest:\n- m = ") && said.contains("the reference is "), "{said}");
    // Requested sizes.
    assert!(correct(&wrong, Some(&[(20, 18, 5).into()])).unwrap_err().contains("m = 20, n = 18, k = 5"));
    assert!(correct(&wrong, Some(&[])).unwrap_err().contains("nothing would be tested"));
}

/// Data that leave every element undefined are replaced by other data; a kernel without such data fails the test.
#[test]
fn a_kernel_is_compared_or_said_not_to_be() {
    let divides = gemm! { types(i32); tile(4, 4, 2); thread(2, 2); epilogue(|acc, x, y| acc / (x - y)) };
    assert_correct!(&divides, [(4, 4, 4), (5, 3, 2), (1, 1, 1), (3, 0, 2), (9, 2, 3), (2, 2, 2), (6, 6, 6), (7, 1, 1)]);
    let never = gemm! { types(i32); tile(4, 4, 2); thread(2, 2); epilogue(|acc, x| acc / (x - x)) };
    for said in [correct(&never, None).unwrap_err(), no_races(&never).unwrap_err()] {
        assert!(said.contains(" is not tested: nothing was compared\n"), "{said}");
        assert!(
            said.contains(" elements compared; not compared: ")
                && said.contains("the epilogue divides an integer by 0"),
            "{said}"
        );
    }
    let empty = correct(&kernel(), Some(&[(0, 5, 5).into(), (5, 0, 5).into()])).unwrap_err();
    assert!(empty.contains("nothing was compared\nm or n is 0 in all sizes"), "{empty}");
}

#[test]
fn a_race_is_told_with_its_instruction_and_clause() {
    let racing = edited("bar.sync 0;", "");
    let said = no_races(&racing).unwrap_err();
    assert!(said.contains("in the order `forward`") && said.contains("race"), "{said}");
    assert!(said.contains("double_buffer") && said.contains("line"), "{said}");
}

#[test]
fn a_broken_contract_is_told_with_its_figure() {
    let said = contracts(&kernel(), "loads_per_fma <= 0.1").unwrap_err();
    assert!(said.contains("loads_per_fma <= 0.1 is broken: loads_per_fma is 1.125"), "{said}");
    assert!(said.contains("look at thread(2, 2)") && !said.contains("1.2"), "{said}");
    let said = contracts(&kernel(), "bank_conflict <= 0").unwrap_err();
    assert!(said.contains("bank_conflicts") && !said.contains("no tile"), "{said}");
    let none = gemm! { tile(16, 16, 4); thread(2, 2) };
    assert!(contracts(&none, "").unwrap_err().contains("there are no contracts"));
    assert!(contracts(&none, "threads = 64").is_ok());
    let three = 3;
    let refused = gemm! { tile(16, 16, 4); thread({three}, 2) };
    assert!(correct(&refused, None).unwrap_err().contains("thread(3, 2) does not divide"));
}
