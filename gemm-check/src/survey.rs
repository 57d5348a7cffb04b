//! Many products of one kernel, and those that went wrong: the basis of a schedule's tests.

use std::fmt;

use ptx_gemm_runtime::CompiledGemm;

use crate::check::check;
use crate::compare::Outcome;
use crate::data::Data;
use crate::error::CheckError;
use crate::request::{Leading, Output, Request};
use crate::size::Size;
use crate::suite::edge_requests;

/// A product with a wrong result.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The request.
    pub request: Request,
    /// The wrong result, or why there is none.
    pub what: Result<Outcome, CheckError>,
}

/// Multiplies the [`edge_requests`] of each size, and returns what is wrong, the smallest products first.
pub fn survey(gemm: &CompiledGemm, sizes: &[Size]) -> Vec<Finding> {
    let requests = sizes.iter().enumerate().flat_map(|(turn, size)| edge_requests(gemm.kernel(), *size, turn));
    let mut findings: Vec<Finding> = requests
        .filter_map(|request| match check(gemm, &request) {
            Ok(outcome) if outcome.is_right() => None,
            what => Some(Finding { request, what }),
        })
        .collect();
    findings.sort_by_key(|Finding { request: Request { m, n, k, .. }, .. }| m.max(&1) * n.max(&1) * k.max(&1));
    findings
}

impl fmt::Display for Finding {
    /// Describes the product, and what is wrong with it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { m, n, k, batch, others, leading, data, seed, scalars, output, .. } = &self.request;
        let data = match data {
            Data::Random => "random",
            Data::Nans => "part-NaN random",
            Data::Peaks => "peaked random",
            Data::Special => "NaN-and-infinity",
            Data::Infinite => "part-infinite integer",
            Data::Negative => "part-negative-infinite integer",
            Data::Vanishing => "vanishing and infinite",
            Data::Exact => "exact integer",
        };
        write!(f, "m = {m}, n = {n}, k = {k}, {data} data")?;
        if *batch > 1 {
            write!(f, ", {batch} products")?;
        }
        if !others.is_empty() {
            let others: Vec<String> = others.iter().map(|Size { m, n, k }| format!("{m} x {n} x {k}")).collect();
            write!(f, ", in a group with {}", others.join(", "))?;
        }
        if *leading != Leading::default() {
            f.write_str(", padded rows")?;
        }
        for (name, value) in scalars {
            write!(f, ", {name} = {value}")?;
        }
        if *output == Output::InPlace {
            f.write_str(", D in place of C")?;
        }
        write!(f, " (seed {seed}): ")?;
        match &self.what {
            Ok(outcome) => outcome.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
