//! The launch file: which entry of a PTX file runs, and its operands.

use std::collections::BTreeMap;

use ptx_gemm_runtime::random::SplitMix64;
use serde::Deserialize;
use serde_json::Value;

use super::element::ElementType;

/// The maximum size of all buffers together, in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// A launch as described by its file, in JSON:
///
/// ```json
/// {
///   "entry": "scale",
///   "grid": [2, 1, 1],
///   "block": [32, 1, 1],
///   "args": [{"u32": 64}, {"f32": 0.5}, {"buffer": "x"}],
///   "buffers": {"x": {"type": "f32", "shape": [64], "init": "iota"}},
///   "print": ["x"]
/// }
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchFile {
    /// Name of the entry; may be left out of a file with one.
    pub entry: Option<String>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster, if the launch uses clusters.
    pub cluster: Option<[u32; 3]>,
    /// Blocks that the GPU holds at once; the others start when one of these has exited. If it is left out, `gemmc exec`
    /// derives it from the GPU.
    pub resident: Option<u32>,
    /// The GPU that the blocks are resident on, such as `h200`; if it is left out, one of the module's target.
    pub gpu: Option<String>,
    /// Whether earlier kernels may still run, so that the kernel itself has to wait for them. On a GPU none runs.
    #[serde(default)]
    pub overlaps: bool,
    /// Bytes of dynamic shared memory.
    #[serde(default)]
    pub shared: u32,
    /// Arguments, in the order of the parameters.
    #[serde(default)]
    pub args: Vec<Arg>,
    /// Buffers of global memory, by name.
    #[serde(default)]
    pub buffers: BTreeMap<String, Buffer>,
    /// Tensor maps, by name.
    #[serde(default)]
    pub maps: BTreeMap<String, Map>,
    /// Buffers to print afterwards; all of them if it is left out.
    pub print: Option<Vec<String>>,
}

/// An argument: an object with one key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the names are PTX's
pub enum Arg {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    S8(i8),
    S16(i16),
    S32(i32),
    S64(i64),
    F16(Value),
    Bf16(Value),
    F32(Value),
    F64(Value),
    /// Any other parameter, by its bytes.
    Bytes(Vec<u8>),
    /// The address of a buffer.
    Buffer(String),
    /// A tensor map.
    Map(String),
}

/// A buffer of global memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Its elements.
    #[serde(rename = "type")]
    pub ty: ElementType,
    /// The number of elements along each dimension.
    pub shape: Vec<u64>,
    /// Their initial values; if left out, they count as never written.
    pub init: Option<Init>,
    /// Whether each byte is to be written exactly once; where `init` fills the buffer, at most once.
    #[serde(default)]
    pub write_once: bool,
}

/// The initial contents of a buffer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// 0, 1, 2, …, rounded or wrapped to the type.
    Iota,
    /// Floats from -1 to 1, integers of the whole range, the same for the same seed.
    Random(u64),
    /// One number everywhere.
    Constant(Value),
    /// Each element.
    Values(Vec<Value>),
}

/// A tensor map: extents, strides and box innermost dimension first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// The buffer that it describes.
    pub buffer: String,
    /// Its elements.
    #[serde(rename = "type")]
    pub ty: String,
    /// Extents of the tensor, in elements.
    pub dims: Vec<u64>,
    /// Strides in bytes, without the innermost.
    #[serde(default)]
    pub strides: Vec<u64>,
    /// Extents of what one instruction copies, in elements.
    #[serde(rename = "box")]
    pub extents: Vec<u32>,
    /// Element strides of the traversal; 1 everywhere if it is left out.
    pub element_strides: Option<Vec<u32>>,
    /// 0 none, 1 within 32 bytes, 2 within 64, 3 within 128, as the driver numbers them.
    #[serde(default)]
    pub swizzle: u32,
    /// The value of an element outside the tensor: 0 zero, 1 a NaN that the arithmetic treats as zero.
    #[serde(default)]
    pub oob: u32,
}

impl LaunchFile {
    /// Reads a launch file.
    ///
    /// # Errors
    /// Returns what is wrong with it, with line and column for errors in the text.
    pub fn parse(text: &str) -> Result<LaunchFile, String> {
        let file: LaunchFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        file.check()?;
        Ok(file)
    }

    /// Checks that every name is defined in the file, and that everything has a size.
    fn check(&self) -> Result<(), String> {
        let buffer = |name: &str| match self.buffers.contains_key(name) {
            true => Ok(()),
            false => Err(format!("the file has no buffer `{name}`; {}", known("buffers", self.buffers.keys()))),
        };
        for arg in &self.args {
            match arg {
                Arg::Buffer(name) => buffer(name)?,
                Arg::Map(name) if !self.maps.contains_key(name) => {
                    return Err(format!("the file has no map `{name}`; {}", known("maps", self.maps.keys())));
                }
                _ => {}
            }
        }
        if self.resident == Some(0) {
            return Err("no block is resident: `resident` is at least 1".into());
        }
        self.maps.values().try_for_each(|map| buffer(&map.buffer))?;
        self.print.iter().flatten().try_for_each(|name| buffer(name))?;
        let mut total = 0u64;
        for (name, one) in &self.buffers {
            let bytes = one.bytes().filter(|bytes| *bytes <= MAX_BYTES);
            let bytes = bytes.ok_or_else(|| format!("buffer `{name}` has more than {MAX_BYTES} bytes"))?;
            total = total.saturating_add(bytes);
        }
        match total <= MAX_BYTES {
            true => Ok(()),
            false => Err(format!("the buffers have {total} bytes; {MAX_BYTES} are laid out at most")),
        }
    }

    /// Names of the buffers to print.
    pub fn shown(&self) -> Vec<&str> {
        match &self.print {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => self.buffers.keys().map(String::as_str).collect(),
        }
    }
}

fn known<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { format!("the file has no {what}") } else { format!("the {what} are {}", names.join(", ")) }
}

impl Arg {
    /// The bytes of an argument that is neither a buffer nor a map.
    ///
    /// # Errors
    /// Returns an error for a number that the type cannot represent.
    pub fn bytes(&self) -> Result<Option<Vec<u8>>, String> {
        let float = |ty: ElementType, value: &Value| {
            let mut bytes = Vec::new();
            ty.push_value(value, &mut bytes).map(|()| Some(bytes))
        };
        match self {
            Arg::U8(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::U16(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::U32(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::U64(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::S8(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::S16(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::S32(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::S64(value) => Ok(Some(value.to_le_bytes().into())),
            Arg::F16(value) => float(ElementType::F16, value),
            Arg::Bf16(value) => float(ElementType::Bf16, value),
            Arg::F32(value) => float(ElementType::F32, value),
            Arg::F64(value) => float(ElementType::F64, value),
            Arg::Bytes(bytes) => Ok(Some(bytes.clone())),
            Arg::Buffer(_) | Arg::Map(_) => Ok(None),
        }
    }
}

impl Buffer {
    /// Elements, if their number fits 64 bits.
    fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))
    }

    /// Bytes, if their number fits 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.elements()?.checked_mul(self.ty.bytes() as u64)
    }

    /// Its initial contents; `None` if they are unspecified.
    ///
    /// # Errors
    /// Returns an error for values that the type cannot represent, and if their number does not match the
    /// buffer.
    pub fn contents(&self) -> Result<Option<Vec<u8>>, String> {
        let elements = self.elements().unwrap_or(0);
        let mut out = Vec::new();
        match &self.init {
            None => return Ok(None),
            Some(Init::Iota) => (0..elements).for_each(|i| self.ty.push_integer(i.into(), &mut out)),
            Some(Init::Random(seed)) => {
                let mut random = SplitMix64::new(*seed);
                for _ in 0..elements {
                    match self.ty.is_float() {
                        true => self.ty.push_float(random.next_signed(), &mut out),
                        false => self.ty.push_integer(random.next_u64().into(), &mut out),
                    }
                }
            }
            Some(Init::Constant(value)) => {
                self.ty.push_value(value, &mut out)?;
                out = out.repeat(elements as usize);
            }
            Some(Init::Values(values)) if values.len() as u64 == elements => {
                values.iter().try_for_each(|value| self.ty.push_value(value, &mut out))?;
            }
            Some(Init::Values(values)) => {
                return Err(format!("{} values for {elements} elements", values.len()));
            }
        }
        Ok(Some(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"entry": "e", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"u32": 3}, {"buffer": "a"}],
        "buffers": {"a": {"type": "u8", "shape": [2, 150], "init": "iota"}}}"#;

    #[test]
    fn buffers_are_filled() {
        let file = LaunchFile::parse(FILE).unwrap();
        let bytes = file.buffers["a"].contents().unwrap().unwrap();
        assert_eq!((bytes.len(), bytes[299]), (300, 299u32 as u8));
        assert_eq!(file.shown(), ["a"]);
        assert_eq!(file.args[0].bytes(), Ok(Some(vec![3, 0, 0, 0])));
        let random = FILE.replace("\"iota\"", r#"{"random": 7}"#);
        let twice = [&random, &random].map(|text| LaunchFile::parse(text).unwrap().buffers["a"].contents());
        assert_eq!(twice[0], twice[1]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, words) in [
            (r#"{"buffer": "a"}"#, r#"{"buffer": "b"}"#, "the file has no buffer `b`; the buffers are a"),
            (r#"{"buffer": "a"}"#, r#"{"map": "b"}"#, "the file has no map `b`; the file has no maps"),
            (r#"{"u32": 3}"#, r#"{"u32": -3}"#, "invalid value: integer `-3`, expected u32 at line 1"),
            (r#""entry""#, r#""entries""#, "unknown field `entries`"),
            ("[2, 150]", "[4294967296, 4294967296]", "buffer `a` has more than 4294967296 bytes"),
            ("\"u8\"", "\"u9\"", "unknown variant `u9`"),
            (r#""block""#, r#""resident": 0, "block""#, "`resident` is at least 1"),
        ] {
            let error = LaunchFile::parse(&FILE.replace(from, to)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let few = FILE.replace("\"iota\"", r#"{"values": [1, 2]}"#);
        let error = LaunchFile::parse(&few).unwrap().buffers["a"].contents().unwrap_err();
        assert_eq!(error, "2 values for 300 elements");
    }

    /// The schema has the keys that the reader knows, and the reference has a row for each.
    #[test]
    fn the_schema_and_the_reference_are_complete() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let text = std::fs::read_to_string(root.join("launch-file.schema.json")).unwrap();
        let page = std::fs::read_to_string(root.join("launch-files.md")).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        let buffer = r#"{"type": "u8", "shape": [1], "?": 1}"#;
        let map = r#"{"buffer": "a", "type": "u8", "dims": [1], "box": [1], "?": 1}"#;
        let file = |rest: &str| format!(r#"{{"grid": [1, 1, 1], "block": [1, 1, 1], {rest}}}"#);
        for (keys, text) in [
            (&schema["properties"], file(r#""?": 1"#)),
            (&schema["$defs"]["argument"]["properties"], file(r#""args": [{"?": 1}]"#)),
            (&schema["$defs"]["buffer"]["properties"], file(&format!(r#""buffers": {{"a": {buffer}}}"#))),
            (&schema["$defs"]["map"]["properties"], file(&format!(r#""maps": {{"a": {map}}}"#))),
        ] {
            let error = LaunchFile::parse(&text).unwrap_err();
            let (_, known) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
            let mut known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
            let mut listed: Vec<&str> = keys.as_object().unwrap().keys().map(String::as_str).collect();
            known.sort_unstable();
            listed.sort_unstable();
            assert_eq!(listed, known, "{error}");
            known.iter().for_each(|key| assert!(page.contains(&format!("`{key}`")), "`{key}` is not in the reference"));
        }
        let types = schema["$defs"]["element"]["enum"].as_array().unwrap();
        for ty in types {
            let text = file(&format!(r#""buffers": {{"a": {{"type": {ty}, "shape": [1]}}}}"#));
            LaunchFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        }
        let example = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        LaunchFile::parse(example).unwrap();
    }
}
