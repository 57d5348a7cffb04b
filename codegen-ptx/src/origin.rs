//! The origin of a statement: the clause that asked for it, what it does for that clause, and where the lowering wrote it.

/// A clause, a purpose and a site. This is the type of the notes in PTX, so that an origin is passed on unchanged.
pub use ptx_gemm_ptx::instruction::Note as Origin;

/// A place in the lowering that tools recognise, however its purpose is worded: `gemmc mutants` knows by it why an edit is not a
/// fault. Other places have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Site {
    /// The work tile of a block.
    WorkTile,
    /// Rows and columns from the first element of a tile to the end of D.
    LeftOfD,
    /// Whether a tile lies inside D.
    TileInside,
    /// In a group: whether the tiles of the next products end before this block's tile.
    EndOfProducts,
    /// In a group: from the last whole tile on, to the tile that `stream_k` divides.
    WalkOn,
    /// Tiles after the last whole wave.
    LeftOverTiles,
    /// The first work tile of a run.
    FirstWorkTile,
    /// The work tile that follows.
    NextWorkTile,
    /// K-tiles of a tile of D.
    KTilesOfTile,
    /// Whether blocks before this one have begun its first tile.
    BegunEarlier,
    /// The block whose sums are added next.
    BlockBefore,
    /// Whether one more block has begun the tile.
    AnotherBlock,
    /// The flag and the partial sums of another block.
    FlagOfBlock,
    /// The flag and the partial sums of this thread.
    FlagOfPart,

    /// The index of a thread in its role.
    ThreadOfRole,
    /// A barrier of the threads of a role; its clause says which.
    Meet,
    /// Whether K is 0.
    AnythingToSum,
    /// Whether a tile has more columns than a narrower one.
    WiderThan,
    /// What has to be left of K for a copy without guards.
    KNeeded,
    /// Whether the next K-tile lies inside.
    KTileInside,
    /// On to the next K-tile to copy.
    NextKTile,
    /// The plane of an operand in a pair.
    PlaneOfPair,

    /// Which of two ways of copying a K-tile is taken.
    CopyPath,
    /// The address of what a thread copies.
    PartToCopy,
    /// How many elements of a chunk lie inside.
    ChunkInside,
    /// Whether one element of a chunk lies inside.
    ElementInside,
    /// A zero for an element that lies outside.
    ZeroElement,
    /// A copy of one element.
    CopiedElement,
    /// An asynchronous copy of a chunk, and of zeros where it lies outside.
    ZeroChunk,

    /// The first slots of a ring.
    FirstSlots,
    /// No slot is kept yet that is returned one K-tile later.
    NoSlotKept,
    /// Returns the slot before this one.
    PreviousSlotRead,
    /// Returns the slot that was kept.
    LastSlotRead,
    /// Returns a slot.
    SlotRead,
    /// The last slot holds a part of D.
    LastSlotLent,
    /// On to the next slot to read.
    NextSlot,
    /// On to the next slot to fill.
    NextSlotToFill,
    /// The slot after the K-tiles of other warp groups.
    SlotAfterOthers,

    /// The address of a thread's fragments in the first slot.
    PartOfFirstSlot,
    /// The same in any slot.
    PartOfSlot,
    /// The same in global memory, without a slot.
    PartInGlobal,
    /// Steps of K in one round of the loop.
    Rounds,
    /// What is left of K after a round.
    KAfterRound,
    /// On to the next steps of K.
    NextSteps,
    /// A fragment from global memory.
    LoadStep,
    /// An operand that each product reads again.
    Reload,
    /// The row of a matrix whose address a lane gives to `ldmatrix`.
    RowOfMatrix,
    /// The descriptor of an operand in a slot.
    Descriptor,
    /// A product of fragments.
    Product,
    /// The same of fragments that were converted to a wider type.
    WidenedProduct,
    /// A product of tensor cores.
    TensorCoreProduct,
    /// A wait for products of a warp group.
    RetireProducts,
    /// Accumulators set to 0.
    ClearAccumulators,

    /// The address of a thread's elements of C.
    PartOfC,
    /// The same of D.
    PartOfD,
    /// The same of a vector of the epilogue.
    PartOfVector,
    /// Which of two ways of storing is taken.
    StorePath,
    /// Which elements of all lines lie inside.
    ElementsInside,
    /// Which elements of one line lie inside.
    LineInside,
    /// Elements of C.
    LoadC,
    /// Elements of C that were staged.
    LoadStagedC,
    /// Matrices of C that were staged.
    LoadMatricesOfC,
    /// An element of a vector of the epilogue.
    LoadVector,
    /// The value of an element of D.
    ValueOfD,
    /// Stores elements of D.
    StoreElement,
    /// A place in the staged tile of D.
    StagedTile,
    /// The line of a matrix whose address a lane gives to `stmatrix`.
    LineOfMatrix,
    /// The first part of the staged tile that a thread copies to D.
    FirstPart,
    /// A part of a line of the staged tile, copied to D.
    CopyLine,

    /// In an exchange of sums: whether the lines of a share lie inside.
    LinesInside,
    /// Zeros for lines that are not read.
    UnreadLines,
    /// The sums of another block.
    SumsOfPart,

    /// Whether a tile to pack is read in whole vectors.
    WholeVectors,
    /// Whether it is read in the aligned vectors around its rows.
    AroundPath,
    /// Reads these vectors.
    ReadAround,
    /// Cuts a thread's vectors out of them.
    CutAround,
    /// Reads single elements to pack.
    PackElements,
    /// Zeros for elements that lie outside.
    PackedZeros,
    /// The vectors of the copy that a thread writes.
    PackedVectors,
    /// Whether such a vector lies inside.
    VectorInside,
    /// The scale of each vector.
    ScalesOfVectors,
    /// The largest magnitude of a part of a line.
    LargestMagnitude,
    /// The same in shared memory.
    LeaveLargest,
    /// The largest magnitude of a line.
    LargestOfLine,
    /// The scale of a line and its inverse.
    Scale,
    /// Scales for the epilogue.
    LoadScales,
    /// Sums multiplied by inverse scales.
    UndoScales,
}
