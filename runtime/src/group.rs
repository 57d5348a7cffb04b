//! `batch(grouped)`: products of any extents in one launch.

use ptx_gemm_dsl::DType;

use crate::arguments::{Arguments, DeviceMatrix, DeviceVector};
use crate::backend::{Lifetime, Output};
use crate::call::{self, Call, OnDevice, Prepared as Checked};
use crate::checks::{self, Extents};
use crate::compiled::{CompiledGemm, DeviceCall, Ready, Run};
use crate::element::Element;
use crate::error::{ArgumentError, Error};
use crate::matrix::Matrix;
use crate::prepared::Prepared;
use crate::shape::Stack;
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut, TypedMatrix};

/// Products on host matrices that one launch computes, each with its own extents, layouts in memory and vectors.
///
/// ```
/// # use ptx_gemm_runtime::{CompiledGemm, Device, Matrix};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = "tile(16, 16, 4); thread(2, 2); batch(grouped);".parse()?;
/// let gemm = CompiledGemm::new(&schedule, &Device::interpreter())?;
/// let ones = |rows, cols| Matrix::<f32>::from_fn(rows, cols, |_, _| 1.0);
/// let (mut d, mut e) = (Matrix::<f32>::zeros(2, 3), Matrix::<f32>::zeros(40, 1));
///
/// let (a, b, f, g) = (ones(2, 5), ones(5, 3), ones(40, 7), ones(7, 1));
/// let mut group = gemm.group();
/// group.push(&a, &b, &mut d);
/// group.push(&f, &g, &mut e);
/// group.run()?;
/// assert_eq!((d.get(1, 2), e.get(39, 0)), (Some(5.0), Some(7.0)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Group<'a> {
    gemm: CompiledGemm,
    scalars: Vec<(String, f64)>,
    products: Vec<GroupProduct<'a>>,
}

/// A product of a [`Group`].
#[derive(Debug)]
pub struct GroupProduct<'a> {
    call: Call<'a>,
    operands: Result<(AnyRef<'a>, AnyRef<'a>), ArgumentError>,
    d: Result<AnyMut<'a>, ArgumentError>,
    output: Output,
}

impl CompiledGemm {
    /// A group without products.
    pub fn group<'a>(&self) -> Group<'a> {
        Group { gemm: self.clone(), scalars: Vec::new(), products: Vec::new() }
    }

    /// D = epilogue(A B) for each A and the B with the same index, in new matrices with elements of A's type. If the
    /// numbers of A and B differ, the error names both.
    pub fn multiply_group<A: TypedMatrix>(
        &self,
        a: &[A],
        b: &[impl AsMatrix],
    ) -> Result<Vec<Matrix<A::Element>>, Error> {
        if a.len() != b.len() {
            return Err(ArgumentError::GroupCount { a: a.len(), b: b.len() }.into());
        }
        let mut results = Vec::new();
        for (index, (a, b)) in a.iter().zip(b).enumerate() {
            let in_product = |error| match error {
                Error::Argument(error) => Error::Argument(checks::in_product(index, error)),
                other => other,
            };
            results.push(self.call().empty_result(a, b).map_err(in_product)?);
        }
        let mut group = self.group();
        for ((a, b), d) in a.iter().zip(b).zip(&mut results) {
            group.push(a, b, d);
        }
        group.run()?;
        Ok(results)
    }
}

impl Call<'_> {
    /// A new matrix for a product, without padding, of A's type.
    fn empty_result<A: TypedMatrix>(&self, a: &A, b: &impl AsMatrix) -> Result<Matrix<A::Element>, Error> {
        let (left, right) = call::operands(a, b)?;
        let shape = self.result::<A::Element>(left, right, Stack::ONE);
        let shape = shape.map_err(|error| self.result_type::<A>("multiply_group", error.into()))?;
        let d = Matrix::try_in_shape(shape, <A::Element as Default>::default());
        Ok(d.ok_or_else(|| call::out_of_memory::<A::Element>(shape.len()))?)
    }
}

impl<'a> Group<'a> {
    /// The value of a run-time scalar, for all products.
    pub fn set(&mut self, name: &str, value: impl Into<f64>) -> &mut Group<'a> {
        self.scalars.push((name.into(), value.into()));
        self
    }

    /// Adds the product D = epilogue(A B). Its C and its vectors are set on the returned value.
    pub fn push(
        &mut self,
        a: &'a impl AsMatrix,
        b: &'a impl AsMatrix,
        d: &'a mut impl AsMatrixMut,
    ) -> &mut GroupProduct<'a> {
        let (operands, d) = (call::operands(a, b), call::result(d));
        let index = self.products.len();
        let call = Call::new(self.gemm.clone());
        self.products.push(GroupProduct { call, operands, d, output: Output::Fresh });
        &mut self.products[index]
    }

    /// The number of products.
    pub fn len(&self) -> usize {
        self.products.len()
    }

    /// Whether there are no products.
    pub fn is_empty(&self) -> bool {
        self.products.is_empty()
    }

    /// Computes every product in one launch. Every mistake is an error before that, with the product's index.
    pub fn run(&mut self) -> Result<Run, Error> {
        let (gemm, scalars) = (&self.gemm, &self.scalars);
        let mut checked = Vec::new();
        for (index, product) in self.products.iter_mut().enumerate() {
            product.call.scalars.clone_from(scalars);
            checked.push(product.check().map_err(|error| checks::in_product(index, error))?);
        }
        let backend = gemm.device().backend();
        let mut placed: Vec<OnDevice> = Vec::new();
        for (product, checked) in self.products.iter().zip(&checked) {
            let Parts { a, b, c, d } = product.parts()?;
            placed.push(product.call.transfer(backend, a, b, c, d, checked, product.output)?);
        }
        let products: Vec<(Extents, Arguments)> =
            checked.iter().zip(&placed).map(|(checked, placed)| (checked.extents, placed.arguments.clone())).collect();
        let run = gemm.run(gemm.ready_group(&products, Lifetime::Call)?)?;
        let entry = run.entry.as_deref().unwrap_or_default();
        for (product, placed) in self.products.iter_mut().zip(&placed) {
            if let Ok(d) = &mut product.d
                && !d.shape.is_empty()
            {
                product.call.download(backend, placed.arguments.d.address, entry, d.reborrow())?;
            }
        }
        Ok(run)
    }
}

/// The matrices of a product.
struct Parts<'a> {
    a: AnyRef<'a>,
    b: AnyRef<'a>,
    c: Option<AnyRef<'a>>,
    d: AnyRef<'a>,
}

impl<'a> GroupProduct<'a> {
    /// The matrix that the epilogue calls `c`.
    pub fn c(&mut self, c: &'a impl AsMatrix) -> &mut GroupProduct<'a> {
        self.call.c = Some(c.as_any());
        self
    }

    /// D is also what the epilogue calls `c`.
    pub fn in_place(&mut self) -> &mut GroupProduct<'a> {
        self.output = Output::InPlace;
        self
    }

    /// See [`Call::with_padding`].
    pub fn with_padding(&mut self) -> &mut GroupProduct<'a> {
        self.call.padding = true;
        self
    }

    /// A vector of the epilogue, with one element for each row (`name[m]`) or column (`name[n]`) of this D.
    pub fn vector<T: Element>(&mut self, name: &str, elements: &'a [T]) -> &mut GroupProduct<'a> {
        self.vector_bytes(name, T::DTYPE, bytemuck::cast_slice(elements))
    }

    /// The same for an element type known only at run time.
    pub fn vector_bytes(&mut self, name: &str, dtype: DType, bytes: &'a [u8]) -> &mut GroupProduct<'a> {
        self.call.vectors.push(call::AnyVector { name: name.into(), dtype, bytes });
        self
    }

    fn parts(&self) -> Result<Parts<'_>, ArgumentError> {
        let (a, b) = self.operands.clone()?;
        let d = self.d.as_ref().map_err(Clone::clone)?.as_ref();
        let c = if self.output == Output::InPlace { None } else { self.call.addend()? };
        Ok(Parts { a, b, c, d })
    }

    /// All checks of one product that host data allow.
    fn check(&self) -> Result<Checked, ArgumentError> {
        let Parts { a, b, c, d } = self.parts()?;
        let problem = self.call.gemm.problem();
        if self.output == Output::InPlace && !problem.epilogue.uses_c() {
            checks::check_c(problem, true, &[])?;
        }
        if self.output == Output::InPlace && self.call.c.is_some() {
            return Err(ArgumentError::TwoCs);
        }
        self.call.prepare(a, b, c, d, self.output)
    }
}

/// A product of a [`DeviceGroup`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceProduct<'a> {
    /// A, M x K.
    pub a: DeviceMatrix,
    /// B, K x N.
    pub b: DeviceMatrix,
    /// C, M x N: either identical to `d`, or disjoint from it.
    pub c: Option<DeviceMatrix>,
    /// D, M x N.
    pub d: DeviceMatrix,
    /// The epilogue's vectors by name, with elements of the accumulator's type.
    pub vectors: &'a [(&'a str, DeviceVector)],
}

/// Products on matrices that are already in device memory. The launch writes the list of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceGroup<'a> {
    /// The products.
    pub products: &'a [DeviceProduct<'a>],
    /// The epilogue's scalars by name, for all products.
    pub scalars: &'a [(&'a str, f64)],
}

/// A list of products in device memory that some kernel wrote, with extents that only the device knows, as in a mixture
/// of experts. [`crate::tile::record`] says what a record contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceList<'a> {
    /// Address of the first record, a multiple of [`crate::tile::record::RECORD_ALIGN`].
    pub address: u64,
    /// Number of records. A record with m or n of 0 costs a read.
    pub count: u32,
    /// The most tiles of D that all products together can have, if that is known: no more blocks are started. Otherwise
    /// the launch starts a whole wave.
    pub tiles: Option<u64>,
    /// Whether every product meets the requirements of the first entry of [`CompiledGemm::interface`] that has no
    /// tensor maps in its records. Otherwise the entry that takes any alignment runs.
    pub aligned: bool,
    /// The epilogue's scalars by name, for all products.
    pub scalars: &'a [(&'a str, f64)],
}

impl CompiledGemm {
    /// Runs the products of a group, and waits for completion. Every mistake in shapes, pointers and names is an error
    /// before the launch.
    ///
    /// # Safety
    ///
    /// As for [`CompiledGemm::launch`], for the matrices of every product.
    #[allow(unsafe_code)] // This is a declaration: the obligation is the caller's.
    pub unsafe fn launch_group(&self, group: &DeviceGroup<'_>) -> Result<Run, Error> {
        self.run(self.ready_group(&self.resolve_group(group)?, Lifetime::Call)?)
    }

    /// Checks the products of a group once, for many launches without a wait. Their list is written once.
    ///
    /// # Safety
    ///
    /// As for [`CompiledGemm::launch_group`], for as long as a launch may run.
    #[allow(unsafe_code)] // This is a declaration: the obligation is the caller's.
    pub unsafe fn prepare_group<'p>(&self, group: &DeviceGroup<'_>) -> Result<Prepared<'p>, Error> {
        self.kept(self.ready_group(&self.resolve_group(group)?, Lifetime::Kept)?)
    }

    /// Runs the products of a list in device memory, and waits for completion.
    ///
    /// # Safety
    ///
    /// The list is as [`crate::tile::record`] says, and nothing writes it until the call returns; its matrices are as for
    /// [`CompiledGemm::launch`], and no D overlaps another matrix of the list. The interpreter checks the accesses; a GPU
    /// does not.
    #[allow(unsafe_code)] // This is a declaration: the obligation is the caller's.
    pub unsafe fn launch_list(&self, list: &DeviceList<'_>) -> Result<Run, Error> {
        self.run(self.ready_list(list)?)
    }

    /// The same for many launches without a wait: each reads the list that it finds when it runs.
    ///
    /// # Safety
    ///
    /// As for [`CompiledGemm::launch_list`], for as long as a launch may run.
    #[allow(unsafe_code)] // This is a declaration: the obligation is the caller's.
    pub unsafe fn prepare_list<'p>(&self, list: &DeviceList<'_>) -> Result<Prepared<'p>, Error> {
        self.kept(self.ready_list(list)?)
    }

    fn ready_list(&self, list: &DeviceList<'_>) -> Result<Option<Ready>, Error> {
        let (problem, at) = (self.problem(), (list.address, list.count));
        let scalars = checks::resolve_scalars(&problem.epilogue, problem.types.epilogue(), list.scalars)?;
        let launch = checks::list(self.interface(), at, list.tiles, list.aligned, scalars)?;
        Ok(launch.map(|launch| Ready { steps: vec![self.step(self.in_one_wave(launch))], workspace: None }))
    }

    fn resolve_group(&self, group: &DeviceGroup<'_>) -> Result<Vec<(Extents, Arguments)>, Error> {
        let resolve = |(index, product): (usize, &DeviceProduct<'_>)| {
            let DeviceProduct { a, b, c, d, vectors } = *product;
            self.resolve(&DeviceCall { a, b, c, d, vectors, scalars: group.scalars }).map_err(|error| match error {
                Error::Argument(error) => Error::Argument(checks::in_product(index, error)),
                other => other,
            })
        };
        group.products.iter().enumerate().map(resolve).collect()
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Schedule;
    use ptx_gemm_dsl::terms::Param;

    use super::{DeviceGroup, DeviceProduct};
    use crate::compiled::CompiledGemm;
    use crate::device::Device;
    use crate::interp::Options;
    use crate::interpreter::InterpreterOptions;
    use crate::matrix::Matrix;

    /// The rows of each product in the order of the list, for products with these numbers of rows and of k.
    fn listed(clauses: &str, products: &[(usize, usize)]) -> Vec<u32> {
        let schedule: Schedule = clauses.parse().unwrap();
        let device = Device::interpreter();
        let gemm = CompiledGemm::new(&schedule, &device).unwrap();
        let zeros = |rows, cols| device.upload(&Matrix::<half::bf16>::zeros(rows, cols)).unwrap();
        let held: Vec<_> = products.iter().map(|&(rows, k)| (zeros(rows, k), zeros(k, 64), zeros(rows, 64))).collect();
        let products: Vec<DeviceProduct<'_>> = held
            .iter()
            .map(|(a, b, d)| DeviceProduct { a: a.matrix(), b: b.matrix(), c: None, d: d.matrix(), vectors: &[] })
            .collect();
        let resolved = gemm.resolve_group(&DeviceGroup { products: &products, scalars: &[] }).unwrap();
        let launch = gemm.launch_of_group(&resolved).unwrap().unwrap().launch;
        let record = gemm.interface().entries[launch.entry].record.as_ref().unwrap();
        let (_, at) = *record.fields.iter().find(|(param, _)| *param == Param::M).unwrap();
        let rows = |bytes: &[u8]| u32::from_le_bytes(bytes[at as usize..][..4].try_into().unwrap());
        launch.list.chunks(record.bytes as usize).map(rows).collect()
    }

    #[test]
    fn products_with_the_longest_tiles_come_first() {
        let products = [(40, 64), (300, 64), (0, 64), (130, 64), (40, 512)];
        let tile = "types(bf16); tile(64, 256, 64); atom(wgmma(64, 256, 16)); load(tma); stages(2); batch(grouped)";
        // 300 rows are two tiles of 160.
        assert_eq!(listed(&format!("{tile}; transposed"), &products), [40, 300, 130, 40, 0]);
        assert_eq!(listed(tile, &products), [40, 300, 0, 130, 40]);
    }

    /// Instructions of the longest warp of a launch, at most 1/16 too many, for products with these numbers of rows and
    /// of k.
    fn longest(clauses: &str, products: &[(usize, usize)], blocks: u32) -> u64 {
        let schedule: Schedule = clauses.parse().unwrap();
        let zeros = |rows, cols| Matrix::<half::bf16>::zeros(rows, cols);
        let (a, b): (Vec<_>, Vec<_>) = products.iter().map(|&(rows, k)| (zeros(rows, k), zeros(k, 64))).unzip();
        let mut limit = 1024;
        loop {
            let options = Options { max_instructions: Some(limit), ..Options::default() };
            let device = Device::interpreter_of_wave(InterpreterOptions { options, misalign: 0 }, blocks);
            match CompiledGemm::new(&schedule, &device).unwrap().multiply_group(&a, &b) {
                Ok(_) => return limit,
                Err(error) => assert!(error.to_string().contains("has executed"), "{error}"),
            }
            limit += limit / 16;
        }
    }

    /// The block with the costliest product of the first wave computes the cheapest of the second one.
    #[test]
    fn waves_of_unequal_tiles_alternate_direction() {
        let tile = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(2); \
                    batch(grouped)";
        let [most, some, least] = [40 * 64, 20 * 64, 64];
        let (one, both) = ([(64, most), (64, least)], [(64, most), (64, some), (64, some), (64, least)]);
        let (one, both) = (longest(tile, &one, 1), longest(tile, &both, 2));
        assert!(both < one * 6 / 5, "{both} instructions, and {one} of the costliest and the cheapest product");
    }

    /// The tensor maps of a list are in global memory, so each block has to acquire them.
    #[test]
    fn blocks_acquire_the_maps_of_a_list() {
        let clauses = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2); batch(grouped)";
        let (schedule, device): (Schedule, Device) = (clauses.parse().unwrap(), Device::interpreter());
        let gemm = CompiledGemm::new(&schedule, &device).unwrap();
        let zeros = |rows, cols| Matrix::<half::bf16>::zeros(rows, cols);
        let (a, b) = ([zeros(64, 64)], [zeros(64, 64)]);
        assert!(gemm.multiply_group(&a, &b).is_ok());
        let unfenced: Vec<&str> =
            gemm.ptx().lines().filter(|line| !line.contains("tensormap::generic.acquire")).collect();
        let kernel = gemm.kernel().edited(&unfenced.join("\n")).unwrap();
        let error = CompiledGemm::from_kernel(kernel, &device).unwrap().multiply_group(&a, &b).unwrap_err();
        assert!(error.to_string().contains("no thread of its block has acquired it"), "{error}");
    }
}
