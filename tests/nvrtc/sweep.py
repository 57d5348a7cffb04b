"""Writes PTX that runs every rounding form and every conversion over a table of tricky values, and its launch files.

What the forms give is not stated here: the interpreter and a GPU have to agree, bit by bit.
"""

import json
import pathlib

F32 = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001, 0x3F800000,
    0xBF800000, 0x3F7FFFFF, 0x3F800001, 0xBF7FFFFF, 0x3F000000, 0xBF000000, 0x3EFFFFFF, 0x3FC00000, 0xBFC00000, 0x40200000,
    0xC0200000, 0x4B000000, 0x4B000001, 0xCB000001, 0x4AFFFFFF, 0x4F000000, 0x4EFFFFFF, 0xCF000000, 0xCF000001, 0x4F800000,
    0x5F000000, 0xDF000000, 0x5F800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001,
    0x7FFFFFFF, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x387FC000, 0x387FE000, 0x3F801000, 0x3F803000,
    0x3F808000, 0x3F818000, 0x42FF0000, 0x437F8000, 0xC3008000, 0x3DCCCCCD, 0xC0490FDB, 0x1E3CE508, 0x60AD78EC, 0x00012345,
    # Products with 0x00800000 and 0x00800001, and a reciprocal, that lose bits just below the least normal number.
    0x3F7FFFFE, 0x7E800001,
]
F64 = [
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000,
    0xBFF0000000000000, 0x3FF0000000000001, 0x3FEFFFFFFFFFFFFF, 0x3FE0000000000000, 0xBFE0000000000000, 0x3FF8000000000000,
    0xC004000000000000, 0x4330000000000000, 0x4330000000000001, 0x43E0000000000000, 0xC3E0000000000000, 0x43EFFFFFFFFFFFFF,
    0x41DFFFFFFFC00000, 0x41DFFFFFFFE00000, 0x41E0000000000000, 0xC1E0000000200000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000,
    0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001, 0x36A0000000000000, 0x3690000000000000,
    0x3690000000000001, 0x380FFFFFFFFFFFFF, 0x3810000000000000, 0x380FFFFFE0000000, 0x47EFFFFFE0000000, 0x47EFFFFFEFFFFFFF,
    0x47EFFFFFF0000000, 0x3FF0000010000000, 0x3FF0000030000000, 0x40EFFC0000000000, 0x40EFFE0000000000, 0x3E60000000000000,
    0x3FB999999999999A, 0xC00921FB54442D18, 0x406FE00000000000, 0x406FF00000000000,
    # Just below the least normal f32: the last value of 24 bits, one more, and around the tie above it.
    0x380FFFFFE0000001, 0xB80FFFFFE0000000, 0xB80FFFFFE0000001, 0x380FFFFFEFFFFFFF, 0x380FFFFFF0000000,
    # A NaN with a payload that shows where it goes.
    0xFFF5A5A5A5A5A5A5,
]
F16 = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x3BFF, 0x3C01, 0x3800, 0xB800, 0x3E00, 0xC100, 0x6400,
    0x6401, 0x63FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01, 0x7FFF, 0x57FF, 0x5C00, 0x2E66, 0xC248, 0x5BF8,
    0x0401, 0x3BFE,
]
BF16 = [
    0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xBF80, 0x3F7F, 0x3F00, 0xBF00, 0x3FC0, 0xC020, 0x4300, 0x437F, 0x4F00,
    0xCF00, 0x5F00, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7F81, 0x3DCD, 0xC049, 0x477F, 0x3380, 0x3300, 0x4B01,
]


def integers(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    edges = [0, 1, 2, 3, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0xFFE0, 0xFFF0]
    edges += [0x800, 0x801, 0x803, 0x1000001, 0x1000003, 0x7FFFFFBF, 0x7FFFFFC0, 0xFFFFFF7F, 0xFFFFFF80, 0x20000000000001, 0x7FFFFFFFFFFFFDFF]
    random = [(i * 0x9E3779B97F4A7C15) >> (i % 29) for i in range(1, 12)]
    return sorted({value % (2 * top) for value in edges + random})


TABLES = {"f32": F32, "f64": F64, "f16": F16, "bf16": BF16, "b32": integers(32)}
TABLES |= {f"{sign}{bits}": integers(bits) for sign in "us" for bits in (8, 16, 32, 64)}
BITS = {ty: int(ty.strip("bfus")) for ty in TABLES}
REGISTERS = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}


def register(ty: str, number: int) -> str:
    """Untyped registers serve every type of their width."""
    return f"{REGISTERS[BITS[ty]]}{number}"


def entry(name: str, source: str, arity: int, forms: list[tuple[str, str]]) -> tuple[str, dict]:
    """An entry that runs `forms`, each a mnemonic and the type of its result, and its launch file.

    A mnemonic with `$` is a text of its own: `$d` stands for the result, `$a`, `$b` and `$c` for the operands. With two or more operands each thread has another pair of the table's values, and some third."""
    table = TABLES[source]
    count = len(table) ** min(arity, 2)
    lines = [
        f".visible .entry {name}(.param .u64 table, .param .u64 out)",
        "{",
        "    .reg .pred %p<3>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<20>;",
        "    mov.u32 %r10, %ctaid.x; mov.u32 %r11, %tid.x; mad.lo.u32 %r10, %r10, 64, %r11;",
        f"    setp.ge.u32 %p1, %r10, {count};",
        "    @%p1 ret;",
        "    ld.param.u64 %d10, [table]; ld.param.u64 %d11, [out];",
        "    cvta.to.global.u64 %d10, %d10; cvta.to.global.u64 %d11, %d11;",
        f"    rem.u32 %r12, %r10, {len(table)}; div.u32 %r13, %r10, {len(table)};",
        # Every value comes third after every first one.
        f"    mad.lo.u32 %r14, %r13, 7, %r12; add.u32 %r14, %r14, 3; rem.u32 %r14, %r14, {len(table)};",
    ]
    for number in range(1, arity + 1):
        lines.append(f"    mul.wide.u32 %d12, %r{11 + number}, 8; add.u64 %d12, %d12, %d10;")
        lines.append(f"    ld.global.u64 %d{number}, [%d12];")
        if BITS[source] < 64:
            width = max(BITS[source], 16)
            lines.append(f"    cvt.u{width}.u64 {register(source, number)}, %d{number};")
    lines.append("    mul.wide.u32 %d12, %r10, 8; add.u64 %d11, %d11, %d12;")
    operands = ", ".join(register(source, number) for number in range(1, arity + 1))
    for at, (mnemonic, result) in enumerate(forms):
        to = f"[%d11+{8 * count * at}]"
        if result == "pred":
            lines.append(f"    {mnemonic} %p2, {operands}; selp.u64 %d5, 1, 0, %p2; st.global.u64 {to}, %d5;")
            continue
        if "$" in mnemonic:
            text = mnemonic.replace("$d", register(result, 5))
            for number, letter in enumerate("abc", start=1):
                text = text.replace(f"${letter}", register(source, number))
            lines.append(f"    {text}")
        else:
            lines.append(f"    {mnemonic} {register(result, 5)}, {operands};")
        if BITS[result] < 64:
            lines.append(f"    cvt.u64.u{max(BITS[result], 16)} %d5, {register(result, 5)};")
        lines.append(f"    st.global.u64 {to}, %d5;")
    lines += ["    ret;", "}"]
    launch = {
        "entry": name,
        "grid": [(count + 63) // 64, 1, 1],
        "block": [64, 1, 1],
        "args": [{"buffer": "table"}, {"buffer": "out"}],
        "buffers": {
            "table": {"type": "u64", "shape": [len(table)], "init": {"values": table}},
            "out": {"type": "u64", "shape": [len(forms), count]},
        },
        "print": ["out"],
    }
    return "\n".join(lines), launch


def arithmetic() -> dict[str, tuple[str, dict]]:
    modes = ["rn", "rz", "rm", "rp"]
    tails = ["", ".ftz", ".sat", ".ftz.sat"]
    compare = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
    f32 = [(f"{op}.{mode}{tail}.f32", "f32") for op in ("add", "sub", "mul") for mode in modes for tail in tails]
    f32 += [(f"div.{mode}{tail}.f32", "f32") for mode in modes for tail in tails[:2]]
    f32 += [(f"{op}{tail}{nan}.f32", "f32") for op in ("min", "max") for tail in tails[:2] for nan in ("", ".NaN")]
    f32 += [("copysign.f32", "f32")]
    f32 += [(f"setp.{how}{tail}.f32", "pred") for how in compare for tail in tails[:2]]
    fma32 = [(f"fma.{mode}{tail}.f32", "f32") for mode in modes for tail in tails]
    one32 = [(f"{op}.{mode}{tail}.f32", "f32") for op in ("rcp", "sqrt") for mode in modes for tail in tails[:2]]
    one32 += [(f"{op}{tail}.f32", "f32") for op in ("abs", "neg") for tail in tails[:2]]
    f64 = [(f"{op}.{mode}.f64", "f64") for op in ("add", "sub", "mul", "div") for mode in modes]
    f64 += [("min.f64", "f64"), ("max.f64", "f64"), ("copysign.f64", "f64")]
    f64 += [(f"setp.{how}.f64", "pred") for how in compare]
    fma64 = [(f"fma.{mode}.f64", "f64") for mode in modes]
    one64 = [(f"{op}.{mode}.f64", "f64") for op in ("rcp", "sqrt") for mode in modes] + [("abs.f64", "f64"), ("neg.f64", "f64")]
    f16 = [(f"{op}{tail}.f16", "f16") for op in ("add", "sub", "mul") for tail in tails]
    f16 += [(f"{op}{tail}{nan}.f16", "f16") for op in ("min", "max") for tail in tails[:2] for nan in ("", ".NaN")]
    f16 += [(f"setp.{how}.f16", "pred") for how in compare]
    fma16 = [(f"fma.rn{tail}.f16", "f16") for tail in tails]
    bf16 = [(f"{op}.bf16", "bf16") for op in ("add", "sub", "mul", "min", "max", "min.NaN", "max.NaN")]
    bf16 += [(f"setp.{how}.bf16", "pred") for how in compare]
    s32 = [("add.sat.s32", "s32"), ("sub.sat.s32", "s32"), ("mul.hi.s32", "s32"), ("div.s32", "s32"), ("rem.s32", "s32")]
    u32 = [("mul.hi.u32", "u32"), ("div.u32", "u32"), ("rem.u32", "u32"), ("shl.b32", "u32"), ("shr.u32", "u32"), ("shr.s32", "u32")]
    signs = [("abs", ""), ("abs", ".ftz"), ("neg", ""), ("neg", ".ftz")]
    one16 = [(f"{op}{tail}.f16", "f16") for op, tail in signs]
    onebf16 = [("abs.bf16", "bf16"), ("neg.bf16", "bf16")]
    divided = {ty: entry(f"{ty}_two", ty, 2, [(f"div.{ty}", ty), (f"rem.{ty}", ty)]) for ty in ("s16", "u16", "s64", "u64")}
    return divided | {
        "f16_one": entry("f16_one", "f16", 1, one16), "bf16_one": entry("bf16_one", "bf16", 1, onebf16),
        "f32": entry("f32_two", "f32", 2, f32), "f32_fma": entry("f32_fma", "f32", 3, fma32),
        "f32_one": entry("f32_one", "f32", 1, one32), "f64": entry("f64_two", "f64", 2, f64),
        "f64_fma": entry("f64_fma", "f64", 3, fma64), "f64_one": entry("f64_one", "f64", 1, one64),
        "f16": entry("f16_two", "f16", 2, f16), "f16_fma": entry("f16_fma", "f16", 3, fma16),
        "bf16": entry("bf16_two", "bf16", 2, bf16), "bf16_fma": entry("bf16_fma", "bf16", 3, [("fma.rn.bf16", "bf16")]),
        "s32": entry("s32_two", "s32", 2, s32), "u32": entry("u32_two", "u32", 2, u32),
    }


def holds(to: str, source: str) -> bool:
    """Whether every value of an integer type is one of another: such a conversion has no `.sat`."""
    if to[0] == source[0]:
        return BITS[to] >= BITS[source]
    return source[0] == "u" and BITS[to] > BITS[source]


def conversions() -> dict[str, tuple[str, dict]]:
    modes, whole = ["rn", "rz", "rm", "rp"], ["rni", "rzi", "rmi", "rpi"]
    ints = [f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)]
    out = {}
    for source in ["f32", "f64", "f16", "bf16", *ints]:
        flush = ["", ".ftz"] if source == "f32" else [""]
        forms = []
        if source in ints:
            # Results of 8 bits are in registers of 16, extended.
            forms += [(f"cvt.{to}.{source}", to) for to in ints if to != source]
            forms += [(f"cvt.sat.{to}.{source}", to) for to in ints if not holds(to, source)]
            floats = ("f16", "f32", "f64") if BITS[source] == 8 else ("f16", "f32", "f64", "bf16")
            forms += [(f"cvt.{mode}.{to}.{source}", to) for to in floats for mode in modes]
        else:
            wide = [to for to in ints if source != "bf16" or BITS[to] > 8]
            forms += [(f"cvt.{mode}{ftz}.{to}.{source}", to) for to in wide for mode in whole for ftz in flush]
        if source == "f32":
            forms += [(f"cvt{mode}{ftz}{sat}.f32.f32", "f32") for mode in ["", *[f".{m}" for m in whole]] for ftz in flush
                      for sat in ("", ".sat") if mode or ftz or sat]
            forms += [(f"cvt.{mode}{ftz}{sat}.f16.f32", "f16") for mode in modes for ftz in flush for sat in ("", ".sat")]
            forms += [("cvt.f64.f32", "f64"), ("cvt.ftz.f64.f32", "f64"), ("cvt.rn.bf16.f32", "bf16"), ("cvt.rz.bf16.f32", "bf16")]
            forms += [("cvt.rna.tf32.f32", "b32"), ("cvt.rn.tf32.f32", "b32"), ("cvt.rz.tf32.f32", "b32")]
        if source == "f64":
            forms += [(f"cvt.{mode}{ftz}{sat}.f32.f64", "f32") for mode in modes for ftz in ("", ".ftz") for sat in ("", ".sat")]
            forms += [(f"cvt.{mode}{sat}.f16.f64", "f16") for mode in modes for sat in ("", ".sat")]
            forms += [(f"cvt.{mode}.f64.f64", "f64") for mode in whole]
        if source == "f16":
            forms += [(f"cvt.{mode}.f16.f16", "f16") for mode in whole] + [("cvt.f32.f16", "f32"), ("cvt.f64.f16", "f64")]
        if source == "bf16":
            forms += [("cvt.f32.bf16", "f32")]
        out[f"from_{source}"] = entry(f"from_{source}", source, 1, forms)
    packed = [("cvt.rn.f16x2.f32", "b32"), ("cvt.rz.f16x2.f32", "b32"), ("cvt.rn.bf16x2.f32", "b32"), ("cvt.rz.bf16x2.f32", "b32")]
    out["packed"] = entry("packed", "f32", 2, packed)
    return out


def chains() -> dict[str, tuple[str, dict]]:
    """Each instruction that writes the carry flag, followed by each that reads it, and both results of three in a row."""
    gives = {"add": "add.cc", "sub": "sub.cc", "mad.lo": "mad.lo.cc", "mad.hi": "mad.hi.cc"}
    takes = {"add": "addc", "sub": "subc", "mad.lo": "madc.lo", "mad.hi": "madc.hi"}
    operands = {"add": "$a, $b", "sub": "$a, $b", "mad.lo": "$a, $b, $c", "mad.hi": "$a, $b, $c"}
    out = {}
    for ty in ("u32", "s32", "u64", "s64"):
        forms = []
        for first in gives:
            start = f"{gives[first]}.{ty} $d, {operands[first]};"
            forms += [(f"{start} addc.{ty} $d, 0, 0;", ty), (f"{start} subc.{ty} $d, 5, 0;", ty)]
            for second in takes:
                forms.append((f"{start} {takes[second]}.{ty} $d, {operands[second]};", ty))
                forms.append((f"{start} {takes[second]}.cc.{ty} $d, {operands[second]}; addc.{ty} $d, $c, 0;", ty))
        out[f"chains_{ty}"] = entry(f"chains_{ty}", ty, 3, forms)
    return out


def in_place() -> dict[str, tuple[str, dict]]:
    """Instructions whose result is in the register of an operand."""
    whole = ["rni", "rzi", "rmi", "rpi"]
    own, other = "mov.b32 $d, $a;", "mov.b32 $d, $b;"
    one = [(f"{own} cvt.{mode}.ftz{sat}.{to}.f32 $d, $d;", to) for mode in whole for to in ("s32", "u32") for sat in ("", ".sat")]
    one += [(f"{own} {op} $d, $d;", "b32") for op in ("cvt.ftz.f32.f32", "cvt.ftz.sat.f32.f32", "abs.ftz.f32", "neg.ftz.f32",
            "rcp.rn.ftz.f32", "sqrt.rn.ftz.f32", "cvt.rn.tf32.f32", "cvt.rn.relu.tf32.f32")]
    compare = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
    two = []
    for how in compare:
        for to in ("u32", "s32", "f32"):
            two += [(f"{own} set.{how}.ftz.{to}.f32 $d, $d, $b;", "b32"), (f"{other} set.{how}.ftz.{to}.f32 $d, $a, $d;", "b32")]
        chosen = f"setp.{how}.ftz.f32 %p2|%p0, $a, $b; setp.{how}.and.ftz.f32 %p2|%p0, $b, $a, %p0; selp.u32 $d, 1, 0, %p2;"
        two += [(f"{chosen} selp.u32 $d, 2, $d, %p0;", "b32")]
    for op in ("cvt.rn.f16x2.f32", "cvt.rz.bf16x2.f32", "cvt.rn.relu.f16x2.f32", "add.ftz.f32", "mul.rz.ftz.sat.f32"):
        two += [(f"{own} {op} $d, $d, $b;", "b32"), (f"{other} {op} $d, $a, $d;", "b32")]
    three = [(f"{move} fma.rn.ftz.f32 $d, {operands};", "b32") for move, operands in
             ((own, "$d, $b, $c"), (other, "$a, $d, $c"), ("mov.b32 $d, $c;", "$a, $b, $d"))]
    swapped = "mov.b64 {%r6, %r7}, $a; mov.b64 $d, {%r7, %r6}; mov.b64 {%h5, %h6, %h7, %h4}, $d; mov.b64 $d, {%h4, %h5, %h6, %h7};"
    return {
        "in_place_one": entry("in_place_one", "f32", 1, one), "in_place_two": entry("in_place_two", "f32", 2, two),
        "in_place_three": entry("in_place_three", "f32", 3, three), "in_place_halves": entry("in_place_halves", "u64", 1, [(swapped, "u64")]),
    }


def write(out: pathlib.Path) -> None:
    entries = arithmetic() | conversions() | chains() | in_place()
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    (out / "sweep.ptx").write_text(head + "\n" + "\n\n".join(text for text, _ in entries.values()) + "\n")
    for name, (_, launch) in entries.items():
        (out / f"sweep.{name}.json").write_text(json.dumps(launch) + "\n")
