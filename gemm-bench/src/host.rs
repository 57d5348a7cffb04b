//! Host data of any element type, without padding: random operands, and results.

use ptx_gemm::random::SplitMix64;
use ptx_gemm::{AnyMut, AnyRef, AsMatrix, AsMatrixMut, DType, Shape, Stack, Strides};
use ptx_gemm_check::{decode, encode};

/// A matrix, or a stack of them, with a type known at run time.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) stack: Stack,
    bytes: Vec<u8>,
}

impl Host {
    /// Every byte `0xff`: NaN in every floating-point type, -1 in integers.
    pub(crate) fn poisoned(dtype: DType, shape: Shape, stack: Stack) -> Host {
        let elements = stack.len(shape).unwrap_or(0);
        Host { dtype, shape, stack, bytes: vec![0xff; elements * dtype.bytes() as usize] }
    }

    /// Multiples of 2^-23 in [-1, 1), rounded to the type; integers in [`DType::random_integers`].
    pub(crate) fn random(dtype: DType, shape: Shape, stack: Stack, seed: u64) -> Host {
        let mut numbers = SplitMix64::new(seed);
        let integers = dtype.random_integers();
        let mut host = Host::poisoned(dtype, shape, stack);
        for index in 0..host.elements() {
            let value = match dtype.is_integer() {
                true => numbers.next_in(*integers.start(), *integers.end()) as f64,
                false => numbers.next_signed(),
            };
            host.set(index, value);
        }
        host
    }

    /// The absolute values.
    pub(crate) fn magnitudes(&self, dtype: DType) -> Host {
        let mut host = Host::poisoned(dtype, self.shape, self.stack);
        (0..self.elements()).for_each(|index| host.set(index, self.get(index).abs()));
        host
    }

    pub(crate) fn elements(&self) -> usize {
        self.bytes.len() / self.dtype.bytes() as usize
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes of one element.
    pub(crate) fn raw(&self, index: usize) -> &[u8] {
        let size = self.dtype.bytes() as usize;
        &self.bytes[index * size..(index + 1) * size]
    }

    /// One element in memory order.
    pub(crate) fn get(&self, index: usize) -> f64 {
        decode(self.dtype, self.raw(index))
    }

    /// One element of one matrix.
    pub(crate) fn at(&self, product: usize, row: usize, col: usize) -> f64 {
        self.get(self.index(product, row, col))
    }

    pub(crate) fn index(&self, product: usize, row: usize, col: usize) -> usize {
        product * self.stack.stride + self.shape.index(row, col)
    }

    fn set(&mut self, index: usize, value: f64) {
        let size = self.dtype.bytes() as usize;
        encode(self.dtype, value, &mut self.bytes[index * size..(index + 1) * size]);
    }
}

impl AsMatrix for Host {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        Ok(AnyRef { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes: self.bytes.as_slice().into() })
    }
}

impl AsMatrixMut for Host {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        Ok(AnyMut { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes: self.bytes.as_mut_slice().into() })
    }
}
