//! From a product to its launches: one, or those of a plan of `strassen`.

use ptx_gemm_dsl::sums::Part;

use crate::arguments::Arguments;
use crate::backend::Step;
use crate::checks::{self, Extents};
use crate::compiled::CompiledGemm;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::launch::{Checked, Launch};
use crate::strassen::plan::{self, Piece};
use crate::strassen::{Placed, granule, workspace_bytes};
use crate::work::{How, Work};

impl CompiledGemm {
    /// The launches of a product; `None` if there is nothing to compute.
    pub(crate) fn work(&self, extents: Extents, arguments: &Arguments) -> Result<Option<Work>, Error> {
        let Some(levels) = self.kernel().levels() else {
            return Ok(self.launch_of(extents, arguments)?.map(|launch| self.one(launch, extents)));
        };
        if extents.m == 0 || extents.n == 0 || extents.batch == 0 {
            return Ok(None);
        }
        checks::overlap(self.problem(), arguments)?;
        let placed = Placed::new(self.interface(), levels, extents);
        let (bytes, how) = (self.largest_workspace(extents), How::Strassen(Box::new((placed, arguments.clone()))));
        Ok(Some(Work { how, extents, bytes, flag_bytes: 0 }))
    }

    /// A single launch.
    pub(crate) fn one(&self, checked: Checked, extents: Extents) -> Work {
        let launch = &checked.launch;
        let entry = &self.interface().entries[launch.entry];
        let (bytes, flag_bytes) = (launch.workspace_bytes(entry, extents), launch.flag_bytes(entry, extents));
        Work { how: How::One(Box::new(checked)), extents, bytes, flag_bytes }
    }

    /// The launches on a workspace at this address.
    pub(crate) fn steps(&self, work: Work, workspace: u64) -> Result<Vec<Step>, Error> {
        let Work { how, extents, .. } = work;
        match how {
            How::One(checked) => Ok(vec![self.step(self.placed(extents, workspace, *checked)?)]),
            How::Strassen(plan) => {
                let (placed, arguments) = *plan;
                let own = workspace + placed.bytes();
                let step = |step: &plan::Step| {
                    let gemm = self.piece(step.piece);
                    let extents = placed.extents(step, extents.batch);
                    let arguments = placed.arguments(step, gemm.problem(), &arguments, workspace);
                    let Some(checked) = gemm.launch_of(extents, &arguments)? else { return Ok(None) };
                    let mut launch = gemm.placed(extents, own, checked)?;
                    let flags = launch.flag_bytes(&gemm.interface().entries[launch.entry], extents);
                    // The launch before this one may have left any values there.
                    launch.zero = (flags > 0).then_some((own, flags));
                    Ok(Some(gemm.step(launch)))
                };
                placed.plan.steps.iter().filter_map(|one| step(one).transpose()).collect()
            }
        }
    }

    pub(crate) fn step(&self, launch: Launch) -> Step {
        Step { kernel: self.shared_kernel().clone(), module: self.module().clone(), launch }
    }

    /// The kernel of a step of a plan: the schedule's own, or one that is made for the plan.
    fn piece(&self, piece: Piece) -> &CompiledGemm {
        let own = piece == Piece::Product(Part::Whole);
        self.pieces().iter().find(|(of, _)| !own && *of == piece).map_or(self, |(_, gemm)| gemm)
    }

    /// The largest workspace of a product, over all choices of entries.
    pub(crate) fn largest_workspace(&self, extents: Extents) -> u64 {
        let of = |gemm: &CompiledGemm, extents: Extents| {
            gemm.interface().workspace_bytes(extents.into(), |entry| gemm.resident(entry))
        };
        match self.kernel().levels() {
            None => of(self, extents),
            Some(levels) => {
                workspace_bytes(self.interface(), levels, extents, |piece, extents| of(self.piece(piece), extents))
            }
        }
    }
}

impl Kernel {
    /// The launches of a product with `strassen`.
    pub fn launches(&self, m: usize, n: usize, k: usize) -> Option<plan::Plan> {
        let [m, n, k] = [m, n, k].map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
        let extents = Extents { m, n, k, batch: 1 };
        self.levels().map(|levels| Placed::new(self.interface(), levels, extents).plan)
    }

    /// With `strassen`, the m, n and k of a product's quadrants are multiples of these.
    pub fn granule(&self) -> Option<[usize; 3]> {
        self.levels().map(|_| granule(self.interface()))
    }

    /// Bytes of the workspace of a product on a device that holds this many blocks at once, whichever entry runs.
    pub fn workspace_on(&self, m: usize, n: usize, k: usize, blocks: u32) -> u64 {
        let [m, n, k] = [m, n, k].map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
        self.workspace_bytes(Extents { m, n, k, batch: 1 }, |_| blocks)
    }

    /// The largest workspace of a product on a device that holds `resident` blocks of an entry's last kernel at once.
    pub(crate) fn workspace_bytes(&self, extents: Extents, resident: impl Fn(usize) -> u32) -> u64 {
        let Some(levels) = self.levels() else { return self.interface().workspace_bytes(extents.into(), resident) };
        workspace_bytes(self.interface(), levels, extents, |piece, extents| {
            let own = piece == Piece::Product(Part::Whole);
            let other = self.pieces().iter().find(|(of, _)| !own && *of == piece);
            let interface = other.map_or(self.interface(), |(_, kernel)| kernel.interface());
            interface.workspace_bytes(extents.into(), &resident)
        })
    }
}
