//! Tensor maps that a kernel modifies: every field, in global and in shared memory, and the fences of the tensormap proxy.

use ptx_gemm_interp::ViolationKind::{self, Misaligned, OutOfBounds, Proxy, Race, TensorMap as Map, Uninitialised};
use ptx_gemm_interp::{Arg, OobFill, Options, Swizzle, TensorElement, TensorMapArgs};

use crate::copies::{Case, change};
use crate::tensor::{load, map, matrix};

/// Every field of [`wanted`].
const FIELDS: &str = "add.u64 %rd4, %in, 64;
@%p0 tensormap.replace.tile.global_address.SPACE.b1024.b64 [MAP], %rd4; // address
@%p0 tensormap.replace.tile.rank.SPACE.b1024.b32 [MAP], 2;
@%p0 tensormap.replace.tile.global_dim.SPACE.b1024.b32 [MAP], 0, 16;
mov.u32 %r9, 10;
@%p0 tensormap.replace.tile.global_dim.SPACE.b1024.b32 [MAP], 1, %r9; // dim
@%p0 tensormap.replace.tile.global_dim.SPACE.b1024.b32 [MAP], 2, 3;
@%p0 tensormap.replace.tile.global_stride.SPACE.b1024.b64 [MAP], 0, 96;
@%p0 tensormap.replace.tile.global_stride.SPACE.b1024.b64 [MAP], 1, 960;
@%p0 tensormap.replace.tile.box_dim.SPACE.b1024.b32 [MAP], 0, 8; // box
@%p0 tensormap.replace.tile.box_dim.SPACE.b1024.b32 [MAP], 1, 2;
@%p0 tensormap.replace.tile.box_dim.SPACE.b1024.b32 [MAP], 2, 2;
@%p0 tensormap.replace.tile.element_stride.SPACE.b1024.b32 [MAP], 0, 1;
@%p0 tensormap.replace.tile.element_stride.SPACE.b1024.b32 [MAP], 1, 1;
@%p0 tensormap.replace.tile.element_stride.SPACE.b1024.b32 [MAP], 2, 1;
@%p0 tensormap.replace.tile.elemtype.SPACE.b1024.b32 [MAP], 7;
@%p0 tensormap.replace.tile.interleave_layout.SPACE.b1024.b32 [MAP], 0;
@%p0 tensormap.replace.tile.swizzle_mode.SPACE.b1024.b32 [MAP], 1;
@%p0 tensormap.replace.tile.fill_mode.SPACE.b1024.b32 [MAP], 1; // fill
";

/// The map that results from the fields.
fn wanted(input: u64) -> TensorMapArgs {
    TensorMapArgs::new(TensorElement::F32, input + 64, &[16, 10, 3], &[96, 960], &[8, 2, 2])
        .swizzled(Swizzle::Bytes32)
        .filled(OobFill::Nan)
}

/// The result of a load with that map.
fn loaded() -> Vec<u32> {
    let body = use_of_it();
    let maps = |input, _| [map(&wanted(input)), Arg::Bytes(vec![0; 128])];
    let (words, _) = Case { maps: &maps, ..Case::new(&body, 32) }.run(&Options::default()).expect("right");
    words[..32].into()
}

fn use_of_it() -> String {
    load(3, "12, 9, 1", 32)
}

fn fields(space: &str, map: &str) -> String {
    FIELDS.replace("SPACE", space).replace("MAP", map)
}

/// The warp copies the first map to shared memory, its first thread replaces fields there, and the warp publishes the
/// map in global memory.
fn published() -> String {
    format!(
        "shl.b32 %r0, %t, 2;
cvt.u64.u32 %rd1, %r0;
add.u64 %rd2, %ma, %rd1;
ld.u32 %r1, [%rd2];
mov.u32 %r2, c;
add.u32 %r3, %r2, %r0;
st.shared.u32 [%r3], %r1; // copy
bar.warp.sync 4294967295; // copied
{}bar.warp.sync 4294967295; // replaced
add.u64 %ma, %out, 2048;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%ma], [c], 128; // publish
fence.proxy.tensormap::generic.acquire.gpu [%ma], 128; // acquire
{}",
        fields("shared::cta", "c"),
        use_of_it()
    )
}

/// One warp writes a map to global memory and replaces fields there; another one uses it.
fn in_place() -> String {
    let copy: String = (0..8)
        .map(|i| {
            let (from, to) = (16 * i, 2048 + 16 * i);
            format!(
                "@%p0 ld.param.v4.u32 {{%r4, %r5, %r6, %r7}}, [ma+{from}];\n\
                 @%p0 st.global.v4.u32 [%out+{to}], {{%r4, %r5, %r6, %r7}};\n"
            )
        })
        .collect();
    format!(
        "add.u64 %ma, %out, 2048;
setp.eq.u32 %p0, %t, 32;
{copy}{}@%p0 fence.proxy.tensormap::generic.release.gpu; // release
bar.sync 0; // modified
setp.eq.u32 %p0, %t, 0;
@%p0 fence.proxy.tensormap::generic.acquire.gpu [%ma], 128; // acquire
{}",
        fields("global", "%ma"),
        use_of_it()
    )
}

fn case<'a>(body: &'a str, block: u32, maps: &'a dyn Fn(u64, u64) -> [Arg; 2]) -> Case<'a> {
    Case { maps, ..Case::new(body, block) }
}

fn plain(input: u64, _: u64) -> [Arg; 2] {
    [map(&matrix(input, [8, 5])), Arg::Bytes(vec![0; 128])]
}

#[test]
fn every_field_is_replaced() {
    let want = loaded();
    assert!(want.contains(&0x7ff7_7ff7), "a part of the box is outside the tensor");
    case(&published(), 32, &plain).gives("in shared memory", &want);
    case(&in_place(), 64, &plain).gives("in global memory", &want);
    // A new map: memory of zeros.
    let fresh = change(&published(), "st.shared.u32 [%r3], %r1; // copy", "mov.u32 %r1, 0;\nst.shared.u32 [%r3], %r1;");
    case(&fresh, 32, &plain).gives("a new map", &want);
}

#[test]
fn fences_of_the_tensormap_proxy() {
    let breaks = |name: &str, body: &str, block: u32, from: &str, to: &str| {
        case(&change(body, from, to), block, &plain).breaks(name, &[Proxy], "cp.async.bulk.tensor");
    };
    let acquire = "fence.proxy.tensormap::generic.acquire.gpu [%ma], 128; // acquire";
    breaks("published and not acquired", &published(), 32, acquire, "");
    breaks("modified and not acquired", &in_place(), 64, &format!("@%p0 {acquire}"), "");
    breaks("not released", &in_place(), 64, "@%p0 fence.proxy.tensormap::generic.release.gpu; // release", "");
    breaks("another map acquired", &in_place(), 64, "[%ma], 128; // acquire", "[%ma+128], 128;");
    let early = change(&in_place(), &format!("@%p0 {acquire}"), "");
    breaks(
        "acquired before it is modified",
        &early,
        64,
        "add.u64 %rd4, %in, 64;",
        &format!("{acquire}\nadd.u64 %rd4, %in, 64;"),
    );
    let plain_copy = "fence.acq_rel.gpu;";
    breaks("a fence of the generic proxy", &published(), 32, acquire, plain_copy);
    let violation = case(&change(&published(), acquire, ""), 32, &plain).run(&Options::default()).expect_err("found");
    let text = violation.to_string();
    assert!(text.contains("acquiring fence of the tensormap proxy") && text.contains("cp_fenceproxy"), "{text}");
}

#[test]
fn broken_modifications() {
    let breaks = |name: &str, kinds: &[ViolationKind], from: &str, to: &str, at: &str| {
        case(&change(&published(), from, to), 32, &plain).breaks(name, kinds, at);
    };
    breaks("not copied yet", &[Race, Map], "bar.warp.sync 4294967295; // copied", "", "tensormap.replace");
    breaks("a box of 12 bytes", &[Map], "[c], 0, 8; // box", "[c], 0, 3;", "cp.async.bulk.tensor");
    breaks("a misaligned address", &[Map], "add.u64 %rd4, %in, 64;", "add.u64 %rd4, %in, 8;", "cp.async.bulk.tensor");
    breaks("a value without a value", &[Uninitialised], "1, %r9; // dim", "1, %r15;", "tensormap.replace");
    breaks("a misaligned map", &[Misaligned], "b64 [c], %rd4; // address", "b64 [c+16], %rd4;", "tensormap.replace");
    breaks(
        "no map",
        &[Map],
        "b64 [c], %rd4; // address",
        "b64 [a], %rd4;\n@%p0 st.shared.u32 [a], 5;\n@%p0 tensormap.replace.tile.rank.shared::cta.b1024.b32 [a], 1;",
        "tensormap.replace.tile.rank",
    );
    breaks(
        "outside of memory",
        &[OutOfBounds],
        "b64 [c], %rd4; // address",
        "b64 [c+65536], %rd4;",
        "tensormap.replace",
    );
    breaks(
        "to nowhere",
        &[OutOfBounds],
        "[%ma], [c], 128; // publish",
        "[%ma+65536], [c], 128;",
        "tensormap.cp_fenceproxy",
    );
    breaks(
        "from bytes never written",
        &[Uninitialised],
        "[%ma], [c], 128; // publish",
        "[%ma], [b], 128;",
        "tensormap.cp_fenceproxy",
    );
    // A copy in flight may still read the map that the next one replaces, so a wait for the reader is needed.
    let again = format!("{}\nbar.sync 0;\n", published());
    case(&again, 32, &plain).gives("and a barrier", &loaded());
}
