use super::*;
use crate::Violation;
pub fn verify(_: &Program) -> Result<(), Violation> { Ok(()) }
pub fn accumulators_of(role: &Role) -> Vec<usize> {
    let mut all = Vec::new();
    walk(&role.body, &mut |s| {
        let acc = match &s.op { Op::Clear{acc} | Op::Reduce{acc,..} | Op::Store{acc,..} => Some(*acc), Op::Steps{multiply,..} => Some(multiply.acc), _ => None };
        if let Some(a) = acc && !all.contains(&a) { all.push(a); }
    });
    all
}
pub fn module(m: &Module) -> Result<(), Violation> { m.entries.iter().try_for_each(verify) }
