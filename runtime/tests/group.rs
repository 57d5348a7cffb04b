//! `batch(grouped)`: products of different extents in one launch.

use ptx_gemm_dsl::terms::{Operand, Param};
use ptx_gemm_interp::{Counting, Options};
use ptx_gemm_runtime::tile::record::Record;
use ptx_gemm_runtime::{
    ArgumentError, CompiledGemm, Device, DeviceGroup, DeviceList, DeviceMatrix, DeviceProduct, Error, Expert,
    ExpertsCall, InterpreterOptions, Matrix, Shape,
};

fn compiled(clauses: &str) -> CompiledGemm {
    CompiledGemm::new(&clauses.parse().unwrap(), &Device::interpreter()).unwrap()
}

const SMALL: &str = "tile(16, 8, 4); thread(4, 2); vector(2); batch(grouped);";

fn a(m: usize, k: usize) -> Matrix<f32> {
    Matrix::from_fn(m, k, |i, j| ((3 * i + 5 * j) % 7) as f32 - 3.0)
}

fn b(k: usize, n: usize) -> Matrix<f32> {
    Matrix::from_fn(k, n, |i, j| ((2 * i + 3 * j) % 5) as f32 - 2.0)
}

fn product(a: &Matrix<f32>, b: &Matrix<f32>) -> Matrix<f32> {
    let at = |of: &Matrix<f32>, i, j| of.get(i, j).unwrap();
    Matrix::from_fn(a.shape().rows, b.shape().cols, |i, j| (0..a.shape().cols).map(|k| at(a, i, k) * at(b, k, j)).sum())
}

fn every(gemm: &CompiledGemm, extents: &[(usize, usize, usize)]) {
    let all: Vec<_> = extents.iter().map(|&(m, n, k)| (a(m, k), b(k, n))).collect();
    let (left, right): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let results = gemm.multiply_group(&left, &right).unwrap();
    for (index, d) in results.iter().enumerate() {
        assert_eq!(*d, product(&left[index], &right[index]), "product {index} of {extents:?}");
    }
}

#[test]
fn products_of_any_extents() {
    let gemm = compiled(SMALL);
    every(&gemm, &[]);
    every(&gemm, &[(0, 3, 4)]);
    every(&gemm, &[(5, 3, 0)]);
    every(&gemm, &[(16, 8, 4)]);
    every(&gemm, &[(40, 17, 9), (1, 1, 1), (0, 8, 8), (33, 20, 5), (8, 0, 3), (16, 16, 0), (2, 50, 13)]);
    every(&gemm, &[(0, 0, 0), (0, 4, 4), (64, 24, 8), (0, 1, 2)]);
    let tiny: Vec<_> = (0..40).map(|i| (i % 4, (i * 3) % 5, i % 3)).collect();
    every(&gemm, &tiny);
}

/// Tiles that do not fill a wave are divided along k, in pieces of 256, whatever the extents of their products are. The
/// interpreter has waves of 5 blocks.
#[test]
fn tiles_of_a_group_are_divided_along_k() {
    let gemm = compiled(&format!("{SMALL} stream_k;"));
    every(&gemm, &[]);
    every(&gemm, &[(5, 3, 0), (0, 3, 4)]);
    // One tile of five pieces, one for each block; of two pieces; of seven; of a piece and a K-tile.
    for k in [5 * 256, 2 * 256, 7 * 256, 260] {
        every(&gemm, &[(16, 8, k)]);
    }
    // Two, three and four tiles of different depth after zero waves, and after two.
    let rest = [(16, 8, 1000), (0, 8, 700), (5, 3, 2000), (16, 16, 0), (3, 8, 1), (7, 1, 1300)];
    for products in 2..rest.len() + 1 {
        every(&gemm, &rest[..products]);
        let whole = [(80, 8, 3), (40, 9, 0), (10, 24, 600), (0, 0, 0), (1, 1, 5)];
        every(&gemm, &[&whole[..], &rest[..products]].concat());
    }
    let tiny: Vec<_> = (0..40).map(|i| (i % 4, (i * 3) % 5, 300 * (i % 3))).collect();
    every(&gemm, &tiny);
}

#[test]
fn one_product_and_the_whole_epilogue() {
    let gemm = compiled(SMALL);
    let (x, y) = (a(20, 6), b(6, 11));
    assert_eq!(gemm.multiply(&x, &y).unwrap(), product(&x, &y), "a group of one");

    let clauses = "tile(16, 8, 4); thread(4, 2); vector(4); batch(grouped); \
                   epilogue(|acc, c, alpha, row, bias| alpha * acc + c + row[m] - bias[n]);";
    let gemm = compiled(clauses);
    let extents = [(20, 11, 6), (3, 8, 4), (0, 2, 2), (16, 8, 0)];
    let inputs = extents.map(|(m, n, k)| (a(m, k), b(k, n), a(m, n), vec![m as f32; m], vec![n as f32; n]));
    let mut results = extents.map(|(m, n, _)| a(m, n));
    let mut group = gemm.group();
    group.set("alpha", 2.0);
    for (index, ((x, y, c, row, bias), d)) in inputs.iter().zip(&mut results).enumerate() {
        let product = group.push(x, y, d).vector("row", row).vector("bias", bias);
        // Every other one in place.
        if index % 2 == 0 {
            product.c(c)
        } else {
            product.in_place()
        };
    }
    assert_eq!((group.len(), group.is_empty()), (4, false));
    let run = group.run().unwrap();
    assert_eq!(run.blocks, 5, "the wave of the interpreter");
    for ((m, n, k), ((x, y, c, ..), d)) in extents.into_iter().zip(inputs.iter().zip(&results)) {
        let sums = product(x, y);
        let expected =
            Matrix::from_fn(m, n, |i, j| 2.0 * sums.get(i, j).unwrap() + c.get(i, j).unwrap() + m as f32 - n as f32);
        assert_eq!(*d, expected, "{m} x {n} x {k}");
    }
}

fn message(error: Error) -> String {
    assert!(matches!(error, Error::Argument(_)), "{error:?}");
    error.to_string()
}

#[test]
fn mistakes_name_the_product() {
    let gemm = compiled(SMALL);
    let (x, y, wrong) = (a(4, 4), b(4, 4), b(5, 4));
    let mut results = [Matrix::<f32>::zeros(4, 4), Matrix::zeros(4, 4)];
    let [first, second] = &mut results;
    let mut group = gemm.group();
    group.push(&x, &y, first);
    group.push(&x, &wrong, second);
    assert_eq!(message(group.run().unwrap_err()), "product 1: B is 5 x 4, and A is 4 x 4: B needs 4 rows");
    let error = gemm.multiply_group(&[x.clone(), x.clone()], std::slice::from_ref(&y)).unwrap_err();
    assert_eq!(message(error), "2 matrices A and 1 matrices B: each product has one of each");
    let error = gemm.multiply_group(&[x.clone(), x.clone()], &[y.clone(), wrong]).unwrap_err();
    assert!(message(error).starts_with("product 1: B is 5 x 4"));
    let plain = compiled("tile(16, 8, 4); thread(4, 2); batch(strided);");
    let error = plain.multiply_group(&[x.clone(), x], &[y.clone(), y]).unwrap_err();
    assert_eq!(
        message(error),
        "2 products, and the schedule computes strided; batch(grouped) computes products of any extents"
    );
    let whole = compiled("tile(16, 8, 4); thread(4, 2); tail(none); batch(grouped);");
    let error = whole.multiply_group(&[a(16, 4), a(17, 4)], &[b(4, 8), b(4, 8)]).unwrap_err();
    assert!(message(error).starts_with("product 1: M = 17 is not a multiple of 16"));
    every(&whole, &[(16, 8, 4), (0, 8, 4), (32, 24, 8)]);
}

/// The first entry runs only if every product is aligned for it.
#[test]
fn one_misaligned_product_decides_the_entry() {
    let gemm = compiled(SMALL);
    let ones = |m, k| Matrix::<f32>::from_fn(m, k, |_, _| 1.0);
    let run = |columns: [usize; 3]| {
        let inputs = columns.map(|n| (ones(8, 4), ones(4, n)));
        let mut results = columns.map(|n| Matrix::<f32>::zeros(8, n));
        let mut group = gemm.group();
        for ((x, y), d) in inputs.iter().zip(&mut results) {
            group.push(x, y, d);
        }
        group.run().unwrap()
    };
    let even = run([8, 6, 8]);
    assert_eq!((even.entry.as_deref(), even.notes.len()), (Some("gemm_v2"), 0));
    let odd = run([8, 7, 8]);
    assert_eq!(odd.entry.as_deref(), Some("gemm_v1"));
    let notes = [
        "product 1: ldb = 7 is not a multiple of 2",
        "product 1: ldd = 7 is not a multiple of 2: running the scalar entry",
    ];
    assert_eq!(odd.notes, notes);
    assert_eq!(run([8, 0, 8]).entry.as_deref(), Some("gemm_v2"), "an empty product has no alignment");
}

/// If TMA cannot copy an operand, a kernel packs it: for each product separately, and only for products that need it.
#[test]
fn operands_are_packed_product_by_product() {
    let clauses = "target(sm_90); tile(32, 32, 8); thread(4, 4); load(tma); stages(2); pack(a, b); batch(grouped);";
    let options = Options { counting: Counting::On, ..Options::default() };
    let device = Device::interpreter_with(InterpreterOptions { options, ..InterpreterOptions::default() });
    let gemm = CompiledGemm::new(&clauses.parse().unwrap(), &device).unwrap();
    let kernels = |extents: &[(usize, usize, usize)]| {
        let all: Vec<_> = extents.iter().map(|&(m, n, k)| (a(m, k), b(k, n))).collect();
        let mut results: Vec<_> = extents.iter().map(|&(m, n, _)| Matrix::<f32>::zeros(m, n)).collect();
        let mut group = gemm.group();
        for ((a, b), d) in all.iter().zip(&mut results) {
            group.push(a, b, d);
        }
        let run = group.run().unwrap();
        for (index, ((a, b), d)) in all.iter().zip(&results).enumerate() {
            assert_eq!(*d, product(a, b), "product {index} of {extents:?}");
        }
        let packs = run.counts.unwrap().kernels.into_iter().filter(|counts| !counts.is_main);
        packs.map(|counts| (counts.kernel, counts.cost.unwrap().mix.store_global)).collect::<Vec<_>>()
    };
    // Rows of A have k elements, those of B have n, and TMA needs multiples of four of them. Empty products have no
    // rows.
    let aligned = [(40, 12, 8), (3, 4, 0), (0, 3, 3), (70, 36, 16)];
    assert_eq!(kernels(&aligned), []);
    let (odd_a, odd_b) = ((5, 36, 17), (33, 35, 16));
    let each = [&kernels(&[odd_a])[..], &kernels(&[odd_b])].concat();
    assert_eq!(each.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(), ["pack_a", "pack_b"]);
    assert_eq!(kernels(&[&aligned[..], &[odd_a, odd_b]].concat()), each);
    assert_eq!(kernels(&[odd_a, odd_a])[0].1, 2 * each[0].1);
}

/// Only pointers: overlaps are found without a launch.
#[test]
#[allow(unsafe_code)] // Each of these is refused before memory is accessed.
fn products_that_overlap_are_refused() {
    let gemm = compiled(SMALL);
    let at = |address, rows, cols| DeviceMatrix::new(address, Shape::packed(rows, cols, ptx_gemm_dsl::Layout::Row));
    let product =
        |a: u64, d: u64| DeviceProduct { a: at(a, 4, 4), b: at(0x9000, 4, 4), c: None, d: at(d, 4, 4), vectors: &[] };
    let launch = |products: &[DeviceProduct<'_>]| {
        // SAFETY: it is refused.
        message(unsafe { gemm.launch_group(&DeviceGroup { products, scalars: &[] }) }.unwrap_err())
    };
    assert_eq!(
        launch(&[product(0x1000, 0x2000), product(0x1000, 0x2020)]),
        "D of product 1 (bytes 0x2020..0x2060) overlaps D of product 0 (bytes 0x2000..0x2040), and the products of a group \
         are computed in no order"
    );
    assert_eq!(
        launch(&[product(0x1000, 0x2000), product(0x2030, 0x3000)]),
        "D of product 0 (bytes 0x2000..0x2040) overlaps A of product 1 (bytes 0x2030..0x2070), and the products of a group \
         are computed in no order"
    );
    assert!(launch(&[product(0x1000, 0x2000), product(0x2000, 0x2010)]).starts_with("product 1: D (bytes"));
    assert!(launch(&[product(0x1000, 0x2002)]).starts_with("product 0: the pointer of D, 0x2002"));
    let huge = DeviceProduct {
        a: at(0x10_0000_0000, 1 << 31, 1),
        b: at(0x1000, 1, 1 << 31),
        c: None,
        d: DeviceMatrix::new(0, Shape { rows: 1 << 31, cols: 1 << 31, layout: ptx_gemm_dsl::Layout::Row, ld: 1 << 31 }),
        vectors: &[],
    };
    assert!(matches!(
        unsafe { gemm.launch_group(&DeviceGroup { products: &[huge], scalars: &[] }) },
        Err(Error::Argument(ArgumentError::InProduct { index: 0, .. } | ArgumentError::GroupTiles { .. }))
    ));
}

/// A list that the caller wrote into device memory, as a kernel would. Its records are the same whether kernels compute
/// the products or their transposes, in tiles of 16 x 8 of D.
#[test]
fn a_list_in_device_memory() {
    list_in_device_memory("tile(16, 8, 4); thread(4, 2)");
    // The number of tiles is not known, and none is divided.
    list_in_device_memory("tile(16, 8, 4); thread(4, 2); stream_k");
    list_in_device_memory("transposed; tile(8, 16, 4); thread(2, 4)");
}

#[allow(unsafe_code)] // The matrices live until the calls have returned.
fn list_in_device_memory(tile: &str) {
    let gemm = compiled(&format!("{tile}; vector(4); batch(grouped); epilogue(|acc, alpha| alpha * acc);"));
    let device = gemm.device();
    let record = Record::with_maps(gemm.problem(), []).unwrap();
    assert_eq!(record.bytes, 128);
    let extents = [(20, 12, 8), (0, 5, 5), (33, 4, 0), (16, 16, 4)];
    let inputs = extents.map(|(m, n, k)| (a(m, k), b(k, n)));
    let on_device = inputs.each_ref().map(|(x, y)| (device.upload(x).unwrap(), device.upload(y).unwrap()));
    let results = extents.map(|(m, n, _)| device.upload(&Matrix::<f32>::from_fn(m, n, |_, _| -1.0)).unwrap());
    let mut bytes = Vec::new();
    for (index, (m, n, k)) in extents.into_iter().enumerate() {
        let [x, y, d] = [&on_device[index].0, &on_device[index].1, &results[index]].map(|matrix| matrix.matrix());
        bytes.extend(record.encode(|param| match param {
            Param::M => m as u64,
            Param::N => n as u64,
            Param::K => k as u64,
            Param::Matrix(Operand::A) => x.address,
            Param::Matrix(Operand::B) => y.address,
            Param::Matrix(_) => d.address,
            Param::Ld(Operand::A) => k as u64,
            Param::Ld(_) => n as u64,
            _ => 0,
        }));
    }
    let words: Vec<i32> = bytes.chunks(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect();
    let list = device.upload(&Matrix::from_fn(1, words.len(), |_, i| words[i])).unwrap();
    let scalars = [("alpha", 3.0)];
    let of = DeviceList { address: list.matrix().address, count: 4, tiles: None, aligned: false, scalars: &scalars };
    for (aligned, tiles, entry, blocks) in [
        (false, None, "gemm_v1", 5),
        (true, None, "gemm_v4", 5),
        (false, Some(2), "gemm_v1", 2),
        (true, Some(99), "gemm_v4", 5),
    ] {
        // SAFETY: as the list says.
        let run = unsafe { gemm.launch_list(&DeviceList { aligned, tiles, ..of }) }.unwrap();
        assert_eq!((run.entry.as_deref(), run.blocks), (Some(entry), blocks));
        for (((m, n, _), (x, y)), d) in extents.into_iter().zip(&inputs).zip(&results) {
            let sums = product(x, y);
            let expected = Matrix::from_fn(m, n, |i, j| 3.0 * sums.get(i, j).unwrap());
            let mut found = Matrix::<f32>::zeros(m, n);
            d.download(&mut found).unwrap();
            assert_eq!(found, expected, "{m} x {n}");
        }
    }
    // SAFETY: nothing is launched.
    let refused = |list| message(unsafe { gemm.launch_list(&list) }.unwrap_err());
    let address = of.address + 64;
    assert_eq!(
        refused(DeviceList { address, ..of }),
        format!("the list of products at {address:#x} is not at a multiple of 128 bytes")
    );
    assert!(refused(DeviceList { scalars: &[], ..of }).contains("`alpha` has no value"));
    let whole = compiled(&format!("{tile}; tail(none); batch(grouped);"));
    // SAFETY: nothing is launched.
    let error = unsafe { whole.launch_list(&DeviceList { scalars: &[], ..of }) }.unwrap_err();
    assert!(message(error).starts_with("no entry suits a list from device memory"));
    // SAFETY: there is nothing to compute.
    let nothing = unsafe { gemm.launch_list(&DeviceList { count: 0, ..of }) }.unwrap();
    assert_eq!((nothing.entry, nothing.blocks), (None, 0));
    // The interpreter reads a list with fewer records than stated. SAFETY: it checks every access.
    let beyond = unsafe { gemm.launch_list(&DeviceList { count: 5, ..of }) }.unwrap_err();
    assert!(matches!(beyond, Error::Interpreter(_)), "{beyond:?}");
}

/// Its A cannot have a tensor map, and needs none.
#[test]
fn a_product_without_tiles_may_have_any_alignment() {
    let gemm = compiled("tile(1, 4, 4); thread(1, 1); shared(a = mk, b = kn); load(tma); stages(1); batch(grouped);");
    every(&gemm, &[(1, 4, 4), (2, 0, 1), (0, 4, 3), (1, 4, 4)]);
    every(&gemm, &[(1, 2, 0), (2, 0, 1)]);
}

/// Tokens of one matrix, sorted by expert; many launches of one list.
#[test]
fn a_layer_of_experts() {
    let gemm = compiled(SMALL);
    let device = gemm.device();
    let (tokens, weights) = (a(50, 6), [b(6, 10), a(6, 10), b(6, 10), a(6, 10)]);
    let on_device = weights.each_ref().map(|weights| device.upload(weights).unwrap());
    let (x, d) = (device.upload(&tokens).unwrap(), device.upload(&Matrix::<f32>::zeros(50, 10)).unwrap());
    let rows = [17, 0, 30, 3];
    let expert = |(rows, b)| Expert { rows, b, vectors: &[] };
    let experts: Vec<_> = rows.into_iter().zip(&on_device).map(expert).collect();
    let call = ExpertsCall { a: &x, d: &d, experts: &experts, scalars: &[] };
    let prepared = gemm.prepare_experts(&call).unwrap();
    assert_eq!(prepared.blocks(), 5);
    let more = [expert((20, &on_device[0])), expert((31, &on_device[1]))];
    let error = gemm.prepare_experts(&ExpertsCall { experts: &more, ..call });
    assert_eq!(message(error.unwrap_err()), "the experts have 51 rows, A has 50 and D has 50");
    let other = device.upload(&Matrix::<f64>::zeros(6, 10)).unwrap();
    let error = gemm.prepare_experts(&ExpertsCall { experts: &[expert((20, &other))], ..call });
    assert_eq!(message(error.unwrap_err()), "B has elements of type f64, the schedule says b = f32");
}
