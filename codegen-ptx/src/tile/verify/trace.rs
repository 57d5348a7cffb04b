//! The statements of a role with their positions, and the order in which a thread executes them.

use crate::tile::{Op, Role, Statement};
use crate::violation::Site;

/// A statement that a thread executes.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The statement, which is not a loop.
    pub op: &'a Op,
    /// The K-tile of the loop around it; before the loop there is none.
    pub kt: Option<u32>,
    /// The tile of D, counted from the thread's first one.
    pub tile: u32,
}

/// The statements that a thread of a role executes in some tiles of D with this many K-tiles each. `chunk` is the
/// number of K-tiles of a chunk, if there are chunks.
pub fn statements(role: &Role, tiles: u32, k_tiles: u32, chunk: Option<u32>) -> Vec<Step<'_>> {
    let nodes = nodes(0, &role.body);
    let events = events(role, &nodes, Tiles { count: tiles, first: Part::Last }, k_tiles, chunk);
    let mut begun = 0u32;
    let done = events.into_iter().filter_map(|event| match event {
        Event::Do { node, kt } => Some(Step { op: nodes[node].op, kt, tile: begun.saturating_sub(1) }),
        Event::Begin => {
            begun += 1;
            None
        }
        Event::End | Event::Reduced | Event::Skipped => None,
    });
    done.collect()
}

/// A statement and its position in the program.
pub(super) struct Node<'a> {
    pub op: &'a Op,
    pub path: Vec<usize>,
}

impl Node<'_> {
    pub(super) fn site(&self) -> Site {
        Site::Statement(self.path.clone())
    }
}

/// Every statement of a role, outer ones first.
pub(super) fn nodes(role: usize, body: &[Statement]) -> Vec<Node<'_>> {
    let mut nodes = Vec::new();
    collect(body, &mut vec![role], &mut nodes);
    nodes
}

fn collect<'a>(body: &'a [Statement], path: &mut Vec<usize>, nodes: &mut Vec<Node<'a>>) {
    for (index, statement) in body.iter().enumerate() {
        path.push(index);
        nodes.push(Node { op: &statement.op, path: path.clone() });
        collect(statement.op.body(), path, nodes);
        path.pop();
    }
}

/// One step of a thread.
#[derive(Clone, Copy)]
pub(super) enum Event {
    /// The start of a tile of D.
    Begin,
    /// The end of a tile of D.
    End,
    /// The end of the part that only the last contributor to a tile executes.
    Reduced,
    /// That part, executed by another block.
    Skipped,
    /// A statement, by its node, with the K-tile of the enclosing loop; `None` before the loop.
    Do { node: usize, kt: Option<u32> },
}

/// The block's part of a tile's sum, if K is divided among blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The last part. Its block completes the tile.
    Last,
    /// Another one.
    Other,
}

/// The tiles of D that a block computes.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub count: u32,
    /// Its part of the first one; it completes all others.
    pub first: Part,
}

/// What a thread executes over some tiles of D with `k_tiles` K-tiles each.
pub(super) fn events(role: &Role, nodes: &[Node<'_>], tiles: Tiles, k_tiles: u32, chunk: Option<u32>) -> Vec<Event> {
    // Most statements are in the loop over the K-tiles.
    let events = Vec::with_capacity(nodes.len() * (tiles.count * (k_tiles + 1)) as usize);
    let passes = nodes.iter().map(|node| matches!(node.op, Op::Pass { .. })).collect();
    let mut unroller = Unroller { passes, tiles, k_tiles, chunk, tile: 0, part: tiles.first, next: 0, events };
    unroller.body(&role.body, None);
    assert_eq!(unroller.next, nodes.len());
    unroller.events
}

struct Unroller {
    /// By node: whether it passes on an ordered barrier.
    passes: Vec<bool>,
    tiles: Tiles,
    k_tiles: u32,
    /// K-tiles of a chunk.
    chunk: Option<u32>,
    /// The tile of D, counted from the thread's first one.
    tile: u32,
    /// The part of the tile's sum.
    part: Part,
    /// Index of the next node, in the order of [`nodes`].
    next: usize,
    events: Vec<Event>,
}

impl Unroller {
    fn body(&mut self, body: &[Statement], kt: Option<u32>) {
        for statement in body {
            let node = self.next;
            self.next += 1;
            match &statement.op {
                Op::Tiles { body } => self.repeat(body, self.tiles.count, |unroller, body, tile| {
                    unroller.tile = tile;
                    unroller.part = if tile == 0 { unroller.tiles.first } else { Part::Last };
                    unroller.events.push(Event::Begin);
                    unroller.body(body, None);
                    unroller.events.push(Event::End);
                }),
                Op::AfterFirst { body } => {
                    self.repeat(body, u32::from(self.tile > 0), |unroller, body, _| unroller.body(body, kt));
                }
                Op::IfAnyK { body } => {
                    let first = self.events.len();
                    self.body(body, None);
                    if self.k_tiles == 0 {
                        // Ordered barriers are passed on even without K-tiles.
                        let rest = self.events.split_off(first);
                        let passes = |event: &Event| matches!(event, Event::Do { node, .. } if self.passes[*node]);
                        self.events.extend(rest.into_iter().filter(passes));
                    }
                }
                Op::Loop { body } => {
                    self.repeat(body, self.k_tiles, |unroller, body, kt| unroller.body(body, Some(kt)));
                }
                Op::IfChunkEnds { body } => {
                    let ends = kt
                        .zip(self.chunk)
                        .is_some_and(|(kt, chunk)| (kt + 1).is_multiple_of(chunk.max(1)) || kt + 1 == self.k_tiles);
                    self.repeat(body, u32::from(ends), |unroller, body, _| unroller.body(body, kt));
                }
                Op::Reduce { body, .. } => {
                    self.events.push(Event::Do { node, kt });
                    let last = self.part == Part::Last;
                    self.repeat(body, u32::from(last), |unroller, body, _| unroller.body(body, kt));
                    self.events.push(if last { Event::Reduced } else { Event::Skipped });
                }
                _ => self.events.push(Event::Do { node, kt }),
            }
        }
    }

    /// Runs a body `times` times. Its nodes are counted once, even if it never runs.
    fn repeat(&mut self, body: &[Statement], times: u32, run: impl Fn(&mut Self, &[Statement], u32)) {
        let first = self.next;
        let kept = self.events.len();
        run(self, body, 0);
        let after = self.next;
        if times == 0 {
            self.events.truncate(kept);
        }
        for time in 1..times {
            self.next = first;
            run(self, body, time);
        }
        self.next = after;
    }
}
