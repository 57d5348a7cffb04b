//! Wrong arguments of a launch: the argument, its value, and the limit.

use std::ops::Range;

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{DType, Layout};

use crate::view::Strides;

/// A wrong argument of a launch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The element type is not the schedule's.
    #[error("{} has elements of type {got}, the schedule says {} = {expected}", .operand.upper(), .operand.lower())]
    Type {
        /// Which matrix.
        operand: OperandName,
        /// Type of its elements.
        got: DType,
        /// Type in the schedule.
        expected: DType,
    },
    /// The result would have the element type of A, but the schedule specifies another one.
    #[error(
        "D has elements of type {expected} in the schedule, and `{method}` gives those of A, {got}: `{method}_as::<{}>`",
        element_type(*.expected)
    )]
    ResultType {
        /// `multiply` or `multiply_batch`.
        method: &'static str,
        /// Type of the elements of A.
        got: DType,
        /// Type of D in the schedule.
        expected: DType,
    },
    /// A matrix of another library with strides that a leading dimension cannot express.
    #[error("{}{strides}", .operand.map_or(String::new(), |operand| format!("{}: ", operand.upper())))]
    Strides {
        /// The matrix of a product.
        operand: Option<OperandName>,
        /// Its extents and strides.
        strides: Strides,
    },
    /// The layout is not the schedule's.
    #[error(
        "{} is {got} major, the schedule says layout({} = {expected}); Matrix::to_layout converts",
        .operand.upper(), .operand.lower()
    )]
    Layout {
        /// Which matrix.
        operand: OperandName,
        /// Its layout.
        got: Layout,
        /// Layout in the schedule.
        expected: Layout,
    },
    /// Extents that do not fit together.
    #[error("{} is {} x {}, {expected}", .operand.upper(), .got.0, .got.1)]
    Extents {
        /// Which matrix.
        operand: OperandName,
        /// Its rows and columns.
        got: (usize, usize),
        /// The expected extents, and why.
        expected: String,
    },
    /// The number of matrices differs from the number of products of the schedule, or from that of the other operands.
    #[error("{} is {got} matrices, {expected} are needed{}", .operand.upper(),
        if *.expected == 1 { "; batch(strided) computes many products" } else { "" })]
    Batch {
        /// Which operand.
        operand: OperandName,
        /// The number of its matrices.
        got: usize,
        /// The number of products.
        expected: usize,
    },
    /// Matrices of D that overlap each other.
    #[error("D's matrices are {got} elements apart, each takes {minimum}")]
    BatchStride {
        /// Elements from one to the next.
        got: usize,
        /// Elements of one.
        minimum: usize,
    },
    /// A workspace that is too small, or misaligned.
    #[error("the workspace is {got} bytes at {address:#x}, {needed} bytes at a multiple of {alignment} are needed")]
    Workspace {
        /// Its bytes.
        got: u64,
        /// Its address.
        address: u64,
        /// Bytes that this product needs.
        needed: u64,
        /// The required alignment of its address, in bytes.
        alignment: u64,
    },
    /// A workspace would have to be allocated while a graph is recorded.
    #[error(
        "the stream is recording a graph, and this product needs a workspace of {needed} bytes: workspace(…) passes one"
    )]
    WorkspaceInCapture {
        /// Bytes that this product needs.
        needed: u64,
    },
    /// A list of products would be copied into a graph while it is recorded.
    #[error(
        "the stream is recording a graph, and the list of products would be copied from memory that the graph does not keep: \
         prepare_group(…) writes it once"
    )]
    ListInCapture,
    /// A matrix in the memory of another device.
    #[error("{} is in the memory of {got}, and the kernel is on {expected}", .operand.upper())]
    OtherDevice {
        /// Which matrix.
        operand: OperandName,
        /// The matrix's device.
        got: String,
        /// The kernel's device.
        expected: String,
    },
    /// A vector in the memory of another device.
    #[error("the vector `{name}` is in the memory of {got}, and the kernel is on {expected}")]
    VectorOnOtherDevice {
        /// Its name in the epilogue.
        name: String,
        /// The vector's device.
        got: String,
        /// The kernel's device.
        expected: String,
    },
    /// A copy of a matrix in page-locked memory would be recorded into a graph.
    #[error(
        "the stream is recording a graph, and a graph cannot contain a copy of a pinned matrix: nothing would keep the host from \
         its memory while the graph runs"
    )]
    PinnedInCapture,
    /// A copy between matrices of different types or shapes.
    #[error("{host} on the host, {device} on the device: a copy is between equal types and shapes")]
    NotAlike {
        /// The host's matrix.
        host: String,
        /// The device's.
        device: String,
    },
    /// An extent that is too large for kernels.
    #[error("{name} = {got} is above {limit}, the largest extent")]
    ExtentTooLarge {
        /// `M`, `N`, `K` or `batch`.
        name: &'static str,
        /// The extent.
        got: usize,
        /// The largest.
        limit: u32,
    },
    /// A leading dimension below the length of a row or column.
    #[error("ld{} = {got} is too small: {} is {layout} major with {minimum} elements to a {layout}, so ld{} is at least {minimum}",
        .operand.lower(), .operand.upper(), .operand.lower())]
    LeadingDimension {
        /// Which matrix.
        operand: OperandName,
        /// The leading dimension.
        got: usize,
        /// The smallest possible.
        minimum: usize,
        /// Its layout.
        layout: Layout,
    },
    /// A slice that is shorter than the matrix.
    #[error("the slice of {} has {got} elements, {rows} x {cols} with ld{} = {ld} needs {needed}",
        .operand.upper(), .operand.lower())]
    TooShort {
        /// Which matrix.
        operand: OperandName,
        /// Elements in the slice.
        got: u64,
        /// Elements needed; `u64::MAX` if they cannot be counted.
        needed: u64,
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Leading dimension.
        ld: usize,
    },
    /// A slice with a length that does not match the matrix.
    #[error(
        "a slice of {got} elements is not a matrix of {rows} x {cols} with a leading dimension of {ld}, which has {needed}"
    )]
    NoMatrix {
        /// Elements in the slice.
        got: usize,
        /// Elements needed; `usize::MAX` if they cannot be counted.
        needed: usize,
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Leading dimension.
        ld: usize,
    },
    /// A device pointer that is not a multiple of the element size.
    #[error("the pointer of {name}, {address:#x}, is not a multiple of its element size, {bytes} bytes")]
    Pointer {
        /// `A`, `B`, `C`, `D` or a vector's name.
        name: String,
        /// The pointer.
        address: u64,
        /// Bytes of an element.
        bytes: u32,
    },
    /// A matrix that ends past the end of the address space.
    #[error("{name} reaches past the end of the address space: {elements} elements from {address:#x}")]
    AddressSpace {
        /// `A`, `B`, `C`, `D` or a vector's name.
        name: String,
        /// The pointer.
        address: u64,
        /// Elements; `u64::MAX` if they cannot be counted.
        elements: u64,
    },
    /// D overlaps an input.
    #[error(
        "D (bytes {:#x}..{:#x}) overlaps {name} (bytes {:#x}..{:#x}); only C may be D, as the very same matrix",
        .d.start, .d.end, .input.start, .input.end
    )]
    Overlap {
        /// The input.
        name: String,
        /// Bytes of D.
        d: Range<u64>,
        /// Bytes of the input.
        input: Range<u64>,
    },
    /// The epilogue reads C, but none was given.
    #[error("the epilogue reads c, and no C was given")]
    MissingC,
    /// C was given, but the epilogue does not read it.
    #[error("a C was given, and the epilogue does not read c: {epilogue}")]
    UnusedC {
        /// The epilogue as written.
        epilogue: String,
    },
    /// C was given, and the product is in place.
    #[error("C is given twice: a product in place takes it from D, leave c(…) out")]
    TwoCs,
    /// C is D, but their types or layouts in the schedule differ.
    #[error("C cannot be D in place: the schedule has c = {c}, d = {d}")]
    NotInPlace {
        /// Type and layout of C.
        c: String,
        /// Type and layout of D.
        d: String,
    },
    /// A scalar of the epilogue has no value.
    #[error("the epilogue's scalar `{name}` has no value; set(\"{name}\", …)")]
    MissingScalar {
        /// Its name.
        name: String,
    },
    /// A value for a scalar that the epilogue does not have.
    #[error("the epilogue has no scalar `{name}` ({known})")]
    UnknownScalar {
        /// The name given.
        name: String,
        /// The known ones, in words.
        known: String,
    },
    /// A scalar that the accumulator's type cannot hold.
    #[error("scalar `{name}` = {value:?} is not a value of type {dtype}, in which the epilogue computes")]
    ScalarValue {
        /// Its name.
        name: String,
        /// The value given.
        value: f64,
        /// The accumulator's type.
        dtype: DType,
    },
    /// A vector of the epilogue was not given.
    #[error("the epilogue's vector `{name}` was not given; vector(\"{name}\", …)")]
    MissingVector {
        /// Its name.
        name: String,
    },
    /// A vector that the epilogue does not have.
    #[error("the epilogue has no vector `{name}` ({known})")]
    UnknownVector {
        /// The name given.
        name: String,
        /// The known ones, in words.
        known: String,
    },
    /// A vector of the wrong length.
    #[error("vector `{name}` has {got} elements, {axis} = {expected} are needed")]
    VectorLength {
        /// Its name.
        name: String,
        /// Its length.
        got: usize,
        /// `M` or `N`.
        axis: &'static str,
        /// The length needed.
        expected: usize,
    },
    /// A vector with elements of a type other than the accumulator's.
    #[error("vector `{name}` has elements of type {got}, the epilogue computes in {expected}")]
    VectorType {
        /// Its name.
        name: String,
        /// Type of its elements.
        got: DType,
        /// The accumulator's type.
        expected: DType,
    },
    /// `tail(none)` and a size that does not divide.
    #[error(
        "{name} = {got} is not a multiple of {tile}, and the schedule says tail(none); tail(predicate) takes any size"
    )]
    Tail {
        /// `M`, `N` or `K`.
        name: &'static str,
        /// The extent.
        got: usize,
        /// The tile's extent.
        tile: u32,
    },
    /// Every entry has a requirement that the operands do not meet.
    #[error("no entry suits these operands: {}", in_words(.entries))]
    NoEntry {
        /// What the operands lack for each of them.
        entries: Vec<Refusal>,
    },
    /// A group needs the same number of A and B.
    #[error("{a} matrices A and {b} matrices B: each product has one of each")]
    GroupCount {
        /// The number of A.
        a: usize,
        /// The number of B.
        b: usize,
    },
    /// Experts with more rows than the matrix of their tokens, or of their results.
    #[error("the experts have {needed} rows, A has {a} and D has {d}")]
    ExpertRows {
        /// Rows of all experts.
        needed: usize,
        /// Rows of A.
        a: usize,
        /// Rows of D.
        d: usize,
    },
    /// A product of a group has a wrong argument.
    #[error("product {index}: {error}")]
    InProduct {
        /// Its index in the group.
        index: usize,
        /// What is wrong with it.
        error: Box<ArgumentError>,
    },
    /// D of one product of a group overlaps a matrix or vector of another one.
    #[error(
        "D of product {index} (bytes {:#x}..{:#x}) overlaps {name} of product {other} (bytes {:#x}..{:#x}), and the products \
         of a group are computed in no order",
        .d.start, .d.end, .input.start, .input.end
    )]
    OverlapInGroup {
        /// Index of the product that the D belongs to.
        index: usize,
        /// Bytes of that D.
        d: Range<u64>,
        /// Index of the other product.
        other: usize,
        /// The other matrix or vector.
        name: String,
        /// Its bytes.
        input: Range<u64>,
    },
    /// The products of a group have more tiles than a grid can count.
    #[error("{products} products have {tiles} tiles, at most {limit} are possible in one launch")]
    GroupTiles {
        /// The number of products.
        products: usize,
        /// Tiles of D of all of them.
        tiles: u64,
        /// The maximum.
        limit: u64,
    },
    /// Many products for a schedule that computes one, or equal ones.
    #[error("{products} products, and the schedule computes {batch}; batch(grouped) computes products of any extents")]
    NoGroup {
        /// The number of products.
        products: usize,
        /// What the schedule computes.
        batch: String,
    },
    /// A list in device memory that is not aligned to the size of a record.
    #[error("the list of products at {address:#x} is not at a multiple of {bytes} bytes")]
    ListAddress {
        /// Its address.
        address: u64,
        /// The required alignment.
        bytes: u32,
    },
    /// A list of products with unknown alignments, and no entry that takes any alignment.
    #[error(
        "no entry suits a list from device memory: those without tensor maps require alignments or extents of its products, \
         and nothing is stated about them"
    )]
    ListEntry,
    /// The grid would need more blocks than possible.
    #[error("{m} x {n} in tiles of {tile_m} x {tile_n} is work for {blocks} blocks, a grid has at most {limit}")]
    Grid {
        /// Rows of D.
        m: usize,
        /// Columns of D.
        n: usize,
        /// Rows of a tile.
        tile_m: u32,
        /// Columns of a tile.
        tile_n: u32,
        /// Blocks needed.
        blocks: u64,
        /// The maximum number of blocks.
        limit: u64,
    },
}

impl From<Strides> for ArgumentError {
    fn from(strides: Strides) -> ArgumentError {
        ArgumentError::Strides { operand: None, strides }
    }
}

impl ArgumentError {
    /// The error about the strides of `operand`.
    pub(crate) fn strides(operand: Operand) -> impl Fn(Strides) -> ArgumentError {
        move |strides| ArgumentError::Strides { operand: Some(OperandName(operand)), strides }
    }
}

/// The Rust type that holds elements of `dtype`.
fn element_type(dtype: DType) -> &'static str {
    if dtype == DType::Tf32 { "f32" } else { dtype.name() }
}

/// Why an entry does not accept these operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The entry.
    pub entry: String,
    /// Each operand or extent that fails a requirement of the entry, and the requirement.
    pub reasons: Vec<String>,
}

fn in_words(entries: &[Refusal]) -> String {
    let words = |Refusal { entry, reasons }: &Refusal| format!("`{entry}`: {}", reasons.join(", "));
    entries.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// A matrix of the problem, by its name in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandName(pub Operand);

impl OperandName {
    /// `A`, `B`, `C`, `D`: the matrix.
    pub fn upper(self) -> &'static str {
        match self.0 {
            Operand::A => "A",
            Operand::B => "B",
            Operand::C => "C",
            Operand::D => "D",
        }
    }

    /// `a`, `b`, `c`, `d`: the key in clauses, and the letter in `lda`.
    pub fn lower(self) -> &'static str {
        self.0.name()
    }
}
