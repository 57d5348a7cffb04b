//! Tensor maps: their arguments, boxes, swizzles, elements outside the tensor, and copies in both directions.

use ptx_gemm_interp::ViolationKind::{self, Misaligned, OutOfBounds, Race, Uninitialised};
use ptx_gemm_interp::{
    Arg, Interleave, Launch, Memory, OobFill, Options, Program, Severity, Swizzle, TensorElement, TensorMap,
    TensorMapArgs, TensorMapError, launch, random_tensor_maps,
};

use crate::copies::{Case, INIT, WAIT, change, text};

pub fn map(args: &TensorMapArgs) -> Arg {
    Arg::TensorMap(Box::new(TensorMap::encode(args).unwrap_or_else(|error| panic!("{error}: {args:?}"))))
}

/// Loads a box through the first map into `a` and stores its `words` words.
pub fn load(dimensions: u32, coordinates: &str, words: u32) -> String {
    let bytes = 4 * words;
    format!(
        "{INIT}@!%p0 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};
cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [a], [%ma, {{{coordinates}}}], [bar];
{WAIT}mov.u32 %r0, a;
LOOP: setp.ge.u32 %p2, %t, {words};
@%p2 bra END;
shl.b32 %r1, %t, 2;
add.u32 %r2, %r0, %r1;
ld.shared.u32 %r3, [%r2];
cvt.u64.u32 %rd0, %r1;
add.u64 %rd0, %out, %rd0;
st.global.u32 [%rd0], %r3;
add.u32 %t, %t, 32;
bra LOOP;
END:"
    )
}

fn loads(name: &str, args: impl Fn(u64) -> TensorMapArgs, coordinates: &str, want: &[u32]) {
    let rank = args(1 << 30).rank;
    let body = load(rank, coordinates, want.len() as u32);
    let maps = |input, _| [map(&args(input)), Arg::Bytes(vec![0; 128])];
    Case { maps: &maps, ..Case::new(&body, 32) }.gives(name, want);
}

/// The word at row r, column c of a matrix of 24 columns.
fn at(r: u32, c: u32) -> u32 {
    r * 24 + c + 1
}

/// A matrix of 20 rows and 22 columns, 24 words apart.
pub fn matrix(address: u64, box_dims: [u32; 2]) -> TensorMapArgs {
    TensorMapArgs::new(TensorElement::U32, address, &[22, 20], &[96], &box_dims)
}

#[test]
fn boxes() {
    let inside = |r0: i32, c0: i32, rows: i32, columns: i32| -> Vec<u32> {
        let word =
            |r: i32, c: i32| if (0..20).contains(&r) && (0..22).contains(&c) { at(r as u32, c as u32) } else { 0 };
        (0..rows * columns).map(|i| word(r0 + i / columns, c0 + i % columns)).collect()
    };
    let corners = [(0, 0), (4, 3), (20, 18), (-4, -2), (-8, 0), (0, -5), (24, 0), (0, 20), (-4, 19)];
    for (c, r) in corners.into_iter().chain([(2_000_000_000, -2_000_000_000)]) {
        let coordinates = format!("{c}, {r}");
        loads(&coordinates, |address| matrix(address, [8, 5]), &coordinates, &inside(r, c, 5, 8));
    }
    // One dimension, and five dimensions of which some have element strides.
    let line = |address| TensorMapArgs::new(TensorElement::U32, address, &[10], &[], &[12]);
    loads("1d", line, "-4", &[0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut steps = TensorMapArgs::new(TensorElement::U32, 0, &[4, 3, 4, 2, 2], &[16, 48, 192, 384], &[4, 3, 4, 1, 2]);
    steps.element_strides = vec![1, 2, 3, 1, 1];
    let word = |b: u32, c: u32, d: u32, e: u32, a: u32| 1 + a + 4 * b + 12 * c + 48 * d + 96 * e;
    let mut want = Vec::new();
    for e in 0..2 {
        for c in [0, 3] {
            for b in [1, 3] {
                want.extend((0..4).map(|a| if b < 3 { word(b, c, 1, e, a) } else { 0 }));
            }
        }
    }
    loads("5d", |address| TensorMapArgs { address, ..steps.clone() }, "0, 1, 0, 1, 0", &want);
    // Strides that are not sorted, and a dimension that repeats.
    let slabs = |address| TensorMapArgs::new(TensorElement::U32, address, &[4, 5, 6], &[96, 16], &[4, 2, 2]);
    let want: Vec<u32> = (0..16).map(|i| at(i / 4 % 2, i % 4 + 4 * (i / 8))).collect();
    loads("slabs", slabs, "0, 0, 0", &want);
    let same = |address| TensorMapArgs::new(TensorElement::U32, address, &[4, 3], &[0], &[4, 3]);
    loads("a stride of 0", same, "0, 0", &[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn fills_and_conversions() {
    let nan = |address| TensorMapArgs { data_type: 7, ..matrix(address, [4, 1]).filled(OobFill::Nan) };
    loads("NaN outside", nan, "20, 0", &[21, 22, 0x7ff7_7ff7, 0x7ff7_7ff7]);
    let halves = |address| TensorMapArgs::new(TensorElement::Bf16, address, &[4], &[], &[8]).filled(OobFill::Nan);
    loads("NaN of 16 bits", halves, "0", &[1, 2, 0x7ff7_7ff7, 0x7ff7_7ff7]);
    // 1 to 4 are subnormal numbers.
    let kept = |address| TensorMapArgs { data_type: 10, ..matrix(address, [4, 1]) };
    loads("subnormals", kept, "0, 0", &[1, 2, 3, 4]);
}

#[test]
fn tf32_is_rounded_on_the_way() {
    // The results of an H200.
    let given: [u32; 16] = [
        0x3f80_1000,
        0x3f80_3000,
        0x3f80_0fff,
        0xbf80_1001,
        0x7f7f_ffff,
        0x7f80_1000,
        0x7fc0_0001,
        0x7f80_0000,
        0x0000_0001,
        0x8000_3000,
        0x0000_1fff,
        0x007f_ffff,
        0xff80_0001,
        0x3f80_2fff,
        0x3f80_1fff,
        0x3f7f_ffff,
    ];
    let want: [u32; 16] = [
        0x3f80_0000,
        0x3f80_4000,
        0x3f80_0000,
        0xbf80_2000,
        0x7f80_0000,
        0x7fff_e000,
        0x7fff_e000,
        0x7f80_0000,
        0x0000_0000,
        0x8000_4000,
        0x0000_2000,
        0x0080_0000,
        0x7fff_e000,
        0x3f80_2000,
        0x3f80_2000,
        0x3f80_0000,
    ];
    let stores: String =
        given.iter().enumerate().map(|(i, word)| format!("@%p0 st.global.b32 [%in+{}], {word};\n", 4 * i)).collect();
    let body = format!("{stores}fence.proxy.async;\n{}", load(2, "0, 0", 16));
    for data_type in [11, 12] {
        let maps = |input, _| [map(&TensorMapArgs { data_type, ..matrix(input, [16, 1]) }), Arg::Bytes(vec![0; 128])];
        Case { maps: &maps, ..Case::new(&body, 32) }.gives("tf32", &want);
    }
}

#[test]
fn short_rows_begin_a_span_each() {
    // Rows of 64 bytes under a swizzle of 128, as an H200 lays them out.
    let args = |address| {
        TensorMapArgs::new(TensorElement::U32, address, &[32, 8], &[128], &[16, 8]).swizzled(Swizzle::Bytes128)
    };
    assert_eq!(TensorMap::encode(&args(0)).expect("legal").shared_bytes(), 7 * 128 + 64);
    let body = load(2, "0, 0", 128).replace("{words}", "");
    // Only the first row is where it would be without the swizzle. The second row has its chunks permuted, and is a
    // whole span further on.
    let body = change(
        &body,
        "setp.ge.u32 %p2, %t, 128;",
        "setp.ge.u32 %p2, %t, 48;\nsetp.lt.u32 %p3, %t, 32;\nsetp.ge.and.u32 %p4, %t, 16, %p3;",
    );
    let body = body.replace(
        "setp.ge.and.u32 %p4, %t, 16, %p3;",
        "setp.ge.u32 %p4, %t, 16;\nand.pred %p4, %p4, %p3;\n@%p4 bra SKIP;",
    );
    let body = change(&body, "add.u32 %t, %t, 32;", "SKIP: add.u32 %t, %t, 32;");
    let maps = |input, _| [map(&args(input)), Arg::Bytes(vec![0; 128])];
    let case = Case { maps: &maps, ..Case::new(&body, 32) };
    let mut want: Vec<u32> = (1..=16).collect();
    want.extend([7; 16]);
    want.extend([37, 38, 39, 40, 33, 34, 35, 36, 45, 46, 47, 48, 41, 42, 43, 44]);
    case.gives("short rows", &want);
}

/// Rows of 64 bytes that are 128 apart: a report counts the copied bytes, not the distance to the last byte.
#[test]
fn reports_name_the_copied_bytes() {
    let narrow = |address, _| {
        let args = TensorMapArgs::new(TensorElement::U32, address, &[32, 8], &[128], &[16, 8]);
        [map(&args.swizzled(Swizzle::Bytes128)), Arg::Bytes(vec![0; 128])]
    };
    let before = "@%p0 bra COPY; st.shared.u32 [a], %t; COPY: @!%p0 bra WAIT;";
    let body = load(2, "0, 0", 128).replace("@!%p0 bra WAIT;", before);
    let violation = Case { maps: &narrow, ..Case::new(&body, 2) }.run(&Options::default()).map(|_| ());
    let violation = violation.expect_err("nothing orders the store and the copy");
    assert_eq!(violation.kind, Race, "{violation}");
    assert!(violation.message.contains("writes 512 bytes at"), "{violation}");
}

#[test]
fn swizzles_are_bijections_that_agree_with_the_formula() {
    for swizzle in [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128] {
        let span = swizzle.span();
        let mut seen = vec![false; 4096];
        for address in 0..4096u64 {
            let to = swizzle.apply(address);
            assert_eq!(swizzle.apply(to), address, "its own inverse");
            assert!(!std::mem::replace(&mut seen[to as usize], true), "{swizzle:?}: {address}");
            // Chunks of 16 bytes stay whole, and stay in their row of 128 bytes.
            assert_eq!((to % 16, to / 128), (address % 16, address / 128));
            let chunk = match swizzle {
                Swizzle::None => address / 16 % 8,
                Swizzle::Bytes32 => (address / 16 % 8) ^ (address / 128 % 2),
                Swizzle::Bytes64 => (address / 16 % 8) ^ (address / 128 % 4),
                Swizzle::Bytes128 => (address / 16 % 8) ^ (address / 128 % 8),
            };
            assert_eq!(to / 16 % 8, chunk, "{swizzle:?}: {address}");
        }
        if span == 0 {
            continue;
        }
        // A box of whole rows is copied by that rule.
        let columns = span as u32 / 4;
        let args = |address| {
            TensorMapArgs::new(TensorElement::U32, address, &[u64::from(columns), 16], &[span], &[columns, 16])
                .swizzled(swizzle)
        };
        let mut want = vec![0; 16 * columns as usize];
        for index in 0..want.len() {
            want[swizzle.apply(4 * index as u64) as usize / 4] = index as u32 + 1;
        }
        loads("swizzle", args, "0, 0", &want);
    }
}

/// Every thread writes a word of a row of 32, and thread 0 stores a box of 8 by 4 through the second map.
fn store(coordinates: &str) -> String {
    format!(
        "shl.b32 %r0, %t, 2;
mov.u32 %r1, a;
add.u32 %r1, %r1, %r0;
add.u32 %r2, %t, 100;
st.shared.u32 [%r1], %r2;
fence.proxy.async;
bar.sync 0;
@!%p0 bra END;
prefetch.tensormap [%mb];
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, {{{coordinates}}}], [a];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
END:"
    )
}

fn out_map(args: impl Fn(u64) -> TensorMapArgs) -> impl Fn(u64, u64) -> [Arg; 2] {
    move |_, out| [Arg::Bytes(vec![0; 128]), map(&args(out))]
}

#[test]
fn stores() {
    // Rows of 20 words, which end at a multiple of 16 bytes.
    let out = |address| TensorMapArgs::new(TensorElement::U32, address, &[20, 20], &[96], &[8, 4]);
    let stored = |r0: i32, c0: i32, value: &dyn Fn(u32, u32) -> u32| {
        let mut want = vec![7; 24 * 20];
        for (r, c) in (0..4).flat_map(|r| (0..8).map(move |c| (r, c))) {
            if (0..20).contains(&(r0 + r)) && (0..20).contains(&(c0 + c)) {
                want[((r0 + r) * 24 + c0 + c) as usize] = value(r as u32, c as u32);
            }
        }
        want
    };
    for (c, r) in [(0, 0), (16, 17), (20, 19), (32, 0)] {
        let body = store(&format!("{c}, {r}"));
        let maps = out_map(out);
        let case = Case { maps: &maps, ..Case::new(&body, 32) };
        case.gives("store", &stored(r, c, &|r, c| 100 + 8 * r + c));
        let body = change(
            &body,
            "cp.async.bulk.tensor.2d.global.shared::cta.tile",
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile",
        );
        let case = Case { maps: &maps, ..Case::new(&body, 32) };
        case.gives("reduction", &stored(r, c, &|r, c| 107 + 8 * r + c));
    }
    // Swizzled in shared memory.
    let maps = out_map(|address| out(address).swizzled(Swizzle::Bytes32));
    let body = store("0, 0");
    let swizzled = |r: u32, c: u32| 100 + Swizzle::Bytes32.apply(u64::from(4 * (8 * r + c))) as u32 / 4;
    Case { maps: &maps, ..Case::new(&body, 32) }.gives("swizzled", &stored(0, 0, &swizzled));
}

#[test]
fn stores_write_past_rows() {
    let program = Program::from_text(&text(&store("16, 17"))).expect("valid");
    for (columns, past) in [(21, 12), (22, 8), (23, 4), (20, 0), (24, 0)] {
        for severity in [Severity::Allow, Severity::Warn, Severity::Deny] {
            let memory = Memory::new();
            let out = memory.alloc_from("out", &[7; 24 * 20 * 4], 256).expect("fits");
            let args = TensorMapArgs::new(TensorElement::U32, out.address, &[columns, 20], &[96], &[8, 4]);
            let none = || Arg::Bytes(vec![0; 128]);
            let args = [Arg::U64(0), Arg::U64(out.address), none(), map(&args)];
            let what = Launch { entry: "k", block: [32, 1, 1], args: &args, ..Launch::default() };
            let run = launch(&program, &memory, &what, &Options { past_rows: severity, ..Options::default() });
            let reported = match run {
                Ok(report) => report.warnings,
                Err(violation) => vec![violation],
            };
            let silent = past == 0 || severity == Severity::Allow;
            assert_eq!(reported.len(), usize::from(!silent), "{columns} {severity:?}");
            for violation in reported {
                let says = format!("rows that end {past} bytes before a multiple of 16");
                assert!(violation.kind == ViolationKind::PastRows && violation.message.contains(&says), "{violation}");
                assert_eq!(violation.site.address, Some(out.address + 4 * (17 * 24 + columns)));
            }
            if past == 0 || severity != Severity::Deny {
                let mut row = [0; 96];
                memory.read(out.address + 17 * 96, &mut row).expect("inside");
                let end = (4 * columns + past) as usize;
                assert!(row[64..end].chunks(4).all(|word| word != [7; 4]) && row[end..].iter().all(|byte| *byte == 7));
            }
        }
    }
}

#[test]
fn broken_copies() {
    let maps = |input, out| [map(&matrix(input, [8, 5])), map(&matrix(out, [8, 4]))];
    let breaks = |name: &str, kinds: &[ViolationKind], body: &str, from: &str, to: &str, at: &str| {
        Case { maps: &maps, ..Case::new(&change(body, from, to), 32) }.breaks(name, kinds, at);
    };
    let (load, store) = (load(2, "0, 0", 40), store("0, 0"));
    breaks("an offset of 16", &[Misaligned], &load, "bytes [a],", "bytes [a+16],", "tensor");
    breaks(
        "two coordinates too many",
        &[ViolationKind::TensorMap],
        &load,
        "tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [a], [%ma, {0, 0}]",
        "tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [a], [%ma, {0, 0, 0, 0}]",
        "tensor",
    );
    breaks("no map", &[ViolationKind::TensorMap], &load, "[%ma,", "[%in,", "tensor");
    breaks("a coordinate without a value", &[Uninitialised], &load, "{0, 0}", "{0, %r20}", "tensor");
    breaks("a coordinate between chunks", &[Misaligned], &load, "{0, 0}", "{1, 0}", "tensor");
    breaks("no wait", &[Race], &load, WAIT, "WAIT:", "ld.shared");
    breaks("a store of nothing", &[Uninitialised], &store, "[%mb, {0, 0}], [a]", "[%mb, {0, 0}], [b]", "tensor");
    breaks("a store before the tensor", &[OutOfBounds], &store, "{0, 0}", "{0, -1}", "tensor");
    breaks("no fence", &[ViolationKind::Proxy], &store, "fence.proxy.async;", "", "tensor");
    breaks("no wait for the store", &[Race], &store, "cp.async.bulk.wait_group.read 0;", "", "tensor");
    // A map that extends beyond its allocation.
    let far = |input, _| {
        [map(&TensorMapArgs::new(TensorElement::U32, input, &[8, 4096], &[4096], &[8, 5])), Arg::Bytes(vec![0; 128])]
    };
    Case { maps: &far, ..Case::new(&load, 32) }.breaks("beyond", &[OutOfBounds], "tensor");
    let pictures = |input, _| {
        let args = TensorMapArgs::new(TensorElement::U32, input, &[8, 4, 4], &[64, 256], &[8, 5, 1]);
        [map(&TensorMapArgs { interleave: Interleave::Bytes16.number(), ..args }), Arg::Bytes(vec![0; 128])]
    };
    let body = crate::tensor::load(3, "0, 0, 0", 40);
    Case { maps: &pictures, ..Case::new(&body, 32) }.breaks("interleaved", &[ViolationKind::TensorMap], "tensor");
}

#[test]
fn a_map_is_found_where_its_bytes_are() {
    // A kernel copies the map to global memory and uses the copy.
    let copy: String = (0..8)
        .map(|i| format!("@%p0 ld.param.v4.u32 {{%r4, %r5, %r6, %r7}}, [ma+{0}];\n@%p0 st.global.v4.u32 [%out+{1}], {{%r4, %r5, %r6, %r7}};\n", 16 * i, 2048 + 16 * i))
        .collect();
    let body = format!(
        "{copy}add.u64 %ma, %out, 2048;\nfence.proxy.tensormap::generic.acquire.gpu [%ma], 128;\n{}",
        load(2, "0, 0", 40)
    );
    let maps = |input, _| [map(&matrix(input, [8, 5])), Arg::Bytes(vec![0; 128])];
    Case { maps: &maps, ..Case::new(&body, 32) }.gives("copied", &[1, 2, 3]);
}

#[test]
fn arguments_of_maps() {
    use TensorMapError as Error;
    let good = TensorMapArgs::new(TensorElement::F32, 1 << 32, &[64, 64, 64], &[256, 16384], &[32, 8, 2]);
    let map = TensorMap::encode(&good).expect("legal");
    assert_eq!(map.args(), good);
    assert_eq!(TensorMap::from_bytes(&map.to_bytes()), Some(map));
    assert_eq!(map.box_bytes(), 32 * 8 * 2 * 4);
    let mut bytes = map.to_bytes();
    bytes[30] ^= 1;
    assert_eq!(TensorMap::from_bytes(&bytes), None);
    let refused = |change: &dyn Fn(&mut TensorMapArgs)| {
        let mut args = good.clone();
        change(&mut args);
        TensorMap::encode(&args).err()
    };
    assert_eq!(refused(&|a| a.address += 8), Some(Error::Address { address: (1 << 32) + 8, align: 16 }));
    assert_eq!(refused(&|a| a.address = 1 << 57), Some(Error::Address { address: 1 << 57, align: 16 }));
    assert_eq!(refused(&|a| a.strides[1] = 24), Some(Error::Stride { axis: 2, stride: 24, align: 16 }));
    assert_eq!(refused(&|a| a.strides[0] = 1 << 40), Some(Error::Stride { axis: 1, stride: 1 << 40, align: 16 }));
    assert_eq!(refused(&|a| a.dims[2] = 0), Some(Error::Dim { axis: 2, dim: 0 }));
    assert_eq!(refused(&|a| a.dims[0] = 1 << 32), None);
    assert_eq!(refused(&|a| a.box_dims[1] = 257), Some(Error::Box { axis: 1, size: 257 }));
    assert_eq!(refused(&|a| a.box_dims[0] = 30), Some(Error::BoxInner { bytes: 120 }));
    assert_eq!(refused(&|a| (a.box_dims[0], a.swizzle) = (36, 3)), Some(Error::BoxSpan { bytes: 144, span: 128 }));
    assert_eq!(refused(&|a| a.box_dims = vec![32, 64, 29]), Some(Error::BoxTotal { bytes: 237_568, most: 233_472 }));
    assert_eq!(refused(&|a| a.box_dims = vec![32, 64, 28]), None);
    assert_eq!(refused(&|a| a.element_strides[1] = 9), Some(Error::ElementStride { axis: 1, stride: 9 }));
    assert_eq!(refused(&|a| a.rank = 6), Some(Error::Rank { rank: 6, least: 1 }));
    assert_eq!(refused(&|a| a.rank = 4), Some(Error::Lengths { rank: 4, given: 3 }));
    assert_eq!(refused(&|a| (a.rank, a.interleave) = (2, 1)), Some(Error::Rank { rank: 2, least: 3 }));
    assert_eq!(
        refused(&|a| (a.strides[0], a.interleave) = (272, 2)),
        Some(Error::Stride { axis: 1, stride: 272, align: 32 })
    );
    assert_eq!(refused(&|a| a.oob_fill = 1), None);
    assert_eq!(refused(&|a| (a.oob_fill, a.data_type) = (1, 2)), Some(Error::FillOfIntegers));
    assert_eq!(refused(&|a| a.data_type = 13), Some(Error::DataType(13)));
    assert_eq!(refused(&|a| a.swizzle = 4), Some(Error::Swizzle(4)));
    assert_eq!(refused(&|a| a.l2_promotion = 4), Some(Error::L2Promotion(4)));
    assert_eq!(refused(&|a| a.interleave = 3), Some(Error::Interleave(3)));
}

#[test]
fn random_arguments() {
    let sets = random_tensor_maps(1, 1000);
    assert_eq!(sets, random_tensor_maps(1, 1000));
    assert!(sets.iter().step_by(2).all(|args| TensorMap::encode(args).is_ok()));
    let refused = sets.iter().filter(|args| TensorMap::encode(args).is_err()).count();
    assert!((250..=500).contains(&refused), "{refused} are rejected");
    for map in sets.iter().filter_map(|args| TensorMap::encode(args).ok()) {
        assert_eq!(TensorMap::from_bytes(&map.to_bytes()), Some(map));
    }
}
