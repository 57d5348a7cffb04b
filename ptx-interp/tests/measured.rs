//! What an H200 does where the PTX ISA leaves the result open.

use crate::arithmetic::check;

#[test]
fn division_by_zero_sets_every_bit() {
    for op in ["div", "rem"] {
        for (ty, ones) in [("16", 0xffff), ("32", 0xffff_ffff), ("64", u64::MAX)] {
            for sign in ["u", "s"] {
                let ty = format!("{sign}{ty}");
                check(&format!("{op}.{ty}"), &[ty.as_str(); 3], &[(&[7, 0], ones), (&[0, 0], ones)]);
            }
        }
    }
}
