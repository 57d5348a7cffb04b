//! Instructions and contracts in JSON, written as in the language. Words and types derive theirs, in snake case.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::clause::{Atom, Expectation, Metric, Relation};
use crate::words::Word;

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for Relation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Serialize for Expectation {
    /// Includes the unit of the limit, which distinguishes the two kinds of occupancy.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Expectation { metric, relation, limit } = self;
        let mut contract = serializer.serialize_struct("Expectation", 4)?;
        contract.serialize_field("metric", metric)?;
        contract.serialize_field("relation", relation)?;
        contract.serialize_field("limit", limit)?;
        contract.serialize_field("unit", &Some(metric.unit().trim()).filter(|unit| !unit.is_empty()))?;
        contract.end()
    }
}
