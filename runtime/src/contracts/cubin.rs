//! The length of an entry's code, from the section headers of a cubin.
//!
//! A cubin is a 64-bit little-endian ELF file. Each kernel's instructions are in a separate section, `.text.NAME` (CUDA
//! Binary Utilities, "cuobjdump").

/// Bytes of the section that holds an entry's instructions; `None` if this is not a cubin, or has no such entry.
pub(crate) fn code_bytes(cubin: &[u8], entry: &str) -> Option<u64> {
    let bytes = |at: u64, len: u64| cubin.get(usize::try_from(at).ok()?..usize::try_from(at.checked_add(len)?).ok()?);
    let number =
        |at: u64, len: u64| Some(bytes(at, len)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    (bytes(0, 6)? == b"\x7fELF\x02\x01").then_some(())?;
    let (table, size, count, names) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?, number(0x3e, 2)?);
    let header = |index: u64| table.checked_add(index.checked_mul(size)?);
    let names = number(header(names)?.checked_add(0x18)?, 8)?;
    let wanted = format!(".text.{entry}\0");
    (0..count).find_map(|index| {
        let at = header(index)?;
        let name = names.checked_add(number(at, 4)?)?;
        (bytes(name, wanted.len() as u64)? == wanted.as_bytes()).then(|| number(at.checked_add(0x20)?, 8))?
    })
}

#[cfg(test)]
mod tests {
    use super::code_bytes;

    /// An ELF file with the names of its sections in section 0, and two sections of code.
    fn elf() -> Vec<u8> {
        let names = b"\0.text.gemm_v4\0.text.gemm_v1\0";
        let mut file = vec![0; 0x40];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let table = 0x40 + names.len() as u64;
        file[0x28..0x30].copy_from_slice(&table.to_le_bytes());
        (file[0x3a], file[0x3c]) = (0x40, 3);
        file.extend_from_slice(names);
        for (name, offset, size) in [(0u32, 0x40u64, names.len() as u64), (1, 0, 8192), (15, 0, 4096)] {
            let mut header = [0; 0x40];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&offset.to_le_bytes());
            header[0x20..0x28].copy_from_slice(&size.to_le_bytes());
            file.extend_from_slice(&header);
        }
        file
    }

    #[test]
    fn code_is_measured_by_its_section() {
        assert_eq!(code_bytes(&elf(), "gemm_v4"), Some(8192));
        assert_eq!(code_bytes(&elf(), "gemm_v1"), Some(4096));
        assert_eq!(code_bytes(&elf(), "gemm_v"), None);
    }

    #[test]
    fn what_is_not_a_cubin_has_no_code() {
        assert_eq!(code_bytes(b"", "gemm_v4"), None);
        assert_eq!(code_bytes(&[0xff; 100], "gemm_v4"), None);
        for cut in 0..elf().len() {
            let _ = code_bytes(&elf()[..cut], "gemm_v1");
        }
        let mut wild = elf();
        wild[0x28..0x30].fill(0xff);
        assert_eq!(code_bytes(&wild, "gemm_v4"), None);
    }
}
