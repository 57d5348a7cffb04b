//! Finds the loop that multiplies in a listing of machine instructions (SASS).
//!
//! The listing has an instruction a line, `/*0a30*/  @P0 FFMA R1, R2, R3, R1 ;`, and labels, `.L_x_5:`. A loop is the
//! code between a label and a branch back to it; the one that multiplies is the shortest of those with the most
//! multiply-adds.

use ptx_gemm_dsl::DType;
use serde::Serialize;

/// The loop over k. Both ways around a branch inside it are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// Instructions.
    pub instructions: u32,
    /// Multiply-adds, or, with tensor cores, their matrix products.
    pub fma: u32,
    /// Whether those are matrix products.
    pub matrix: bool,
    /// Loads from shared, global and local memory.
    pub loads: u32,
    /// Multiply-adds with an operand from the reuse cache, which saves a register bank read.
    pub reusing: u32,
}

impl Loop {
    /// Loads for each multiply-add.
    pub fn loads_per_fma(&self) -> f64 {
        f64::from(self.loads) / f64::from(self.fma.max(1))
    }

    /// Share of the multiply-adds that reuse an operand.
    pub fn reuse_share(&self) -> f64 {
        f64::from(self.reusing) / f64::from(self.fma.max(1))
    }

    /// Share of the instructions that multiply.
    pub fn fma_share(&self) -> f64 {
        f64::from(self.fma) / f64::from(self.instructions.max(1))
    }
}

/// The opcode of a line, with its modifiers.
fn opcode(line: &str) -> Option<&str> {
    let (_, text) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    text.split_whitespace().find(|word| !word.starts_with('@')).map(|word| word.trim_end_matches(';'))
}

fn label(line: &str) -> Option<&str> {
    line.trim().strip_suffix(':').filter(|name| name.starts_with(".L"))
}

/// The label that a line branches to.
fn branch(line: &str) -> Option<&str> {
    opcode(line).filter(|opcode| opcode.split('.').next() == Some("BRA"))?;
    let (_, rest) = line.split_once("`(")?;
    rest.split_once(')').map(|(name, _)| name)
}

/// The lines of one entry.
fn section<'a>(listing: &'a str, entry: &str) -> Vec<&'a str> {
    let start = format!(".text.{entry}:");
    let lines = listing.lines().skip_while(|line| line.trim() != start).skip(1);
    lines.take_while(|line| !line.trim_start().starts_with(".section")).collect()
}

/// The loop of `entry` that multiplies, if there is one.
pub(super) fn main_loop(listing: &str, entry: &str, acc: DType) -> Option<Loop> {
    let lines = section(listing, entry);
    // Without modifiers: HMMA, HGMMA, IMMA and the like.
    let product = |opcode: &str| opcode.split('.').next().is_some_and(|name| name.ends_with("MMA"));
    let matrix = lines.iter().filter_map(|line| opcode(line)).any(product);
    let multiplies = |opcode: &str| match acc {
        _ if matrix => product(opcode),
        DType::F64 => opcode.starts_with("DFMA"),
        // With a modifier it is an address computation, a move or a shift.
        DType::I32 => opcode == "IMAD",
        _ => opcode.starts_with("FFMA"),
    };
    let loads = |opcode: &str| ["LDS", "LDG", "LDL", "LD", "LDSM"].contains(&opcode.split('.').next().unwrap_or(""));
    let back = lines.iter().enumerate().filter_map(|(end, line)| {
        let target = branch(line)?;
        let start = lines[..end].iter().position(|line| label(line) == Some(target))?;
        Some(&lines[start..=end])
    });
    let count = |body: &[&str]| {
        let mut found = Loop { instructions: 0, fma: 0, matrix, loads: 0, reusing: 0 };
        for (line, opcode) in body.iter().filter_map(|line| Some((line, opcode(line)?))) {
            found.instructions += 1;
            found.fma += u32::from(multiplies(opcode));
            found.reusing += u32::from(multiplies(opcode) && line.contains(".reuse"));
            found.loads += u32::from(loads(opcode));
        }
        found
    };
    back.map(count).filter(|found| found.fma > 0).max_by_key(|found| (found.fma, u32::MAX - found.instructions))
}

#[cfg(test)]
mod tests {
    use super::{Loop, main_loop};
    use ptx_gemm_dsl::DType;

    const LISTING: &str = "\t.section\t.text.other,\"ax\",@progbits
.text.other:
.L_x_0:
        /*0000*/                   FFMA R1, R2, R3, R1 ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
\t.section\t.text.gemm,\"ax\",@progbits
.text.gemm:
        /*0000*/                   FFMA R1, R2, R3, R1 ;
.L_x_1:
        /*0010*/                   LDG.E R2, [R4] ;
.L_x_2:
        /*0020*/                   LDS.128 R4, [R8+0x40] ;
        /*0030*/               @P1 BRA `(.L_x_3) ;
        /*0040*/                   LDS R4, [R8] ;
.L_x_3:
        /*0050*/                   FFMA R1, R4.reuse, R5, R1 ;
        /*0060*/                   FFMA R2, R4, R6, R2 ;
        /*0070*/                   IMAD.MOV.U32 R2, RZ, RZ, R2 ;
        /*0080*/               @P0 BRA `(.L_x_2) ;
        /*0090*/              @!P2 BRA `(.L_x_1) ;
        /*00a0*/                   EXIT ;
.L_x_9:
        /*00b0*/                   BRA `(.L_x_9);
";

    #[test]
    fn the_innermost_loop_that_multiplies() {
        assert_eq!(
            main_loop(LISTING, "gemm", DType::F32),
            Some(Loop { instructions: 7, fma: 2, matrix: false, loads: 2, reusing: 1 })
        );
        assert_eq!(
            main_loop(LISTING, "other", DType::F32),
            Some(Loop { instructions: 2, fma: 1, matrix: false, loads: 0, reusing: 0 })
        );
        assert_eq!(main_loop(LISTING, "gemm", DType::F64), None);
        assert_eq!(main_loop(LISTING, "none", DType::F32), None);
        // Scalar multiply-adds next to tensor core products belong to the epilogue.
        let tensor = LISTING.replace("LDS R4, [R8]", "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8]");
        let expected = Loop { instructions: 7, fma: 1, matrix: true, loads: 1, reusing: 0 };
        assert_eq!(main_loop(&tensor, "gemm", DType::F32), Some(expected));
    }
}
