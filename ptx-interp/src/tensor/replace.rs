//! Replaces single fields of a tensor map, which may be illegal until all its fields fit each other.

use ptx_gemm_ptx::asynchronous::MapField;

use super::{CHECKED, MAGIC, MAX_RANK, TensorElement, checksum};

/// Replaces a field of the map that these bytes represent, as `tensormap.replace` does. All zeros are also a map, with
/// every field still to be set. Returns the reason if the field or the value does not exist, or if the bytes are not a
/// map.
pub(crate) fn replace(bytes: &mut [u8; 128], field: MapField, ordinal: u8, value: u64) -> Result<(), String> {
    let sum = u64::from_le_bytes(std::array::from_fn(|at| bytes[CHECKED + at]));
    let fresh = bytes.iter().all(|byte| *byte == 0);
    if !fresh && (bytes[..8] != *MAGIC || sum != checksum(&bytes[..CHECKED])) {
        return Err("where no tensor map is stored".into());
    }
    bytes[..8].copy_from_slice(MAGIC);
    let axis = usize::from(ordinal);
    let mut put = |at: usize, len: usize, value: u64| bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    // A value that does not fit its field is too large for every map.
    let narrow = |value: u64, most: u64| value.min(most);
    match field {
        MapField::GlobalAddress => put(16, 8, value),
        // PTX ISA, "tensormap.replace": the value is one less than the rank.
        MapField::Rank => put(9, 1, narrow(value + 1, u8::MAX.into())),
        MapField::GlobalDim if axis < MAX_RANK => put(24 + 8 * axis, 8, value),
        MapField::GlobalStride if axis < MAX_RANK - 1 => put(64 + 8 * axis, 8, value),
        MapField::BoxDim if axis < MAX_RANK => put(96 + 2 * axis, 2, narrow(value, u16::MAX.into())),
        MapField::ElementStride if axis < MAX_RANK => put(106 + axis, 1, narrow(value, u8::MAX.into())),
        MapField::ElementType => {
            let element = ELEMENTS.get(value as usize).ok_or("with an element type that is not supported")?;
            put(8, 1, element.number().into());
        }
        MapField::Interleave => put(10, 1, narrow(value, u8::MAX.into())),
        MapField::Swizzle => put(11, 1, narrow(value, u8::MAX.into())),
        MapField::Fill => put(13, 1, narrow(value, u8::MAX.into())),
        _ => return Err(format!("which has no dimension {axis}")),
    }
    let sum = checksum(&bytes[..CHECKED]);
    bytes[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// The element types by the numbers that `tensormap.replace` gives them (PTX ISA, "tensormap.replace": new values of
/// `.elemtype`), which differ from the driver's.
const ELEMENTS: [TensorElement; 13] = [
    TensorElement::U8,
    TensorElement::U16,
    TensorElement::U32,
    TensorElement::I32,
    TensorElement::U64,
    TensorElement::I64,
    TensorElement::F16,
    TensorElement::F32,
    TensorElement::F32Ftz,
    TensorElement::F64,
    TensorElement::Bf16,
    TensorElement::Tf32,
    TensorElement::Tf32Ftz,
];
