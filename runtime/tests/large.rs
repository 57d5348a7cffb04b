//! Large products on GPUs: the plans of `ptx_gemm_runtime::large` through streams and events. Skipped without a GPU.
#![cfg(feature = "cuda")]

use ptx_gemm_dsl::{Layout, Schedule};
use ptx_gemm_runtime::large::plan::{Links, Tuning};
use ptx_gemm_runtime::large::{Arguments, Large};
use ptx_gemm_runtime::{CompiledGemm, Device, Matrix, Shape};

const CLAUSES: &str = "tile(128, 128, 16); thread(8, 8); vector(4); double_buffer;";

/// Every GPU, and the first one twice, which tests both kinds of exchange on every machine.
fn devices() -> Vec<Device> {
    let gpus: Vec<Device> = (0..).map_while(|ordinal| Device::cuda(ordinal).ok()).collect();
    if gpus.is_empty() {
        println!("no CUDA device: GPU runs skipped");
    }
    gpus.first().cloned().into_iter().chain(gpus).collect()
}

fn integers(rows: usize, cols: usize, layout: Layout, seed: u64) -> Matrix<f32> {
    let values = Matrix::<i32>::random(rows, cols, seed);
    let shape = Shape { ld: Shape::packed(rows, cols, layout).ld + 4, ..Shape::packed(rows, cols, layout) };
    let mut matrix = Matrix::in_shape(shape, f32::NAN);
    for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
        matrix[(row, col)] = values[(row, col)] as f32;
    }
    matrix
}

fn bits(matrix: &Matrix<f32>) -> Vec<u32> {
    matrix.as_slice().iter().map(|x| x.to_bits()).collect()
}

/// One product with blocks, slabs and strips on `devices`, and the same in the memory of the first one.
fn check(devices: &[Device], clauses: &str, layouts: [Layout; 4], links: Option<Links>) {
    let schedule: Schedule = format!("{CLAUSES} {clauses}").parse().unwrap();
    let (m, n, k) = (1500, 1300, 1000);
    let [la, lb, lc, ld] = layouts;
    let (a, b, c) = (integers(m, k, la, 1), integers(k, n, lb, 2), integers(m, n, lc, 3));
    let uses_c = schedule.problem().unwrap().epilogue.uses_c();
    let mut want = integers(m, n, ld, 4);
    let gemm = CompiledGemm::new(&schedule, &devices[0]).unwrap();
    let call = if uses_c { gemm.c(&c).set("alpha", 2).set("beta", 3) } else { gemm.call() };
    call.multiply_into(&a, &b, &mut want).unwrap();

    let tuning = Tuning { depth: Some(128), ring: Some(3), strips: Some(3) };
    let mut large = Large::new(&schedule).unwrap().devices(devices).budget(6 << 20).tuning(tuning);
    if let Some(links) = links {
        large = large.links(links);
    }
    let arguments = || match uses_c {
        true => Arguments::new().c(&c).set("alpha", 2).set("beta", 3),
        false => Arguments::new(),
    };
    // Pageable, then page-locked.
    let mut d = integers(m, n, ld, 4);
    let cost = large.run(&mut d, &a, &b, &mut arguments()).unwrap();
    println!("{} devices, pageable: {:?} for {} operations", devices.len(), cost.time, cost.plan.operations.len());
    assert!(cost.plan.geometry.slabs > 1 && cost.plan.geometry.rounds.iter().product::<usize>() > 1, "{}", cost.plan);
    assert_eq!(bits(&d), bits(&want), "pageable, {clauses}");
    let (pa, pb) = (devices[0].pin(&a).unwrap(), devices[0].pin(&b).unwrap());
    let mut pd = devices[0].pin(&integers(m, n, ld, 4)).unwrap();
    let cost = large.run(&mut pd, &pa, &pb, &mut arguments()).unwrap();
    println!("{} devices, pinned: {:?}", devices.len(), cost.time);
    let pinned: Vec<u32> = pd.as_slice().unwrap().iter().map(|x| x.to_bits()).collect();
    assert_eq!(pinned, bits(&want), "pinned, {clauses}");
}

#[test]
fn a_product_in_blocks_has_the_bits_of_one_in_memory() {
    let devices = devices();
    let (row, col) = (Layout::Row, Layout::Col);
    for count in 1..=devices.len() {
        let some = &devices[devices.len() - count..];
        check(some, "", [row, row, row, row], None);
        check(some, "", [row, row, row, row], Some(Links::Host));
        let layout = "layout(a = col, b = row, c = col, d = row);";
        let epilogue = "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);";
        check(some, &format!("{layout} {epilogue}"), [col, row, col, row], None);
        let layout = "layout(a = row, b = col, c = col, d = col);";
        check(some, &format!("{layout} {epilogue}"), [row, col, col, col], None);
    }
}

/// An empty product, and one smaller than a tile.
#[test]
fn small_products_need_little() {
    let Some(device) = devices().into_iter().next() else { return };
    let schedule: Schedule = CLAUSES.parse().unwrap();
    let large = Large::new(&schedule).unwrap().devices(&[device]);
    for (m, n, k) in [(1, 1, 1), (0, 3, 3), (3, 3, 0)] {
        let (a, b) = (Matrix::from_fn(m, k, |_, _| 2.0f32), Matrix::from_fn(k, n, |_, _| 3.0f32));
        let mut d = Matrix::from_fn(m, n, |_, _| f32::NAN);
        large.run(&mut d, &a, &b, &mut Arguments::new()).unwrap();
        assert!(d.as_slice().iter().all(|x| *x == 6.0 * k as f32), "{d:?}");
    }
}
