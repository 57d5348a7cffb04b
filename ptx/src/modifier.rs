//! Modifiers shared by scalar instructions and memory accesses.

use crate::names::words;

/// Comparison of `setp`; on floats the plain ones are ordered, and the `u` ones are true on NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Lo,
    Ls,
    Hi,
    Hs,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

words!(Compare {
    Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Lo "lo", Ls "ls", Hi "hi", Hs "hs", Equ "equ", Neu "neu",
    Ltu "ltu", Leu "leu", Gtu "gtu", Geu "geu", Num "num", Nan "nan",
});

/// Rounding modes; `None` if the instruction takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Rounding {
    None,
    Rn,
    Rz,
    Rm,
    Rp,
    Rna,
    Rni,
    Rzi,
    Rmi,
    Rpi,
}

words!(Rounding {
    None "", Rn "rn", Rz "rz", Rm "rm", Rp "rp", Rna "rna", Rni "rni", Rzi "rzi", Rmi "rmi", Rpi "rpi",
});

/// Which half of an integer product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Half {
    Lo,
    Hi,
    Wide,
}

words!(Half { Lo "lo", Hi "hi", Wide "wide" });

/// Cache operator of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Cache {
    None,
    Ca,
    Cg,
    Cs,
    Lu,
    Cv,
    Wb,
    Wt,
    Nc,
}

words!(Cache { None "", Ca "ca", Cg "cg", Cs "cs", Lu "lu", Cv "cv", Wb "wb", Wt "wt", Nc "nc" });

/// Memory ordering of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Order {
    Weak,
    Volatile,
    Relaxed(Scope),
    Acquire(Scope),
    Release(Scope),
    AcqRel(Scope),
}

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FenceOrder {
    /// `.sc`: it is also ordered with all other fences of this kind.
    Sc,
    /// `.acq_rel`.
    AcqRel,
    /// `.acquire`: what follows it, after the strong reads before it.
    Acquire,
    /// `.release`: what precedes it, before the strong writes after it.
    Release,
}

words!(FenceOrder { Sc "sc", AcqRel "acq_rel", Acquire "acquire", Release "release" });

/// Scope of a memory ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Scope {
    Cta,
    Cluster,
    Gpu,
    Sys,
}

words!(Scope { Cta "cta", Cluster "cluster", Gpu "gpu", Sys "sys" });

/// Approximate functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Approx {
    Ex2,
    Lg2,
    Tanh,
    Rcp,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
}

words!(Approx {
    Ex2 "ex2", Lg2 "lg2", Tanh "tanh", Rcp "rcp", Sqrt "sqrt", Rsqrt "rsqrt", Sin "sin", Cos "cos",
});

/// Atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Atomic {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

words!(Atomic {
    Add "add", Min "min", Max "max", And "and", Or "or", Xor "xor", Exch "exch", Cas "cas", Inc "inc", Dec "dec",
});
