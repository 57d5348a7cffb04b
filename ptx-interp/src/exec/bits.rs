//! Bit fields, permutations and funnel shifts, one lane at a time.

use ptx_gemm_ptx::types::Type;

use crate::op::Bits;

/// Evaluates one lane; the sources are in the instruction's order.
pub(super) fn evaluate(op: Bits, ty: Type, [a, b, c, e]: [u64; 4]) -> u64 {
    let width = ty.bits();
    let ones = u64::MAX >> (64 - width);
    let value = a & ones;
    match op {
        Bits::Extract => extract(ty, value, b & 0xff, c & 0xff),
        Bits::Insert => {
            let (position, length) = (c & 0xff, (e & 0xff).min(64));
            let field = shl(shl(1, length).wrapping_sub(1), position) & ones;
            (b & !field) | (shl(value, position) & field)
        }
        Bits::Count => u64::from(value.count_ones()),
        Bits::LeadingZeros => u64::from(value.leading_zeros() - (64 - width)),
        Bits::Reverse => value.reverse_bits() >> (64 - width),
        Bits::Permute => permute(a as u32, b as u32, c as u32),
        Bits::PermuteMode(mode) => permute(a as u32, b as u32, mode.selector(c as u32)),
        Bits::Highest { shift_amount } => {
            let value = if ty.is_signed() && value >> (width - 1) & 1 != 0 { !value & ones } else { value };
            match value.checked_ilog2() {
                None => u64::from(u32::MAX),
                Some(position) if shift_amount => u64::from(width - 1 - position),
                Some(position) => u64::from(position),
            }
        }
        Bits::Table => (0..8).filter(|minterm| e >> minterm & 1 != 0).fold(0, |result, minterm| {
            let pick = |bits: u64, bit: u64| if minterm >> bit & 1 != 0 { bits } else { !bits };
            result | pick(a, 2) & pick(b, 1) & pick(c, 0)
        }),
        Bits::Funnel { left, clamp } => {
            let both = (b & 0xffff_ffff) << 32 | a & 0xffff_ffff;
            let amount = if clamp { (c & 0xffff_ffff).min(32) } else { c & 31 };
            if left { shl(both, amount) >> 32 } else { both >> amount }
        }
        Bits::Ones { clamp } => {
            let outside = |of: u64| clamp && of & 0xffff_ffff >= 32;
            let (first, count) = (a & 31, b & 31);
            let above = shl(ones, if outside(b) { 64 } else { first + count });
            if outside(a) { 0 } else { shl(ones, first) & !above & ones }
        }
        Bits::Low { clamp } => {
            let count = if clamp { (b & 0xffff_ffff).min(32) } else { b & 31 };
            extract(ty, value, 0, count) & ones
        }
    }
}

/// A left shift by up to 255 bits.
fn shl(value: u64, amount: u64) -> u64 {
    value.checked_shl(amount as u32).unwrap_or(0)
}

/// A bit field; positions above a signed value's top bit read copies of its sign.
fn extract(ty: Type, value: u64, position: u64, length: u64) -> u64 {
    let top = u64::from(ty.bits()) - 1;
    if length == 0 {
        return 0;
    }
    let sign_at = (position + length - 1).min(top);
    let negative = ty.is_signed() && value >> sign_at & 1 != 0;
    let field = value.checked_shr(position as u32).unwrap_or(0);
    let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    // Bits beyond the width of the value are copies of its sign bit.
    let known = if position > top { 0 } else { u64::MAX >> (63 - (top - position)) };
    let fill = if negative { !(mask & known) } else { 0 };
    field & mask & known | fill
}

/// Selects four bytes of eight; bit 3 of a selector replicates the byte's sign instead.
fn permute(a: u32, b: u32, selector: u32) -> u64 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |result, index| {
        let select = selector >> (4 * index) & 0xf;
        let byte = (bytes >> (8 * (select & 7))) as u8;
        let byte = if select & 8 == 0 {
            byte
        } else if byte >> 7 != 0 {
            0xff
        } else {
            0
        };
        result | u64::from(byte) << (8 * index)
    })
}
