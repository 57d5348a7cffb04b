//! Topics beyond a single clause: types, layouts, the language of the epilogue, targets.

use super::table_of;
use crate::atoms::{Columns, MULTIPLIES, WGMMA_COLUMNS};
use crate::clause::{Clause, Emulation, size};
use crate::elements::{ELEMENTS, Element};
use crate::epilogue::Function;
use crate::implemented;
use crate::limits::EPILOGUE as EPILOGUE_LIMIT;
use crate::promise::{FORMULA, OF_QUADRANTS};
use crate::table::{self, Info};
use crate::target::{MAX_REGISTERS, MAX_THREADS, REGISTER_FILE, STATIC_SHARED_BYTES, Target, WARP};
use crate::types::DType;
use crate::words::Word;

/// A section of the reference.
#[derive(Debug)]
pub struct Topic {
    /// Its name in `gemmc explain`.
    pub name: &'static str,
    /// Its subject, in a few words.
    pub summary: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Its clause.
    pub clause: &'static str,
    /// Its text, in Markdown.
    pub text: fn() -> String,
    /// The costs and benefits of its clause, in Markdown; `gemmc explain` also prints them for the clause.
    pub costs: Option<fn() -> String>,
    /// An introduction to its picture in Markdown, and the picture's address.
    pub picture: Option<(&'static str, &'static str)>,
}

impl Topic {
    /// The row of its clause.
    pub fn info(&self) -> Option<&'static Info> {
        table::find(self.clause)
    }
}

/// Every topic, in the order of the reference.
pub static TOPICS: &[Topic] = &[
    Topic {
        name: "types",
        summary: "the element types, and which of them work",
        title: "Types",
        clause: "types",
        text: types,
        costs: None,
        picture: None,
    },
    Topic {
        name: "layout",
        summary: "rows, columns and leading dimensions",
        title: "Layouts",
        clause: "layout",
        text: || LAYOUT.into(),
        costs: None,
        picture: None,
    },
    Topic {
        name: "epilogue",
        summary: "the language of the epilogue: operands, operators, functions",
        title: "The epilogue",
        clause: "epilogue",
        text: epilogue,
        costs: None,
        picture: None,
    },
    Topic {
        name: "targets",
        summary: "the targets and their limits",
        title: "Targets",
        clause: "target",
        text: targets,
        costs: None,
        picture: None,
    },
    Topic {
        name: "open",
        summary: "values that are chosen: `?`, `schedule(?)`, `shape`, `gpu`",
        title: "Open values",
        clause: "shape",
        text: || OPEN.into(),
        costs: None,
        picture: None,
    },
    Topic {
        name: "emulation",
        summary: "the errors of f32 products from narrower ones, and what happens to tiny and infinite elements",
        title: "Errors of emulated products",
        clause: "emulate",
        text: emulation,
        costs: Some(costs_of_emulation),
        picture: Some(("Errors over K on an H200", "../bench/results/accuracy/h200.svg")),
    },
    Topic {
        name: "strassen_errors",
        summary: "the errors of Strassen's algorithm, and what it does with infinities and NaN",
        title: "Errors of Strassen's algorithm",
        clause: "strassen",
        text: || format!("{OF_SUMS}\n```text\n{OF_QUADRANTS}```\n{MIXED}"),
        costs: None,
        picture: None,
    },
];

const OPEN: &str = "\
A question mark in the place of a number or of a word leaves it open, and `schedule(?)` leaves open every clause that is not
written:

```text
types(bf16); tile(128, ?, 64); atom(wgmma(64, ?, 16)); load(tma); stages(?); shape(300, 11480, 3000); gpu(H200)
types(bf16); schedule(?); shape(300, 11480, 3000)
```

`gemm!`, `Gemm` and gemmc choose the values with the lowest estimated time for the product of `shape` on the GPU of `gpu`. Nothing
is timed, so a text gives the same schedule on every machine, and a snapshot of its PTX stays the same. The kernel is right for
every size: `shape` and `gpu` are hints. Without `gpu`, gemmc chooses for its `--gpu`, `--target` or `--device`, if there is one.

- What was chosen, and what limits it, is in `gemmc plan`, at the top of the PTX, and in the hover of the clause in an editor.
  `gemmc check --fill` writes it into the file.
- `types`, `layout`, `epilogue`, `batch`, `emulate` and `strassen` have to be written: they decide what is computed.
- If the columns of a tile and of its `wgmma` are both open, they are the same number, unless `warp` divides the tile.
- Open values have at most a million combinations. If there are more, an error says what to write; if none is legal, which rules they
  break.
- In `gemm!` nothing can be chosen next to a value of the program, `{BM}`, or a base, `..base`.
";

fn emulation() -> String {
    let rows = Emulation::TABLE.iter().map(|(word, emulation)| {
        let [u, r, e, t] = emulation.promise().formulas();
        let distinct = size(emulation.planes() - 1) + 1;
        let planes = format!("{distinct} of {}", emulation.factor());
        let products = format!("{} of {}", emulation.pairs().len(), distinct.pow(2));
        [format!("`{word}`"), planes, products, u, r, e, t, state(implemented::works(emulation))]
    });
    let mut text = format!("{BOUND}\n```text\n{FORMULA}```\n{LETTERS}\n");
    text.push_str(&table_of(["mode", "planes", "products", "u", "r", "e", "t", "state"], rows));
    text.push_str(SPECIAL);
    text
}

/// For each mode: the products, the memory traffic of the planes, and the missing part of a product of two elements.
fn costs_of_emulation() -> String {
    let rows = Emulation::TABLE.iter().map(|(word, emulation)| {
        let planes = emulation.planes() * emulation.factor().bytes();
        // The scales need the largest element of a row or column before the split.
        let reads = Emulation::OF.bytes() * if emulation.scales() { 2 } else { 1 };
        let lacks = emulation.promise().relative();
        [
            format!("`{word}`"),
            emulation.pairs().len().to_string(),
            format!("{planes} B"),
            format!("{reads} B read, {planes} B written"),
            if lacks == 0.0 { "0".into() } else { format!("{lacks:.1e}") },
        ]
    });
    let head = ["mode", "products for one", "workspace", "splitting, once a launch", "error of a product"];
    format!("{COSTS}\n{}{BUYS}", table_of(head, rows))
}

const COSTS: &str = "\
The table shows what a mode costs: the products of narrow elements for one of f32, the workspace for each element of A and B, and
the traffic of the kernels that split them (with f16 they scale them first). The last column is the error that remains of a
product of two elements, relative to it:
";

const BUYS: &str = "
By the data sheet of an H200, its tensor cores multiply 14.8 times as many elements of 16 bits as its cores multiply and add in
f32 (989 and 67 TFLOP/s). So three products are at best 4.9 times as fast as one, and six 2.5 times. Splitting takes time in
proportion to m k + k n, and products to m n k: the smallest extent decides what splitting costs. `Prepared::keeping` splits
weights once and keeps them. `gemmc profile SCHEDULE` counts the kernels one by one and states the error, `--device cuda:0` adds
the time; `gemmc ablate` tries the other modes and promotions.
";

const OF_SUMS: &str = "\
With `strassen(levels = l)`, an element of A B differs from the exact one by at most E_l(K, a, b), where a and b are the largest
magnitudes of elements of A and of B:
";

const MIXED: &str = "
u_A and u_B are the unit roundoffs of the types of A and B; quadrants are added in these types. u is the unit roundoff of the
accumulator: 2^-24 for f32 and tf32, 2^-53 for f64, 2^-11 for f16, 2^-8 for bf16, and 0 for i32, which stays exact.

For multiply-adds in f32 this is about 4.5^l times the largest bound without the clause. It is relative to the largest elements
of A and B (normwise) instead of to `|A| |B|`: elements of D that are much smaller than K a b can have no correct digit. On
random data, errors grow by a factor of two to three a level. Sums of elements of f16 can exceed its range.

An infinity or NaN in A or B makes every element of D infinite or NaN that it would make so without the clause. It also affects
others in the same row of another quadrant, or in the same column. Infinities may become NaN. If a scalar of 0 in the epilogue
drops the product, it drops these as well. Every run gives the same bits.
";

const BOUND: &str = "\
With `emulate`, an element of A B differs from the exact one by at most
";

const LETTERS: &str = "
where

- S is the element of |A| |B|. S_a and S_b are the sums of the magnitudes in its row of A and its column of B, and L_a and L_b
  the largest of them;
- c is the number of elements of k between two promotions, or K if that is smaller;
- gamma(n) = n 2^-24 / (1 - n 2^-24) is the error of n additions in f32;
- r is what a product of elements lacks, because planes are left out or not multiplied;
- a = e L_a + t and b = e L_b + t are what an element lacks, because a plane has no smaller numbers;
- u is the unit roundoff of the planes' type.
";

const SPECIAL: &str = "
So the modes of bf16 promise a small error of each element relative to |A| |B| (componentwise), over the whole range of f32. An
element loses only what is below t, which bf16 cannot express at all; that matters for elements below 2^-110.

f16x3 promises the same for elements that are not much smaller than the largest of their row or column. For the others it
promises a small error relative to that largest one (normwise in each row of A and column of B): elements below 2^-17 of it lose
bits, and those below 2^-40 vanish. The scales are powers of two, and exact. Multiplying a row of A or a column of B by a power of
two multiplies D by it, bit for bit, as long as no element leaves the normal numbers of f32.

Infinity and NaN give what multiply-adds in f32 give: infinity times an element is infinity, however small that is. Elements that
bf16 would round to infinity are finite, and their products as large as in f32. Where a sum of finite products exceeds f32, D is
infinite or NaN. With planes of bf16 the sign of that infinity has no meaning: the products of small planes, of either sign,
are the first to exceed f32. `docs/performance.md` has plots of errors over K.
";

fn state(works: bool) -> String {
    if works { "implemented" } else { "not implemented yet" }.into()
}

fn types() -> String {
    let rows = ELEMENTS.iter().map(|element| {
        let Element { name, bits, meaning, works, .. } = *element;
        [format!("`{name}`"), format!("{bits} bits"), meaning.into(), state(works)]
    });
    let mut text = table_of(["type", "size", "what it is", "state"], rows);
    text.push_str("\nThe instructions of tensor cores; `atom(fma)` multiplies every type but tf32.\n\n");
    let names = |all: &[DType]| all.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ");
    let instructions = MULTIPLIES.iter().map(|row| {
        let shape = match row.columns {
            Columns::Only(_) => format!("`{}`", Clause::Atom(row.atom())),
            Columns::Many(step) => {
                let beyond = if step > 8 { format!(", beyond 32 by {step}") } else { String::new() };
                let (least, most) = (WGMMA_COLUMNS.start(), WGMMA_COLUMNS.end());
                format!("`atom(wgmma({}, n, {}))`, n from {least} to {most} by 8{beyond}", row.rows, row.depth)
            }
        };
        let mixed = if row.mixed { ", also mixed" } else { "" };
        [shape, format!("{}{mixed}", names(row.factors)), names(row.sums), row.least.to_string()]
    });
    text.push_str(&table_of(["instruction", "A and B", "accumulator", "from"], instructions));
    text.push_str(
        "\nA and B have types that one multiply instruction takes. The accumulator is at least as wide as they are. Sums of \
         integers wrap around. Tensor cores can accumulate products of f16 in f16 (`acc = f16`): in half as many registers, \
         rounded to nearest after each instruction, and infinite beyond 65504. The epilogue, its scalars and its vectors are then \
         f32. So they are where tensor cores add integers and D has a floating-point type, such as in `types(a = i8, b = i8, d = \
         bf16)`: a sum is converted to f32 once it is complete.\n\nWith `atom(fma)` each operand is converted to the accumulator's type in registers, so A and B may have different \
         floating-point types. Narrower types are converted exactly. D is rounded once, from the accumulator's type to nearest \
         even; what an f16 cannot hold becomes infinite, and what an integer or an 8-bit float cannot hold becomes the nearest \
         that it can. C is read in its own type.\n\nTensor cores multiply f32 as tf32: TMA rounds A and B to nearest even for \
         `wgmma`, and threads round fragments to nearest, ties away from zero, for `mma`. Sums of products of 8-bit floats keep \
         13 fraction bits of their terms, whatever the accumulator; so they are promoted every 128 of k, unless `promote` says \
         otherwise. Tiles of types of 8 and 32 bits are contiguous along k for tensor cores, because only 16-bit elements are \
         transposed on the way; lanes load f64 one by one. `atom(wgmma)` packs an operand that is not.\n\nScales are scalars and vectors of the epilogue. 8-bit \
         weights and activations with a scale for each row and each column (W8A8):\n\n```text\ntypes(a = i8, b = i8, d = \
         bf16);\nepilogue(|acc, of_row, of_column| acc * of_row[m] * of_column[n]);\n```\n",
    );
    text
}

const LAYOUT: &str = "\
A is m x k, B is k x n, C and D are m x n. In a row-major matrix (`row`) the elements of a row are neighbours in memory, in a
column-major one (`col`) those of a column. The leading dimension of a call is the distance, in elements, from one row (column)
to the next; it may be larger than the length of a row.

The contiguous dimension of A and B decides what a wide load takes: a row-major A and a column-major B are contiguous along k, the
others along m and n. `shared` says how the tiles lie in shared memory; where the two differ, a copy transposes. `gemmc explain
shared` and `gemmc explain vector` say more.
";

fn epilogue() -> String {
    let rows = Function::TABLE.iter().map(|(word, function)| {
        let arguments = ["x", "y", "z"][..function.arity().min(3)].join(", ");
        [format!("`{word}({arguments})`"), value(*function).into(), state(implemented::works(function))]
    });
    let mut text = String::from(EPILOGUE);
    text.push_str(&table_of(["function", "value", "state"], rows));
    text.push_str(&format!(
        "\nThe code of a thread's epilogue is at most {EPILOGUE_LIMIT} instructions, for all elements of D that it holds: a longer expression \
         needs threads with fewer elements.\n"
    ));
    text
}

fn value(function: Function) -> &'static str {
    match function {
        Function::Relu => "max(x, 0); NaN stays NaN",
        Function::Abs => "the absolute value",
        Function::Min => "the smaller one; NaN if either is NaN",
        Function::Max => "the larger one; NaN if either is NaN",
        Function::Clamp => "min(max(x, y), z)",
        Function::Exp => "e to the x, within 2^-20 of its value",
        Function::Tanh => "hyperbolic tangent, within 2^-20 of its value",
        Function::Sigmoid => "1 / (1 + exp(-x)), within 2^-20 of its value",
        Function::Gelu => "x / 2 * (1 + erf(x / sqrt 2)), within 2^-20 of x; 0 for -infinity",
        Function::GeluTanh => "x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), within 2^-20 of x; 0 for -infinity",
        Function::Silu => "x * sigmoid(x), within 2^-20 of its value; 0 for -infinity",
    }
}

const EPILOGUE: &str = "\
`epilogue(|names| expression)` declares every name between the bars; the expression is what an element of D stores.

| operand            | what it is                                   |
|--------------------|----------------------------------------------|
| `acc`              | the sum over k                               |
| `c`                | the element of C                             |
| `name[m]`          | the element of a vector for this row of D    |
| `name[n]`          | the element of a vector for this column of D |
| any other name     | a scalar that each call gives                |
| `2`, `0.5`, `1e-3` | a number                                     |

The operators are `+ - * /` and parentheses with their usual precedence, and a sign before an operand. All are of the
accumulator's type, or of f32 where that is f16, or i32 and D is not. `x * y + z` is one fused multiply-add. If a scalar multiplies `acc` or `c` and
is 0 in a call, it drops that operand: the operand is not read and counts as 0, as in BLAS. Every other 0 times NaN is NaN.

";

fn targets() -> String {
    let kib = |bytes: u32| format!("{} KiB", bytes / 1024);
    let rows = Target::TABLE.iter().map(|(word, target)| {
        [
            format!("`{word}`"),
            generation(*target).into(),
            kib(target.max_shared_bytes()),
            kib(target.sm_shared_bytes()),
            target.sm_threads().to_string(),
            target.sm_blocks().to_string(),
        ]
    });
    let head = ["target", "GPUs", "shared memory of a block", "of a multiprocessor", "its threads", "its blocks"];
    let mut text = table_of(head, rows);
    text.push_str(&format!(
        "\nOn every target a block has at most {MAX_THREADS} threads in warps of {WARP}, a thread at most {MAX_REGISTERS} registers, a \
         multiprocessor {REGISTER_FILE} registers, and a block {} of shared memory unless it asks for more. Code for a target also \
         runs on later GPUs, except for `sm_90a`, which runs on exactly that generation. `load(cp_async)` needs `sm_80`.\n",
        kib(STATIC_SHARED_BYTES)
    ));
    text
}

fn generation(target: Target) -> &'static str {
    match target.capability {
        75 => "Turing: T4, RTX 20",
        80 => "Ampere: A100",
        86 => "Ampere: A40, RTX 30",
        89 => "Ada: L40, RTX 40",
        90 if target.specific => "Hopper: H100, H200, with its own instructions",
        90 => "Hopper: H100, H200",
        100 => "Blackwell: B200",
        _ => "Blackwell: RTX 50",
    }
}
