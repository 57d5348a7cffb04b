//! Contracts: the plan's counts equal the interpreter's, and library calls report broken contracts.

use ptx_gemm::{Batch, CompiledGemm, Contract, Device, Gemm, Kernel, Matrix, Schedule, Target};
use ptx_gemm_check::part::Part;
use ptx_gemm_check::{Profile, cases};
use ptx_gemm_dsl::Figure;
use ptx_gemm_dsl::clause::{Metric, Relation};
use ptx_gemm_dsl::contract::FigureSource;
use ptx_gemm_dsl::plan::OperandPlan;
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::terms::{Extent3, Load, Operand};

/// Schedules with accesses that no case has: other skews, orders, types, layouts, producers, ragged warps and
/// transposed asynchronous copies.
const OTHERS: [&str; 44] = [
    "tile(64, 64, 16); thread(4, 4); vector(4); load(cp_async); stages(3);",
    "tile(64, 32, 8); thread(4, 2); vector(4); shared(a = mk + swizzle(32), b = kn + swizzle(128));",
    "tile(64, 64, 16); thread(4, 4); vector(4); shared(a = km + swizzle(64), b = nk + swizzle(128)); unroll(4);",
    "tile(32, 64, 8); thread(4, 4); layout(a = col, b = col, d = col); vector(4); double_buffer;",
    "tile(64, 64, 8); thread(4, 4); persistent(3);",
    "tile(64, 64, 8); thread(4, 4); double_buffer; stream_k;",
    "tile(64, 64, 8); thread(4, 4); load(cp_async); stages(3); pace(free); stream_k;",
    "tile(48, 80, 5); thread(3, 5); raster(group = 2, along = m);",
    "tile(64, 64); thread(8, 4); vector(4); shared(none);",
    "tile(64, 64); thread(8, 4); fragment(4, 2); vector(4); shared(none); layout(a = col, b = col); unroll(8);",
    "tile(24, 40); thread(3, 5); shared(none); lanes(along = m);",
    "types(f64); tile(64, 32, 8); thread(4, 2); vector(4); shared(a = km + pad(1)); double_buffer;",
    "types(a = f32, b = f32, acc = f64, d = f32); tile(32, 32, 8); thread(2, 2); vector(2);",
    "types(i32); tile(32, 64, 4); thread(2, 8); fragment(1, 4); vector(4); shared(b = nk + pad(3));",
    "tile(64, 128, 8); warp(32, 64); thread(8, 8); fragment(4, 4); lanes(along = z); vector(4); shared(a = km);",
    "tile(64, 64, 8); thread(4, 4); operands(shared); vector(4);",
    "tile(64, 64, 8); thread(4, 4); load(cp_async); stages(2); specialize(producers = 1 warp); vector(4);",
    "tile(64, 64, 8); thread(4, 4); load(cp_async); stages(2); shared(a = km, b = nk); vector(4); pace(free);",
    "tile(7, 9, 3); thread(1, 1); lanes(along = m);",
    "layout(a = col); tile(64, 64, 8); thread(4, 4); vector(4); shared(a = km); load(tma); stages(3); persistent(2);",
    "tile(64, 64, 16); thread(4, 4); vector(4); shared(a = mk + swizzle(64)); load(tma); double_buffer; pace(free);",
    "tile(64, 64, 16); thread(4, 4); vector(4); shared(a = km, b = nk); load(tma); pack(a, b); stages(2);",
    "types(f64); tile(32, 32, 32); thread(2, 2); vector(2); shared(a = km); load(tma); pack(a); prefetch(1, volatile);",
    "tile(64, 64, 8); thread(4, 4); vector(4); load(cp_async); stages(3); pace(free); persistent(2);",
    "tile(64, 64, 8); thread(4, 4); vector(4); double_buffer; pace(free); persistent(2);",
    "tile(96, 96, 16); thread(6, 6); fragment(2, 3); vector(4); unroll(2); prefetch(0); tail(none);",
    "tile(32, 32, 16); thread(2, 2); shared(a = mk + pad(2), b = nk + pad(5)); layout(b = col); vector(4);",
    "tile(64, 64, 8); thread(4, 4); vector(4); double_buffer; store(staged);",
    "tile(48, 40, 8); thread(3, 5); layout(d = col); load(cp_async); stages(3); store(staged);",
    "types(f64); tile(32, 48, 8); thread(2, 2); vector(2); split_k(2); store(staged);",
    "tile(64, 48, 8); thread(4, 6); fragment(4, 2); vector(4); double_buffer; split_k(3, reduce = cluster);",
    "types(f64); layout(d = col); tile(36, 20, 8); thread(2, 2); split_k(8, reduce = cluster);",
    "types(bf16); tile(64, 96, 64); atom(wgmma(64, 96, 16)); load(tma); stages(2); split_k(4, reduce = cluster);",
    "types(bf16); layout(d = col); tile(128, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
     specialize(producers = 1 warp, consumers = 2); split_k(2, reduce = cluster);",
    "tile(64, 96, 8); thread(4, 6); fragment(4, 2); vector(4); load(tma); stages(3); stream_k; store(tma);",
    "tile(64, 64, 8); thread(4, 4); layout(d = col); vector(4); load(tma); specialize(producers = 1 warp); store(tma);",
    "tile(64, 8, 16); thread(4, 1); vector(4); load(cp_async); target(sm_90); stages(2); store(tma);",
    "types(bf16); tile(64, 64, 16); thread(4, 8); vector(8); double_buffer;",
    "types(f16); tile(64, 64, 16); thread(4, 4); shared(a = km + pad(2), b = nk + pad(8)); vector(8);",
    "types(a = bf16, b = f32, d = f16); tile(64, 32, 8); thread(4, 2); vector(4); store(staged);",
    "types(bf16); tile(64, 64, 32); thread(4, 4); vector(8); load(cp_async); stages(3); shared(a = mk + swizzle(64));",
    "types(f16); tile(64, 64, 32); thread(4, 4); vector(4); load(tma); stages(3); shared(a = mk + swizzle(64)); store(tma);",
    "types(bf16); tile(64, 64, 8); thread(4, 4); operands(shared); layout(a = col, d = col);",
    "types(f16); tile(64, 64); thread(8, 4); vector(8); shared(none); unroll(8);",
];

/// The counts that differ, as text.
fn differences(name: &str, schedule: &Schedule) -> Vec<String> {
    // Contracts are about one launch of the schedule's own kernel.
    let schedule = &schedule.clone().without(Key::Strassen);
    let plan = schedule.plan(None).unwrap_or_else(|e| panic!("{name}: {e}"));
    let counted = Profile::new(schedule).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(counted.entry, plan.variants[0].entry, "{name}");
    let sample = plan.sample(&plan.variants[0]);
    let (cost, mix) = (&counted.cost, &counted.cost.mix);
    let (reads, stores, loads) = (&cost.shared_loads, &cost.shared_stores, &cost.global_loads);
    // Packed operands are read in vectors of 16 bytes. If the copy is contiguous along another dimension, they pass through
    // shared memory element by element, one a lane.
    let packed = |operand: &OperandPlan, own: u32| {
        let transposed = operand.placement.is_some_and(|placement| placement.fast != operand.global_fast);
        let copied = plan.ring.pack.contains(&operand.side) && transposed;
        let elements = u64::from(own) * u64::from(plan.sample_extents().k);
        let bytes = u64::from(operand.dtype.bytes());
        if copied { [elements / 32, elements * bytes / (32 * 16), elements * bytes / (32 * 4)] } else { [0; 3] }
    };
    let (m, n) = (plan.sample_extents().m, plan.sample_extents().n);
    let packed = [packed(&plan.ring.a, m), packed(&plan.ring.b, n)];
    // Operands that are split are read in such vectors too. If they are scaled, they are read element by element before that: a
    // block of 32 warps stores the largest elements of 32 rows to shared memory.
    let scaled = plan.sums.emulate.is_some_and(|emulate| emulate.by.scales());
    let elements = u64::from(m + n) * u64::from(plan.sample_extents().k) / 32;
    let split = if plan.sums.emulate.is_some() { elements / 4 } else { 0 };
    let found = if scaled { u64::from(m + n) } else { 0 };
    let [copies, copied, words] = [0, 1, 2].map(|figure| packed.iter().map(|figures| figures[figure]).sum::<u64>());
    let read = copied + split + if scaled { elements } else { 0 };
    // Parts of a split K also load partial sums, blocks of a group the list of products, others scales, vectors, or a C that no
    // scalar drops. Contracts are about the other loads here, of A and B.
    let epilogue = &plan.problem.epilogue;
    let vectors = !epilogue.vectors.is_empty() || (epilogue.uses_c() && epilogue.dropping_c().is_empty());
    let others = scaled || vectors || plan.scheduler.split_k.is_some() || plan.problem.batch == Batch::Grouped;
    let of_a_and_b = |counted, planned| if others { planned } else { counted };
    // Planes that threads copy are in the workspace.
    let in_workspace = plan.sums.emulate.is_some() && plan.ring.load != Load::Tma;
    let of_operands: u64 = [Operand::A, Operand::B].iter().map(|operand| counted.traffic(*operand).loads.sectors).sum();
    // A warp's vectors are 16 sectors.
    let of_a_b = sample.sectors + 16 * (copied + split) + if scaled { 4 * elements } else { 0 };
    let sectors = if in_workspace { of_a_and_b(loads.sectors, of_a_b) } else { of_operands };
    let figures = [
        ("multiply-adds", sample.fma, counted.fma),
        ("reads", sample.reads.accesses + sample.d_reads.accesses + copies + found, reads.accesses),
        ("passes of reads", sample.reads.passes + sample.d_reads.passes + words + found, reads.wavefronts),
        ("conflicts of reads", sample.reads.conflicts + sample.d_reads.conflicts, reads.conflicts()),
        ("stores", sample.stores.accesses + sample.d_writes.accesses + copies + found, stores.accesses),
        ("passes of stores", sample.stores.passes + sample.d_writes.passes + words + found, stores.wavefronts),
        ("conflicts of stores", sample.stores.conflicts + sample.d_writes.conflicts, stores.conflicts()),
        ("loads", sample.loads + read, of_a_and_b(loads.accesses, sample.loads + read)),
        ("loads to registers", sample.register_loads + read, of_a_and_b(mix.load_global, sample.register_loads + read)),
        ("sectors", of_a_b, sectors),
    ];
    let different = figures.into_iter().filter(|(_, planned, counted)| planned != counted);
    different.map(|(what, planned, counted)| format!("{name}: {what}: {planned}, counted {counted}")).collect()
}

#[test]
fn what_the_plan_counts_is_what_the_interpreter_counts() {
    let mut all = Vec::new();
    let part = Part::of_this_run();
    for case in part.of_cases(cases()) {
        all.extend(differences(case.name, &case.schedule().unwrap()));
    }
    for clauses in part.of(OTHERS) {
        all.extend(differences(clauses, &clauses.parse().unwrap_or_else(|e| panic!("{clauses}: {e}"))));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Legal except for the contract, which the plan cannot meet.
const CONFLICTS: &str = "tile(128, 128, 8); thread(8, 8); vector(4); expect { bank_conflicts = 0 }";

#[test]
fn a_library_call_refuses_a_broken_contract() {
    let said = |error: &dyn std::fmt::Display| {
        let text = error.to_string();
        assert!(text.contains("expect bank_conflicts = 0 is broken"), "{text}");
        assert!(text.contains("256 x 256 x 32") && text.contains("look at"), "{text}");
    };
    let schedule: Schedule = CONFLICTS.parse().unwrap();
    said(&schedule.check().unwrap_err());
    said(&CONFLICTS.parse::<Gemm>().unwrap_err());
    said(&CompiledGemm::new(&schedule, &Device::interpreter()).unwrap_err());
    said(&CompiledGemm::for_target(&schedule, Target::SM_90, &Device::interpreter()).unwrap_err());
    said(&Kernel::compile(&schedule, None).unwrap_err());
    let built = Schedule::new().tile(128, 128, 8).thread(8, 8).vector(4);
    said(&built.clone().expect(Metric::BankConflicts, Relation::Equal, 0).check().unwrap_err());
    let figure = built.plan(None).unwrap();
    let figure = figure.sample(&figure.variants[0]).bank_conflicts();
    assert!(built.clone().expect(Metric::BankConflicts, Relation::Equal, figure).check().is_ok());
    // The value of a limit may come from the code around it.
    let none = 0;
    said(
        &ptx_gemm::gemm! { tile(128, 128, 8); thread(8, 8); vector(4); expect { bank_conflicts = {none} } }
            .unwrap_err(),
    );
    let few = 0.25;
    let text = ptx_gemm::gemm! { tile(64, 64, 8); thread(4, 4); expect { loads_per_fma <= {few} } }.unwrap_err();
    assert!(text.to_string().contains("expect loads_per_fma <= 0.25 is broken"), "{text}");
}

/// Occupancy depends on the target: a schedule is checked for the device for which it is compiled.
#[test]
fn a_contract_is_about_the_target_that_is_compiled_for() {
    let schedule: Schedule = "tile(128, 128, 64); thread(8, 8); expect { occupancy >= 2 }".parse().unwrap();
    let text = schedule.check().unwrap_err().to_string();
    assert!(
        text.contains("occupancy is 1 in gemm_v1 on sm_75") && text.contains("blocks_per_sm(2) demands it"),
        "{text}"
    );
    assert!(schedule.plan(Some(Target::SM_90)).is_ok());
    assert!(Kernel::compile_for(&schedule, Some(Target::SM_90)).is_ok());
    let four: Schedule = "tile(128, 128, 64); thread(8, 8); expect { occupancy <= 1 }".parse().unwrap();
    assert!(four.check().is_ok());
    // It holds on the default target but is broken on the device, and the device decides.
    let error = Kernel::compile_for(&four, Some(Target::SM_90)).unwrap_err();
    assert!(error.to_string().contains("occupancy is 2 in gemm_v1 on sm_90"), "{error}");
}

/// On a GPU, the driver's compiled kernel decides.
#[test]
fn a_gpu_checks_what_only_machine_code_shows() {
    let Ok(device) = Device::cuda(0) else {
        println!("no CUDA device: contracts about machine code were not held to a driver");
        return;
    };
    let on = |contract: &str| {
        let text = format!("tile(64, 64, 8); thread(4, 4); vector(4); expect {{ {contract} }}");
        CompiledGemm::new(&text.parse().unwrap(), &device)
    };
    for contract in ["spills = 0", "registers <= 255", "code_bytes <= 256 KiB"] {
        let contracts = on(contract).unwrap().contracts();
        assert!(matches!(contracts[..], [Contract::Measured(_), Contract::Measured(_)]), "{contracts:?}");
    }
    for contract in ["spills > 0", "registers <= 8", "code_bytes < 1 KiB"] {
        let text = on(contract).unwrap_err().to_string();
        assert!(text.contains("is broken") && text.contains("says the driver of"), "{text}");
    }
}

/// Schedules of every kind of product, an error bound that they keep, and one that they exceed.
const PRODUCTS: [(&str, &str, &str); 12] = [
    ("tile(64, 64, 8); thread(4, 4)", "1e-6", "1e-8"),
    ("tile(64, 64, 8); thread(4, 4); split_k(4)", "1e-6", "1e-9"),
    ("tile(48, 80, 16); thread(4, 4); tail(none); transposed", "1e-6", "1e-8"),
    ("tile(32, 32, 8); thread(4, 4); layout(a = col, d = col); batch(grouped)", "1e-6", "1e-8"),
    ("tile(32, 32, 8); thread(4, 4); batch(strided)", "1e-6", "1e-8"),
    ("types(f64); tile(32, 32, 8); thread(4, 4)", "1e-15", "1e-17"),
    ("types(f32, d = bf16); tile(64, 64, 8); thread(4, 4)", "4e-3", "1e-6"),
    ("types(bf16, d = f32); tile(64, 64, 16); warp(32, 32); atom(mma(16, 8, 16))", "1e-5", "1e-9"),
    ("emulate(bf16x3); tile(64, 64, 64); warp(32, 32); atom(mma(16, 8, 16)); load(tma); stages(2)", "1e-5", "3e-7"),
    ("emulate(bf16x6); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2)", "2.5e-7", "1e-9"),
    (
        "emulate(f16x3); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2); \
         epilogue(|acc, c, alpha, bias| gelu(alpha * acc + bias[n]) + c)",
        "3e-7",
        "1e-9",
    ),
    (
        "emulate(f16x3); promote(every = 64); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2)",
        "3e-7",
        "1e-9",
    ),
];

#[test]
fn errors_of_products_are_held_to_where_a_kernel_is_loaded() {
    let device = Device::interpreter();
    let with = |schedule: &str, contract: &str| -> Schedule {
        format!("{schedule}; expect {{ {contract} }}").parse().unwrap_or_else(|error| panic!("{schedule}: {error}"))
    };
    for (schedule, most, too_little) in PRODUCTS {
        let kept = CompiledGemm::new(&with(schedule, &format!("max_error <= {most}")), &device);
        let contracts = kept.unwrap_or_else(|error| panic!("{schedule}: {error}")).contracts();
        assert!(matches!(contracts[..], [Contract::Measured(_)]), "{schedule}: {contracts:?}");
        let broken = with(schedule, &format!("max_error <= {too_little}"));
        let text = CompiledGemm::new(&broken, &device).unwrap_err().to_string();
        let said = format!("expect max_error <= {too_little} is broken: max_error is ");
        assert!(text.contains(&said) && text.contains("measured at") && text.contains("look at"), "{schedule}: {text}");
        // Nothing has been multiplied yet.
        let kernel = Kernel::compile(&broken, None).unwrap_or_else(|error| panic!("{schedule}: {error}"));
        assert!(matches!(kernel.contracts()[..], [Contract::Unchecked { .. }]), "{:?}", kernel.contracts());
    }
    // Sums of integers are exact.
    let exact = with("types(i32); tile(32, 32, 8); thread(4, 4)", "max_error = 0");
    assert!(CompiledGemm::new(&exact, &device).is_ok());
}

/// The advice names a more exact mode, if there is one, and shorter sums.
#[test]
fn a_broken_error_names_what_is_more_exact() {
    let said = |clauses: &str| {
        let schedule: Schedule = format!(
            "target(sm_80); types(f32); tile(64, 64, 64); warp(32, 32); atom(mma(16, 8, 16)); {clauses}; expect {{ max_error <= 1e-12 }}"
        )
        .parse()
        .unwrap();
        CompiledGemm::new(&schedule, &Device::interpreter()).unwrap_err().to_string()
    };
    let all = said("emulate(bf16x3)");
    let (modes, sums) = ("emulate(bf16x6) or emulate(bf16x9) or emulate(f16x3)", "promote(every = 64)");
    assert!(all.contains(&format!("look at {modes} in place of emulate(bf16x3), and {sums} in place of")), "{all}");
    let sums_alone = said("emulate(bf16x9)");
    assert!(sums_alone.contains("look at promote(every = 64) in place of promote(every = 128)"), "{sums_alone}");
    let shortest = said("emulate(bf16x9); promote(every = 64)");
    assert!(shortest.contains("look at promote(every = 64, compensated) in place of"), "{shortest}");
    let nothing = said("emulate(bf16x9); promote(every = 64, compensated)");
    assert!(nothing.contains("look at types(f32)"), "{nothing}");
}

/// The figure follows the definition in the language reference, computed here independently.
#[test]
fn the_error_of_a_product_is_what_the_reference_defines() {
    let schedule: Schedule =
        "tile(48, 80, 12); thread(4, 4); layout(b = col); epilogue(|acc, alpha| relu(alpha * acc)); \
                              expect { max_error <= 1e-6 }"
            .parse()
            .unwrap();
    let gemm = CompiledGemm::new(&schedule, &Device::interpreter()).unwrap();
    let [Contract::Measured(found)] = &gemm.contracts()[..] else { panic!("one figure") };
    assert_eq!(found.source, FigureSource::Run(Extent3 { m: 96, n: 80, k: 1032 }, gemm.device().name().into()));
    let (a, b) = (Matrix::<f32>::random(96, 1032, 1), Matrix::<f32>::random(1032, 80, 2));
    let mut largest = 0.0f64;
    for (row, col) in (0..96).flat_map(|row| (0..80).map(move |col| (row, col))) {
        // One fused multiply-add after another, like the kernel's.
        let (mut single, mut sum, mut magnitude) = (0.0f32, 0.0f64, 0.0f64);
        for k in 0..1032 {
            let (x, y) = (a.get(row, k).unwrap(), b.get(k, col).unwrap());
            let product = f64::from(x) * f64::from(y);
            single = x.mul_add(y, single);
            (sum, magnitude) = (sum + product, magnitude + product.abs());
        }
        largest = largest.max((f64::from(single) - sum).abs() / magnitude);
    }
    assert_eq!(found.figure, Figure::measured(largest));
}

/// The figure shows a fault of the kernel, and NaN breaks every contract.
#[test]
fn a_wrong_product_breaks_the_contract() {
    let schedule: Schedule = "tile(32, 32, 8); thread(4, 4); expect { max_error <= 1e-6 }".parse().unwrap();
    let kernel = Kernel::compile(&schedule, None).unwrap();
    let error = |from: &str, to: &str| {
        let text = kernel.ptx().replacen(from, to, 1);
        assert_ne!(text, kernel.ptx());
        let edited = kernel.edited(&text).unwrap();
        CompiledGemm::from_kernel(edited, &Device::interpreter()).unwrap_err().to_string()
    };
    let dropped = error("fma.rn.f32 %acc0, %a0, %b0, %acc0;", "");
    assert!(dropped.contains("max_error is 0."), "{dropped}");
    let nan = error("fma.rn.f32 %acc0, %a0, %b0, %acc0;", "mov.f32 %acc0, 0f7FC00000;");
    assert!(nan.contains("max_error is no number"), "{nan}");
}
