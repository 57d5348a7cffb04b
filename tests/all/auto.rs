//! Products with schedules that are chosen for them.

use ptx_gemm::{Auto, Device, Layout, Matrix, MatrixRef, Reason, Schedule, matmul};

fn reference(a: &Matrix<f32>, b: &Matrix<f32>) -> Matrix<f32> {
    let product = |i, j| (0..a.cols()).map(|l| f64::from(a[(i, l)]) * f64::from(b[(l, j)])).sum::<f64>() as f32;
    Matrix::from_fn(a.rows(), b.cols(), product)
}

/// Of every layout, and of a type that only tensor cores multiply.
#[test]
fn products_are_right_whatever_is_chosen() {
    let device = Device::interpreter();
    let (a, b) = (
        Matrix::<f32>::from_fn(19, 33, |i, l| (i + l) as f32 % 5.0),
        Matrix::from_fn(33, 7, |l, j| (l * j) as f32 % 3.0),
    );
    let want = reference(&a, &b);
    assert_eq!(matmul(&device, &a, &b).unwrap(), want);
    let columns: Vec<f32> = (0..7).flat_map(|j| (0..33).map(move |l| (l, j))).map(|at| b[at]).collect();
    let view = MatrixRef::new(&columns, 33, 7).layout(Layout::Col);
    assert_eq!(matmul(&device, &a, &view).unwrap(), want);
    let auto = Auto::new("types(tf32); layout(b = col)", &device).unwrap();
    assert_eq!(auto.multiply(&a, &view).unwrap(), want);
    assert!(auto.choose(19, 7, 33).unwrap().schedule().to_string().contains("atom(mma"));
    assert_eq!(auto.choose(19, 7, 33).unwrap().reason(), &Reason::Interpreter);
    let mut d = Matrix::<f32>::zeros(19, 7);
    let run = auto.multiply_into(&a, &view, &mut d).unwrap();
    assert_eq!((d, run.chosen.schedule()), (want, auto.choose(19, 7, 33).unwrap().schedule()));
    assert!(run.blocks > 0 && run.chosen.reason().to_string() == "cheap to interpret");
}

/// Products of nearly the same size share a kernel, but not those with rows that are aligned in another way.
#[test]
fn sizes_are_in_buckets() {
    let auto = Auto::new("types(f32)", &Device::interpreter()).unwrap();
    let same = |x: [usize; 3], y: [usize; 3]| {
        let [x, y] = [x, y].map(|[m, n, k]| auto.choose(m, n, k).unwrap());
        std::sync::Arc::ptr_eq(&x, &y)
    };
    assert!(same([1000, 512, 512], [1024, 512, 512]) && same([4, 64, 64], [4, 64, 64]));
    assert!(!same([1000, 512, 512], [512, 512, 512]) && !same([1000, 512, 512], [1000, 511, 512]));
}

/// What is given is kept, and what nothing computes is said.
#[test]
fn clauses_that_are_given_are_kept() {
    let device = Device::interpreter();
    let auto = Auto::new("types(f32); epilogue(|acc, c| acc - c); tile(16, 16, 8)", &device).unwrap();
    let chosen = auto.choose(16, 16, 16).unwrap();
    let asked: Schedule = "types(f32); epilogue(|acc, c| acc - c); tile(16, 16, 8); thread(4, 4)".parse().unwrap();
    assert_eq!(chosen.schedule().problem().unwrap(), asked.problem().unwrap());
    assert!(chosen.schedule().to_string().contains("tile(16, 16, 8)"));
    let (a, b) = (Matrix::<f32>::random(16, 16, 1), Matrix::<f32>::random(16, 16, 2));
    let d = chosen.gemm().c(&a).multiply(&a, &b).unwrap();
    assert_eq!((d.rows(), d.cols()), (16, 16));
    assert!(Auto::new("types(f33)", &device).unwrap_err().to_string().contains("f33"));
    let none =
        Auto::new("types(f32); vector(3)", &device).and_then(|auto| auto.choose(1, 1, 1)).unwrap_err().to_string();
    assert!(none.contains("no family of schedules computes") || none.contains("vector"), "{none}");
}
