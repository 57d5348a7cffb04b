//! The common frame of kernels with asynchronous copies, which runs them under every order of warps and every landing.

use ptx_gemm_interp::{
    Arg, BlockOrder, Checks, Landing, Launch, Memory, Options, Program, Report, Severity, Violation, ViolationKind,
    WarpOrder, launch,
};

/// Orders of warps and landings: all values of each, combined with some of the other.
pub fn runs() -> Vec<Options> {
    let orders = [WarpOrder::RunToBarrier, WarpOrder::Forward, WarpOrder::Backward, WarpOrder::Seeded(3)];
    let landings = [Landing::Latest, Landing::Earliest, Landing::Seeded(5), Landing::Seeded(1 << 33)];
    let options = |(order, landing)| Options {
        order,
        landing,
        threads: Some(1),
        max_instructions: Some(400_000),
        ..Options::default()
    };
    orders.iter().flat_map(|order| landings.map(|landing| options((*order, landing)))).collect()
}

/// The same with several orders of blocks.
pub fn runs_of_blocks() -> Vec<Options> {
    let blocks = [BlockOrder::Forward, BlockOrder::Backward, BlockOrder::Interleaved, BlockOrder::Seeded(9)];
    runs().iter().flat_map(|options| blocks.map(|blocks| Options { blocks, ..*options })).collect()
}

/// A kernel with parameters `in` and `out`, two maps, four shared buffers of 4 KiB and three mbarriers. `%in`, `%out`,
/// `%ma` and `%mb` hold addresses, `%t` the thread's index.
pub fn text(body: &str) -> String {
    format!(
        ".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128]) {{
.shared .align 1024 .b8 a[4096]; .shared .align 1024 .b8 b[4096]; .shared .align 1024 .b8 c[4096];
.shared .align 8 .b64 bar[3];
.reg .b64 %rd<16>; .reg .b64 %in; .reg .b64 %out; .reg .b64 %ma; .reg .b64 %mb;
.reg .b32 %r<24>; .reg .b32 %t; .reg .f32 %f<8>; .reg .b16 %h<4>; .reg .pred %p<8>;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mov.b64 %ma, ma; cvta.param.u64 %ma, %ma; mov.b64 %mb, mb; cvta.param.u64 %mb, %mb;
mov.u32 %t, %tid.x; setp.eq.u32 %p0, %t, 0;
{body}
ret;
}}
"
    )
}

/// Initialises the first mbarrier for one arrival.
pub const INIT: &str = "@%p0 mbarrier.init.shared::cta.b64 [bar], 1;
@%p0 fence.mbarrier_init.release.cluster; // fence of init
bar.sync 0; // init
";

/// Waits for the first mbarrier's phase 0.
pub const WAIT: &str = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
@!%p1 bra WAIT;
";

/// Input and output of a kernel; the first input word is 1.
pub struct Case<'a> {
    pub body: &'a str,
    pub block: u32,
    pub grid: u32,
    /// Blocks per cluster.
    pub cluster: u32,
    pub words: u32,
    /// Makes the maps from the addresses of input and output.
    pub maps: &'a dyn Fn(u64, u64) -> [Arg; 2],
    pub registers: Option<u32>,
}

impl<'a> Case<'a> {
    pub fn new(body: &'a str, block: u32) -> Case<'a> {
        Case {
            body,
            block,
            grid: 1,
            cluster: 1,
            words: 1024,
            maps: &|_, _| [Arg::Bytes(vec![0; 128]), Arg::Bytes(vec![0; 128])],
            registers: None,
        }
    }

    /// Runs it with several blocks in clusters.
    pub fn clusters(self, grid: u32, cluster: u32) -> Case<'a> {
        Case { grid, cluster, ..self }
    }

    /// Runs it with several blocks.
    pub fn blocks(self, grid: u32) -> Case<'a> {
        Case { grid, ..self }
    }

    fn runs(&self) -> Vec<Options> {
        if self.grid > self.cluster { runs_of_blocks() } else { runs() }
    }

    /// Runs it; returns the output as words, each of which was 7 before.
    pub fn run(&self, options: &Options) -> Result<(Vec<u32>, Report), Violation> {
        let text = text(self.body);
        let program = Program::from_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let memory = Memory::new();
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let input: Vec<u32> = (1..=self.words).collect();
        let input = memory.alloc_from("in", &bytes(&input), 256).expect("fits").address;
        let out = memory.alloc_from("out", &bytes(&vec![7; self.words as usize]), 256).expect("fits").address;
        let [ma, mb] = (self.maps)(input, out);
        let args = [Arg::U64(input), Arg::U64(out), ma, mb];
        let block = [self.block, 1, 1];
        let grid = [self.grid, 1, 1];
        let (registers, cluster) = (self.registers, [self.cluster, 1, 1]);
        let what = Launch { entry: "k", grid, block, args: &args, registers, cluster, ..Launch::default() };
        let report = launch(&program, &memory, &what, options)?;
        let mut words = vec![0; 4 * self.words as usize];
        memory.read(out, &mut words).expect("inside");
        Ok((words.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect(), report))
    }

    /// Checks that the output is these words, without a warning, under every order and landing; also without checks.
    pub fn gives(&self, name: &str, want: &[u32]) {
        for options in self.runs() {
            for checks in [Checks::Full, Checks::Off] {
                let options = Options { checks, ..options };
                match self.run(&options) {
                    Ok((words, report)) => {
                        assert_eq!(&words[..want.len()], want, "{name} ({options:?})");
                        assert!(report.warnings.is_empty(), "{name} ({options:?}): {}", report.warnings[0]);
                    }
                    Err(violation) => panic!("{name} ({options:?}): {violation}"),
                }
            }
        }
    }

    /// Checks that it breaks one of these rules under every order and landing, at an instruction that contains `at`.
    pub fn breaks(&self, name: &str, kinds: &[ViolationKind], at: &str) {
        for options in self.runs() {
            match self.run(&options) {
                Ok(_) => panic!("{name} ({options:?}): nothing was found"),
                Err(violation) => {
                    assert!(kinds.contains(&violation.kind), "{name} ({options:?}): {violation}");
                    assert!(violation.site.instruction.contains(at), "{name} ({options:?}): {violation}");
                }
            }
        }
    }

    /// Checks that it ends with exactly this warning.
    pub fn warns(&self, name: &str, kind: ViolationKind, at: &str) {
        for options in self.runs() {
            let (_, report) =
                self.run(&options).unwrap_or_else(|violation| panic!("{name} ({options:?}): {violation}"));
            let [warning] = report.warnings.as_slice() else { panic!("{name} ({options:?}): {:?}", report.warnings) };
            assert_eq!(warning.kind, kind, "{name} ({options:?}): {warning}");
            assert!(warning.site.instruction.contains(at), "{name} ({options:?}): {warning}");
            let with = |all: Severity| Options { proxy_war: all, overtaken: all, fenced_late: all, ..options };
            let denied = self.run(&with(Severity::Deny));
            assert_eq!(denied.expect_err(name).kind, kind);
            let allowed = self.run(&with(Severity::Allow));
            assert!(allowed.expect(name).1.warnings.is_empty());
        }
    }
}

/// Replaces text that occurs exactly once.
pub fn change(body: &str, from: &str, to: &str) -> String {
    assert_eq!(body.matches(from).count(), 1, "`{from}` in\n{body}");
    body.replace(from, to)
}
