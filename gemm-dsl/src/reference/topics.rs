//! Topics that do not belong to a single clause: types, layouts, the language of the epilogue, targets.

use super::table_of;
use crate::epilogue::Function;
use crate::implemented;
use crate::table::{self, Info};
use crate::target::{MAX_REGISTERS, MAX_THREADS, REGISTER_FILE, STATIC_SHARED_BYTES, Target, WARP};
use crate::types::DType;
use crate::words::Word;

/// A section of the reference.
#[derive(Debug)]
pub struct Topic {
    /// What `gemmc explain` calls it.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub summary: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The clause that it is about.
    pub clause: &'static str,
    /// What it says, in Markdown.
    pub text: fn() -> String,
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
    },
    Topic {
        name: "layout",
        summary: "rows, columns and leading dimensions",
        title: "Layouts",
        clause: "layout",
        text: || LAYOUT.into(),
    },
    Topic {
        name: "epilogue",
        summary: "the language of the epilogue: operands, operators, functions",
        title: "The epilogue",
        clause: "epilogue",
        text: epilogue,
    },
    Topic {
        name: "targets",
        summary: "the targets and their limits",
        title: "Targets",
        clause: "target",
        text: targets,
    },
];

fn state(works: bool) -> String {
    if works { "implemented" } else { "not implemented yet" }.into()
}

fn types() -> String {
    let rows = DType::TABLE.iter().map(|(word, dtype)| {
        [
            format!("`{word}`"),
            format!("{} bits", 8 * dtype.bytes()),
            meaning(*dtype).into(),
            state(implemented::works(dtype)),
        ]
    });
    let mut text = table_of(["type", "size", "what it is", "state"], rows);
    text.push_str(
        "\nA and B are of types that one multiply instruction takes; the accumulator is at least as wide as they are. Sums of \
         integers wrap around.\n\nWith `atom(fma)` each operand is converted to the accumulator's type in registers, so A and B \
         may have different floating-point types; bf16 and f16 are converted exactly. What D stores is rounded once, from the \
         accumulator's type to nearest even; what an f16 cannot hold becomes infinite. C is read in its own type.\n",
    );
    text
}

fn meaning(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "IEEE binary64",
        DType::F32 => "IEEE binary32",
        DType::Tf32 => "f32 with 10 bits of mantissa, in 32 bits",
        DType::F16 => "IEEE binary16",
        DType::Bf16 => "the upper half of an f32",
        DType::E4m3 => "8-bit float with 4 bits of exponent",
        DType::E5m2 => "8-bit float with 5 bits of exponent",
        DType::I8 => "signed integer",
        DType::U8 => "unsigned integer",
        DType::I32 => "signed integer",
    }
}

const LAYOUT: &str = "\
A is m x k, B is k x n, C and D are m x n. A matrix is row major (`row`) if the elements of a row are neighbours in memory, and
column major (`col`) if those of a column are. The leading dimension of a call is the distance, in elements, from one row
(column) to the next; it may be larger than the row is long.

Which dimension of A and B is contiguous decides what a wide load takes: a row-major A and a column-major B are contiguous along
k, the others along m and n. `shared` says how the tiles then lie in shared memory; where the two differ, a copy transposes.
`gemmc explain shared` and `gemmc explain vector` say more.
";

fn epilogue() -> String {
    let rows = Function::TABLE.iter().map(|(word, function)| {
        let arguments = ["x", "y", "z"][..function.arity().min(3)].join(", ");
        [format!("`{word}({arguments})`"), value(*function).into(), state(implemented::works(function))]
    });
    let mut text = String::from(EPILOGUE);
    text.push_str(&table_of(["function", "value", "state"], rows));
    text
}

fn value(function: Function) -> &'static str {
    match function {
        Function::Relu => "max(x, 0); NaN stays NaN",
        Function::Abs => "the absolute value",
        Function::Min => "the smaller one; NaN if either is NaN",
        Function::Max => "the larger one; NaN if either is NaN",
        Function::Clamp => "min(max(x, y), z)",
        Function::Exp => "e to the x",
        Function::Tanh => "hyperbolic tangent",
        Function::Sigmoid => "1 / (1 + exp(-x))",
        Function::Gelu => "x / 2 * (1 + erf(x / sqrt 2)), in its tanh form",
        Function::Silu => "x * sigmoid(x)",
    }
}

const EPILOGUE: &str = "\
`epilogue(|names| expression)`: every name is declared between the bars, and the expression is what is stored in an element of D.

| operand            | what it is                                   |
|--------------------|----------------------------------------------|
| `acc`              | the sum over k                               |
| `c`                | the element of C                             |
| `name[m]`          | the element of a vector for this row of D    |
| `name[n]`          | the element of a vector for this column of D |
| any other name     | a scalar that each call gives                |
| `2`, `0.5`, `1e-3` | a number                                     |

The operators are `+ - * /` and parentheses with their usual precedence, and a sign before an operand. All are of the
accumulator's type; `x * y + z` is one fused multiply-add. A scalar that is 0 in a call and multiplies `acc` or `c` drops that
operand: it is not read and counts as 0, as BLAS has it. Every other 0 times NaN is NaN.

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
        "\nOn every target a block has at most {MAX_THREADS} threads in warps of {WARP}, a thread at most {MAX_REGISTERS} \
         registers, a multiprocessor {REGISTER_FILE} registers, and a block {} of shared memory without asking for more. Code for \
         a target runs on later GPUs, too, but for `sm_90a`, which runs on exactly that generation. `load(cp_async)` needs \
         `sm_80`.\n",
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
