//! A page: a heading, and one panel for each thing that is shown.

use crate::canvas::{Anchor, Canvas, Scheme, Size, wrapped};
use crate::error::DrawError;
use crate::frame::Panel;
use crate::palette::{FAINT, INK, MUTED};
use crate::subject::{Subject, block, is_transposed};
use crate::{fragments, pipeline, raster, roofline, shared, threads};

/// The content of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Which thread, lane and warp holds which elements of the block's tile.
    Threads,
    /// Which lane holds which elements of an instruction of the tensor cores.
    Fragments,
    /// The placement of the staged tiles in the banks of shared memory, and which accesses conflict.
    Shared,
    /// What each role does during the K-tiles, and the contents of each slot.
    Pipeline,
    /// The order of the tiles of D, and those of a wave.
    Raster,
    /// Operations for each byte, and the speed that they allow.
    Roofline,
}

impl What {
    /// All, in the order of a page.
    pub const ALL: [What; 6] =
        [What::Threads, What::Fragments, What::Shared, What::Pipeline, What::Raster, What::Roofline];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            What::Threads => "threads",
            What::Fragments => "fragments",
            What::Shared => "shared",
            What::Pipeline => "pipeline",
            What::Raster => "raster",
            What::Roofline => "roofline",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            What::Threads => "Threads: who holds what of the tile of D",
            What::Fragments => "Fragments: who holds what of one instruction",
            What::Shared => "Shared memory: banks and conflicts",
            What::Pipeline => "Pipeline: K-tiles over time",
            What::Raster => "Raster: the order of the tiles of D",
            What::Roofline => "Roofline: what memory and arithmetic allow",
        }
    }

    fn panel(self, subject: &Subject, canvas: &mut Canvas, top: f64) -> Result<f64, DrawError> {
        match self {
            What::Threads => threads::panel(subject, canvas, top),
            What::Fragments => fragments::panel(subject, canvas, top),
            What::Shared => shared::panel(subject, canvas, top),
            What::Pipeline => pipeline::panel(subject, canvas, top),
            What::Raster => raster::panel(subject, canvas, top),
            What::Roofline => roofline::panel(subject, canvas, top),
        }
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The SVG text.
    pub svg: String,
    /// The panels in it.
    pub shown: Vec<What>,
    /// The panels that were left out for lack of data, with the reasons.
    pub left_out: Vec<(What, String)>,
}

/// Draws the requested panels, one below the other. Panels for which the program has no data are left out and reported.
///
/// # Errors
/// [`DrawError::Nothing`] if no panel is left, and errors of the run that counts the figures.
pub fn draw(subject: &Subject, what: &[What], scheme: Scheme) -> Result<Picture, DrawError> {
    let mut canvas = Canvas::new(Panel::PAGE, scheme);
    let (mut shown, mut left_out) = (Vec::new(), Vec::new());
    let mut y = heading(subject, &mut canvas)?;
    for &one in what {
        let mut panel = Canvas::new(Panel::PAGE, scheme);
        match one.panel(subject, &mut panel, y + 56.0) {
            Ok(bottom) => {
                canvas.line((Panel::LEFT, y), (Panel::LEFT + Panel::WIDTH, y), FAINT, 1.0, None);
                canvas.text(Panel::LEFT, y + 30.0, Anchor::Start, Size::Heading, INK, one.heading());
                canvas.absorb(panel);
                y = bottom + 14.0;
                shown.push(one);
            }
            Err(DrawError::Nothing(why)) => left_out.push((one, why)),
            Err(error) => return Err(error),
        }
    }
    if shown.is_empty() {
        let all: Vec<String> = left_out.into_iter().map(|(_, why)| why).collect();
        return Err(DrawError::Nothing(all.join("; ")));
    }
    for (one, why) in &left_out {
        y += 12.0;
        y = canvas.paragraph(Panel::LEFT, y + 10.0, Panel::WIDTH, MUTED, &format!("Left out: {}: {why}.", one.name()));
    }
    let names: Vec<&str> = shown.iter().map(|one| one.heading()).collect();
    let svg = canvas.finish(y + 16.0, &format!("{}, as compiled", subject.name), &names.join(". "));
    Ok(Picture { svg, shown, left_out })
}

/// A schedule broken into lines at the ends of clauses where possible.
fn by_clause(clauses: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for clause in clauses.split_inclusive(';').map(str::trim).filter(|clause| !clause.is_empty()) {
        match lines.last_mut() {
            Some(line) if wrapped(&format!("{line} {clause}"), Panel::WIDTH, Size::Body).len() == 1 => {
                line.push(' ');
                line.push_str(clause);
            }
            _ => lines.push(clause.into()),
        }
    }
    lines
}

/// The name, the clauses, and the entry; the next free y.
fn heading(subject: &Subject, canvas: &mut Canvas) -> Result<f64, DrawError> {
    let program = subject.program()?;
    canvas.text(Panel::LEFT, 42.0, Anchor::Start, Size::Title, INK, &subject.name);
    let mut y = 68.0;
    if let Some(clauses) = &subject.clauses {
        for line in by_clause(clauses) {
            y = canvas.paragraph(Panel::LEFT, y, Panel::WIDTH, INK, &line);
        }
    }
    let (block, threads) = (block(program), program.threads());
    let staged = match program.buffers.is_empty() {
        true => "without shared memory".to_string(),
        false => format!("{} of k at a time, with {} bytes of shared memory", block.k, program.shared_bytes()),
    };
    let transposed = match is_transposed(program) {
        true => {
            " It computes the transpose, D^T = B^T A^T: its buffer of A holds tiles of B, and that of B tiles of A."
        }
        false => "",
    };
    let compiled = format!(
        "Entry {} for {}: each block of {threads} threads computes {} × {} elements of D, {staged}.{transposed}",
        program.name, program.target, block.m, block.n
    );
    Ok(canvas.paragraph(Panel::LEFT, y, Panel::WIDTH, MUTED, &compiled) + 4.0)
}
