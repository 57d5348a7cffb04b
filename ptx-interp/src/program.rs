//! A module, decoded and ready to launch.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ptx_gemm_ptx::module::Directive;
use ptx_gemm_ptx::parse::{ParseError, parse_with_lines};

use crate::decode::{MAX_CONST, Symbols, decode, point};
use crate::op::{Code, Op};
use crate::pool;

/// Number of the next program.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Why a text cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not PTX that the project's parser accepts.
    #[error("the PTX text does not parse: {0}")]
    Parse(#[from] ParseError),
    /// An entry declares more memory than this interpreter supports.
    #[error("entry `{entry}` declares {bytes} bytes of {space} memory, and the limit is {limit}")]
    TooLarge {
        /// The entry.
        entry: String,
        /// The space.
        space: &'static str,
        /// The total size of its variables.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
}

/// A decoded module. It is cheap to share between threads, and launching does not change it.
#[derive(Clone, Debug)]
pub struct Program {
    /// Distinguishes its variables in a memory from those of other modules.
    pub(crate) number: u64,
    entries: Vec<Entry>,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) code: Code,
    pub(crate) symbols: Symbols,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) max_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub(crate) required_cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`.
    pub(crate) max_cluster_rank: Option<u32>,
    /// `.explicitcluster`.
    pub(crate) explicit_cluster: bool,
    /// Registers that each thread starts with, if the directives determine the number.
    pub(crate) registers: Option<u32>,
    /// `.maxnreg` and `.minnctapersm`.
    max_registers: Option<u32>,
    min_blocks: Option<u32>,
}

impl Program {
    /// Parses and decodes a text. An instruction that cannot be executed is an error only when it is reached.
    pub fn from_text(ptx: &str) -> Result<Program, LoadError> {
        let parsed = parse_with_lines(ptx)?;
        let text: Vec<&str> = ptx.lines().collect();
        let line = |number: u32| {
            let line = (number as usize).checked_sub(1).and_then(|index| text.get(index)).copied().unwrap_or("");
            line.split("//").next().unwrap_or("").trim().to_string()
        };
        let mut entries = Vec::new();
        for (entry, lines) in parsed.module.entries.iter().zip(&parsed.lines) {
            let mut symbols = Symbols::lay_out(&parsed.module, entry);
            point(&parsed.module, entry, &mut symbols);
            check_sizes(&entry.name, &symbols)?;
            let code = decode(&parsed.module, entry, lines, line, &symbols);
            let registers = registers(&entry.directives, &code);
            let extents = |pick: fn(&Directive) -> Option<&[u32]>| entry.directives.iter().find_map(pick).map(padded);
            entries.push(Entry {
                name: entry.name.clone(),
                code,
                symbols,
                required_threads: extents(|directive| match directive {
                    Directive::Reqntid(extents) => Some(extents.as_slice()),
                    _ => None,
                }),
                max_threads: extents(|directive| match directive {
                    Directive::Maxntid(extents) => Some(extents.as_slice()),
                    _ => None,
                }),
                required_cluster: extents(|directive| match directive {
                    Directive::ReqNctaPerCluster(extents) => Some(extents.as_slice()),
                    _ => None,
                }),
                max_cluster_rank: entry.directives.iter().find_map(|directive| match directive {
                    Directive::MaxClusterRank(most) => Some(*most),
                    _ => None,
                }),
                explicit_cluster: entry.directives.contains(&Directive::ExplicitCluster),
                registers,
                max_registers: entry.directives.iter().find_map(|directive| match directive {
                    Directive::MaxNreg(count) => Some(*count),
                    _ => None,
                }),
                min_blocks: entry.directives.iter().find_map(|directive| match directive {
                    Directive::MinNctaPerSm(count) => Some(*count),
                    _ => None,
                }),
            });
        }
        Ok(Program { number: NEXT.fetch_add(1, Relaxed), entries })
    }

    /// The instructions that cannot be executed: their lines, counted from 1, and why.
    pub fn refused(&self) -> impl Iterator<Item = (u32, &str)> {
        self.entries.iter().flat_map(|entry| {
            let all = entry.code.instrs.iter().zip(&entry.code.origins);
            all.filter_map(|(instr, origin)| match instr.op {
                Op::Refused { index } => Some((origin.line, entry.code.refusals[index as usize].as_str())),
                _ => None,
            })
        })
    }

    /// Names of the entries, in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Static shared memory of an entry, in bytes.
    pub fn shared_bytes(&self, entry: &str) -> Option<u32> {
        self.entry(entry).map(|entry| entry.symbols.shared_bytes as u32)
    }

    /// The most registers of a thread that an entry allows with `.maxnreg`.
    pub fn max_registers(&self, entry: &str) -> Option<u32> {
        self.entry(entry)?.max_registers
    }

    /// The number of blocks that a multiprocessor has to hold according to an entry's `.minnctapersm`.
    pub fn min_blocks(&self, entry: &str) -> Option<u32> {
        self.entry(entry)?.min_blocks
    }

    /// The block size that an entry requires with `.reqntid`.
    pub fn reqntid(&self, entry: &str) -> Option<[u32; 3]> {
        self.entry(entry)?.required_threads
    }

    /// Sizes in bytes of an entry's parameters, in order.
    pub fn param_bytes(&self, entry: &str) -> Option<Vec<usize>> {
        Some(self.entry(entry)?.symbols.params.iter().map(|param| param.bytes as usize).collect())
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// Registers that each thread starts with: `.maxnreg`, or for kernels with `setmaxnreg` the number that follows from
/// the number of threads.
fn registers(directives: &[Directive], code: &Code) -> Option<u32> {
    let find = |pick: fn(&Directive) -> Option<u32>| directives.iter().find_map(pick);
    let most = find(|directive| if let Directive::MaxNreg(count) = directive { Some(*count) } else { None });
    let blocks = find(|directive| if let Directive::MinNctaPerSm(count) = directive { Some(*count) } else { None });
    let threads = directives.iter().find_map(|directive| match directive {
        Directive::Reqntid(extents) | Directive::Maxntid(extents) => Some(extents),
        _ => None,
    });
    let threads = threads.map(|extents| extents.iter().fold(1u64, |all, extent| all.saturating_mul((*extent).into())));
    let requested = code.instrs.iter().filter_map(|instr| match instr.op {
        Op::SetMaxNReg { count, .. } => Some(u32::from(count)),
        _ => None,
    });
    let fitting = threads
        .zip(requested.max())
        .map(|(threads, requested)| pool::at_entry(threads, blocks.unwrap_or(1).into(), requested));
    match (most, fitting) {
        (Some(most), Some(fitting)) => Some(most.min(fitting)),
        (most, fitting) => most.or(fitting),
    }
}

/// Adds the extents that a directive leaves out.
fn padded(extents: &[u32]) -> [u32; 3] {
    std::array::from_fn(|axis| extents.get(axis).copied().unwrap_or(1))
}

/// Checks sizes, so that hostile declarations do not make the interpreter allocate without bound.
fn check_sizes(entry: &str, symbols: &Symbols) -> Result<(), LoadError> {
    let sizes = [
        ("shared", symbols.shared_bytes, 1 << 20),
        ("local", symbols.local_bytes, 64 << 10),
        ("param", symbols.param_bytes, 32_764),
        ("const", symbols.const_bytes, MAX_CONST),
    ];
    match sizes.into_iter().find(|(_, bytes, limit)| bytes > limit) {
        Some((space, bytes, limit)) => Err(LoadError::TooLarge { entry: entry.into(), space, bytes, limit }),
        None => Ok(()),
    }
}
