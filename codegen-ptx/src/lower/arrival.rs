//! The copy of C's tile to the stage of D, and its use by the threads that compute D.
//!
//! ```text
//! before the mainloop:  one thread waits until the last tile of D has been read, and starts the copies of C
//! after the mainloop:   each thread waits until C has arrived, reads its elements, and writes those of D to their
//! places
//! ```
//!
//! If a scalar of 0 makes the epilogue ignore C, C is not copied or read, and no thread waits for it.

use ptx_gemm_dsl::terms::{Operand, Param};

use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::{self, Address, Expr, Guard, Reg};
use crate::tile::{self, Note, Op, Statement, Turn};

impl Lowering<'_> {
    /// Initialises the mbarriers of C: one thread arrives at each, with the number of bytes to expect.
    pub(super) fn init_arrival(&mut self) {
        let program = self.program;
        let Some(arrival) = &program.arrival else { return };
        self.b.origin(&arrival.note, "C arrives when all of its bytes have");
        let base = self.b.set_reg(Expr::SharedBase + arrival.offset_bytes);
        for group in 0..program.groups() {
            let address = Address { base, offset: Turn::distance(group).into() };
            self.b.push(kernel::Op::InitBarrier { address, arrivals: 1 });
        }
    }

    /// Declares the parity that a role waits for, which is kept from tile to tile.
    pub(super) fn carry_c(&mut self, body: &[Statement]) {
        let mut waits = false;
        tile::walk(body, &mut |statement| waits |= matches!(statement.op, Op::AwaitC));
        let Some(arrival) = self.program.arrival.as_ref().filter(|_| waits) else { return };
        self.b.origin(&arrival.note, "parity of the first tile of C");
        self.position.parity_of_c = Some(self.b.variable(Expr::Const(0), 1));
    }

    /// Starts the copies of C's tile to the stage.
    pub(super) fn prefetch_c(&mut self, work_tile: &WorkTile, rows: u32, note: &Note) -> Lowered<()> {
        let reads = self.reads_c(note);
        self.b.origin(note, "tensor map of C");
        let map = self.wide_arg(&Param::Map(Operand::C))?;
        let map = self.b.set_reg(map);
        self.b.origin(note, "one thread starts the copies");
        let leader = self.role.tid.clone().lt(1u32);
        let leader = match reads {
            None => leader,
            Some(reads) => leader.and(Expr::Reg(reads, 1)),
        };
        let guard = Some(Guard { pred: self.b.set_reg(leader), expect: true });
        let barrier = self.barrier_of_c()?;
        self.b.origin(note, "copy the tile of C to where D's will be");
        let copy = |to, at| kernel::Op::CopyBox { to, map, at, barrier, blocks: None, guard };
        self.each_box_of_stage(work_tile, rows, copy)?;
        self.b.origin(note, "C has arrived when its bytes have");
        let (lines, bytes) = (self.program.lines(), self.bytes(Operand::C));
        let line = lines.elements * bytes;
        let when = match work_tile.width.clone() {
            None => kernel::Arrival::Expecting(lines.count * line),
            Some(columns) => kernel::Arrival::ExpectingIn(self.b.set_reg(columns * line)),
        };
        self.b.push(kernel::Op::Arrive { address: barrier, when, guard });
        Ok(())
    }

    /// Waits until C is in the stage.
    pub(super) fn await_c(&mut self, note: &Note) -> Lowered<()> {
        let parity =
            self.position.parity_of_c.clone().ok_or_else(|| broken("C is awaited by a role that does not carry it"))?;
        let reads = self.reads_c(note);
        self.b.origin(note, "wait until C has arrived");
        let address = self.barrier_of_c()?;
        self.b.open();
        self.wait_phase(address, &parity);
        self.b.assign(&parity, Expr::Const(1) - parity.clone());
        let body = self.b.close();
        match reads {
            None => self.b.extend(body),
            Some(reads) => self.b.branch(reads, body, Vec::new()),
        }
        Ok(())
    }

    /// Zeroes the registers for words of C and guards their loads, if C is read only under a predicate.
    pub(super) fn guarded(&mut self, words: &[Reg], reads: Option<Reg>) -> Option<Guard> {
        let pred = reads?;
        self.b.push(kernel::Op::Clear { dst: words.to_vec() });
        Some(Guard { pred, expect: true })
    }

    fn barrier_of_c(&mut self) -> Lowered<Address> {
        let arrival = self.program.arrival.as_ref().ok_or_else(|| broken("the program has no arrival of c"))?;
        let base = Expr::SharedBase + arrival.offset_bytes;
        let base = match &self.role.groups {
            None => base,
            Some(groups) => base + groups.own.clone(),
        };
        Ok(Address { base: self.b.set_reg(base), offset: 0 })
    }
}
