//! The asynchronous multiplications of warp groups.
//!
//! The four warps of a warp group start the same multiplications in the same order. The instruction waits only for the
//! threads of its own warp, so one warp may be ahead: each warp joins the multiplication with the same number, and has
//! to give the same operands. A warp that waits for a multiplication waits until all four have started it.
//!
//! - **Shared memory** is read by one agent for the whole warp group. As with bulk copies ([`crate::agents`]), a clock
//!   counts the multiplications. A thread that waits for one knows that all four warps have read everything up to it,
//!   and passes that on. So one thread of the group may release a stage for all of it.
//! - **Registers** belong to each thread. Between the start of a multiplication and the wait that completes it, no
//!   other instruction may use its accumulators and fragments, except that further multiplications of the same shape
//!   add to the same accumulators. Earlier uses by other instructions have to be fenced ([`Flight::fence`]).
//! - [`crate::Landing`] says when a multiplication reads its operands and writes its accumulators: when a warp starts
//!   it, or when the first of the four warps waits for it.

use std::collections::VecDeque;

use crate::row::LANES;

/// Warps of a warp group.
pub(crate) const WARPS: usize = 4;

/// The operands that all warps of a group have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) pc: u32,
    /// The descriptors of A and B; 0 for A in registers.
    pub(crate) descriptors: [u64; 2],
    /// Whether D is added to.
    pub(crate) adds: bool,
}

impl Terms {
    /// How this differs from what another warp has started, if it does.
    pub(crate) fn difference(&self, other: &Terms) -> Option<&'static str> {
        let differ = [
            (self.pc != other.pc, "another instruction"),
            (self.descriptors[0] != other.descriptors[0], "another descriptor of A"),
            (self.descriptors[1] != other.descriptors[1], "another descriptor of B"),
            (self.adds != other.adds, "another value of the predicate that says whether D is added to"),
        ];
        differ.into_iter().find_map(|(differs, what)| differs.then_some(what))
    }
}

/// The operands that a multiplication has read from shared memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operands {
    /// Rows of A by k; empty if A is in registers.
    pub(crate) a: Vec<[u16; 16]>,
    /// For every eight columns of B: by k, then by column.
    pub(crate) b: Vec<[[u16; 8]; 16]>,
    /// Rows of A, one bit each, and columns of B, one byte for every eight, that depend on bytes that were never
    /// written.
    pub(crate) undefined_rows: u64,
    pub(crate) undefined_columns: Vec<u8>,
}

/// A multiplication that not all warps of its group have completed.
#[derive(Clone, Debug)]
pub(crate) struct Multiplication {
    pub(crate) terms: Terms,
    /// Offsets in shared memory of the 16-byte pieces of A and B.
    pub(crate) pieces: [Vec<u32>; 2],
    /// If asynchronous copies wrote everything that it reads: the columns and clocks of their mbarriers, which a thread
    /// has to know.
    pub(crate) copies: Option<Vec<(u32, u32)>>,
    /// Absent until one of the warps needs them.
    pub(crate) operands: Option<Operands>,
    /// Number of warps that have written their accumulators.
    landed: usize,
}

/// A warp group.
#[derive(Clone, Debug, Default)]
struct Group {
    /// By warp, the number of multiplications that it has started.
    started: [u32; WARPS],
    /// The multiplications in flight, and the number of the first.
    flying: VecDeque<Multiplication>,
    first: u32,
}

/// The warp groups of a cluster's blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// Warps of each block of the cluster, and the distance between the first warps of two blocks.
    warps: usize,
    pitch: usize,
}

impl Groups {
    /// Resets to the initial state: blocks of `warps` warps each, which begin `pitch` warps apart.
    pub(crate) fn reset(&mut self, warps: usize, pitch: usize, ranks: usize) {
        self.groups.clear();
        self.groups.resize(if ranks == 1 { warps / WARPS } else { pitch * ranks / WARPS }, Group::default());
        (self.warps, self.pitch) = (warps, pitch);
    }

    /// The group of a warp, if its block has all four of its warps.
    pub(crate) fn of(&self, warp: usize) -> Option<usize> {
        (warp % self.pitch / WARPS < self.warps / WARPS).then_some(warp / WARPS)
    }

    /// A warp starts its next multiplication. Returns the operands of the other warps if one has started it before.
    pub(crate) fn start(&mut self, warp: usize, terms: Terms) -> Option<Terms> {
        let group = &mut self.groups[warp / WARPS];
        let number = group.started[warp % WARPS];
        group.started[warp % WARPS] += 1;
        match group.flying.get((number - group.first) as usize) {
            Some(known) => Some(known.terms),
            None => {
                let pieces = Default::default();
                group.flying.push_back(Multiplication { terms, pieces, copies: None, operands: None, landed: 0 });
                None
            }
        }
    }

    /// A multiplication in flight.
    pub(crate) fn get_mut(&mut self, warp: usize, number: u32) -> Option<&mut Multiplication> {
        let group = &mut self.groups[warp / WARPS];
        group.flying.get_mut(number.checked_sub(group.first)? as usize)
    }

    /// A warp has written its accumulators.
    pub(crate) fn land(&mut self, warp: usize, number: u32) {
        if let Some(multiplication) = self.get_mut(warp, number) {
            multiplication.landed += 1;
        }
        let group = &mut self.groups[warp / WARPS];
        while group.flying.front().is_some_and(|first| first.landed == WARPS) {
            group.flying.pop_front();
            group.first += 1;
        }
    }

    /// Whether all warps of a warp's group have started their first `count` multiplications.
    pub(crate) fn have_started(&self, warp: usize, count: u32) -> bool {
        self.laggard(warp, count).is_none()
    }

    /// A warp of the group that has started fewer multiplications, and their number.
    pub(crate) fn laggard(&self, warp: usize, count: u32) -> Option<(usize, u32)> {
        let started = self.groups.get(warp / WARPS)?.started;
        let late = started.iter().position(|started| *started < count)?;
        Some((warp / WARPS * WARPS + late, started[late]))
    }
}

/// The role of a register in a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A part of D, with an identifier of the multiplication's shape and types.
    Accumulator(u32),
    /// A part of A.
    Fragment,
}

/// A register that multiplications use.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    /// Index plus one of the last instruction that used it and is not fenced; 0 if there is none.
    used: u32,
    /// The last multiplication that uses it, counted from 1, its role, its instruction, and the number of fences before.
    user: u32,
    role: Option<Role>,
    pc: u32,
    fences: u32,
}

/// Why a register may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// This instruction used it before, without a fence since.
    Unfenced(u32),
    /// It belongs to the multiplication that this instruction started, and the warp has not waited for that.
    InFlight(u32, Role),
}

/// A warp's own view of its multiplications.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {
    /// Number of multiplications that it has started, of those that have written their accumulators, and of those that
    /// it has waited for.
    pub(crate) started: u32,
    pub(crate) landed: u32,
    pub(crate) complete: u32,
    /// By commit that was not waited for, the number of multiplications started before it.
    commits: VecDeque<u32>,
    fences: u32,
    /// By number ([`crate::op::GroupRegisters`]).
    registers: Vec<Register>,
    /// The instruction of the last multiplication.
    pub(crate) last: u32,
}

impl Flight {
    pub(crate) fn reset(&mut self, registers: usize) {
        (self.started, self.landed, self.complete, self.fences) = (0, 0, 0, 0);
        self.commits.clear();
        self.registers.clear();
        self.registers.resize(registers, Register::default());
    }

    /// Orders earlier uses of the warp's registers by other instructions before its next multiplications.
    pub(crate) fn fence(&mut self) {
        self.fences += 1;
        self.registers.iter_mut().for_each(|register| register.used = 0);
    }

    /// Whether the warp has ever executed a fence.
    pub(crate) fn has_fenced(&self) -> bool {
        self.fences > 0
    }

    pub(crate) fn commit(&mut self) {
        self.commits.push_back(self.started);
    }

    /// The number of multiplications that a wait for all but the newest `pending` groups completes.
    pub(crate) fn awaited(&self, pending: u32) -> u32 {
        let old = self.commits.len().checked_sub(pending as usize + 1);
        old.map_or(self.complete, |newest| self.commits[newest])
    }

    /// Records that the warp has waited for its first `count` multiplications.
    pub(crate) fn complete(&mut self, count: u32) {
        self.complete = self.complete.max(count);
        while self.commits.front().is_some_and(|committed| *committed <= self.complete) {
            self.commits.pop_front();
        }
    }

    /// Records that another instruction uses a register.
    #[inline(always)]
    pub(crate) fn touch(&mut self, number: u32, pc: u32) -> Result<(), Touch> {
        let register = &mut self.registers[number as usize];
        register.used = pc + 1;
        match register.role {
            Some(role) if register.user > self.complete => Err(Touch::InFlight(register.pc, role)),
            _ => Ok(()),
        }
    }

    /// Checks that the next multiplication may use a register, and records that it does.
    pub(crate) fn take(&mut self, number: usize, role: Role, pc: u32) -> Result<(), Touch> {
        let (complete, fences) = (self.complete, self.fences);
        let register = &mut self.registers[number];
        let in_flight = register.role.filter(|_| register.user > complete);
        let result = match (in_flight, role) {
            _ if register.used != 0 => Err(Touch::Unfenced(register.used - 1)),
            // Accumulators of one shape follow each other without a fence.
            (Some(Role::Accumulator(old)), Role::Accumulator(new)) if old == new || register.fences < fences => Ok(()),
            (Some(Role::Fragment), Role::Fragment) | (None, _) => Ok(()),
            (Some(Role::Accumulator(_)), Role::Accumulator(_)) => Err(Touch::Unfenced(register.pc)),
            (Some(old), _) => Err(Touch::InFlight(register.pc, old)),
        };
        *register = Register { used: 0, user: self.started + 1, role: Some(role), pc, fences };
        result
    }
}

/// Index within the block of a warp's first thread.
pub(crate) fn first_thread(warp: usize) -> u16 {
    (warp * LANES) as u16
}
