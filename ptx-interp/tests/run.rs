//! Common parts of all tests: memory, arguments, a launch, results.

use ptx_gemm_interp::{AllocationId, Arg, Launch, Memory, Options, Program, Region, Report, Violation, launch};

/// A program, and a memory to run it on.
pub struct Device {
    pub program: Program,
    pub memory: Memory,
    pub options: Options,
    /// The latest allocation.
    pub reserved: Option<AllocationId>,
}

impl Device {
    pub fn new(text: &str) -> Device {
        let program = Program::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Device { program, memory: Memory::new(), options: Options::default(), reserved: None }
    }

    /// Device pointer to a copy of the data.
    pub fn upload<T: Copy + Into<Scalar>>(&self, label: &str, data: &[T]) -> u64 {
        let bytes: Vec<u8> = data.iter().flat_map(|value| (*value).into().0).collect();
        self.memory.alloc_from(label, &bytes, 256).expect("fits").address
    }

    /// Device pointer to memory that was never written.
    pub fn reserve(&mut self, label: &str, bytes: u64) -> u64 {
        let allocation = self.memory.alloc(label, bytes, 256).expect("fits");
        self.reserved = Some(allocation.id);
        allocation.address
    }

    pub fn words(&self, address: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; count * 4];
        self.memory.read(address, &mut bytes).expect("inside");
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
    }

    pub fn launch(&self, grid: [u32; 3], block: [u32; 3], args: &[Arg]) -> Result<Report, Violation> {
        self.launch_counting(grid, block, args, &[])
    }

    /// Runs one warp of one of several entries.
    pub fn launch_entry(&self, entry: &str, args: &[Arg]) -> Result<Report, Violation> {
        let launch_ = Launch { entry, grid: [1; 3], block: [32, 1, 1], args, ..Launch::default() };
        launch(&self.program, &self.memory, &launch_, &self.options)
    }

    /// The same, with parts of shared memory that are counted separately.
    pub fn launch_counting(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
        regions: &[Region<'_>],
    ) -> Result<Report, Violation> {
        let entry = self.program.entries().next().expect("an entry");
        let launch_ = Launch { entry, grid, block, args, regions, ..Launch::default() };
        launch(&self.program, &self.memory, &launch_, &self.options)
    }
}

/// A value's bytes.
pub struct Scalar(Vec<u8>);

macro_rules! scalars {
    ($($ty:ty),*) => { $(impl From<$ty> for Scalar {
        fn from(value: $ty) -> Scalar { Scalar(value.to_le_bytes().into()) }
    })* };
}
scalars!(u8, u16, u32, u64, i32, i64, f32, f64);
