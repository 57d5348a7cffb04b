//! Schedules that were chosen by timing: `gemm.lock`, a text with a line for each.
//!
//! ```text
//! gpu | problem | epilogue | size | schedule | PTX | time | of cuBLAS | spread | driver | date | command
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use ptx_gemm_dsl::clause::Clause;
use ptx_gemm_dsl::epilogue::Epilogue;
use ptx_gemm_dsl::table::{Group, Key};
use ptx_gemm_dsl::types::{Layouts, Problem, Types};
use ptx_gemm_dsl::{DType, Schedule};

use crate::estimate::{Bound, Estimate, estimate};
use crate::gpu::Gpu;
use crate::pick::Pick;
use crate::search::target;
use crate::size::Size;

/// The first line of a file.
const TITLE: &str = "# gemm.lock 1: written by `gemmc tune`";
/// What separates the fields of a line.
const BAR: &str = " | ";
/// The order of the fields.
const FIELDS: &str =
    "# gpu | problem | epilogue | size | schedule | PTX | ms | of cuBLAS | spread | driver | date | command";

/// How many entries are considered for a product that has none of its own.
const NEAREST: usize = 16;
/// The distance of entries that say nothing about a product, in factors of e over all extents.
const FARTHEST: f64 = 4.0;
/// How much another kind of epilogue, or other layouts of A and B, separate two products.
const OTHER_EPILOGUE: f64 = 0.3;
const OTHER_LAYOUTS: f64 = 0.3;
/// The same for other types of one width, and other epilogues of one kind: their schedules are as good, but the product's own entry comes
/// first.
const ALIKE: f64 = 0.02;
/// By how much the best of all families is expected to take longer than its estimate: the lowest of thousands of estimates tends to be
/// too low. On an H200, 189 schedules that had been chosen took 1.05 times their estimates in the mean, with a standard deviation of 0.14;
/// this is more, because an entry was timed and an estimate was not.
const TOO_LOW: f64 = 1.1;
/// The weight of the assumption that an estimate is right.
const PRIOR: f64 = 0.5;

/// A schedule that was the fastest for one product when it was timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The GPU, as [`Gpu::name`](crate::Gpu::name) has it.
    pub gpu: String,
    /// The product.
    pub size: Size,
    /// The clauses that say what is computed, and those that were given when the schedule was chosen, such as `emulate(bf16x6)`.
    pub problem: Schedule,
    /// The clauses that were chosen.
    pub chosen: Schedule,
    /// A digest of the PTX for this GPU. A compiler that makes other PTX makes the time below doubtful.
    pub ptx: u64,
    /// Milliseconds.
    pub ms: f64,
    /// cuBLAS's time over this one, where cuBLAS computes the product.
    pub ratio: Option<f64>,
    /// By how much the time varied while it was measured, relative to it.
    pub spread: f64,
    /// The driver's version.
    pub driver: String,
    /// When, as year-month-day.
    pub date: String,
    /// The command that measured it.
    pub command: String,
}

/// What an epilogue reads: schedules differ by that, and hardly by what it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpilogueClass {
    /// The sum is stored.
    Plain,
    /// Something is computed from it, and from vectors and scalars.
    Pointwise,
    /// C is read as well.
    ReadsC,
}

/// Entries by product.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// Lines that begin with `#`, which stay at the top.
    comments: Vec<String>,
    entries: Vec<Entry>,
}

/// A schedule for a product, without a search on a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The schedule.
    pub schedule: Schedule,
    /// Where it is from.
    pub source: Source,
    /// Milliseconds to expect: the entry's own, if it is of this product, else an estimate.
    pub ms: f64,
    /// The resource that limits it, by the estimate.
    pub bound: Bound,
}

/// Where a schedule is from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The product's entry of a lock.
    Entry(Box<Entry>),
    /// An entry of a product that is near.
    Near(Box<Entry>),
    /// A family. If a lock has entries of products that are near, what these took has corrected the estimate.
    Family(&'static str),
}

/// The schedule for a product: by the user's entries, or else by those of this crate, or else by estimates alone. Nothing is timed.
/// `None` if no schedule computes the product on this GPU.
pub fn choose(pick: &Pick<'_>, own: Option<&Lock>) -> Option<Choice> {
    let locks: Vec<&Lock> = own.into_iter().chain([Lock::shipped()]).collect();
    by_locks(&locks, pick).or_else(|| {
        let found = pick.best()?;
        let (schedule, source) = (found.schedule, Source::Family(found.family));
        Some(Choice { schedule, source, ms: found.estimate.ms, bound: found.estimate.bound })
    })
}

impl EpilogueClass {
    /// The class of an epilogue.
    pub fn of(epilogue: &Epilogue) -> EpilogueClass {
        match epilogue {
            _ if epilogue.uses_c() => EpilogueClass::ReadsC,
            _ if *epilogue == Epilogue::identity() => EpilogueClass::Plain,
            _ => EpilogueClass::Pointwise,
        }
    }

    /// Its name in a lock.
    pub fn name(self) -> &'static str {
        match self {
            EpilogueClass::Plain => "acc",
            EpilogueClass::Pointwise => "pointwise",
            EpilogueClass::ReadsC => "c",
        }
    }
}

impl Entry {
    /// The whole schedule.
    pub fn schedule(&self) -> Schedule {
        self.problem.clone().with(self.chosen.clone())
    }

    /// Whether this is the entry of a product: the same GPU, problem and size.
    pub fn is_of(&self, other: &Entry) -> bool {
        let same = |x: &Entry, y: &Entry| {
            x.problem.one_line() == y.problem.one_line() || x.asked().is_some_and(|own| Some(own) == y.asked())
        };
        self.gpu == other.gpu
            && self.size == other.size
            && same(self, other)
            && method(&self.problem) == method(&other.problem)
    }

    /// Its kind of epilogue.
    fn class(&self) -> Option<EpilogueClass> {
        Some(EpilogueClass::of(&self.asked()?.epilogue))
    }

    /// What it computes. Some types only tensor cores multiply, so that the clauses of the problem by themselves do not say it.
    fn asked(&self) -> Option<Problem> {
        Some(self.schedule().problem().ok()?.asked())
    }

    /// This entry's schedule for another product, and how much the two problems differ, if the product has elements of the same width
    /// and the same kind of batch, and asks for no clause that the entry was not timed with.
    fn suited(&self, given: &Schedule) -> Option<(Schedule, f64)> {
        // What was given when it was timed belongs to it.
        let own_method = self.problem.clauses().filter(|clause| clause.key().group() == Group::Method).cloned();
        let schedule = given.clone().with(own_method.fold(Schedule::new(), Schedule::clause)).with(self.chosen.clone());
        let (own, problem) = (self.asked()?, schedule.problem().ok()?.asked());
        // bf16 and f16 have the same instructions, at the same rate.
        let width = |types: Types| {
            let kind = |dtype: DType| if dtype == DType::Bf16 { DType::F16 } else { dtype };
            [types.a, types.b, types.acc, types.d].map(kind)
        };
        if width(own.types) != width(problem.types) || own.batch != problem.batch {
            return None;
        }
        let order = |layouts: Layouts| [layouts.a, layouts.b, layouts.d];
        let class = |problem: &Problem| EpilogueClass::of(&problem.epilogue);
        let apart = if order(own.layouts) == order(problem.layouts) { 0.0 } else { OTHER_LAYOUTS }
            + if class(&own) == class(&problem) { 0.0 } else { OTHER_EPILOGUE }
            + if (own.types, &own.epilogue) == (problem.types, &problem.epilogue) { 0.0 } else { ALIKE };
        let whole = method(&self.schedule());
        let asked = method(given);
        let computes_alike = |key| given.get(key) == self.problem.get(key);
        let alike = [Key::Emulate, Key::Strassen].into_iter().all(computes_alike);
        (alike && asked.iter().all(|clause| whole.contains(clause))).then_some((schedule, apart))
    }
}

impl Lock {
    /// That of this crate: schedules of an H200, chosen from the families by `gemmc tune`.
    pub fn shipped() -> &'static Lock {
        static SHIPPED: OnceLock<Lock> = OnceLock::new();
        SHIPPED.get_or_init(|| {
            Lock::parse(include_str!("../h200.lock")).unwrap_or_else(|error| panic!("h200.lock: {error}"))
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The first line that is not an entry, and why.
    pub fn parse(text: &str) -> Result<Lock, String> {
        let mut lock = Lock::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || [TITLE, FIELDS].contains(&line) {
                continue;
            }
            if line.starts_with('#') {
                lock.comments.push(line.into());
                continue;
            }
            let entry: Entry = line.parse().map_err(|error| format!("line {}: {error}", number + 1))?;
            if lock.entry_of(&entry).is_some() {
                let problem = entry.problem.one_line();
                return Err(format!("line {}: a second entry of {} {problem}", number + 1, entry.size));
            }
            lock.entries.push(entry);
        }
        Ok(lock)
    }

    /// The entries, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of the same GPU, problem and size.
    pub fn entry_of(&self, other: &Entry) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_of(other))
    }

    /// Adds an entry, in place of one of the same GPU, problem and size.
    pub fn set(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|own| own.is_of(&entry)) {
            Some(own) => *own = entry,
            None => self.entries.push(entry),
        }
    }
}

/// The clauses about the method.
fn method(schedule: &Schedule) -> Vec<String> {
    schedule.clauses().filter(|clause| clause.key().group() == Group::Method).map(Clause::to_string).collect()
}

/// The entries of locks that suit a product, the nearest first, in the order of the locks where they are as near.
fn nearest<'l>(locks: &[&'l Lock], pick: &Pick<'_>) -> Vec<Near<'l>> {
    let size = pick.size.bucket();
    let all = locks.iter().flat_map(|lock| &lock.entries).filter(|entry| entry.gpu == pick.gpu.name);
    let sized = all.map(|entry| (entry, distance(entry.size.bucket(), size)));
    let close = sized.filter(|(_, distance)| *distance < FARTHEST);
    let mut near: Vec<Near<'l>> = close
        .filter_map(|(entry, distance)| {
            let (schedule, apart) = entry.suited(pick.given)?;
            Some(Near { entry, schedule, distance: distance + apart })
        })
        .collect();
    near.sort_by(|x, y| x.distance.total_cmp(&y.distance));
    near.truncate(NEAREST);
    near
}

/// The estimate of a schedule, if it is legal.
fn estimated(schedule: &Schedule, size: Size, gpu: &Gpu) -> Option<Estimate> {
    let plan = schedule.plan_or_conflicts(target(schedule, gpu)).ok()?;
    estimate(&plan, size, gpu).ok()
}

/// The schedule for a product by locks: that of its entry, or else the one with the lowest estimate among those of the nearest entries
/// and the families' best. Estimates are corrected by what near entries took. `None` if no entry is near.
fn by_locks(locks: &[&Lock], pick: &Pick<'_>) -> Option<Choice> {
    let Pick { size, gpu, .. } = *pick;
    let near = nearest(locks, pick);
    if let Some(Near { entry, schedule, distance: 0.0 }) = near.first()
        && let Some(found) = estimated(schedule, size, gpu)
    {
        let (schedule, source) = (schedule.clone(), Source::Entry(Box::new((*entry).clone())));
        return Some(Choice { ms: entry.ms, schedule, source, bound: found.bound });
    }
    // By what factor the entries missed their estimates, as a logarithm, and how near they are.
    let missed: Vec<(f64, f64)> = near
        .iter()
        .map(|near| {
            let own = estimated(&near.entry.schedule(), near.entry.size, gpu);
            (own.map_or(0.0, |own| (near.entry.ms / own.ms).ln()), (-near.distance).exp())
        })
        .collect();
    let weights: f64 = missed.iter().map(|(_, weight)| weight).sum();
    let usual = missed.iter().map(|(error, weight)| error * weight).sum::<f64>() / (weights + PRIOR) + TOO_LOW.ln();
    // What an entry missed holds for its own schedule as far as it is near; the rest is what is usual.
    let of_entries = near.iter().zip(&missed).filter_map(|(near, (error, weight))| {
        let found = estimated(&near.schedule, size, gpu)?;
        let (schedule, source) = (near.schedule.clone(), Source::Near(Box::new(near.entry.clone())));
        let ms = found.ms * (error * weight + usual * (1.0 - weight)).exp();
        Some(Choice { schedule, source, ms, bound: found.bound })
    });
    let mut best = of_entries.min_by(|x, y| x.ms.total_cmp(&y.ms))?;
    if let Some(found) = pick.best() {
        let ms = found.estimate.ms * usual.exp();
        if ms < best.ms {
            let source = Source::Family(found.family);
            best = Choice { schedule: found.schedule, source, ms, bound: found.estimate.bound };
        }
    }
    Some(best)
}

/// An entry for another product.
struct Near<'l> {
    entry: &'l Entry,
    schedule: Schedule,
    distance: f64,
}

/// What is added to the distance of two products if n and k are multiples of a number for only one of them. TMA copies rows of multiples
/// of 8 elements of 16 bits; rows of multiples of 64 begin at lines of the cache.
const ALIGNED: [(usize, f64); 2] = [(8, 1.0), (64, 0.3)];

/// How different two products are: the logarithms of the ratios of their extents, added up, and what their alignment adds.
fn distance(x: Size, y: Size) -> f64 {
    let extents = [(x.m, y.m), (x.n, y.n), (x.k, y.k), (x.batch, y.batch)];
    let ratios = extents.into_iter().map(|(x, y)| (x as f64 / y as f64).ln().abs()).sum::<f64>();
    let aligned = |size: Size, to: usize| [size.n, size.k].map(|extent| extent.is_multiple_of(to));
    let apart = |(to, much): (usize, f64)| if aligned(x, to) == aligned(y, to) { 0.0 } else { much };
    ratios + ALIGNED.into_iter().map(apart).sum::<f64>()
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { m, n, k, batch } = self.size;
        let batch = if batch == 1 { String::new() } else { format!("x{batch}") };
        let class = self.class().map_or("", EpilogueClass::name);
        let ratio = self.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}"));
        let fields = [
            self.gpu.clone(),
            self.problem.one_line(),
            class.into(),
            format!("{m}x{n}x{k}{batch}"),
            self.chosen.one_line(),
            format!("{:016x}", self.ptx),
            format!("{:.5}", self.ms),
            ratio,
            format!("{:.3}", self.spread),
            self.driver.clone(),
            self.date.clone(),
            self.command.replace('\n', " "),
        ];
        f.write_str(&fields.join(BAR))
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(line: &str) -> Result<Entry, String> {
        // The bars of an epilogue have no space on either side of both; the command is the last field, whatever it contains.
        let fields: Vec<&str> = line.splitn(12, BAR).map(str::trim).collect();
        let &[gpu, problem, class, size, chosen, ptx, ms, ratio, spread, driver, date, command] = fields.as_slice()
        else {
            return Err(format!(
                "it has {} fields, and an entry has 12: {}",
                fields.len(),
                FIELDS.trim_start_matches("# ")
            ));
        };
        let number = |what: &str, text: &str| match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
            _ => Err(format!("{what}: `{text}` is not a number")),
        };
        let clauses = |text: &str| Schedule::parse_part(text).map_err(|errors| errors.to_string());
        let (problem, chosen) = (clauses(problem)?, clauses(chosen)?);
        let given = |clause: &&Clause| {
            clause.key().group() != Group::Method || [Key::Emulate, Key::Strassen].contains(&clause.key())
        };
        if let Some(clause) = chosen.clauses().find(given) {
            return Err(format!("`{clause}` is not chosen: it belongs to the problem"));
        }
        let entry = Entry {
            gpu: gpu.into(),
            size: Size::parse(size)?,
            problem,
            chosen,
            ptx: u64::from_str_radix(ptx, 16).map_err(|_| format!("`{ptx}` is not a digest"))?,
            ms: number("time", ms)?,
            ratio: if ratio == "-" { None } else { Some(number("of cuBLAS", ratio)?) },
            spread: number("spread", spread)?,
            driver: driver.into(),
            date: date.into(),
            command: command.into(),
        };
        let own = entry.class().map_or("of no problem", EpilogueClass::name);
        if own != class {
            return Err(format!("its epilogue is `{own}`, and the line says `{class}`"));
        }
        Ok(entry)
    }
}

impl fmt::Display for Lock {
    /// The text of a file, sorted by GPU, problem and size, so that entries stay where they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        let key = |entry: &Entry| {
            let Size { m, n, k, batch } = entry.size;
            (entry.gpu.clone(), entry.problem.one_line(), [m, n, k, batch])
        };
        entries.sort_by_cached_key(|entry| key(entry));
        writeln!(f, "{TITLE}\n{FIELDS}")?;
        self.comments.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        entries.into_iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Entry, Lock, Source, by_locks};
    use crate::{Gpu, Pick, Size, target};

    fn entry(size: &str, ms: f64, epilogue: &str, chosen: &str) -> String {
        let class = if epilogue.is_empty() { "acc" } else { "pointwise" };
        format!(
            "H200 | types(bf16); layout(b = col){epilogue} | {class} | {size} | {chosen} | 00ab | {ms} | 1.02 | 0.004 | CUDA 13.0 \
             | 2026-11-30 | gemmc tune --epilogue '|acc| relu(acc)'"
        )
    }

    const WIDE: &str = "tile(128, 256, 64); atom(wgmma(64, 256, 16)); load(tma); stages(3); specialize(producers = 1); \
                        registers(producer = 24, consumer = 240); persistent; store(tma)";
    const SMALL: &str = "tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(6)";

    fn lock(lines: &[String]) -> Lock {
        Lock::parse(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_lock_reads_back_as_itself() {
        let relu = "; epilogue(|acc| relu(acc))";
        let lock = lock(&[entry("4096x4096x4096", 0.17, "", WIDE), entry("64x4096x4096x3", 0.01, relu, SMALL)]);
        let text = lock.to_string();
        let again = Lock::parse(&text).unwrap();
        assert_eq!(again.to_string(), text);
        assert_eq!(again.entries().len(), 2);
        assert!(
            text.contains("| 0.17000 | 1.020 | 0.004 | CUDA 13.0 | 2026-11-30 | gemmc tune --epilogue '|acc|"),
            "{text}"
        );
    }

    #[test]
    fn wrong_lines_are_told() {
        let right = entry("4096x4096x4096", 0.17, "", WIDE);
        for (from, to, told) in [
            (" | 00ab", "", "it has 11 fields"),
            ("4096x4096x4096", "0", "an extent of 0"),
            ("00ab", "wide", "`wide` is not a digest"),
            ("0.17", "fast", "time: `fast` is not a number"),
            ("tile(128", "tile(x", "whole number"),
            ("| acc |", "| c |", "its epilogue is `acc`, and the line says `c`"),
            ("load(tma);", "types(f16);", "`types(f16)` is not chosen"),
        ] {
            let error = Lock::parse(&format!("# a comment\n\n{}", right.replacen(from, to, 1))).unwrap_err();
            assert!(error.starts_with("line 3: ") && error.contains(told), "{error}");
        }
        let twice = Lock::parse(&format!("{right}\n{right}")).unwrap_err();
        assert!(twice.starts_with("line 2: a second entry of 4096 x 4096 x 4096 types(bf16)"), "{twice}");
    }

    #[test]
    fn setting_an_entry_replaces_that_of_the_same_product() {
        let mut lock = lock(&[entry("4096x4096x4096", 0.17, "", WIDE)]);
        let parsed = |line: String| line.parse::<Entry>().unwrap();
        lock.set(parsed(entry("4096x4096x4096", 0.16, "", SMALL)));
        lock.set(parsed(entry("4096x4096x2048", 0.09, "", SMALL)));
        assert_eq!(lock.entries().iter().map(|entry| entry.ms).collect::<Vec<_>>(), [0.16, 0.09]);
    }

    fn choose(lock: &Lock, given: &str, size: [usize; 3], gpu: &Gpu) -> Option<Choice> {
        by_locks(&[lock], &Pick { given: &given.parse().unwrap(), size: Size::of(size), gpu })
    }

    #[test]
    fn a_product_with_an_entry_has_its_schedule() {
        // Slower than any estimate: what was measured counts.
        let lock = lock(&[entry("4096x4096x4096", 10.0, "", SMALL), entry("4096x4096x2048", 0.09, "", WIDE)]);
        let problem = "types(bf16); layout(b = col)";
        let found = choose(&lock, problem, [4096; 3], Gpu::h200()).unwrap();
        assert!(matches!(&found.source, Source::Entry(entry) if entry.size == Size::cube(4096)) && found.ms == 10.0);
        assert!(found.schedule.to_string().contains("tile(64, 64, 64)"), "{}", found.schedule);
        // Neither another GPU, nor other types, nor another way to compute.
        assert_eq!(choose(&lock, problem, [4096; 3], Gpu::find("h100").unwrap()), None);
        assert_eq!(choose(&lock, "types(f32); layout(b = col)", [4096; 3], Gpu::h200()), None);
        assert_eq!(choose(&lock, "types(bf16); layout(b = col); stages(2)", [4096; 3], Gpu::h200()), None);
    }

    #[test]
    fn the_entry_of_the_product_itself_comes_first() {
        let bf16 = entry("4096x4096x4096", 0.1, "", WIDE);
        let f16 = entry("4096x4096x4096", 0.2, "", SMALL).replace("bf16", "f16");
        let both = lock(&[bf16, f16]);
        let found = choose(&both, "types(f16); layout(b = col)", [4096; 3], Gpu::h200()).unwrap();
        assert_eq!(found.ms, 0.2);
        // Rows are rounded up in the same way on both sides, and clauses that were given belong to what was timed.
        let rows =
            lock(&[entry("300x4096x4096", 9.0, "; raster(group = 8)", SMALL).replace("| pointwise |", "| acc |")]);
        let found = choose(&rows, "types(bf16); layout(b = col)", [310, 4096, 4096], Gpu::h200()).unwrap();
        assert_eq!(found.ms, 9.0);
        assert!(found.schedule.to_string().contains("raster(group = 8)"), "{}", found.schedule);
        // The other lock has the product.
        let near = lock(&[entry("4096x4096x3072", 0.01, "", SMALL)]);
        let given = "types(bf16); layout(b = col)".parse().unwrap();
        let found = by_locks(&[&near, &both], &Pick { given: &given, size: Size::cube(4096), gpu: Gpu::h200() });
        assert_eq!(found.unwrap().ms, 0.1);
    }

    #[test]
    fn near_entries_correct_the_estimates() {
        let problem = "types(bf16); layout(b = col); epilogue(|acc, bias| acc + bias[n])";
        let near = |ms: f64| {
            let lock = lock(&[entry("4096x4096x4096", ms, "", WIDE)]);
            choose(&lock, problem, [4096, 4096, 3584], Gpu::h200()).unwrap()
        };
        // Much faster than estimated, so that it is expected to be for its neighbour; and much slower.
        let (fast, slow) = (near(0.05), near(50.0));
        assert!(matches!((&fast.source, &slow.source), (Source::Near(_), Source::Family(_))), "{fast:?} {slow:?}");
        assert!(fast.schedule.to_string().contains("bias[n]"), "{}", fast.schedule);
        for found in [&fast, &slow] {
            assert!(found.schedule.plan(target(&found.schedule, Gpu::h200())).is_ok());
        }
        let lock = lock(&[entry("4096x4096x4096", 0.05, "", WIDE)]);
        assert_eq!(choose(&lock, problem, [16, 64, 64], Gpu::h200()), None);
    }
}
