//! Tensor maps in global memory that a kernel modifies. TMA reads maps through the tensormap proxy: the writer has to
//! release its writes, and the user has to acquire them (PTX ISA, "membar / fence": `.proxykind::tensormap::generic`).

/// An acquire of the map at an address.
#[derive(Clone, Debug)]
pub(crate) struct Acquired {
    pub(crate) address: u64,
    pub(crate) thread: u16,
    /// The clock of its warp at that time.
    pub(crate) clock: u32,
    /// The acquired writes to the map: cluster, thread and clock of each writer.
    pub(crate) writers: Vec<(u32, u16, u32)>,
}
