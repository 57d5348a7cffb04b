//! The products at each edge size: exact data alternating with other data, in every arrangement that can make a
//! difference.

use ptx_gemm_dsl::Layout;
use ptx_gemm_dsl::terms::{Operand, Tail};
use ptx_gemm_dsl::types::{Batch, Problem};
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::ptx::instruction::Opcode;
use ptx_gemm_runtime::ptx::module::Statement;
use ptx_gemm_runtime::tile::Pack;

use crate::request::{Leading, Output, Request};
use crate::size::Size;

/// Products of a batch: more than one, so that the distance between them matters.
pub(crate) const BATCH: usize = 2;

/// Two products of one size. Their data, leading dimensions, scalars and placement of C vary with `turn`.
///
/// - Exact data find every product that is dropped, doubled or misplaced: packed, and with rows aligned so that entries
///   with wide accesses run at ragged extents; with the default scalars, and with others.
/// - Random data have the full width of their type, and find computations in a narrower one.
/// - One of the two is aligned, and one is not, unless its extents happen to be.
/// - Where a kernel has an entry for aligned inputs and any D, that one runs as well.
/// - Special data begin with NaN and infinities, or contain infinities, which must not be multiplied by a zero at an
///   edge; and a scalar of 0 drops matrices that are full of them.
pub fn edge_requests(kernel: &Kernel, size: Size, turn: usize) -> [Request; 2] {
    let problem = kernel.problem();
    let Size { m, n, k } = size;
    let exact = Request::exact(m, n, k);
    let exact = if turn.is_multiple_of(3) { exact } else { exact.aligned() };
    let exact = if turn % 3 == 2 && has_narrow_output(kernel) { exact.odd_output(problem) } else { exact };
    let exact = if turn % 2 == 1 { with_scalars(problem, exact, &WHOLE, turn / 2) } else { exact };
    let (scalars, dropping): (&[f64], &[f64]) =
        if problem.types.epilogue().is_integer() { (&[-1.0, 3.0], &INTEGERS) } else { (&[0.7, -1.5], &FRACTIONS) };
    let (random, special, infinite) = (Request::random(m, n, k), Request::special(m, n, k), Request::infinite(m, n, k));
    let other = match turn % 6 {
        0 => with_scalars(problem, random.aligned(), scalars, turn / 2),
        1 if turn % 12 == 1 => infinite.padded(problem, 3),
        1 => special.padded(problem, 3),
        2 => with_scalars(problem, random.padded(problem, 4), scalars, turn / 2),
        3 if turn % 12 == 3 => infinite.aligned(),
        3 => special.aligned(),
        4 => with_scalars(problem, random.padded(problem, turn % 5), scalars, turn / 2),
        _ => with_scalars(problem, special, dropping, turn / 6 + 1),
    };
    let output = if turn % 4 == 1 { Output::in_place_if_possible(problem) } else { Output::Apart };
    let seed = turn as u64;
    let both = [
        Request { seed, gap: turn % 3, ..with_products(kernel, exact, turn) },
        Request { seed, gap: turn % 5, output, ..with_products(kernel, other, turn + 1) },
    ];
    if turn % 2 == 1 { both.map(|request| whole_rows(kernel, request)) } else { both }
}

/// The elements that rows of D must be a multiple of for TMA to store them, if an entry uses TMA stores.
fn unit_of_rows(kernel: &Kernel) -> Option<usize> {
    let requires = kernel.interface().entries.iter().flat_map(|entry| &entry.requires);
    requires.filter(|requires| requires.rows).map(|requires| requires.elements as usize).max()
}

/// The same with rows of D that TMA can store, if an entry uses TMA stores.
fn whole_rows(kernel: &Kernel, request: Request) -> Request {
    let Some(unit) = unit_of_rows(kernel) else { return request };
    let row_major = kernel.problem().layouts.d == Layout::Row;
    let whole =
        |m: usize, n: usize| if row_major { (m, n.next_multiple_of(unit)) } else { (m.next_multiple_of(unit), n) };
    let others = request.others.iter().map(|size| {
        let (m, n) = whole(size.m, size.n);
        Size { m, n, ..*size }
    });
    let others = others.collect();
    let (m, n) = whole(request.m, request.n);
    Request { m, n, others, ..request }
}

/// The same with a batch or a group, if the problem has one.
fn with_products(kernel: &Kernel, request: Request, turn: usize) -> Request {
    let size = request.size(0);
    match kernel.problem().batch {
        Batch::One => request,
        Batch::Strided => request.batch(BATCH),
        Batch::Grouped => request.with_others(others(kernel, size, turn)),
    }
}

/// The other products of a group: none; products without rows, columns or depth; products of other extents; many small
/// ones. Kernels without guards get whole tiles.
pub(crate) fn others(kernel: &Kernel, Size { m, n, k }: Size, turn: usize) -> Vec<Size> {
    let whole = kernel.interface().entries.iter().any(|entry| entry.tail == Tail::None);
    let sizes = match (whole, turn % 4) {
        (_, 2) => Vec::new(),
        (true, 0) => vec![(0, n, k), (m, n, k)],
        (true, _) => vec![(m, n, 0), (m, 0, k), (m, n, k)],
        // Three in all: blocks that read four entries of the list at once find its end among them.
        (false, 0) => vec![(n, m, k), (0, n, k)],
        (false, 1) => vec![(m, 0, k), (m / 2 + 1, n + 1, 0), (3, 2, k)],
        (false, _) => (0..8).map(|i| (i % 3, i * 2 % 5, i % 4)).collect(),
    };
    sizes.into_iter().map(Size::from).collect()
}

/// Whether some entry requires alignment of the inputs alone, and another one of D as well.
fn has_narrow_output(kernel: &Kernel) -> bool {
    let entries = &kernel.interface().entries;
    let of_d = |entry: &Entry| entry.requires.iter().any(|requires| requires.operand == Operand::D);
    entries.iter().any(of_d) && entries.iter().any(|entry| !entry.requires.is_empty() && !of_d(entry))
}

/// Products at a size at which something ends in the middle: with aligned rows and without, and with only those of D
/// unaligned if that runs another entry; with data that find dropped, doubled or misplaced products and scalars that
/// let every matrix of the epilogue count, and with data that find products with the zeros of an edge.
pub(crate) fn end_requests(kernel: &Kernel, Size { m, n, k }: Size, turn: usize) -> Vec<Request> {
    let problem = kernel.problem();
    let exact = with_scalars(problem, Request::exact(m, n, k), &WHOLE, turn);
    let infinite = Request::infinite(m, n, k);
    // All of them at every size: `turn` decides where m and n end.
    let narrow =
        has_narrow_output(kernel).then(|| [&exact, &infinite].map(|r| r.clone().aligned().odd_output(problem)));
    let whole = |request: &Request| whole_rows(kernel, request.clone().aligned());
    let whole = unit_of_rows(kernel).map(|_| [&exact, &infinite].map(whole));
    let all = [
        exact.clone().aligned(),
        infinite.clone().aligned(),
        exact.padded(problem, 1),
        infinite.padded(problem, turn % 3),
    ];
    let all = all.into_iter().chain(narrow.into_iter().flatten()).chain(whole.into_iter().flatten());
    let all = all.map(|request| Request { seed: turn as u64, ..with_products(kernel, request, turn) });
    all.collect()
}

/// Products with data of the full width of their types, and scalars that make each step of the epilogue round: with aligned
/// rows, without, with only those of D unaligned if that runs another entry, and with rows of D that TMA can store.
pub(crate) fn rounding_requests(kernel: &Kernel, Size { m, n, k }: Size) -> Vec<Request> {
    let problem = kernel.problem();
    let random = with_scalars(problem, Request::random(m, n, k), &FRACTIONS[1..3], 0);
    let random = with_products(kernel, random, 0);
    let narrow = has_narrow_output(kernel).then(|| random.clone().aligned().odd_output(problem));
    let padded = random.clone().padded(problem, 1);
    let whole = unit_of_rows(kernel).map(|_| whole_rows(kernel, random.clone().aligned()));
    [random.aligned(), padded].into_iter().chain(narrow).chain(whole).collect()
}

/// For kernels that split operands into planes, products with -infinity, which has special planes, in each element of each
/// vector of a thread, and with elements that vanish in their planes, with aligned rows and without.
pub(crate) fn plane_requests(kernel: &Kernel) -> Vec<Request> {
    if kernel.levels().is_some() || kernel.interface().entries.iter().all(|entry| entry.emulated.is_none()) {
        return Vec::new();
    }
    let problem = kernel.problem();
    // A whole tile of a split kernel: each vector of each thread.
    let of = [Request::negative(64, 64, 64), Request::vanishing(64, 64, 64)];
    let of = of.map(|request| with_scalars(problem, request, &WHOLE, 0));
    of.into_iter().flat_map(|request| [request.clone().aligned(), request.padded(problem, 1)]).collect()
}

/// For kernels that scale rows of A and columns of B, products with the largest element of a row or column at every
/// position where a kernel looks for it, with aligned rows and without; and products with an end of k at each of these
/// positions.
pub(crate) fn peak_requests(kernel: &Kernel) -> Vec<Request> {
    let planes = kernel.programs().entries.iter().flat_map(|program| &program.packs);
    if kernel.levels().is_some() || !planes.into_iter().any(Pack::scales) {
        return Vec::new();
    }
    let problem = kernel.problem();
    let peaks = with_scalars(problem, Request::peaks(128, 128, 1012), &WHOLE, 0);
    // A few rows and columns, which end within each of the elements that a thread reads one after another: one has its peak
    // there, and what follows the last one is out of bounds.
    let ends = (0..32).map(|run| with_scalars(problem, Request::peaks(4, 4, 32 * run + 5), &WHOLE, 0));
    [peaks.clone().aligned(), peaks.padded(problem, 1)].into_iter().chain(ends).collect()
}

/// Products with a single packed operand, where operands are packed for their alignment: nothing else writes what follows
/// its copy in the workspace.
pub(crate) fn packed_alone_requests(kernel: &Kernel) -> Vec<Request> {
    let entries = &kernel.interface().entries;
    let Some(entry) = entries.iter().find(|entry| entry.packings.iter().any(|packing| !packing.always)) else {
        return Vec::new();
    };
    let (problem, tile) = (kernel.problem(), entry.tile);
    let [m, n, k] = [tile.m, tile.n, tile.k].map(|extent| extent as usize + 1);
    let exact = with_scalars(problem, Request::exact(m, n, k), &WHOLE, 0);
    let exact = with_products(kernel, exact, 0).aligned();
    let odd = |operand| Some(exact.shape(problem, operand).ld | 1);
    let leading =
        [Leading { a: odd(Operand::A), ..Leading::default() }, Leading { b: odd(Operand::B), ..Leading::default() }];
    leading.map(|leading| Request { leading, ..exact.clone() }).into()
}

/// Exact products at a size, with aligned rows and without, and with rows of D that TMA can store if an entry uses TMA stores.
pub(crate) fn exact_requests(kernel: &Kernel, Size { m, n, k }: Size) -> Vec<Request> {
    let problem = kernel.problem();
    let exact = with_products(kernel, with_scalars(problem, Request::exact(m, n, k), &WHOLE, 0), 0);
    let whole = unit_of_rows(kernel).map(|_| whole_rows(kernel, exact.clone().aligned()));
    [exact.clone().aligned(), exact.padded(problem, 1)].into_iter().chain(whole).collect()
}

/// Products with some NaN elements, where D has a narrower type than the accumulators, with aligned rows and without:
/// separate instructions may convert NaN, to the NaN of PTX.
pub(crate) fn nan_requests(kernel: &Kernel, Size { m, n, k }: Size) -> Vec<Request> {
    let (problem, types) = (kernel.problem(), kernel.problem().types);
    if types.d.bytes() >= types.acc.bytes() || types.a.is_integer() || (m, n) == (1, 1) {
        return Vec::new();
    }
    let nans = with_products(kernel, with_scalars(problem, Request::nans(m, n, k), &FRACTIONS[1..3], 0), 0);
    let padded = nans.clone().padded(problem, 1);
    vec![nans.aligned(), padded]
}

/// Elements of 16 bits that one copy of 16 bytes moves.
const PLANE_VECTOR: usize = 8;

/// The same as [`edge_requests`] for tools that only know the width of an asynchronous copy: compute-sanitizer reports a
/// `cp.async` that leaves out some bytes at the end of a row as a read beyond it. Kernels with such copies get rows that are
/// multiples of their width, and extents as well in the other products of a group, and if they copy planes of the operands, which
/// have rows as long as the extents.
pub fn quick_requests(kernel: &Kernel, size: Size, turn: usize) -> [Request; 2] {
    let copies = executes(kernel, |op| matches!(op, Opcode::CpAsync { .. }));
    let planes = kernel.interface().entries.iter().any(|entry| entry.emulated.is_some());
    let whole = |extent: usize| extent.next_multiple_of(PLANE_VECTOR);
    let size = if copies && planes { Size::new(whole(size.m), whole(size.n), whole(size.k)) } else { size };
    let [exact, other] = edge_requests(kernel, size, turn);
    // Only the first size has rows of inputs that are aligned by themselves.
    let narrow = turn == 0 && has_narrow_output(kernel);
    let exact = if narrow { exact.odd_output(kernel.problem()) } else { exact };
    let requests = [exact, other];
    // The other products of a group have the leading dimensions of the first, which may be aligned where their rows end.
    let others = |of: &[Size]| of.iter().map(|size| Size::new(whole(size.m), whole(size.n), whole(size.k))).collect();
    let of_copies = |request: Request| Request { multiple: 1, others: others(&request.others), ..request };
    if copies { requests.map(of_copies) } else { requests }
}

/// Whether a kernel of a plan of launches may read what another one has stored by TMA.
pub fn rereads_tma(kernel: &Kernel) -> bool {
    let launched = kernel.launched();
    let stores = |kernel: &&Kernel| executes(kernel, |op| matches!(op, Opcode::TensorStore { .. }));
    launched.len() > 1 && launched.iter().any(stores)
}

fn executes(kernel: &Kernel, is: impl Fn(&Opcode) -> bool) -> bool {
    let mut statements = kernel.module().entries.iter().flat_map(|entry| &entry.body);
    statements.any(|statement| matches!(statement, Statement::Instruction(instruction) if is(&instruction.op)))
}

/// Scalars other than the defaults: small integers for exact data, and zeros, negative ones, and fractions where the type has
/// them.
const WHOLE: [f64; 2] = [3.0, -2.0];
const INTEGERS: [f64; 4] = [0.0, -1.0, 3.0, 2.0];
const FRACTIONS: [f64; 4] = [0.0, -1.5, 0.7, 2.0];

fn with_scalars(problem: &Problem, request: Request, values: &[f64], turn: usize) -> Request {
    let names = problem.epilogue.scalars.iter().enumerate();
    names.fold(request, |request, (index, name)| request.set(name, values[(turn + index) % values.len()]))
}

#[cfg(test)]
mod tests {
    use ptx_gemm_runtime::Kernel;

    use super::rereads_tma;
    use crate::cases;

    /// Only a plan with kernels that read each other's D, stored by TMA.
    #[test]
    fn plans_that_reread_tma() {
        let all = cases();
        let reread = all.filter(|case| rereads_tma(&Kernel::compile(&case.schedule().unwrap(), None).unwrap()));
        let names: Vec<&str> = reread.map(|case| case.name).collect();
        assert_eq!(names, ["nn_128x256_tma_strassen"]);
    }
}
