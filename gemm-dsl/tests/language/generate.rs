//! Random schedules: every clause with any values, and plausible schedules that are mostly legal.

use proptest::prelude::*;
use proptest::sample::select;
use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::clause::*;
use ptx_gemm_dsl::clause::{PackClause, PrefetchClause, PromoteClause};
use ptx_gemm_dsl::terms::{
    Along, Edges, Extent2, Fast, FmaOrder, Load, LoadC, Operands, Pace, Reads, Reduce, Rounding, StageMemory, Store,
};
use ptx_gemm_dsl::words::Word;
use ptx_gemm_dsl::{DType, Layout, Target};

fn word<W: Word + std::fmt::Debug>() -> impl Strategy<Value = W> {
    select(W::TABLE.iter().map(|(_, value)| *value).collect::<Vec<W>>())
}

fn maybe<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(strategy)
}

/// Mostly common sizes, occasionally any number.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => select(vec![1u32, 2, 3, 4, 6, 8, 16, 32, 64, 128]), 1 => 0..300u32, 1 => any::<u32>()]
}

fn extent() -> impl Strategy<Value = Extent2> {
    (number(), number()).prop_map(|(m, n)| Extent2 { m, n })
}

fn tile() -> impl Strategy<Value = TileClause> {
    (number(), number(), maybe(number())).prop_map(|(m, n, k)| TileClause { m, n, k })
}

fn staged() -> impl Strategy<Value = StagedOrder> {
    let skew = prop_oneof![Just(Skew::None), number().prop_map(Skew::Pad), number().prop_map(Skew::Swizzle)];
    (select(vec![Fast::K, Fast::Mn]), skew).prop_map(|(fast, skew)| StagedOrder { fast, skew })
}

/// The text of an expression over `acc`, `c`, the scalars `s` and `t` and the vectors `u[m]` and `v[n]`.
pub fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(vec!["acc", "c", "s", "t", "u[m]", "v[n]", "0.5", "2", "1e-3"]).prop_map(str::to_string),
        (0.0..1e30f64).prop_map(|value| format!("{value:?}")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let binary = (inner.clone(), select(vec!["+", "-", "*", "/"]), inner.clone());
        prop_oneof![
            binary.prop_map(|(x, op, y)| format!("{x} {op} {y}")),
            inner.clone().prop_map(|x| format!("({x})")),
            inner.clone().prop_map(|x| format!("-{x}")),
            (select(vec!["relu", "abs", "tanh", "gelu"]), inner.clone()).prop_map(|(f, x)| format!("{f}({x})")),
            (select(vec!["min", "max"]), inner.clone(), inner.clone()).prop_map(|(f, x, y)| format!("{f}({x}, {y})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(x, y, z)| format!("clamp({x}, {y}, {z})")),
        ]
    })
}

pub fn epilogue() -> impl Strategy<Value = String> {
    expression().prop_map(|expression| format!("|acc, c, s, t, u, v| {expression}"))
}

fn warp_count() -> impl Strategy<Value = WarpCount> {
    prop_oneof![(1..40u32).prop_map(WarpCount::Warps), (1..10u32).prop_map(WarpCount::Groups)]
}

fn computed() -> impl Strategy<Value = Clause> {
    let types = (maybe(word()), maybe(word()), maybe(word()), maybe(word()), maybe(word()), maybe(word()));
    let layout = (maybe(word()), maybe(word()), maybe(word()), word::<Layout>());
    prop_oneof![
        types.prop_filter_map("no type", |(all, a, b, acc, c, d)| {
            let clause = TypesClause { all, a, b, acc, c, d };
            (clause != TypesClause::default()).then_some(Clause::Types(clause))
        }),
        layout.prop_map(|(a, b, c, d)| Clause::Layout(LayoutClause { a, b, c, d: Some(d) })),
        word::<BatchKind>().prop_map(Clause::Batch),
        word::<Target>().prop_map(Clause::Target),
    ]
}

fn geometry() -> impl Strategy<Value = Clause> {
    let atom = prop_oneof![
        Just(Atom::Fma),
        (number(), number(), number()).prop_map(|(m, n, k)| Atom::Mma(m, n, k)),
        (number(), number(), number()).prop_map(|(m, n, k)| Atom::Wgmma(m, n, k)),
    ];
    prop_oneof![
        tile().prop_map(Clause::Tile),
        tile().prop_map(Clause::Warp),
        extent().prop_map(Clause::Thread),
        extent().prop_map(Clause::Fragment),
        word::<Along>().prop_map(Clause::Lanes),
        atom.prop_map(Clause::Atom),
    ]
}

fn memory() -> impl Strategy<Value = Clause> {
    let widths = (maybe(number()), maybe(number()), maybe(number()), maybe(number()), number());
    let orders = (maybe(staged()), staged());
    prop_oneof![
        widths.prop_map(|(all, a, b, c, d)| Clause::Vector(VectorClause { all, a, b, c, d: Some(d) })),
        number().prop_map(|n| Clause::Vector(VectorClause { all: Some(n), ..VectorClause::default() })),
        Just(Clause::Shared(SharedClause::None)),
        orders.prop_map(|(a, b)| Clause::Shared(SharedClause::Orders { a, b: Some(b) })),
        word::<Operands>().prop_map(Clause::Operands),
        (word::<Load>(), maybe(word())).prop_map(|(way, c)| Clause::Load(LoadClause { way, c })),
        [any::<bool>(), any::<bool>()]
            .prop_filter_map("one at least", |[a, b]| { (a || b).then_some(Clause::Pack(PackClause { a, b })) }),
        number().prop_map(Clause::Stages),
        Just(Clause::DoubleBuffer),
        (word::<Store>(), maybe(word())).prop_map(|(way, memory)| Clause::Store(StoreClause { way, memory })),
    ]
}

fn steps() -> impl Strategy<Value = Clause> {
    prop_oneof![
        number().prop_map(Clause::Unroll),
        word::<FmaOrder>().prop_map(Clause::Order),
        (number(), maybe(word::<Reads>())).prop_map(|(steps, reads)| Clause::Prefetch(PrefetchClause { steps, reads })),
        word::<Pace>().prop_map(Clause::Pace),
        number().prop_map(Clause::BlocksPerSm),
        word::<Spills>().prop_map(Clause::Spills),
        word::<Edges>().prop_map(Clause::Tail),
        maybe((number(), maybe(word::<Rounding>()))).prop_map(|promote| {
            let (every, rounding) = promote.unzip();
            Clause::Promote(PromoteClause { every, rounding: rounding.flatten() })
        }),
        number().prop_map(Clause::Strassen),
        word::<Emulation>().prop_map(Clause::Emulate),
        (number(), number(), number(), maybe(number())).prop_map(|(m, n, k, batch)| Clause::Shape(ShapeClause {
            m,
            n,
            k,
            batch
        })),
        select(vec!["H200", "RTX4090", "x"]).prop_map(|name| Clause::Gpu(name.into())),
    ]
}

fn blocks() -> impl Strategy<Value = Clause> {
    let along = select(vec![Along::N, Along::M]);
    let contract = (word::<Metric>(), word::<Relation>(), 0..1u64 << 31, 0..4u32, any::<bool>()).prop_map(
        |(metric, relation, limit, quarters, percent)| {
            let metric = if metric == Metric::Occupancy && percent { Metric::OccupancyPercent } else { metric };
            let fraction = if metric.is_fraction() { f64::from(quarters) / 4.0 } else { 0.0 };
            Expectation { metric, relation, limit: (limit as f64 + fraction).into() }
        },
    );
    prop_oneof![
        (maybe(number()), along).prop_map(|(group, along)| Clause::Raster(RasterClause { group, along: Some(along) })),
        maybe(number()).prop_map(Clause::Persistent),
        (number(), maybe(word())).prop_map(|(parts, reduce)| Clause::SplitK(SplitKClause { parts, reduce })),
        Just(Clause::StreamK),
        Just(Clause::Transposed),
        extent().prop_map(Clause::Cluster),
        Just(Clause::Multicast(MulticastClause { a: Fetch::Multicast, b: Fetch::Own })),
        (warp_count(), maybe(warp_count()), maybe(word())).prop_map(|(producers, consumers, roles)| {
            Clause::Specialize(SpecializeClause { producers, consumers, roles })
        }),
        (number(), number()).prop_map(|(producer, consumer)| Clause::Registers(RegistersClause { producer, consumer })),
        contract.prop_map(|contract| Clause::Expect(vec![contract])),
    ]
}

/// Any clauses with any values, in any order and number.
pub fn anything() -> impl Strategy<Value = Schedule> {
    let clause = prop_oneof![computed(), geometry(), memory(), steps(), blocks()];
    (proptest::collection::vec(clause, 0..12), maybe(epilogue())).prop_map(|(clauses, epilogue)| {
        let schedule = clauses.into_iter().fold(Schedule::new(), Schedule::clause);
        match epilogue {
            Some(epilogue) => schedule.epilogue(&epilogue),
            None => schedule,
        }
    })
}

/// Plausible schedules: most are legal and implemented.
pub fn plausible() -> impl Strategy<Value = Schedule> {
    prop_oneof![4 => of_threads(), 1 => of_warp_groups()]
}

/// Plausible schedules with `atom(wgmma)`.
fn of_warp_groups() -> impl Strategy<Value = Schedule> {
    let tile = (1..4u32, 1..3u32, 1..5u32, select(vec![16u32, 24, 48, 64, 128]));
    let orders = (select(vec![Fast::K, Fast::Mn]), select(vec![32u32, 32, 64]))
        .prop_map(|(fast, span)| StagedOrder { fast, skew: Skew::Swizzle(span) });
    let roles = (1..4u32, maybe(1..3u32), any::<bool>(), any::<bool>(), any::<bool>());
    let problem = (maybe(epilogue()), maybe((word(), word(), word(), word())), maybe(word::<Store>()));
    let types = select(vec![DType::F16, DType::Bf16]);
    (tile, roles, problem, types, maybe(orders)).prop_map(|(tile, roles, problem, types, orders)| {
        let ((m, n, k, columns), (stages, producers, registers, persistent, split)) = (tile, roles);
        let mut s = Schedule::new().types(types).tile(64 * m, columns * n, 16 * k);
        s = s.atom(Atom::Wgmma(64, columns, 16)).load(Load::Tma).stages(stages);
        if let Some(producers) = producers {
            s = s.specialize(WarpCount::Groups(producers));
            if registers {
                s = s.registers(24, 160);
            }
        }
        if persistent {
            s = s.persistent(None);
        } else if split {
            let exchanged = registers && problem.2.is_none();
            s = s.split_k(3, if exchanged { Reduce::Cluster } else { Reduce::Serial });
        }
        let (epilogue, layouts, store) = problem;
        let epilogue_reads_c = epilogue.as_ref().is_some_and(|epilogue| epilogue.contains(", c"));
        if let Some(epilogue) = epilogue {
            s = s.epilogue(&epilogue);
        }
        if let Some((a, b, c, d)) = layouts {
            s = s.layout(ptx_gemm_dsl::types::Layouts { a, b, c, d });
        }
        if let Some(order) = orders {
            s = s.shared(Some(order), None);
        }
        match store {
            Some(Store::Tma) if producers.is_some() && stages == 2 && epilogue_reads_c => {
                s.with(Schedule::new().load_with_c(Load::Tma, LoadC::Tma)).store(Store::Tma)
            }
            Some(store) if producers.is_some() && stages == 3 && store != Store::Direct => {
                s.store_in(store, if registers { StageMemory::Ring } else { StageMemory::Own })
            }
            Some(store) => s.store(store),
            None => s,
        }
    })
}

/// Plausible schedules with `atom(fma)`.
fn of_threads() -> impl Strategy<Value = Schedule> {
    let thread = (select(vec![1u32, 2, 3, 4, 6, 8]), select(vec![1u32, 2, 4, 5, 8]));
    let grid = (select(vec![1u32, 2, 3, 4, 8, 16]), select(vec![1u32, 2, 4, 7, 8, 16]));
    let depth = select(vec![1u32, 2, 4, 5, 8, 12, 16]);
    let memory = (
        maybe(select(vec![1u32, 2, 4, 8, 16])),
        maybe((maybe(staged()), staged())),
        any::<bool>(),
        proptest::bool::weighted(0.2),
        maybe((1..4u32, 1..4u32)),
    );
    let rest = (
        maybe(number()),
        maybe(word::<FmaOrder>()),
        maybe(word::<Operands>()),
        maybe(select(vec![Edges::Predicate, Edges::None])),
    );
    let problem = (maybe(epilogue()), maybe((word(), word(), word(), word())), maybe(word::<Target>()));
    let types = maybe(select(vec![DType::F32, DType::F32, DType::F64, DType::I32]));
    (thread, grid, depth, memory, rest, problem, types).prop_map(
        |(thread, grid, depth, memory, rest, problem, types)| {
            let (m, n) = (thread.0 * grid.0, thread.1 * grid.1);
            let schedule = Schedule::new().thread(thread.0, thread.1);
            let (vector, orders, double, direct, roles) = memory;
            let mut s = if direct { schedule.tile_direct(m, n).shared_none() } else { schedule.tile(m, n, depth) };
            if !direct {
                if let Some((a, b)) = orders {
                    s = s.shared(a, Some(b));
                }
                if double {
                    s = s.double_buffer();
                }
                if let Some((producers, stages)) = roles.filter(|_| (grid.0 * grid.1).is_multiple_of(32)) {
                    let load = if producers == 1 { Load::Tma } else { Load::CpAsync };
                    s = s.load(load).specialize(WarpCount::Warps(producers));
                    if !double {
                        s = s.stages(stages);
                    }
                }
            }
            if let Some(width) = vector {
                s = s.vector(width);
            }
            let (unroll, order, operands, tail) = rest;
            if let Some(n) = unroll.filter(|n| depth.is_multiple_of((*n).max(1))) {
                s = s.unroll(n);
            }
            if let Some(order) = order {
                s = s.order(order);
            }
            if let Some(operands) = operands.filter(|_| !direct) {
                s = s.operands(operands);
            }
            if let Some(tail) = tail {
                s = s.tail(tail);
            }
            let (epilogue, layouts, target) = problem;
            if let Some(epilogue) = epilogue {
                s = s.epilogue(&epilogue);
            }
            if let Some((a, b, c, d)) = layouts {
                s = s.layout(ptx_gemm_dsl::types::Layouts { a, b, c, d });
            }
            if let Some(target) = target {
                s = s.target(target);
            }
            match types {
                Some(types) => s.types(types),
                None => s,
            }
        },
    )
}
