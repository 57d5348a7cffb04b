//! The rules of `load(tma, c = tma)`: TMA copies C to the memory of D's tile.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, LayoutClause, LoadClause, SpecializeClause, StoreClause, TypesClause, WarpCount};
use crate::table::Key;
use crate::terms::{Load, LoadC, StageMemory, Store};
use crate::types::Batch;

/// Checks that there is a C, and that its tile has memory while the mainloop runs.
pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    if settings.output.c.is_none() {
        return;
    }
    let text = |c| Clause::Load(LoadClause { way: settings.staged.load, c }).to_string();
    let (stated, plain) = (text(settings.output.c), text(None));
    if !settings.problem.epilogue.uses_c() {
        findings
            .error("load-c", Key::Load, &[Key::Epilogue], format!("{stated}: the epilogue does not read C"))
            .set(&plain, format!("{plain} is legal"))
            .set("epilogue(|acc, c| acc + c)", "epilogue(|acc, c| acc + c) reads it");
        return;
    }
    if settings.output.c == Some(LoadC::Registers) {
        return;
    }
    let mut refuse = |rule, depends: &[Key], why: String, fixes: Vec<(String, &str)>| {
        let finding = findings.error(rule, Key::Load, depends, format!("{stated}{why}"));
        for (fix, help) in fixes {
            finding.set(&fix, format!("{fix} {help}"));
        }
        finding.set(&plain, format!("{plain} leaves C to the threads"));
    };
    if settings.staged.load != Load::Tma {
        let tma = Clause::Load(LoadClause { way: Load::Tma, c: settings.output.c }).to_string();
        let why = ": the mbarriers that count the bytes of C are those of a pipeline of TMA".into();
        refuse("load-c-way", &[], why, vec![(tma, "copies A and B, too")]);
    }
    if settings.output.store != Store::Tma {
        let why = ": C is copied in the boxes of D's tile, which store(tma) has".into();
        refuse("load-c-store", &[Key::Store], why, vec![("store(tma)".into(), "has such boxes")]);
    }
    if settings.roles.specialize.is_none() {
        let clause = SpecializeClause { producers: WarpCount::Warps(1), consumers: None, roles: None };
        let why = ": C is copied to the memory of D's tile, which without specialize is that of the K-tiles".into();
        let fix = (Clause::Specialize(clause).to_string(), "has memory for both");
        refuse("load-c-memory", &[Key::Specialize], why, vec![fix]);
    } else if settings.output.memory == Some(StageMemory::Ring) {
        let store = StoreClause { way: settings.output.store, memory: Some(StageMemory::Own) };
        let store = Clause::Store(store);
        let why =
            ": C is copied to the memory of D's tile, and slots of the ring are lent only after the last K-tile".into();
        refuse("load-c-memory", &[Key::Store], why, vec![(store.to_string(), "has memory for it")]);
    }
    let (types, layouts) = (settings.problem.types, settings.problem.layouts);
    if types.c.bytes() != types.d.bytes() {
        let clause =
            if let Some(Clause::Types(clause)) = settings.get(Key::Types) { *clause } else { Default::default() };
        let same = Clause::Types(TypesClause { c: Some(types.d), ..clause }).to_string();
        let why = format!(": C is copied to the memory of D's tile, and {} has another size than {}", types.c, types.d);
        refuse("load-c-type", &[Key::Types], why, vec![(same, "has the same")]);
    }
    if layouts.c != layouts.d {
        let asked = settings.asked.layouts;
        let same = LayoutClause { a: Some(asked.a), b: Some(asked.b), c: Some(asked.d), d: Some(asked.d) };
        let why = ": C is copied to the memory of D's tile, whose lines run along the other dimension".to_string();
        refuse("load-c-layout", &[Key::Layout], why, vec![(Clause::Layout(same).to_string(), "has the same")]);
    }
    if settings.problem.batch == Batch::Grouped {
        let why = " conflicts with batch(grouped), whose list has no tensor map of C".into();
        let fix = ("batch(strided)".into(), "has products of the same extents");
        refuse("load-c-group", &[Key::Batch], why, vec![fix]);
    }
    for key in [Key::SplitK, Key::StreamK] {
        if let Some(other) = settings.get(key) {
            let why = format!(" conflicts with {other}: only the block that adds up a tile's last part reads C");
            refuse("load-c-parts", &[key], why, Vec::new());
        }
    }
}
