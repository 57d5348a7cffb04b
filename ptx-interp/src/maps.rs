//! Tensor maps in global memory that a kernel modifies. TMA reads maps through the tensormap proxy: what threads wrote has
//! to be released by the writer and acquired by the user (PTX ISA, "membar / fence": `.proxykind::tensormap::generic`).

/// An acquire of the map at an address.
#[derive(Clone, Debug)]
pub(crate) struct Acquired {
    pub(crate) address: u64,
    pub(crate) thread: u16,
    /// The clock of its warp then.
    pub(crate) clock: u32,
    /// The writers of the map whose writes it acquired: cluster, thread and clock.
    pub(crate) writers: Vec<(u32, u16, u32)>,
}
