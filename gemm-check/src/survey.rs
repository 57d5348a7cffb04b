//! Many products of one kernel, and those that went wrong or compared nothing: the basis of a schedule's tests.

use std::fmt;

use ptx_gemm_runtime::CompiledGemm;

use crate::check::check;
use crate::compare::{Outcome, Verdict};
use crate::data::Data;
use crate::error::CheckError;
use crate::request::{Leading, Output, Request};
use crate::size::Size;
use crate::suite::edge_requests;

/// A product with a wrong result, or one that was not compared.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The request.
    pub request: Request,
    /// The result, or why it is missing.
    pub what: Result<Outcome, CheckError>,
}

/// The products of some sizes.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Products that ran.
    pub products: usize,
    /// Products with compared elements.
    pub compared: usize,
    /// What is wrong, or was not compared, the smallest products first.
    pub findings: Vec<Finding>,
}

/// Turns of [`edge_requests`] that are tried at a size until an element is compared: all that have other scalars.
const TURNS: usize = 12;

/// Multiplies the [`edge_requests`] of each size.
///
/// A size at which no element can be compared, because its data leave every one undefined, is tried with the data of other turns.
/// If that does not help, it is a finding: nothing is known about it.
pub fn survey(gemm: &CompiledGemm, sizes: &[Size]) -> Survey {
    let mut survey = Survey::default();
    for (turn, size) in sizes.iter().enumerate() {
        let mut uncompared = None;
        for turn in turn..turn + TURNS {
            uncompared = survey.at(gemm, *size, turn);
            if uncompared.is_none() {
                break;
            }
        }
        survey.findings.extend(uncompared);
    }
    survey.findings.sort_by_key(|Finding { request: Request { m, n, k, .. }, .. }| m.max(&1) * n.max(&1) * k.max(&1));
    survey
}

impl Survey {
    /// Multiplies the requests of one turn; returns one of them if none of their elements could be compared.
    fn at(&mut self, gemm: &CompiledGemm, size: Size, turn: usize) -> Option<Finding> {
        let (mut known, mut uncompared) = (false, None);
        for request in edge_requests(gemm.kernel(), size, turn) {
            self.products += 1;
            let what = check(gemm, &request);
            match what.as_ref().map(Outcome::verdict) {
                Ok(Verdict::Right) => {
                    self.compared += 1;
                    known = true;
                }
                Ok(Verdict::Empty) => {}
                Ok(Verdict::Uncompared) => uncompared = Some(Finding { request, what }),
                Ok(Verdict::Wrong) | Err(_) => {
                    self.findings.push(Finding { request, what });
                    known = true;
                }
            }
        }
        uncompared.filter(|_| !known)
    }
}

impl Finding {
    /// Whether no element of the product could be compared, rather than some being wrong.
    pub fn is_uncompared(&self) -> bool {
        self.what.as_ref().is_ok_and(|outcome| outcome.verdict() == Verdict::Uncompared)
    }
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
