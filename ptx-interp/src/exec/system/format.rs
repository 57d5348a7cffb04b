//! The formats of `printf`, with arguments laid out as `vprintf` gets them: each aligned to its size.

use super::Reader;
use crate::violation::Checked;

/// Widest field, so that a hostile format does not fill the memory.
const WIDEST: usize = 1 << 12;

/// One conversion: `%-08.3lld`.
#[derive(Clone, Copy, Debug, Default)]
struct Conversion {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of an integer argument.
    bytes: usize,
}

/// The next argument, at an address.
struct Arguments<'r, 'a, 'e> {
    reader: &'r mut Reader<'a, 'e>,
    next: u64,
}

impl Arguments<'_, '_, '_> {
    fn take(&mut self, bytes: usize) -> Checked<u64> {
        let at = self.next.next_multiple_of(bytes as u64);
        self.next = at.wrapping_add(bytes as u64);
        self.reader.load(None, at, bytes)
    }

    fn width(&mut self, text: &[u8], at: &mut usize) -> Checked<i64> {
        if text.get(*at) == Some(&b'*') {
            *at += 1;
            return Ok(i64::from(self.take(4)? as i32));
        }
        let mut width = 0i64;
        while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
            width = (10 * width + i64::from(digit - b'0')).min(WIDEST as i64);
            *at += 1;
        }
        Ok(width)
    }
}

/// The text that a format and the arguments at a generic address make, and the number of arguments.
pub(super) fn formatted(text: &[u8], address: u64, reader: &mut Reader<'_, '_>) -> Checked<(Vec<u8>, u64)> {
    let mut out = Vec::new();
    let mut count = 0;
    let mut arguments = Arguments { reader, next: address };
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut conversion = Conversion { bytes: 4, ..Conversion::default() };
        while let Some(flag) = text.get(at) {
            match flag {
                b'-' => conversion.left = true,
                b'0' => conversion.zeros = true,
                b'+' => conversion.plus = true,
                b' ' => conversion.space = true,
                b'#' => conversion.alternate = true,
                _ => break,
            }
            at += 1;
        }
        let width = arguments.width(text, &mut at)?;
        conversion.left |= width < 0;
        conversion.width = (width.unsigned_abs() as usize).min(WIDEST);
        if text.get(at) == Some(&b'.') {
            at += 1;
            let precision = arguments.width(text, &mut at)?;
            conversion.precision = usize::try_from(precision).ok().map(|precision| precision.min(WIDEST));
        }
        while let Some(length) = text.get(at).filter(|byte| b"hlqjzt".contains(byte)) {
            conversion.bytes = if *length == b'h' { 4 } else { 8 };
            at += 1;
        }
        let Some(&kind) = text.get(at) else { break };
        at += 1;
        if kind == b'%' {
            out.push(b'%');
            continue;
        }
        count += 1;
        convert(kind, conversion, &mut arguments, &mut out)?;
    }
    Ok((out, count))
}

fn convert(kind: u8, conversion: Conversion, arguments: &mut Arguments<'_, '_, '_>, out: &mut Vec<u8>) -> Checked {
    match kind {
        b'd' | b'i' => {
            let bits = arguments.take(conversion.bytes)?;
            let value = if conversion.bytes == 4 { i64::from(bits as i32) } else { bits as i64 };
            integer(conversion, sign(conversion, value < 0), value.unsigned_abs().to_string(), out);
        }
        b'u' => {
            let value = arguments.take(conversion.bytes)?;
            integer(conversion, "", value.to_string(), out);
        }
        b'x' | b'X' | b'o' | b'p' => {
            let value = arguments.take(if kind == b'p' { 8 } else { conversion.bytes })?;
            let (digits, prefix) = match kind {
                b'x' => (format!("{value:x}"), "0x"),
                b'X' => (format!("{value:X}"), "0X"),
                b'o' => (format!("{value:o}"), "0"),
                _ => (format!("{value:x}"), "0x"),
            };
            let prefixed = kind == b'p' || conversion.alternate && value != 0;
            integer(conversion, if prefixed { prefix } else { "" }, digits, out);
        }
        b'c' => {
            let value = arguments.take(4)?;
            padded(conversion, &[value as u8], out);
        }
        b's' => {
            let address = arguments.take(8)?;
            let text = arguments.reader.text(address)?;
            let length = conversion.precision.unwrap_or(text.len()).min(text.len());
            padded(conversion, &text[..length], out);
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' => {
            let value = f64::from_bits(arguments.take(8)?);
            let digits = float(kind.to_ascii_lowercase(), value.abs(), conversion);
            let digits = if kind.is_ascii_uppercase() { digits.to_ascii_uppercase() } else { digits };
            let number = Conversion { precision: None, zeros: conversion.zeros && value.is_finite(), ..conversion };
            integer(number, sign(conversion, value.is_sign_negative()), digits, out);
        }
        other => out.extend_from_slice(&[b'%', other]),
    }
    Ok(())
}

fn sign(conversion: Conversion, negative: bool) -> &'static str {
    match (negative, conversion.plus, conversion.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (.., true) => " ",
        _ => "",
    }
}

/// Digits with a sign or a prefix before them. A precision is their least number; without one, zeros may pad.
fn integer(conversion: Conversion, prefix: &str, digits: String, out: &mut Vec<u8>) {
    let least = match conversion.precision {
        Some(precision) => precision,
        None if conversion.zeros && !conversion.left => conversion.width.saturating_sub(prefix.len()),
        None => 0,
    };
    let zeros = "0".repeat(least.saturating_sub(digits.len()));
    padded(conversion, format!("{prefix}{zeros}{digits}").as_bytes(), out);
}

fn padded(conversion: Conversion, text: &[u8], out: &mut Vec<u8>) {
    let blanks = vec![b' '; conversion.width.saturating_sub(text.len())];
    if conversion.left {
        out.extend_from_slice(text);
        out.extend_from_slice(&blanks);
    } else {
        out.extend_from_slice(&blanks);
        out.extend_from_slice(text);
    }
}

/// A number that is not negative, as C writes it.
fn float(kind: u8, value: f64, conversion: Conversion) -> String {
    let precision = conversion.precision.unwrap_or(6);
    if !value.is_finite() {
        return if value.is_nan() { "nan".to_owned() } else { "inf".to_owned() };
    }
    match kind {
        b'f' => format!("{value:.precision$}"),
        b'e' => scientific(value, precision),
        _ => {
            let significant = precision.max(1);
            let text = scientific(value, significant - 1);
            let exponent: i32 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
            let (mantissa, suffix) = if exponent < -4 || exponent >= significant as i32 {
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
                (mantissa.to_owned(), format!("e{exponent}"))
            } else {
                let decimals = (significant as i32 - 1 - exponent).max(0) as usize;
                (format!("{value:.decimals$}"), String::new())
            };
            match mantissa.contains('.') && !conversion.alternate {
                true => format!("{}{suffix}", mantissa.trim_end_matches('0').trim_end_matches('.')),
                false => mantissa + &suffix,
            }
        }
    }
}

/// An exponent has a sign and at least two digits.
fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}
