//! Random arguments of tensor maps, to compare [`TensorMap::encode`](super::TensorMap::encode) with a driver.

use super::{Interleave, TensorElement, TensorMapArgs};

/// A small generator (xorshift64*), identical on every host.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// `count` argument sets, the same for the same seed. The even ones are legal. In each odd one, one argument is
/// changed, which makes most of them illegal. No set reads or writes memory: addresses are only numbers.
pub fn random_tensor_maps(seed: u64, count: usize) -> Vec<TensorMapArgs> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut sets = Vec::with_capacity(count.min(1 << 20));
    for index in 0..count {
        let mut args = legal(&mut random);
        if index % 2 == 1 {
            change(&mut args, &mut random);
        }
        sets.push(args);
    }
    sets
}

fn legal(random: &mut Random) -> TensorMapArgs {
    let data_type = random.below(13) as u32;
    let element = TensorElement::from_number(data_type).unwrap_or(TensorElement::F32);
    let interleave = random.pick(&[0, 0, 0, 1, 2]);
    let least = if interleave == 0 { 1 } else { 3 };
    let rank = least + random.below(6 - least);
    let align = if interleave == Interleave::Bytes32.number() { 32 } else { 16 };
    let swizzle = random.below(4) as u32;
    let chunks = match (interleave, swizzle) {
        (0, 1) => 2,
        (0, 2) => 4,
        (0, 3) => 8,
        _ => 16,
    };
    let per_chunk = 16 / element.bytes();
    let inner = (per_chunk * (1 + random.below(chunks))).min(256);
    let mut box_dims = vec![inner as u32];
    // Below 228 KiB in total.
    let mut left = (228 << 10) / (inner * element.bytes());
    for _ in 1..rank {
        let size = 1 + random.below(left.clamp(1, 256));
        left /= size;
        box_dims.push(size as u32);
    }
    TensorMapArgs {
        data_type,
        rank: rank as u32,
        address: random.below(1 << 40) * align,
        dims: (0..rank).map(|_| 1 + random.below(random_bound(rank))).collect(),
        strides: (1..rank).map(|_| random.below(1 << 20) * align).collect(),
        box_dims,
        element_strides: (0..rank).map(|_| random.pick(&[1, 1, 1, 2, 3, 8])).collect(),
        interleave,
        swizzle,
        l2_promotion: random.below(4) as u32,
        oob_fill: if element.is_float() { random.below(2) as u32 } else { 0 },
    }
}

/// Dimensions of every order of magnitude.
fn random_bound(rank: u64) -> u64 {
    1 << (32 / rank)
}

/// Changes one argument to something at or beyond a limit.
fn change(args: &mut TensorMapArgs, random: &mut Random) {
    let rank = u64::from(args.rank);
    let axis = random.below(rank) as usize;
    match random.below(14) {
        0 => args.data_type = random.pick(&[13, 14, 16, 99]),
        1 => args.rank = random.pick(&[0, 1, 2]),
        2 => args.address += random.pick(&[1, 4, 8, 16, 1 << 57]),
        3 => args.dims[axis] = random.pick(&[0, 1 << 32, (1 << 32) + 1]),
        4 if rank > 1 => {
            let at = axis.min(args.strides.len() - 1);
            args.strides[at] = random.pick(&[8, 16, 24, 1 << 39, (1 << 40) - 16, 1 << 40]);
        }
        5 => args.box_dims[axis] = random.pick(&[0, 256, 257, 1000]),
        6 => args.box_dims[0] = random.pick(&[1, 2, 3, 4, 6, 8, 12, 16, 32, 36, 64, 128, 132]),
        7 => args.element_strides[axis] = random.pick(&[0, 8, 9, 16]),
        8 => args.interleave = random.pick(&[0, 1, 2, 3]),
        9 => args.swizzle = random.pick(&[1, 2, 3, 4, 5, 6]),
        10 => args.l2_promotion = random.pick(&[3, 4, 5]),
        11 => args.oob_fill = random.pick(&[1, 2]),
        12 => args.box_dims = vec![256; args.box_dims.len()],
        _ => args.data_type = random.below(13) as u32,
    }
}
