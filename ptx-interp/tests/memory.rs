//! Global memory from the host's side, and launches that share it.

use ptx_gemm_interp::{Arg, Launch, Memory, MemoryError, Options, Program, launch};

#[test]
fn bytes_come_back_from_any_address() {
    let memory = Memory::new();
    for offset in [0, 1, 2, 3, 4, 7, 31, 255] {
        let data: Vec<u8> = (0..100).map(|i| i as u8 ^ 0x5a).collect();
        let allocation = memory.alloc_at_offset("data", 100, offset).expect("fits");
        assert_eq!(allocation.address % 256, offset);
        memory.write(allocation.address, &data).expect("inside");
        for start in 0..40 {
            let mut back = vec![0; 60 - start];
            memory.read(allocation.address + start as u64, &mut back).expect("inside");
            assert_eq!(back, data[start..60], "offset {offset}, from {start}");
        }
    }
}

#[test]
fn unwritten_bytes_are_known() {
    let memory = Memory::new();
    let allocation = memory.alloc_at_offset("data", 200, 3).expect("fits");
    let at = allocation.address;
    assert_eq!(memory.first_unwritten(at, 200), Ok(Some(at)));
    memory.write(at, &[1; 77]).expect("inside");
    memory.write(at + 78, &[1; 122]).expect("inside");
    assert_eq!(memory.first_unwritten(at, 200), Ok(Some(at + 77)));
    memory.write(at + 77, &[1]).expect("inside");
    assert_eq!(memory.first_unwritten(at, 200), Ok(None));
}

#[test]
fn the_host_is_held_to_bounds_too() {
    let memory = Memory::new();
    let allocation = memory.alloc("data", 16, 256).expect("fits");
    let mut byte = [0];
    let error = memory.read(allocation.address + 16, &mut byte).expect_err("past the end");
    assert!(matches!(error, MemoryError::OutOfBounds { .. }), "{error}");
    assert!(memory.write(allocation.address + 8, &[0; 9]).is_err());
    memory.free(allocation.id).expect("live");
    assert!(memory.read(allocation.address, &mut byte).is_err());
    assert_eq!(memory.free(allocation.id), Err(MemoryError::NoSuchAllocation));
    assert_eq!(memory.set_write_once(allocation.id), Err(MemoryError::NoSuchAllocation));
}

const WRITE_NUMBER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {
    .reg .b64 %rd<4>;
    .reg .b32 %r<32>;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    mov.u32 %r2, %tid.z;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %ntid.y;
    mov.u32 %r5, %ntid.z;
    mov.u32 %r6, %ctaid.x;
    mov.u32 %r7, %ctaid.y;
    mov.u32 %r8, %ctaid.z;
    mov.u32 %r9, %nctaid.x;
    mov.u32 %r10, %nctaid.y;
    mad.lo.u32 %r11, %r2, %r4, %r1;
    mad.lo.u32 %r11, %r11, %r3, %r0;
    mad.lo.u32 %r12, %r8, %r10, %r7;
    mad.lo.u32 %r12, %r12, %r9, %r6;
    mul.lo.u32 %r13, %r3, %r4;
    mul.lo.u32 %r13, %r13, %r5;
    mad.lo.u32 %r14, %r12, %r13, %r11;
    mul.wide.u32 %rd1, %r14, 4;
    add.u64 %rd1, %rd0, %rd1;
    st.global.u32 [%rd1], %r14;
}";

fn numbers(program: &Program, memory: &Memory, grid: [u32; 3], block: [u32; 3]) {
    let count: u32 = grid.iter().chain(&block).product();
    let out = memory.alloc("out", u64::from(count) * 4, 4).expect("fits");
    memory.set_write_once(out.id).expect("live");
    let args = [Arg::U64(out.address)];
    let what = Launch { entry: "k", grid, block, args: &args, ..Launch::default() };
    launch(program, memory, &what, &Options::default()).unwrap_or_else(|violation| panic!("{violation}"));
    let mut bytes = vec![0; count as usize * 4];
    memory.read(out.address, &mut bytes).expect("inside");
    let words = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    assert!(words.eq(0..count), "{grid:?} {block:?}");
}

#[test]
fn three_dimensions() {
    let program = Program::from_text(WRITE_NUMBER).expect("right");
    for (grid, block) in
        [([3, 2, 4], [5, 3, 2]), ([1, 7, 1], [1, 33, 1]), ([1, 1, 2], [1, 1, 64]), ([2, 1, 1], [1024, 1, 1])]
    {
        numbers(&program, &Memory::new(), grid, block);
    }
}

#[test]
fn many_threads_share_a_program_and_a_memory() {
    let (program, memory) = (Program::from_text(WRITE_NUMBER).expect("right"), Memory::new());
    std::thread::scope(|scope| {
        for index in 0..8 {
            let (program, memory) = (&program, &memory);
            scope.spawn(move || (0..20).for_each(|_| numbers(program, memory, [index + 1, 2, 1], [48, 1, 1])));
        }
    });
}
