//! CUDA's own functions: `vprintf`, and what a failed assertion calls.

mod format;

use super::locate::{AccessKind, LaneAccess, locate};
use super::memory::{read, write};
use crate::address::StateSpace;
use crate::env::{BlockMemory, Env};
use crate::op::{Argument, System, SystemFunction};
use crate::row::lanes;
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

/// Longest text that a pointer may refer to.
const LONGEST: usize = 4096;
/// Most bytes that one cluster may print; the rest is dropped, as CUDA does with its buffer of this size.
const MOST_PRINTED: usize = 1 << 20;

/// Lanes of a warp call a function.
#[cold]
pub(super) fn call<const WATCH: bool>(
    warp: &mut Warp,
    block: &mut BlockMemory,
    env: &Env,
    system: &System,
    active: u32,
) -> Checked {
    let arguments = system.arguments.as_slice();
    for lane in lanes(active) {
        let mut at = Reader { warp, block, env, lane };
        match (system.function, arguments) {
            (SystemFunction::Print, [result, text, values]) => {
                let (text, values) = (at.argument(text, 8)?, at.argument(values, 8)?);
                let text = at.text(text)?;
                let (printed, count) = format::formatted(&text, values, &mut at)?;
                if at.block.printed.len() < MOST_PRINTED {
                    at.block.printed.extend_from_slice(&printed);
                }
                at.result(result, count)?;
            }
            (SystemFunction::Assert, [message, file, line, function, _]) => {
                let [message, file, function] =
                    [at.argument(message, 8)?, at.argument(file, 8)?, at.argument(function, 8)?];
                let line = at.argument(line, 4)?;
                let [message, file, function] = [at.text(message)?, at.text(file)?, at.text(function)?];
                let [message, file, function] =
                    [message, file, function].map(|text| String::from_utf8_lossy(&text).into_owned());
                let told = format!("{{thread}}: the assertion `{message}` of {function} failed, at {file}:{line}");
                return Err(Fault::new(ViolationKind::Assertion, 1 << lane, told));
            }
            (SystemFunction::Stray, _) => {
                let name = &system.name;
                let told = format!("{{thread}} calls `{name}`, which is the address of no function of this module");
                return Err(Fault::new(ViolationKind::UnknownInstruction, 1 << lane, told));
            }
            _ => {
                let name = &system.name;
                let told = format!(
                    "{{thread}} calls `{name}`, and the calls that are active leave no room on the stack of a thread"
                );
                return Err(Fault::new(ViolationKind::StackOverflow, 1 << lane, told));
            }
        }
    }
    Ok(())
}

/// Memory as a lane reads it.
struct Reader<'r, 'e> {
    warp: &'r mut Warp,
    block: &'r mut BlockMemory,
    env: &'r Env<'e>,
    lane: usize,
}

impl Reader<'_, '_> {
    /// The value of an argument of this many bytes.
    fn argument(&mut self, argument: &Argument, bytes: usize) -> Checked<u64> {
        match *argument {
            Argument::Value(slot) => Ok(self.warp.regs.get(slot, self.lane)),
            Argument::Memory { base, offset } => {
                let address = self.warp.regs.get(base, self.lane).wrapping_add_signed(offset);
                self.load(Some(StateSpace::Local), address, bytes)
            }
        }
    }

    fn result(&mut self, argument: &Argument, value: u64) -> Checked {
        match *argument {
            Argument::Value(slot) => {
                self.warp.regs.set(slot, self.lane, value);
                let at = self.warp.taint.at(slot);
                self.warp.taint.assign(at, 0, at, 1 << self.lane);
            }
            Argument::Memory { base, offset } => {
                let address = self.warp.regs.get(base, self.lane).wrapping_add_signed(offset);
                let (space, lane, kind) = (Some(StateSpace::Local), self.lane, AccessKind::Write);
                let location = locate(self.block, self.env, &LaneAccess { space, address, bytes: 4, lane, kind })?;
                write(self.warp, self.block, location, 0, 4, self.lane, value);
            }
        }
        Ok(())
    }

    /// A value of 1, 2, 4 or 8 bytes; the space is generic if there is none.
    fn load(&mut self, space: Option<StateSpace>, address: u64, bytes: usize) -> Checked<u64> {
        let (lane, kind) = (self.lane, AccessKind::Read);
        let access = LaneAccess { space, address, bytes: bytes as u64, lane, kind };
        let location = locate(self.block, self.env, &access)?;
        Ok(read::<false>(self.warp, self.block, self.env, location, 0, bytes, self.lane).0)
    }

    /// The bytes up to a zero at a generic address.
    fn text(&mut self, address: u64) -> Checked<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < LONGEST {
            match self.load(None, address.wrapping_add(text.len() as u64), 1)? {
                0 => break,
                byte => text.push(byte as u8),
            }
        }
        Ok(text)
    }
}
