//! How a file of results spells the types of a product: `f32`, `bf16,bf16,f32,bf16`, or `f32 as bf16x6`; and what a table shows of a
//! schedule.

use std::fmt;
use std::str::FromStr;

use ptx_gemm::{DType, Schedule};
use ptx_gemm_dsl::table::Key;
use serde_json::Value;

/// Separates the types of a product from its emulation mode.
pub(crate) const AS_PLANES: &str = " as ";

/// The types of a row. Two rows have the same types if these are equal, however their files spell them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTypes {
    /// Those of A, B, the sums and D.
    pub types: [DType; 4],
    /// The emulation mode, such as `bf16x6`.
    pub planes: Option<String>,
}

impl RowTypes {
    /// Types that the language names by one word: `types(bf16)` has f32 accumulators.
    fn named(dtype: DType) -> Option<[DType; 4]> {
        let types = Schedule::new().types(dtype).problem().ok()?.types;
        Some([types.a, types.b, types.acc, types.d])
    }
}

impl fmt::Display for RowTypes {
    /// One name if all types are equal and the language means the same by it, else all four.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, ..] = self.types;
        match self.types.iter().all(|dtype| *dtype == first) && RowTypes::named(first) == Some(self.types) {
            true => write!(f, "{first}")?,
            false => f.write_str(&self.types.map(|dtype| dtype.to_string()).join(","))?,
        }
        self.planes.iter().try_for_each(|planes| write!(f, "{AS_PLANES}{planes}"))
    }
}

impl FromStr for RowTypes {
    type Err = String;

    fn from_str(text: &str) -> Result<RowTypes, String> {
        let (types, planes) = match text.split_once(AS_PLANES) {
            Some((types, planes)) => (types, Some(planes.trim().to_string())),
            None => (text, None),
        };
        let of = |name: &str| DType::ALL.into_iter().find(|dtype| dtype.name() == name.trim());
        let names: Option<Vec<DType>> = types.split(',').map(of).collect();
        let types = match names.as_deref() {
            Some(&[one]) => RowTypes::named(one),
            Some(&[a, b, acc, d]) => Some([a, b, acc, d]),
            _ => None,
        };
        let types = types.ok_or_else(|| format!("`{text}` is not one type, or those of A, B, the sums and D"))?;
        Ok(RowTypes { types, planes })
    }
}

/// A schedule in a column of a table: its name, or of clauses those that say how the work is divided.
pub fn label(schedule: &str) -> String {
    const SHOWN: [Key; 5] = [Key::Tile, Key::Cluster, Key::SplitK, Key::StreamK, Key::Strassen];
    match schedule.parse::<Schedule>() {
        Ok(clauses) => {
            let shown = SHOWN.iter().filter_map(|key| Some(clauses.get(*key)?.to_string()));
            shown.collect::<Vec<_>>().join(", ")
        }
        Err(_) => schedule.into(),
    }
}

/// Spells the types of every row of a file of results in one way, so that equal types have equal names. Other text stays as it
/// is.
pub fn unify(results: &mut Value) {
    for row in results["rows"].as_array_mut().into_iter().flatten() {
        if let Some(types) = row["types"].as_str().and_then(|types| types.parse::<RowTypes>().ok()) {
            row["types"] = types.to_string().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RowTypes, label, unify};

    #[test]
    fn types_are_equal_by_their_meaning() {
        let of = |text: &str| text.parse::<RowTypes>();
        assert_eq!(of("bf16"), of("bf16,bf16,f32,bf16"));
        assert_eq!(of("f32"), of("f32, f32, f32, f32"));
        assert_ne!(of("f16"), of("f16,f16,f16,f16"), "sums of f32, and of f16");
        assert_ne!(of("f32"), of("f32 as bf16x6"));
        for text in ["f32", "f64", "i32", "bf16,bf16,f32,bf16", "f16,f16,f16,f16", "i8,i8,i32,i32", "f32 as bf16x6"] {
            assert_eq!(of(text).unwrap().to_string(), text);
        }
        for text in ["", "f31", "bf16,bf16", "bf16,bf16,f32,bf16,f32"] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn clauses_are_abridged_and_names_are_not() {
        assert_eq!(label("bf16_128x256"), "bf16_128x256");
        assert_eq!(label("tile(64, 64, 16); thread(4, 4); split_k(4)"), "tile(64, 64, 16), split_k(4)");
        assert_eq!(
            label("types(bf16); cluster(2, 1); tile(128, 256, 64); stream_k"),
            "tile(128, 256, 64), cluster(2, 1), stream_k"
        );
    }

    #[test]
    fn a_file_has_one_spelling() {
        let mut results =
            json!({ "rows": [{ "types": "bf16" }, { "types": "f32" }, { "types": "of a later version" }, {}] });
        unify(&mut results);
        let types: Vec<_> = results["rows"].as_array().unwrap().iter().map(|row| row["types"].clone()).collect();
        assert_eq!(types[..3], [json!("bf16,bf16,f32,bf16"), json!("f32"), json!("of a later version")]);
        unify(&mut json!({ "rows": 3 }));
    }
}
