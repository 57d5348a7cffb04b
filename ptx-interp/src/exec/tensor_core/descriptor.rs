//! Matrix descriptors: the place of an operand in shared memory (PTX ISA, "Matrix Descriptor Format" and "Strides").
//!
//! The operand consists of 16-byte pieces, each of eight elements along the dimension in which it is contiguous. With a
//! swizzle, rows as long as its span follow each other, eight rows form an atom, and the bits of the absolute address
//! permute the pieces within a row, as in tensor copies. Every combination below was run on an H200.
//!
//! | major, swizzle | next 8 m or n | next 8 k | within |
//! |---|---|---|---|
//! | K, any | stride offset | next 16 bytes of the row | rows of m or n, `span` apart |
//! | K, none | stride offset | leading offset | rows of m or n, 16 bytes apart |
//! | MN, any | next 16 bytes; leading offset after `span` bytes | stride offset | rows of k, `span` apart |
//! | MN, none | stride offset | leading offset | rows of k, 16 bytes apart |

use crate::op::Major;
use crate::tensor::Swizzle;

/// Bytes of a piece.
pub(super) const PIECE: u64 = 16;
/// Elements of a piece, and rows of an atom.
const EIGHT: u64 = 8;

/// A decoded descriptor; offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    swizzle: Swizzle,
}

impl Descriptor {
    /// Decodes the descriptor of an operand that is contiguous along `major` and has this many rows or columns.
    pub(super) fn decode(bits: u64, major: Major, lines: usize) -> Result<Descriptor, String> {
        let field = |first: u32| (bits >> first & 0x3fff) * PIECE;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        const UNUSED: u64 = 0x3ff1 << 48 | 0xc000 << 32 | 0xc000_c000;
        if bits & UNUSED != 0 {
            return Err(format!("sets bits {:#x}, which have no meaning", bits & UNUSED));
        }
        let base = bits >> 49 & 7;
        if base != 0 {
            return Err(format!("has the base offset {base}; only 0 is supported, for operands at whole atoms"));
        }
        let descriptor = Descriptor { start: field(0), leading: field(16), stride: field(32), swizzle };
        descriptor.starts_in_a_first_row(major, lines).map(|()| descriptor)
    }

    /// With a swizzle, the operand begins in the first row of an atom, and the part of each row that is read lies
    /// within the row.
    fn starts_in_a_first_row(&self, major: Major, lines: usize) -> Result<(), String> {
        let span = self.swizzle.span();
        if span == 0 {
            return Ok(());
        }
        let within = self.start % (EIGHT * span);
        let read = match major {
            Major::K => 2 * PIECE,
            Major::Mn => span.min(2 * lines as u64),
        };
        if within + read <= span {
            return Ok(());
        }
        Err(format!(
            "begins {within} bytes into an atom of {} bytes, from where {read} bytes reach beyond the first row of {span} bytes",
            EIGHT * span
        ))
    }

    /// Addresses of the pieces. With [`Major::K`] piece 2 i + c has row i and the c-th eight k; with [`Major::Mn`] piece
    /// 16 g + k has the g-th eight rows and k.
    pub(super) fn pieces(&self, major: Major, lines: usize) -> impl Iterator<Item = u64> + use<> {
        let Descriptor { start, leading, stride, swizzle } = *self;
        let span = swizzle.span();
        let count = 2 * lines as u64;
        (0..count).map(move |index| {
            let (line, k) = match major {
                Major::K => (index / 2, index % 2),
                Major::Mn => (index / 16, index % 16),
            };
            let distance = match (major, span) {
                (Major::K, 0) => line / EIGHT * stride + line % EIGHT * PIECE + k * leading,
                (Major::K, _) => line / EIGHT * stride + line % EIGHT * span + k * PIECE,
                (Major::Mn, 0) => line * stride + k / EIGHT * leading + k % EIGHT * PIECE,
                (Major::Mn, _) => {
                    let along = line * PIECE;
                    along / span * leading + along % span + k / EIGHT * stride + k % EIGHT * span
                }
            };
            swizzle.apply(start + distance)
        })
    }
}
