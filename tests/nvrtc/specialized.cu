// sm_90a --optimised-only
// A persistent product D = A B of bf16 with roles: one thread of a warp group copies K-tiles by TMA into a ring, another warp group
// multiplies with one group of products in flight, and stores tiles of D by stmatrix and TMA while the next one is multiplied. A is
// m x k by rows, B is k x n by columns, D is m x n by rows; all tiles are swizzled by 128 bytes.

struct alignas(64) Map {
    unsigned long long words[16];
};

constexpr int SLOTS = 3, TILE = 64, TILE_BYTES = TILE * TILE * 2;

__device__ unsigned address(const void *shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

__device__ void wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void fetch(unsigned to, const Map &map, int k, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map), "r"(k), "r"(row), "r"(barrier) : "memory");
}

// Rows of 128 bytes, eight of them 1024 bytes from the next eight, swizzled by 128 bytes.
__device__ unsigned long long descriptor(unsigned tile) {
    return static_cast<unsigned long long>((tile & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define SUMS(x) \
    x(0), x(1), x(2), x(3), x(4), x(5), x(6), x(7), x(8), x(9), x(10), x(11), x(12), x(13), x(14), x(15), x(16), x(17), x(18), x(19), \
        x(20), x(21), x(22), x(23), x(24), x(25), x(26), x(27), x(28), x(29), x(30), x(31)
#define IN_OUT(i) "+f"(sums[i])

__device__ void multiply(float (&sums)[32], unsigned long long a, unsigned long long b, int adds) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, adds, 1, 1, 0, 0;\n"
        "}" : SUMS(IN_OUT) : "l"(a), "l"(b), "r"(adds));
}

__device__ unsigned pair(float low, float high) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

extern "C" __global__ __launch_bounds__(256, 1) void specialized(const __grid_constant__ Map map_a, const __grid_constant__ Map map_b,
                                                                 const __grid_constant__ Map map_d, int m, int n, int k) {
    __shared__ alignas(1024) unsigned char ring[SLOTS][2][TILE_BYTES];
    __shared__ alignas(1024) unsigned char out[TILE_BYTES];
    __shared__ unsigned long long full[SLOTS], empty[SLOTS];
    int across = (n + TILE - 1) / TILE, tiles = (m + TILE - 1) / TILE * across, depth = (k + TILE - 1) / TILE;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < SLOTS; slot++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full[slot])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&empty[slot])) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    int slot = 0, phase = 0;
    if (threadIdx.x >= 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x != 128) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            for (int kt = 0; kt < depth; kt++) {
                wait(address(&empty[slot]), phase ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&full[slot])),
                             "r"(2 * TILE_BYTES) : "memory");
                fetch(address(ring[slot][0]), map_a, kt * TILE, tile / across * TILE, address(&full[slot]));
                fetch(address(ring[slot][1]), map_b, kt * TILE, tile % across * TILE, address(&full[slot]));
                if (++slot == SLOTS) slot = 0, phase ^= 1;
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sums[32];
        for (int i = 0; i < 32; i++) sums[i] = 0;
        int before = -1;
        for (int kt = 0; kt < depth; kt++) {
            wait(address(&full[slot]), phase);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            unsigned long long a = descriptor(address(ring[slot][0])), b = descriptor(address(ring[slot][1]));
            for (int step = 0; step < 4; step++) multiply(sums, a + 2 * step, b + 2 * step, kt + step);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (before >= 0 && threadIdx.x == 0) arrive(address(&empty[before]));
            before = slot;
            if (++slot == SLOTS) slot = 0, phase ^= 1;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(IN_OUT)::"memory");
        if (before >= 0 && threadIdx.x == 0) arrive(address(&empty[before]));
        if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        asm volatile("bar.sync 1, 128;" ::: "memory");
        int row = warp * 16 + (lane / 8 & 1) * 8 + lane % 8;
        for (int eight = 0; eight < 8; eight += 2) {
            const float *part = sums + eight * 4;
            int chunk = eight + lane / 16;
            unsigned at = address(out) + row * 128 + ((chunk ^ row % 8) * 16);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(pair(part[0], part[1])),
                         "r"(pair(part[2], part[3])), "r"(pair(part[4], part[5])), "r"(pair(part[6], part[7])) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync 1, 128;" ::: "memory");
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map_d),
                         "r"(tile % across * TILE), "r"(tile / across * TILE), "r"(address(out)) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
