//! Where the elements of a buffer are.

use ptx_gemm_codegen::tile::build::build;
use ptx_gemm_dsl::{DType, Schedule};

/// The swizzle of TMA and of warp groups: the index of a piece of 16 bytes is combined with that of its row, modulo 8.
#[test]
fn swizzled_rows_exchange_pieces() {
    let text = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2)";
    let plan = text.parse::<Schedule>().unwrap().plan(None).unwrap();
    let module = build(&plan);
    let [a, ..] = &module.entries[0].buffers[..] else { panic!("no buffer") };
    for (row, k) in (0..64).flat_map(|row| (0..64).map(move |k| (row, k))) {
        let piece = (k / 8) ^ (row % 8);
        let expected = a.offset_bytes + 128 * row + 16 * piece + 2 * (k % 8);
        assert_eq!(a.address(row, k, DType::Bf16), expected, "row {row}, k {k}");
    }
}
