//! How each word of PTX is spelled, stated once and used by the printer and the parser.

use crate::instruction::{Approx, Atomic, Cache, Compare, Half, Rounding, Scope, Special};
use crate::types::{Space, Type};

/// An enumeration whose members are words of PTX. The member that PTX writes as nothing (`Rounding::None`) is named "".
pub(crate) trait Word: Copy + PartialEq + 'static {
    fn word(self) -> &'static str;
    fn from_word(text: &str) -> Option<Self>;
}

macro_rules! words {
    ($name:ident { $($variant:ident $text:literal),* $(,)? }) => {
        impl $name {
            /// The word of PTX, without a leading dot; empty for the member that PTX leaves unwritten.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// The member with this name.
            pub fn from_name(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)* _ => None }
            }
        }

        impl crate::names::Word for $name {
            fn word(self) -> &'static str { self.name() }
            fn from_word(text: &str) -> Option<Self> { Self::from_name(text) }
        }
    };
}
pub(crate) use words;

words!(Type {
    Pred "pred", B8 "b8", B16 "b16", B32 "b32", B64 "b64", B128 "b128", U8 "u8", U16 "u16", U32 "u32", U64 "u64",
    S8 "s8", S16 "s16", S32 "s32", S64 "s64", F16 "f16", F16x2 "f16x2", Bf16 "bf16", Bf16x2 "bf16x2", Tf32 "tf32",
    F32 "f32", F64 "f64", E4m3x2 "e4m3x2", E5m2x2 "e5m2x2",
});

words!(Space {
    Generic "", Global "global", Shared "shared", SharedCta "shared::cta", SharedCluster "shared::cluster",
    Local "local", Param "param", Const "const",
});

words!(Compare {
    Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Lo "lo", Ls "ls", Hi "hi", Hs "hs", Equ "equ", Neu "neu",
    Ltu "ltu", Leu "leu", Gtu "gtu", Geu "geu", Num "num", Nan "nan",
});

words!(Rounding {
    None "", Rn "rn", Rz "rz", Rm "rm", Rp "rp", Rna "rna", Rni "rni", Rzi "rzi", Rmi "rmi", Rpi "rpi",
});

words!(Half { Lo "lo", Hi "hi", Wide "wide" });

words!(Cache { None "", Ca "ca", Cg "cg", Cs "cs", Lu "lu", Cv "cv", Wb "wb", Wt "wt", Nc "nc" });

words!(Scope { Cta "cta", Cluster "cluster", Gpu "gpu", Sys "sys" });

words!(Approx {
    Ex2 "ex2", Lg2 "lg2", Tanh "tanh", Rcp "rcp", Sqrt "sqrt", Rsqrt "rsqrt", Sin "sin", Cos "cos",
});

words!(Atomic {
    Add "add", Min "min", Max "max", And "and", Or "or", Xor "xor", Exch "exch", Cas "cas", Inc "inc", Dec "dec",
});

words!(Special {
    TidX "%tid.x", TidY "%tid.y", TidZ "%tid.z", NtidX "%ntid.x", NtidY "%ntid.y", NtidZ "%ntid.z",
    CtaidX "%ctaid.x", CtaidY "%ctaid.y", CtaidZ "%ctaid.z", NctaidX "%nctaid.x", NctaidY "%nctaid.y",
    NctaidZ "%nctaid.z", LaneId "%laneid", WarpId "%warpid", NwarpId "%nwarpid", LaneMaskLt "%lanemask_lt",
    LaneMaskLe "%lanemask_le", LaneMaskEq "%lanemask_eq", LaneMaskGe "%lanemask_ge", LaneMaskGt "%lanemask_gt",
    SmId "%smid", NsmId "%nsmid", GridId "%gridid", Clock "%clock", ClockHi "%clock_hi", Clock64 "%clock64",
    GlobalTimer "%globaltimer", GlobalTimerLo "%globaltimer_lo", GlobalTimerHi "%globaltimer_hi",
    ClusterCtaRank "%cluster_ctarank", ClusterNctaRank "%cluster_nctarank", ClusterId "%clusterid.x",
    ClusterIdY "%clusterid.y", ClusterIdZ "%clusterid.z", NclusterId "%nclusterid.x", NclusterIdY "%nclusterid.y",
    NclusterIdZ "%nclusterid.z", ClusterCtaidX "%cluster_ctaid.x", ClusterCtaidY "%cluster_ctaid.y",
    ClusterCtaidZ "%cluster_ctaid.z", ClusterNctaidX "%cluster_nctaid.x", ClusterNctaidY "%cluster_nctaid.y",
    ClusterNctaidZ "%cluster_nctaid.z", IsExplicitCluster "%is_explicit_cluster",
    DynamicSmemSize "%dynamic_smem_size", TotalSmemSize "%total_smem_size",
});
