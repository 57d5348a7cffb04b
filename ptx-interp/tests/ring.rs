//! The common frame of kernels with rings in shared memory, and running them under every order of warps.

use ptx_gemm_interp::{Arg, Checks, Counting, Options, Severity, Violation, ViolationKind, WarpOrder};

use crate::run::Device;

pub const ORDERS: [WarpOrder; 7] = [
    WarpOrder::RunToBarrier,
    WarpOrder::Forward,
    WarpOrder::Backward,
    WarpOrder::Seeded(7),
    WarpOrder::Seeded(1 << 40),
    WarpOrder::Late(1),
    WarpOrder::Late(2),
];

/// Words at `%in`: 1, 2, 3 and so on.
const INPUT: u32 = 1024;

const DECLARATIONS: &str = ".shared .align 8 .b64 full[3];\n.shared .align 8 .b64 empty[3];
    .shared .align 16 .b8 ring[768];\n.shared .align 8 .b64 spare; .shared .align 16 .b8 scratch[256];
    .reg .b64 %rd<16>;\n.reg .b64 %in;\n.reg .b64 %out;\n.reg .b32 %r<24>;\n.reg .b32 %t;\n.reg .b16 %h<4>;\n\
    .reg .f32 %f<4>;\n.reg .pred %p<8>;";

/// Advances `%out` to the block's own words.
const OWN_WORDS: &str = ".reg .b32 %c<2>;.reg .b64 %own; mov.u32 %c0, %ctaid.x; mov.u32 %c1, %ntid.x; \
    mul.lo.u32 %c0, %c0, %c1; mul.wide.u32 %own, %c0, 4; add.u64 %out, %out, %own; ";

/// The kernel with this body. `%in` and `%out` hold addresses, `%out` that of the block's own words, and `%t` the
/// thread's index.
pub fn text(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         {DECLARATIONS}\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n{OWN_WORDS}mov.u32 %t, %tid.x;\n{body}\nret;\n}}\n"
    )
}

/// Runs it on two identical blocks, so that they can run on two host threads.
pub fn run(body: &str, block: u32, options: Options) -> Result<Vec<u32>, Violation> {
    let mut device = Device::new(&text(body));
    device.options = options;
    let input = device.upload("in", &(1..=INPUT).collect::<Vec<u32>>());
    let out = device.upload("out", &vec![0u32; 2 * block as usize]);
    device.launch([2, 1, 1], [block, 1, 1], &[Arg::U64(input), Arg::U64(out)])?;
    let mut words = device.words(out, 2 * block as usize);
    let second = words.split_off(block as usize);
    assert_eq!(words, second, "the two blocks differ");
    Ok(words)
}

pub fn everywhere(checks: &[Checks], mut f: impl FnMut(Options)) {
    for &order in &ORDERS {
        for &checks in checks {
            for threads in [1, 2] {
                let max_instructions = Some(100_000);
                f(Options { checks, order, threads: Some(threads), max_instructions, ..Options::default() });
            }
        }
    }
}

/// Checks that the results are as expected, under every order, with and without checks.
pub fn check(name: &str, body: &str, block: u32, want: &[u32]) {
    everywhere(&[Checks::Full, Checks::Off], |options| match run(body, block, options) {
        Ok(words) => assert_eq!(words, want, "{name} ({options:?})"),
        Err(violation) => panic!("{name} ({options:?}): {violation}"),
    });
    // Counting also tracks copies, but reports nothing.
    let options = Options { checks: Checks::Off, counting: Counting::On, ..Options::default() };
    assert_eq!(run(body, block, options).as_deref(), Ok(want), "{name}, counted");
}

/// Checks that the fault is found under every order.
pub fn check_found(name: &str, kinds: &[ViolationKind], body: &str, block: u32) {
    found(name, kinds, body, block, |_, _| {});
}

/// Checks that the fault is found under every order. The report under the first one is a snapshot.
pub fn check_broken(name: &str, kinds: &[ViolationKind], body: &str, block: u32) {
    found(name, kinds, body, block, |options, violation| {
        if options.order == WarpOrder::RunToBarrier && options.threads == Some(1) {
            insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
                insta::assert_snapshot!(name, violation.to_string());
            });
        }
    });
}

fn found(name: &str, kinds: &[ViolationKind], body: &str, block: u32, seen: impl Fn(Options, &Violation)) {
    everywhere(&[Checks::Full], |options| {
        let options = Options { wide_parity: Severity::Deny, ..options };
        let Err(violation) = run(body, block, options) else { panic!("{name} ({options:?}): nothing was found") };
        assert!(kinds.contains(&violation.kind), "{name} ({options:?}): {violation}");
        seen(options, &violation);
    });
}

/// Replaces a line that occurs exactly once.
pub fn mutate(body: &str, from: &str, to: &str) -> String {
    assert_eq!(body.matches(from).count(), 1, "`{from}` in\n{body}");
    body.replace(from, to)
}

/// Replaces a wait that is omitted.
pub const PASS: &str = "setp.eq.u32 %p2, %t, %t;";

pub const STORE: &str = "mul.wide.u32 %rd0, %t, 4;\nadd.u64 %rd0, %out, %rd0;\nst.global.u32 [%rd0], %r0;";

/// Initialises the barriers of all three stages; `%r1` is the ring, `%r2` `full`, `%r3` `empty`, `%r0` the sum.
pub fn prologue(arrivals: u32) -> String {
    let init = (0..3).map(|stage| {
        format!(
            "@%p0 mbarrier.init.shared::cta.b64 [full+{0}], {arrivals};
             @%p0 mbarrier.init.shared::cta.b64 [empty+{0}], {arrivals};\n",
            8 * stage
        )
    });
    format!(
        "mov.u32 %r0, 0;\nmov.u32 %r1, ring;\nmov.u32 %r2, full;\nmov.u32 %r3, empty;\nsetp.eq.u32 %p0, %t, 0;\n\
         {}@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0; // init\n",
        init.collect::<String>()
    )
}

/// The stage, the addresses of its barriers and its parity, from the step in `%r4`: `%r5` ring, `%r6` full, `%r7`
/// empty, `%r8` parity, `%r9` its opposite.
pub const STAGE: &str = "div.u32 %r8, %r4, 3;
    mul.lo.u32 %r10, %r8, 3;
    sub.u32 %r10, %r4, %r10;
    mad.lo.u32 %r5, %r10, 256, %r1;
    mad.lo.u32 %r6, %r10, 8, %r2;
    mad.lo.u32 %r7, %r10, 8, %r3;
    and.b32 %r8, %r8, 1;
    xor.b32 %r9, %r8, 1;\n";
