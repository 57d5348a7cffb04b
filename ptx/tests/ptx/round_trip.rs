//! Texts in the printer's own spelling: read, printed, verified, and assembled if ptxas is available.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ptx_gemm_ptx::instruction::Opcode;
use ptx_gemm_ptx::module::{Module, Statement};
use ptx_gemm_ptx::parse::{parse, parse_with_lines};
use ptx_gemm_ptx::print::print;
use ptx_gemm_ptx::verify::{required_version, verify};

/// The texts of `tests/texts`, with their names, in order.
pub fn texts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts");
    let mut texts: Vec<_> = fs::read_dir(folder)
        .expect("tests/texts is there")
        .map(|file| file.expect("a file").path())
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("UTF-8")))
        .collect();
    texts.sort();
    texts
}

fn unknown(module: &Module) -> Vec<&str> {
    let statements = module.entries.iter().flat_map(|entry| &entry.body);
    statements
        .filter_map(|statement| match statement {
            Statement::Instruction(instruction) => match &instruction.op {
                Opcode::Unknown(mnemonic) => Some(mnemonic.as_str()),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Checks a text in the printer's spelling: everything in it is known and legal, and it survives reading and printing.
fn check(name: &str, text: &str) {
    let module = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(print(&module), text, "{name} is printed as it was read");
    assert_eq!(unknown(&module), Vec::<&str>::new(), "{name} has only known instructions");
    if let Err(violations) = verify(&module) {
        panic!("{name}: {}", violations.iter().map(|violation| format!("\n  {violation}")).collect::<String>());
    }
    assert_eq!(required_version(&module), module.version, "{name} states its lowest version");
}

#[test]
fn texts_come_back() {
    let texts = texts();
    assert!(texts.len() >= 2, "the texts are found");
    for (name, text) in &texts {
        check(name, text);
    }
}

#[test]
fn every_statement_has_its_line() {
    for (name, text) in texts() {
        let parsed = parse_with_lines(&text).expect("it parses");
        for (entry, lines) in parsed.module.entries.iter().zip(&parsed.lines) {
            assert_eq!(entry.body.len(), lines.len());
            for (statement, line) in entry.body.iter().zip(lines) {
                let line_text = text.lines().nth(*line as usize - 1).expect("the line is there");
                let shows = match statement {
                    Statement::Label(label) => line_text == format!("{label}:"),
                    Statement::Targets { name, .. } => line_text.starts_with(&format!("{name}:")),
                    Statement::Comment(comment) => line_text.ends_with(comment.as_str()),
                    Statement::Pragma(pragma) => line_text.contains(pragma.as_str()),
                    Statement::Instruction(_) => line_text.contains(';'),
                };
                assert!(shows, "{name}: {statement:?} is not on line {line}: {line_text}");
            }
        }
    }
}

/// NVIDIA's own assembler. `PTXAS` names it, or several, separated by colons; the first is used.
pub fn ptxas() -> Option<String> {
    let ptxas = std::env::var_os("PTXAS")?;
    ptxas.to_string_lossy().split(':').next().map(str::to_owned)
}

/// Every text is legal for NVIDIA's own assembler.
#[test]
fn ptxas_takes_the_texts() {
    let Some(ptxas) = ptxas() else {
        println!("PTXAS is not set: {} texts not assembled", texts().len());
        return;
    };
    for (name, text) in texts() {
        let module = parse(&text).expect("it parses");
        let mut child = Command::new(&ptxas)
            .args(["-arch", &module.target, "-o", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("PTXAS names a program");
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), print(&module).as_bytes())
            .expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
