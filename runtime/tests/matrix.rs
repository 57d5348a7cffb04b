//! Host matrices from a user's view: elements by index, a short text, the type of a product.

use ptx_gemm_dsl::Layout;
use ptx_gemm_runtime::{CompiledGemm, Device, Matrix, Shape};

#[test]
fn elements_by_index() {
    for layout in [Layout::Row, Layout::Col] {
        let mut a = Matrix::in_shape(Shape { ld: 5, ..Shape::packed(2, 3, layout) }, 0.0f32);
        a[(1, 2)] = 7.0;
        a[(0, 1)] += 2.0;
        assert_eq!((a[(1, 2)], a[(0, 1)], a[(0, 0)]), (7.0, 2.0, 0.0));
        assert_eq!((a.get(1, 2), a.get(2, 0), a.get(0, 3)), (Some(7.0), None, None));
        // Padding is not an element, though the slice contains it.
        for place in [(2, 0), (0, 3)] {
            let said = std::panic::catch_unwind(|| a[place]).unwrap_err();
            let said = said.downcast_ref::<String>().unwrap();
            assert_eq!(*said, format!("element {place:?} of a matrix of 2 x 3"));
        }
    }
}

#[test]
fn the_debug_text_is_short() {
    let small = Matrix::from_fn(2, 3, |i, j| (i * 3 + j) as f32);
    assert_eq!(format!("{small:?}"), "Matrix<f32>(2 x 3, row major) [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]");
    let large = Matrix::from_fn(1000, 1000, |i, j| (i + j) as i32).with_ld(1024, 0).to_layout(Layout::Col);
    let text = format!("{:?}", large.with_ld(1024, 0));
    assert!(
        text.starts_with("Matrix<i32>(1000 x 1000, col major, ld = 1024) [[0, 1, 2, 3, ..], [1, 2, 3, 4, ..]"),
        "{text}"
    );
    assert!(text.ends_with("[3, 4, 5, 6, ..], ..]") && text.len() < 140, "{text}");
    assert_eq!(format!("{:?}", Matrix::<f64>::zeros(0, 3)), "Matrix<f64>(0 x 3, row major)");
}

/// Nothing here determines the element type of D.
#[test]
fn the_type_of_a_product_follows_from_a() {
    let compiled = |clauses: &str| {
        let text = format!("tile(16, 16, 4); thread(2, 2); {clauses}");
        CompiledGemm::new(&text.parse().unwrap(), &Device::interpreter()).unwrap()
    };
    let (a, b) = (Matrix::<f64>::random(3, 4, 1), Matrix::<f64>::random(4, 5, 2));
    let d = compiled("types(f64)").multiply(&a, &b).unwrap();
    assert_eq!(d[(2, 4)], d.get(2, 4).unwrap());
    let c = Matrix::<f64>::zeros(3, 5);
    let with_c = compiled("types(f64); epilogue(|acc, c| acc + c)").c(&c).multiply(&a, &b).unwrap();
    assert_eq!(d, with_c);
    // If D has another element type, the error says how to request it.
    let narrow = compiled("types(i32)");
    let error = narrow.multiply(&a, &b).unwrap_err().to_string();
    assert_eq!(error, "A has elements of type f64, the schedule says a = i32");
    let stacked = compiled("batch(strided); types(f64)");
    let stack = ptx_gemm_runtime::MatrixBatch::<f64>::random(2, 3, 3, 1);
    assert_eq!(stacked.multiply_batch(&stack, &stack).unwrap().count(), 2);
}

#[test]
fn the_best_device_says_why_it_is_not_a_gpu() {
    let best = Device::best().unwrap();
    match best.why_not_cuda() {
        None => assert!(Device::cuda(0).is_ok()),
        Some(why) => {
            assert!(best.to_string().contains("no CUDA device"), "{best}");
            assert!(why.to_string().starts_with("no CUDA device"), "{why}");
        }
    }
    // A requested interpreter does not report why it replaces a GPU.
    assert!(Device::interpreter().why_not_cuda().is_none());
    assert!(!Device::interpreter().to_string().contains("CUDA"));
}
