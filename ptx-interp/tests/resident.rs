//! Grids with more blocks than a GPU holds at once.

use ptx_gemm_interp::{Arg, BlockOrder, Launch, Options, Violation, ViolationKind, WarpOrder, launch};

use crate::run::Device;

/// Every block counts itself; those that `%p1` says poll until `%r2` blocks have.
fn run(polls: &str, grid: u32, cluster: u32, resident: Option<u32>, options: &Options) -> Result<(), Violation> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{
         .reg .b64 %out; .reg .b32 %r<8>; .reg .b32 %t; .reg .pred %p<4>;
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %r1;
         setp.ne.u32 %p0, %t, 0; @%p0 bra END;\n{polls}
         red.release.gpu.global.add.u32 [%out], 1;
         @!%p1 bra END;
         POLL: ld.acquire.gpu.global.u32 %r3, [%out];
         setp.lt.u32 %p2, %r3, %r2; @%p2 bra POLL;
         END: ret;\n}}\n"
    );
    let at = Device::new(&text);
    let out = at.upload("out", &[0u32; 1]);
    let args = [Arg::U64(out)];
    let (grid, block, cluster) = ([grid, 1, 1], [32, 1, 1], [cluster, 1, 1]);
    let what = Launch { entry: "k", grid, block, cluster, args: &args, resident, ..Launch::default() };
    launch(&at.program, &at.memory, &what, options)?;
    assert_eq!(at.words(out, 1), [grid[0]]);
    Ok(())
}

fn orders() -> Vec<Options> {
    let blocks = [BlockOrder::Forward, BlockOrder::Backward, BlockOrder::Interleaved, BlockOrder::Seeded(5)];
    let orders = [WarpOrder::Forward, WarpOrder::Late(3)];
    blocks.into_iter().flat_map(|blocks| orders.map(|order| Options { blocks, order, ..Options::default() })).collect()
}

const ALL: &str = "setp.eq.u32 %p1, %t, %t;";
const FIRST: &str = "setp.eq.u32 %p1, %r0, 0;";

#[test]
fn blocks_that_wait_for_blocks_that_cannot_start() {
    for options in orders() {
        // A barrier of the whole grid.
        for (grid, cluster, resident) in [(8, 1, Some(8)), (8, 1, None), (8, 2, Some(8)), (9, 1, Some(100))] {
            let fits = run(ALL, grid, cluster, resident, &options);
            fits.unwrap_or_else(|violation| panic!("{grid} of {resident:?}, {options:?}: {violation}"));
        }
        for (grid, cluster, resident) in [(8, 1, 7), (8, 1, 1), (8, 2, 6), (8, 2, 7), (100_000, 1, 5)] {
            let violation = run(ALL, grid, cluster, Some(resident), &options).expect_err("does not fit");
            assert_eq!(violation.kind, ViolationKind::Deadlock, "{violation}");
            let left = grid - resident / cluster * cluster;
            let told = format!("; {left} blocks of the grid have not started: the GPU holds {resident} at once");
            assert!(violation.message.contains(&told), "{violation}");
            assert!(violation.message.contains("waits for a change of 4 bytes"), "{violation}");
        }
        // The others exit, so all of them have their turn, unless no place is left for them.
        run(FIRST, 50, 1, Some(2), &options).unwrap_or_else(|violation| panic!("{options:?}: {violation}"));
    }
    let one = run(FIRST, 50, 1, Some(1), &Options::default()).expect_err("block 0 keeps the only place");
    assert_eq!(one.kind, ViolationKind::Deadlock);
}
