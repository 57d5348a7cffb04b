//! The tiles of D in the order in which blocks take them, and those that one wave holds.

use std::collections::BTreeSet;

use ptx_gemm_choose::Gpu;
use ptx_gemm_dsl::Target;
use ptx_gemm_dsl::terms::Wave;
use ptx_gemm_runtime::tile::Division;

use crate::canvas::{Anchor, Canvas, Size};
use crate::error::DrawError;
use crate::frame::Panel;
use crate::order;
use crate::palette::{self, FAINT, INK, MUTED, ON_LIGHT};
use crate::subject::{Subject, block, is_transposed};

/// Tiles of the grid that is shown, along each side.
const TILES: u32 = 24;
const CELL: f64 = 22.0;
/// Runs of neighbours along which a line is drawn.
const RUNS: usize = 3;

pub(crate) fn panel(subject: &Subject, canvas: &mut Canvas, top: f64) -> Result<f64, DrawError> {
    let program = subject.program()?;
    let mut order = order::tiles(program, TILES, TILES)?.to_vec();
    if is_transposed(program) {
        order.iter_mut().for_each(|(row, col)| std::mem::swap(row, col));
    }
    let gpu = subject.gpu;
    let resident = program.blocks_per_sm.max(1) * gpu.processors;
    let wave = match program.scheduler.persistent {
        Some(Wave::Blocks(blocks)) => blocks,
        Some(Wave::Device) | None => resident,
    };
    let parts = program.scheduler.parts();
    let streamed = streamed(program.scheduler.division, order.len(), wave as usize);
    // Parts of k vary slowest: the first parts of all tiles come first.
    let tiles_in_wave = (wave as usize).min(order.len());
    let (x0, y0) = (Panel::LEFT + 42.0, top + 24.0);
    let at = |(row, col): (u32, u32)| (x0 + CELL * f64::from(col), y0 + CELL * f64::from(row));
    for (number, &tile) in order.iter().enumerate() {
        let (x, y) = at(tile);
        let wave =
            number.checked_sub(streamed).map_or(0, |number| number / tiles_in_wave.max(1) + usize::from(streamed > 0));
        let at = [x + 0.5, y + 0.5, CELL - 1.0, CELL - 1.0];
        canvas.rects(&[at], palette::category(wave));
        canvas.within(at, Size::Tiny, ON_LIGHT, number.to_string());
    }
    // The first runs of neighbours, each from its dot on, along the edge of the cells.
    let next_to = |one: &(u32, u32), other: &(u32, u32)| one.0.abs_diff(other.0) + one.1.abs_diff(other.1) == 1;
    for run in order[..tiles_in_wave].chunk_by(next_to).take(RUNS) {
        let points: Vec<(f64, f64)> = run.iter().map(|&tile| at(tile)).map(|(x, y)| (x + 3.4, y + 4.0)).collect();
        canvas.polyline(&points, ON_LIGHT, 1.4);
        points.first().into_iter().for_each(|&(x, y)| canvas.dot(x, y, 2.4, ON_LIGHT));
    }
    for index in (0..TILES).step_by(4) {
        let (x, y) = at((index, index));
        canvas.text(x + CELL / 2.0, y0 - 5.0, Anchor::Middle, Size::Tiny, MUTED, index.to_string());
        canvas.text(x0 - 6.0, y + CELL / 2.0 + 4.0, Anchor::End, Size::Tiny, MUTED, index.to_string());
    }
    let middle = CELL * f64::from(TILES) / 2.0;
    canvas.text(x0 + middle, y0 - 20.0, Anchor::Middle, Size::Label, MUTED, "column of tiles, along n");
    canvas.upwards(x0 - 28.0, y0 + middle, Anchor::Middle, Size::Label, MUTED, "row of tiles, along m");
    canvas.frame(x0, y0, CELL * f64::from(TILES), CELL * f64::from(TILES), FAINT, 1.0);
    let right = x0 + CELL * f64::from(TILES) + 36.0;
    let width = Panel::LEFT + Panel::WIDTH - right;
    let mut y = y0 + 12.0;
    for line in words(subject, &order[..tiles_in_wave], wave, (parts, streamed))? {
        y = canvas.paragraph(right, y, width, INK, &line) + 12.0;
    }
    let whole = order.len() - streamed;
    y = legend(canvas, right, y, (streamed, whole.div_ceil(tiles_in_wave.max(1))), wave);
    Ok(y.max(y0 + CELL * f64::from(TILES) + 12.0))
}

/// Tiles with K-tiles divided among the blocks of a wave: the remainder after whole waves, and one whole wave.
fn streamed(division: Division, tiles: usize, wave: usize) -> usize {
    match (division, tiles % wave.max(1)) {
        (Division::Whole | Division::Parts(_) | Division::Cluster(_), _) | (Division::Stream, 0) => 0,
        (Division::Stream, rest) if tiles < wave => rest,
        (Division::Stream, rest) => rest + wave,
    }
}

fn words(
    subject: &Subject,
    first: &[(u32, u32)],
    wave: u32,
    (parts, streamed): (u32, usize),
) -> Result<Vec<String>, DrawError> {
    let program = subject.program()?;
    let (block, gpu) = (block(program), subject.gpu);
    let per = program.blocks_per_sm.max(1);
    let rows: BTreeSet<u32> = first.iter().map(|(row, _)| *row).collect();
    let cols: BTreeSet<u32> = first.iter().map(|(_, col)| *col).collect();
    let mut lines = vec![
        format!(
            "A product with {TILES} × {TILES} tiles of D ({} × {}). Numbers: in which order blocks take the tiles, as compiled; the \
             lines are the first of them, from each dot on.",
            TILES * block.m,
            TILES * block.n
        ),
        match program.scheduler.persistent {
            Some(Wave::Blocks(blocks)) => {
                format!("Persistent: {blocks} blocks walk all tiles, each taking every {blocks}th one.")
            }
            Some(Wave::Device) => format!(
                "Persistent: {wave} blocks ({per} on each of the {} multiprocessors of an {}) walk all tiles, each taking every \
                 {wave}th one.",
                gpu.processors, gpu.title
            ),
            None => format!(
                "A wave: {wave} blocks run at once, {} on each of the {} multiprocessors of an {}, as many as the program is \
                 compiled for.",
                at_least(per, program.target, gpu),
                gpu.processors,
                gpu.title
            ),
        },
        format!(
            "The first wave's {} tiles lie in {} rows and {} columns of tiles, and so share {} tiles of A and of B for each K-tile; \
             the fewer, the more comes from the L2 cache.",
            first.len(),
            rows.len(),
            cols.len(),
            rows.len() + cols.len()
        ),
    ];
    if wave as usize > first.len() && parts == 1 && streamed == 0 {
        lines.push(format!("The product has fewer tiles than that: {} blocks have none.", wave as usize - first.len()));
    }
    if streamed > 0 {
        lines.push(format!(
            "Stream-K: the K-tiles of tiles 0 to {} are cut into {wave} runs of the same length, one for each block: {:.2} tiles \
             each. The block that sums a tile's last K-tile adds the sums of the blocks before it. The other tiles are computed \
             whole.",
            streamed - 1,
            streamed as f64 / f64::from(wave)
        ));
    }
    if parts > 1 {
        let order = match program.scheduler.division {
            Division::Cluster(_) => "those of a tile are a cluster, and follow each other",
            _ => "first all tiles' first parts, in this order, then all second parts, and so on",
        };
        lines.push(format!(
            "Split-K: {parts} blocks sum each tile, each over its part of k. The grid has {} blocks: {order}.",
            parts * TILES * TILES
        ));
    }
    Ok(lines)
}

/// The number of blocks, which a program for an older GPU leaves to the driver: more blocks may fit on this GPU.
fn at_least(blocks: u32, target: Target, gpu: &Gpu) -> String {
    match Target::newest(gpu.capability) == Some(target) {
        true => blocks.to_string(),
        false => format!("at least {blocks}"),
    }
}

fn legend(canvas: &mut Canvas, x: f64, y: f64, (streamed, waves): (usize, usize), wave: u32) -> f64 {
    let mut y = y;
    let first = usize::from(streamed > 0);
    let shown = (first + waves).min(7);
    for index in 0..shown {
        canvas.rect(x, y - 12.0, 18.0, 15.0, palette::category(index));
        let text = match (index + 1).checked_sub(first) {
            None | Some(0) => format!("streamed ({streamed} tiles)"),
            Some(1) => format!("wave 1 ({wave} blocks)"),
            Some(number) => format!("wave {number}"),
        };
        canvas.text(x + 26.0, y, Anchor::Start, Size::Label, MUTED, text);
        y += 22.0;
    }
    if first + waves > shown {
        canvas.text(x, y, Anchor::Start, Size::Label, MUTED, format!("and so on: {waves} waves"));
        y += 22.0;
    }
    y
}
