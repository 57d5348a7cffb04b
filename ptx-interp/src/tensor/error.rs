//! Errors in the arguments of a tensor map.

/// Why the arguments do not describe a tensor map. Axis 0 is the innermost dimension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum TensorMapError {
    #[error("data type {0} does not exist on compute capability 9.0")]
    DataType(u32),
    #[error("interleave {0} does not exist")]
    Interleave(u32),
    #[error("swizzle {0} does not exist on compute capability 9.0")]
    Swizzle(u32),
    #[error("L2 promotion {0} does not exist")]
    L2Promotion(u32),
    #[error("out-of-bounds fill {0} does not exist")]
    OobFill(u32),
    #[error("only floats can be filled with NaN")]
    FillOfIntegers,
    #[error("the rank is {rank}, and must be {least} to 5 here")]
    Rank { rank: u32, least: u32 },
    #[error("{given} values were given for {rank} dimensions")]
    Lengths { rank: u32, given: usize },
    #[error("the address {address:#x} is not a multiple of {align} below 2^57")]
    Address { address: u64, align: u64 },
    #[error("dimension {axis} has {dim} elements, and must have 1 to 2^32")]
    Dim { axis: usize, dim: u64 },
    #[error("the stride of dimension {axis}, {stride} bytes, is not a multiple of {align} below 2^40")]
    Stride { axis: usize, stride: u64, align: u64 },
    #[error("the box has {size} elements along dimension {axis}, and must have 1 to 256")]
    Box { axis: usize, size: u32 },
    #[error("the element stride of dimension {axis} is {stride}, and must be 1 to 8")]
    ElementStride { axis: usize, stride: u32 },
    #[error("a row of the box has {bytes} bytes, which is not a multiple of 16")]
    BoxInner { bytes: u64 },
    #[error("a row of the box has {bytes} bytes, which exceeds the swizzle's span of {span}")]
    BoxSpan { bytes: u64, span: u64 },
    #[error("the box has {bytes} bytes, and the limit is {most}")]
    BoxTotal { bytes: u64, most: u64 },
}
