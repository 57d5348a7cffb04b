//! Counters for kernels with a cost that can be computed by hand.

use ptx_gemm_interp::{Arg, BufferCost, Cost, Counting, Direction, GlobalCost, Region, SharedCost, Traffic};

use crate::gemm_text::{Element, gemm};
use crate::run::Device;

/// Cost of one warp that runs `body`; `%t` is the lane, `%s` the address of 16 KiB of shared memory, `%in` a pointer to
/// 4 KiB at `offset` bytes after an aligned address.
fn cost(body: &str, offset: u64) -> Cost {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in) {{\n\
         .shared .align 128 .b8 tile[16384];\n.reg .b64 %rd<8>;\n.reg .b64 %in;\n.reg .b32 %r<8>;\n.reg .b32 %t;\n\
         .reg .b32 %s;\n.reg .pred %p<4>;\nld.param.u64 %in, [in];\nmov.u32 %t, %tid.x;\nmov.u32 %s, tile;\n{body}\nret;\n}}\n"
    );
    let mut device = Device::new(&text);
    device.options.counting = Counting::On;
    let allocation = device.memory.alloc_at_offset("in", 4096, offset).expect("fits");
    device.memory.write(allocation.address, &[1; 4096]).expect("inside");
    let report = device.launch([1; 3], [32, 1, 1], &[Arg::U64(allocation.address)]);
    report.unwrap_or_else(|violation| panic!("{violation}")).cost.expect("asked for")
}

#[test]
fn bank_conflicts() {
    // Name, code for the lane's byte offset, the store, its wavefronts, those without conflicts, and words.
    let table = [
        ("neighbours", "mul.lo.u32 %r0, %t, 4;", "st.shared.u32 [%r1], %t;", 1, 1, 32),
        ("a stride of two words", "mul.lo.u32 %r0, %t, 8;", "st.shared.u32 [%r1], %t;", 2, 1, 32),
        ("a stride of 32 words", "mul.lo.u32 %r0, %t, 128;", "st.shared.u32 [%r1], %t;", 32, 1, 32),
        ("a stride of 33 words", "mul.lo.u32 %r0, %t, 132;", "st.shared.u32 [%r1], %t;", 1, 1, 32),
        ("pairs", "mul.lo.u32 %r0, %t, 8;", "st.shared.v2.u32 [%r1], {%t, %t};", 2, 2, 64),
        ("quads", "mul.lo.u32 %r0, %t, 16;", "st.shared.v4.u32 [%r1], {%t, %t, %t, %t};", 4, 4, 128),
        ("quads, two rows apart", "mul.lo.u32 %r0, %t, 256;", "st.shared.v4.u32 [%r1], {%t, %t, %t, %t};", 32, 4, 128),
        ("bytes of eight words", "mov.u32 %r0, %t;", "st.shared.u8 [%r1], %t;", 1, 1, 8),
        (
            "eight lanes",
            "mul.lo.u32 %r0, %t, 16;\nsetp.lt.u32 %p0, %t, 8;",
            "@%p0 st.shared.v4.u32 [%r1], {%t, %t, %t, %t};",
            1,
            1,
            32,
        ),
    ];
    for (what, offset, store, wavefronts, ideal, words) in table {
        let cost = cost(&format!("{offset}\nadd.u32 %r1, %s, %r0;\n{store}"), 0);
        assert_eq!(cost.shared_stores, SharedCost { accesses: 1, wavefronts, ideal, words }, "{what}");
        assert_eq!(cost.shared_stores.conflicts(), wavefronts - ideal, "{what}");
    }
    // If an instruction runs several times, the access with the most conflicts is kept.
    let twice = "mov.u32 %r2, 4;\nagain:\nmul.lo.u32 %r0, %t, %r2;\nadd.u32 %r1, %s, %r0;\nst.shared.u32 [%r1], %t;\n\
                 bar.warp.sync -1;\nadd.u32 %r2, %r2, 4;\nsetp.le.u32 %p0, %r2, 12;\n@%p0 bra again;";
    let cost_of_loop = cost(twice, 0);
    let accesses: Vec<_> = cost_of_loop.shared_by_line.values().collect();
    let [access] = accesses[..] else { panic!("one instruction: {accesses:?}") };
    assert_eq!((access.way, access.bytes, access.cost), (Direction::Store, 4, cost_of_loop.shared_stores));
    assert_eq!((access.cost.accesses, access.cost.conflicts(), access.worst.conflicts()), (3, 1, 1));
    assert_eq!(access.worst.lanes, (0..32).map(|lane| (lane, 8 * lane as u32)).collect::<Vec<_>>());
    // One word for all lanes is broadcast.
    let broadcast =
        cost("setp.eq.u32 %p0, %t, 0;\n@%p0 st.shared.u32 [%s], 1;\nbar.sync 0;\nld.shared.u32 %r0, [%s];", 0);
    assert_eq!(broadcast.shared_loads, SharedCost { accesses: 1, wavefronts: 1, ideal: 1, words: 1 });
    assert_eq!(broadcast.barriers(), 1);
}

#[test]
fn global_sectors() {
    let table = [
        ("neighbours", 4, 0, 4, 4),
        ("neighbours, one element off", 4, 4, 5, 4),
        ("every other element", 8, 0, 8, 4),
        ("a column", 128, 0, 32, 4),
        ("one element for all", 0, 0, 1, 1),
    ];
    for (what, stride, offset, sectors, ideal) in table {
        let body = format!("mul.wide.u32 %rd0, %t, {stride};\nadd.u64 %rd1, %in, %rd0;\nld.global.u32 %r0, [%rd1];");
        let cost = cost(&body, offset);
        assert_eq!(cost.global_loads, GlobalCost { accesses: 1, sectors, ideal }, "{what}");
        let loads = GlobalCost { accesses: 1, sectors, ideal };
        let traffic = Traffic { read: 128, loads, ..Traffic::default() };
        assert_eq!(cost.traffic["in"], traffic, "{what}");
    }
}

#[test]
fn traffic_of_the_gemm_is_what_the_formula_says() {
    let (m, n, k) = (256, 128, 24u64);
    let mut device = Device::new(&gemm(Element::F32));
    device.options.counting = Counting::On;
    let a = device.upload("A", &vec![1f32; (m * k) as usize]);
    let b = device.upload("B", &vec![1f32; (k * n) as usize]);
    let d = device.reserve("D", m * n * 4);
    let args = [Arg::U64(a), Arg::U64(b), Arg::U64(d), Arg::U32(n as u32), Arg::U32(k as u32)];
    let grid = [n as u32 / 128, m as u32 / 128, 1];
    let mut run = |threads| {
        device.options.threads = Some(threads);
        let report = device.launch(grid, [256, 1, 1], &args);
        report.unwrap_or_else(|violation| panic!("{violation}"))
    };
    let report = run(1);
    assert_eq!(run(2), report, "for every number of host threads");
    let cost = report.cost.expect("asked for");
    let blocks = (m / 128) * (n / 128);
    // The CUDA SGEMM worklog: blocks x (block_m x block_k + block_n x block_k) x 4 bytes x (k / block_k).
    assert_eq!(cost.bytes_read(), blocks * (128 * 8 + 128 * 8) * 4 * (k / 8));
    assert_eq!(cost.bytes_written(), m * n * 4);
    assert_eq!(report.fma, m * n * k);
    assert_eq!(cost.mix.fma * 32, m * n * k);
    // 8 warps, k-steps of four 16-byte fragment loads.
    assert_eq!(cost.mix.load_shared, blocks * 8 * k * 4);
    assert_eq!(cost.barriers(), blocks * 8 * (k / 8));
    // The list by line is too long to read.
    let cost = Cost { shared_by_line: Default::default(), ..cost };
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_debug_snapshot!("cost_of_the_gemm", cost);
    });
}

#[test]
fn regions_of_shared_memory_are_counted_by_themselves() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {\n.shared .align 128 .b8 tile[8192];\n\
                .reg .b32 %r<8>;\nmov.u32 %r0, %tid.x;\nmul.lo.u32 %r1, %r0, 128;\nmov.u32 %r2, tile;\nadd.u32 %r3, %r1, %r2;\n\
                st.shared.u32 [%r3], %r0;\nst.shared.u32 [%r3+4096], %r0;\nld.shared.u32 %r4, [%r3+4096];\nret;\n}\n";
    let mut device = Device::new(text);
    device.options.counting = Counting::On;
    // Two slots of `As`, of which the second is used, and memory outside all regions.
    let regions = [("As", 64..128), ("As", 4096..8192), ("Bs", 128..256)].map(|(label, bytes)| Region { label, bytes });
    let report =
        device.launch_counting([1; 3], [32, 1, 1], &[], &regions).unwrap_or_else(|violation| panic!("{violation}"));
    let cost = report.cost.expect("asked for");
    let column = SharedCost { accesses: 1, wavefronts: 32, ideal: 1, words: 32 };
    assert_eq!(cost.buffers["As"], BufferCost { loads: column, stores: column });
    assert_eq!(cost.buffers["As"].conflicts(), 62);
    assert_eq!(cost.buffers["Bs"], BufferCost::default());
    assert_eq!(cost.shared_stores.accesses, 2);
}
