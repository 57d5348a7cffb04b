//! Tensor maps: the equivalent of `cuTensorMapEncodeTiled`, with a representation of its own.
//!
//! [`TensorMap::encode`] takes the driver's arguments and rejects what the driver rejects. The rules are those of the
//! driver API's manual ("Tensor Map Object Management"), corrected where the driver differs, as measured on an H200
//! with the driver of CUDA 13.0. It accepts strides of 0 and strides that do not increase from dimension to dimension;
//! it limits the whole box to the 228 KiB of a multiprocessor's shared memory, computed with element strides that are
//! rounded down; with interleaved layouts it does not compare the box with a swizzle's span; and it requires an address
//! below 2^57.
//!
//! Copies behave as on an H200: the innermost coordinate is a multiple of 16 bytes, and no coordinate of a store is
//! negative; rows shorter than the swizzle's span each begin a new span and count only their own bytes; NaN fill is
//! 0x7ff7 throughout; TF32 rounds to nearest even; FTZ types flush nothing.
//!
//! On the interpreter's device a map is also 128 opaque bytes ([`TensorMap::to_bytes`]). They contain the map itself
//! and a checksum, so that a kernel finds the map wherever the bytes were copied, and other bytes are not mistaken for
//! a map.

mod error;
mod generate;
mod replace;
mod tile;

pub use self::error::TensorMapError;
pub use self::generate::random_tensor_maps;
pub(crate) use self::replace::replace;
pub(crate) use self::tile::Tile;

/// Largest number of dimensions.
const MAX_RANK: usize = 5;
/// Shared memory of a multiprocessor of compute capability 9.0, which a box cannot exceed.
const MAX_BOX_BYTES: u64 = 228 << 10;

/// An enumeration with the driver's numbers.
macro_rules! driver_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant = $number),* }

        impl $name {
            /// The member with the driver's number.
            pub fn from_number(number: u32) -> Option<$name> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }

            /// The driver's number.
            pub fn number(self) -> u32 {
                self as u32
            }
        }
    };
}

driver_enum! {
    /// `CUtensorMapDataType`.
    TensorElement {
        /// 8 bits; also for 8-bit floats and signed integers.
        U8 = 0,
        /// 16 bits.
        U16 = 1,
        /// 32 bits.
        U32 = 2,
        /// 32 bits, signed.
        I32 = 3,
        /// 64 bits.
        U64 = 4,
        /// 64 bits, signed.
        I64 = 5,
        /// IEEE half precision.
        F16 = 6,
        /// Single precision.
        F32 = 7,
        /// Double precision.
        F64 = 8,
        /// bfloat16.
        Bf16 = 9,
        /// Single precision. Despite the name, loads keep subnormals (measured on an H200).
        F32Ftz = 10,
        /// Single precision, rounded to TF32 by the copy.
        Tf32 = 11,
        /// The same.
        Tf32Ftz = 12,
    }
}

driver_enum! {
    /// `CUtensorMapInterleave`.
    Interleave {
        /// Plain.
        None = 0,
        /// NC/8HWC8.
        Bytes16 = 1,
        /// NC/16HWC16.
        Bytes32 = 2,
    }
}

driver_enum! {
    /// `CUtensorMapSwizzle`: how 16-byte chunks are permuted in shared memory. It acts on the bits of absolute
    /// addresses.
    Swizzle {
        /// No swizzle.
        None = 0,
        /// Bit 4 is XORed with bit 7.
        Bytes32 = 1,
        /// Bits 4 and 5 with bits 7 and 8.
        Bytes64 = 2,
        /// Bits 4 to 6 with bits 7 to 9.
        Bytes128 = 3,
    }
}

driver_enum! {
    /// `CUtensorMapL2promotion`; stored, but without effect here.
    L2Promotion {
        /// None.
        None = 0,
        /// 64 bytes.
        Bytes64 = 1,
        /// 128 bytes.
        Bytes128 = 2,
        /// 256 bytes.
        Bytes256 = 3,
    }
}

driver_enum! {
    /// `CUtensorMapFloatOOBfill`: the value that a load writes where the box leaves the tensor.
    OobFill {
        /// Zeros.
        Zero = 0,
        /// A NaN (`NAN_REQUEST_ZERO_FMA`), for floats only.
        Nan = 1,
    }
}

impl TensorElement {
    /// Bytes per element.
    pub fn bytes(self) -> u64 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::U16 | TensorElement::F16 | TensorElement::Bf16 => 2,
            TensorElement::U64 | TensorElement::I64 | TensorElement::F64 => 8,
            _ => 4,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        self as u32 >= TensorElement::F16 as u32
    }
}

impl Swizzle {
    /// Size in bytes of a row within which chunks are permuted; 0 for none.
    pub fn span(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// The swizzled address of a byte in shared memory. The function is its own inverse.
    pub fn apply(self, address: u64) -> u64 {
        let mask = match self {
            Swizzle::None => 0,
            Swizzle::Bytes32 => 0x10,
            Swizzle::Bytes64 => 0x30,
            Swizzle::Bytes128 => 0x70,
        };
        address ^ (address >> 3 & mask)
    }
}

/// The arguments of `cuTensorMapEncodeTiled`, innermost dimension first, with enumerations as the driver's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapArgs {
    /// `tensorDataType`; see [`TensorElement`].
    pub data_type: u32,
    /// `tensorRank`.
    pub rank: u32,
    /// `globalAddress`.
    pub address: u64,
    /// `globalDim`, in elements; `rank` of them are read.
    pub dims: Vec<u64>,
    /// `globalStrides`, in bytes, without that of the innermost dimension; `rank - 1` of them are read.
    pub strides: Vec<u64>,
    /// `boxDim`, in elements; `rank` of them are read.
    pub box_dims: Vec<u32>,
    /// `elementStrides`; `rank` of them are read.
    pub element_strides: Vec<u32>,
    /// `interleave`; see [`Interleave`].
    pub interleave: u32,
    /// `swizzle`; see [`Swizzle`].
    pub swizzle: u32,
    /// `l2Promotion`; see [`L2Promotion`].
    pub l2_promotion: u32,
    /// `oobFill`; see [`OobFill`].
    pub oob_fill: u32,
}

impl TensorMapArgs {
    /// A plain map: no interleave, no swizzle, element strides of 1, zeros outside the tensor.
    pub fn new(element: TensorElement, address: u64, dims: &[u64], strides: &[u64], box_dims: &[u32]) -> TensorMapArgs {
        TensorMapArgs {
            data_type: element.number(),
            rank: dims.len() as u32,
            address,
            dims: dims.into(),
            strides: strides.into(),
            box_dims: box_dims.into(),
            element_strides: vec![1; dims.len()],
            interleave: 0,
            swizzle: 0,
            l2_promotion: 0,
            oob_fill: 0,
        }
    }

    /// The same with a swizzle.
    pub fn swizzled(self, swizzle: Swizzle) -> TensorMapArgs {
        TensorMapArgs { swizzle: swizzle.number(), ..self }
    }

    /// The same with another fill outside the tensor.
    pub fn filled(self, fill: OobFill) -> TensorMapArgs {
        TensorMapArgs { oob_fill: fill.number(), ..self }
    }
}

/// A tensor map: a region of global memory with up to five dimensions, and the box that one instruction copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    element: TensorElement,
    rank: u8,
    address: u64,
    dims: [u64; MAX_RANK],
    /// `strides[i]` belongs to dimension i + 1, in bytes.
    strides: [u64; MAX_RANK - 1],
    box_dims: [u16; MAX_RANK],
    element_strides: [u8; MAX_RANK],
    interleave: Interleave,
    swizzle: Swizzle,
    l2_promotion: L2Promotion,
    oob_fill: OobFill,
}

impl TensorMap {
    /// Makes a map, or returns the reason why the driver would reject it (the driver itself only returns
    /// `CUDA_ERROR_INVALID_VALUE`).
    pub fn encode(args: &TensorMapArgs) -> Result<TensorMap, TensorMapError> {
        use TensorMapError as Error;
        let element = TensorElement::from_number(args.data_type).ok_or(Error::DataType(args.data_type))?;
        let interleave = Interleave::from_number(args.interleave).ok_or(Error::Interleave(args.interleave))?;
        let swizzle = Swizzle::from_number(args.swizzle).ok_or(Error::Swizzle(args.swizzle))?;
        let l2_promotion = L2Promotion::from_number(args.l2_promotion).ok_or(Error::L2Promotion(args.l2_promotion))?;
        let oob_fill = OobFill::from_number(args.oob_fill).ok_or(Error::OobFill(args.oob_fill))?;
        if oob_fill == OobFill::Nan && !element.is_float() {
            return Err(Error::FillOfIntegers);
        }
        let least = if interleave == Interleave::None { 1 } else { 3 };
        let rank = args.rank as usize;
        if !(least..=MAX_RANK).contains(&rank) {
            return Err(Error::Rank { rank: args.rank, least: least as u32 });
        }
        let given = [args.dims.len(), args.strides.len() + 1, args.box_dims.len(), args.element_strides.len()];
        if let Some(&given) = given.iter().find(|given| **given < rank) {
            return Err(Error::Lengths { rank: args.rank, given });
        }
        let align = if interleave == Interleave::Bytes32 { 32 } else { 16 };
        if !args.address.is_multiple_of(align) || args.address >= 1 << 57 {
            return Err(Error::Address { address: args.address, align });
        }
        let mut map = TensorMap {
            element,
            rank: rank as u8,
            address: args.address,
            dims: [1; MAX_RANK],
            strides: [0; MAX_RANK - 1],
            box_dims: [1; MAX_RANK],
            element_strides: [1; MAX_RANK],
            interleave,
            swizzle,
            l2_promotion,
            oob_fill,
        };
        for axis in 0..rank {
            let (dim, size, stride) = (args.dims[axis], args.box_dims[axis], args.element_strides[axis]);
            if dim == 0 || dim > 1 << 32 {
                return Err(Error::Dim { axis, dim });
            }
            if size == 0 || size > 256 {
                return Err(Error::Box { axis, size });
            }
            if stride == 0 || stride > 8 {
                return Err(Error::ElementStride { axis, stride });
            }
            map.dims[axis] = dim;
            map.box_dims[axis] = size as u16;
            map.element_strides[axis] = stride as u8;
        }
        for axis in 1..rank {
            let stride = args.strides[axis - 1];
            if !stride.is_multiple_of(align) || stride >= 1 << 40 {
                return Err(Error::Stride { axis, stride, align });
            }
            map.strides[axis - 1] = stride;
        }
        map.check_box()?;
        Ok(map)
    }

    /// Limits on the box as a whole.
    fn check_box(&self) -> Result<(), TensorMapError> {
        let inner = u64::from(self.box_dims[0]) * self.element.bytes();
        if !inner.is_multiple_of(16) {
            return Err(TensorMapError::BoxInner { bytes: inner });
        }
        let span = self.swizzle.span();
        if self.interleave == Interleave::None && span != 0 && inner > span {
            return Err(TensorMapError::BoxSpan { bytes: inner, span });
        }
        let whole = |(size, stride): (&u16, &u8)| u64::from(*size) / u64::from(*stride);
        let elements: u64 = self.box_dims.iter().zip(&self.element_strides).map(whole).product();
        let bytes = elements * self.element.bytes();
        if bytes > MAX_BOX_BYTES {
            return Err(TensorMapError::BoxTotal { bytes, most: MAX_BOX_BYTES });
        }
        Ok(())
    }

    /// Type of the elements.
    pub fn element(&self) -> TensorElement {
        self.element
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// How chunks are permuted in shared memory.
    pub fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// How the tensor is interleaved.
    pub fn interleave(&self) -> Interleave {
        self.interleave
    }

    /// Elements that one instruction copies along a dimension. As the manual says, the element stride of the innermost
    /// dimension is ignored.
    pub(crate) fn extent(&self, axis: usize) -> u64 {
        let stride = if axis == 0 { 1 } else { u64::from(self.element_strides[axis]) };
        u64::from(self.box_dims[axis]).div_ceil(stride)
    }

    /// Size of the whole box in bytes. A load always counts all of them.
    pub fn box_bytes(&self) -> u64 {
        self.extent(0) * self.element.bytes() * self.rows()
    }

    /// Size of the box in shared memory in bytes. With a swizzle each row begins a new span, however short it is
    /// (measured on an H200; the bytes in between are neither written nor counted).
    pub fn shared_bytes(&self) -> u64 {
        (self.rows() - 1) * self.row_pitch() + self.extent(0) * self.element.bytes()
    }

    /// Rows of the box.
    pub(crate) fn rows(&self) -> u64 {
        (1..self.rank()).map(|axis| self.extent(axis)).product()
    }

    /// Distance between the box's rows in shared memory, in bytes.
    pub(crate) fn row_pitch(&self) -> u64 {
        (self.extent(0) * self.element.bytes()).max(self.swizzle.span())
    }

    /// The arguments that the map was made from.
    pub fn args(&self) -> TensorMapArgs {
        let rank = self.rank();
        TensorMapArgs {
            data_type: self.element.number(),
            rank: rank as u32,
            address: self.address,
            dims: self.dims[..rank].into(),
            strides: self.strides[..rank - 1].into(),
            box_dims: self.box_dims[..rank].iter().map(|size| u32::from(*size)).collect(),
            element_strides: self.element_strides[..rank].iter().map(|stride| u32::from(*stride)).collect(),
            interleave: self.interleave.number(),
            swizzle: self.swizzle.number(),
            l2_promotion: self.l2_promotion.number(),
            oob_fill: self.oob_fill.number(),
        }
    }

    /// The 128 bytes that are passed to a kernel. A host may also copy them to global memory.
    pub fn to_bytes(&self) -> [u8; 128] {
        let mut bytes = [0; 128];
        bytes[..8].copy_from_slice(MAGIC);
        let numbers = [
            self.element.number() as u8,
            self.rank,
            self.interleave.number() as u8,
            self.swizzle.number() as u8,
            self.l2_promotion.number() as u8,
            self.oob_fill.number() as u8,
        ];
        bytes[8..14].copy_from_slice(&numbers);
        let words = std::iter::once(&self.address).chain(&self.dims).chain(&self.strides);
        for (bytes, word) in bytes[16..96].chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        for (bytes, size) in bytes[96..106].chunks_exact_mut(2).zip(&self.box_dims) {
            bytes.copy_from_slice(&size.to_le_bytes());
        }
        bytes[106..111].copy_from_slice(&self.element_strides);
        let sum = checksum(&bytes[..CHECKED]);
        bytes[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The map that these bytes represent; `None` if they are not a map.
    pub fn from_bytes(bytes: &[u8; 128]) -> Option<TensorMap> {
        TensorMap::decode(bytes)?.ok()
    }

    /// The same. For a map that is illegal after fields were replaced, the reason; `None` if the bytes are not a map.
    pub(crate) fn decode(bytes: &[u8; 128]) -> Option<Result<TensorMap, TensorMapError>> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if bytes[..8] != *MAGIC || word(CHECKED) != checksum(&bytes[..CHECKED]) {
            return None;
        }
        let rank = usize::from(bytes[9]).min(MAX_RANK);
        let args = TensorMapArgs {
            data_type: bytes[8].into(),
            rank: bytes[9].into(),
            address: word(16),
            dims: (0..rank).map(|axis| word(24 + 8 * axis)).collect(),
            strides: (1..rank).map(|axis| word(56 + 8 * axis)).collect(),
            box_dims: (0..rank)
                .map(|axis| u16::from_le_bytes([bytes[96 + 2 * axis], bytes[97 + 2 * axis]]).into())
                .collect(),
            element_strides: (0..rank).map(|axis| bytes[106 + axis].into()).collect(),
            interleave: bytes[10].into(),
            swizzle: bytes[11].into(),
            l2_promotion: bytes[12].into(),
            oob_fill: bytes[13].into(),
        };
        Some(TensorMap::encode(&args))
    }
}

const MAGIC: &[u8; 8] = b"tensmap1";
/// Number of bytes before the checksum, which it covers.
const CHECKED: usize = 112;

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
