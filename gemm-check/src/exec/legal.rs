//! What is wrong with PTX text, before anything runs it.

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

#[cfg(test)]
mod tests {
    use super::legal;

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
        let oldest = HEAD.replace("8.0", "7.5").replace("sm_90a", "sm_60");
        let matched = "  match.any.sync.b32 %r1, %r2, %r3;";
        assert!(!refused(&oldest, matched).is_empty() && refused(HEAD, matched).is_empty());
    }
}
