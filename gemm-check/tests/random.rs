//! Random schedules on random sizes: none is wrong, none panics, and few are refused.
//!
//! `GEMM_DRAWS=2000 GEMM_SEED=7 cargo test -p ptx-gemm-check --test random` draws more, or others.

use ptx_gemm_check::{Data, Leading, Output, Request, check};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::types::Problem;
use ptx_gemm_runtime::random::SplitMix64;
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions};

struct Draw {
    numbers: SplitMix64,
}

impl Draw {
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.numbers.next_in(0, of.len() as i64 - 1) as usize].clone()
    }

    fn one_in(&mut self, n: i64) -> bool {
        self.numbers.next_in(1, n) == 1
    }

    fn schedule(&mut self) -> String {
        let mut clauses = Vec::new();
        let staged = !self.one_in(4);
        let (thread_m, thread_n) = (self.pick(&[1, 2, 3, 4, 5, 8]), self.pick(&[1, 2, 3, 4, 6, 8]));
        let (grid_m, grid_n) = (self.pick(&[1, 2, 3, 4, 8, 16]), self.pick(&[1, 2, 4, 7, 8, 16]));
        let warp = self.one_in(4);
        let (tile_m, tile_n) = match warp {
            // 32 lanes a warp: 4 x 8 or 8 x 4 of them.
            true => {
                let (lanes_m, lanes_n) = self.pick(&[(4, 8), (8, 4), (2, 16), (1, 32)]);
                let (warp_m, warp_n) = (lanes_m * thread_m, lanes_n * thread_n);
                clauses.push(format!("warp({warp_m}, {warp_n})"));
                (warp_m * self.pick(&[1, 2]), warp_n * self.pick(&[1, 2]))
            }
            false => (grid_m * thread_m, grid_n * thread_n),
        };
        let tile_k = self.pick(&[1, 2, 3, 4, 8, 12, 16]);
        clauses.push(if staged {
            format!("tile({tile_m}, {tile_n}, {tile_k})")
        } else {
            format!("tile({tile_m}, {tile_n})")
        });
        clauses.push(format!("thread({thread_m}, {thread_n})"));
        if self.one_in(2) {
            clauses.push(format!("vector({})", self.pick(&[1, 2, 4])));
        }
        if self.one_in(3) {
            let part = |extent: i32, draw: &mut Draw| {
                let parts: Vec<i32> = (1..=extent).filter(|part| extent % part == 0).collect();
                draw.pick(&parts)
            };
            clauses.push(format!("fragment({}, {})", part(thread_m, self), part(thread_n, self)));
        }
        if self.one_in(3) {
            clauses.push(format!("lanes(along = {})", self.pick(&["n", "m"])));
        }
        if staged {
            self.staging(tile_k, &mut clauses);
        } else {
            clauses.push("shared(none)".into());
        }
        if self.one_in(3) {
            clauses.push(format!("order({})", self.pick(&["row", "snake", "column_snake"])));
        }
        if self.one_in(3) {
            clauses.push(format!("raster(group = {}, along = {})", self.pick(&[1, 2, 3, 8]), self.pick(&["n", "m"])));
        }
        if self.one_in(2) {
            let mut layout = || self.pick(&["row", "col"]);
            let (a, b, c, d) = (layout(), layout(), layout(), layout());
            clauses.push(format!("layout(a = {a}, b = {b}, c = {c}, d = {d})"));
        }
        if self.one_in(2) {
            clauses.push(format!("epilogue({})", self.pick(&EPILOGUES)));
        }
        clauses.iter().map(|clause| format!("{clause}; ")).collect()
    }

    fn staging(&mut self, tile_k: i32, clauses: &mut Vec<String>) {
        if self.one_in(2) {
            clauses.push("double_buffer".into());
        }
        if self.one_in(2) {
            let (a, b) = (self.pick(&["mk", "km"]), self.pick(&["kn", "nk"]));
            let mut pad = || self.pick(&["", "", " + pad(1)", " + pad(4)"]);
            let (pad_a, pad_b) = (pad(), pad());
            clauses.push(format!("shared(a = {a}{pad_a}, b = {b}{pad_b})"));
        }
        if self.one_in(3) {
            let parts: Vec<i32> = (1..=tile_k).filter(|part| tile_k % part == 0).collect();
            clauses.push(format!("unroll({})", self.pick(&parts)));
        }
    }

    fn request(&mut self, problem: &Problem) -> Request {
        let mut extent = || match self.numbers.next_in(0, 9) {
            0 => self.numbers.next_in(0, 2),
            1..=5 => self.numbers.next_in(1, 70),
            _ => self.numbers.next_in(1, 300),
        };
        let (m, n, k) = (extent() as usize, extent() as usize, extent() as usize);
        let data = self.pick(&[Data::Random, Data::Exact]);
        let output = if problem.types.c == problem.types.d && problem.layouts.c == problem.layouts.d {
            self.pick(&[Output::Apart, Output::InPlace])
        } else {
            Output::Apart
        };
        let mut request = Request { data, output, seed: self.numbers.next_u64(), ..Request::random(m, n, k) };
        if self.one_in(2) {
            let mut more = || self.numbers.next_in(0, 9) as usize;
            let pads = [more(), more(), more(), more()];
            let padded = |pad| request.clone().padded(problem, pad).leading;
            let leading =
                Leading { a: padded(pads[0]).a, b: padded(pads[1]).b, c: padded(pads[2]).c, d: padded(pads[3]).d };
            request.leading = leading;
        }
        for name in &problem.epilogue.scalars {
            if self.one_in(2) {
                let value = self.pick(&[0.0, 1.0, -2.0, 3.0]);
                request = request.set(name, if data == Data::Exact { value } else { value * 0.37 });
            }
        }
        request
    }
}

const EPILOGUES: [&str; 8] = [
    "|acc, c, alpha, beta| alpha * acc + beta * c",
    "|acc, alpha| alpha * acc",
    "|acc, c| acc + c",
    "|acc, c| -acc - c * 2",
    "|acc, alpha| (acc - alpha) * (acc + 3) * 0.5",
    "|acc, c, beta| acc + c * c * beta",
    "|acc, c, s, t| s * acc * t - -c * s",
    "|acc| acc / 4",
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_schedules_are_right_on_random_sizes() {
    let (draws, seed) = (number("GEMM_DRAWS", 150), number("GEMM_SEED", 1));
    let devices =
        [0, 1, 2].map(|misalign| Device::interpreter_with(InterpreterOptions { misalign, ..Default::default() }));
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for index in 0..draws {
        let mut draw = Draw { numbers: SplitMix64::new(seed.wrapping_mul(1_000_003).wrapping_add(index)) };
        let text = draw.schedule();
        let device = draw.pick(&devices);
        let gemm =
            text.parse::<Schedule>().map_err(Into::into).and_then(|schedule| CompiledGemm::new(&schedule, &device));
        let gemm = match gemm {
            Ok(gemm) => gemm,
            Err(error) if error.is_violation() => {
                wrong.push(format!("{text}\n{error}"));
                continue;
            }
            Err(error) => {
                refused.push(format!("{text}\n{error}"));
                continue;
            }
        };
        let request = draw.request(&gemm.plan().problem);
        match check(&gemm, &request) {
            Ok(outcome) if outcome.is_right() => {}
            Ok(outcome) => wrong.push(format!("{text}\n{request:?}\n{outcome}")),
            Err(error) => wrong.push(format!("{text}\n{request:?}\n{error}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {draws} wrong:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(refused.len() as u64 * 5 <= draws, "{} of {draws} refused:\n{}", refused.len(), refused.join("\n"));
}
