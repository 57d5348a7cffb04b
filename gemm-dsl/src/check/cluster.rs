//! The rules of `cluster` and `multicast`: which blocks share loads, and when they can.

use crate::check::access::{Input, share_of_boxes};
use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, Fetch, MulticastClause};
use crate::table::Key;
use crate::target::MAX_BOX;
use crate::terms::{Edges, Extent2, Load, Pace, Side, Wave};

/// Checks every rule about clusters of more than one block.
pub(super) fn check(settings: &Settings, inputs: Option<&[Input; 2]>, findings: &mut Findings) {
    let Some(clause) = settings.get(Key::Cluster) else { return };
    let extent = settings.scheduler.cluster;
    let blocks = extent.m.saturating_mul(extent.n);
    if blocks > 1 {
        whole(settings, clause, findings);
        waves(settings, clause, blocks, findings);
    }
    if settings.staged.load == Load::Tma {
        sharers(settings, clause, findings);
        ring(settings, findings);
        inputs.into_iter().flatten().for_each(|input| boxes(settings, input, findings));
    }
}

/// The blocks of a cluster compute neighbouring tiles over all of k. A block may lie outside D; TMA copies nothing for
/// it.
fn whole(settings: &Settings, clause: &Clause, findings: &mut Findings) {
    if settings.staged.load != Load::Tma {
        let message = format!("{clause} needs load(tma), which copies nothing for a block whose tile lies outside D");
        findings
            .error("cluster-load", Key::Cluster, &[Key::Load], message)
            .set("load(tma)", "load(tma) does")
            .remove("cluster", "leave cluster out");
    }
    if settings.output.edges == Edges::None {
        let message =
            format!("{clause} conflicts with tail(none): a cluster may have blocks whose tiles lie outside D");
        findings
            .error("cluster-tail", Key::Cluster, &[Key::Tail], message)
            .set("tail(predicate)", "tail(predicate) has code for them")
            .remove("tail", "leave tail out")
            .remove("cluster", "leave cluster out");
    }
    if let Some(other) = settings.get(Key::StreamK) {
        let message = format!(
            "{clause} conflicts with {other}: each block's share of the last tiles begins at a K-tile of its own, and the blocks of a \
             cluster sum the same K-tiles"
        );
        findings
            .error("cluster-stream", Key::Cluster, &[Key::StreamK], message)
            .set("split_k(2)", "split_k(2) has parts that all blocks of a cluster sum")
            .remove("stream_k", "leave stream_k out")
            .remove("cluster", "leave cluster out");
    }
}

/// A wave consists of whole clusters.
fn waves(settings: &Settings, clause: &Clause, blocks: u32, findings: &mut Findings) {
    let Some(Wave::Blocks(wave)) = settings.scheduler.persistent.filter(|_| blocks > 0) else { return };
    if wave.is_multiple_of(blocks) {
        return;
    }
    let message = format!("persistent({wave}) is not made of whole clusters: {clause} has {blocks} blocks");
    let finding = findings.error("cluster-wave", Key::Persistent, &[Key::Cluster], message);
    for wave in [wave / blocks * blocks, wave.next_multiple_of(blocks)].into_iter().filter(|wave| *wave > 0) {
        finding.set(format!("persistent({wave})"), format!("persistent({wave}) is"));
    }
    finding.set("persistent", "persistent takes as many as the device holds at once");
}

/// Blocks that need the same tile share its loads: along n for A, along m for B.
fn sharers(settings: &Settings, clause: &Clause, findings: &mut Findings) {
    let Some(Clause::Multicast(multicast)) = settings.get(Key::Multicast) else { return };
    let Extent2 { m, n } = settings.scheduler.cluster;
    let alone = [(Side::A, multicast.a, n, "n"), (Side::B, multicast.b, m, "m")];
    for (side, _, _, along) in
        alone.into_iter().filter(|(_, fetch, sharers, _)| *fetch == Fetch::Multicast && *sharers < 2)
    {
        let name = if side == Side::A { "a" } else { "b" };
        let message =
            format!("multicast({name}): the blocks along {along} share {name}, and {clause} has one along {along}");
        let finding = findings.error("multicast-alone", Key::Multicast, &[Key::Cluster], message).about(name);
        let wider = if side == Side::A { Extent2 { m, n: 2 } } else { Extent2 { m: 2, n } };
        for extent in [wider, if side == Side::A { Extent2 { m: 1, n: 2 } } else { Extent2 { m: 2, n: 1 } }] {
            let text = Clause::Cluster(extent).to_string();
            finding.set(&text, format!("{text} has two"));
        }
        let (a, b) = (Fetch::Own, Fetch::Own);
        let other = match side {
            Side::A => MulticastClause { a, b: multicast.b },
            Side::B => MulticastClause { a: multicast.a, b },
        };
        if (other.a, other.b) == (a, b) {
            finding.remove("multicast", "leave multicast out");
        } else {
            let text = Clause::Multicast(other).to_string();
            finding.set(&text, format!("{text} shares the other operand"));
        }
    }
}

/// A block waits on the mbarriers of the other blocks before it fills their slots.
fn ring(settings: &Settings, findings: &mut Findings) {
    let Some(clause) = settings.get(Key::Multicast) else { return };
    if settings.roles.specialize.is_some() || settings.staged.pace == Pace::Free {
        return;
    }
    let message = format!(
        "{clause}: a block that fills slots of others waits for their mbarriers, and with pace(tile) slots are free after a \
         barrier of the block alone"
    );
    findings
        .error("multicast-pace", Key::Multicast, &[Key::Specialize, Key::Pace], message)
        .set("specialize(producers = 1 warp)", "specialize(producers = 1 warp) has them")
        .set("specialize(producers = 1)", "specialize(producers = 1) has them")
        .set("pace(free)", "pace(free) has them")
        .remove("multicast", "leave multicast out");
}

/// Each block that shares an operand starts some of its boxes.
fn boxes(settings: &Settings, input: &Input, findings: &mut Findings) {
    let sharers = settings.sharers(input.side);
    let Some(placement) = input.placement.filter(|_| sharers > 1) else { return };
    if share_of_boxes(&placement, input.dtype, sharers, MAX_BOX).is_some() {
        return;
    }
    let name = if input.side == Side::A { "A" } else { "B" };
    let message = format!(
        "{}: {name}'s tile of {} rows in {} panels has fewer boxes than the {sharers} blocks that share it",
        settings.text(Key::Multicast, "multicast"),
        placement.slow_extent,
        placement.panels()
    );
    let finding =
        findings.error("multicast-boxes", Key::Multicast, &[Key::Cluster, Key::Tile, Key::Shared, Key::Types], message);
    for two in ["cluster(2, 1)", "cluster(1, 2)"] {
        finding.set(two, format!("{two} has two blocks, for which more tiles are possible"));
    }
    finding.remove("multicast", "leave multicast out");
}
