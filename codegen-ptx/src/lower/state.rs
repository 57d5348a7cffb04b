//! What the parts of lowering keep from one statement to the next.

use ptx_gemm_dsl::terms::Fast;

use super::ring::Carried;
use super::turns::Groups;
use crate::kernel::{Expr, Reg};
use crate::tile::{Map, Program};

/// The role that is lowered.
pub(super) struct RoleState<'a> {
    /// Its threads that compute a tile together, and a thread's index among them.
    pub threads: u32,
    pub tid: Expr,
    /// The map of its accumulators, if it has any.
    pub map: Option<&'a Map>,
    /// Its groups, if they take turns.
    pub groups: Option<Groups>,
    /// The record of the current product, where there is a list of them.
    pub record: Option<Expr>,
    /// Where other blocks copy to the slots that it reads: the ranks of the blocks that this thread signals when a slot
    /// is free.
    pub notified: Vec<Reg>,
}

impl RoleState<'_> {
    /// All threads of the block, before any role.
    pub fn of(program: &Program) -> Self {
        let threads = program.threads();
        RoleState { threads, tid: Expr::Tid(threads), map: None, groups: None, record: None, notified: Vec::new() }
    }
}

/// The role's position in the rings.
#[derive(Default)]
pub(super) struct Position {
    /// For each ring, the position that lasts from tile to tile, if it has mbarriers and either the blocks are persistent or
    /// its slots are lent.
    pub carried: Vec<Option<Carried>>,
    /// The positions of the slots that hold the stage of D, in its order, relative to the first slot of their ring.
    pub borrowed: Vec<Expr>,
    /// 1 once the role has computed a tile of D, if a statement depends on that.
    pub stored: Option<Expr>,
    /// Parity of the phase to wait for next at the mbarrier of C.
    pub parity_of_c: Option<Expr>,
}

/// Accumulators, and the products that are added to them.
pub(super) struct Products {
    /// Accumulators of each set, in the order of its map.
    pub acc: Vec<Vec<Reg>>,
    /// wgmma `scale-d` per set: 0 for a tile's first product, then 1.
    pub started: Vec<Option<Expr>>,
    /// Sets that certainly have products when the current statement runs. Whether the others have any depends on k.
    pub has_products: Vec<bool>,
    /// The set to which the previous statement has started to add products.
    pub multiplying: Option<usize>,
    /// Whether the next statement also multiplies.
    pub more_follow: bool,
    /// Columns of the tile that the current loop multiplies; `None`: all.
    pub columns: Option<u32>,
    /// Descriptors of A and B for the products of the next statement.
    pub described: Option<[(Expr, Fast); 2]>,
    /// Registers of the matrices of A and B, by set.
    pub matrix_pool: [Vec<Vec<Reg>>; 2],
    /// Registers of the fragments of A and B, as read and as converted.
    pub fragment_pool: [[Vec<Reg>; 2]; 2],
}

impl Products {
    /// Sets without products.
    pub fn new(acc: Vec<Vec<Reg>>) -> Self {
        Products {
            started: vec![None; acc.len()],
            has_products: vec![false; acc.len()],
            acc,
            multiplying: None,
            more_follow: false,
            columns: None,
            described: None,
            matrix_pool: Default::default(),
            fragment_pool: Default::default(),
        }
    }
}

/// Registers of an epilogue.
#[derive(Default)]
pub(super) struct Values {
    /// Those for intermediate values, and the number in use.
    pub pool: Vec<Reg>,
    pub used: usize,
    /// Those for elements of C.
    pub of_c: Vec<Reg>,
}
