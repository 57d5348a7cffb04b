//! Every form of the instruction table: its mnemonic is read as it is written, and ptxas accepts what the verifier
//! accepts.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use ptx_gemm_ptx::forms::{Field, Form, all};
use ptx_gemm_ptx::instruction::Opcode;
use ptx_gemm_ptx::module::Statement;
use ptx_gemm_ptx::parse::parse;
use ptx_gemm_ptx::types::Type;
use ptx_gemm_ptx::verify::verify;

use crate::round_trip::ptxas;

/// An entry with one form in it, of registers that are not set.
fn entry(name: &str, form: &Form) -> String {
    let mut declared = String::new();
    let mut count = 0;
    let mut register = |ty: Type| {
        count += 1;
        writeln!(declared, ".reg .{} %x{count};", ty.name()).expect("a String takes everything");
        format!("%x{count}")
    };
    let mut vector = |ty, count: u8| (0..count).map(|_| register(ty)).collect::<Vec<_>>().join(", ");
    let operands = form.operands.iter().map(|field| match *field {
        Field::Write(ty) | Field::Read(ty) | Field::Pointer(ty, _) => vector(ty, 1),
        Field::WritePair(ty) => format!("{}|{}", vector(ty, 1), vector(Type::Pred, 1)),
        Field::WriteVector(ty, count) | Field::ReadVector(ty, count) => format!("{{{}}}", vector(ty, count)),
        Field::Address(space) => format!("[{}]", vector(if space.is_shared() { Type::B32 } else { Type::B64 }, 1)),
        Field::Sink => "_".into(),
        Field::Constant(value) => value.to_string(),
        Field::Fraction => "0f3F000000".into(),
        Field::Other => "elsewhere".into(),
    });
    let text = format!("{} {};", form.mnemonic, operands.collect::<Vec<_>>().join(", "));
    format!(".visible .entry {name}() {{\n{declared}{text}\nret;\n}}\n")
}

/// The forms of a target, each in an entry, and the form that each line belongs to.
fn module(target: &str, forms: &[&Form]) -> (String, Vec<usize>) {
    let mut text = format!(".version 9.0\n.target {target}\n.address_size 64\n");
    let mut lines = vec![0; 3];
    for (index, form) in forms.iter().enumerate() {
        let entry = entry(&format!("e{index}"), form);
        lines.extend(entry.lines().map(|_| index));
        text.push_str(&entry);
    }
    (text, lines)
}

/// The number of the line that ptxas complains about.
fn line_of(message: &str) -> Option<usize> {
    message.split("line ").nth(1)?.split(';').next()?.trim().parse().ok()
}

#[test]
fn mnemonics_come_back() {
    for form in all() {
        let text = format!(".version 9.0\n.target sm_100a\n.address_size 64\n.entry e() {{\n{};\n}}\n", form.mnemonic);
        let module = parse(&text).unwrap_or_else(|error| panic!("{text}{error}"));
        match &module.entries[0].body[..] {
            [Statement::Instruction(instruction)] => assert_eq!(instruction.op, form.op, "{}", form.mnemonic),
            other => panic!("{}: {other:?}", form.mnemonic),
        }
    }
}

#[test]
fn ptxas_takes_every_form() {
    let Some(ptxas) = ptxas() else {
        println!("PTXAS is not set: the forms are not assembled");
        return;
    };
    let forms: Vec<Form> = all().filter(|form| !form.operands.contains(&Field::Other)).collect();
    for target in ["sm_90a", "sm_100a"] {
        // Some rules are about operands, which the verifier knows.
        let takes = |form: &&Form| verify(&parse(&module(target, &[form]).0).expect("it parses")).is_ok();
        let only = |form: &&Form| target == "sm_100a" || matches!(form.op, Opcode::Wgmma { .. });
        let forms: Vec<&Form> = forms.iter().filter(only).filter(takes).collect();
        let (mut text, lines) = module(target, &forms);
        // The last instruction is an error, so that ptxas parses the text and does not compile it.
        let last = text.lines().count() + 2;
        text.push_str(".visible .entry last() {\nnonsense;\n}\n");
        let mut child = Command::new(&ptxas)
            .args(["-arch", target, "-O0", "-o", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("PTXAS names a program");
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(messages.lines().any(|message| line_of(message) == Some(last)), "{messages}");
        let refused: Vec<String> = messages
            .lines()
            .filter(|message| line_of(message) != Some(last))
            .filter_map(|message| {
                let form = forms[*lines.get(line_of(message)? - 1)?];
                Some(format!("{} {:?}: {message}", form.mnemonic, form.operands))
            })
            // ptxas 13.0 turns it into a `mov` that it then refuses.
            .filter(|refused| !refused.starts_with("cvt.ftz.f64.f32 [Write(B64), Read(B128)]"))
            .collect();
        assert!(refused.is_empty(), "{} of {}:\n{}", refused.len(), forms.len(), refused.join("\n"));
        println!("{} forms for {target}", forms.len());
    }
}
