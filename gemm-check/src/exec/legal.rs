//! What is wrong with PTX text, before anything runs it.

use ptx_gemm_runtime::interp::Program;
use ptx_gemm_runtime::ptx::parse::parse_with_lines;
use ptx_gemm_runtime::ptx::verify::{Violation, verify};
use ptx_gemm_runtime::{TextError, TextErrors};

/// Checks PTX text as an assembler would, and returns the target that it names.
///
/// # Errors
///
/// The place where the text cannot be read; else everything that breaks a rule of [`verify`], each at its statement, or at the first
/// line if it is about the whole module.
pub fn legal(text: &str) -> Result<String, TextErrors> {
    let parsed = parse_with_lines(text).map_err(|error| {
        let (line, column) = (error.line.max(1) as usize, error.column.max(1) as usize);
        let before = text.lines().nth(line - 1).and_then(|text| text.get(..column - 1));
        let column = before.map_or(column, |before| before.chars().count() + 1);
        TextErrors(vec![TextError { line, column, message: error.message }])
    })?;
    let module = &parsed.module;
    verify(module).map_err(|violations| {
        let place = |entry: &str, statement: Option<usize>| {
            let lines =
                module.entries.iter().position(|known| known.name == entry).map(|index| &parsed.lines[index])?;
            let line = *lines.get(statement?)? as usize;
            let indented = text.lines().nth(line.checked_sub(1)?)?;
            Some((line, indented.chars().take_while(|character| character.is_whitespace()).count() + 1))
        };
        let error = |violation: Violation| {
            let (line, column) = place(&violation.entry, violation.statement).unwrap_or((1, 1));
            let entry = Some(violation.entry.as_str()).filter(|entry| !entry.is_empty());
            let message = match (entry, violation.statement) {
                (Some(entry), None) => format!("{entry}: {}", violation.message),
                _ => violation.message.clone(),
            };
            TextError { line, column, message }
        };
        let mut errors: Vec<TextError> = violations.into_iter().map(error).collect();
        errors.sort_by_key(|error| (error.line, error.column));
        TextErrors(errors)
    })?;
    Ok(module.target.to_string())
}

/// The instructions of a legal text that the interpreter does not execute, each at its line and with the reason. Nothing is known
/// about those that are not supported at all, so that [`legal`] says nothing about them either.
pub fn unsupported(text: &str) -> Vec<TextError> {
    let Ok(program) = Program::from_text(text) else { return Vec::new() };
    let at = |line: u32| text.lines().nth(line.saturating_sub(1) as usize).unwrap_or_default();
    let column = |line: u32| at(line).chars().take_while(|character| character.is_whitespace()).count() + 1;
    let found = program.refused().map(|(line, why)| TextError {
        line: line as usize,
        column: column(line),
        message: why.to_owned(),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::{legal, unsupported};

    const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n  .reg .b32 %r<4>;\n  \
                        .reg .f32 %f<40>;\n  .reg .u32 %u<4>;\n  .reg .b64 %d<4>;\n  .reg .pred %p<2>;\n";

    fn refused(head: &str, body: &str) -> Vec<(usize, String)> {
        let text = format!("{head}{body}\n  ret;\n}}\n");
        let errors = legal(&text).err().map(|errors| errors.0).unwrap_or_default();
        errors.into_iter().map(|error| (error.line, error.message)).collect()
    }

    #[test]
    fn each_error_is_at_its_statement() {
        assert_eq!(legal(&format!("{HEAD}  ret;\n}}\n")).unwrap(), "sm_90a");
        let found = refused(
            HEAD,
            "  mov.u32 %r1, %tid.x;\n  add.f32 %u1, %u2, %u2;\nL:\n  bra L;\nL:\n  ld.global.u32 %r1, [4096];",
        );
        let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [12, 15, 16], "{found:?}");
        let errors = legal("nonsense").unwrap_err().0;
        assert_eq!((errors.len(), errors[0].line, errors[0].column), (1, 1, 1), "{errors:?}");
    }

    /// Whatever is not known is named, and nothing else is said about it: least of all that it is legal.
    #[test]
    fn what_is_not_supported_is_named() {
        for instruction in [
            "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r0, %r1}, {%r0, %r1}, %r3, 0x0",
            "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%r0, %r1}, {%r2}, {%r3}, {%r0, %r1}",
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d1, %r0, 0, %p0, 1, 1, 0, 0",
            "multimem.red.global.add.f32 [%d0], %f0",
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%d0], 32",
            "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%d0], [%d1]",
            "vshl.u32.u32.u32.clamp %r0, %r1, %r2",
            "alloca.u64 %d0, 16",
            "vadd.s32.s32.s32 %r0, %r1, %r2",
            "frobnicate.u32 %r0, %r1",
            "ld.global.ca.L1::evict_last.b32 %r0, [%d0]",
        ] {
            let text = format!("{HEAD}  mov.u32 %r1, %tid.x;\n  {instruction};\n  ret;\n}}\n");
            assert!(legal(&text).is_ok(), "{instruction}");
            let all = unsupported(&text);
            let name = instruction.split(' ').next().unwrap();
            assert!(all.len() == 1 && (all[0].line, all[0].column) == (12, 3), "{instruction}: {all:?}");
            assert_eq!(all[0].message, format!("`{name}` is not supported"));
        }
    }

    /// What the interpreter would run although no assembler takes it.
    #[test]
    fn what_assemblers_refuse_is_refused() {
        let sums: Vec<String> = (0..32).map(|sum| format!("%f{sum}")).collect();
        let group = format!(
            "  wgmma.mma_async.sync.aligned.m64n72k16.f32.f16.f16 {{{}}}, %d0, %d1, 1, 1, 1, 0, 0;",
            sums.join(", ")
        );
        for body in [
            "  add.f32 %u1, %u2, %u3;",
            "L:\n  bra L;\nL:",
            "  add.u32 %r1, %laneid, 1;",
            "  ld.global.u32 %r1, [4096];",
            "  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %r1, %r2, %r3}, [%r0];",
            "  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%f0, %f1, %f2, %f3};",
            &group,
        ] {
            assert!(!refused(HEAD, body).is_empty(), "{body}");
        }
        // Of these PTX has forms that are not known here.
        for body in [
            "  mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r0, %r1}, {%r2}, {%r3}, {%r0, %r1};",
            "  mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r0, %r1}, {%r2, %r3}, \
             {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
        ] {
            let errors = refused(HEAD, body);
            assert!(errors.len() == 1 && errors[0].1.contains("not supported here"), "{errors:?}");
        }
        let open = HEAD.replace(".visible", ".const .b32 c[];\n.visible");
        assert!(refused(&open, "")[0].1.contains("without an extent"));
        let endless = HEAD.replace(".param .u64 out", ".param .b32 out[]");
        assert!(refused(&endless, "")[0].1.contains("a parameter of an entry has an extent"));
        let oldest = HEAD.replace("8.0", "7.5").replace("sm_90a", "sm_60");
        let matched = "  match.any.sync.b32 %r1, %r2, %r3;";
        assert!(!refused(&oldest, matched).is_empty() && refused(HEAD, matched).is_empty());
    }
}
